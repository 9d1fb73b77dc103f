"""What capture made of a frame, and how it went, as record data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from explorer.compiler.bytecode.ops import OPS
from explorer.core.text import count
from explorer.ir import record as data
from explorer.ir.attempt import Activation, Described, EvaluatorStep
from explorer.ir.bytecode import Code
from explorer.ir.capture import Capture, Guard, GuardedCode, GuardFailed, short, state_text
from explorer.ir.description import constant, is_plain, type_name
from explorer.ir.dynamo_guards import names
from explorer.records.to_record.plain import shown, span, why


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
    checked: dict[str, Any] = {}
    relation, value, seen = guard.relation, guard.value, guard.seen
    match guard.property:
        case "tensor":
            checked["tensor"], value = guard.value.data, guard.value.text()
        case "type":
            checked["type"] = value = seen = type_name(guard.value)
        case "constant":
            checked["constant"] = constant(guard.value)
            value = seen = repr(guard.value)
        case "id" | "code":
            if is_plain(guard.value):
                checked["constant"] = constant(guard.value)
            value = seen = short(guard.value)
        case "value" if guard.value == "nan":
            checked["constant"] = constant(math.nan)
            seen = "nan"
        case "length":
            checked["length"] = guard.value
            value = seen = str(guard.value)
        case "empty":
            checked["length"] = 0 if guard.value else 1
            value = seen = "empty" if guard.value else "not empty"
            relation = "is"
        case "keys":
            if all(map(is_plain, guard.value)):
                checked["keys"] = tuple(map(constant, guard.value))
            value = seen = f"({', '.join(map(_said, guard.value))})"
        case "has":
            key, present, where = guard.value
            if is_plain(key):
                checked["keys"] = (constant(key),)
            relation, value = f"{'has' if present else 'lacks'} {where}", _said(key)
            seen = "there" if present else "not there"
        case "shape":
            checked["shape"] = guard.value.tree
        case "alias" if relation != "is":
            checked["others"] = tuple(source.name for source in guard.value)
            value = ", ".join(checked["others"])
            seen = "all different" if relation == "are distinct" else "apart"
        case "alias":
            checked["others"], value, seen = (guard.value.name,), guard.value.name, "the same object"
        case "global_state":
            checked["state"] = guard.value
            value = seen = state_text(guard.value)
    source = guard.source.name if guard.source is not None else ""
    made = data.GuardData(
        guard.id, source, guard.property, relation, shown(value), guard.text, guard.why, guard.cause, span(guard.span),
        seen or shown(value), **checked,
    )  # fmt: skip
    return msgspec.structs.replace(made, words=_words(made))


def _words(guard: data.GuardData) -> str:
    """What the guard asks, as a sentence; "" where its expression is one."""
    named = names(guard.source)
    match guard.property:
        case "tensor" if guard.tensor is not None:
            return f"{named} is {_tensor(guard.tensor)}"
        case "type":
            return f"the type of {named} is {guard.type}"
        case "id" | "constant" if guard.constant is not None:
            return f"{named} is {guard.constant.text}"
        case "id":
            return f"{named} is the same object"
        case "code":
            return f"{named} is the same function"
        case "length":
            return f"{named} has {count(guard.length or 0, 'element')}"
        case "empty":
            return f"{named} is {guard.value}"
        case "has":
            return f"{named} {guard.relation} {guard.value}"
        case "alias" if guard.relation == "is":
            return f"{named} and {names(guard.value)} are the same object"
        case "alias":
            return f"{names(guard.value)} are different objects"
    return ""


def _tensor(facts: data.TensorFactsData) -> str:
    size, strides = (", ".join(map(str, of or ())).replace("None", "any") for of in (facts.sizes, facts.strides))
    layout = f", strides [{strides}]" if strides else ""
    kind = "tensor" if facts.type == "torch.Tensor" else facts.type.rpartition(".")[2]
    grad = " that requires grad" if facts.requires_grad else ""
    article = "an" if facts.dtype.startswith("int") else "a"
    return f"{article} {facts.dtype} {kind} of size [{size}]{layout} on {facts.device}{grad}"


def _said(value: Any) -> str:
    return repr(value) if is_plain(value) else short(value)


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
