"""Writes what the browser tests open, into a folder: records, pages of them, and a saved notebook with their outputs.

    python make.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import nbformat
import torch
import torch.nn.functional as F

import explorer
from explorer.ir.record import RecordData
from explorer.session import Record

HOSTILE = "</script></style><script>window.ran = true</script><img src=x onerror='window.ran = true'>"
"""Appended to every text of a record; sets `window.ran` wherever it is taken for markup."""

WORDS = {"role", "kind", "fate", "status", "property", "relation", "language", "op", "engine", "created"}
"""Fields with a few known words, which a viewer tells apart by them."""


def gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    gate = torch.sigmoid(x)
    y = F.gelu(x * weight) * gate
    print("a graph break")
    return y.sum(dim=-1)


def trained() -> Record:
    """A record with something in every pane: breaks, guards, gradients, kernels, timing."""
    weight = torch.randn(64, requires_grad=True)
    return explorer.explore(gated)(torch.randn(32, 64), weight)


def hostile(record: Record) -> Record:
    """The record with script in every text and every name; ids keep fitting together."""
    spoilt = msgspec.convert(spoil(msgspec.to_builtins(record.data), ""), RecordData)
    return Record(spoilt)


def spoil(value: object, field: str) -> object:
    if isinstance(value, str):
        return value if field in WORDS else value + HOSTILE
    if isinstance(value, dict):
        return {name: spoil(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [spoil(each, field) for each in value]
    return value


def notebook(*records: Record) -> nbformat.NotebookNode:
    """A notebook as it is saved after its cells ran: one a record."""
    cells = []
    for count, record in enumerate(records, 1):
        bundle, metadata = json.loads(json.dumps(record._repr_mimebundle_()))
        output = nbformat.v4.new_output("execute_result", bundle, metadata=metadata, execution_count=count)
        cells.append(nbformat.v4.new_code_cell("record", execution_count=count, outputs=[output]))
    return nbformat.v4.new_notebook(cells=cells)


def main(folder: Path) -> None:
    record = trained()
    bad = hostile(record)
    for name, each in (("plain", record), ("hostile", bad)):
        each.save(folder / f"{name}.explore.json")
        each.save(folder / f"{name}.explore.json.gz")
        each.to_html(folder / f"{name}.html")
        nbformat.write(notebook(each), folder / f"{name}.ipynb")
    whole = (folder / "plain.explore.json.gz").read_bytes()
    (folder / "damaged.explore.json.gz").write_bytes(whole[: len(whole) // 2])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
