"""What it costs to keep a value, and which values are not worth computing again.

AOTAutograd: partitioners.py (OpTypes, should_ban_recomputation, get_node_weight).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from explorer.compiler.autograd.reasons import (
    KEPT_IN_MEMORY,
    KEPT_LIBRARY,
    KEPT_OPERAND,
    KEPT_RANDOM,
    KEPT_REDUCTION,
    KEPT_SIZE,
    RECOMPUTED_CHEAP,
    RECOMPUTED_CONSTANT,
    RECOMPUTED_VIEW,
)
from explorer.compiler.autograd.rewriting import is_random
from explorer.compiler.autograd.sizes import Symbolic, size_weight
from explorer.compiler.autograd.tape import is_view
from explorer.core.reasons import Why
from explorer.core.rules import RuleTable
from explorer.ir.graph import info

aten = torch.ops.aten

REDUCTIONS = frozenset(
    {
        aten.sum.dim_IntList, aten.prod.default, aten.prod.dim_int, aten.amax.default, aten.amin.default,
        aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.argmax.default,
        aten.argmin.default,
    }
)  # fmt: skip
LOOPS = frozenset(
    {
        aten.clone.default, aten._to_copy.default, aten.index.Tensor, aten._unsafe_index.Tensor, aten.gather.default,
        aten.embedding.default, aten.cat.default, aten.constant_pad_nd.default, aten.slice_scatter.default,
        aten.select_scatter.default, aten.flip.default, aten.full.default, aten.arange.start_step,
        aten.empty.memory_format,
    }
)  # fmt: skip
"""What loops express beside elementwise operators and reductions."""

COSTS: RuleTable[str, Callable[..., float]] = RuleTable("cost", {"keep"}.__contains__)
"""keep(node, results, level): what it costs to keep a value for the backward."""

SMALL = 4
"""A reduction's result is small where its input is at least this many times as large."""


def is_library(node: fx.Node) -> bool:
    """Whether the node is a call of its own: not elementwise, a view, a reduction or another loop."""
    if not isinstance(node.target, OpOverload) or not isinstance(info(node).value, (Tensor, tuple, list)):
        return False
    return not (is_view(node.target) or node.target in LOOPS or node.target in REDUCTIONS or is_elementwise(node))


def is_elementwise(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags and not is_random(node)


def is_viewing(node: fx.Node) -> bool:
    return is_view(node.target)


def levels(nodes: Iterable[fx.Node]) -> dict[fx.Node, int]:
    """For each node the number of library calls on the longest path to it: nodes of one level can share kernels."""
    found: dict[fx.Node, int] = {}
    for node in nodes:
        found[node] = max((found[n] + is_library(n) for n in node.all_input_nodes if n in found), default=0)
    return found


def readers(node: fx.Node) -> Iterable[fx.Node]:
    """The users of a node, looking through views."""
    for user in node.users:
        if user.op == "call_function" and is_viewing(user):
            yield from readers(user)
        else:
            yield user


def banned(
    node: fx.Node, level: Mapping[fx.Node, int], backward: Container[fx.Node], forward: Container[fx.Node]
) -> Why | None:
    """Why the backward must not compute `node` again; None where it may."""
    value = info(node).value
    if node.op != "call_function":
        return None
    if not isinstance(value, (Tensor, tuple, list)):
        return Why(KEPT_SIZE) if isinstance(value, Symbolic) else None
    if is_random(node):
        return Why(KEPT_RANDOM)
    if is_library(node):
        return Why(KEPT_LIBRARY, str(node.target))
    if not isinstance(value, Tensor) or is_viewing(node):
        return None
    if not node.all_input_nodes:
        return None
    if node.target in REDUCTIONS:
        read = max(nbytes(info(source).value) for source in node.all_input_nodes)
        if read >= SMALL * nbytes(value):
            return Why(KEPT_REDUCTION, f"{read:,} bytes to {nbytes(value):,}")
    reading = list(readers(node))
    if any(user in backward and is_library(user) for user in reading):
        return Why(KEPT_OPERAND)
    if node in forward and any(user in level and user in forward and level[user] > level[node] for user in reading):
        return Why(KEPT_IN_MEMORY)
    return None


@COSTS.rule("keep")
def weight(node: fx.Node, results: Container[fx.Node], level: Mapping[fx.Node, int]) -> float:
    """What keeping the node costs: its bytes, twice where the forward would not have written it to memory anyway."""
    value = info(node).value
    if not isinstance(value, Tensor):
        return 8.0
    size = float(nbytes(value))
    if node.op == "placeholder":
        return max(size, 1.0)
    if is_viewing(node):
        return size + 1.0
    in_memory = node in results or is_library(node) or node.target in REDUCTIONS
    in_memory = in_memory or any(is_library(u) or level.get(u, 0) > level[node] for u in readers(node) if u in level)
    return max(size, 1.0) * (1.0 if in_memory else 2.0)


def recompute_reason(node: fx.Node) -> Why:
    if not node.all_input_nodes:
        return Why(RECOMPUTED_CONSTANT)
    return Why(RECOMPUTED_VIEW if is_viewing(node) else RECOMPUTED_CHEAP)


def nbytes(value: Any) -> int:
    """Bytes of a value by size hints; of a tuple, all of it; of a size, 8."""
    if isinstance(value, Tensor):
        return math.prod(map(size_weight, value.shape)) * value.element_size()
    if isinstance(value, (tuple, list)):
        return sum(map(nbytes, value))
    return 8
