"""Pairs of programs made for one fusion verdict each: `blocked` shows the obstacle, `free` is its sibling without it.

In each pair the two kernels of interest are the same in kind and size as far as the obstacle allows, and both sides
return what would otherwise be inlined away, so that the scheduler has two nodes to judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from zoo.program import Inputs, call, seeded


@dataclass(frozen=True)
class FusionCase:
    """A program in which the verdict `reason` is to be found; `ok` says whether it is a fusion or a refusal."""

    fn: Callable[..., Any]
    inputs: Inputs
    ok: bool
    reason: str

    @property
    def name(self) -> str:
        return self.fn.__name__


@dataclass(frozen=True)
class FusionPair:
    obstacle: str
    blocked: FusionCase
    free: FusionCase


VERTICAL = "fused: producer into consumer"
HORIZONTAL = "fused: shared input"
PROLOGUE = "fused: pointwise into reduction"
EPILOGUE = "fused: reduction into pointwise"
REDUCTIONS = "fused: reductions over the same input"


def pair(
    obstacle: str,
    blocked: Callable[..., Any],
    free: Callable[..., Any],
    fused: str,
    inputs: Inputs,
    free_inputs: Inputs | None = None,
) -> FusionPair:
    return FusionPair(
        obstacle,
        FusionCase(blocked, seeded(inputs), False, obstacle),
        FusionCase(free, seeded(free_inputs or inputs), True, fused),
    )


def matrix():
    return call(torch.randn(8, 16))


def different_ranges(x):
    return x + 1.0, x[:4] * 2.0


def equal_ranges(x):
    return x + 1.0, x * 2.0


def extern_between(x, w):
    y = torch.relu(x)
    return y, torch.tanh(y @ w)


def pointwise_between(x, w):
    y = torch.relu(x)
    return y, torch.tanh(y * w)


def cycle(x, w):
    a = torch.relu(x)
    product = a @ w
    return a, a * product


def no_cycle(x, w):
    a = torch.relu(x)
    product = x @ w
    return a, a * product


def reduces_the_other_dim(x):
    column_max = x.amax(0, keepdim=True)
    return (x - column_max).exp().sum(1)


def reduces_the_same_dim(x):
    row_max = x.amax(1, keepdim=True)
    return (x - row_max).exp().sum(1)


def needs_the_whole_reduction(x):
    total = x.sum()
    return x / total


def needs_its_own_row_of_the_reduction(x):
    total = x.sum(1, keepdim=True)
    return x / total


def reductions_over_different_dims(x):
    return x.sum(0), x.sum(1)


def reductions_over_one_dim(x):
    return x.amax(1), x.sum(1)


def nothing_shared(x, y):
    return x.exp(), y.sin()


def input_shared(x, y):
    return x.exp(), x.sin() + y


def on_two_devices(x, y):
    return x + 1.0, y * 2.0


def on_one_device(x, y):
    return x + 1.0, x * y


def many_inputs(*xs):
    half = len(xs) // 2
    first, second = xs[0], xs[0]
    for x in xs[1:half]:
        first = first + x
    for x in xs[half:]:
        second = second * x
    return first, second


def mutation_of_what_was_read(x):
    flipped = x.flip(0) + x
    x.mul_(2.0)
    return flipped


def no_mutation_of_what_was_read(x):
    flipped = x.flip(0) + x
    return flipped, x * 2.0


def scatter_then_pointwise(x, rows):
    added = torch.zeros(8, 16).index_add(0, rows, x)
    return added, added.exp()


def gather_then_pointwise(x, rows):
    taken = x.index_select(0, rows)
    return taken, taken.exp()


def indirect_read_of_producer(x, rows):
    y = x.exp()
    return y, y + y[rows]


def indirect_read_of_input(x, rows):
    y = x.exp()
    return y, y + x[rows]


def other_loop_order(x, w):
    y = x.exp()
    return y, y.t() * w


def same_loop_order(x, w):
    y = x.exp()
    return y, y * w.t()


def neighbors_of_producer(x):
    y = x.exp()
    return y, y + y.roll(1, 1)


def neighbors_of_input(x):
    y = x.exp()
    return y, y + x.roll(1, 1)


def extern_consumer(x):
    y = x.exp()
    return y, torch.sort(y, dim=1).values


def pointwise_consumer(x):
    y = x.exp()
    return y, torch.clamp(y, 0.0, 1.0)


def pointwise_into_later_reduction(x):
    y = x.exp()
    return y, y.t().contiguous().view(8, 16).sum(1)


def pointwise_into_reduction(x):
    y = x.exp()
    return y, y.sum(1)


def reduction_then_longer_pointwise(x, w):
    s = x.sum(1)
    return s, s.repeat(4) * w


def reduction_then_pointwise_of_its_size(x, w):
    s = x.sum(1)
    return s, torch.sqrt(s * s + w[:8])


FUSION_PAIRS: tuple[FusionPair, ...] = (
    pair("different iteration ranges", different_ranges, equal_ranges, HORIZONTAL, matrix),
    pair(
        "extern library call between",
        extern_between,
        pointwise_between,
        VERTICAL,
        lambda: call(torch.randn(8, 16), torch.randn(16, 16)),
        lambda: call(torch.randn(8, 16), torch.randn(8, 16)),
    ),
    pair("would create a cycle", cycle, no_cycle, VERTICAL, lambda: call(torch.randn(16, 16), torch.randn(16, 16))),
    pair(
        "reduction result needed before a reduction over other dims",
        reduces_the_other_dim,
        reduces_the_same_dim,
        EPILOGUE,
        matrix,
    ),
    pair(
        "reduction result needed before pointwise over other dims",
        needs_the_whole_reduction,
        needs_its_own_row_of_the_reduction,
        EPILOGUE,
        matrix,
    ),
    pair("different reduction dims", reductions_over_different_dims, reductions_over_one_dim, REDUCTIONS, matrix),
    pair(
        "no shared data (horizontal not worth it)",
        nothing_shared,
        input_shared,
        HORIZONTAL,
        lambda: call(torch.randn(8, 16), torch.randn(8, 16)),
    ),
    pair(
        "different devices",
        on_two_devices,
        on_one_device,
        HORIZONTAL,
        lambda: call(torch.randn(8, 16), torch.empty(8, 16, device="meta")),
        lambda: call(torch.randn(8, 16), torch.randn(8, 16)),
    ),
    pair(
        "too many inputs",
        many_inputs,
        many_inputs,
        HORIZONTAL,
        lambda: call(*(torch.randn(4, 4) for _ in range(80))),
        lambda: call(*(torch.randn(4, 4) for _ in range(6))),
    ),
    pair("mutation ordering", mutation_of_what_was_read, no_mutation_of_what_was_read, HORIZONTAL, matrix),
    pair(
        "scatter/atomic write",
        scatter_then_pointwise,
        gather_then_pointwise,
        VERTICAL,
        lambda: call(torch.randn(8, 16), torch.tensor([0, 3, 3, 7, 1, 0, 2, 6])),
    ),
    pair(
        "indirect read of the producer",
        indirect_read_of_producer,
        indirect_read_of_input,
        VERTICAL,
        lambda: call(torch.randn(8, 16), torch.tensor([0, 3, 3, 7, 1, 0, 2, 6])),
    ),
    pair(
        "different loop order",
        other_loop_order,
        same_loop_order,
        VERTICAL,
        lambda: call(torch.randn(8, 16), torch.randn(16, 8)),
    ),
    pair("reads other elements of the producer", neighbors_of_producer, neighbors_of_input, VERTICAL, matrix),
    pair("consumer is an extern library call", extern_consumer, pointwise_consumer, VERTICAL, matrix),
    pair(
        "pointwise into a reduction that reads it in another order",
        pointwise_into_later_reduction,
        pointwise_into_reduction,
        PROLOGUE,
        matrix,
    ),
    pair(
        "pointwise after the reduction is larger than its result",
        reduction_then_longer_pointwise,
        reduction_then_pointwise_of_its_size,
        EPILOGUE,
        lambda: call(torch.randn(8, 16), torch.randn(32)),
    ),
)
