"""From groups to the items of a schedule: kernels with their internal buffers, and library calls, in a valid order."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from explorer.compiler.schedule.deps import storages
from explorer.compiler.schedule.group import Group
from explorer.compiler.schedule.kernels import kernel
from explorer.core.reasons import Verdict
from explorer.ir.loops import Extern, View
from explorer.ir.schedule import Dependencies, Fused, FusedKernel, Fusion

Item = FusedKernel | Extern


def ids_of(item: Item) -> tuple[str, ...]:
    """The operations that an item runs."""
    return (item.id,) if isinstance(item, Extern) else item.ids


def collect(
    dependencies: Dependencies,
    groups: Sequence[Group],
    verdicts: Mapping[tuple[str, str], Verdict],
    *,
    enabled: bool = True,
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
    fusions = tuple(Fusion(first, second, verdict) for (first, second), verdict in verdicts.items())
    return Fused(dependencies, tuple(items), fusions, enabled)


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
