"""From live artifacts to record data: the only place where both are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import sympy
import torch
from torch import fx

from explorer.bytecode.ops import OPS
from explorer.core.reasons import CATALOGUE, Unsupported, Why
from explorer.core.recorder import CompileRun, StageRun
from explorer.core.text import Text
from explorer.ir import record as data
from explorer.ir.attempt import Activation, Described, EvaluatorStep
from explorer.ir.bytecode import Code, Span
from explorer.ir.capture import Capture, GuardedCode
from explorer.ir.graph import Graph, describe, info, target_name
from explorer.ir.joint import Partitioned, Traced
from explorer.ir.loops import Extern, Loop, Loops, Size
from explorer.ir.memory import MemoryPlan
from explorer.ir.program import Compiled, Generated, Program
from explorer.ir.schedule import Dependencies, Fused, FusedKernel, Schedule


def text(made: Text) -> data.TextData:
    return data.TextData(tuple(data.LineData(line.text, line.id, line.origins) for line in made.lines), made.language)


def span(at: Span | None) -> data.SpanData | None:
    return None if at is None else data.SpanData(at.file, at.line, at.end_line, at.column, at.end_column)


def why(reason: Why | None) -> data.WhyData | None:
    return None if reason is None else data.WhyData(reason.code, CATALOGUE[reason.code].title, reason.detail)


def reasons(codes: Iterable[str]) -> tuple[data.ReasonData, ...]:
    """The catalogue entries of `codes`, each once, sorted."""
    entries = (CATALOGUE[code] for code in sorted(set(codes)))
    return tuple(data.ReasonData(r.code, r.title, r.meaning, r.hint) for r in entries)


def tensor_bytes(value: Any) -> int:
    """Bytes of a fake tensor (or of a tuple of them) by its size hints."""
    if isinstance(value, (tuple, list)):
        return sum(map(tensor_bytes, value))
    if not isinstance(value, torch.Tensor):
        return 0
    count = 1
    for size in value.shape:
        count *= size.node.hint if isinstance(size, torch.SymInt) else size
    return count * value.element_size()


def graph(artifact: Graph) -> data.GraphData:
    ids: dict[fx.Node, str] = {}
    nodes = []
    for node in artifact.graph.nodes:
        if node.op == "output":
            continue
        facts = info(node)
        ids[node] = facts.id
        nodes.append(
            data.NodeData(
                facts.id, node.name, node.op, target_name(node), describe(facts.value),
                tuple(ids[n] for n in node.all_input_nodes), facts.origins, facts.module, facts.about,
                tensor_bytes(facts.value), span(facts.span),
            )
        )  # fmt: skip
    outputs = tuple(ids[value] if isinstance(value, fx.Node) else str(value) for value in artifact.outputs)
    return data.GraphData(artifact.name, tuple(nodes), outputs)


def evaluate(size: Size, hints: Mapping[sympy.Symbol, int]) -> int:
    """A size expression at the hints; sizes that no hint determines count as 0."""
    value = size.subs(hints) if isinstance(size, sympy.Expr) else size
    return int(value) if not isinstance(value, sympy.Expr) or value.is_number else 0


@dataclasses.dataclass
class HalfParts:
    """What the stages of one half have given so far."""

    name: str
    loops: Loops | None = None
    dependencies: Dependencies | None = None
    schedule: Schedule | None = None
    memory: MemoryPlan | None = None
    generated: Generated | None = None
    program: Program | None = None

    def exported(self, seconds: Mapping[str, float], runs: bool) -> data.HalfData:
        """`seconds` are the measured times of kernels and library calls, by id; `runs` says whether calls come here."""
        hints = self.loops.hints if self.loops else {}
        return data.HalfData(
            self.name,
            self.generated.target if self.generated else "",
            buffers=self._buffers(hints),
            operations=self._operations(),
            schedule=None if self.schedule is None else _schedule(self.schedule),
            memory=None
            if self.memory is None
            else data.MemoryData(self.memory.pool_bytes, self.memory.peak_before, self.memory.peak_after),
            kernels=self._kernels(hints, seconds),
            wrapper=None if self.generated is None else text(self.generated.wrapper),
            builds=() if self.program is None else tuple(data.BuildData(*_fields(s)) for s in self.program.steps),
            extern_seconds={id: spent for id, spent in seconds.items() if id not in self._kernel_ids()},
            nodes={} if self.loops is None else dict(self.loops.nodes),
            runs=runs and self.program is not None and self.program.call is not None,
        )

    def _buffers(self, hints: Mapping[sympy.Symbol, int]) -> tuple[data.BufferData, ...]:
        if self.loops is None:
            return ()
        places = {a.buffer: a for a in self.memory.allocations} if self.memory else {}
        found = []
        for buffer in self.loops.buffers.values():
            place = places.get(buffer.name)
            shown = data.BufferData(buffer.name, str(buffer.layout), buffer.kind, buffer.origins, why(buffer.why))
            if place is not None:
                shown = data.BufferData(
                    shown.name, shown.type, shown.kind, shown.origins, shown.why, place.where, why(place.why),
                    place.offset, place.of or "", evaluate(place.bytes, hints), place.first, place.last,
                )  # fmt: skip
            found.append(shown)
        return tuple(found)

    def _operations(self) -> tuple[data.OperationData, ...]:
        if self.dependencies is None:
            return ()
        found = []
        target: str
        for op in self.dependencies.loops.operations:
            reads = tuple(dict.fromkeys(access.buffer for access in self.dependencies.reads[op.id]))
            writes = tuple(buffer.name for buffer in op.writes)
            if isinstance(op, Loop):
                kind, target = "loop", op.combine or ("scatter" if op.store != "set" else "pointwise")
                reason = why(op.buffer.why)
            else:
                kind, target, reason = "extern", str(op.target), why(op.why)
            found.append(data.OperationData(op.id, kind, target, reads, writes, op.origins, reason))
        return tuple(found)

    def _kernel_ids(self) -> frozenset[str]:
        return frozenset(kernel.id for kernel in self.generated.kernels) if self.generated else frozenset()

    def _kernels(
        self, hints: Mapping[sympy.Symbol, int], seconds: Mapping[str, float]
    ) -> tuple[data.KernelData, ...]:
        if self.generated is None:
            return ()
        lowered = self.program.lowered() if self.program is not None else {}
        return tuple(
            data.KernelData(
                kernel.id, kernel.function, kernel.language, text(kernel.source), kernel.origins,
                evaluate(kernel.bytes, hints), evaluate(kernel.flops, hints), seconds.get(kernel.id),
                lowered={kind: text(made) for kind, made in lowered.get(kernel.function, {}).items()},
            )
            for kernel in self.generated.kernels
        )  # fmt: skip


def _fields(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, field.name) for field in dataclasses.fields(value))


def _axes(axes: Iterable[Any]) -> str:
    return " x ".join(f"{axis.symbol}<{axis.size}" for axis in axes)


def _schedule(schedule: Schedule) -> data.ScheduleData:
    items = []
    for item in schedule.items:
        if isinstance(item, FusedKernel):
            internal = tuple(sorted(item.internal))
            outer, inner = _axes(item.outer), _axes(item.inner)
            items.append(data.ItemData(item.id, "kernel", item.ids, outer, inner, internal))
        elif isinstance(item, Extern):
            items.append(data.ItemData(item.id, "extern", (item.id,)))
    fusions = []
    for fusion in schedule.fused.verdicts:
        reason = why(fusion.verdict.why)
        assert reason is not None
        fusions.append(data.FusionData(fusion.first, fusion.second, fusion.verdict.ok, reason, fusion.verdict.score))
    return data.ScheduleData(tuple(items), tuple(fusions))


def half_name(artifact: Any) -> str:
    """The half an artifact belongs to: "forward", "backward" or "inference"; "" for what comes before the halves."""
    match artifact:
        case Loops(name=name) | MemoryPlan(name=name) | Generated(name=name):
            return name
        case Dependencies(loops=loops) | Schedule(loops=loops):
            return loops.name
        case Fused(dependencies=dependencies):
            return dependencies.loops.name
        case Program(generated=generated):
            return generated.name
    return ""


def event(happened: Any) -> data.EventData:
    """A typed event with its fields as text."""
    fields = {field.name: _shown(getattr(happened, field.name)) for field in dataclasses.fields(happened)}
    return data.EventData(type(happened).__name__, fields)


def _shown(value: Any) -> str:
    if isinstance(value, Span):
        return value.id
    if isinstance(value, (tuple, list)):
        return ", ".join(filter(None, map(_shown, value)))
    return str(value)


def error(raised: BaseException | None) -> str:
    return "" if raised is None else f"{type(raised).__name__}: {raised}"


_PARTS: dict[type, str] = {
    Loops: "loops", Dependencies: "dependencies", Schedule: "schedule", MemoryPlan: "memory",
    Generated: "generated", Program: "program",
}  # fmt: skip
"""The field of HalfParts that an artifact fills."""


def halves_of(run: CompileRun) -> dict[str, HalfParts]:
    """What each half of a compile is made of, by its name."""
    found: dict[str, HalfParts] = {}
    for stage in run.stages:
        half = half_name(stage.artifact)
        if half and (part := _PARTS.get(type(stage.artifact))):
            setattr(found.setdefault(half, HalfParts(half)), part, stage.artifact)
    return found


def stages(run: CompileRun) -> tuple[data.StageData, ...]:
    """Every stage of a compile with its text."""
    last_text: dict[str, tuple[str, data.TextData]] = {}
    return tuple(
        _stage(f"{run.id}/{number}", stage, half_name(stage.artifact), last_text)
        for number, stage in enumerate(run.stages)
    )


def _stage(
    id: str, stage: StageRun, half: str, last_text: dict[str, tuple[str, data.TextData]]
) -> data.StageData:
    printed = None if stage.artifact is None else text(stage.artifact.text())
    kind = type(stage.artifact).__name__
    before = last_text.get(kind)
    same_as = before[0] if printed is not None and before is not None and before[1] == printed else ""
    if printed is not None and not same_as:
        last_text[kind] = (id, printed)
    shown = _graph_of(stage.artifact)
    return data.StageData(
        id, stage.name, stage.started, stage.seconds, stage.depth, half,
        None if same_as else printed,
        graph(shown) if shown is not None and not same_as else None,
        error(stage.error), same_as,
        tuple(map(graph, _halves_of(stage.artifact))),
    )  # fmt: skip


def _graph_of(artifact: Any) -> Graph | None:
    """The one graph of an artifact that has one."""
    match artifact:
        case Graph():
            return artifact
        case Capture(graph=found) | Traced(forward=found):
            return found
    return None


def _halves_of(artifact: Any) -> tuple[Graph, ...]:
    return (artifact.forward, artifact.backward) if isinstance(artifact, Partitioned) else ()


def fallback(run: CompileRun) -> data.WhyData | None:
    """Why the compile's code runs eagerly, where it does."""
    for stage in reversed(run.stages):
        if isinstance(stage.artifact, Compiled) and stage.artifact.fallback is not None:
            return why(stage.artifact.fallback)
    if isinstance(run.error, Unsupported):
        return why(run.error.why)
    return None


