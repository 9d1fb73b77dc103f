"""Index expressions as sums of axes times coefficients: quick to compare, substitute and re-order.

Sympy is exact but slow, so every index is taken apart once and handled as plain Python from then on.
Inductor: sizevars.py (SizeVarAllocator.simplify_with_ranges, stride_vars).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from explorer.ir.loops import Axis, Size

ZERO = sympy.S.Zero


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


def number(value: Size) -> Any:
    """A Python int where the value is one."""
    return value if isinstance(value, int) else int(value) if value.is_Integer else value


def substitute(index: Affine, images: Mapping[sympy.Symbol, Affine], sizes: Mapping[sympy.Symbol, Size]) -> Affine:
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


def simplify(expr: Size, sizes: Mapping[sympy.Symbol, Size]) -> Size:
    """`expr` with divisions and remainders resolved that the ranges of the axes (0 to size - 1) decide."""
    if not expr.args or not expr.has(FloorDiv, ModularIndexing):
        return expr
    args = [simplify(arg, sizes) for arg in expr.args]
    if isinstance(expr, FloorDiv):
        base, divisor = args
        whole, rest = _split(base, divisor)
        return whole / divisor + (ZERO if _within(rest, divisor, sizes) else FloorDiv(rest, divisor))
    if isinstance(expr, ModularIndexing):
        base, divisor, modulus = args
        _, base = _split(base, divisor * modulus)
        whole, rest = _split(base, divisor)
        if _within(rest, divisor, sizes):
            base, divisor = whole / divisor, sympy.S.One
        if _within(base, divisor * modulus, sizes):
            return simplify(FloorDiv(base, divisor), sizes)
        return ModularIndexing(base, divisor, modulus)
    return _recombined(expr.func(*args))


def _recombined(expr: Size) -> Size:
    """Digits of one number put together again: (i % 6) + 6 * (i // 6) is i, and so for digits in between."""
    if not isinstance(expr, sympy.Add):
        return expr
    digits = {}
    for part in expr.args:
        coefficient, digit = part.as_coeff_Mul()
        if isinstance(digit, (FloorDiv, ModularIndexing)):
            digits[digit.args[0], digit.args[1], coefficient] = part
    for (base, divisor, coefficient), part in digits.items():
        digit = part / coefficient
        if isinstance(digit, ModularIndexing):
            modulus = digit.args[2]
            above = digits.get((base, divisor * modulus, coefficient * modulus))
            if above is not None:
                higher = above / (coefficient * modulus)
                joined = (
                    ModularIndexing(base, divisor, modulus * higher.args[2])
                    if isinstance(higher, ModularIndexing)
                    else FloorDiv(base, divisor)
                )
                return _recombined(expr - part - above + coefficient * joined)
    return expr


def _split(expr: Size, divisor: Size) -> tuple[Size, Size]:
    """The terms of `expr` that `divisor` divides, and the others."""
    expr = sympy.expand(expr)
    whole: list[Size] = []
    rest: list[Size] = []
    for part in expr.args if isinstance(expr, sympy.Add) else (expr,):
        quotient = part / divisor
        (whole if quotient.is_integer and not quotient.has(sympy.Pow) else rest).append(part)
    return sympy.Add(*whole), sympy.Add(*rest)


def _within(expr: Size, limit: Size, sizes: Mapping[sympy.Symbol, Size]) -> bool:
    """Whether 0 <= expr < limit at every point; False where that cannot be told."""
    parts = affine(expr, sizes)
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


def bounds(axes: Iterable[Axis]) -> dict[sympy.Symbol, Size]:
    """Each axis's size, for `simplify` and `substitute`."""
    return {axis.symbol: number(axis.size) for axis in axes}
