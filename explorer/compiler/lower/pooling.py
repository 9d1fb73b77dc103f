"""Pooling over small windows: each element reads its window. The gradients of largest elements are the library's.

Inductor: lowering.py (max_pool2d_with_indices, avg_pool2d, avg_pool2d_backward).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product as combinations
from math import prod
from typing import Any

import torch

from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.create import within
from explorer.compiler.lower.dtypes import cast, rounded
from explorer.compiler.lower.policy import realize
from explorer.compiler.lower.sizes import index_value, number
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Tensor
from explorer.ir.index import ONE, ZERO, Point, integer
from explorer.ir.loops import Expr, apply
from explorer.ir.scalar import computing_dtype

aten = torch.ops.aten

MOST_PLACES = 27
"""Of a window. More would be a loop of its own, which the library does well."""


@dataclass(frozen=True)
class Windows:
    """Windows over the last two dimensions of a tensor, which have `size` elements there, and there are `count`."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    beyond: bool
    """Whether the last window may reach beyond the padding."""
    size: Point
    count: Point

    @property
    def readers(self) -> int:
        """How many windows one place is in, at most."""
        return prod((k - 1) // step + 1 for k, step in zip(self.kernel, self.stride, strict=True))

    def start(self, window: Point) -> Point:
        return tuple(q * step - pad for q, step, pad in zip(window, self.stride, self.padding, strict=True))

    def places(self, lower: Lowering, window: Point) -> Iterator[tuple[Point, list[Expr]]]:
        """The places of a window in order, each with the tests for its being in the tensor. One in the padding is given
        as the nearest that is not: what is read may always be read, which loops over several points at once need."""
        start = self.start(window)
        for offset in combinations(*map(range, self.kernel)):
            place = [i + step * n for i, step, n in zip(start, self.dilation, offset, strict=True)]
            tests = [test for i, n in zip(place, self.size, strict=True) for test in within(lower, i, ZERO, n)]
            yield tuple(lower.indexing.clamped(i, n) for i, n in zip(place, self.size, strict=True)), tests

    def around(self, lower: Lowering, place: Point) -> Iterator[tuple[Point, list[Expr]]]:
        """The windows that a place may be in, in order, likewise with the tests. Windows without dilation."""
        padded = [i + pad for i, pad in zip(place, self.padding, strict=True)]
        last = [lower.indexing.floordiv(i, integer(step)) for i, step in zip(padded, self.stride, strict=True)]
        earlier = (range((k - 1) // step, -1, -1) for k, step in zip(self.kernel, self.stride, strict=True))
        for before in combinations(*earlier):
            window = [q - n for q, n in zip(last, before, strict=True)]
            tests = [test for q, n in zip(window, self.count, strict=True) for test in within(lower, q, ZERO, n)]
            for n, i, k, step in zip(before, padded, self.kernel, self.stride, strict=True):
                if (n + 1) * step > k:  # the window may end before the place
                    offset = lower.indexing.modulo(i, integer(step)) + n * step
                    tests += within(lower, offset, ZERO, integer(k))
            yield tuple(lower.indexing.clamped(q, n) for q, n in zip(window, self.count, strict=True)), tests

    def divisor(
        self, lower: Lowering, window: Point, with_padding: bool, given: int | None, dtype: torch.dtype
    ) -> Expr:
        """What a window's sum is divided by for its mean: how many places it has, with those in the padding or not.
        What lies beyond the padding never counts."""
        if given is not None:
            return number(lower, given, dtype)
        if not self.beyond and (with_padding or not any(self.padding)):
            return number(lower, prod(self.kernel), dtype)
        count = index_value(lower, ONE)
        for i, k, n, pad in zip(self.start(window), self.kernel, self.size, self.padding, strict=True):
            start, end = index_value(lower, i), index_value(lower, i + k)
            end = apply("minimum", end, index_value(lower, n + pad if with_padding else n))
            start = start if with_padding else apply("maximum", start, index_value(lower, ZERO))
            count = apply("mul", count, apply("sub", end, start))
        return cast(count, torch.int64, dtype)

    def position_of(self, lower: Lowering, window: Point, place: Expr) -> Expr:
        """The position in its plane of one of a window's places, which is given as their number in order."""
        width = number(lower, self.kernel[1], place.dtype)
        row = apply("floor", apply("div", place, width))
        column = apply("sub", place, apply("mul", row, width))
        found: Expr = index_value(lower, ZERO)
        for n, start, step, size, pad in zip(
            (row, column), self.start(window), self.dilation, self.size, self.padding, strict=True
        ):
            whole = cast(n, n.dtype, torch.int64)
            i = apply("add", index_value(lower, start), apply("mul", whole, index_value(lower, integer(step))))
            if pad:
                i = apply("maximum", i, index_value(lower, ZERO))
            if pad or self.beyond:
                i = apply("minimum", i, index_value(lower, size - 1))
            found = apply("add", apply("mul", found, index_value(lower, size)), i)
        return found


def windows(
    x: Tensor,
    size: Point,
    count: Point,
    kernel: object,
    stride: object,
    padding: object,
    dilation: object,
    ceil_mode: bool,
) -> Windows | None:
    """The windows of a call, over planes of `size`; None for what is left to the library."""

    def each(value: Any) -> tuple[int, ...]:
        values = (value,) if isinstance(value, int) else tuple(value)
        return values * 2 if len(values) == 1 else values

    made = Windows(
        each(kernel), each(stride or kernel), each(padding), each(dilation), ceil_mode, size[-2:], count[-2:]
    )
    outside = made.beyond or any(made.padding)
    spread = any(step != 1 for step in made.dilation)
    if not x.dtype.is_floating_point or prod(made.kernel) > MOST_PLACES or (outside and spread):
        return None
    return made


@LOWERINGS.rule(aten.max_pool2d_with_indices.default)
def max_pool2d(
    lower: Lowering, out: Any, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """The largest element of each window and its position: the first of equals, and the last NaN. A place that is read
    twice, in the padding's stead, changes neither."""
    over = windows(x, x.size, shape(out[0]), kernel, stride, padding, dilation, ceil_mode)
    if over is None:
        return None
    realize(lower, x, over.readers)

    counting = computing_dtype(x.dtype)
    """What places of a window are counted in: numbers as wide as the elements go through the same vector lanes."""

    def elements(point: Point) -> list[Expr]:
        return [x.at((*point[:-2], *place)) for place, _ in over.places(lower, point[-2:])]

    def largest(point: Point) -> Expr:
        return reduce(lambda a, b: apply("maximum", a, b), elements(point))

    def where(point: Point) -> Expr:
        best, *others = elements(point)
        found = number(lower, 0, counting)
        for place, value in enumerate(others, 1):
            here = number(lower, place, counting)
            larger, is_nan = apply("gt", value, best), apply("isnan", value)
            found = apply("where", larger, here, apply("where", is_nan, here, found))
            best = apply("maximum", best, value)
        return over.position_of(lower, point[-2:], found)

    read = (x,) * prod(over.kernel)
    return lower.computed(out[0], largest, *read), lower.computed(out[1], where, *read)


@LOWERINGS.rule(aten.avg_pool2d.default)
def avg_pool2d(
    lower: Lowering, out: torch.Tensor, x: Tensor, kernel: object, stride: object = (), padding: object = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor | None:  # fmt: skip
    """The mean of each window."""
    over = windows(x, x.size, shape(out), kernel, stride, padding, 1, ceil_mode)
    if over is None:
        return None
    realize(lower, x, over.readers)

    def element(point: Point) -> Expr:
        total = _sum(
            lower, x.dtype, ((x.at((*point[:-2], *place)), tests) for place, tests in over.places(lower, point[-2:]))
        )
        share = over.divisor(lower, point[-2:], count_include_pad, divisor_override, total.dtype)
        return rounded(apply("div", total, share), out.dtype)

    return lower.computed(out, element, *(x,) * prod(over.kernel))


@LOWERINGS.rule(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    lower: Lowering, out: torch.Tensor, gradient: Tensor, x: Tensor, kernel: object, stride: object, padding: object,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Tensor | None:  # fmt: skip
    """To each place its shares of the gradients of the windows that it is in."""
    over = windows(gradient, shape(out), gradient.size, kernel, stride, padding, 1, ceil_mode)
    if over is None:
        return None
    realize(lower, gradient, over.readers)

    def share(point: Point, window: Point) -> Expr:
        value = gradient.at((*point[:-2], *window))
        return apply("div", value, over.divisor(lower, window, count_include_pad, divisor_override, value.dtype))

    def element(point: Point) -> Expr:
        given = ((share(point, window), tests) for window, tests in over.around(lower, point[-2:]))
        return rounded(_sum(lower, out.dtype, given), out.dtype)

    return lower.computed(out, element, *(gradient,) * over.readers)


def _sum(lower: Lowering, dtype: torch.dtype, parts: Iterator[tuple[Expr, list[Expr]]]) -> Expr:
    """The sum, in order, of the values whose tests all hold."""
    nothing = number(lower, 0, dtype)
    counted = (
        apply("where", reduce(lambda a, b: apply("logical_and", a, b), tests), value, nothing) if tests else value
        for value, tests in parts
    )
    return reduce(lambda a, b: apply("add", a, b), counted)
