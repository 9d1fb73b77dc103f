"""What stands on the stack of a frame beside the program's values."""

from __future__ import annotations

from typing import Any

from explorer.compiler.capture.values.base import Value
from explorer.compiler.capture.values.constant import Constant

HIDDEN = "___"
"""How the names of locals begin that compiled bytecode and continuations have for themselves."""


class Null(Value):
    """CPython's empty slot beside a callable, or an unbound local that is put aside."""

    def python_type(self) -> type:
        return type(None)

    def describe(self) -> str:
        return "null"


NULL = Null()


class Offset(Constant):
    """Where an exception was raised, for the line that a traceback shows. Reconstructed, it is the function's start:
    offsets in compiled bytecode are others."""

    def constant(self) -> Any:
        return 0
