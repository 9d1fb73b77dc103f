"""From a group of placed loops to a kernel: order its axes for memory, merge them, rewrite the loops over them; then
all items of a schedule, kernels with their internal buffers and library calls, in a valid order.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cmp_to_key

import sympy

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.group import FreshNames, Group, ScheduledLoop
from explorer.core.origin import union
from explorer.core.reasons import Verdict, Why
from explorer.ir.index import Affine, hint, number, points
from explorer.ir.loops import Axis, Expr, Extern, IndexValue, Load, View, rewrite, storages
from explorer.ir.schedule import Dependencies, Fused, FusedKernel, FusionDecision, KernelLoop


def kernel(id: str, group: Group, internal: frozenset[str], hints: Mapping[sympy.Symbol, int]) -> FusedKernel:
    """The finished kernel over axes x0, ... and r0, ..., as few as its accesses allow.

    Inductor: loop_body.py (LoopBody.merge_loops, reorder_iter_loops).
    """
    group = _merged(_ordered(group, internal, hints))
    outer, inner = _renamed(group.outer, "x"), _renamed(group.inner, "r")
    images = {old.symbol: Affine({new.symbol: 1}) for old, new in zip(group.axes, outer + inner, strict=True)}
    group = group.moved(outer, inner, images)
    steps = tuple(_step(placed, group) for placed in group.placed)
    return FusedKernel(id, outer, inner, steps, internal, union(*(step.loop.origins for step in steps)))


def _ordered(group: Group, internal: frozenset[str], hints: Mapping[sympy.Symbol, int]) -> Group:
    """Sort the axes so that the innermost moves through memory by the smallest steps for most bytes."""
    accesses = [
        (placed.at[access.index], weight * placed.loop.buffer.layout.dtype.itemsize * _points(placed, group, hints))
        for placed in group.placed
        for weight, access in ((2, placed.write), *((1, read) for read in placed.reads))
        if access.buffer not in internal
    ]

    def compare(a: Axis, b: Axis) -> int:
        vote = 0
        for index, weight in accesses:
            steps = [index.terms.get(axis.symbol, 0) for axis in (a, b)]
            if steps[0] != 0 and steps[1] != 0:
                first, second = (abs(hint(step, hints)) for step in steps)
                vote += weight * ((first < second) - (first > second))
        return vote

    by_memory = cmp_to_key(compare)
    inner = group.inner if group.ordered else tuple(sorted(group.inner, key=by_memory))
    return replace(group, outer=tuple(sorted(group.outer, key=by_memory)), inner=inner)


def _points(placed: ScheduledLoop, group: Group, hints: Mapping[sympy.Symbol, int]) -> int:
    axes = group.axes if placed.inner else group.outer
    return hint(points(axes), hints)


def _merged(group: Group) -> Group:
    """Join neighboring axes that every access walks as if they were one."""
    while (pair := _mergeable(group)) is not None:
        high, low = pair
        both = Axis(low.symbol, number(high.size * low.size))
        outer, inner = (
            tuple(both if axis is low else axis for axis in axes if axis is not high)
            for axes in (group.outer, group.inner)
        )
        group = Group(outer, inner, tuple(_joined(placed, high) for placed in group.placed))
    return group


def _mergeable(group: Group) -> tuple[Axis, Axis] | None:
    for axes in (group.outer, group.inner):
        for high, low in zip(axes, axes[1:], strict=False):
            if all(_contiguous(index, high, low) for placed in group.placed for index in placed.at.values()):
                return high, low
    return None


def _contiguous(index: Affine, high: Axis, low: Axis) -> bool:
    if index.non_affine is not None and not index.non_affine.free_symbols.isdisjoint((high.symbol, low.symbol)):
        return False
    return bool(index.terms.get(high.symbol, 0) == number(index.terms.get(low.symbol, 0) * low.size))


def _joined(placed: ScheduledLoop, high: Axis) -> ScheduledLoop:
    """With `high` part of the axis below it, whose coefficient now counts for both."""

    def without(index: Affine) -> Affine:
        return replace(index, terms={axis: c for axis, c in index.terms.items() if axis != high.symbol})

    return replace(placed, at={own: without(index) for own, index in placed.at.items()})


def _renamed(axes: tuple[Axis, ...], prefix: str) -> tuple[Axis, ...]:
    names = FreshNames(prefix)
    return tuple(Axis(names.axis(axis.size).symbol, sympy.sympify(axis.size)) for axis in axes)


def _step(placed: ScheduledLoop, group: Group) -> KernelLoop:
    loop = placed.loop
    at = {own: index.expr() for own, index in placed.at.items()}

    def over_kernel_axes(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return Load(expr.dtype, expr.origins, expr.buffer, at[expr.index], expr.indirect)
        if isinstance(expr, IndexValue):
            return IndexValue(expr.dtype, expr.origins, at[expr.index])
        return None

    value, *positions = rewrite(loop.roots, over_kernel_axes)
    symbols = [symbol for symbol, _ in loop.indirect]
    rewritten = replace(
        loop,
        axes=group.axes if placed.inner and loop.combine is None else group.outer,
        reduced=group.inner if loop.combine is not None else (),
        value=value,
        index=at[loop.index],
        indirect=tuple(zip(symbols, positions, strict=True)),
    )
    return KernelLoop(rewritten, placed.inner)


Item = FusedKernel | Extern


def ids_of(item: Item) -> tuple[str, ...]:
    """The operations that an item runs."""
    return (item.id,) if isinstance(item, Extern) else item.ids


def collect(
    dependencies: Dependencies, groups: Sequence[Group], verdicts: Mapping[tuple[str, str], Verdict], otherwise: Why
) -> Fused:
    """The Fused artifact of `groups` and the library calls, in program order where dependencies allow."""
    loops = dependencies.loops
    position = {operation.id: at for at, operation in enumerate(loops.operations)}
    hidden = private(dependencies)
    parts: list[Group | Extern] = [*groups, *(op for op in loops.operations if isinstance(op, Extern))]
    ids = [(part.id,) if isinstance(part, Extern) else part.ids for part in parts]
    items: list[Item] = []
    kernels = 0
    for at in topological(ids, dependencies, [min(position[id] for id in own) for own in ids]):
        part = parts[at]
        if isinstance(part, Extern):
            items.append(part)
            continue
        members = set(part.ids)
        internal = frozenset(
            id
            for id in part.ids
            if id in hidden and (users := dependencies.users.get(id)) and members.issuperset(users)
        )
        items.append(kernel(f"{loops.mark}k{kernels}", part, internal, loops.hints))
        kernels += 1
    fusions = tuple(FusionDecision(first, second, verdict) for (first, second), verdict in verdicts.items())
    externs = [part for part in parts if isinstance(part, Extern)]
    excluded = {part.id: Why(reasons.LIBRARY_CALL, str(part.target)) for part in externs}
    return Fused(dependencies, tuple(items), fusions, excluded, otherwise)


def topological(groups: Sequence[Sequence[str]], dependencies: Dependencies, priority: Sequence[int]) -> list[int]:
    """Positions of `groups` (of operation ids) in an order that dependencies allow, the least `priority` first among
    those that are ready. Raises AssertionError where they need one another in a circle."""
    needs = before(groups, dependencies)
    users: list[list[int]] = [[] for _ in groups]
    for at, earlier in enumerate(needs):
        for other in earlier:
            users[other].append(at)
    missing = [len(earlier) for earlier in needs]
    ready = [(priority[at], at) for at, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, at = heapq.heappop(ready)
        order.append(at)
        for user in users[at]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (priority[user], user))
    assert len(order) == len(groups), "kernels need one another in a circle"
    return order


def before(groups: Sequence[Sequence[str]], dependencies: Dependencies) -> list[set[int]]:
    """For each group, the positions of the groups that must run before it."""
    home = {id: at for at, ids in enumerate(groups) for id in ids}
    return [{home[need] for id in ids for need in dependencies.after[id]} - {at} for at, ids in enumerate(groups)]


def private(dependencies: Dependencies) -> set[str]:
    """Buffers that neither the caller nor another name for their storage can see."""
    loops = dependencies.loops
    buffers = loops.buffers
    seen = {output.buffer for output in loops.outputs if isinstance(output, View)}
    seen.update(name for name, owner in storages(buffers).items() if name != owner)
    seen.update(owner for name, owner in storages(buffers).items() if name != owner)
    return set(buffers) - seen
