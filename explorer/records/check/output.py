"""Suppresses or records what a call prints, logs and warns of, in its thread."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explorer.records.check.isolate import undone

COMPILERS = ("torch", "explorer")
"""Loggers of these are about compiling, and are let through."""

Heard = Callable[[str], bool]
"""Is told of something that was written, "print" or "log" or "warn"; whether it goes on to where it was going."""


@contextmanager
def hushed() -> Iterator[None]:
    """Inside, in this thread, nothing is printed, logged or warned of."""
    with _listening(lambda kind: False):
        yield


@contextmanager
def noted() -> Iterator[set[str]]:
    """Inside, in this thread, what is printed, logged and warned of is let through; yields which of these happened."""
    found: set[str] = set()

    def heard(kind: str) -> bool:
        found.add(kind)
        return True

    with _listening(heard):
        yield found


@contextmanager
def _listening(heard: Heard) -> Iterator[None]:
    own = threading.get_ident()
    streams = sys.stdout, sys.stderr
    handle, show = logging.Logger.handle, warnings._showwarnmsg  # type: ignore[attr-defined]

    def handled(logger: logging.Logger, record: logging.LogRecord) -> None:
        mine = threading.get_ident() == own and logger.name.partition(".")[0] not in COMPILERS
        if not mine or heard("log"):
            handle(logger, record)

    def shown(message: Any) -> None:
        if threading.get_ident() != own or heard("warn"):
            show(message)

    def undo() -> None:
        for name, ours, before in zip(("stdout", "stderr"), theirs, streams, strict=True):
            if getattr(sys, name) is ours:
                setattr(sys, name, before)
        logging.Logger.handle = handle  # type: ignore[method-assign]
        warnings._showwarnmsg = show  # type: ignore[attr-defined]

    theirs = tuple(_Stream(stream, own, heard) for stream in streams)
    with undone(undo):
        sys.stdout, sys.stderr = theirs
        logging.Logger.handle = handled  # type: ignore[method-assign, assignment]
        warnings._showwarnmsg = shown  # type: ignore[attr-defined]
        yield


class _Stream(io.TextIOBase):
    """A stream whose writes of one thread are told of first."""

    def __init__(self, stream: Any, thread: int, heard: Heard) -> None:
        self._stream = stream
        self._thread = thread
        self._heard = heard

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread and text and not self._heard("print"):
            return len(text)
        return int(self._stream.write(text) or 0)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return bool(self._stream.isatty())

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
