"""`can_fuse`: the one place that says whether two groups of loops may become one kernel, and why; with what it asks
about the program again and again, worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.group import FreshNames, Group, GroupAccess, ScheduledLoop
from explorer.compiler.schedule.iteration_space import Link, align, merge, side_by_side
from explorer.compiler.schedule.kernels import private
from explorer.core.reasons import Verdict, Why
from explorer.core.rules import RuleTable
from explorer.ir.index import hint, points, span
from explorer.ir.loops import Axis, Layout, Loop, storages
from explorer.ir.schedule import Dependencies


class Facts:
    """Facts about the buffers of one program; sizes are by hints where they are symbolic."""

    def __init__(self, dependencies: Dependencies) -> None:
        loops = dependencies.loops
        self.hints = loops.hints
        self.users = dependencies.users
        self.private = private(dependencies)
        self.storage = storages(loops.buffers)
        owners = [owner for name, owner in self.storage.items() if owner != name]
        self.updated = frozenset(owners)
        """Storages with more than one buffer name."""
        self.folded = {self.storage[name] for name, buffer in loops.buffers.items() if self._may_fold(buffer.layout)}
        """Storages in which two points may lie on one element."""
        self.bytes = {
            name: hint(buffer.layout.numel, self.hints) * buffer.layout.dtype.itemsize
            for name, buffer in loops.buffers.items()
        }
        self.itemsize = {name: buffer.layout.dtype.itemsize for name, buffer in loops.buffers.items()}
        self.forbidden = dependencies.forbidden
        self.position = {operation.id: at for at, operation in enumerate(loops.operations)}

    def _may_fold(self, layout: Layout) -> bool:
        size, stride = ([hint(n, self.hints) for n in each] for each in (layout.size, layout.stride))
        return span(size, stride) is None

    def moved(self, group: Group, access: GroupAccess) -> int:
        """Bytes that a access moves over the whole kernel, each element counted once."""
        index = group.at(access)
        most = self.bytes[access.element.buffer]
        if index.non_affine is not None or not access.element.exact:
            return most
        reached = self.points(tuple(axis for axis in group.axes if axis.symbol in index.terms))
        return min(most, reached * self.itemsize[access.element.buffer])

    def rows(self, group: Group) -> tuple[int, int]:
        """Numbers of points of the outer and of the inner axes."""
        return self.points(group.outer), self.points(group.inner)

    def points(self, axes: tuple[Axis, ...]) -> int:
        return hint(points(axes), self.hints)


def scatters(loop: Loop) -> bool:
    """Whether several points may update one element, or where is known only from data."""
    return loop.store != "set" or bool(loop.indirect)


CanFuse = Callable[[Group, Group, Facts, str | None, FreshNames], "Attempt"]
LEGAL: RuleTable[str, CanFuse] = RuleTable("fusion", {"legal"}.__contains__)
"""legal(a, b, facts, between, names): whether two groups may be one kernel."""

LANES = 16
"""Elements that are loaded and stored together where they lie together."""
IN_CACHE = 1 << 18
"""Bytes of a result up to which it does not matter in which order it is written."""
MOST_LOOPS = 64
MOST_BUFFERS = 48
"""Pointers that a kernel may hold: beyond, address registers spill."""
FAR = 64
"""Operations that siblings may be apart: what both need is kept alive until the kernel has run."""
FEW_ROWS, LONG_ROW = 8, 1 << 15
"""Fewer rows than this, each longer than that, are not walked twice by one thread."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The verdict on two groups, for the two operations that speak for them, and the group that they make."""

    pair: tuple[str, str]
    verdict: Verdict
    group: Group | None = None


