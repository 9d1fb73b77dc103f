"""What capture made of a frame, and how it went, as record data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from explorer.compiler.bytecode.ops import OPS
from explorer.ir import record as data
from explorer.ir.attempt import Activation, Described, EvaluatorStep
from explorer.ir.bytecode import Code
from explorer.ir.capture import Capture, Guard, GuardedCode, GuardFailed
from explorer.ir.dynamo import names
from explorer.records.to_record.graphs import shown, span, why


def code(artifact: Code, role: str) -> data.CodeData:
    """`role` is "original", "rewritten", "continuation" or "inlined"."""
    instructions = tuple(
        data.InstructionData(
            i.id,
            i.op,
            "" if i.arg is None else shown(i.arg),
            i.target or "",
            i.origins,
            span(i.span),
            (OPS[i.op].effect(i.arg, False), OPS[i.op].effect(i.arg, True) if OPS[i.op].jumps else 0),
        )
        for i in artifact.instructions
    )
    return data.CodeData(artifact.qualname, role, artifact.filename, artifact.first_line, instructions)


def codes(capture: Capture) -> tuple[data.CodeData, ...]:
    found = [code(capture.code, "original")]
    if capture.compiled_bytecode is not None:
        found.append(code(capture.compiled_bytecode, "rewritten"))
    found += [code(each, "continuation") for each in capture.continuations]
    found += [code(each, "inlined") for each in capture.inlined]
    return tuple(found)


def breaks(capture: Capture) -> tuple[data.BreakData, ...]:
    found = []
    for b in capture.breaks:
        reason = why(b.why)
        assert reason is not None
        hints = (b.hint,) if b.hint else ()
        found.append(data.BreakData(reason, b.instruction, span(b.where), b.stack, hints, b.continuation))
    return tuple(found)


def symbols(capture: Capture) -> tuple[data.SymbolData, ...]:
    dynamic = (
        data.SymbolData(s.name, s.hint, s.source.name, f"{s.lower} to {s.upper}", "dynamic", s.why)
        for s in capture.symbols
    )
    fixed = (
        data.SymbolData(s.source.name, s.value, s.source.name, f"{s.value} to {s.value}", "specialised", s.why)
        for s in capture.specialised
    )
    return (*dynamic, *fixed)


def guards(artifact: Capture | GuardedCode) -> tuple[data.GuardData, ...]:
    return tuple(map(guard_data, artifact.guards))


def guard_data(guard: Guard) -> data.GuardData:
    source = guard.source.name if guard.source is not None else ""
    asks = guard.condition.shown(source)
    return data.GuardData(
        guard.id, source, guard.kind, asks.relation, asks.value, asks.text, guard.why, guard.cause, span(guard.span),
        guard.seen or asks.seen or asks.value, words=names(asks.words), **asks.data,
    )  # fmt: skip


def recompiles(events: Iterable[Any]) -> tuple[data.RecompileData, ...]:
    """The guards of earlier compiles that refused this call."""
    failed = (event for event in events if isinstance(event, GuardFailed))
    return tuple(data.RecompileData(event.of, event.guard, event.expression, event.how) for event in failed)


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
            found.append(data.StepData(step.instruction, number(step.activation), step.nodes, step.kept, pushed, bound))
    return tuple(frames), tuple(found)


def _described(value: Described | str) -> str:
    return value if isinstance(value, str) else value.describe()
