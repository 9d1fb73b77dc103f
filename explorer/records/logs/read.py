"""What `explorer import` is given: a file of TORCH_TRACE, a folder of such files (one for each rank), or a folder of
TORCH_COMPILE_DEBUG."""

from __future__ import annotations

import datetime
import gzip
import os
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from explorer.core.regular import regular
from explorer.ir.record import RecordData
from explorer.records.logs import folder
from explorer.records.logs.log_entries import HEAD, entries
from explorer.records.logs.ranks import rank_of
from explorer.records.logs.trace import Reader

LARGEST = 1 << 29
"""Bytes of one log, unpacked."""

LONGEST = 1 << 25
"""Bytes of one line."""

MOST_FILES = 100_000
"""In a folder."""


class LogError(ValueError):
    """What was given holds no log that this version reads."""


def read(path: Path) -> tuple[RecordData, ...]:
    """A record for each process that left a log, by rank. Raises LogError saying what was expected, OSError where the
    path cannot be read. A damaged log gives what could be read; the record's `error` says what could not."""
    if not path.is_dir():
        return (_trace(path),)
    files = sorted(islice(path.rglob("*"), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise LogError(f"{path} holds over {MOST_FILES} files: expected the folder that TORCH_TRACE named")
    logs = [each for each in files if each.is_file() and _inside(each, path) and _is_trace(each)]
    if logs:
        return tuple(sorted(map(_trace, logs), key=_order))
    if any(folder.models(path)):
        return (folder.record(path, _created(path)),)
    raise LogError(
        f"{path} holds no log of torch.compile: expected what TORCH_TRACE wrote (dedicated_log_torch_trace_*.log), "
        "or a torch_compile_debug folder that TORCH_COMPILE_DEBUG=1 wrote"
    )


def _trace(path: Path) -> RecordData:
    if not _is_trace(path):
        raise LogError(
            f"{path} is not a structured trace: no line of its beginning starts like 'V1121 18:29:14.686000 28753 "
            "file.py:1] {' ; expected a file that TORCH_TRACE wrote, or a folder"
        )
    return Reader(os.fsencode(path.name).decode(errors="replace")).read(entries(_lines(path))).record(_created(path))


def _is_trace(path: Path) -> bool:
    beginning = (line for _, line in zip(range(20), _lines(path), strict=False))
    return any(HEAD.fullmatch(line.rstrip("\r\n")) for line in beginning)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a log that may be compressed; reading stops behind LARGEST bytes, or where an archive is damaged."""
    with regular(path) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        binary = gzip.GzipFile(fileobj=raw) if packed else raw
        read = 0
        try:
            while line := binary.readline(LONGEST + 1):
                read += len(line)
                if read > LARGEST or len(line) > LONGEST:
                    most, what = (LARGEST, "it") if read > LARGEST else (LONGEST, "a line of it")
                    yield f"(the log is cut here: {what} holds over {most >> 20} MiB)\n"
                    return
                yield line.decode(errors="replace")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield f"(the archive is damaged from here on: {error})\n"


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _order(record: RecordData) -> tuple[int, str]:
    rank = rank_of(record)
    return (-1 if rank is None else rank, record.title)


def _created(path: Path) -> str:
    changed = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    return changed.isoformat(timespec="seconds")
