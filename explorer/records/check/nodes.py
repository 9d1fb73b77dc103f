"""Runs a graph eagerly, node by node, keeping every value, also in float64: the oracle for each stage's result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from explorer.ir.graph import Graph, info
from explorer.records.check.float64 import NARROW


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


@dataclass
class NodeValues:
    """A copy of each node's value by id, taken when it was computed, and the graph's results."""

    graph: Graph
    by_id: dict[str, Any] = field(default_factory=dict)
    returned: tuple[Any, ...] = ()
    inputs: tuple[Any, ...] = ()
    """The inputs after the run."""


def run_nodes(graph: Graph, inputs: Sequence[Any], *, float64: bool = False) -> NodeValues:
    """Run on real inputs, which the graph may update in place. With `float64`, everything is computed in float64.

    Raises what an operator raises.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(NARROW.get(default, default) if float64 else default)
    try:
        return _run(graph, tuple(map(widened, inputs)) if float64 else tuple(inputs), float64)
    finally:
        torch.set_default_dtype(default)


def _run(graph: Graph, given: tuple[Any, ...], float64: bool) -> NodeValues:
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, given, strict=True))
    kept = NodeValues(graph, inputs=given)
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        if node.op != "placeholder":
            values[node] = _value(graph, node, values, float64)
            if is_unwritten(node):
                values[node].zero_()
        kept.by_id[info(node).id] = tree_map(_snapshot, values[node])
    kept.returned = tuple(values[value] if isinstance(value, fx.Node) else value for value in graph.outputs)
    return kept


@contextmanager
def unwritten_memory_filled() -> Iterator[None]:
    """Fills memory that an operator allocates and does not write with NaN, or with the largest integer."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # operators that have no other algorithm
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _value(graph: Graph, node: fx.Node, values: dict[fx.Node, Any], float64: bool) -> Any:
    if node.op == "get_attr":
        constant = graph.constants[str(node.target)]
        return widened(constant) if float64 else constant
    args, kwargs = arguments(node, values)
    if float64:
        args, kwargs = tree_map(wide, (args, kwargs))
    return call_node(node, args, kwargs)


def wide(value: Any) -> Any:
    """The float64 counterpart of a dtype; any other value unchanged."""
    return NARROW.get(value, value) if isinstance(value, torch.dtype) else value


def is_unwritten(node: fx.Node) -> bool:
    """Whether the node is uninitialized memory, which a run here fills with zeros."""
    name = getattr(node.target, "__name__", str(node.target))
    return name.partition(".")[0] in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def widened(value: Any) -> Any:
    """A copy of a tensor in float64; any other value unchanged."""
    if not isinstance(value, Tensor) or value.dtype not in NARROW:
        return value
    made = value.detach().to(NARROW[value.dtype])
    return made.requires_grad_(value.requires_grad)


def narrowed(value: Any) -> Any:
    """The float64 tensors in a value, rounded to float32."""
    single = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return tree_map(lambda t: t.to(single.get(t.dtype, t.dtype)) if isinstance(t, Tensor) else t, value)


def _snapshot(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def scale(values: NodeValues, id: str) -> float:
    """The largest magnitude among a node's inputs; its rounding errors are relative to that."""
    node = next(n for n in values.graph.graph.nodes if n.op != "output" and info(n).id == id)
    return magnitude(values.by_id[info(n).id] for n in node.all_input_nodes)


def magnitude(values: Iterable[Any]) -> float:
    """The largest finite magnitude among the floating-point tensors."""
    inexact = [v.detach() for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.numel()]
    largest = (v.abs()[torch.isfinite(v)] for v in inexact)
    return max((v.max().item() for v in largest if v.numel()), default=0.0)


def attempt(run: Callable[[], NodeValues]) -> NodeValues | None:
    """A float64 run, or None if an operator has no float64 form."""
    try:
        return run()
    except (RuntimeError, NotImplementedError):
        return None