def code(artifact: Code, role: str) -> data.CodeData:
    """`role` is "original", "rewritten", "continuation" or "inlined"."""
    instructions = tuple(
        data.InstructionData(
            i.id, i.op, "" if i.arg is None else _shown(i.arg), i.target or "", i.origins, span(i.span),
            (OPS[i.op].effect(i.arg, False), OPS[i.op].effect(i.arg, True) if OPS[i.op].jumps else 0),
        )
        for i in artifact.instructions
    )
    return data.CodeData(artifact.qualname, role, artifact.filename, artifact.first_line, instructions)


def guards(artifact: Capture | GuardedCode) -> tuple[data.GuardData, ...]:
    return tuple(
        data.GuardData(
            guard.id, guard.source.name if guard.source is not None else "", guard.property, guard.relation,
            _shown(guard.value), guard.text, guard.why, guard.cause, span(guard.span),
        )
        for guard in artifact.guards
    )  # fmt: skip


Seconds = Mapping[str, Mapping[str, float]]
"""Measured times by half, then by id of kernel or library call."""


def compile(run: CompileRun, seconds: Seconds = MappingProxyType({})) -> data.CompileData:
    """One compile with all that its stages made, and what was measured of it."""
    made, halves = stages(run), halves_of(run)
    artifacts = [stage.artifact for stage in run.stages]
    capture = next((a for a in artifacts if isinstance(a, Capture)), None)
    linked = next((a for a in artifacts if isinstance(a, GuardedCode)), None)
    traced = next((a for a in artifacts if isinstance(a, Traced)), None)
    parts = next((a for a in artifacts if isinstance(a, Partitioned)), None)
    eager = fallback(run)
    activations, evaluated = steps(run.events)
    return data.CompileData(
        run.id,
        run.title,
        run.started,
        run.seconds,
        stages=made,
        codes=() if capture is None else _codes(capture),
        guards=() if capture is None else guards(linked or capture),
        breaks=() if capture is None else _breaks(capture),
        effects=() if capture is None else tuple(data.EffectData(e.kind, e.text, e.origins) for e in capture.effects),
        symbols=() if capture is None else _symbols(capture),
        saved=() if parts is None else _saved(parts),
        eager_backward=() if traced is None else _eager_backward(traced),
        halves=tuple(half.exported(seconds.get(name, {}), eager is None) for name, half in halves.items()),
        events=tuple(event(happened) for happened in run.events if not isinstance(happened, EvaluatorStep)),
        left_out=dict(run.left_out),
        error=error(run.error),
        fallback=eager,
        activations=activations,
        steps=evaluated,
    )


