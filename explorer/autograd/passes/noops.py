"""Operators that change nothing."""

from __future__ import annotations

import torch
from torch import fx

from explorer.autograd.aliases import root
from explorer.autograd.passes.rewrite import escaping, is_call, may_share, remove_dead, same_layout, supersede
from explorer.ir.graph import info

aten = torch.ops.aten
ALWAYS = frozenset({aten.detach.default, aten.alias.default})
SAME_SHAPE = frozenset(
    {aten.view.default, aten.expand.default, aten.permute.default, aten.squeeze.dims, aten.slice.Tensor}
)
COPIES = frozenset({aten.clone.default, aten._to_copy.default, aten.lift_fresh_copy.default})
UNITS = frozenset({aten.mul.Tensor, aten.div.Tensor})


def no_ops(graph: fx.Graph) -> None:
    """Drop views to the same shape, copies in the same layout and products with one.

    b = view(a, a.shape); c = clone(b); return mul(c, c)   ->   return mul(a, a)

    A copy stays where the caller would otherwise get one memory twice, or the memory of an input.
    Inductor: fx_passes/post_grad.py (remove_noop_ops).
    """
    outputs = escaping(graph)
    for node in list(graph.nodes):
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
            continue
        source = node.args[0]
        if node.target in ALWAYS:
            supersede(node, source)
            continue
        value = info(node).value
        if not isinstance(value, torch.Tensor) or not isinstance(info(source).value, torch.Tensor):
            continue
        if not same_layout(value, info(source).value):
            continue
        if node.target in SAME_SHAPE and value.storage_offset() == info(source).value.storage_offset():
            supersede(node, source)
        elif is_copy(node) and may_share(node, source, outputs):
            outputs[root(source)] += outputs.pop(root(node), 0)
            supersede(node, source)
    remove_dead(graph)


def is_copy(node: fx.Node) -> bool:
    """Whether the node yields its first argument's elements, in the same dtype by what the caller checked."""
    if node.target in UNITS:
        return len(node.args) == 2 and isinstance(node.args[1], (int, float)) and node.args[1] == 1
    same_place = "device" not in node.kwargs or node.kwargs["device"] == info(node.args[0]).value.device  # type: ignore[arg-type]
    return is_call(node, *COPIES) and same_place
