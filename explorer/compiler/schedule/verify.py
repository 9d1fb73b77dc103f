"""What must hold of each artifact that this folder makes. A violation is a bug here, raised as AssertionError."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.kernels import Item, before, ids_of
from explorer.compiler.schedule.memory import lifetimes
from explorer.ir.loops import View
from explorer.ir.schedule import Allocation, Dependencies, Fused, FusedKernel, MemoryPlan, Schedule


def verify_dependencies(dependencies: Dependencies) -> None:
    """Everything comes after earlier operations only, and what is read was written before or is an input."""
    made = {buffer.name for buffer in dependencies.loops.buffers.values() if buffer.kind in ("input", "constant")}
    seen: set[str] = set()
    for operation in dependencies.loops.operations:
        late = dependencies.after[operation.id].keys() - seen
        assert not late, f"{operation.id} comes after {late}, which follow it"
        missing = {read.buffer for read in dependencies.reads[operation.id]} - made
        assert not missing, f"{operation.id} reads {missing} before they are written"
        made.update(write.buffer for write in dependencies.writes[operation.id])
        seen.add(operation.id)


def verify_fused(fused: Fused) -> None:
    """Each operation is in one item, items can be ordered, and kernels obey the rule of the own point."""
    loops = fused.dependencies.loops
    ids = [id for item in fused.items for id in ids_of(item)]
    assert sorted(ids) == sorted(op.id for op in loops.operations), "operations lost or run twice"
    assert len({item.id for item in fused.items}) == len(fused.items), "two items have one id"
    _verify_order(fused.dependencies, fused.items)
    returned = {output.buffer for output in loops.outputs if isinstance(output, View)}
    for item in fused.items:
        if isinstance(item, FusedKernel):
            _verify_kernel(item, fused.dependencies, returned)
    pairs = [frozenset((fusion.first, fusion.second)) for fusion in fused.verdicts]
    assert len(set(pairs)) == len(pairs), "two verdicts on one pair"


def verify_schedule(schedule: Schedule) -> None:
    """The items are those of the fused program, in an order that dependencies allow; nothing is used when dead."""
    assert {item.id for item in schedule.items} == {item.id for item in schedule.fused.items}, "items lost"
    _verify_order(schedule.fused.dependencies, schedule.items)


def verify_memory(plan: MemoryPlan) -> None:
    """Every buffer has one place, no two that are alive at once share a byte of the pool, and what is overwritten is
    not needed again."""
    by_name = {a.buffer: a for a in plan.allocations}
    assert len(by_name) == len(plan.allocations), "a buffer has two places"
    spans = lifetimes(by_name)
    slots = [replace(a, bytes=int(a.bytes)) for a in plan.allocations if a.where == "pool"]
    for at, a in enumerate(slots):
        assert 0 <= a.offset and a.offset + a.bytes <= plan.pool_bytes, f"{a.buffer} is outside the pool"
        (first, last), end = spans[a.buffer], a.offset + a.bytes
        for b in slots[:at]:
            start, stop = spans[b.buffer]
            apart = last < start or stop < first or end <= b.offset or b.offset + b.bytes <= a.offset
            assert apart, f"{a.buffer} and {b.buffer} share bytes of the pool"
    sharing: dict[str, list[Allocation]] = {}
    for a in plan.allocations:
        if a.where not in ("none", "library") and a.why.code != reasons.ALIAS:
            sharing.setdefault(_root(by_name, a.buffer), []).append(a)
    for users in sharing.values():
        for one, after in pairwise(sorted(users, key=lambda a: (a.first, a.last))):
            gap = 0 if after.why.code == reasons.IN_PLACE else 1
            assert one.last + gap <= after.first, f"{after.buffer} overwrites {one.buffer}, which is still needed"
            assert after.bytes == one.bytes, f"{after.buffer} and {one.buffer} differ in size"


def _root(by_name: dict[str, Allocation], buffer: str) -> str:
    while by_name[buffer].where == "reuse" and by_name[buffer].of in by_name:
        buffer = by_name[buffer].of or ""
    return buffer


def _verify_order(dependencies: Dependencies, items: Iterable[Item]) -> None:
    done: set[str] = set()
    ordered = list(items)
    for item, needs in zip(ordered, before([ids_of(item) for item in ordered], dependencies), strict=True):
        late = [ordered[need].id for need in needs if ordered[need].id not in done]
        assert not late, f"{item.id} runs before {late}"
        done.add(item.id)


def _verify_kernel(kernel: FusedKernel, dependencies: Dependencies, returned: set[str]) -> None:
    outer, inner = ({axis.symbol for axis in axes} for axes in (kernel.outer, kernel.inner))
    members = set(kernel.ids)
    for name in kernel.internal:
        assert name in members and name not in returned, f"{name} is needed outside {kernel.id}"
        assert members.issuperset(dependencies.users.get(name, ())), f"{name} is read outside {kernel.id}"
    written: dict[str, tuple[object, bool]] = {}
    for step in kernel.steps:
        loop = step.loop
        assert step.inner or loop.combine is None, f"{loop.id} reduces outside the inner loop"
        allowed = outer | inner if step.inner and loop.combine is None else outer
        assert {axis.symbol for axis in loop.axes} == allowed, f"{loop.id} is not over {kernel.id}'s axes"
        needs = dependencies.after[loop.id].keys() & members
        assert needs <= written.keys(), f"{loop.id} runs before {needs - written.keys()}"
        for load in loop.loads:
            if load.buffer in members:
                index, along = written[load.buffer]
                assert load.index == index and not load.indirect, f"{loop.id} reads {load.buffer} at another point"
                assert step.inner or not along, f"{loop.id} reads {load.buffer} outside the loop that writes it"
        written[loop.id] = loop.index, step.inner and loop.combine is None
