"""The folder of built kernels: content-addressed, private to the user, safe with several processes."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from explorer.core.reasons import Unsupported, Why
from explorer.core.recorder import note
from explorer.runtime import reasons


@dataclass(frozen=True, slots=True)
class CacheMoved:
    """Event: the cache folder could not be used, so that kernels go elsewhere."""

    wanted: str
    used: str
    why: Why


def cache_folder(wanted: Path | None) -> Path:
    """The folder to build in: `wanted`, or the user's own cache folder; a temporary one where that cannot be written.
    Raises Unsupported where neither can."""
    folder = wanted or _default()
    try:
        return _private(folder)
    except OSError as error:
        moved(folder, temporary_folder(), error)
    return temporary_folder()


def moved(wanted: Path, used: Path, error: OSError) -> None:
    """Note that kernels are built in another folder than wanted."""
    why = Why(reasons.CACHE_UNWRITABLE, f"{wanted}: {error.strerror or error}")
    note(CacheMoved, str(wanted), str(used), why)


@lru_cache(maxsize=1)
def temporary_folder() -> Path:
    """A folder of this process, gone when it ends. Raises Unsupported where there is no room for one."""
    try:
        made = Path(tempfile.mkdtemp(prefix="torch-explorer-"))
    except OSError as error:
        raise Unsupported(Why(reasons.NO_ROOM, str(error))) from error
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _default() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "torch-explorer"


def _private(folder: Path) -> Path:
    """Make the folder with mode 0700. Raises OSError unless it is the user's own, closed to others, and writable."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(None, "it belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise PermissionError(None, "others may write to it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(None, "it is read-only")
    return folder


def put(folder: Path, name: str, content: str) -> Path:
    """Write a file so that others see all of it or nothing. Raises OSError (no space, read-only)."""
    target = folder / name
    if target.exists():
        return target
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=name, suffix=".part", delete=False) as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            os.unlink(file.name)
            raise
    os.replace(file.name, target)
    return target
