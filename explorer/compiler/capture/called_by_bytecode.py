"""What compiled bytecode calls: the trampoline through continuations, how far Python's loop iterators are, and warnings
and log lines that happen where the traced program made them.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from explorer.core.package import OWN_FILES

KINDS = ("list_iterator", "tuple_iterator", "range_iterator", "str_iterator", "str_ascii_iterator", "bytes_iterator")


def progress(iterator: Any) -> tuple[Any, int] | None:
    """What the iterator goes over, and its position in that; None for one that has ended or is of another kind.

    Since 3.12 an iterator over a range goes over the rest alone, and its position, not told, is always 0. In both ways
    `iterator.__setstate__(n)` puts it at position n of what this function says that it goes over.
    """
    if type(iterator).__name__ not in KINDS:
        return None
    parts = iterator.__reduce__()
    if len(parts) != 3:
        return None
    return parts[1][0], parts[2] or 0


class NextContinuation:
    """What a continuation returns that goes on in another one: a call that is still to be made."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


def traceback_of(error: BaseException) -> types.TracebackType | None:
    return error.__traceback__


def as_it_was(error: BaseException, traceback: types.TracebackType | None) -> None:
    """Take back what raising `error` once more, to handle it again, did to its traceback."""
    if traceback is not None:
        error.__traceback__ = traceback


def run_continuations(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a continuation, and those that it goes on in: what the function that broke returns in the end."""
    made = function(*arguments)
    while type(made) is NextContinuation:
        made = made.function(*made.arguments)
    return made


OURS = (OWN_FILES, "<call of ")
"""Files of frames that the program does not have."""


def warn(message: Any, category: type[Warning] | None, file: str, line: int, namespace: dict[str, Any]) -> None:
    """warnings.warn, as if called at a line of a file by a module whose globals are `namespace`."""
    registry = namespace.setdefault("__warningregistry__", {})
    kind = type(message) if isinstance(message, Warning) else category or UserWarning
    warnings.warn_explicit(message, kind, file, line, namespace.get("__name__") or "<unknown>", registry)


def warn_caller(message: Any, category: type[Warning] | None, above: int) -> None:
    """warnings.warn, as if called in the `above`th frame of the program over the compiled function that calls this."""
    frames = _frames(sys._getframe(1))
    for _ in range(above):
        next(frames, None)
    frame = next(frames, None)
    if frame is None:
        warn(message, category, "sys", 0, vars(sys))
    else:
        warn(message, category, frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


def _frames(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """The frames that the program has, innermost first: a function is one with all its continuations."""
    same = False
    while frame is not None:
        if not frame.f_code.co_filename.startswith(OURS):
            if not same:
                yield frame
            same = frame.f_code.co_name.startswith("resume_in_")
        frame = frame.f_back


def log(logger: logging.Logger, level: int, message: Any, args: tuple[Any, ...], place: tuple[str, int, str]) -> None:
    """Logger.log, as if called at `place`: (file, line, function)."""
    if logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(logger.name, level, *place[:2], message, args, None, place[2]))
