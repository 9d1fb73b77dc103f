"""A record from a folder that TORCH_COMPILE_DEBUG=1 left (stock: torch_compile_debug/run_.../torchinductor/MODEL)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from explorer.core.regular import regular
from explorer.ir import operators
from explorer.ir import record as data
from explorer.records.logs.code import half
from explorer.records.logs.graphs import graph

LARGEST = 1 << 24
"""Bytes of one file."""

GRAPH_FILES = {
    "fx_graph_readable.py": ("graph given to Inductor", "given"),
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
        meanings=operators.meanings(compiles),
    )


def models(folder: Path) -> Iterator[Path]:
    """The folders that hold a model's files, in the order in which torch numbered them."""
    found = {path.parent for name in (CODE, *GRAPH_FILES) for path in folder.rglob(name)}
    return iter(sorted(found, key=lambda path: (_number(path), str(path))))


def _number(path: Path) -> int:
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
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        return f"(not read: {path.name} holds over {LARGEST >> 20} MiB)"
    return text.decode(errors="replace")