@LEGAL.rule("legal")
def can_fuse(a: Group, b: Group, facts: Facts, between: str | None, names: FreshNames) -> Attempt:
    """Whether `a` and `b` may be one kernel. `between` is an operation that must run between them, if there is one."""
    if a.placed[0].position > b.placed[0].position:
        a, b = b, a
    links = linked(a, b, facts)
    pair = closest_pair(a, b, links)

    def refuse(code: str, detail: str = "") -> Attempt:
        return Attempt(pair, Verdict(False, Why(code, detail)))

    if not links and next(_same_storage(a, b, facts), None) is None:
        return refuse(reasons.NOTHING_SHARED)
    if asked := next((pair for pair in facts.forbidden if pair & {*a.ids} and pair & {*b.ids}), None):
        return refuse(reasons.FORBIDDEN, " and ".join(sorted(asked)))
    devices = [group.placed[0].loop.buffer.layout.device for group in (a, b)]
    if devices[0] != devices[1]:
        return refuse(reasons.DEVICE, f"{devices[0]} and {devices[1]}")
    if hazard := _hazard(a, b, links, facts):
        return Attempt(pair, Verdict(False, hazard))
    if between is not None:
        return refuse(reasons.CYCLE, between)
    if len(a.placed) + len(b.placed) > MOST_LOOPS or len({*a.accesses, *b.accesses}) > MOST_BUFFERS:
        return refuse(reasons.TOO_LARGE, f"{len(a.placed) + len(b.placed)} loops")
    needed = [link for link in links if link.needed]
    span = max(a.placed[-1].position, b.placed[-1].position) - a.placed[0].position
    if not needed and span > FAR:
        return refuse(reasons.FAR_APART, f"{span} operations")
    obstacle = Why(reasons.ITERATION_SPACE, f"{_space(a)}, and {_space(b)}")
    if not _comparable(a, b, facts, bool(needed)):
        return Attempt(pair, Verdict(False, _incomplete(a, b, needed) or obstacle))
    for chosen in (links, needed) if 0 < len(needed) < len(links) else (links,):
        aligned = align(a, b, chosen, names)
        if aligned is None:
            obstacle = _unmatched(a, b, needed, facts) or obstacle
            continue
        whole = merge(*aligned)
        if whole is None:
            obstacle = _incomplete(a, b, needed) or obstacle
            continue
        judged = _judge(whole, *aligned, links, facts)
        if not judged:
            obstacle = judged.why
            continue
        if crossing := _crossing(whole, facts):
            obstacle = Why(reasons.MEMORY_ORDER, crossing)
            continue
        return Attempt(pair, Verdict(True, judged.why, float(_saved(whole, *aligned, links, facts))), whole)
    if not needed and (aligned := side_by_side(a, b)) is not None and (whole := merge(*aligned)) is not None:
        if _judge(whole, *aligned, links, facts).why.code == reasons.OTHER_ELEMENTS and not _crossing(whole, facts):
            return Attempt(pair, Verdict(True, Why(reasons.SAME_SPACE, _space(whole))), whole)
    return Attempt(pair, Verdict(False, obstacle))


def linked(a: Group, b: Group, facts: Facts) -> list[Link]:
    """Buffers that both access, what one writes for the other first, then by bytes; equal accesses count once."""
    found: dict[object, Link] = {}
    for buffer in a.accesses.keys() & b.accesses.keys():
        for access_a in a.accesses[buffer]:
            for access_b in b.accesses[buffer]:
                link = Link(buffer, access_a, access_b)
                levels = a.placed[access_a.by].inner, b.placed[access_b.by].inner
                found.setdefault((a.at(access_a).key, b.at(access_b).key, buffer, link.needed, levels), link)
    return sorted(found.values(), key=lambda link: (not link.needed, -facts.bytes[link.buffer], link.buffer))


def closest_pair(a: Group, b: Group, links: Sequence[Link]) -> tuple[str, str]:
    """The two operations that a verdict on two groups is about: those that share most, the earlier first."""
    by_a, by_b = (links[0].a.by, links[0].b.by) if links else (-1, 0)
    first, second = sorted((a.placed[by_a], b.placed[by_b]), key=lambda placed: placed.position)
    return first.loop.id, second.loop.id


