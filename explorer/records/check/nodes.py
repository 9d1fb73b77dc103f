"""A graph run eagerly, node by node, with every value kept: as it is, and in float64 as the referee."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from explorer.ir.graph import Graph, info
from explorer.records.check.referee import NARROW
from explorer.records.check.reference import arguments, call_node


@dataclass
class Values:
    """What each node yielded, by its id, as it was then (later writes in place do not show); and what was returned."""

    graph: Graph
    by_id: dict[str, Any] = field(default_factory=dict)
    returned: tuple[Any, ...] = ()
    inputs: tuple[Any, ...] = ()
    """What the inputs hold afterwards."""


def run_nodes(graph: Graph, inputs: Sequence[Any], *, referee: bool = False) -> Values:
    """Run on real inputs, which are updated where the graph updates them. With `referee` all of it is in float64.

    Raises what an operator raises.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(NARROW.get(default, default) if referee else default)
    try:
        return _run(graph, tuple(map(widened, inputs)) if referee else tuple(inputs), referee)
    finally:
        torch.set_default_dtype(default)


def _run(graph: Graph, given: tuple[Any, ...], referee: bool) -> Values:
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, given, strict=True))
    kept = Values(graph, inputs=given)
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        if node.op != "placeholder":
            values[node] = _value(graph, node, values, referee)
            if is_unwritten(node):
                values[node].zero_()
        kept.by_id[info(node).id] = tree_map(_snapshot, values[node])
    kept.returned = tuple(values[value] if isinstance(value, fx.Node) else value for value in graph.outputs)
    return kept


@contextmanager
def unwritten_memory_filled() -> Iterator[None]:
    """Memory that an operator takes and does not write holds NaN, or the largest number, in place of what was there."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # operators that have no other algorithm
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _value(graph: Graph, node: fx.Node, values: dict[fx.Node, Any], referee: bool) -> Any:
    if node.op == "get_attr":
        constant = graph.constants[str(node.target)]
        return widened(constant) if referee else constant
    args, kwargs = arguments(node, values)
    if referee:
        args, kwargs = tree_map(wide, (args, kwargs))
    return call_node(node, args, kwargs)


def wide(value: Any) -> Any:
    """What an operator of the referee's run gets in the place of a dtype; anything else as it is."""
    return NARROW.get(value, value) if isinstance(value, torch.dtype) else value


def is_unwritten(node: fx.Node) -> bool:
    """Whether the node is memory that may hold anything; a run here fills it with zeros."""
    name = getattr(node.target, "__name__", str(node.target))
    return name.partition(".")[0] in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def widened(value: Any) -> Any:
    """A copy of a tensor in the referee's dtype; anything else as it is."""
    if not isinstance(value, Tensor) or value.dtype not in NARROW:
        return value
    made = value.detach().to(NARROW[value.dtype])
    return made.requires_grad_(value.requires_grad)


def narrowed(value: Any) -> Any:
    """The tensors in a value of a run in float64, rounded to single precision."""
    single = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return tree_map(lambda t: t.to(single.get(t.dtype, t.dtype)) if isinstance(t, Tensor) else t, value)


def _snapshot(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def scale(values: Values, id: str) -> float:
    """The largest magnitude among what a node was computed from: its rounding errors are relative to that."""
    node = next(n for n in values.graph.graph.nodes if n.op != "output" and info(n).id == id)
    return magnitude(values.by_id[info(n).id] for n in node.all_input_nodes)


def magnitude(values: Iterable[Any]) -> float:
    """The largest finite magnitude among the floating-point tensors."""
    inexact = [v.detach() for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.numel()]
    largest = (v.abs()[torch.isfinite(v)] for v in inexact)
    return max((v.max().item() for v in largest if v.numel()), default=0.0)


def attempt(run: Callable[[], Values]) -> Values | None:
    """A run in float64, where every operator has one."""
    try:
        return run()
    except (RuntimeError, NotImplementedError):
        return None
