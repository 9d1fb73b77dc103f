"""Why any two operations are, or are not, in one kernel."""

from __future__ import annotations

from explorer.core.reasons import Verdict, Why
from explorer.ir.loops import Loop
from explorer.ir.schedule import Fused, FusedKernel
from explorer.schedule import reasons
from explorer.schedule.facts import Facts
from explorer.schedule.group import Group, Names, single
from explorer.schedule.items import ids_of
from explorer.schedule.kernels import placed_again
from explorer.schedule.legal import Joined, can_fuse
from explorer.schedule.reach import Reach
from explorer.schedule.space import untangled


def explain(fused: Fused, first: str, second: str) -> Verdict:
    """The verdict on two operations, by their ids (in any order), also where fusion never came to ask about them.

    Raises KeyError for an id that is not an operation of the program.
    """
    home = {id: item for item in fused.items for id in ids_of(item)}
    items = home[first], home[second]
    for fusion in fused.verdicts:
        if {fusion.first, fusion.second} == {first, second}:
            return fusion.verdict
    if not all(isinstance(item, FusedKernel) for item in items):
        return Verdict(
            False, Why(reasons.LIBRARY_CALL, " and ".join(i.id for i in items if not isinstance(i, FusedKernel)))
        )
    alone = _ask(fused, [(first,), (second,)])
    if items[0] is items[1]:
        return alone.verdict if alone.verdict.ok else Verdict(True, Why(reasons.CHAIN, items[0].id))
    if not fused.enabled:
        return Verdict(False, Why(reasons.DISABLED))
    if not alone.verdict.ok:
        return alone.verdict
    kernels = _ask(fused, [ids_of(item) for item in items]).verdict
    return Verdict(False, Why(reasons.KERNELS, f"{items[0].id} and {items[1].id}: {kernels.why}"))


def _ask(fused: Fused, wanted: list[tuple[str, ...]]) -> Joined:
    """`can_fuse` on two sets of operations, each a whole kernel or a single loop on its own."""
    dependencies = fused.dependencies
    names = Names()
    facts = Facts(dependencies)
    loops = {operation.id: operation for operation in dependencies.loops.operations}
    kernels = {item.ids: item for item in fused.items if isinstance(item, FusedKernel)}
    groups: list[Group] = []
    for ids in wanted:
        loop = loops[ids[0]]
        if len(ids) > 1:
            groups.append(placed_again(kernels[ids], facts.position, names))
        elif isinstance(loop, Loop):
            groups.append(untangled(single(loop, facts.position[loop.id], names), names))
    taken = {id for ids in wanted for id in ids}
    if all(ids in kernels for ids in wanted):
        rest = [item.ids for item in kernels.values() if item.ids not in wanted]
    else:
        rest = [(id,) for id, operation in loops.items() if isinstance(operation, Loop) and id not in taken]
    members = dict(enumerate([*wanted, *rest]))
    return can_fuse(groups[0], groups[1], facts, Reach(dependencies, members).between(0, 1), names)
