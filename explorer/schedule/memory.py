"""Where each intermediate lives: offsets in one pool, reuse in place, and what that saves.

Inductor: codegen/memory_planning.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sympy

from explorer.core.reasons import Why
from explorer.ir.loops import Buffer, Extern, Layout
from explorer.ir.memory import Allocation, MemoryPlan
from explorer.ir.schedule import FusedKernel, Schedule
from explorer.schedule import reasons
from explorer.schedule.kernels import size_hint

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector load."""


def plan_memory(schedule: Schedule) -> MemoryPlan:
    """Place every buffer that the program makes."""
    allocations = [_decide(schedule, buffer) for buffer in _made(schedule)]
    placed, pool = _pack(allocations)
    hints = schedule.loops.hints
    return MemoryPlan(
        schedule.loops.name, tuple(placed), pool, peak(placed, hints, naive=True), peak(placed, hints) + pool
    )


def extent(layout: Layout) -> sympy.Expr:
    """Elements from the start of the buffer's memory to its last element."""
    if any(size == 0 for size in layout.size):
        return sympy.S.Zero
    reach = (stride * (size - 1) for size, stride in zip(layout.size, layout.stride, strict=True))
    return sympy.Add(layout.offset, 1, *reach)


def peak(allocations: list[Allocation], hints: Mapping[sympy.Symbol, int], *, naive: bool = False) -> int:
    """Most bytes alive at one position in tensors of their own; with `naive`, as if each buffer had one."""
    separate = ("own", "library", "pool") if naive else ("own", "library")
    change: dict[int, int] = {}
    for a in allocations:
        if a.where in separate or (naive and a.where == "reuse" and a.why.code == reasons.IN_PLACE):
            size = size_hint(a.bytes, hints)
            change[a.first] = change.get(a.first, 0) + size
            change[a.last + 1] = change.get(a.last + 1, 0) - size
    most = now = 0
    for at in sorted(change):
        now += change[at]
        most = max(most, now)
    return most


def _made(schedule: Schedule) -> list[tuple[Buffer, FusedKernel | Extern]]:
    """Every buffer that an item writes, with the item, in running order."""
    made: list[tuple[Buffer, FusedKernel | Extern]] = []
    for item in schedule.items:
        if isinstance(item, Extern):
            made += [(buffer, item) for buffer in item.writes]
        else:
            made += [(step.loop.buffer, item) for step in item.steps]
    return made


def _decide(schedule: Schedule, made: tuple[Buffer, FusedKernel | Extern]) -> Allocation:
    """Where a buffer goes; offsets in the pool come later."""
    buffer, item = made
    first, last = schedule.live[buffer.name]
    size = sympy.sympify(extent(buffer.layout) * buffer.layout.dtype.itemsize)
    allocation = Allocation(buffer.name, "pool", size, first, last, Why(reasons.POOL))
    if buffer.alias_of is not None:
        return replace(allocation, where="reuse", why=Why(reasons.ALIAS), of=buffer.alias_of)
    if isinstance(item, FusedKernel) and buffer.name in item.internal:
        return replace(allocation, where="none", why=Why(reasons.NEVER))
    if isinstance(item, Extern) and not item.out:
        return replace(allocation, where="library", why=Why(reasons.LIBRARY))
    if last == len(schedule.items):
        return replace(allocation, where="own", why=Why(reasons.RETURNED))
    if not size.is_Integer:
        return replace(allocation, where="own", why=Why(reasons.UNKNOWN_SIZE))
    return allocation


def _pack(allocations: list[Allocation]) -> tuple[list[Allocation], int]:
    """Offsets in the pool: the largest buffers first, each in the tightest gap between those alive at the same time."""
    slots: list[Allocation] = []
    for wanted in sorted((a for a in allocations if a.where == "pool"), key=lambda a: (-a.bytes, a.first)):
        rivals = sorted((a for a in slots if a.first <= wanted.last and wanted.first <= a.last), key=lambda a: a.offset)
        need = _aligned(int(wanted.bytes))
        best, end = None, 0
        for rival in rivals:
            gap = rival.offset - end
            if gap >= need and (best is None or gap < best[1]):
                best = end, gap
            end = max(end, rival.offset + _aligned(int(rival.bytes)))
        slots.append(replace(wanted, offset=end if best is None else best[0]))
    offsets = {a.buffer: a for a in slots}
    pool = max((a.offset + _aligned(int(a.bytes)) for a in slots), default=0)
    return [offsets.get(a.buffer, a) for a in allocations], pool


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
