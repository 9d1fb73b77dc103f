"""Which gradients come from which outputs, and what a backward from some of them leaves: eager's autograd graph, asked.

A set of tangents is a number: bit k stands for the k-th one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from explorer.ir.graph import Graph
from explorer.ir.joint import GradFnGraph, Partitioned


class Routes:
    """`all`: every tangent. `sources`: per input of the captured graph, the tangents that its gradient comes from."""

    def __init__(self, parts: Partitioned) -> None:
        eager = parts.eager_backward
        above = reaching(eager)
        self.all = (1 << len(eager.heads)) - 1
        self.sources = [above.get(eager.edges.get(index, ""), 0) for index in range(len(parts.captured.inputs))]
        self._saving = {above[node.id] for node in eager.nodes if node.saves}

    def freed(self, tangents: int, spent: int) -> bool:
        """Whether a backward from `tangents` needs what one from `spent` has freed."""
        return any(above & tangents and above & spent for above in self._saving)

    def left(self, spent: int) -> int:
        """The tangents from which a backward is still possible after one from `spent`."""
        gone = 0
        for above in self._saving:
            gone |= above if above & spent else 0
        return self.all & ~gone


def reaching(eager: GradFnGraph) -> dict[str, int]:
    """Per grad_fn the tangents that reach it."""
    inputs = {node.id: node.inputs for node in eager.nodes}
    waiting = Counter(following for following_all in inputs.values() for following in following_all)
    found: dict[str, int] = defaultdict(int)
    for k, head in enumerate(eager.heads):
        found[head] |= 1 << k
    ready = [id for id in inputs if not waiting[id]]
    while ready:
        id = ready.pop()
        for following in inputs[id]:
            found[following] |= found[id]
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    return found


def without(backward: Graph, values: Sequence[Any], first: int, absent: int) -> tuple[Any, ...]:
    """The backward half run operator by operator on `values`, in which zeros stand for the `absent` tangents; these
    begin at place `first`. What comes from absent ones alone is zero, also where it is multiplied by an infinity."""
    found: dict[fx.Node, Any] = dict(zip(backward.inputs, values, strict=True))
    flowing: dict[fx.Node, bool] = {n: not absent >> k & 1 for k, n in enumerate(backward.inputs[first:])}

    def given(node: fx.Node) -> Any:
        value = found[node]
        return torch.zeros_like(value) if flowing.get(node) is False and isinstance(value, torch.Tensor) else value

    for node in backward.graph.nodes:
        if node.op == "get_attr":
            found[node] = backward.constants[str(node.target)]
        elif node.op == "call_function":
            sources = [flowing[n] for n in node.all_input_nodes if n in flowing]
            if sources:
                flowing[node] = any(sources)
            args, kwargs = fx.map_arg((node.args, node.kwargs), given)
            found[node] = node.target(*args, **kwargs)
    return tuple(given(n) if isinstance(n, fx.Node) else n for n in backward.outputs)


def read_from(backward: Graph, first: int, tangents: int) -> frozenset[int]:
    """The inputs of the backward half that it reads for `tangents`, whose own places begin at `first`."""
    inputs = backward.inputs
    flowing = {node for k, node in enumerate(inputs[first:]) if tangents >> k & 1}
    for node in backward.graph.nodes:
        if any(source in flowing for source in node.all_input_nodes):
            flowing.add(node)
    needed: set[fx.Node] = set()
    pending = list(flowing)
    while pending:
        for source in pending.pop().all_input_nodes:
            if source not in needed:
                needed.add(source)
                pending.append(source)
    return frozenset(k for k, node in enumerate(inputs[:first]) if node in needed)
