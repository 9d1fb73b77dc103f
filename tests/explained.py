"""Why two operations are, or are not, in one kernel, also where fusion never came to ask about them."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.fuse import Fusion, refused_for_company
from explorer.compiler.schedule.group import FreshNames, Group, put
from explorer.compiler.schedule.kernels import ids_of
from explorer.compiler.schedule.legal import LEGAL
from explorer.compiler.schedule.order import Reach
from explorer.core.reasons import Verdict, Why, reason
from explorer.ir.index import Affine
from explorer.ir.loops import Extern
from explorer.ir.schedule import Fused, FusedKernel

CHAIN = reason(
    "fuse.chain",
    "other operations brought them into one kernel",
    "They were not fused directly: both were fused with a third operation, which brought them into one kernel.",
)


def explain(fused: Fused, first: str, second: str) -> Verdict:
    """The verdict on two operations, by their ids, in any order.

    Raises KeyError for an id that is not an operation of the program.
    """
    home = {id: item for item in fused.items for id in ids_of(item)}
    one, other = home[first], home[second]
    for fusion in fused.verdicts:
        if {fusion.first, fusion.second} == {first, second}:
            return fusion.verdict
    if isinstance(one, Extern) or isinstance(other, Extern):
        return Verdict(False, next(fused.excluded[item.id] for item in (one, other) if item.id in fused.excluded))
    alone = Fusion(fused.dependencies).alone(first, second)
    if one is other:
        return alone if alone.ok else Verdict(True, Why(CHAIN, one.id))
    if fused.otherwise.code == reasons.DISABLED:
        return Verdict(False, fused.otherwise)
    return refused_for_company(_between_kernels(fused, one, other)) if alone.ok else alone


def _between_kernels(fused: Fused, one: FusedKernel, other: FusedKernel) -> Why:
    """Why two finished kernels are not one."""
    fusion = Fusion(fused.dependencies)
    names = FreshNames("e")
    groups = [placed_again(kernel, fusion.facts.position, names) for kernel in (one, other)]
    kernels = [item for item in fused.items if isinstance(item, FusedKernel)]
    reach = Reach(fused.dependencies, {at: kernel.ids for at, kernel in enumerate(kernels)})
    between = reach.between(kernels.index(one), kernels.index(other))
    why: Why = LEGAL["legal"](groups[0], groups[1], fusion.facts, between, names).verdict.why
    return why


def placed_again(fused: FusedKernel, position: Mapping[str, int], names: FreshNames) -> Group:
    """The group that a finished kernel stands for, over fresh axes."""
    from_kernel = {axis.symbol: names.axis(axis.size) for axis in fused.outer + fused.inner}
    outer = tuple(from_kernel[axis.symbol] for axis in fused.outer)
    inner = tuple(from_kernel[axis.symbol] for axis in fused.inner)
    place = {old: Affine({new.symbol: 1}) for old, new in from_kernel.items()}
    placed = tuple(put(step.loop, position[step.loop.id], place, outer + inner, step.inner) for step in fused.steps)
    return Group(outer, inner, placed)