def _hazard(a: Group, b: Group, links: Sequence[Link], facts: Facts) -> Why | None:
    """What no choice of axes can change: positions that only the data tell, and memory updated under another name."""
    for link in links:
        if link.needed:
            writer, reader = (link.a, link.b) if link.a.written else (link.b, link.a)
            group = a if link.a.written else b
            if scatters(group.placed[writer.by].loop):
                return Why(reasons.SCATTER, link.buffer)
            if not reader.element.exact:
                return Why(reasons.INDIRECT, link.buffer)
    for one, other in _same_storage(a, b, facts):
        writers = [placed.loop for placed, access in (one, other) if access.written]
        names = " and ".join(loop.id for loop in writers)
        if any(map(scatters, writers)):
            return Why(reasons.SCATTER, names)
        if len(writers) == 2:
            return Why(reasons.MUTATION, f"{names} write to one storage")
        if facts.storage[one[1].element.buffer] in facts.folded:
            return Why(reasons.MUTATION, f"{names} writes elements that several points share")
    return None


AccessingLoop = tuple[ScheduledLoop, GroupAccess]


def _same_storage(a: Group, b: Group, facts: Facts) -> Iterator[tuple[AccessingLoop, AccessingLoop]]:
    """What of `a` and of `b` accesses one storage under different names, at least one of them writing."""
    for name_a, touches_a in a.accesses.items():
        owner = facts.storage[name_a]
        if owner not in facts.updated:
            continue
        for name_b, touches_b in b.accesses.items():
            if name_a == name_b or facts.storage[name_b] != owner:
                continue
            for x in touches_a:
                for y in touches_b:
                    if x.written or y.written:
                        yield (a.placed[x.by], x), (b.placed[y.by], y)


def _judge(whole: Group, a: Group, b: Group, links: Sequence[Link], facts: Facts) -> Verdict:
    """Whether the aligned groups `a` and `b` may be one, `whole`, and why, or the first thing that forbids it."""

    def refuse(code: str, detail: str) -> Verdict:
        return Verdict(False, Why(code, detail))

    inside = {placed.position: placed for placed in whole.placed}
    best: Why | None = None
    few, long = facts.rows(whole)
    for link in links:
        same = a.at(link.a).key == b.at(link.b).key
        first, second = inside[a.placed[link.a.by].position], inside[b.placed[link.b.by].position]
        if not link.needed:
            if same and best is None:
                rows = whole.reduces and first.inner and second.inner
                best = Why(reasons.SAME_ROWS if rows else reasons.SAME_READS, link.buffer)
            continue
        writer, reader = (first, second) if link.a.written else (second, first)
        if not same:
            return Verdict(False, _elsewhere(link, writer))
        along = writer.inner and writer.loop.combine is None
        if along and not reader.inner:
            return refuse(reasons.ITERATION_SPACE, f"{link.buffer} is read outside the loop that writes it")
        if reader.inner and not along and whole.inner and few < FEW_ROWS and long > LONG_ROW:
            return refuse(reasons.SERIAL, f"{few} rows of {long} elements")
        best = Why(_relation(writer, reader, along), link.buffer) if best is None else best
    for (one, x), (other, y) in _same_storage(a, b, facts):
        names = f"{x.element.buffer} and {y.element.buffer}"
        if one.at[x.element.index].key != other.at[y.element.index].key or not (x.element.exact and y.element.exact):
            return refuse(reasons.MUTATION, f"{names} at different points")
        if x.written == (one.position < other.position):
            return refuse(reasons.MUTATION, f"{names}: the update is read under the other name")
        best = best or Why(reasons.SAME_READS, facts.storage[x.element.buffer])
    if whole.inner and any(one is not other for (one, _), (other, _) in _same_storage(whole, whole, facts)):
        return refuse(reasons.MUTATION, "an update in a kernel that walks over a row several times")
    if best is None:
        link = links[0]
        return refuse(reasons.OTHER_ELEMENTS, f"{link.buffer} at {link.a.element.index} and at {link.b.element.index}")
    return Verdict(True, best)


