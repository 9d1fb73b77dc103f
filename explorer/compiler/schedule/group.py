"""Loops placed in one set of axes: the working form of a kernel during fusion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import sympy

from explorer.ir.index import Affine, affine, number, ranges, substitute
from explorer.ir.loops import Axis, IndexValue, Load, Loop, Size, walk


@dataclass(frozen=True, slots=True)
class Element:
    """An element that a loop reads or writes, by the index over the loop's own axes. `exact` is False where part of
    the index comes from data: the element is then known only when the kernel runs."""

    buffer: str
    index: Size
    exact: bool = True


@dataclass(frozen=True, slots=True)
class ScheduledLoop:
    """A loop with the group's axes for its own: `at` gives each index expression of the loop over the group's axes.
    `inner` as in Step; `position` is the loop's place in program order."""

    loop: Loop
    position: int
    inner: bool
    reads: tuple[Element, ...]
    write: Element
    at: Mapping[Size, Affine]

    def moved(self, images: Mapping[sympy.Symbol, Affine], sizes: Mapping[sympy.Symbol, Size]) -> ScheduledLoop:
        """The loop after the group's axes were replaced by their images."""
        return replace(self, at={own: substitute(index, images, sizes) for own, index in self.at.items()})


@dataclass(frozen=True, slots=True)
class GroupAccess:
    """An access by the loop at place `by` of a group."""

    by: int
    element: Element
    written: bool


@dataclass(frozen=True)
class Group:
    """Loops that will be one kernel, in program order."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    placed: tuple[ScheduledLoop, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.outer + self.inner

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(p.loop.id for p in self.placed)

    @cached_property
    def accesses(self) -> dict[str, list[GroupAccess]]:
        """Every access of each buffer."""
        found: dict[str, list[GroupAccess]] = {}
        for by, placed in enumerate(self.placed):
            found.setdefault(placed.write.buffer, []).append(GroupAccess(by, placed.write, True))
            for read in placed.reads:
                found.setdefault(read.buffer, []).append(GroupAccess(by, read, False))
        return found

    def at(self, access: GroupAccess) -> Affine:
        """Where a access is, over the group's axes."""
        return self.placed[access.by].at[access.element.index]

    @property
    def reduces(self) -> bool:
        return any(p.loop.combine is not None for p in self.placed)

    @property
    def ordered(self) -> bool:
        """Whether the order of the inner axes is part of a result (which of equal elements comes first)."""
        return any(p.loop.combine in ("argmax", "argmin") for p in self.placed)

    def moved(self, outer: tuple[Axis, ...], inner: tuple[Axis, ...], images: Mapping[sympy.Symbol, Affine]) -> Group:
        """The same loops over other axes; `images` gives each old axis in terms of the new ones."""
        sizes = ranges(outer + inner)
        return Group(outer, inner, tuple(p.moved(images, sizes) for p in self.placed))


class FreshNames:
    """Fresh axis symbols, so that axes of different groups never meet by accident."""

    def __init__(self, prefix: str = "d") -> None:
        self._prefix = prefix
        self._next = count()

    def axis(self, size: Size) -> Axis:
        symbol = sympy.Symbol(f"{self._prefix}{next(self._next)}", integer=True, nonnegative=True)
        return Axis(symbol, number(size))


def single(loop: Loop, position: int, names: FreshNames) -> Group:
    """The group of one loop; axes of size 1 are gone, but a reduction keeps one reduced axis."""
    place: dict[sympy.Symbol, Affine] = {}

    def fresh(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        made = []
        for axis in axes:
            if axis.size == 1:
                place[axis.symbol] = Affine({})
            else:
                made.append(names.axis(axis.size))
                place[axis.symbol] = Affine({made[-1].symbol: 1})
        return tuple(made)

    outer, inner = fresh(loop.axes), fresh(loop.reduced)
    if loop.combine is not None and not inner:
        inner = (names.axis(1),)
    return Group(outer, inner, (put(loop, position, place, outer + inner, bool(inner)),))


def put(
    loop: Loop, position: int, place: Mapping[sympy.Symbol, Affine], axes: tuple[Axis, ...], inner: bool
) -> ScheduledLoop:
    """Place `loop` in the group's `axes`: `place` gives each of its own axes over these."""
    sizes = ranges(axes)
    reads: dict[Element, None] = {}
    indices = {loop.index: None}
    for expr in walk(*loop.roots):
        if isinstance(expr, Load):
            reads[Element(expr.buffer, expr.index, not expr.indirect)] = None
            indices[expr.index] = None
        elif isinstance(expr, IndexValue):
            indices[expr.index] = None
    at = {index: substitute(affine(index, loop.ranges), place, sizes) for index in indices}
    write = Element(loop.buffer.name, loop.index, not loop.indirect)
    return ScheduledLoop(loop, position, inner, tuple(reads), write, at)
