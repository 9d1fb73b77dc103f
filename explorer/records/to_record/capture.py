"""What capture made of a frame, and how it went, as record data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from explorer.compiler.bytecode.ops import OPS
from explorer.ir import capture as ir
from explorer.ir import record as data
from explorer.ir.bytecode import Code
from explorer.ir.graph import info
from explorer.records.data.dynamo import names
from explorer.records.to_record.graphs import shown, span, why
from explorer.records.to_record.python import python


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
    text = python(artifact) if role in ("rewritten", "continuation") else ""
    return data.CodeData(artifact.qualname, role, artifact.filename, artifact.first_line, instructions, text)


def codes(capture: ir.Capture) -> tuple[data.CodeData, ...]:
    found = [code(capture.code, "original")]
    if capture.compiled_bytecode is not None:
        found.append(code(capture.compiled_bytecode, "rewritten"))
    found += [code(each, "continuation") for each in capture.continuations]
    found += [code(each, "inlined") for each in capture.inlined]
    return tuple(found)


def breaks(broke: Iterable[ir.Break], steps: RecordedSteps) -> tuple[data.BreakData, ...]:
    found = []
    for b in broke:
        reason = why(b.why)
        assert reason is not None
        hints = (b.hint,) if b.hint else ()
        at = steps.last(b.instruction)
        found.append(data.BreakData(reason, b.instruction, span(b.where), b.stack, hints, b.continuation, step=at))
    return tuple(found)


def effects(capture: ir.Capture, steps: RecordedSteps) -> tuple[data.EffectData, ...]:
    return tuple(data.EffectData(e.kind, e.text, e.origins, steps.at(e.step)) for e in capture.effects)


def made(capture: ir.Capture, steps: RecordedSteps) -> dict[str, int]:
    """The steps that made the nodes of the graph."""
    nodes = () if capture.graph is None else capture.graph.graph.nodes
    facts = [info(node) for node in nodes if node.op != "output"]
    return {each.id: at for each in facts if (at := steps.at(each.step)) >= 0}


def symbols(capture: ir.Capture, steps: RecordedSteps) -> tuple[data.SymbolData, ...]:
    environment = None if capture.graph is None else capture.graph.fake_mode.shape_env
    fixed_at = {} if environment is None else {str(name): to for name, to in environment.replacements.items()}
    dynamic = []
    for s in capture.symbols:
        status, why, fixed = "dynamic", s.why, fixed_at.get(s.name, s.lower if s.lower == s.upper else None)
        if fixed is not None:
            status = "specialized" if isinstance(fixed, int) or fixed.is_number else f"equal to {fixed}"
            why = f"{s.why}, and a guard requires that it equals {fixed}"
        hint = s.hint if isinstance(s.hint, int) else None
        place = s.source.name, f"{s.hint} when traced" if hint is None else f"{s.lower} to {s.upper}"
        dynamic.append(data.SymbolData(s.name, hint, *place, status, why, steps.at(s.step)))
    fixed = (
        data.SymbolData(
            s.source.name, s.value, s.source.name, f"{s.value} to {s.value}", "specialized", s.why, steps.at(s.step)
        )
        for s in capture.specialized
    )
    return (*dynamic, *fixed)


def guards(artifact: ir.Capture | ir.GuardedCode, steps: RecordedSteps) -> tuple[data.GuardData, ...]:
    return tuple(guard_data(guard, steps.at(guard.cause.step)) for guard in artifact.guards)


def guard_data(guard: ir.Guard, step: int) -> data.GuardData:
    source = guard.source.name if guard.source is not None else ""
    asks = guard.condition.shown(source)
    return data.GuardData(
        guard.id, source, guard.kind, asks.relation, asks.value, asks.text, guard.why, guard.cause.ids[0],
        span(guard.cause.span), guard.seen or asks.seen or asks.value, words=names(asks.words or asks.text), step=step,
        of_torch=guard.condition.about == "state", **asks.data,
    )  # fmt: skip


def recompiles(events: Iterable[object]) -> tuple[data.RecompileData, ...]:
    """The guards of earlier compiles that refused this call."""
    failed = (event for event in events if isinstance(event, ir.GuardFailed))
    return tuple(data.RecompileData(event.of, event.guard, event.expression, event.how) for event in failed)


@dataclass
class RecordedSteps:
    """The frames that the evaluator entered, and what it did, in order. `numbers` are the steps of its last evaluation
    of the root frame, of which the capture is, by the number they have there."""

    activations: list[data.ActivationData] = field(default_factory=list)
    steps: list[data.StepData] = field(default_factory=list)
    values: dict[tuple[str, int, tuple[tuple[str, int], ...]], int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    def at(self, number: int) -> int:
        return self.numbers.get(number, -1)

    def last(self, instruction: str) -> int:
        return next((at for at in reversed(self.numbers.values()) if self.steps[at].instruction == instruction), -1)


Shown = ir.ValueDescription | ir.Contained
Dated = tuple[Shown, int]
"""What a step saw, with the number of the step before which that was first in sight."""


@dataclass
class _RecordedActivation:
    """An activation, its number in the record, and what its last step saw. `root` is the evaluation that it is of."""

    number: int
    root: ir.Activation
    stack: list[Dated] = field(default_factory=list)
    bindings: Mapping[str, Shown] = field(default_factory=dict)
    locals: dict[str, Dated] = field(default_factory=dict)


def steps(events: Iterable[object]) -> RecordedSteps:
    """The steps, each with what changed in its activation since the last one there."""
    made = RecordedSteps()
    entered: dict[ir.Activation, _RecordedActivation] = {}
    first: dict[int, tuple[ir.Activation, int]] = {}

    def seen_at(activation: ir.Activation) -> _RecordedActivation:
        if activation not in entered:
            if activation.caller is None:
                made.numbers.clear()
                caller, depth, root = -1, 0, activation
            else:
                outer = seen_at(activation.caller)
                caller, depth, root = outer.number, made.activations[outer.number].depth + 1, outer.root
            entered[activation] = _RecordedActivation(len(made.activations), root)
            made.activations.append(data.ActivationData(activation.function, depth, caller))
        return entered[activation]

    def sighted(shown: Shown, root: ir.Activation, number: int) -> Dated:
        """`shown` with the number of the step before which it was first in sight; `first` has those of values."""
        key = id(shown.of if isinstance(shown, ir.Contained) else shown)
        evaluation, since = first.get(key, (None, 0))
        if evaluation is not root and (isinstance(shown, ir.Contained) or not shown.shared):
            first[key], since = (root, number), number
        return shown, since

    def contained(shown: Shown, root: ir.Activation) -> int:
        """Something in a container, which is first in sight before step 0 where that is unknown."""
        evaluation, since = first.get(id(shown), (None, 0))
        return value(shown, since if evaluation is root else 0, root)

    def value(shown: Shown, since: int, root: ir.Activation) -> int:
        items: tuple[tuple[str, int], ...] = ()
        if isinstance(shown, ir.Contained):
            items = tuple(
                (str(key) if isinstance(key, int) else key.text, contained(each, root)) for key, each in shown.items
            )
        return made.values.setdefault((shown.text, made.at(since - 1), items), len(made.values))

    def add(steps: ir.EvaluatorSteps) -> None:
        start = 0
        for at, (number, activation, end) in enumerate(zip(steps.numbers, steps.activations, steps.ends, strict=True)):
            seen = seen_at(activation)
            root, before, locals = seen.root, seen.stack, seen.locals
            seen.stack = [sighted(each, root, number) for each in steps.stacks[start:end]]
            kept = next((i for i, (a, b) in enumerate(zip(before, seen.stack, strict=False)) if a != b), None)
            if kept is None:
                kept = min(len(before), len(seen.stack))
            changed = {}
            if steps.locals[at] is not seen.bindings:
                seen.bindings = steps.locals[at]
                seen.locals = {name: sighted(each, root, number) for name, each in seen.bindings.items()}
            pushed = tuple(value(*each, root) for each in seen.stack[kept:])
            if seen.locals is not locals:
                changed = {n: value(*each, root) for n, each in seen.locals.items() if locals.get(n) != each}
                changed |= {name: -1 for name in locals if name not in seen.locals}
            made.numbers[number] = len(made.steps)
            made.steps.append(
                data.StepData(steps.instructions[at], seen.number, steps.nodes[at], kept, pushed, changed)
            )
            start = end
        made.times += steps.begun

    for each in events:
        if isinstance(each, ir.EvaluatorSteps):
            add(each)
    return made
