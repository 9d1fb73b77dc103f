"""Turns live artifacts into record data; the only place that knows both."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from explorer.compiler.bytecode.ops import OPS
from explorer.core.reasons import Unsupported
from explorer.core.recorder import CompileRun, StageRun
from explorer.core.rules import RuleUsed, with_your
from explorer.ir import record as data
from explorer.ir.capture import BreakForbidden, Capture, EvaluatorSteps, GuardedCode, GuardFailed
from explorer.ir.graph import Graph, Rewritten, info
from explorer.ir.joint import Compiled, Partitioned, Traced
from explorer.ir.loops import Extern, Loop, Loops
from explorer.ir.schedule import FusedKernel, FusionTried, Schedule
from explorer.records.data import operator_meanings
from explorer.records.to_record import capture as captured
from explorer.records.to_record.graphs import error, function_costs, graph, reasons, shown, text, why
from explorer.records.to_record.halves import counted, half_name, halves_of

__all__ = [
    "Seconds",
    "compile",
    "counted",
    "error",
    "fallback",
    "graph",
    "halves_of",
    "meanings",
    "reasons",
    "stage",
    "stages",
    "text",
]


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


def text_with_rules(rules: Mapping[str, str], artifact: Any) -> data.TextData:
    """The artifact's text; in that of loops and kernels, each that a rule made says so, as nodes do themselves."""
    made = artifact.text()
    if rules and isinstance(artifact, (Loops, Schedule)):
        yours = {id: f"  # {with_your(rule)}" for id, rule in rules.items()}
        lines = (dataclasses.replace(each, text=each.text + yours.get(each.id, "")) for each in made.lines)
        made = dataclasses.replace(made, lines=tuple(lines))
    return text(made)


def meanings(compiles: Sequence[data.CompileData]) -> dict[str, str]:
    """What the instructions and operators of `compiles` do, by their names: RecordData.meanings."""
    names = sorted({each.op for compile in compiles for code in compile.codes for each in code.instructions})
    return {name: OPS[name].meaning for name in names if name in OPS} | operator_meanings.meanings(compiles)


def event(happened: object) -> data.EventData:
    """An event with its fields as text; of a type that has none that we know, what it says of itself."""
    if not dataclasses.is_dataclass(happened):
        return data.EventData(type(happened).__name__, {"what": shown(happened)})
    fields = {field.name: shown(getattr(happened, field.name)) for field in dataclasses.fields(happened)}
    return data.EventData(type(happened).__name__, fields)


def stages(run: CompileRun, rules: Mapping[str, str] = MappingProxyType({})) -> tuple[data.StageData, ...]:
    """Every stage of a compile with its text."""
    last_text: dict[str, tuple[str, data.TextData]] = {}
    return tuple(stage(f"{run.id}/{number}", each, last_text, rules) for number, each in enumerate(run.stages))


def stage(
    id: str,
    run: StageRun,
    last_text: dict[str, tuple[str, data.TextData]],
    rules: Mapping[str, str] = MappingProxyType({}),
) -> data.StageData:
    """One stage. `last_text` holds the last text of each kind of artifact in the same compile, and the stage's id.
    `rules` names the person's own rules that made elements."""
    printed = None if run.artifact is None else text_with_rules(rules, run.artifact)
    kind = type(run.artifact).__name__
    before = last_text.get(kind)
    same_as = before[0] if printed is not None and before is not None and before[1] == printed else ""
    if printed is not None and not same_as:
        last_text[kind] = (id, printed)
    made = _graph_of(run.artifact)
    return data.StageData(
        id, run.name, run.started, run.seconds, run.depth, half_name(run.artifact),
        None if same_as else printed,
        graph(made) if made is not None and not same_as else None,
        error(run.error), same_as,
        tuple(map(graph, _halves_of(run.artifact))),
    )  # fmt: skip


def _graph_of(artifact: object) -> Graph | None:
    """The one graph of an artifact that has one."""
    match artifact:
        case Graph():
            return artifact
        case Capture(graph=found) | Traced(forward=found):
            return found
    return None


def _halves_of(artifact: object) -> tuple[Graph, ...]:
    return (artifact.forward, artifact.backward) if isinstance(artifact, Partitioned) else ()


def fallback(run: CompileRun) -> data.WhyData | None:
    """Why the compile's code runs eagerly, where it does."""
    for stage in reversed(run.stages):
        if isinstance(stage.artifact, Compiled) and stage.artifact.fallback is not None:
            return why(stage.artifact.fallback)
    if isinstance(run.error, Unsupported) and not isinstance(run.error, BreakForbidden):
        return why(run.error.why)
    return None


