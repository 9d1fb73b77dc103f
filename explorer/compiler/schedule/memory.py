"""Where each intermediate lives: offsets in one pool for buffers that are never alive at the same time, reuse in place,
and what that saves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import sympy

from explorer.compiler.schedule import reasons
from explorer.core.reasons import Why
from explorer.core.rules import RuleTable
from explorer.ir.index import hint
from explorer.ir.loops import Buffer, Extern, storages
from explorer.ir.schedule import Allocation, FusedKernel, KernelLoop, MemoryPlan, Schedule

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


def lifetimes(plan: Mapping[str, Allocation]) -> dict[str, tuple[int, int]]:
    """First and last position at which each buffer's memory is in use, by itself or by buffers that reuse it."""
    found = {name: (a.first, a.last) for name, a in plan.items()}
    for name, a in reversed(list(plan.items())):
        if a.where == "reuse" and a.of is not None and a.of in plan:
            first, last = found[a.of]
            found[a.of] = first, max(last, found[name][1])
    return found


def peak(plan: Mapping[str, Allocation], places: tuple[str, ...], hints: Mapping[sympy.Symbol, int]) -> int:
    """Most bytes alive at one position in `places`, rounded as an allocator rounds them."""
    spans = lifetimes(plan)
    change: dict[int, int] = {}
    for name, a in plan.items():
        if a.where in places:
            first, last = spans[name]
            size = _aligned(hint(a.bytes, hints))
            change[first] = change.get(first, 0) + size
            change[last + 1] = change.get(last + 1, 0) - size
    most = now = 0
    for at in sorted(change):
        now += change[at]
        most = max(most, now)
    return most


def _packed(plan: Mapping[str, Allocation], alone: Collection[str]) -> tuple[dict[str, Allocation], int]:
    """The plan with offsets in the pool, and the pool's size: the largest buffers first, each where `reuse` puts it
    among those alive at the same time. Those in `alone` get tensors of their own."""
    made = dict(plan)
    for name in alone:
        made[name] = replace(plan[name], where="own", why=Why(reasons.SHORT_LIVED))
    spans = lifetimes(plan)
    wanted = [(a, spans[name]) for name, a in made.items() if a.where == "pool"]
    slots: list[tuple[Allocation, tuple[int, int]]] = []
    reuse, why = MEMORY["reuse"], Why(reasons.POOL, MEMORY.credit("reuse"))
    for a, (first, last) in sorted(wanted, key=lambda pair: (-int(pair[0].bytes), pair[1])):
        rivals = sorted((b for b, (start, end) in slots if start <= last and first <= end), key=lambda b: b.offset)
        slot = replace(a, bytes=_aligned(max(1, int(a.bytes))))  # a library call may refuse its input as its result
        offset = reuse(slot.bytes, rivals)
        if type(offset) is not int or offset < 0 or offset % ALIGNMENT:
            message = f"`reuse` gave {offset!r} for {slot.bytes} bytes of {a.buffer}"
            raise TypeError(f"{message}; a place is an int, 0 or a positive multiple of {ALIGNMENT}")
        made[a.buffer] = replace(a, offset=offset, why=why)
        slots.append((replace(slot, offset=offset), (first, last)))
    return made, max((slot.offset + slot.bytes for slot, _ in slots), default=0)


MEMORY: RuleTable[str, Callable[[int, list[Allocation]], int]] = RuleTable("memory", {"reuse"}.__contains__)
"""reuse(need, rivals): where in the pool a buffer goes. Bytes are ints, and rounded up to ALIGNMENT."""


@MEMORY.rule("reuse")
def tightest_gap(need: int, rivals: list[Allocation]) -> int:
    """Where `need` bytes fit best between slots sorted by offset; above them all where no gap is wide enough."""
    gaps: list[tuple[int, int]] = []
    top = 0
    for rival in rivals:
        if rival.offset - top >= need:
            gaps.append((rival.offset - top, top))
        top = max(top, rival.offset + rival.bytes)
    return min(gaps)[1] if gaps else top


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_memory(schedule: Schedule) -> MemoryPlan:
    """Place every buffer that the program makes."""
    loops = schedule.loops
    made = _made(schedule)
    device = next((buffer.layout.device for buffer, item in made if isinstance(item, FusedKernel) or item.out), None)
    plan = {buffer.name: _decide(schedule, buffer, item) for buffer, item in made}
    for buffer, _ in made:
        if plan[buffer.name].where == "pool" and buffer.layout.device != device:
            plan[buffer.name] = replace(plan[buffer.name], where="own", why=Why(reasons.OTHER_DEVICE))
    before = peak(plan, ("own", "library", "pool"), loops.hints)
    _overwrite(schedule, plan)
    packed, pool = pack(plan, loops.hints, before)
    _take_over(schedule, packed)
    after = pool + peak(packed, ("own", "library"), loops.hints)
    return MemoryPlan(loops.name, tuple(packed.values()), pool, before, after)


