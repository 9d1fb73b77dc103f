"""The folder of built kernels: content-addressed, checked before it is used, private to the user, of bounded size."""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from explorer.compiler.runtime import reasons
from explorer.core.reasons import Unsupported, Why
from explorer.core.recorder import note

T = TypeVar("T")

CHECKSUM = ".sha256"
"""Ends the name of the file beside a built one, which holds what `sha256sum` prints of it."""

FILE_BYTES = 2**28
"""A larger file is none of ours."""

LINKS = 40
ABANDONED_SECONDS = 3600.0
"""After which an unfinished file or folder was left by a process that was killed."""

OURS = re.compile(r"(?P<entry>[0-9a-f]{32})(_\d+)?\.(cpp|so|so\.sha256)|(?P<module>\w+_[0-9a-f]{16})\.py(\.sha256)?")
UNFINISHED = re.compile(r"build-\w+|\S+\.part")
TRITON = "triton"


@dataclass(frozen=True, slots=True)
class CacheMoved:
    """Event: the cache folder could not be used, so that kernels go elsewhere."""

    wanted: str
    used: str
    why: Why


def in_some_folder(wanted: Path | None, build: Callable[[Path], T]) -> T:
    """What `build` makes in the first folder that serves: `wanted` or the user's own cache folder, else a temporary
    one. Raises Unsupported where it raises OSError in each."""
    failed: list[str] = []
    place = str(wanted or "the user's cache folder")
    try:
        first = wanted or default_folder()
        place = str(first)
        return build(private(first))
    except OSError as error:
        failed.append(f"{place}: {error_text(error)}")
    try:
        folder = temporary_folder()
        note(CacheMoved, place, str(folder), Why(reasons.CACHE_UNUSABLE, failed[0]))
        return build(folder)
    except OSError as error:
        failed.append(f"a temporary folder: {error_text(error)}")
    raise Unsupported(Why(reasons.NO_ROOM, "; ".join(failed)))


def error_text(error: OSError) -> str:
    return error.strerror or str(error)


def default_folder() -> Path:
    """Where built kernels are kept where nothing else is said. Raises OSError for a user without a home folder."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the specification has relative ones ignored
        return Path(base, "torch-explorer")
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    if not (os.environ.get("HOME", "/") and home.is_absolute() and home.is_dir()):
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder; set HOME or XDG_CACHE_HOME")
    return home / ".cache" / "torch-explorer"


@lru_cache(maxsize=1)
def temporary_folder() -> Path:
    """A folder of this process, gone when it ends. Raises OSError where there is no room for one."""
    failed: OSError = FileNotFoundError(errno.ENOENT, "no temporary folder can be written")
    for parent in (None, "/var/tmp", "/dev/shm"):
        try:
            made = Path(tempfile.mkdtemp(prefix="torch-explorer-", dir=parent))
            atexit.register(_remove_own, made, os.getpid())
            return private(made)
        except OSError as error:
            failed = error
    raise failed


def _remove_own(folder: Path, process: int) -> None:
    """Not by a child of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def private(folder: Path) -> Path:
    """The real path of a folder, made with mode 0700 where it is missing. Raises OSError unless it is the user's own,
    closed to others, writable and good to run code from, and nobody else can put another in its place."""
    real = _walked(folder.absolute())
    found = real.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user")
    if found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "others may write to it")
    if not os.access(real, os.W_OK | os.X_OK):
        raise PermissionError(errno.EPERM, "it is read-only")
    if os.statvfs(real).f_flag & getattr(os, "ST_NOEXEC", 0):
        raise PermissionError(errno.EPERM, "it is on a file system that is mounted noexec")
    return real


def _walked(path: Path) -> Path:
    """The real path, each folder and link on the way looked at; what is missing is made. Raises PermissionError where
    another user than root could change the way."""
    at, ahead, links = Path("/"), list(reversed(path.parts[1:])), 0
    _closed(at, at.stat())
    while ahead:
        name = ahead.pop()
        if name == "..":
            at = at.parent
            continue
        here = at / name
        try:
            found = here.lstat()
        except FileNotFoundError:
            here.mkdir(mode=0o700, exist_ok=True)
            found = here.lstat()
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, "its links go in circles")
            _owned(here, found)
            target = Path(os.readlink(here))
            ahead += reversed([part for part in target.parts if part != "/"])
            at = Path("/") if target.is_absolute() else at
            continue
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, f"{here} is not a folder")
        if ahead:
            _closed(here, found)
        at = here
    return at


def _owned(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid(), os.stat("/").st_uid):
        raise PermissionError(errno.EPERM, f"{path} belongs to another user")


def _closed(path: Path, found: os.stat_result) -> None:
    """Others may write to a folder on the way only where it is sticky, as /tmp is, or where they are the group of this
    user alone."""
    _owned(path, found)
    others = found.st_mode & (0o002 if found.st_gid == found.st_uid else 0o022)
    if others and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, f"others may write to {path}")


