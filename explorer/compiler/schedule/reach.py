"""Which operations must run between two kernels: transitive dependencies, kept true while kernels grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from explorer.compiler.schedule.items import before, topological
from explorer.ir.loops import Extern
from explorer.ir.schedule import Dependencies


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
