"""A frame of the evaluator: the body, where it stands, its names and its stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.compiler.capture.steps import Seen
from explorer.compiler.capture.values.base import Raised, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import CellValue
from explorer.ir.bytecode import Code, Handler

HIDDEN = "___"
"""How the names of locals begin that residual code and continuations have for themselves."""


class Null(Value):
    """CPython's empty slot beside a callable, or an unbound local that is put aside."""

    def python_type(self) -> type:
        return type(None)

    def describe(self) -> str:
        return "null"


NULL = Null()


class Offset(Constant):
    """Where an exception was raised, for the line that a traceback shows. Rebuilt, it is the function's start: offsets
    in residual code are others."""

    def constant(self) -> Any:
        return 0


@dataclass(frozen=True)
class Handled:
    """An exception being handled. `below` is the stack's entry, at `place`, that says what was handled before."""

    error: Value
    place: int
    below: Value


class Frame:
    """`position` is the next instruction's. `yielded` and `result` are set by the instructions that leave the frame."""

    def __init__(
        self,
        code: Code,
        globals: dict[str, Any],
        locals: dict[str, Value],
        index: dict[str, int],
        handlers: tuple[Handler | None, ...],
    ) -> None:
        self.code = code
        self.globals = globals
        self.locals = locals
        self.cells: dict[str, CellValue] = {}
        self.stack: list[Value] = []
        self.position = 0
        self.index = index
        self.handlers = handlers
        self.handled: list[Handled] = []
        self.pending: Raised | None = None
        self.result: Value | None = None
        self.yielded: Value | None = None
        self.seen: Seen | None = None
        """What was recorded of it, where somebody records."""

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Value]:
        if count == 0:
            return []
        found = self.stack[-count:]
        del self.stack[-count:]
        return found
