"""Index expressions: sums of axes times coefficients, with their bounds and steps; sizes as numbers to compare by.

Sympy is exact but slow, so what is asked of an index again and again is taken apart once (`affine`) and handled as
plain Python from then on. Inductor: sizevars.py (SizeVarAllocator.simplify_with_ranges, stride_vars).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, ModularIndexing, PythonMod

from explorer.ir.loops import Axis, Size

Point = tuple[Size, ...]
Ranges = Mapping[sympy.Symbol, Size]
"""The size of each axis, which runs from 0 to size - 1."""

ZERO, ONE = sympy.S.Zero, sympy.S.One

UNKNOWN = 60
"""What a size symbol without an example value (a count found in data) is taken for where costs are compared, and where
a tensor or array of that size stands in for another: it can be taken apart in many ways."""


def hint(size: Size | int, hints: Mapping[sympy.Symbol, Size | int]) -> int:
    """A size for the example values of its symbols, without a guard: a number to compare costs by, or to stand in."""
    if isinstance(size, int) or size.is_Integer:
        return int(size)
    values = {symbol: sympy.sympify(hints.get(symbol, UNKNOWN)) for symbol in size.free_symbols}
    return int(size.xreplace({symbol: value if value.is_number else UNKNOWN for symbol, value in values.items()}))


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
    return bool(a >= 0) if a.is_Integer else bool(a.is_nonnegative or sympy.expand(a).is_nonnegative)


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


def row_major(axes: Sequence[Axis]) -> Affine:
    """The linear position of a point among those of some axes, outermost first: the axis that was split into them."""
    terms: dict[sympy.Symbol, Size] = {}
    stride: Size = 1
    for axis in reversed(axes):
        terms[axis.symbol] = stride
        stride = number(sympy.sympify(stride * axis.size))
    return Affine(terms)


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


# Bounds over the axes, in size symbols: several, of which any may be the one that proves.

MOST_ENDS = 6
"""Bounds of one expression that are followed up."""

Proof = Callable[[Size], bool]
"""Whether a size is 0 or more for all values of its symbols, as far as it can tell."""


def never_below(a: Size, least: Size, sizes: Ranges, holds: Proof = certainly) -> bool:
    """Whether `a` is proven to be `least` or more at all points."""
    return any(holds(end - least) for end in ends(a, sizes, True, holds))


def never_above(a: Size, most: Size, sizes: Ranges, holds: Proof = certainly) -> bool:
    """Whether `a` is proven to be `most` or less at all points."""
    return any(holds(most - end) for end in ends(a, sizes, False, holds))


def below(a: Size, limit: Size, sizes: Ranges) -> bool:
    """Whether 0 <= a < limit is certain. Most indices are sums of axes of known size times numbers: that is told
    first, and without sympy's arithmetic."""
    low = high = 0
    for term in sympy.Add.make_args(a) if limit.is_Integer else ():
        factor, axis = term.as_coeff_Mul()
        size = 2 if axis == 1 else sizes.get(axis)
        if size is None or not factor.is_Integer or not (isinstance(size, int) or size.is_Integer):
            break
        end = int(factor) * (int(size) - 1)
        low, high = low + (end if axis == 1 else min(0, end)), high + (end if axis == 1 else max(0, end))
    else:
        if limit.is_Integer:
            return low >= 0 and high < int(limit)
    return never_below(a, ZERO, sizes) and never_above(a, limit - 1, sizes)


