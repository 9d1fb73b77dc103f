"""Writes what the browser tests open, into a folder: records, a comparison of capture methods and the ranks of a job,
pages of them, and saved notebooks with their outputs.

    python make.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TypeVar

import msgspec
import nbformat
import torch
import torch.nn.functional as F

import explorer
from explorer import Compared, Ranks
from explorer.show.record import Record

Shown = TypeVar("Shown", bound=msgspec.Struct)

HOSTILE = "</script></style><script>window.ran = true</script><img src=x onerror='window.ran = true'>"
"""Appended to every text of a record; sets `window.ran` wherever it is taken for markup."""

WORDS = {"role", "kind", "status", "property", "relation", "language", "op", "engine", "created"}
WORDS |= {"answer", "does", "state", "pane"}
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
    return Record(spoilt(record.data))


def branch(x: torch.Tensor, times: int) -> torch.Tensor:
    y = torch.sin(x)
    if y.sum() > 0:
        y = torch.relu(y)
    return y * times


QUICK = ("eager", "torch.jit.trace", "torch.jit.script", "torch.fx.symbolic_trace", "explorer.compile")


def compared() -> Compared:
    """Methods that are right, wrong and refuse, without those that take long."""
    return explorer.compare(branch, methods=QUICK)(torch.linspace(0.1, 1.0, 12).reshape(3, 4), 2)


def ranks() -> Ranks:
    """Two ranks of which one compiled something more."""
    return Ranks.load(Path(__file__).parent.parent.parent / "tests" / "logs")


def spoilt(data: Shown) -> Shown:
    """The same with script in every text."""
    return msgspec.convert(spoil(msgspec.to_builtins(data), ""), type(data))


def spoil(value: object, field: str) -> object:
    if isinstance(value, str):
        return value if field in WORDS else value + HOSTILE
    if isinstance(value, dict):
        return {name: spoil(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [spoil(each, field) for each in value]
    return value


def notebook(*records: Record | Compared | Ranks) -> nbformat.NotebookNode:
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
    sample = Path(__file__).parent.parent / "test" / "fixtures" / "sample.explore.json"
    Record.load(sample).to_html(folder / "sample.html")
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    explorer.explore(model, time=False)(torch.randn(4, 8)).to_html(folder / "model.html")
    nothing = msgspec.structs.replace(record.data, compiles=(), timing=None, recompiles=(), errors=(), eager=())
    Record(nothing).to_html(folder / "nothing.html")
    methods = compared()
    methods.save(folder / "branch.methods.json")
    for name, made in (("methods", methods), ("ranks", ranks())):
        bad_one = type(made)(spoilt(made.data))
        for prefix, one in (("", made), ("hostile-", bad_one)):
            one.to_html(folder / f"{prefix}{name}.html")
            nbformat.write(notebook(one), folder / f"{prefix}{name}.ipynb")
    whole = (folder / "plain.explore.json.gz").read_bytes()
    (folder / "damaged.explore.json.gz").write_bytes(whole[: len(whole) // 2])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
