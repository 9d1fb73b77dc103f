"""Index arithmetic: floor division and remainder that use the ranges of the axes, so that views stay simple, and axes
split where a view takes their index apart: [0, 768) read as i // 64 and i % 64 becomes [0, 12) x [0, 64).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import Max, Min

from explorer.ir.index import (
    ONE,
    ZERO,
    Point,
    contiguous,
    cuts,
    floordiv,
    integer,
    modulo,
    never_above,
    never_below,
    parts,
)
from explorer.ir.loops import Axis, Expr, IndexValue, Load, Size, walk


def strides(tensor: torch.Tensor) -> Point:
    """The strides of a fake tensor. torch counts a size as at least 1 (`Max(1, s0 - 2)`) for those of an empty tensor;
    without that, equal layouts have equal strides, and an empty tensor has no elements to misplace."""
    return tuple(_without_bound(integer(value)) for value in tensor.stride())


def _without_bound(stride: Size) -> Size:
    if stride.is_Integer or not stride.has(Max):
        return stride
    return stride.replace(
        lambda part: isinstance(part, Max) and ONE in part.args and len(part.args) == 2,
        lambda part: next(arg for arg in part.args if arg != 1),
    )


class Indexing:
    """Makes axis symbols and simplifies indices over them. An axis symbol is made once for each place and size, so that
    equal loops have equal indices and `ranges` holds for all of them."""

    def __init__(self) -> None:
        self.ranges: dict[sympy.Symbol, Size] = {}
        self._axes: dict[tuple[str, object, Size], Axis] = {}
        self._counts: dict[str, int] = {}
        self._memo: dict[tuple[Any, ...], Size] = {}

    def symbol(self, prefix: str, size: Size) -> sympy.Symbol:
        """A new symbol that runs from 0 to `size` - 1."""
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        made = sympy.Symbol(f"{prefix}{number}", integer=True, nonnegative=True)
        self.ranges[made] = size
        return made

    def axis(self, prefix: str, place: object, size: Size) -> Axis:
        key = (prefix, place, size)
        if key not in self._axes:
            self._axes[key] = Axis(self.symbol(prefix, size), size)
        return self._axes[key]

    def linear(self, point: Point, stride: Point, offset: Size = ZERO) -> Size:
        """offset + sum(point * stride)."""
        key = ("linear", point, stride, offset)
        if key not in self._memo:
            terms = [i if s == 1 else i * s for i, s in zip(point, stride, strict=True) if i != 0 and s != 0]
            self._memo[key] = sympy.Add(offset, *terms) if offset != 0 or len(terms) != 1 else terms[0]
        return self._memo[key]

    def unravel(self, position: Size, size: Point) -> Point:
        """The point of a contiguous tensor of `size` at linear `position`."""
        point: list[Size] = []
        for place, (n, stride) in enumerate(zip(size, contiguous(size), strict=True)):
            if n == 1:
                point.append(ZERO)
                continue
            i = self.floordiv(position, stride)
            outermost = all(m == 1 for m in size[:place])
            point.append(i if outermost else self.modulo(i, n))
        return tuple(point)

    def floordiv(self, a: Size, b: Size) -> Size:
        """a // b for a >= 0 and b > 0."""
        if b == 1 or a == 0:
            return a
        key = ("floordiv", a, b)
        if key not in self._memo:
            self._memo[key] = floordiv(a, b, self.ranges)
        return self._memo[key]

    def modulo(self, a: Size, b: Size) -> Size:
        """a % b for a >= 0 and b > 0."""
        if b == 1 or a == 0:
            return ZERO
        key = ("modulo", a, b)
        if key not in self._memo:
            self._memo[key] = modulo(a, b, self.ranges)
        return self._memo[key]

    def clamped(self, a: Size, size: Size) -> Size:
        """The index, or the nearest one into `size` elements where it is outside of them."""
        inside = never_above(a, size - 1, self.ranges)
        a = a if never_below(a, ZERO, self.ranges) else Max(ZERO, a)
        return a if inside else Min(a, size - 1)


def split_axes(axes: Iterable[Axis], value: Expr, indexing: Indexing) -> dict[sympy.Symbol, tuple[Axis, ...]]:
    """The axes to take in place of an axis (outermost first), for each that the indices in `value` take apart."""
    sizes = {axis.symbol: axis.size for axis in axes if axis.size.is_Integer}
    found: dict[sympy.Symbol, set[int]] = {}
    for expr in walk(value):
        if isinstance(expr, (Load, IndexValue)):
            for axis, low in cuts(expr.index, sizes):
                found.setdefault(axis, set()).add(low)
    cut = {axis: parts(int(sizes[axis]), found[axis]) for axis in sizes if axis in found}
    return {
        axis: tuple(indexing.axis(axis.name[0], (axis, place), sympy.Integer(n)) for place, n in enumerate(each))
        for axis, each in cut.items()
        if len(each) > 1
    }
