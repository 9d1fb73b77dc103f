"""What each operation reads and writes, and which operations must come before it.

Inductor: dependencies.py (MemoryDep, StarDep) and scheduler.py (Scheduler.compute_dependencies).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explorer.ir.loops import Axis, Extern, Loop, Loops, storages
from explorer.ir.schedule import Access, Dependencies


def dependencies(loops: Loops) -> Dependencies:
    """The accesses of every operation and the order that they impose.

    Order is found per storage, in program order: a read comes after the last write, a write after the last write and
    after every read since. Calls that draw random numbers keep their order.
    """
    storage = storages(loops.buffers)
    reads = {operation.id: tuple(_reads(operation)) for operation in loops.operations}
    writes = {operation.id: tuple(_writes(operation)) for operation in loops.operations}
    after: dict[str, dict[str, str]] = {}
    users: dict[str, dict[str, None]] = {}
    written: dict[str, str] = {}
    read_since: dict[str, list[str]] = {}
    drew = ""
    for operation in loops.operations:
        needs: dict[str, str] = {}
        for read in reads[operation.id]:
            users.setdefault(read.buffer, {})[operation.id] = None
            if writer := written.get(storage[read.buffer]):
                needs.setdefault(writer, read.buffer)
        for write in writes[operation.id]:
            place = storage[write.buffer]
            for earlier in (written.get(place), *read_since.get(place, ())):
                if earlier:
                    needs.setdefault(earlier, write.buffer)
        if isinstance(operation, Extern) and operation.random:
            if drew:
                needs.setdefault(drew, "random numbers")
            drew = operation.id
        needs.pop(operation.id, None)
        after[operation.id] = needs
        for read in reads[operation.id]:
            read_since.setdefault(storage[read.buffer], []).append(operation.id)
        for write in writes[operation.id]:
            written[storage[write.buffer]] = operation.id
            read_since[storage[write.buffer]] = []
    return Dependencies(loops, reads, writes, after, {buffer: tuple(ids) for buffer, ids in users.items()})


def _reads(operation: Loop | Extern) -> Iterator[Access]:
    if isinstance(operation, Extern):
        for buffer in dict.fromkeys(view.buffer for view in operation.views):
            yield Access(buffer, None, ())
        return
    axes = operation.axes + operation.reduced
    seen: set[Access] = set()
    for load in operation.loads:
        access = Access(load.buffer, None if load.indirect else load.index, axes)
        if access not in seen:
            seen.add(access)
            yield access
    if operation.store != "set" and operation.buffer.alias_of is not None:
        yield Access(operation.buffer.alias_of, *_target(operation))


def _writes(operation: Loop | Extern) -> Iterator[Access]:
    if isinstance(operation, Extern):
        for buffer in dict.fromkeys([*(buffer.name for buffer in operation.writes), *operation.mutates]):
            yield Access(buffer, None, ())
        return
    yield Access(operation.buffer.name, *_target(operation))


def _target(loop: Loop) -> tuple[Any, tuple[Axis, ...]]:
    return None if loop.indirect else loop.index, loop.axes