def read(path: Path, limit: int = FILE_BYTES) -> bytes | None:
    """The content of a regular file that nobody else can write; None where there is none. Never waits."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            trusted = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
            if not (stat.S_ISREG(found.st_mode) and trusted and found.st_size <= limit):
                return None
            return file.read(limit)
    except OSError:
        return None


def put(path: Path, content: bytes) -> Path:
    """Make the file hold exactly this: others see all of it or nothing. Raises OSError (no space, read-only)."""
    if read(path) == content:
        return path
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=path.name, suffix=".part", delete=False) as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            os.unlink(file.name)
            raise
    move(Path(file.name), path)
    return path


def move(made: Path, path: Path) -> None:
    """Put a finished file in its place, also where something else lies there."""
    if path.is_dir() and not path.is_symlink():
        remove(path)
    os.replace(made, path)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it; nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksum_file(path: Path) -> Path:
    return path.with_name(path.name + CHECKSUM)


def _checksum(path: Path, content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()}  {path.name}\n".encode()


def keep(made: Path, path: Path) -> None:
    """Put a built file in its place, on the disk before it has its name. Until `confirm` it is not `intact`. Nothing
    else waits for the disk: a text, a checksum or a name that a crash loses is made again."""
    remove(checksum_file(path))
    with made.open("rb") as file:
        os.fsync(file.fileno())
    move(made, path)


def confirm(path: Path) -> None:
    """Write the checksum of a kept file that has proved good. Raises OSError."""
    content = read(path)
    if content is None:
        raise FileNotFoundError(errno.ENOENT, f"{path} no longer exists")
    put(checksum_file(path), _checksum(path, content))


def intact(path: Path) -> bool:
    """Whether a file is as it was when it was confirmed under this name. It counts as used now."""
    content, checksum = read(path), read(checksum_file(path), 1000)
    if content is None or checksum != _checksum(path, content):
        return False
    try:
        os.utime(checksum_file(path))
    except OSError:  # a file of root's, which serves all the same
        return True
    return True


# What a folder holds, over all.


@dataclass
class CacheEntry:
    """What belongs to one built program: its files, their size, and when it was last used."""

    paths: list[Path] = field(default_factory=list)
    bytes: int = 0
    used: float = 0.0

    def add(self, path: Path) -> None:
        found = path.lstat()
        self.paths.append(path)
        self.bytes += found.st_size
        self.used = max(self.used, found.st_mtime)


def items(folder: Path) -> tuple[dict[str, CacheEntry], list[Path]]:
    """(what is kept, by name; what was left unfinished), of our own files alone."""
    kept: dict[str, CacheEntry] = defaultdict(CacheEntry)
    unfinished: list[Path] = []
    now = time.time()
    for path, name in _ours(folder):
        try:
            if name is None:
                if now - path.lstat().st_mtime > ABANDONED_SECONDS:
                    unfinished.append(path)
            else:
                for each in (path, *path.rglob("*")) if path.is_dir() and not path.is_symlink() else (path,):
                    kept[name].add(each)
        except OSError:  # another process has removed it meanwhile
            continue
    for name in [name for name, item in kept.items() if not item.paths]:
        del kept[name]
    return kept, unfinished


def _ours(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """(path, the name of what it belongs to; None for something unfinished)."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if UNFINISHED.fullmatch(path.name):
            yield path, None
        elif match := OURS.fullmatch(path.name):
            yield path, match["entry"] or match["module"]
        elif path.name == TRITON and path.is_dir() and not path.is_symlink():
            yield from ((inner, f"{TRITON}/{inner.name}") for inner in path.iterdir())


def trim(folder: Path, limit: int) -> int:
    """Remove what was used longest ago until `limit` bytes hold the rest with room to spare, and what was left
    unfinished. Returns the bytes removed."""
    kept, unfinished = items(folder)
    total = sum(item.bytes for item in kept.values())
    removed, wanted = 0, total - limit * 3 // 4 if total > limit else 0
    for path in unfinished:
        _drop(path)
    for item in sorted(kept.values(), key=lambda item: item.used):
        if removed >= wanted:
            break
        for path in item.paths:
            _drop(path)
        removed += item.bytes
    return removed


def clear(folder: Path) -> int:
    """Remove all of our own files, but not what another process is building. Returns the bytes removed."""
    removed = trim(folder, -1)
    for path, name in _ours(folder):
        if name is not None:
            _drop(path)
    return removed


def damaged(folder: Path) -> list[Path]:
    """Built files that are not as they were made; each would be built again before it is used."""
    built = [path for path, name in _ours(folder) if name is not None and path.suffix in (".so", ".py")]
    return [path for path in built if not intact(path)]


def _drop(path: Path) -> None:
    try:
        remove(path)
    except OSError:  # used or removed by another process; the next time will do
        return
