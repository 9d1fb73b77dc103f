"""Index expressions: sums of axes times coefficients, with their bounds and steps; sizes as numbers to compare by.

Sympy is exact but slow, so what is asked of an index again and again is taken apart once (`affine`) and handled as
plain Python from then on. Inductor: sizevars.py (SizeVarAllocator.simplify_with_ranges, stride_vars).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from explorer.ir.loops import Axis, Size

Point = tuple[Size, ...]
Ranges = Mapping[sympy.Symbol, Size]
"""The size of each axis, which runs from 0 to size - 1."""

ZERO, ONE = sympy.S.Zero, sympy.S.One

UNKNOWN = 64
"""What a size symbol without an example value (a count found in data) is taken for where costs are compared."""


def hint(size: Size | int, hints: Mapping[sympy.Symbol, int]) -> int:
    """A size as a number to compare costs by: for the example values of its symbols."""
    if isinstance(size, int) or size.is_Integer:
        return int(size)
    return int(size.xreplace({symbol: sympy.Integer(hints.get(symbol, UNKNOWN)) for symbol in size.free_symbols}))


def number(value: Size) -> Any:
    """A Python int where the value is one."""
    return value if isinstance(value, int) else int(value) if value.is_Integer else value


def integer(value: Any) -> Size:
    """A size or index as sympy: from an int, a SymInt or an expression."""
    if isinstance(value, int):
        return sympy.Integer(value)
    if isinstance(value, sympy.Basic):
        return value
    return sympy.sympify(value.node.expr)


def integers(values: Sequence[Any]) -> Point:
    return tuple(integer(value) for value in values)


def equal(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for all values of their symbols, as far as can be seen."""
    return bool(a == b or (not (a.is_number and b.is_number) and sympy.expand(a - b) == 0))


def certainly(a: Size) -> bool:
    """Whether a >= 0 for all values of its symbols, as far as can be seen."""
    return bool(a >= 0) if a.is_Integer else bool(a.is_nonnegative)


def points(axes: Iterable[Axis]) -> Size:
    """The number of points of some axes."""
    return sympy.Mul(*(axis.size for axis in axes))


def ranges(axes: Iterable[Axis]) -> dict[sympy.Symbol, Size]:
    return {axis.symbol: number(axis.size) for axis in axes}


def contiguous(size: Sequence[Size]) -> Point:
    """The strides of a contiguous tensor, as torch computes them (a dimension of size 0 counts as 1)."""
    strides: list[Size] = []
    step: Size = ONE
    for n in reversed(size):
        strides.append(step)
        if n != 0:
            step = step * n
    return tuple(reversed(strides))


def span(size: Sequence[Size], stride: Sequence[Size]) -> Size | None:
    """How far the last element is from the first; None where two may lie in one place, as far as comparing strides in
    order shows."""
    reach: Size = 0
    for step, n in sorted((step, n) for step, n in zip(stride, size, strict=True) if n != 1):
        if step <= reach:
            return None
        reach += step * (n - 1)
    return reach


# Indices taken apart.


@dataclass(frozen=True)
class Affine:
    """sum(coefficient * axis for terms) + offset + non_affine.

    Coefficients are never 0, and are Python ints where they are numbers. `offset` holds no axis. `non_affine` is the
    rest, which uses axes in another way (FloorDiv, ModularIndexing, products), or None.
    """

    terms: Mapping[sympy.Symbol, Size]
    offset: Size = 0
    non_affine: Size | None = None

    @property
    def key(self) -> tuple[frozenset[tuple[sympy.Symbol, Size]], Size, Size | None]:
        """Hashable, and equal for equal indices."""
        return frozenset(self.terms.items()), self.offset, self.non_affine

    def expr(self) -> Size:
        """Back as a sympy expression."""
        parts = [axis * coefficient for axis, coefficient in self.terms.items()]
        return sympy.Add(*parts, sympy.sympify(self.offset), *(() if self.non_affine is None else (self.non_affine,)))


def affine(index: Size, axes: Iterable[sympy.Symbol]) -> Affine:
    """Take `index` apart; symbols other than `axes` count as constants."""
    return _affine(sympy.sympify(index), frozenset(axes))


