"""The oracle: artifacts run eagerly, so that each stage's result can be compared with eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from explorer.ir.graph import Graph


def run_graph(graph: Graph, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run the graph node by node on real inputs (tensors and sizes); what its output node returns."""
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "get_attr":
            values[node] = graph.constants[str(node.target)]
            continue
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "call_method":
            values[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    return tuple(values[value] if isinstance(value, fx.Node) else value for value in graph.outputs)
