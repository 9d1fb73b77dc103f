"""Which elements of a compile a person's own rules made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from explorer.core.recorder import CompileRun
from explorer.core.rules import RuleUsed, with_your
from explorer.ir import record as data
from explorer.ir.graph import Graph, info
from explorer.ir.loops import Loop, Loops
from explorer.ir.schedule import FusedKernel, Schedule
from explorer.records.to_record.graphs import text


def made_with(run: CompileRun, graphs: Iterable[Graph]) -> dict[str, str]:
    """By id of a node, loop or kernel, the rule that made it, or what it comes from."""
    used = {where: each.rule for each in run.events if isinstance(each, RuleUsed) for where in each.where}
    if not used and not any(isinstance(each, RuleUsed) for each in run.events):
        return {}
    found = {info(n).id: info(n).rule for graph in graphs for n in graph.graph.nodes if n.op != "output"}
    found = {id: rule for id, rule in found.items() if rule}
    causes = {**used, **found}
    for artifact in (stage.artifact for stage in run.stages):
        items: tuple[Any, ...] = ()
        if isinstance(artifact, Loops):
            items = tuple(each for each in artifact.operations if isinstance(each, Loop))
        elif isinstance(artifact, Schedule):
            items = tuple(item for item in artifact.items if isinstance(item, FusedKernel))
        for item in items:
            of = (*item.origins, *(item.ids if isinstance(item, FusedKernel) else (item.id,)))
            if rule := next((causes[each] for each in of if each in causes), ""):
                found[item.id] = causes[item.id] = rule
    return found


def said_with(rules: Mapping[str, str], artifact: Any) -> data.TextData:
    """The artifact's text; in that of loops and kernels, each that a rule made says so, as nodes do themselves."""
    made = artifact.text()
    if rules and isinstance(artifact, (Loops, Schedule)):
        lines = (replace(each, text=f"{each.text}  # {with_your(rules[each.id])}") if each.id in rules else each
                 for each in made.lines)
        made = replace(made, lines=tuple(lines))
    return text(made)
