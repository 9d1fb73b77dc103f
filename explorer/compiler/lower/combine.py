"""Several tensors in one: concatenation, padding, and a part of a tensor replaced."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.dtypes import cast
from explorer.compiler.lower.indexing import ZERO, Point, certainly, integer, strides
from explorer.compiler.lower.pointwise import broadcast
from explorer.compiler.lower.policy import HEAVY, cost
from explorer.compiler.lower.sizes import index_value, number
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Tensor
from explorer.compiler.lower.view import bounded, position
from explorer.core.origin import origins
from explorer.core.reasons import Why
from explorer.ir.loops import Buffer, Expr, Layout, Masked, Size, apply

aten = torch.ops.aten

MOST_PARTS = 4
"""Tensors that a concatenation joins as one loop, which asks at each point which of them it is in."""


def masked(conditions: Sequence[Expr], value: Expr, other: Expr) -> Expr:
    """`value`, evaluated only where all conditions hold, else `other`."""
    if not conditions:
        return value
    return Masked(value.dtype, origins(), reduce(lambda a, b: apply("logical_and", a, b), conditions), value, other)


def within(lower: Lowering, i: Size, start: Size, end: Size) -> list[Expr]:
    """The tests for start <= i < end that do not hold already for every i."""
    bounds = lower.indexing.bounds(i)
    tests = []
    if bounds is None or not certainly(bounds[0] - start):
        tests.append(apply("ge", index_value(lower, i), index_value(lower, start)))
    if bounds is None or not certainly(end - 1 - bounds[1]):
        tests.append(apply("lt", index_value(lower, i), index_value(lower, end)))
    return tests


@LOWERINGS.rule(aten.cat.default)
def cat(lower: Lowering, out: torch.Tensor, tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Tensors one after another along a dimension: as one value that tests where it is, where that is cheap; else
    each written to its own part of the result; by the library, where all are in memory."""
    parts = [tensor for tensor in tensors if not (len(tensor.size) == 1 and tensor.size[0] == 0)]
    if not parts:
        return None
    starts: list[Size] = [ZERO]
    for part in parts:
        starts.append(starts[-1] + part.size[dim % len(out.shape)])
    places = list(zip(parts, starts, strict=False))
    if len(parts) <= MOST_PARTS and all(part.in_memory() or cost(lower, part).operations < HEAVY for part in parts):
        return _cat_value(lower, out, places, dim % len(out.shape))
    if all(part.in_memory() for part in parts):
        return None
    return _cat_parts(lower, out, places, dim % len(out.shape))


def _cat_value(lower: Lowering, out: torch.Tensor, places: list[tuple[Tensor, Size]], dim: int) -> Tensor:
    def element(point: Point) -> Expr:
        found: Expr = number(lower, 0, out.dtype)
        for part, start in reversed(places):
            i = point[dim]
            value = cast(part.at((*point[:dim], i - start, *point[dim + 1 :])), part.dtype, out.dtype)
            found = masked(within(lower, i, start, start + part.size[dim]), value, found)
        return found

    return lower.computed(out, element, *(part for part, _ in places))


def _cat_parts(lower: Lowering, out: torch.Tensor, places: list[tuple[Tensor, Size]], dim: int) -> Tensor:
    size = shape(out)
    layout = Layout(out.dtype, out.device, size, lower.dense(size, strides(out)))
    made: Buffer | None = None
    for number_of_part, (part, start) in enumerate(places):
        offset = start * layout.stride[dim]
        made = lower.loop(
            layout,
            lambda point, _, part=part: cast(part.at(point), part.dtype, out.dtype),  # type: ignore[misc]
            Why(reasons.PART, f"{number_of_part + 1} of {len(places)}"),
            over=part.size,
            index=lambda point, offset=offset: lower.indexing.linear(point, layout.stride, offset),  # type: ignore[misc]
            alias_of=None if made is None else lower.root(made.name),
        )
    assert made is not None
    return lower.stored(made)


@LOWERINGS.rule(aten.constant_pad_nd.default)
def constant_pad_nd(lower: Lowering, out: torch.Tensor, x: Tensor, pad: Sequence[Any], value: Any = 0) -> Tensor:
    """A border of one number round the tensor; negative widths cut."""
    before = [ZERO] * len(x.size)
    for place in range(len(pad) // 2):
        before[len(x.size) - 1 - place] = integer(pad[2 * place])

    def element(point: Point) -> Expr:
        of_x = tuple(i - width for i, width in zip(point, before, strict=True))
        inside = [test for i, n in zip(of_x, x.size, strict=True) for test in within(lower, i, ZERO, n)]
        return masked(inside, x.at(of_x), number(lower, value, x.dtype))

    return lower.computed(out, element, x)


@LOWERINGS.rule(aten.slice_scatter.default)
def slice_scatter(
    lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None,
    step: Any = 1,
) -> Tensor:  # fmt: skip
    """A tensor with a slice replaced."""
    dim %= len(x.size)
    first, every = bounded(lower, 0 if start is None else start, x.size[dim]), integer(step)
    last = x.size[dim] if end is None else bounded(lower, end, x.size[dim])
    empty = lower.sizes.holds(last <= first)
    length = ZERO if empty else lower.indexing.floordiv(last - first + every - 1, every)
    put = broadcast(lower, source, (*x.size[:dim], length, *x.size[dim + 1 :]), out.dtype)

    def element(point: Point) -> Expr:
        place = point[dim] - first
        inside = within(lower, place, ZERO, length * every)
        if every != 1:
            rest = lower.indexing.modulo(place, every)
            inside.append(apply("eq", index_value(lower, rest), index_value(lower, ZERO)))
        at_source = (*point[:dim], lower.indexing.floordiv(place, every), *point[dim + 1 :])
        return masked(inside, put(at_source), x.at(point)) if length != 0 else x.at(point)

    return lower.computed(out, element, x, source)


@LOWERINGS.rule(aten.select_scatter.default)
def select_scatter(lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, dim: int, index: Any) -> Tensor:
    """A tensor with one index of a dimension replaced."""
    dim %= len(x.size)
    place = position(lower, index, x.size[dim])
    put = broadcast(lower, source, (*x.size[:dim], *x.size[dim + 1 :]), out.dtype)

    def element(point: Point) -> Expr:
        here = apply("eq", index_value(lower, point[dim]), index_value(lower, place))
        return masked([here], put((*point[:dim], *point[dim + 1 :])), x.at(point))

    return lower.computed(out, element, x, source)


@LOWERINGS.rule(aten.diagonal_scatter.default)
def diagonal_scatter(
    lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A tensor with a diagonal replaced."""
    a, b = dim1 % len(x.size), dim2 % len(x.size)

    def element(point: Point) -> Expr:
        here = apply("eq", index_value(lower, point[b]), index_value(lower, point[a] + offset))
        rest = tuple(i for d, i in enumerate(point) if d not in (a, b))
        along = point[a] if offset >= 0 else point[b]
        return masked([here], cast(source.at((*rest, along)), source.dtype, out.dtype), x.at(point))

    return lower.computed(out, element, x, source)
