"""The oracle: artifacts run eagerly, so that each stage's result can be compared with eager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from explorer.ir.graph import Graph


def run_graph(graph: Graph, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run the graph node by node on real inputs (tensors and sizes); what its output node returns."""
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            values[node] = graph.constants[str(node.target)]
        elif node.op not in ("placeholder", "output"):
            values[node] = call_node(node, *arguments(node, values))
    return tuple(values[value] if isinstance(value, fx.Node) else value for value in graph.outputs)


def arguments(node: fx.Node, values: Mapping[fx.Node, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The node's arguments with values in place of nodes."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    return args, kwargs


def call_node(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a call of a function or method yields."""
    target: Any = node.target
    if node.op == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)
