"""Stops a repeated call before it changes anything outside the process, by Python's audit hooks for files, processes
and connections."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from explorer.compiler.capture.hook import unseen_by_stock
from explorer.core.package import PACKAGE
from explorer.records.check.isolate import is_programs

EVENTS = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.utime", "os.chdir", "os.putenv", "os.unsetenv", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork",
    "os.forkpty", "os.kill", "os.killpg", "shutil.", "subprocess.", "socket.connect", "socket.bind", "socket.sendto",
    "socket.sendmsg", "sqlite3.connect", "urllib.Request", "webbrowser.", "smtplib.", "ftplib.", "builtins.input",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Outside(BaseException):
    """A repeated call was about to change something outside the process. No error of the program, so that its own
    handlers let it through."""


_watched = threading.local()
_installed = threading.Lock()


@contextmanager
def kept_inside() -> Iterator[None]:
    """Inside, in this thread, raises Outside before the program writes a file, starts a process or connects to
    something. What compilers do for themselves is let through."""
    _install()
    before = getattr(_watched, "now", False)
    _watched.now = True
    try:
        yield
    finally:
        _watched.now = before


@contextmanager
def heard() -> Iterator[list[str]]:
    """Inside, in this thread, what the program writes, starts or connects to is let through, and noted."""
    _install()
    before, noted = getattr(_watched, "now", False), list[str]()
    _watched.now = noted
    try:
        yield noted
    finally:
        _watched.now = before


@cache
def _install() -> None:
    """Once: Python never takes an audit hook away, nor is it part of what anybody compiles."""
    unseen_by_stock(_hear, with_callees=True)
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...], watched: threading.local = _watched) -> None:
    """`watched` is bound here, since the hook is called when the interpreter has let go of this module."""
    now = getattr(watched, "now", False)
    if now is False or event != "open" and not event.startswith(EVENTS):
        return
    if event == "open" and not _writes(*arguments[:3]):
        return
    watched.now = False  # what follows may be announced itself
    try:
        asked = _asked_by_compiler(sys._getframe(1))
    finally:
        watched.now = now
    if not asked:
        what = f"open {arguments[0]!r} for writing" if event == "open" else f"call {event}"
        if now is True:
            raise Outside(f"it would {what} once more")
        now.append(what)


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return not set(mode).isdisjoint("wax+")
    return isinstance(flags, int) and bool(flags & WRITING)


@cache
def _folders() -> tuple[str, ...]:
    """Folders of compilers."""
    torch_dir, own = Path(torch.__file__).parent, PACKAGE
    return tuple(f"{each}{os.sep}" for each in (torch_dir, own, torch_dir.parent / "triton"))


def _asked_by_compiler(frame: FrameType | None) -> bool:
    """Whether it was a compiler that asked, and not the program: other libraries act for whoever calls them."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_folders()):
            return True
        if is_programs(frame.f_code):
            return False
        frame = frame.f_back
    return False
