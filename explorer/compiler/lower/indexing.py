"""Index arithmetic: floor division and remainder that use the ranges of the axes, so that views stay simple, and axes
split where a view takes their index apart: [0, 768) read as i // 64 and i % 64 becomes [0, 12) x [0, 64).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, ModularIndexing

from explorer.ir.index import ONE, ZERO, Point, below, bounds, certainly, contiguous, integer
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
            self._memo[key] = self._floordiv(a, b)
        return self._memo[key]

    def modulo(self, a: Size, b: Size) -> Size:
        """a % b for a >= 0 and b > 0."""
        if b == 1 or a == 0:
            return ZERO
        key = ("modulo", a, b)
        if key not in self._memo:
            self._memo[key] = self._modulo(a, b)
        return self._memo[key]

    def _floordiv(self, a: Size, b: Size) -> Size:
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b))
        quotient, rest = self._split(a, b)
        if self._below(rest, b):
            return quotient
        if b.is_Integer:
            rest, b = self._reduce(rest, int(b))
        if b == 1:
            return quotient + rest
        if isinstance(rest, FloorDiv) and rest.args[1].is_Integer and b.is_Integer:
            return quotient + self.floordiv(rest.args[0], rest.args[1] * b)
        if isinstance(rest, ModularIndexing):
            base, divisor, modulus = rest.args
            if modulus.is_Integer and b.is_Integer and int(modulus) % int(b) == 0:
                return quotient + ModularIndexing(base, divisor * b, sympy.Integer(int(modulus) // int(b)))
        return quotient + FloorDiv(rest, b, evaluate=False)

    def _modulo(self, a: Size, b: Size) -> Size:
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) % int(b))
        _, rest = self._split(a, b)
        if self._below(rest, b):
            return rest
        if isinstance(rest, FloorDiv):
            return ModularIndexing(*rest.args, b, evaluate=False)
        if isinstance(rest, ModularIndexing):
            base, divisor, modulus = rest.args
            if modulus.is_Integer and b.is_Integer and int(modulus) % int(b) == 0:
                return ModularIndexing(base, divisor, b, evaluate=False)
        if b.is_Integer and rest.is_Add:
            # c * (x % (b / c)) for a common factor c that small terms stay under.
            factor = math.gcd(int(b), *(int(_coefficient(term)) for term in _large(rest, int(b))))
            small = sympy.Add(*(t for t in rest.args if int(_coefficient(t)) % factor))
            if factor > 1 and self._below(small, sympy.Integer(factor)):
                large = sympy.Add(*(t / factor for t in rest.args if int(_coefficient(t)) % factor == 0))
                return factor * self.modulo(large, sympy.Integer(int(b) // factor)) + small
        return ModularIndexing(rest, ONE, b, evaluate=False)

    def _split(self, a: Size, b: Size) -> tuple[Size, Size]:
        """(q, r) with a == q * b + r, where q takes each term that b divides, and what it can of a number."""
        quotient: list[Size] = []
        rest: list[Size] = []
        for term in sympy.Add.make_args(a):
            divided = _divide(term, b)
            if term.is_Integer and b.is_Integer:
                quotient.append(term // b)
                rest.append(term % b)
            elif divided is None:
                rest.append(term)
            else:
                quotient.append(divided)
        return sympy.Add(*quotient), sympy.Add(*rest)

    def _reduce(self, a: Size, b: int) -> tuple[Size, Size]:
        """(a', b') with a // b == a' // b', divided by a common factor that the left-out terms stay under."""
        terms = sympy.Add.make_args(a)
        factor = math.gcd(b, *(int(_coefficient(term)) for term in _large(a, b)))
        if factor > 1:
            small = sympy.Add(*(t for t in terms if int(_coefficient(t)) % factor))
            if self._below(small, sympy.Integer(factor)):
                large = sympy.Add(*(t / factor for t in terms if int(_coefficient(t)) % factor == 0))
                return large, sympy.Integer(b // factor)
        return a, sympy.Integer(b)

    def _below(self, a: Size, limit: Size) -> bool:
        return below(a, limit, self.ranges)

    def bounds(self, a: Size) -> tuple[Size, Size] | None:
        """Smallest and largest value of an index, in size symbols; None where unknown."""
        return bounds(a, self.ranges)

    def clamped(self, a: Size, size: Size) -> Size:
        """The index, or the nearest one into `size` elements where it is outside of them."""
        ends = self.bounds(a)
        if ends is None or not certainly(ends[0]):
            a = Max(ZERO, a)
        if ends is None or not certainly(size - 1 - ends[1]):
            a = Min(a, size - 1)
        return a


def _coefficient(term: Size) -> Size:
    """The integer factor of a term (1 where it has none)."""
    factor = term.as_coeff_Mul()[0]
    return factor if factor.is_Integer else ONE


def _large(a: Size, b: int) -> list[Size]:
    """Terms of `a` whose factor shares one with b."""
    return [term for term in sympy.Add.make_args(a) if math.gcd(int(_coefficient(term)), b) > 1]


def _divide(term: Size, b: Size) -> Size | None:
    """term / b where that is exact, else None."""
    if term == b:
        return ONE
    if b.is_Integer:
        factor, others = term.as_coeff_Mul()
        return others * (factor // b) if factor.is_Integer and int(factor) % int(b) == 0 else None
    have = list(sympy.Mul.make_args(term))
    number, needed = b.as_coeff_Mul()
    for factor in sympy.Mul.make_args(needed):
        if factor not in have:
            return None
        have.remove(factor)
    left = sympy.Mul(*have)
    return _divide(left, number) if number != 1 else left


def split_axes(axes: Iterable[Axis], value: Expr, indexing: Indexing) -> dict[sympy.Symbol, tuple[Axis, ...]]:
    """The axes to take in place of an axis (outermost first), for each that the indices in `value` take apart.

    Only where all its parts fit together: boundaries 8 and 64 do, boundaries 8 and 12 do not.
    """
    cuts: dict[sympy.Symbol, set[int]] = {}
    for expr in walk(value):
        if isinstance(expr, (Load, IndexValue)):
            _find_cuts(expr.index, cuts)
    if not cuts:
        return {}
    found: dict[sympy.Symbol, tuple[Axis, ...]] = {}
    for axis in axes:
        if axis.symbol in cuts and axis.size.is_Integer:
            sizes = _parts(int(axis.size), cuts[axis.symbol])
            if len(sizes) > 1:
                found[axis.symbol] = tuple(
                    indexing.axis(axis.symbol.name[0], (axis.symbol, place), sympy.Integer(n))
                    for place, n in enumerate(sizes)
                )
    return found


def joined(parts: tuple[Axis, ...]) -> Size:
    """The index of the axis that was split into `parts`."""
    total: Size = sympy.S.Zero
    for part in parts:
        total = total * part.size + part.symbol
    return sympy.expand(total)


def _find_cuts(index: Size, cuts: dict[sympy.Symbol, set[int]]) -> None:
    for part in index.atoms(FloorDiv, ModularIndexing):
        base, divisor = part.args[:2]
        if base.is_Symbol and all(number.is_Integer for number in part.args[1:]):
            of_base = cuts.setdefault(base, set())
            of_base.add(int(divisor))
            if isinstance(part, ModularIndexing):
                of_base.add(int(divisor) * int(part.args[2]))


def _parts(size: int, cuts: set[int]) -> list[int]:
    """Sizes of the parts of an axis of `size` cut at strides `cuts`, outermost first; [size] where they do not fit."""
    strides = [1, *sorted(cut for cut in cuts if 1 < cut < size), size]
    if any(outer % inner for inner, outer in zip(strides, strides[1:], strict=False)):
        return [size]
    return [outer // inner for inner, outer in zip(strides, strides[1:], strict=False)][::-1]
