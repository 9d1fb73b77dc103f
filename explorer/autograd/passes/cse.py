"""Common subexpressions."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from explorer.autograd.aliases import root
from explorer.autograd.passes.rewrite import escaping, has_effect, is_tensor, remove_dead, supersede
from explorer.ir.graph import merge_origins

aten = torch.ops.aten


def common_subexpressions(graph: fx.Graph) -> None:
    """Compute the same thing once.

    a = exp(x); b = exp(x); return mul(a, b)   ->   a = exp(x); return mul(a, a)

    The survivor takes the origins of both. Two results that the caller gets in memory of their own stay two.
    AOTAutograd: _functorch/compile_utils.py (fx_graph_cse).
    """
    outputs = escaping(graph)
    first: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or has_effect(node):
            continue
        key = (node.target, frozen(node.args), frozen(node.kwargs))
        kept = first.setdefault(key, node)
        if kept is node:
            continue
        if is_tensor(node):
            kept_memory, memory = root(kept), root(node)
            if outputs[memory] and kept_memory is not memory:
                if outputs[kept_memory]:
                    continue
                outputs[kept_memory] += outputs.pop(memory)
        merge_origins(kept, node)
        supersede(node, kept)
    remove_dead(graph)


def frozen(value: Any) -> Any:
    """A hashable stand-in for an argument that tells 1 from 1.0 and True, and 0.0 from -0.0."""
    if isinstance(value, (tuple, list)):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple((name, frozen(part)) for name, part in sorted(value.items()))
    if isinstance(value, float):
        return float, value.hex()
    return value if isinstance(value, (fx.Node, torch.dtype)) else (type(value), str(value))