_PLACED = (EvaluatorSteps, GuardFailed, FusionTried, Rewritten)
"""Events that have a place of their own in a compile's data."""

Seconds = Mapping[str, Mapping[str, float]]
"""Measured times by half, then by id of kernel or library call."""


def compile(run: CompileRun, seconds: Seconds = MappingProxyType({})) -> data.CompileData:
    """One compile with all that its stages made, and what was measured of it."""
    artifacts = [stage.artifact for stage in run.stages]
    rules = made_with(run, [found for each in artifacts for found in (_graph_of(each), *_halves_of(each)) if found])
    made, halves = stages(run, rules), halves_of(run)
    capture = next((a for a in artifacts if isinstance(a, Capture)), None)
    linked = next((a for a in artifacts if isinstance(a, GuardedCode)), None)
    traced = next((a for a in artifacts if isinstance(a, Traced)), None)
    parts = next((a for a in artifacts if isinstance(a, Partitioned)), None)
    eager = fallback(run)
    forbidden = (run.error.broken,) if isinstance(run.error, BreakForbidden) else ()
    broke = forbidden if capture is None else capture.breaks
    steps = captured.steps(run.events)
    ended = next((each.started + each.seconds for each in run.stages if each.name == "capture"), None)
    if ended is None or run.left_out["EvaluatorStep"]:  # the last step that was kept did not take all the rest
        ended = steps.times[-1] if steps.times else 0.0
    tried = [happened for happened in run.events if isinstance(happened, FusionTried)]
    return data.CompileData(
        run.id,
        run.title,
        run.started,
        run.seconds,
        stages=made,
        codes=() if capture is None else captured.codes(capture),
        guards=() if capture is None else captured.guards(linked or capture, steps),
        breaks=captured.breaks(broke, steps),
        effects=() if capture is None else captured.effects(capture, steps),
        symbols=() if capture is None else captured.symbols(capture, steps),
        saved=() if parts is None else _saved(parts),
        eager_backward=() if traced is None else _eager_backward(traced),
        halves=counted(
            (half.exported(seconds.get(name, {}), eager is None, tried) for name, half in halves.items()),
            (graph for each in artifacts for graph in (_graph_of(each), *_halves_of(each)) if graph is not None),
        ),
        events=tuple(event(happened) for happened in run.events if not isinstance(happened, _PLACED)),
        left_out=dict(run.left_out),
        error=error(run.error),
        raises=getattr(run.error, "reaches_program", False),
        fallback=eager,
        inputs=() if capture is None else capture.given,
        continues=capture.frame.history.continues if capture is not None and capture.frame is not None else "",
        recompiles=captured.recompiles(run.events),
        activations=tuple(steps.activations),
        functions=function_costs(steps.activations, steps.steps, steps.times, ended),
        steps=tuple(steps.steps),
        values=tuple(data.ValueData(*each) for each in steps.values),
        made={} if capture is None else captured.made(capture, steps),
        rules=rules,
        rewrites=tuple(rewrites(run, made)),
    )


LOWERED = {
    "kernel": "computed in loops", "extern": "a library call", "view": "a view: part of its readers' indices",
    "constant": "known before it runs", "unused": "nothing reads it",
}  # fmt: skip


def rewrites(run: CompileRun, stages: Sequence[data.StageData]) -> Iterator[data.RewriteData]:
    """What the passes over the graph replaced, and what lowering made of each node."""
    begun = [each.events for each in run.stages]
    for number, happened in enumerate(run.events):
        at = bisect_right(begun, number) - 1
        if isinstance(happened, Rewritten) and at >= 0:  # else it was outside of all stages: the preloading of passes
            yield data.RewriteData(stages[at].id, *dataclasses.astuple(happened))
    for stage, ran in zip(stages, run.stages, strict=True):
        if isinstance(ran.artifact, Loops):
            made = ran.artifact.operations
            whys = {each.id: why(each.why if isinstance(each, Extern) else each.buffer.why) for each in made}
            for id, (kind, into) in ran.artifact.nodes.items():
                because = tuple(filter(None, (whys.get(id) for id in into[-1:])))
                yield data.RewriteData(stage.id, LOWERED[kind], id, "", ", ".join(into), "", because)


def _saved(parts: Partitioned) -> tuple[data.SavedData, ...]:
    found = []
    for saved in parts.saved:
        reason = why(saved.why)
        assert reason is not None
        found.append(data.SavedData(saved.id, saved.kind, saved.bytes, reason))
    return tuple(found)


def _eager_backward(traced: Traced) -> tuple[data.GradNodeData, ...]:
    return tuple(data.GradNodeData(n.id, n.name, n.origins, n.inputs) for n in traced.eager_backward.nodes)
