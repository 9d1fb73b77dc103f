"""What the stages of one half (inference, forward or backward) made, as record data; the floating-point operations of
its library calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sympy
import torch
from msgspec.structs import replace
from torch import fx
from torch.utils.flop_counter import flop_registry

from explorer.core.recorder import CompileRun
from explorer.ir import record as data
from explorer.ir.graph import Graph, info
from explorer.ir.loops import Extern, Loop, Loops, Size
from explorer.ir.program import Generated, Lowered, Program, nested
from explorer.ir.schedule import Dependencies, Fused, FusedKernel, FusionDecision, FusionTried, MemoryPlan, Schedule
from explorer.records.to_record.graphs import text, why


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

    def exported(self, seconds: Mapping[str, float], runs: bool, tried: Sequence[FusionTried] = ()) -> data.HalfData:
        """`seconds` are the measured times of kernels and library calls, by id; `runs` says whether calls come here;
        `tried` are the pairs that fusion asked about, in all halves."""
        hints = self.loops.hints if self.loops else {}
        return data.HalfData(
            self.name,
            self.generated.target if self.generated else "",
            buffers=self._buffers(hints),
            operations=self._operations(),
            schedule=None if self.schedule is None else _schedule(self.schedule, tried),
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

    def _kernels(self, hints: Mapping[sympy.Symbol, int], seconds: Mapping[str, float]) -> tuple[data.KernelData, ...]:
        if self.generated is None:
            return ()
        lowered = self.program.lowered() if self.program is not None else {}
        nothing = Lowered({})
        return tuple(
            data.KernelData(
                kernel.id, kernel.function, kernel.language, text(kernel.source), kernel.origins,
                evaluate(kernel.bytes, hints), evaluate(kernel.flops, hints), seconds.get(kernel.id),
                lowered={kind: text(made) for kind, made in lowered.get(kernel.function, nothing).texts.items()},
                arguments=tuple(
                    data.ArgumentData(each.buffer or "", "" if each.size is None else str(each.size), each.written)
                    for each in kernel.arguments
                ),
                loops=tuple(
                    data.TiledLoopData(each.axis.symbol.name, each.kind, str(each.size), each.tile, depth)
                    for each, depth in nested(kernel.loops)
                ),
                remarks=dict(lowered.get(kernel.function, nothing).remarks),
                vectorized=lowered.get(kernel.function, nothing).vectorized,
                facts=(f"tiling, by rules and not timed: {kernel.tiled}", *lowered.get(kernel.function, nothing).facts),
            )
            for kernel in self.generated.kernels
        )  # fmt: skip


def _fields(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, field.name) for field in dataclasses.fields(value))


def _axes(axes: Iterable[Any]) -> str:
    return " x ".join(f"{axis.symbol}<{axis.size}" for axis in axes)


def _schedule(schedule: Schedule, tried: Sequence[FusionTried]) -> data.ScheduleData:
    items = []
    for item in schedule.items:
        if isinstance(item, FusedKernel):
            internal = tuple(sorted(item.internal))
            outer, inner = _axes(item.outer), _axes(item.inner)
            items.append(data.ItemData(item.id, "kernel", item.ids, outer, inner, internal))
        elif isinstance(item, Extern):
            items.append(data.ItemData(item.id, "extern", (item.id,), why=why(schedule.fused.excluded[item.id])))
    own = {id for item in items for id in item.operations}
    return data.ScheduleData(
        tuple(items),
        tuple(map(_fusion, schedule.fused.verdicts)),
        tuple(_fusion(t) for t in tried if t.first in own),
        why(schedule.fused.otherwise),
    )


def _fusion(found: FusionDecision | FusionTried) -> data.FusionData:
    reason = why(found.verdict.why)
    assert reason is not None
    later = isinstance(found, FusionTried) and found.later
    return data.FusionData(found.first, found.second, found.verdict.ok, reason, found.verdict.score, later)


def half_name(artifact: object) -> str:
    """The name of the half that an artifact belongs to, "f0_backward" say; "" for what comes before the halves."""
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


def counted(halves: Iterable[data.HalfData], graphs: Iterable[Graph]) -> tuple[data.HalfData, ...]:
    """The halves with the operations of each library call, as torch counts them for the nodes that it computes."""
    of_node = {info(node).id: flops(node) for graph in graphs for node in graph.graph.nodes if counts(node)}

    def of_half(half: data.HalfData) -> data.HalfData:
        calls = {each.id: sum(of_node.get(id, 0) for id in each.origins) for each in half.operations}
        extern = {each.id: calls[each.id] for each in half.operations if each.kind == "extern" and calls[each.id]}
        return replace(half, extern_flops=extern)

    return tuple(map(of_half, halves))


def counts(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and _formula(node.target.overloadpacket) is not None


def flops(node: fx.Node) -> int:
    """By size hints; 0 where a size has none."""
    assert isinstance(node.target, torch._ops.OpOverload)
    formula = _formula(node.target.overloadpacket)
    assert formula is not None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: info(each).value)
    found = formula(*args, **kwargs, out_val=info(node).value)
    hint = found.node.hint if isinstance(found, torch.SymInt) else found
    return hint if isinstance(hint, int) else 0


@cache
def _formula(operator: Any) -> Callable[..., Any] | None:
    """torch's own; attention's kernel for the CPU counts as the one for GPUs."""
    known: Mapping[Any, Callable[..., Any]] = flop_registry
    name = operator.__name__
    other = getattr(torch.ops.aten, name.replace("_for_cpu", ""), None) if "_for_cpu" in name else None
    return known.get(operator) or known.get(other)
