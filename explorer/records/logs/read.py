"""What `explorer import` is given: a file of TORCH_TRACE, a folder of such files (one for each rank), or a folder of
TORCH_COMPILE_DEBUG=1 (stock: torch_compile_debug/run_.../torchinductor/MODEL).
"""

from __future__ import annotations

import datetime
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from explorer.core.files import regular
from explorer.ir import record as data
from explorer.ir.record import RecordData
from explorer.records.data import operator_meanings
from explorer.records.logs.log_entries import HEAD, entries
from explorer.records.logs.printed import graph, half
from explorer.records.logs.ranks import rank_of
from explorer.records.logs.trace import records

LARGEST_FILE = 1 << 24
"""Bytes of one file."""

GRAPH_FILES = {
    "fx_graph_readable.py": ("graph passed to Inductor", "given"),
    "fx_graph_transformed.py": ("after post-grad passes", "post"),
}
CODE = "output_code.py"


def record(folder: Path, created: str) -> data.RecordData:
    """One compile for each model in the folder, each file of it a stage. Links lead nowhere outside the folder: what
    they point to is named and left out."""
    quoted: dict[tuple[str, int], str] = {}
    compiles = []
    for number, model in enumerate(models(folder)):
        compiles.append(_compile(f"s{number}", model, folder, quoted))
    logs = [path for path in sorted(folder.rglob("*.log")) if path.is_file()]
    stages = tuple(
        _stage(f"log/{n}", str(path.relative_to(folder)), _text(path, folder)) for n, path in enumerate(logs)
    )
    if stages:
        compiles.append(data.CompileData("log", "logs of the folder", 0.0, 0.0, stages=stages, engine="stock"))
    sources = tuple(data.SourceData(file, line, code) for (file, line), code in sorted(quoted.items()))
    return data.RecordData(
        data.VERSION,
        folder.name,
        "stock",
        "",
        created,
        {},
        {},
        sources,
        tuple(compiles),
        data.CoverageData(),
        meanings=operator_meanings.meanings(compiles),
    )


def models(folder: Path) -> Iterator[Path]:
    """The folders that hold a model's files, in the order in which torch numbered them."""
    found = {path.parent for name in (CODE, *GRAPH_FILES) for path in folder.rglob(name)}
    return iter(sorted(found, key=lambda path: (_number_in_name(path), str(path))))


def _number_in_name(path: Path) -> int:
    last = path.name.rpartition(".")[2]
    return int(last) if re.fullmatch("[0-9]{1,9}", last) else 0


def _compile(id: str, model: Path, folder: Path, quoted: dict[tuple[str, int], str]) -> data.CompileData:
    stages: list[data.StageData] = []
    halves: list[data.HalfData] = []
    for path in sorted(each for each in model.iterdir() if each.is_file()):
        text, name = _text(path, folder), f"{id}/{len(stages)}"
        if path.name in GRAPH_FILES:
            title, prefix = GRAPH_FILES[path.name]
            body, nodes, found = graph(title, prefix, text)
            quoted.update(found)
            stages.append(data.StageData(name, title, 0.0, 0.0, 0, body=body, graph=nodes))
        elif path.name == CODE:
            last = next((stage.graph for stage in reversed(stages) if stage.graph is not None), None)
            ids = {node.name: node.id for node in last.nodes} if last else {}
            halves.append(half(id, "backward" if "backward" in model.name else "forward", text, ids))
        else:
            stages.append(_stage(name, path.name, text))
    return data.CompileData(id, model.name, 0.0, 0.0, stages=tuple(stages), halves=tuple(halves), engine="stock")


def _stage(id: str, name: str, text: str) -> data.StageData:
    lines = tuple(data.LineData(line) for line in text.splitlines())
    return data.StageData(id, name, 0.0, 0.0, 0, body=data.TextData(lines))


