"""The order in which items run, how long each buffer lives, and which operations must run between two kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

from explorer.compiler.schedule.kernels import Item, before, ids_of, topological
from explorer.ir.index import hint
from explorer.ir.loops import Buffer, Extern, View, storages
from explorer.ir.schedule import Dependencies, Fused, Schedule


def order(fused: Fused) -> Schedule:
    """The items so that fewer bytes are alive at once, in program order where that makes no difference."""
    weights = Weights(fused)
    listed = [
        list(range(len(fused.items))),
        weights.listed(lambda at, change: (change, at)),
        weights.listed(lambda at, change: (min(change, 0), at)),
    ]
    best = min([*map(weights.delayed, listed), *listed], key=weights.cost)
    items = tuple(fused.items[at] for at in best)
    return Schedule(fused, items, intervals(fused.dependencies, items))


class Weights:
    """What each item allocates, and what it lets go when it is the last to use it."""

    def __init__(self, fused: Fused) -> None:
        self._needs = before([ids_of(item) for item in fused.items], fused.dependencies)
        self._users: list[list[int]] = [[] for _ in fused.items]
        for at, needs in enumerate(self._needs):
            for need in needs:
                self._users[need].append(at)
        loops = fused.dependencies.loops
        owner = storages(loops.buffers)
        buffers = [allocated(item) for item in fused.items]
        self._makes = [[buffer.name for buffer in made] for made in buffers]
        given = [entry for entry in loops.inputs if isinstance(entry, Buffer) and entry.name in loops.frees]
        self._bytes = {buffer.name: _bytes(buffer, fused) for made in (given, *buffers) for buffer in made}
        returned = {owner[output.buffer] for output in loops.outputs if isinstance(output, View)}
        self._touches: list[set[str]] = []
        for item in fused.items:
            used = {owner[buffer] for id in ids_of(item) for buffer in buffers_of(fused.dependencies, id)}
            self._touches.append({name for name in used if name in self._bytes and name not in returned})

    def listed(self, key: Callable[[int, int], tuple[int, int]]) -> list[int]:
        """List scheduling: of the items that are ready, the one with the least `key(position, change in bytes)`."""
        missing = [len(needs) for needs in self._needs]
        left = self._uses()
        ready = [at for at, count in enumerate(missing) if not count]
        chosen: list[int] = []
        while ready:
            at = min(ready, key=lambda at: key(at, self._made(at) - self._freed(at, left)))
            ready.remove(at)
            chosen.append(at)
            self._use(at, left)
            for user in self._users[at]:
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)
        return chosen

    def delayed(self, order: Sequence[int]) -> list[int]:
        """The order with each item that lets nothing go moved to just before its first user."""
        left = self._uses()
        frees: set[int] = set()
        for at in order:
            if self._freed(at, left):
                frees.add(at)
            self._use(at, left)
        backward: list[int] = []
        for at in reversed(order):
            users = set() if at in frees else set(self._users[at])
            first = max((place for place, other in enumerate(backward) if other in users), default=len(backward) - 1)
            backward.insert(first + 1, at)
        return backward[::-1]

    def cost(self, order: Iterable[int]) -> tuple[int, int]:
        """Most bytes alive at once in this order, and the sum of the bytes alive over all positions."""
        left = self._uses()
        now = most = total = 0
        for at in order:
            now += self._made(at)
            most = max(most, now)
            total += now
            now -= self._freed(at, left)
            self._use(at, left)
        return most, total

    def _use(self, at: int, left: dict[str, int]) -> None:
        for name in self._touches[at]:
            left[name] -= 1

    def _uses(self) -> dict[str, int]:
        left: dict[str, int] = {}
        for accesses in self._touches:
            for name in accesses:
                left[name] = left.get(name, 0) + 1
        return left

    def _made(self, at: int) -> int:
        return sum(self._bytes[name] for name in self._makes[at])

    def _freed(self, at: int, left: dict[str, int]) -> int:
        return sum(self._bytes[name] for name in self._touches[at] if left[name] == 1)


def intervals(dependencies: Dependencies, items: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """First and last position that accesses each buffer: -1 is the caller before, len(items) the caller after.

    What accesses a buffer also accesses the buffer that owns its storage.
    """
    loops = dependencies.loops
    owner = storages(loops.buffers)
    live = {entry.name: (-1, -1) for entry in loops.inputs if isinstance(entry, Buffer)}

    def use(buffer: str, at: int) -> None:
        for name in {buffer, owner[buffer]}:
            first, last = live.get(name, (at, at))
            live[name] = min(first, at), max(last, at)

    for at, item in enumerate(items):
        for id in ids_of(item):
            for buffer in buffers_of(dependencies, id):
                use(buffer, at)
    for output in loops.outputs:
        if isinstance(output, View):
            use(output.buffer, len(items))
    return live


def buffers_of(dependencies: Dependencies, id: str) -> Iterable[str]:
    """Buffers that an operation reads or writes."""
    return (access.buffer for access in (*dependencies.reads[id], *dependencies.writes[id]))


def allocated(item: Item) -> list[Buffer]:
    """Buffers with memory of their own that come to life when the item runs."""
    if isinstance(item, Extern):
        made = list(item.writes)
    else:
        made = [step.loop.buffer for step in item.steps if step.loop.id not in item.internal]
    return [buffer for buffer in made if buffer.alias_of is None]


def _bytes(buffer: Buffer, fused: Fused) -> int:
    return hint(buffer.layout.extent, fused.dependencies.loops.hints) * buffer.layout.dtype.itemsize


class Reach:
    """For each group (by key): its operations, all that must run before it and all that must run after it, as bits by
    position in the program."""

    def __init__(self, dependencies: Dependencies, groups: Mapping[int, Sequence[str]]) -> None:
        operations = dependencies.loops.operations
        self._ids = [operation.id for operation in operations]
        position = {id: at for at, id in enumerate(self._ids)}
        keys = list(groups)
        members: list[Sequence[str]] = [*groups.values(), *([op.id] for op in operations if isinstance(op, Extern))]
        bits = [sum(1 << position[id] for id in ids) for ids in members]
        needs = before(members, dependencies)
        ancestors, descendants = [0] * len(members), [0] * len(members)
        order = topological(members, dependencies, range(len(members)))
        for at in order:
            for need in needs[at]:
                ancestors[at] |= ancestors[need] | bits[need]
        for at in reversed(order):
            for need in needs[at]:
                descendants[need] |= descendants[at] | bits[at]
        self._members = dict(zip(keys, bits, strict=False))
        self._before = dict(zip(keys, ancestors, strict=False))
        self._after = dict(zip(keys, descendants, strict=False))

    def copy(self) -> Reach:
        """As it is now, to be asked after groups were joined."""
        made = copy(self)
        made._members, made._before, made._after = dict(self._members), dict(self._before), dict(self._after)
        return made

    def between(self, a: int, b: int) -> str | None:
        """An operation outside both groups that needs one of them and that the other needs, if there is one."""
        found = (self._after[a] & self._before[b]) | (self._after[b] & self._before[a])
        found &= ~(self._members[a] | self._members[b])
        return self._ids[found.bit_length() - 1] if found else None

    def join(self, a: int, b: int, key: int) -> None:
        """Groups `a` and `b` are now the group `key`."""
        members = self._members.pop(a) | self._members.pop(b)
        earlier = (self._before.pop(a) | self._before.pop(b)) & ~members
        later = (self._after.pop(a) | self._after.pop(b)) & ~members
        for bits, joined in ((self._before, earlier), (self._after, later)):
            for other, reached in bits.items():
                if reached & members:
                    bits[other] = reached | joined | members
        self._members[key], self._before[key], self._after[key] = members, earlier, later
