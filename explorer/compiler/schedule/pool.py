"""Places in one pool for buffers that are never alive at the same time.

Inductor: codegen/memory_planning.py (AllocationPools). The packing is best fit, largest first, as in TVM's USMP.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import sympy

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.kernels import size_hint
from explorer.core.reasons import Why
from explorer.core.rules import RuleTable
from explorer.ir.memory import Allocation

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector load."""
SMALL = 1 << 20
"""Bytes: to hold a pool of this size costs less than to allocate its buffers in each call."""
MOST_GROWTH = 1.25
"""A larger pool may raise the peak by this factor: its buffers need no allocation in each call."""


def pack(
    plan: Mapping[str, Allocation], hints: Mapping[sympy.Symbol, int], before: int
) -> tuple[dict[str, Allocation], int]:
    """The plan with offsets in the pool, and the pool's size in bytes.

    The pool is held for the whole call, so a large buffer of short life may do better in a tensor of its own: of the
    plans that leave out none, the largest, the two largest, four ... all, the first that is no burden is taken, given
    `before`, the peak without a pool.
    """
    by_size = sorted((a.buffer for a in plan.values() if a.where == "pool"), key=lambda name: -int(plan[name].bytes))
    counts = [0, *(1 << power for power in range(len(by_size).bit_length())), len(by_size)]
    tried: list[tuple[int, dict[str, Allocation], int]] = []
    for count in counts:
        packed, pool = _packed(plan, by_size[:count])
        after = pool + peak(packed, ("own", "library"), hints)
        if pool <= SMALL or after <= MOST_GROWTH * before:
            return packed, pool
        tried.append((after, packed, pool))
    _, packed, pool = min(tried, key=lambda each: each[0])
    return packed, pool


def held(plan: Mapping[str, Allocation]) -> dict[str, tuple[int, int]]:
    """First and last position at which each buffer's memory is in use, by itself or by buffers that reuse it."""
    found = {name: (a.first, a.last) for name, a in plan.items()}
    for name, a in reversed(list(plan.items())):
        if a.where == "reuse" and a.of is not None and a.of in plan:
            first, last = found[a.of]
            found[a.of] = first, max(last, found[name][1])
    return found


def peak(plan: Mapping[str, Allocation], places: tuple[str, ...], hints: Mapping[sympy.Symbol, int]) -> int:
    """Most bytes alive at one position in `places`, rounded as an allocator rounds them."""
    spans = held(plan)
    change: dict[int, int] = {}
    for name, a in plan.items():
        if a.where in places:
            first, last = spans[name]
            size = _aligned(size_hint(a.bytes, hints))
            change[first] = change.get(first, 0) + size
            change[last + 1] = change.get(last + 1, 0) - size
    most = now = 0
    for at in sorted(change):
        now += change[at]
        most = max(most, now)
    return most


def _packed(plan: Mapping[str, Allocation], alone: Collection[str]) -> tuple[dict[str, Allocation], int]:
    """The plan with offsets in the pool, and the pool's size: the largest buffers first, each in the tightest gap
    between those alive at the same time. Those in `alone` get tensors of their own."""
    made = dict(plan)
    for name in alone:
        made[name] = replace(plan[name], where="own", why=Why(reasons.SHORT_LIVED))
    spans = held(plan)
    wanted = [(a, spans[name]) for name, a in made.items() if a.where == "pool"]
    slots: list[tuple[Allocation, tuple[int, int]]] = []
    reuse = MEMORY["reuse"]
    for a, (first, last) in sorted(wanted, key=lambda pair: (-int(pair[0].bytes), pair[1])):
        rivals = sorted((b for b, (start, end) in slots if start <= last and first <= end), key=lambda b: b.offset)
        made[a.buffer] = replace(a, offset=reuse(_aligned(int(a.bytes)), rivals))
        slots.append((made[a.buffer], (first, last)))
    return made, max((_end(a) for a, _ in slots), default=0)


MEMORY: RuleTable[str, Callable[[int, list[Allocation]], int]] = RuleTable("memory", {"reuse"}.__contains__)
"""reuse(need, rivals): where in the pool a buffer goes."""


@MEMORY.rule("reuse")
def tightest_gap(need: int, rivals: list[Allocation]) -> int:
    """Where `need` bytes fit best between slots sorted by offset; above them all where no gap is wide enough."""
    gaps: list[tuple[int, int]] = []
    top = 0
    for rival in rivals:
        if rival.offset - top >= need:
            gaps.append((rival.offset - top, top))
        top = max(top, _end(rival))
    return min(gaps)[1] if gaps else top


def _end(a: Allocation) -> int:
    return a.offset + _aligned(int(a.bytes))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
