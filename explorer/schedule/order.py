"""The order in which items run, and how long each buffer lives.

Inductor: memory.py (reorder_for_peak_memory), which tries several orders and keeps the best.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.loops import Buffer, Extern, View
from explorer.ir.schedule import Dependencies, Fused, Schedule
from explorer.schedule.deps import storages
from explorer.schedule.items import Item, ids_of


def order(fused: Fused) -> Schedule:
    """The items so that fewer bytes are alive at once, in program order where that makes no difference."""
    return Schedule(fused, fused.items, intervals(fused.dependencies, fused.items))


def intervals(dependencies: Dependencies, items: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """First and last position that touches each buffer: -1 is the caller before, len(items) the caller after.

    What touches a buffer also touches the buffer that owns its storage.
    """
    loops = dependencies.loops
    owner = storages(loops.buffers)
    live = {entry.name: (-1, -1) for entry in loops.inputs if isinstance(entry, Buffer)}

    def touch(buffer: str, at: int) -> None:
        for name in {buffer, owner[buffer]}:
            first, last = live.get(name, (at, at))
            live[name] = min(first, at), max(last, at)

    for at, item in enumerate(items):
        for id in ids_of(item):
            for access in (*dependencies.reads[id], *dependencies.writes[id]):
                touch(access.buffer, at)
    for output in loops.outputs:
        if isinstance(output, View):
            touch(output.buffer, len(items))
    return live


def allocated(item: Item) -> list[Buffer]:
    """Buffers with memory of their own that come to life when the item runs."""
    if isinstance(item, Extern):
        made = list(item.writes)
    else:
        made = [step.loop.buffer for step in item.steps if step.loop.id not in item.internal]
    return [buffer for buffer in made if buffer.alias_of is None]