@lru_cache(maxsize=65536)
def _affine(index: Size, axes: frozenset[sympy.Symbol]) -> Affine:
    terms: dict[sympy.Symbol, Size] = {}
    offset: list[Size] = []
    non_affine: list[Size] = []
    for part in index.args if isinstance(index, sympy.Add) else (index,):
        if part.is_Integer:
            offset.append(int(part))
        elif part in axes:
            terms[part] = terms.get(part, 0) + 1
        elif not (used := part.free_symbols & axes):
            offset.append(part)
        elif isinstance(part, sympy.Mul) and len(used) == 1 and (axis := next(iter(used))) in part.args:
            coefficient = sympy.Mul(*(factor for factor in part.args if factor != axis))
            if coefficient.free_symbols & axes:
                non_affine.append(part)
            else:
                terms[axis] = number(terms.get(axis, 0) + coefficient)
        elif isinstance(part, sympy.Mul) and any(isinstance(factor, sympy.Add) for factor in part.args):
            inside = _affine(sympy.expand(part), axes)
            for axis, coefficient in inside.terms.items():
                terms[axis] = number(terms.get(axis, 0) + coefficient)
            offset.append(inside.offset)
            non_affine += [] if inside.non_affine is None else [inside.non_affine]
        else:
            non_affine.append(part)
    terms = {axis: coefficient for axis, coefficient in terms.items() if coefficient != 0}
    return Affine(terms, number(sum(offset)), sympy.Add(*non_affine) if non_affine else None)


def step(index: Size, axis: sympy.Symbol) -> Size | None:
    """How far an index moves when `axis` grows by one; None where that is not the same everywhere."""
    parts = affine(index, (axis,))
    return sympy.sympify(parts.terms.get(axis, 0)) if parts.non_affine is None else None


def substitute(index: Affine, images: Mapping[sympy.Symbol, Affine], sizes: Ranges) -> Affine:
    """`index` with each axis replaced by its image. `sizes` bounds the axes of the images."""
    terms: dict[sympy.Symbol, Size] = {}
    offset = index.offset
    non_affine: list[Size] = []
    for axis, coefficient in index.terms.items():
        image = images[axis]
        for new, factor in image.terms.items():
            terms[new] = number(terms.get(new, 0) + coefficient * factor)
        offset = number(offset + coefficient * image.offset)
        if image.non_affine is not None:
            non_affine.append(coefficient * image.non_affine)
    if index.non_affine is not None:
        non_affine.append(index.non_affine.xreplace({axis: image.expr() for axis, image in images.items()}))
    if not non_affine:
        return Affine({axis: c for axis, c in terms.items() if c != 0}, offset)
    return affine(simplify(Affine(terms, offset, sympy.Add(*non_affine)).expr(), sizes), sizes)


# Bounds over the axes, in size symbols.


def bounds(a: Size, sizes: Ranges) -> tuple[Size, Size] | None:
    """Smallest and largest value of an index; None where unknown."""
    if a.is_Integer:
        return a, a
    if a.is_Symbol:
        size = sizes.get(a)
        return (a, a) if size is None else (ZERO, sympy.sympify(size) - 1)
    if a.is_Add:
        parts = [bounds(term, sizes) for term in a.args]
        if any(part is None for part in parts):
            return None
        return sympy.Add(*(p[0] for p in parts if p)), sympy.Add(*(p[1] for p in parts if p))
    if a.is_Mul:
        factor, others = a.as_coeff_Mul()
        if factor.is_Integer and factor != 1:
            part = bounds(others, sizes)
            if part is None:
                return None
            ends = (factor * part[0], factor * part[1])
            return ends if factor > 0 else (ends[1], ends[0])
        parts = [bounds(f, sizes) for f in a.args]
        if any(part is None or not certainly(part[0]) for part in parts):
            return None
        return sympy.Mul(*(p[0] for p in parts if p)), sympy.Mul(*(p[1] for p in parts if p))
    if isinstance(a, ModularIndexing):
        return ZERO, a.args[2] - 1
    if isinstance(a, FloorDiv):
        part = bounds(a.args[0], sizes)
        if part is None or not a.args[1].is_Integer or not part[1].is_Integer or not certainly(part[0]):
            return None
        return part[0] // a.args[1] if part[0].is_Integer else ZERO, part[1] // a.args[1]
    return None if a.free_symbols & sizes.keys() else (a, a)


