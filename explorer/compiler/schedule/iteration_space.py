"""One set of axes for two groups: which axis of one is which axis of the other, splitting axes where that helps.

Two loops often walk over the same elements under other names: [4, 8] against [32], or with the axes swapped. What
tells is an element that both access: read as a number in mixed radix, each term of an index (coefficient, size) is a
digit, and equal digits are the same axis.
Inductor: codegen/simd.py (SIMDKernel.map_kernel_groups_to_node_sizes) and scheduler.py (loop ordering after fusion).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import sympy
from torch.utils._sympy.functions import ModularIndexing

from explorer.compiler.schedule.group import FreshNames, Group, GroupAccess, ScheduledLoop
from explorer.ir.index import Affine, Ranges, cuts, hint, number, points, quotient, ranges, row_major
from explorer.ir.loops import Axis, Size

Pairs = dict[sympy.Symbol, sympy.Symbol]


@dataclass(frozen=True, slots=True)
class Link:
    """A buffer that a loop of one group and a loop of the other access. `needed`: one of them writes it, so that both
    must access it at one point."""

    buffer: str
    a: GroupAccess
    b: GroupAccess

    @property
    def needed(self) -> bool:
        return self.a.written or self.b.written


@dataclass(frozen=True, slots=True)
class _Split:
    """A request to split an axis so that the lower part has size `low`."""

    axis: sympy.Symbol
    low: Size


def align(a: Group, b: Group, links: Sequence[Link], names: FreshNames) -> tuple[Group, Group] | None:
    """The two groups with equal axes where they walk over the same elements of the linked buffers, axes left over
    matched in order; None where a needed link cannot be matched."""
    while True:
        outcome = _pair_axes(a, b, links)
        if outcome is None:
            return _flat(a, b, links, names)
        if isinstance(outcome, _Split):
            a, b = (split(group, outcome, names) for group in (a, b))
            continue
        return a, renamed(b, outcome)


def side_by_side(a: Group, b: Group) -> tuple[Group, Group] | None:
    """The two groups over the same axes in order, where their sizes are the same."""
    if any(len(x) != len(y) for x, y in ((a.outer, b.outer), (a.inner, b.inner))):
        return None
    if any(x.size != y.size for x, y in zip(a.axes, b.axes, strict=True)):
        return None
    return a, renamed(b, {y.symbol: x.symbol for x, y in zip(a.axes, b.axes, strict=True)})


def renamed(group: Group, names: Pairs) -> Group:
    """The group with other symbols for some axes."""
    new = {axis.symbol: names.get(axis.symbol, axis.symbol) for axis in group.axes}
    outer, inner = (tuple(Axis(new[axis.symbol], axis.size) for axis in axes) for axes in (group.outer, group.inner))
    return group.moved(outer, inner, {old: Affine({symbol: 1}) for old, symbol in new.items()})


def merge(a: Group, b: Group) -> Group | None:
    """One group from two that are aligned, or None where no loops over outer and inner axes serve both."""
    outer_a, outer_b, inner_a, inner_b = (frozenset(axes) for axes in (a.outer, b.outer, a.inner, b.inner))
    all_a, all_b = outer_a | inner_a, outer_b | inner_b
    if all_a == all_b and (inner_a == inner_b or not inner_a or not inner_b):
        if inner_a == inner_b and a.ordered and b.ordered and a.inner != b.inner:
            return None
        frame = b if b.inner and (b.ordered or not a.inner) else a
    elif all_b == outer_a and not inner_b:
        frame = a
    elif all_a == outer_b and not inner_a:
        frame = b
    elif not inner_a and not inner_b and all_a < all_b:
        frame = replace(b, outer=a.outer, inner=tuple(axis for axis in b.outer if axis not in all_a))
    elif not inner_a and not inner_b and all_b < all_a:
        frame = replace(a, outer=b.outer, inner=tuple(axis for axis in a.outer if axis not in all_b))
    else:
        return None

    def joined(group: Group) -> Iterable[ScheduledLoop]:
        spans = frozenset(group.axes) == frozenset(frame.axes) and bool(frame.inner) and not group.inner
        return (replace(placed, inner=True) for placed in group.placed) if spans else group.placed

    placed = sorted((*joined(a), *joined(b)), key=lambda p: p.position)
    return Group(frame.outer, frame.inner, tuple(placed))


def split(group: Group, request: _Split, names: FreshNames) -> Group:
    """The group with one axis replaced by two, or unchanged where it has no such axis."""
    images: dict[sympy.Symbol, Affine] = {}

    def parts(axis: Axis) -> tuple[Axis, ...]:
        if axis.symbol != request.axis:
            images[axis.symbol] = Affine({axis.symbol: 1})
            return (axis,)
        high, low = names.axis(_quotient(axis.size, request.low)), names.axis(request.low)
        images[axis.symbol] = row_major((high, low))
        return high, low

    if all(axis.symbol != request.axis for axis in group.axes):
        return group
    outer, inner = (tuple(part for axis in axes for part in parts(axis)) for axes in (group.outer, group.inner))
    return group.moved(outer, inner, images)


def with_affine_indices(group: Group, names: FreshNames) -> Group:
    """The group with axes split where its indices divide them, so that divisions and remainders go away."""
    while (request := _divided(group)) is not None:
        group = split(group, request, names)
    return group


def _divided(group: Group) -> _Split | None:
    sizes = ranges(group.axes)
    indices = (index.non_affine for placed in group.placed for index in placed.at.values())
    cut = (each for index in indices if index is not None for each in cuts(index, sizes))
    return next((_Split(axis, low) for axis, low in cut if sizes[axis] % low == 0), None)


def _pair_axes(a: Group, b: Group, links: Sequence[Link]) -> Pairs | _Split | None:
    """The axis of `a` for each axis of `b`, a split that is needed first, or None."""
    sizes = {**ranges(a.axes), **ranges(b.axes)}
    pairs: Pairs = {}
    for link in links:
        at_a, at_b = a.at(link.a), b.at(link.b)
        found = _match(at_a, at_b, sizes)
        if isinstance(found, _Split):
            return found
        if found is not None and _consistent(pairs, found):
            pairs.update(found)
        elif link.needed and at_a.non_affine is None and at_b.non_affine is None:
            return None
    taken = set(pairs.values())
    rest_a = [axis for axis in a.axes if axis.symbol not in taken]
    rest_b = [axis for axis in b.axes if axis.symbol not in pairs]
    if rest_a and rest_b and number(points(rest_a)) == number(points(rest_b)):
        found = _match(row_major(rest_a), row_major(rest_b), sizes)
        if isinstance(found, _Split):
            return found
        pairs.update(found or {})
    return pairs


def _match(a: Affine, b: Affine, sizes: Ranges) -> Pairs | _Split | None:
    """Axes of `b` to axes of `a` that make the two indices equal."""
    if a.non_affine is not None or b.non_affine is not None or a.offset != b.offset:
        return None
    digits_a, digits_b = _digits_of(a, sizes), _digits_of(b, sizes)
    may_split = _mixed_radix(digits_a, sizes) and _mixed_radix(digits_b, sizes)
    pairs: Pairs = {}
    for (axis_a, step_a), (axis_b, step_b) in zip(digits_a, digits_b, strict=False):
        size_a, size_b = sizes[axis_a], sizes[axis_b]
        if step_a != step_b:
            return None
        if size_a == size_b:
            pairs[axis_b] = axis_a
        elif may_split and _quotient(size_b, size_a) is not None:
            return _Split(axis_b, size_a)
        elif may_split and _quotient(size_a, size_b) is not None:
            return _Split(axis_a, size_b)
        else:
            return None
    return pairs if len(digits_a) == len(digits_b) else None


def _digits_of(index: Affine, sizes: Ranges) -> list[tuple[sympy.Symbol, Size]]:
    """The terms, from the least coefficient up."""
    # Any positive values of the symbols will do to sort by, for `_fits` is what decides.
    return sorted(index.terms.items(), key=lambda digit: (hint(digit[1], {}), hint(sizes[digit[0]], {})))


def _mixed_radix(digits: list[tuple[sympy.Symbol, Size]], sizes: Ranges) -> bool:
    """Whether no two points have one index: each step is at least as long as the digits below it reach."""
    if digits and hint(digits[0][1], {}) < 0:
        return False
    return all(_fits(step * sizes[axis], above) for (axis, step), (_, above) in zip(digits, digits[1:], strict=False))


def _fits(reach: Size, step: Size) -> bool:
    """Whether reach <= step for all values of the size symbols."""
    if isinstance(reach, int) and isinstance(step, int):
        return reach <= step
    return bool(reach == step or _quotient(step, number(sympy.sympify(reach))) is not None)


def _quotient(size: Size, divisor: Size) -> Size | None:
    """size / divisor where that is a whole number over 1, else None."""
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor if divisor > 1 and size > divisor and size % divisor == 0 else None
    found = quotient(sympy.sympify(size), sympy.sympify(divisor))
    return None if found is None or found in (0, 1) else number(found)


def _flat(a: Group, b: Group, links: Sequence[Link], names: FreshNames) -> tuple[Group, Group] | None:
    """Both over the one linear position in the buffer that they share, where each walks over all of it."""
    link = next((link for link in links if link.needed), None)
    if link is None or a.inner or b.inner:
        return None
    axis = names.axis(number(points(a.axes)))
    flat_a = _linear(a, a.at(link.a), axis)
    flat_b = _linear(b, b.at(link.b), axis)
    return (flat_a, flat_b) if flat_a is not None and flat_b is not None else None


def _linear(group: Group, index: Affine, axis: Axis) -> Group | None:
    """The group over `axis`, the position in a buffer that `index` walks over densely."""
    sizes = ranges(group.axes)
    digits = _digits_of(index, sizes)
    if index.non_affine is not None or index.offset != 0 or len(digits) != len(group.axes):
        return None
    images: dict[sympy.Symbol, Affine] = {}
    below: Size = 1
    for symbol, step in digits:
        if step != below:
            return None
        size = sizes[symbol]
        images[symbol] = Affine({}, 0, ModularIndexing(axis.symbol, below, size))
        below = number(sympy.sympify(below * size))
    return group.moved((axis,), (), images) if below == axis.size else None


def _consistent(pairs: Pairs, found: Pairs) -> bool:
    taken = {a: b for b, a in pairs.items()}
    return all(pairs.get(b, a) == a and taken.get(a, b) == b for b, a in found.items())
