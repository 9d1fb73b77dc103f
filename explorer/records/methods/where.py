"""The line of the program that is running, or that made something."""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Iterable
from pathlib import Path

import torch

from explorer.core.package import PACKAGE

_COMPILERS = tuple(f"{each}{os.sep}" for each in (Path(torch.__file__).parent, PACKAGE))
_STANDARD = f"{os.path.dirname(os.__file__)}{os.sep}"
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


def user_line() -> str:
    """ "FILE:LINE" of the innermost frame that runs the program; "" where none does."""
    return _innermost(_frames(sys._getframe(1)))


def line_of(stack: str | None) -> str:
    """The same of a stack as Python prints it, innermost last."""
    return _innermost((file, int(line)) for file, line in reversed(_PLACE.findall(stack or "")))


def is_program(file: str) -> bool:
    """Whether a file is of the program: not of torch, of this package or of the standard library. Another library is,
    since that is where the lines of its models are."""
    if file.startswith(("<frozen", *_COMPILERS)):
        return False
    return not file.startswith(_STANDARD) or "site-packages" in file


def _frames(frame: types.FrameType | None) -> Iterable[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _innermost(places: Iterable[tuple[str, int]]) -> str:
    return next((f"{file}:{line}" for file, line in places if is_program(file)), "")