def below(a: Size, limit: Size, sizes: Ranges) -> bool:
    """Whether 0 <= a < limit is certain."""
    ends = bounds(a, sizes)
    return ends is not None and certainly(ends[0]) and certainly(limit - 1 - ends[1])


# Divisions.


def divided_terms(a: Size, divisor: Size) -> tuple[list[Size], list[Size]]:
    """The terms of `a` that `divisor` divides, divided, and the others."""
    whole: list[Size] = []
    rest: list[Size] = []
    for term in sympy.Add.make_args(sympy.expand(a)):
        quotient = term / divisor
        exact = quotient.is_integer and not quotient.as_numer_denom()[1].free_symbols
        (whole if exact else rest).append(quotient if exact else term)
    return whole, rest


def simplify(expr: Size, sizes: Ranges) -> Size:
    """`expr` with divisions and remainders resolved that the ranges of the axes decide."""
    if not expr.args or not expr.has(FloorDiv, ModularIndexing):
        return expr
    args = [simplify(arg, sizes) for arg in expr.args]
    if isinstance(expr, FloorDiv):
        base, divisor = args
        whole, left = divided_terms(base, divisor)
        rest = sympy.Add(*left)
        return sympy.Add(*whole, ZERO if _within(rest, divisor, sizes) else FloorDiv(rest, divisor))
    if isinstance(expr, ModularIndexing):
        base, divisor, modulus = args
        base = sympy.Add(*divided_terms(base, divisor * modulus)[1])
        whole, left = divided_terms(base, divisor)
        if _within(sympy.Add(*left), divisor, sizes):
            base, divisor = sympy.Add(*whole), ONE
        if _within(base, divisor * modulus, sizes):
            return simplify(FloorDiv(base, divisor), sizes)
        return ModularIndexing(base, divisor, modulus)
    return rejoined(expr.func(*args))


def _within(a: Size, limit: Size, sizes: Ranges) -> bool:
    """`below` of an affine index; here coefficients may be size symbols."""
    parts = affine(a, sizes)
    if parts.non_affine is not None:
        return False
    least = most = parts.offset
    for axis, coefficient in parts.terms.items():
        reach = coefficient * (sizes[axis] - 1)
        if sympy.sympify(coefficient).is_nonnegative:
            most += reach
        elif sympy.sympify(coefficient).is_negative:
            least += reach
        else:
            return False
    return bool(sympy.sympify(least).is_nonnegative and sympy.expand(limit - 1 - most).is_nonnegative)


def rejoined(index: Size) -> Size:
    """`index` without pairs c * (x // d % m) + c * m * (x // (d * m)), which are c * (x // d)."""
    if not index.is_Add or not index.has(ModularIndexing):
        return index
    terms = {term: _digit(term) for term in index.args}
    for term, (c, part) in terms.items():
        if not isinstance(part, ModularIndexing):
            continue
        x, d, m = part.args
        for other, (k, outer) in terms.items():
            if other is term or sympy.expand(k - c * m) != 0:
                continue
            if isinstance(outer, FloorDiv) and outer.args == (x, d * m):
                joint = x if d == 1 else FloorDiv(x, d)
            elif isinstance(outer, ModularIndexing) and outer.args[:2] == (x, d * m):
                joint = ModularIndexing(x, d, m * outer.args[2])
            else:
                continue
            return rejoined(sympy.expand(index - term - other + c * joint))
    return index


def _digit(term: Size) -> tuple[Size, Size]:
    """A term as a factor times a quotient or remainder, where it has one."""
    for part in sympy.Mul.make_args(term):
        if isinstance(part, (ModularIndexing, FloorDiv)):
            return term / part, part
    return term, ONE
