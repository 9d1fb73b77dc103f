"""Claims of a lesson's text, asserted on a live record, so that the text cannot become wrong unnoticed."""

from __future__ import annotations

from explorer.ir.record import RecordData


class ClaimFailed(AssertionError):
    """What a lesson says does not hold on this machine, with these versions."""


def claim(condition: bool, text: str) -> None:
    """Print `text` where the condition holds. Raises ClaimFailed where it does not: then the lesson is wrong, or out of
    date with the installed torch."""
    if not condition:
        raise ClaimFailed(f"this does not hold here: {text}")
    print(f"✓ {text}")


def figures(record: RecordData) -> dict[str, tuple[int, str]]:
    """What one can predict of a record: each number, and the pane that shows it."""
    halves = [half for compile in record.compiles for half in compile.halves]
    captured = [
        next((s.graph for s in compile.stages if s.graph is not None), None) for compile in record.compiles
    ]
    calls = sum(node.op.startswith("call") for graph in captured if graph is not None for node in graph.nodes)
    guards = [guard for compile in record.compiles for guard in compile.guards if not guard.of_torch]
    return {
        "breaks": (sum(len(compile.breaks) for compile in record.compiles), "breaks"),
        "graphs": (sum(graph is not None for graph in captured), "graphs"),
        "nodes": (calls, "graphs"),
        "guards": (sum(guard.property != "global_state" for guard in guards), "guards"),
        "kernels": (sum(len(half.kernels) for half in halves), "schedule"),
        "loops": (sum(op.kind == "loop" for half in halves for op in half.operations), "schedule"),
        "libraries": (sum(op.kind == "extern" for half in halves for op in half.operations), "schedule"),
        "bytes": (sum(kernel.bytes for half in halves for kernel in half.kernels), "code"),
        "compiles": (len(record.compiles), "bytecode"),
        "kept": (sum(saved.bytes for compile in record.compiles for saved in compile.saved
                     if saved.fate == "kept"), "graphs"),
    }  # fmt: skip