def _made(schedule: Schedule) -> list[tuple[Buffer, FusedKernel | Extern]]:
    """Every buffer that an item writes, with the item, in running order."""
    made: list[tuple[Buffer, FusedKernel | Extern]] = []
    for item in schedule.items:
        if isinstance(item, Extern):
            made += [(buffer, item) for buffer in item.writes]
        else:
            made += [(step.loop.buffer, item) for step in item.steps]
    return made


def _decide(schedule: Schedule, buffer: Buffer, item: FusedKernel | Extern) -> Allocation:
    """Where a buffer goes, before places are shared."""
    first, last = schedule.live[buffer.name]
    size = sympy.expand(buffer.layout.extent * buffer.layout.dtype.itemsize)
    allocation = Allocation(buffer.name, "pool", size, first, last, Why(reasons.POOL))
    if buffer.alias_of is not None:
        return replace(allocation, where="reuse", why=Why(reasons.ALIAS), of=buffer.alias_of)
    if isinstance(item, FusedKernel) and buffer.name in item.internal:
        return replace(allocation, where="none", why=Why(reasons.NEVER))
    if isinstance(item, Extern) and not item.out:
        return replace(allocation, where="library", why=Why(reasons.LIBRARY))
    if last == len(schedule.items):
        return replace(allocation, where="own", why=Why(reasons.RETURNED))
    numbers = (size, *buffer.layout.size, *buffer.layout.stride)  # an empty one has 0 bytes, and may have unknown sizes
    if not all(sympy.sympify(each).is_Integer for each in numbers):
        return replace(allocation, where="own", why=Why(reasons.UNKNOWN_SIZE))
    return allocation


def _overwrite(schedule: Schedule, plan: dict[str, Allocation]) -> None:
    """Let buffers overwrite, element by element, what their kernel reads last."""
    buffers = schedule.loops.buffers
    named = {each for pair in storages(buffers).items() if pair[0] != pair[1] for each in pair}
    taken = set(named)
    root: dict[str, str] = {}
    for at, item in enumerate(schedule.items):
        if isinstance(item, Extern):
            continue
        for position, step in enumerate(item.steps):
            wanted = plan[step.loop.id]
            if wanted.where not in ("pool", "own") or wanted.buffer in named or wanted.last == len(schedule.items):
                continue
            for name in _own_point_reads(item.steps, position):
                dying = plan.get(name)
                if dying is None or name in taken or dying.last != at or dying.first == at:
                    continue
                place = plan[root.get(name, name)]
                fits = dying.bytes == wanted.bytes and buffers[name].layout.dtype == step.loop.buffer.layout.dtype
                if fits and place.where == wanted.where:
                    taken.add(name)
                    root[wanted.buffer] = place.buffer
                    plan[wanted.buffer] = replace(wanted, where="reuse", why=Why(reasons.IN_PLACE, name), of=name)
                    break


def _take_over(schedule: Schedule, plan: dict[str, Allocation]) -> None:
    """Let buffers outside the pool take the memory of one of the same size that is no longer needed."""
    buffers = schedule.loops.buffers
    spans = lifetimes(plan)
    last_in = {each: each for each, a in plan.items() if a.where == "own" and spans[each][1] < len(schedule.items)}
    for name, a in list(plan.items()):
        if name not in last_in:
            continue
        for place, latest in last_in.items():
            fits = buffers[place].layout.dtype == buffers[name].layout.dtype and plan[place].bytes == a.bytes
            if place != name and fits and spans[latest][1] < a.first:
                plan[name] = replace(a, where="reuse", why=Why(reasons.TAKEN_OVER, place), of=place)
                last_in[place] = name
                del last_in[name]
                break


def _own_point_reads(steps: tuple[KernelLoop, ...], position: int) -> list[str]:
    """Buffers that a kernel reads only where the step at `position` writes, and not after it."""
    writer = steps[position].loop
    if writer.store != "set" or writer.indirect:
        return []
    found: dict[str, bool] = {}
    for at, step in enumerate(steps):
        for load in step.loop.loads:
            own = at <= position and not load.indirect and bool(load.index == writer.index)
            found[load.buffer] = found.get(load.buffer, True) and own
    return [name for name, own in found.items() if own]
