"""Operands of which only the shape is read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from explorer.autograd.layouts import inverse, stride_order
from explorer.autograd.passes.rewrite import insert, is_call, remove_dead
from explorer.ir.graph import info, restamp

aten = torch.ops.aten

SHAPE_ONLY: dict[Any, int] = {
    aten.max_pool2d_with_indices_backward.default: 1,
    aten.max_pool3d_with_indices_backward.default: 1,
    aten.adaptive_max_pool2d_backward.default: 1,
    aten.avg_pool2d_backward.default: 1,
    aten.avg_pool3d_backward.default: 1,
    aten._adaptive_avg_pool2d_backward.default: 1,
    aten._adaptive_avg_pool3d_backward.default: 1,
}
"""Library calls and the position of the operand that tells them only sizes and memory format."""


def shape_only_operands(graph: fx.Graph) -> None:
    """Give uninitialised memory where only a shape is read, so that the value need not be kept for it.

    max_pool2d_backward(g, a, [2], ..., i)   ->   max_pool2d_backward(g, empty(a.shape), [2], ..., i)

    Inductor decomposes these backwards instead.
    """
    for node in list(graph.nodes):
        if not is_call(node, *SHAPE_ONLY):
            continue
        position = SHAPE_ONLY[node.target]
        operand = node.args[position]
        value: Tensor = info(operand).value
        if is_call(operand, aten.empty.memory_format) or not all(isinstance(n, int) for n in value.shape):
            continue
        order = stride_order(value)
        facts = {"dtype": value.dtype, "device": value.device}
        blank = insert(node, aten.empty.memory_format, ([value.shape[d] for d in order],), facts, info(node).origins)
        restamp(blank, about=f"the shape of {info(operand).id}")
        if order != sorted(order):
            blank = insert(node, aten.permute.default, (blank, inverse(order)), {}, info(node).origins)
        node.update_arg(position, blank)
    remove_dead(graph)