def ends(a: Size, sizes: Ranges, low: bool, holds: Proof = certainly) -> list[Size]:
    """Values that `a` is never below (`low`), or never above."""
    if a.is_Symbol:
        size = sizes.get(a)
        return [a if size is None else ZERO if low else sympy.sympify(size) - 1]
    if a.is_Integer or not a.free_symbols & sizes.keys():
        return [a]
    if a.is_Add:
        found: list[Size] = [ZERO]
        for term in a.args:
            found = [x + y for x in found for y in ends(term, sizes, low, holds)][:MOST_ENDS]
        return found
    if a.is_Mul:
        varying = [f for f in a.args if f.free_symbols & sizes.keys()]
        factor = sympy.Mul(*(f for f in a.args if not f.free_symbols & sizes.keys()))
        flips = not holds(factor)
        if flips and not holds(-factor):
            return []
        if len(varying) == 1:
            return [factor * end for end in ends(varying[0], sizes, low != flips, holds)]
        if not all(never_below(f, ZERO, sizes, holds) for f in varying):
            return []
        parts = [ends(f, sizes, low != flips, holds) for f in varying]
        return [sympy.Mul(factor, *(each[0] for each in parts))] if all(parts) else []
    if isinstance(a, (Max, Min)):
        of_args = [ends(arg, sizes, low, holds) for arg in a.args]
        if isinstance(a, Max) == low:
            return [end for each in of_args for end in each][:MOST_ENDS]
        return [type(a)(*(each[0] for each in of_args))] if all(of_args) else []
    if isinstance(a, (ModularIndexing, Mod, PythonMod)):
        base, *divisor, modulus = a.args
        if not isinstance(a, ModularIndexing) and not holds(modulus - 1):  # `modulo` makes it of positive sizes alone
            return []
        if low:
            return [ZERO]
        of_base = ends(FloorDiv(base, *divisor) if divisor and divisor[0] != 1 else base, sizes, False, holds)
        return [modulus - 1, *of_base][:MOST_ENDS]
    if isinstance(a, FloorDiv):
        base, divisor = a.args
        if divisor.free_symbols & sizes.keys() or not holds(divisor - 1):
            return []
        return [_rounded_down(end, divisor) for end in ends(base, sizes, low, holds)]
    return []


def _rounded_down(a: Size, b: Size) -> Size:
    """a // b, with what b divides taken out of the quotient."""
    whole, rest = divide(sympy.expand(a), b)
    if rest in (0, -1) or b.is_Integer and rest.is_Integer:
        return whole + (rest if rest == -1 else 0)
    return whole + FloorDiv(rest, b)


# Divisions.


