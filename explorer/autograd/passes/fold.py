"""Constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from explorer.autograd.aliases import root, viewed
from explorer.autograd.passes.rewrite import (
    escaping,
    insert,
    is_call,
    is_random,
    may_share,
    remove_dead,
    same_layout,
    supersede,
)
from explorer.core.origin import union
from explorer.ir.graph import info

aten = torch.ops.aten
Number = int | float | bool


def fold_constants(graph: fx.Graph) -> None:
    """Compute on fills when compiling.

    mul(full([4], 2.), full([4], 3.))   ->   full([4], 6.)
    mul(a, full([4], 1.))               ->   a

    Only elementwise operators, evaluated by eager on one element of the same dtype, so that nothing rounds otherwise.
    Inductor: fx_passes/joint_graph.py (UniformValueConstantFolder).
    """
    outputs = escaping(graph)
    known: dict[fx.Node, Number] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(info(node).value, Tensor):
            continue
        if is_call(node, aten.full.default) and isinstance(node.args[1], (int, float)):
            known[node] = node.args[1]
        elif (below := viewed(node)) in known and info(below).value.dtype == info(node).value.dtype:
            known[node] = known[below]
        elif (same := unit_product(node, known)) is not None and may_share(node, same, outputs):
            outputs[root(same)] += outputs.pop(root(node), 0)
            supersede(node, same)
        elif (number := evaluated(node, known)) is not None and info(node).value.is_contiguous():
            value = info(node).value
            causes = union(info(node).origins, *(info(n).origins for n in node.all_input_nodes))
            shape = [size_argument(node, known, d) for d in range(value.dim())]
            if None in shape:
                continue
            facts = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
            made = insert(node, aten.full.default, (shape, number), facts, causes)
            known[made] = number
            if outputs[node]:
                outputs[made] = outputs.pop(node)
            supersede(node, made)
    remove_dead(graph)


def unit_product(node: fx.Node, known: dict[fx.Node, Number]) -> fx.Node | None:
    """The other factor of a product (or the dividend of a quotient) with a fill of ones that changes nothing."""
    if not is_call(node, aten.mul.Tensor, aten.div.Tensor) or len(node.args) != 2:
        return None
    left, right = node.args
    pairs = [(left, right)] if node.target is aten.div.Tensor else [(left, right), (right, left)]
    for kept, unit in pairs:
        if isinstance(kept, fx.Node) and isinstance(unit, fx.Node) and known.get(unit) == 1:
            if same_layout(info(kept).value, info(node).value):
                return kept
    return None


def evaluated(node: fx.Node, known: dict[fx.Node, Number]) -> Number | None:
    """The one value that all elements of `node` have, where its tensor arguments are fills."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.pointwise not in target.tags or is_random(node):
        return None
    inputs = node.all_input_nodes
    if not inputs or any(source not in known for source in inputs):
        return None
    with _disable_current_modes():
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: torch.tensor(known[n], dtype=info(n).value.dtype))
        result = target(*args, **kwargs)
        if result.dtype != info(node).value.dtype or result.is_complex():
            return None
        number: Number = result.item()
        return number


def size_argument(node: fx.Node, known: dict[fx.Node, Number], dimension: int) -> Any:
    """The size of one dimension as a graph argument: a number, or the size node that a fill of that size was given."""
    size = info(node).value.shape[dimension]
    if isinstance(size, int):
        return size
    for source in node.all_input_nodes:
        if is_call(source, aten.full.default):
            given: Any = source.args[0]
            if info(source).value.dim() == info(node).value.dim():
                return given[dimension]
    return None
