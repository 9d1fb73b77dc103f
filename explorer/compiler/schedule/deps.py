"""What each operation reads and writes, and which operations must come before it.

Inductor: dependencies.py (MemoryDep, StarDep) and scheduler.py (Scheduler.compute_dependencies).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from explorer.ir.loops import Axis, Buffer, Extern, Load, Loop, Loops, View, walk
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


def storages(buffers: Mapping[str, Buffer]) -> dict[str, str]:
    """The buffer that owns the storage of each buffer, `alias_of` followed to its end."""
    found: dict[str, str] = {}
    for name in buffers:
        owner = name
        while (alias := buffers[owner].alias_of) is not None:
            owner = alias
        found[name] = owner
    return found


def views(argument: Any) -> Iterator[View]:
    """Every View in nested arguments of a library call."""
    if isinstance(argument, View):
        yield argument
    elif isinstance(argument, tuple):
        for part in argument:
            yield from views(part)


def _reads(operation: Loop | Extern) -> Iterator[Access]:
    if isinstance(operation, Extern):
        named = [view.buffer for view in views((operation.args, tuple(value for _, value in operation.kwargs)))]
        for buffer in dict.fromkeys(named):
            yield Access(buffer, None, ())
        return
    axes = operation.axes + operation.reduced
    seen: set[Access] = set()
    for expr in walk(operation.value, *(value for _, value in operation.indirect)):
        if isinstance(expr, Load):
            access = Access(expr.buffer, None if expr.indirect else expr.index, axes)
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
