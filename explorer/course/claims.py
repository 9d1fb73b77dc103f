"""Claims of a lesson's text, asserted on a live record, so that the text cannot become wrong unnoticed."""

from __future__ import annotations

from typing import NamedTuple

from explorer.ir.record import RecordData
from explorer.show.view.diagnosis import break_places


class ClaimFailed(AssertionError):
    """What a lesson says does not hold on this machine, with these versions."""


def claim(condition: bool, text: str) -> None:
    """Print `text` where the condition holds. Raises ClaimFailed where it does not: then the lesson is wrong, or out of
    date with the installed torch."""
    if not condition:
        raise ClaimFailed(f"this does not hold here: {text}")
    print(f"✓ {text}")


class Figure(NamedTuple):
    """A number that one can predict of a record, what it counts, and the part of the record that shows it."""

    number: int
    counts: str
    part: str


def figures(record: RecordData) -> dict[str, Figure]:
    halves = [half for compile in record.compiles for half in compile.halves]
    captured = [
        next((s.graph for s in compile.stages if s.graph is not None), None) for compile in record.compiles
    ]
    calls = sum(node.op.startswith("call") for graph in captured if graph is not None for node in graph.nodes)
    guards = [guard for compile in record.compiles for guard in compile.guards if not guard.of_torch]
    kernels = [kernel for half in halves for kernel in half.kernels]
    kinds = [operation.kind for half in halves for operation in half.operations]
    kept = [saved.bytes for compile in record.compiles for saved in compile.saved if saved.fate == "kept"]
    return {
        "breaks": Figure(len(break_places(record.compiles)), "graph breaks", "breaks"),
        "graphs": Figure(sum(graph is not None for graph in captured), "captured graphs", "graphs"),
        "nodes": Figure(calls, "operations in the captured graphs", "graphs"),
        "guards": Figure(len(guards), "guards on the program's values", "guards"),
        "kernels": Figure(len(kernels), "generated kernels", "kernels"),
        "loops": Figure(kinds.count("loop"), "loops before fusion", "schedule"),
        "libraries": Figure(kinds.count("extern"), "library calls", "schedule"),
        "bytes": Figure(sum(kernel.bytes for kernel in kernels), "bytes read and written by kernels", "schedule"),
        "compiles": Figure(len(record.compiles), "compiles", "stages"),
        "kept": Figure(sum(kept), "bytes kept for the backward", "graphs"),
    }
