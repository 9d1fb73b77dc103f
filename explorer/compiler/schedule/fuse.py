"""Which loops run as one kernel: greedily the pair that saves most memory traffic, until no pair is left; and why any
two operations are, or are not, together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.group import FreshNames, Group, single
from explorer.compiler.schedule.iteration_space import with_affine_indices
from explorer.compiler.schedule.kernels import collect
from explorer.compiler.schedule.legal import LEGAL, Attempt, Facts
from explorer.compiler.schedule.order import Reach
from explorer.core.reasons import Verdict, Why
from explorer.core.recorder import note
from explorer.core.rules import RuleTable, with_your
from explorer.ir.loops import Loop
from explorer.ir.schedule import Dependencies, Fused, FusionTried

CROWD = 24
"""Groups that access one buffer and are all tried with one another; with more, each is tried with those near it."""


def fuse(dependencies: Dependencies) -> Fused:
    """Kernels of as many loops as are worth joining."""
    fusion = Fusion(dependencies)
    fusion.run()
    return collect(dependencies, list(fusion.groups.values()), fusion.decided(), fusion.otherwise)


def separate(dependencies: Dependencies) -> Fused:
    """Every loop a kernel of its own."""
    fusion = Fusion(dependencies)
    return collect(dependencies, list(fusion.groups.values()), {}, Why(reasons.DISABLED))


def refused_for_company(why: Why) -> Verdict:
    """The verdict on two loops that would fit, in kernels that do not for the reason `why`."""
    return Verdict(False, why if why.code == reasons.TOO_LARGE else Why(reasons.KERNELS, str(why)))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two groups of loops that access one buffer, as `rank` sees them: their loops, the bytes of the buffers that both
    access, their distance in the program in operations (negative where one begins before the other has ended), and
    whether one reduces across memory and the other not."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    bytes_shared: int
    distance: int
    across: bool


Rank = Callable[[Pair], float | tuple[float, ...] | None]
RANK: RuleTable[str, Rank] = RuleTable("fusion", {"rank"}.__contains__)
"""rank(pair): how soon to try a pair."""


@RANK.rule("rank")
def rank(pair: Pair) -> float | tuple[float, ...] | None:
    """The pair with the highest rank is tried first, one with None never: the bytes that it might save, then how near
    the two are in the program."""
    return pair.bytes_shared // 4 if pair.across else pair.bytes_shared, -pair.distance


class Fusion:
    """The groups so far, by a key that is new for each, and what was decided about pairs of them."""

    def __init__(self, dependencies: Dependencies) -> None:
        self.names = FreshNames()
        self.facts = Facts(dependencies)
        self.groups: dict[int, Group] = {
            at: with_affine_indices(single(operation, at, self.names), self.names)
            for at, operation in enumerate(dependencies.loops.operations)
            if isinstance(operation, Loop)
        }
        self.reach = Reach(dependencies, {key: group.ids for key, group in self.groups.items()})
        self._alone = dict(self.groups), self.reach.copy()
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self._own = ", ".join(rule.name for rule in (LEGAL.own("legal"), RANK.own("rank")) if rule)
        self._next = len(dependencies.loops.operations)
        self._touching: dict[str, dict[int, None]] = {}
        for key in self.groups:
            self._register(key)

    def run(self) -> None:
        """Join the pair that promises most, again and again; then those that save a launch and no bytes."""
        postponed = self._join(self.pairs(), least=1.0)
        self._join(postponed, least=0.0)

    def _join(self, pairs: Iterable[tuple[int, int]], least: float) -> list[tuple[int, int]]:
        """Try `pairs`, and the pairs of each group that is made. Returns those that would save less than `least`."""
        queue = self._ranked((a, b) for a, b in pairs if a in self.groups and b in self.groups)
        postponed: list[tuple[int, int]] = []
        while queue:
            _, a, b = heapq.heappop(queue)
            if a not in self.groups or b not in self.groups:
                continue
            joined = self._try(a, b)
            later = joined.verdict.score < least
            note(FusionTried, *joined.pair, joined.verdict, joined.group is not None and later)
            if joined.group is None:
                continue
            if later:
                postponed.append((a, b))
                continue
            for entry in self._ranked(self._pairs_of(self._replace(a, b, joined.group))):
                heapq.heappush(queue, entry)
        return postponed

    def decided(self) -> dict[tuple[str, str], Verdict]:
        """A verdict on each pair that was tried. Of two that are apart it says what would forbid it were each alone,
        or, where nothing would, what forbids it in their company."""
        home = {id: key for key, group in self.groups.items() for id in group.ids}
        found: dict[tuple[str, str], Verdict] = {}
        for (first, second), verdict in self.verdicts.items():
            together = home[first] == home[second]
            if verdict.ok == together:
                found[first, second] = verdict if together else self._unfused(first, second, verdict)
        return found

    def _unfused(self, first: str, second: str, kernels: Verdict) -> Verdict:
        alone = self.alone(first, second)
        if alone.ok:
            return refused_for_company(kernels.why)
        return kernels if alone.why.code == reasons.NOTHING_SHARED else alone

    @property
    def otherwise(self) -> Why:
        """Why two groups are apart on which there is no verdict."""
        crowded = [storage for storage, keys in self._touching.items() if len(keys) > CROWD]
        if not crowded:
            return Why(reasons.NOTHING_SHARED)
        return Why(reasons.FAR_APART, f"or share no data: of many that use {crowded[0]} only those near were tried")

    def alone(self, first: str, second: str) -> Verdict:
        """The verdict on two loops, were every loop still a kernel of its own."""
        groups, reach = self._alone
        a, b = self.facts.position[first], self.facts.position[second]
        return self._asked(groups[a], groups[b], reach.between(a, b)).verdict

    def _asked(self, a: Group, b: Group, between: str | None) -> Attempt:
        joined = LEGAL["legal"](a, b, self.facts, between, self.names)
        if not self._own:
            return joined
        why = joined.verdict.why
        message = "; ".join(filter(None, (why.detail, with_your(self._own))))
        return replace(joined, verdict=replace(joined.verdict, why=Why(why.code, message)))

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of groups that access one storage: each with each, or with those near by where they are many."""
        found: dict[tuple[int, int], None] = {}
        for keys in self._touching.values():
            for at, a in enumerate(keys_in := list(keys)):
                found.update(((a, b), None) for b in keys_in[at + 1 : at + CROWD])
        return list(found)

    def _pairs_of(self, key: int) -> Iterator[tuple[int, int]]:
        others: dict[int, None] = {}
        for buffer in self.groups[key].accesses:
            near = sorted(self._touching[self.facts.storage[buffer]], key=lambda other: self._distance(key, other))
            others.update(dict.fromkeys(near[:CROWD]))
        return ((other, key) for other in others if other != key)

    def _try(self, a: int, b: int) -> Attempt:
        """Ask whether two groups may be one kernel."""
        joined = self._asked(self.groups[a], self.groups[b], self.reach.between(a, b))
        self.verdicts[joined.pair] = joined.verdict
        return joined

    def _replace(self, a: int, b: int, group: Group) -> int:
        """Put `group` in the place of the two that it was made from. Returns its key."""
        for key in (a, b):
            for buffer in self.groups.pop(key).accesses:
                self._touching[self.facts.storage[buffer]].pop(key, None)
        key, self._next = self._next, self._next + 1
        self.groups[key] = group
        self.reach.join(a, b, key)
        self._register(key)
        return key

    def _register(self, key: int) -> None:
        for buffer in self.groups[key].accesses:
            self._touching.setdefault(self.facts.storage[buffer], {})[key] = None

    def _ranked(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[tuple[float, ...], int, int]]:
        """Entries of the queue, the least first; without the pairs that are not to be tried."""
        rank, found = RANK["rank"], []
        for a, b in pairs:
            promised = rank(self._pair(a, b))
            if promised is not None:
                places = promised if isinstance(promised, tuple) else (promised,)
                if not all(isinstance(each, (int, float)) for each in places):
                    raise TypeError(f"a rank is a number, a tuple of numbers, or None; this one is {promised!r}")
                found.append((tuple(-each for each in places), a, b))
        heapq.heapify(found)
        return found

    def _pair(self, a: int, b: int) -> Pair:
        groups = self.groups[a], self.groups[b]
        shared = groups[0].accesses.keys() & groups[1].accesses.keys()
        against = groups[0].reduces != groups[1].reduces and any(map(_strided, groups))
        first, second = (tuple(sorted(group.ids)) for group in groups)
        return Pair(first, second, sum(self.facts.bytes[buffer] for buffer in shared), self._distance(a, b), against)

    def _distance(self, a: int, b: int) -> int:
        first, second = self.groups[a].placed, self.groups[b].placed
        return max(second[0].position - first[-1].position, first[0].position - second[-1].position)


def _strided(group: Group) -> bool:
    """Whether a group reduces across memory, so that what joins it is walked across as well."""
    inner = {axis.symbol for axis in group.inner}
    return any(
        step == 1 and axis not in inner
        for placed in group.placed
        if placed.inner
        for read in placed.reads
        for axis, step in placed.at[read.index].terms.items()
    )
