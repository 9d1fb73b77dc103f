"""For each fusion reason a program that shows it, and a sibling from which the obstacle was removed.

`pair` names the two operations: their places among the program's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Case:
    """A program of a few operations, its inputs, and the two operations in question."""

    fn: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    pair: tuple[int, int] = (0, 1)

    def inputs(self) -> list[torch.Tensor]:
        torch.manual_seed(0)
        return [torch.randn(shape) for shape in self.shapes]


@dataclass(frozen=True)
class Pair:
    code: str
    blocked: Case
    free: Case


M = (8, 16)


def many(x, count):
    y = x.exp()
    return y, *(y + float(n) for n in range(1, count + 1))


def distant(x, w, steps):
    """A user of x, a long chain of products, and another user of x."""
    first, chain = x.exp(), x
    for _ in range(steps):
        chain = chain @ w
    return first, chain, x.sin()


def updated(x, elsewhere):
    before = (x.flip(0) if elsewhere else x) + 1
    x.mul_(2)
    return before


def add_at(x, index, source, indirect):
    index = index.long().clamp(0, 0)
    summed = x.index_add(0, index, source) if indirect else x + source
    return summed, summed * 2


def two_rows(x, index):
    index = index.long().clamp(0, 0)
    y = x.exp()
    return y, y[index] + 1


REFUSED = [
    Pair(
        "refuse.library_call",
        Case(lambda x, w: x.exp() @ w, (M, (16, 4))),
        Case(lambda x, w: (y := x.exp(), y * w), (M, M)),
    ),
    Pair(
        "refuse.iteration_space",
        Case(lambda x: (x + 1, x[:4] * 2), (M,)),
        Case(lambda x: (x + 1, x * 2), (M,)),
    ),
    Pair(
        "refuse.iteration_space",
        Case(lambda x: (x.sum(0), x.sum(1)), (M,)),
        Case(lambda x: (x.amax(1), x.sum(1)), (M,)),
    ),
    Pair(
        "refuse.different_point",
        Case(lambda x: (y := x.exp(), y.flip(0) + 1), (M,)),
        Case(lambda x: (y := x.exp(), y + 1), (M,)),
    ),
    Pair(
        "refuse.other_elements",
        Case(lambda x: (x[:8].exp(), x[8:].view(16, 8) + 1), ((16, 16),)),
        Case(lambda x: (x[:8].exp(), x[:8].view(16, 8) + 1), ((16, 16),)),
    ),
    Pair(
        "refuse.reduction_first",
        Case(lambda x: (s := x.sum(1), s.flip(0) * 2), (M,)),
        Case(lambda x: (s := x.sum(1), s * 2), (M,)),
    ),
    Pair(
        "refuse.reduction_first",
        Case(lambda x: (s := x.sum(1), (s * s).sum(0)), (M,)),
        Case(lambda x: (s := x.sum(1), (s * s) + 1), (M,)),
    ),
    Pair(
        "refuse.cycle",
        Case(lambda x, w: (y := x.exp(), y * (y @ w)), ((16, 16), (16, 16)), (0, 2)),
        Case(lambda x, w: (y := x.exp(), y * (x @ w)), ((16, 16), (16, 16)), (0, 2)),
    ),
    Pair(
        "refuse.nothing_shared",
        Case(lambda x, y: (x.exp(), y.sin()), (M, M)),
        Case(lambda x, y: (x.exp(), x.sin() + y), (M, M)),
    ),
    Pair(
        "refuse.scatter",
        Case(lambda x, i, s: add_at(x, i, s, True), ((8, 16), (4,), (4, 16)), (-2, -1)),
        Case(lambda x, i, s: add_at(x, i, s, False), ((8, 16), (4,), (8, 16)), (-2, -1)),
    ),
    Pair(
        "refuse.indirect",
        Case(two_rows, (M, (8,))),
        Case(lambda x, i: (y := x.exp(), y + 1), (M, (8,))),
    ),
    Pair(
        "refuse.mutation",
        Case(lambda x: updated(x, True), (M,)),
        Case(lambda x: updated(x, False), (M,)),
    ),
    Pair(
        "refuse.too_large",
        Case(lambda x: many(x, 70), (M,), (0, 70)),
        Case(lambda x: many(x, 8), (M,), (0, 8)),
    ),
    Pair(
        "refuse.memory_order",
        Case(lambda x: (y := x.exp(), y.t().contiguous() + 1), ((512, 256),)),
        Case(lambda x: (y := x.exp(), y.t() + 1), ((512, 256),)),
    ),
    Pair(
        "refuse.far_apart",
        Case(lambda x, w: distant(x, w, 70), (M, (16, 16)), (0, -1)),
        Case(lambda x, w: distant(x, w, 5), (M, (16, 16)), (0, -1)),
    ),
    Pair(
        "refuse.serial",
        Case(lambda x: x / x.sum(1, keepdim=True), ((2, 40000),)),
        Case(lambda x: x / x.sum(1, keepdim=True), ((40000, 2),)),
    ),
    Pair(
        "refuse.kernels",
        Case(lambda x: (y := x.exp(), y.sum(1), y.sum(0)), (M,), (0, 2)),
        Case(lambda x: (y := x.exp(), y.amax(0), y.sum(0)), (M,), (0, 2)),
    ),
]

FUSED = [
    ("fuse.producer_consumer", Case(lambda x: (y := x.exp(), y + 1), (M,))),
    ("fuse.producer_consumer", Case(lambda x: (y := x.exp(), y.t().contiguous() + 1), (M,))),
    ("fuse.producer_consumer", Case(lambda x: (y := x.exp(), y.view(4, 32) + 1), (M,))),
    ("fuse.same_reads", Case(lambda x: (x + 1, x * 2), (M,))),
    ("fuse.same_reads", Case(lambda x: (x + 1, x.view(-1) * 2), (M,))),
    ("fuse.reduction_prologue", Case(lambda x: (y := x.exp(), y.sum(1)), (M,))),
    ("fuse.reduction_prologue", Case(lambda x: (y := x.exp(), y.sum(0)), (M,))),
    ("fuse.reduction_epilogue", Case(lambda x: (s := x.sum(1), s * 2), (M,))),
    ("fuse.same_rows", Case(lambda x: x / x.sum(1, keepdim=True), (M,))),
    ("fuse.same_rows", Case(lambda x: (x.amax(1), x.sum(1)), (M,))),
    ("fuse.broadcast", Case(lambda r, x: (y := r.exp(), y + x), ((8, 1), M))),
    ("fuse.same_space", Case(lambda x: (x.exp(), x.flip(0) + 1), (M,))),
    ("fuse.chain", Case(lambda x, z: (x.exp(), z.sin(), x + z), (M, M))),
]
