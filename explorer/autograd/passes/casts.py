"""Casts to and fro."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from explorer.autograd.aliases import root
from explorer.autograd.passes.rewrite import escaping, insert, may_share, remove_dead, same_layout, supersede
from explorer.core.origin import union
from explorer.ir.graph import info

aten = torch.ops.aten


def exact_casts(graph: fx.Graph) -> None:
    """Drop a first cast that loses nothing.

    _to_copy(_to_copy(a: bf16, f32), bf16)   ->   a
    _to_copy(_to_copy(a: bf16, f32), f64)    ->   _to_copy(a, f64)

    A first cast that rounds (f32 to bf16) stays. Inductor: fx_passes/joint_graph.py (pointless_convert).
    """
    outputs = escaping(graph)
    for node in list(graph.nodes):
        below: Any = node.args[0] if node.args else None
        if not (is_plain_cast(node) and isinstance(below, fx.Node) and is_plain_cast(below)):
            continue
        source: Any = below.args[0]
        before, between, after = (info(n).value for n in (source, below, node))
        if not is_lossless(before.dtype, between.dtype):
            continue
        if before.dtype == after.dtype:
            if same_layout(before, after) and may_share(node, source, outputs):
                outputs[root(source)] += outputs.pop(root(node), 0)
                supersede(node, source)
            continue
        causes = union(info(below).origins, info(node).origins)
        supersede(node, insert(node, aten._to_copy.default, (source,), {"dtype": after.dtype}, causes))
    remove_dead(graph)


def is_plain_cast(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is aten._to_copy.default and set(node.kwargs) == {"dtype"}


def is_lossless(a: torch.dtype, b: torch.dtype) -> bool:
    """Whether every value of `a` is a value of `b`."""
    if a == b or a is torch.bool:
        return True
    if a.is_complex or b.is_complex or b is torch.bool:
        return False
    if a.is_floating_point:
        return b.is_floating_point and exponent_bits(a) <= exponent_bits(b) and digits(a) <= digits(b)
    if b.is_floating_point:
        return bool(torch.iinfo(a).max < 2 ** digits(b))
    return bool(torch.iinfo(b).min <= torch.iinfo(a).min and torch.iinfo(a).max <= torch.iinfo(b).max)


def digits(dtype: torch.dtype) -> int:
    """Binary digits of the significand, the hidden one included."""
    return {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}.get(dtype, 0)


def exponent_bits(dtype: torch.dtype) -> int:
    return {torch.float16: 5, torch.bfloat16: 8, torch.float32: 8, torch.float64: 11}.get(dtype, 99)