def steps(events: Iterable[Any]) -> tuple[tuple[data.ActivationData, ...], tuple[data.StepData, ...]]:
    """The frames that the evaluator entered, and what it did, in order."""
    entered: dict[Activation, int] = {}
    frames: list[data.ActivationData] = []
    found = []

    def number(activation: Activation) -> int:
        if activation not in entered:
            caller = -1 if activation.caller is None else number(activation.caller)
            entered[activation] = len(frames)
            depth = 0 if caller < 0 else frames[caller].depth + 1
            frames.append(data.ActivationData(activation.function, depth, caller))
        return entered[activation]

    for step in events:
        if isinstance(step, EvaluatorStep):
            pushed = tuple(map(_described, step.pushed))
            bound = {name: "" if value is None else _described(value) for name, value in step.locals}
            found.append(
                data.StepData(step.instruction, number(step.activation), step.nodes, step.kept, pushed, bound)
            )
    return tuple(frames), tuple(found)


def _described(value: Described | str) -> str:
    return value if isinstance(value, str) else value.describe()


def _codes(capture: Capture) -> tuple[data.CodeData, ...]:
    found = [code(capture.code, "original")]
    if capture.residual is not None:
        found.append(code(capture.residual, "rewritten"))
    found += [code(each, "continuation") for each in capture.continuations]
    found += [code(each, "inlined") for each in capture.inlined]
    return tuple(found)