def quotient(a: Size, b: Size) -> Size | None:
    """a / b where that is an integer for all values of the symbols, as far as can be seen; else None."""
    if not b:
        return None
    if a == b:
        return ONE
    if b.is_Integer:
        factor, others = a.as_coeff_Mul()
        return others * (factor // b) if factor.is_Integer and int(factor) % int(b) == 0 else None
    found = sympy.cancel(a / b) if a.is_Add else a / b
    return found if found.is_integer and not found.as_numer_denom()[1].free_symbols else None


def divide(a: Size, b: Size) -> tuple[Size, Size]:
    """(q, r) with a == q * b + r, where q takes each term that b divides, and what it can of a number."""
    whole: list[Size] = []
    rest: list[Size] = []
    for term in sympy.Add.make_args(a):
        if term.is_Integer and b.is_Integer:
            whole.append(term // b)
            rest.append(term % b)
        elif (divided := quotient(term, b)) is None:
            rest.append(term)
        else:
            whole.append(divided)
    return sympy.Add(*whole), sympy.Add(*rest)


def floordiv(a: Size, b: Size, sizes: Ranges) -> Size:
    """a // b for b > 0, as far as the ranges of the axes decide it."""
    if not b:  # at no point
        return FloorDiv(a, b, evaluate=False)
    whole, rest = divide(a, b)
    if below(rest, b, sizes):
        return whole
    if b.is_Integer and (reduced := _by_common_factor(rest, int(b), sizes)) is not None:
        factor, rest, _ = reduced
        b = sympy.Integer(int(b) // factor)
    if b == 1:
        return whole + rest
    if isinstance(rest, FloorDiv) and rest.args[1].is_Integer and b.is_Integer:
        return whole + floordiv(rest.args[0], rest.args[1] * b, sizes)
    if isinstance(rest, ModularIndexing):
        base, divisor, modulus = rest.args
        if modulus.is_Integer and b.is_Integer and int(modulus) % int(b) == 0:
            return whole + ModularIndexing(base, divisor * b, sympy.Integer(int(modulus) // int(b)))
    return whole + FloorDiv(rest, b, evaluate=False)


def modulo(a: Size, b: Size, sizes: Ranges) -> Size:
    """a % b for a >= 0 and b > 0, as far as the ranges of the axes decide it."""
    if not b:
        return ModularIndexing(a, ONE, b, evaluate=False)
    _, rest = divide(a, b)
    if below(rest, b, sizes):
        return rest
    if isinstance(rest, FloorDiv):
        return ModularIndexing(*rest.args, b, evaluate=False)
    if isinstance(rest, ModularIndexing):
        base, divisor, modulus = rest.args
        if modulus.is_Integer and b.is_Integer and int(modulus) % int(b) == 0:
            return ModularIndexing(base, divisor, b, evaluate=False)
    if b.is_Integer and rest.is_Add and (reduced := _by_common_factor(rest, int(b), sizes)) is not None:
        factor, large, small = reduced
        return factor * modulo(large, sympy.Integer(int(b) // factor), sizes) + small
    return ModularIndexing(rest, ONE, b, evaluate=False)


def _by_common_factor(a: Size, b: int, sizes: Ranges) -> tuple[int, Size, Size] | None:
    """(f, large, small) with a == f * large + small, for a factor f > 1 of b that `small` stays under."""
    factors = {term: int(c) if (c := term.as_coeff_Mul()[0]).is_Integer else 1 for term in sympy.Add.make_args(a)}
    factor = math.gcd(b, *(each for each in factors.values() if math.gcd(each, b) > 1))
    small = sympy.Add(*(term for term, each in factors.items() if each % factor))
    if factor == 1 or not below(small, sympy.Integer(factor), sizes):
        return None
    return factor, sympy.Add(*(term / factor for term, each in factors.items() if each % factor == 0)), small


def simplify(expr: Size, sizes: Ranges) -> Size:
    """`expr` with divisions and remainders resolved that the ranges of the axes decide."""
    if not expr.args or not expr.has(FloorDiv, ModularIndexing):
        return expr
    args = [simplify(arg, sizes) for arg in expr.args]
    if isinstance(expr, FloorDiv):
        return floordiv(sympy.expand(args[0]), args[1], sizes)
    if isinstance(expr, ModularIndexing):
        base, divisor, modulus = args
        return modulo(floordiv(sympy.expand(base), divisor, sizes), modulus, sizes)
    return rejoined(expr.func(*args))


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


# Axes split where indices divide them.


def cuts(index: Size, sizes: Ranges) -> Iterator[tuple[sympy.Symbol, int]]:
    """The axes that divisions in `index` cut in two, each with the size that the part below the cut would have."""
    for division in index.atoms(FloorDiv, ModularIndexing):
        base, divisor, *modulus = division.args
        for limit in (divisor, *(divisor * m for m in modulus)):
            for axis, size in sizes.items():
                step = base.coeff(axis)
                if step.is_Integer and step > 0 and limit.is_Integer and sympy.sympify(size).is_Integer:
                    low, rest = divmod(int(limit), int(step))
                    if rest == 0 and 1 < low < size:
                        yield axis, low


def parts(size: int, cuts: Iterable[int]) -> list[int]:
    """Sizes of the parts of an axis of `size` cut at strides `cuts`, outermost first; [size] where they do not fit
    together: 8 and 64 do, 8 and 12 do not."""
    strides = [1, *sorted(cuts), size]
    if any(outer % inner for inner, outer in pairwise(strides)):
        return [size]
    return [outer // inner for inner, outer in pairwise(strides)][::-1]