def _crossing(whole: Group, facts: Facts) -> str:
    """Two large results that lie in memory along different axes, so that one loop must jump through one of them."""
    members = set(whole.ids)
    along: dict[object, str] = {}
    for placed in whole.placed:
        name = placed.write.buffer
        spans = not whole.inner or (placed.inner and placed.loop.combine is None)
        private = name in facts.private and members.issuperset(facts.users.get(name, ()))
        if spans and not private and facts.bytes[name] > IN_CACHE:
            steps = placed.at[placed.write.index].terms
            unit = [axis for axis in whole.axes if steps.get(axis.symbol) == 1]
            if unit and facts.points((unit[0],)) >= LANES:
                along.setdefault(unit[0].symbol, name)
    return " and ".join(along.values()) if len(along) > 1 else ""


def _relation(writer: ScheduledLoop, reader: ScheduledLoop, along: bool) -> str:
    """The kind of a fusion in which `reader` takes what `writer` computed."""
    if writer.loop.combine is not None:
        return reasons.SAME_ROWS if reader.inner else reasons.REDUCTION_EPILOGUE
    if reader.loop.combine is not None and along:
        return reasons.REDUCTION_PROLOGUE
    return reasons.BROADCAST if reader.inner and not along else reasons.PRODUCER_CONSUMER


def _elsewhere(link: Link, writer: ScheduledLoop) -> Why:
    wrote, read = (link.a, link.b) if link.a.written else (link.b, link.a)
    code = reasons.DIFFERENT_POINT if writer.loop.combine is None else reasons.REDUCTION_FIRST
    return Why(code, f"{link.buffer} is written at {wrote.element.index} and read at {read.element.index}")


def _unmatched(a: Group, b: Group, needed: Sequence[Link], facts: Facts) -> Why | None:
    """Why axes could not be matched along what one group writes for the other."""
    for link in needed:
        writer = a.placed[link.a.by] if link.a.written else b.placed[link.b.by]
        if writer.loop.combine is not None or facts.points(a.axes) == facts.points(b.axes):
            return _elsewhere(link, writer)
    return None


def _incomplete(a: Group, b: Group, needed: Sequence[Link]) -> Why | None:
    """Whether one group reduces over results of the other's reduction, or uses many of them at one point."""
    for link in needed:
        writer, reads, reader = (a.placed[link.a.by], b, link.b) if link.a.written else (b.placed[link.b.by], a, link.a)
        inner = {axis.symbol for axis in reads.inner}
        if writer.loop.combine is not None and not inner.isdisjoint(reads.at(reader).terms):
            return _elsewhere(link, writer)
    return None


def _comparable(a: Group, b: Group, facts: Facts, needed: bool) -> bool:
    """Whether the numbers of points leave any way to share loops."""
    (rows_a, row_a), (rows_b, row_b) = facts.rows(a), facts.rows(b)
    if rows_a * row_a == rows_b * row_b:
        return True
    if a.inner and b.inner:
        return False
    if a.inner or b.inner:
        return rows_a == rows_b * row_b if a.inner else rows_b == rows_a * row_a
    less, more = sorted((rows_a, rows_b))
    return needed and less > 0 and more % less == 0


def _saved(whole: Group, a: Group, b: Group, links: Sequence[Link], facts: Facts) -> int:
    """Bytes that need not go through memory in `whole`: reads of what is at hand, and writes that nobody else reads."""
    members = set(whole.ids)
    bytes: dict[object, int] = {}
    for link in links:
        key = a.at(link.a).key
        if key != b.at(link.b).key:
            continue
        moved = min(facts.moved(a, link.a), facts.moved(b, link.b))
        bytes[link.buffer, key] = moved
        if link.needed and link.buffer in facts.private and members.issuperset(facts.users[link.buffer]):
            bytes[link.buffer] = facts.bytes[link.buffer]
    return sum(bytes.values())


def _space(group: Group) -> str:
    return reasons.loops_text([axis.size for axis in group.outer], [axis.size for axis in group.inner])