def _text(path: Path, folder: Path) -> str:
    """A file's text, or why it is not read."""
    if not path.resolve().is_relative_to(folder.resolve()):
        return f"(not read: {path.name} is a link that leads out of the folder)"
    with regular(path) as file:
        text = file.read(LARGEST_FILE + 1)
    if len(text) > LARGEST_FILE:
        return f"(not read: {path.name} holds over {LARGEST_FILE >> 20} MiB)"
    return text.decode(errors="replace")


LARGEST = 1 << 29
"""Bytes of one log, unpacked."""

LONGEST = 1 << 25
"""Bytes of one line; of one that is longer the beginning is read."""

BEGINNING = 20
"""Lines by which a file is known."""

PRINTED = re.compile(r"(?:\[rank\d+\]:)?[VIWE]\d{4} \S+ \d+ \S+:\d+\] ")
"""How a message begins that torch logged for people."""

MOST_FILES = 100_000
"""In a folder."""


class LogError(ValueError):
    """What was given holds no log that this version reads."""


def read(path: Path) -> tuple[RecordData, ...]:
    """A record for each process that wrote to a log, by rank. Raises LogError saying what was expected, OSError where
    the path cannot be read. A damaged log gives what could be read; the record's `error` says what could not."""
    if not path.is_dir():
        return _traces(path)
    files = sorted(islice(path.rglob("*"), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise LogError(f"{path} holds over {MOST_FILES} files: expected the folder that TORCH_TRACE named")
    inside = (each for each in files if each.is_file() and each.resolve().is_relative_to(path.resolve()))
    logs = [each for each in inside if _is_trace(each)]
    if logs:
        return tuple(sorted(chain.from_iterable(map(_traces, logs)), key=_order))
    if any(models(path)):
        return (record(path, _created(path)),)
    raise LogError(
        f"{path} holds no log of torch.compile: expected what TORCH_TRACE wrote (dedicated_log_torch_trace_*.log), "
        "or a torch_compile_debug folder that TORCH_COMPILE_DEBUG=1 wrote"
    )


def _traces(path: Path) -> tuple[RecordData, ...]:
    if not _is_trace(path):
        if any(PRINTED.match(line) for line in islice(_lines(path), BEGINNING)):
            raise LogError(
                f"{path} has messages that TORCH_LOGS printed, which say less than torch's structured trace: run the "
                "program again with TORCH_TRACE=FOLDER, and import the folder"
            )
        raise LogError(
            f"{path} is not a structured trace: no line of its beginning starts like 'V1121 18:29:14.686000 28753 "
            "file.py:1] {' ; expected a file that TORCH_TRACE wrote, or a folder"
        )
    return records(os.fsencode(path.name).decode(errors="replace"), entries(_lines(path)), _created(path))


def _is_trace(path: Path) -> bool:
    return any(HEAD.fullmatch(line.rstrip("\r\n")) for line in islice(_lines(path), BEGINNING))


def _lines(path: Path) -> Iterator[str]:
    """The lines of a log that may be compressed; reading stops behind LARGEST bytes, or where an archive is damaged."""
    with regular(path) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        binary = gzip.GzipFile(fileobj=raw) if packed else raw
        read = 0
        try:
            while line := binary.readline(LONGEST + 1):
                yield line.decode(errors="replace")
                read += len(line)
                while len(line) > LONGEST and not line.endswith(b"\n") and read <= LARGEST:
                    line = binary.readline(LONGEST + 1)  # the rest of one that is too long to be read
                    read += len(line)
                if read > LARGEST:
                    yield f"(the log is cut here: it holds over {LARGEST >> 20} MiB)\n"
                    return
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield f"(the archive is damaged from here on: {error})\n"


def _order(record: RecordData) -> tuple[int, str]:
    rank = rank_of(record)
    return (-1 if rank is None else rank, record.title)


def _created(path: Path) -> str:
    changed = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    return changed.isoformat(timespec="seconds")