def _breaks(capture: Capture) -> tuple[data.BreakData, ...]:
    found = []
    for b in capture.breaks:
        reason = why(b.why)
        assert reason is not None
        hints = (b.hint,) if b.hint else ()
        found.append(data.BreakData(reason, b.instruction, span(b.where), b.stack, hints, b.continuation))
    return tuple(found)


def _symbols(capture: Capture) -> tuple[data.SymbolData, ...]:
    dynamic = (
        data.SymbolData(s.name, s.hint, s.source.name, f"{s.lower} to {s.upper}", "dynamic", s.why)
        for s in capture.symbols
    )
    fixed = (
        data.SymbolData(s.source.name, s.value, s.source.name, f"{s.value} to {s.value}", "specialised", s.why)
        for s in capture.specialised
    )
    return (*dynamic, *fixed)


def _saved(parts: Partitioned) -> tuple[data.SavedData, ...]:
    found = []
    for saved in parts.saved:
        reason = why(saved.why)
        assert reason is not None
        found.append(data.SavedData(saved.id, saved.fate, saved.bytes, reason))
    return tuple(found)


def _eager_backward(traced: Traced) -> tuple[data.GradNodeData, ...]:
    return tuple(data.GradNodeData(n.id, n.name, n.origins, n.inputs) for n in traced.eager_backward.nodes)
