"""Dynamo's evaluation step by step: instruction, symbolic stack and locals, and which instruction made which node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from explorer.ir import record as data
from explorer.ir.attempt import EvaluatorStep
from explorer.records.stock.frames import offsets
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation

LONGEST = 80
"""Characters of a value's description."""


@dataclass
class EvaluatorFrame:
    """One activation; `stack` as its last step left it, held so that identity tells what changed."""

    number: int
    tracer: Any
    code: str
    offsets: tuple[int, ...]
    stack: list[Any] = field(default_factory=list)
    stored: Any = None
    """The local that the last step bound, or the names of all before the first."""


class Evaluation:
    """The activations of one attempt at a frame, and the graph as far as it was seen."""

    def __init__(self) -> None:
        self.frames: dict[int, EvaluatorFrame] = {}
        self.nodes = 0
        self.inputs = 0
        self.sighted: dict[int, tuple[Any, int]] = {}
        """By id, the values that were in sight, and the step that brought each about."""


def around_step(seen: Observation, call: Call) -> Iterator[None]:
    tracer = call.args[0]
    compile = seen.compile()
    at = tracer.instruction_pointer
    if at is None or at >= len(tracer.instructions):
        yield
        return
    if tracer.parent is None and (compile.evaluation is None or id(tracer) not in compile.evaluation.frames):
        compile.evaluation = Evaluation()
        compile.made_by.clear()
        compile.made_at.clear()
    evaluation: Evaluation = compile.evaluation
    frame = evaluation.frames.get(id(tracer)) or _enter(compile, evaluation, tracer)
    instruction = tracer.instructions[at]
    id_ = f"{frame.code}@{frame.offsets[at]}"
    step = len(compile.steps)
    if step < EvaluatorStep.CAP:
        compile.step_times.append(perf_counter() - compile.in_backend)
        compile.steps.append(_step(compile, evaluation, frame, id_))
    else:
        step = -1
        compile.left_out["EvaluatorStep"] += 1
    frame.stack = list(tracer.stack)
    name = instruction.opname
    frame.stored = instruction.argval if name.startswith(("STORE_FAST", "DELETE_FAST")) else None
    yield
    if step >= 0:
        compile.stepped = perf_counter() - compile.in_backend
    _note_nodes(compile, evaluation, tracer, id_, step)


def _enter(compile: Compile, evaluation: Evaluation, tracer: Any) -> EvaluatorFrame:
    caller = evaluation.frames.get(id(tracer.parent)) if tracer.parent is not None else None
    depth = 0 if caller is None else compile.activations[caller.number].depth + 1
    code = tracer.f_code
    compile.activations.append(data.ActivationData(code.co_qualname, depth, -1 if caller is None else caller.number))
    if code not in compile.offsets:
        compile.offsets[code] = offsets(code, tracer.instructions)
    made = EvaluatorFrame(len(compile.activations) - 1, tracer, compile.adopt(code, "inlined"), compile.offsets[code])
    made.stored = tuple(tracer.symbolic_locals)
    evaluation.frames[id(tracer)] = made
    return made


def _step(compile: Compile, evaluation: Evaluation, frame: EvaluatorFrame, instruction: str) -> data.StepData:
    at_entry = isinstance(frame.stored, tuple) and len(evaluation.frames) == 1
    last = -1 if at_entry else len(compile.steps) - 1

    def value(of: Any) -> int:
        since = evaluation.sighted.setdefault(id(of), (of, last))[1]
        return compile.values.setdefault(data.ValueData(described(of), since), len(compile.values))

    now, before = frame.tracer.stack, frame.stack
    kept = 0
    for old, new in zip(before, now, strict=False):
        if old is not new:
            break
        kept += 1
    names = frame.stored if isinstance(frame.stored, tuple) else () if frame.stored is None else (frame.stored,)
    bound = frame.tracer.symbolic_locals
    changed = {str(name): value(bound[name]) if name in bound else -1 for name in names}
    pushed = tuple(map(value, now[kept:]))
    return data.StepData(instruction, frame.number, evaluation.nodes, kept, pushed, changed)


def _note_nodes(compile: Compile, evaluation: Evaluation, tracer: Any, id: str, step: int) -> None:
    """Whatever the graph has more than before was made by this instruction, unless by one that it called."""

    def made(node: Any) -> None:
        compile.made_by.setdefault(node, id)
        if step >= 0:
            compile.made_at.setdefault(node, step)

    root = tracer.output.tracers[0]
    inputs = root.input_name_to_proxy
    for _, proxy in zip(range(len(inputs) - evaluation.inputs), reversed(inputs.values()), strict=False):
        made(proxy.node)
    evaluation.inputs = len(inputs)
    node = root.graph._root.prev
    while node.op != "root" and node not in compile.made_by:
        made(node)
        evaluation.nodes += node.op != "placeholder"
        node = node.prev


def described(value: Any) -> str:
    """A symbolic value in a few words. Never asks it anything: a lazy one must stay lazy."""
    kind = type(value).__name__
    if kind.startswith("Lazy"):
        cache = vars(value).get("_cache")
        made = getattr(cache, "vt", None)
        if made is None:
            return f"not evaluated yet: {_source(value)}"[:LONGEST]
        return described(made)
    fields = vars(value) if hasattr(value, "__dict__") else {}
    if (proxy := fields.get("proxy")) is not None:
        return str(getattr(proxy, "node", kind))
    if kind == "ConstantVariable":
        return repr(fields.get("value"))[:LONGEST]
    function = fields.get("fn") or fields.get("value")
    name = getattr(function, "__qualname__", "") if callable(function) else ""
    shown = " ".join(part for part in (kind.removesuffix("Variable"), name or _source(value)) if part)
    return shown[:LONGEST]


def _source(value: Any) -> str:
    source = vars(value).get("source") if hasattr(value, "__dict__") else None
    try:
        name = getattr(source, "name", "")
        return str(name() if callable(name) else name)
    except NotImplementedError:  # a source that stands for no expression
        return ""


HOOK = Hook(
    "steps",
    shows="the evaluation step by step, and which instruction made which node of the graph",
    missing="no steps; a node leads to its source line, not to an instruction",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch("torch._dynamo.symbolic_convert:InstructionTranslatorBase.step", around_step),),
)
