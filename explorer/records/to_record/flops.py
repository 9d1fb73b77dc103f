"""Floating-point operations of library calls: matrix products, convolutions and attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from msgspec.structs import replace
from torch import fx
from torch.utils.flop_counter import flop_registry

from explorer.ir import record as data
from explorer.ir.graph import Graph, info


def counted(halves: Iterable[data.HalfData], graphs: Iterable[Graph]) -> tuple[data.HalfData, ...]:
    """The halves with the operations of each library call, as torch counts them for the nodes that it computes."""
    of_node = {info(node).id: flops(node) for graph in graphs for node in graph.graph.nodes if counts(node)}

    def of_half(half: data.HalfData) -> data.HalfData:
        calls = {each.id: sum(of_node.get(id, 0) for id in each.origins) for each in half.operations}
        extern = {each.id: calls[each.id] for each in half.operations if each.kind == "extern" and calls[each.id]}
        return replace(half, extern_flops=extern)

    return tuple(map(of_half, halves))


def counts(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and _formula(node.target.overloadpacket) is not None


def flops(node: fx.Node) -> int:
    """By size hints; 0 where a size has none."""
    assert isinstance(node.target, torch._ops.OpOverload)
    formula = _formula(node.target.overloadpacket)
    assert formula is not None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: info(each).value)
    found = formula(*args, **kwargs, out_val=info(node).value)
    return int(found.node.hint or 0) if isinstance(found, torch.SymInt) else int(found)


@cache
def _formula(operator: Any) -> Callable[..., Any] | None:
    """torch's own; attention's kernel for the CPU counts as the one for cards."""
    known: Mapping[Any, Callable[..., Any]] = flop_registry
    name = operator.__name__
    other = getattr(torch.ops.aten, name.replace("_for_cpu", ""), None) if "_for_cpu" in name else None
    return known.get(operator) or known.get(other)
