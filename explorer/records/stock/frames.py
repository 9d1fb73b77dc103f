"""The frames that Dynamo compiles, as CPython has them: bytecode before and after, resume functions, and why a frame is
skipped.
"""

from __future__ import annotations

import dis
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from time import perf_counter
from typing import Any

from msgspec.structs import replace
from torch._dynamo.exc import Unsupported
from torch._inductor.exc import InvalidCxxCompiler

from explorer.core.files import OWN_FILES, raised_at
from explorer.core.recorder import EVENT_CAP
from explorer.ir import record as data
from explorer.ir.capture import EvaluatorSteps
from explorer.records.stock import breaks
from explorer.records.stock.breaks import is_of_library
from explorer.records.stock.fixes import break_message, reason_of, skipped
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation

_ENTRY = ("COPY_FREE_VARS", "MAKE_CELL")
"""What a call does before its first line: CPython gives these no place."""


def code_data(code: types.CodeType, id: str, role: str) -> data.CodeData:
    """The instructions of a code object; the one at offset 14 has the id "ID@14"."""
    instructions = []
    origins: tuple[str, ...]
    for each in dis.get_instructions(code):
        span = span_of(code.co_filename, each.positions)
        target = f"{id}@{each.argval}" if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs else ""
        if span:
            origins = (f"{span.file}:{span.line}",)
        elif each.opname in _ENTRY:
            origins = (f"{code.co_filename}:{code.co_firstlineno}",)
        else:
            origins = ()
        shown = "" if target else each.argrepr
        instructions.append(data.InstructionData(f"{id}@{each.offset}", each.opname, shown, target, origins, span))
    return data.CodeData(code.co_name, role, code.co_filename, code.co_firstlineno, tuple(instructions))


def offsets(code: types.CodeType, instructions: Sequence[Any]) -> tuple[int, ...]:
    """For each of Dynamo's instructions of `code` the offset of the one that it stands for.

    Dynamo takes some out, puts some in and numbers them anew, so that only operation, place and order tell.
    """
    own = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "CACHE")]
    found, at, last = [], 0, 0
    for each in instructions:
        for ahead in range(at, min(at + LOOK_AHEAD, len(own))):
            if own[ahead].opname == each.opname and own[ahead].positions == each.positions:
                at, last = ahead + 1, own[ahead].offset
                break
        found.append(last)
    return tuple(found)


LOOK_AHEAD = 8
"""How many instructions in a row Dynamo may have taken out."""


def span_of(file: str, positions: dis.Positions | None) -> data.SpanData | None:
    if positions is None or not positions.lineno:
        return None
    end, column, end_column = positions.end_lineno, positions.col_offset, positions.end_col_offset
    return data.SpanData(
        file, positions.lineno, end or positions.lineno,
        -1 if column is None else column, -1 if end_column is None else end_column,
    )  # fmt: skip


def listing(code: data.CodeData) -> data.TextData:
    """A code object as one reads it: line number where it changes, offset, operation, argument."""
    lines = [data.LineData(f"# {code.name}, {code.role} ({code.file}:{code.line})")]
    at = 0
    for each in code.instructions:
        new = each.span is not None and each.span.line != at
        at = each.span.line if each.span else at
        shown = each.target.rpartition("@")[2] if each.target else each.arg
        text = f"{at if new else '':>5} {each.id.rpartition('@')[2]:>5}  {each.op:<26} {shown}".rstrip()
        lines.append(data.LineData(text, each.id, each.origins))
    return data.TextData(tuple(lines))


COMPILE = "torch._dynamo.convert_frame:_compile"

_EACH_TIME = re.compile(
    r"Dynamo decided to skip the frame while tracing: |`torch\.compile` will skip the frame and fall back to eager\. ?"
    r"|Frame info: .*$"
)
INLINED = "wrap_inline.<locals>.inner"
"""What torch calls the frame that it puts around a module, whose own class it does not trace into."""

MODULE_CALLS = ("__call__", "_call_impl", "_wrapped_call_impl", "forward")

GENERATES = "a generator or coroutine, of which Dynamo compiles none; it compiles the functions that one calls"
"""Torch 2.11 gives no reason, later ones that an error was suppressed."""

NO_COMPILER = (
    "\nHint: Install a C++ compiler (apt install g++), or name one in the environment variable CXX before torch is "
    "imported; backend='aot_eager' needs none."
)

CHECKS = 5
"""Of a frame's guards, to time them."""


def around_frame(seen: Observation, call: Call) -> Iterator[None]:
    code: types.CodeType = call.args[0]
    title = name_of(call.args[2].get("fn")) if code.co_qualname == INLINED else code.co_qualname
    compile = seen.begin(call.kwargs["compile_id"], title, code)
    original = compile.register(code, "original")
    compile.stage(COMPILE, "bytecode", partial(add_code, compile, code, original, "original"))
    compile.continues = seen.continuations.get(code, "")
    compile.running = True
    if seen.calls is not None:
        seen.calls.begins_to_compile()
    yield
    compile.running = False
    compile.seconds += call.seconds
    for each, (id, role) in compile.registered.items():
        if each is not code:
            compile.later(COMPILE, partial(add_code, compile, each, id, role))
    compile.evaluation = None
    if seen.calls is not None:
        seen.calls.compiled(call.seconds, compile.id, bool(compile.recompiles or compile.continues))
    if call.error is not None:
        inner = getattr(call.error, "inner_exception", None)
        compile.error = f"{type(call.error).__name__}: {call.error}{raised_at(inner) if inner is not None else ''}"
        compile.error += NO_COMPILER * isinstance(inner, InvalidCxxCompiler)
        cause = call.error.__cause__
        if cause is not None and str(cause).partition("\n")[0] not in compile.error:
            compile.error += f"\ncaused by {type(cause).__name__}: {cause}"
        compile.fallback = reason_of(call.error)
        compile.skipped = True
        seen.failing = compile
        return
    guarded = getattr(call.result, "guarded_code", None)
    if guarded is None:
        reason = why_skipped(getattr(call.result, "skip_reason", None) or "")
        compile.fallback = skipped(reason, None if compile.breaks else code)
        compile.skipped = True
        return
    if seen.calls is None:
        compile.guard_managers.append(guarded.guard_manager)
        compile.given.update(call.args[2])
    compile.guard_seconds = seconds_of(guarded.guard_manager, call.args[2])
    made = partial(add_code, compile, guarded.code, f"{compile.id}.rewritten", "rewritten")
    compile.stage(COMPILE, "rewritten bytecode", made, ended=call.started + call.seconds)


def add_code(compile: Compile, code: types.CodeType, id: str, role: str) -> dict[str, data.TextData]:
    """Show `code` under the compile; gives its listing as the body of a stage."""
    made = code_data(code, id, role)
    compile.codes.insert(1 if role == "rewritten" else len(compile.codes), made)
    return {"body": listing(made)}


def around_answer(seen: Observation, call: Call) -> Iterator[None]:
    """Dynamo's result for a frame; an error is raised in the program or suppressed."""
    seen.failing = None
    yield
    if call.error is not None:
        if seen.failing is not None:
            seen.failing.raises, seen.failing.fallback = True, None
            if isinstance(call.error, Unsupported) and not seen.failing.breaks:
                breaks.add(seen.failing, break_message(call.error))  # the one that fullgraph does not allow
        seen.raised = call.error if seen.calls is None else None
        return
    code, space = call.args[1].f_code, call.args[1].f_globals
    generates = code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)
    reason = GENERATES if generates else getattr(call.result, "skip_reason", None)
    if reason is None or call.result.guarded_code is not None or len(seen.left) >= EVENT_CAP:
        return
    made = code.co_filename.startswith("<") and space.get("__name__") != "__main__"
    libraries = code.co_filename.startswith(OWN_FILES) or is_of_library(code.co_filename)
    own = code in seen.continuations or not (made or libraries)
    if own and not any(compile.code is code for compile in seen.compiles):
        seen.left.setdefault(code, why_skipped(reason))


def _called(function: Any) -> object:
    """The program's own: torch's wrapper of a function stands for that, and its call of a module for the class."""
    if getattr(function, "__qualname__", "") == INLINED:
        function = function.__wrapped__
    inner = getattr(function, "__self__", None)
    return type(inner) if inner is not None and getattr(function, "__name__", "") in MODULE_CALLS else function


def name_of(function: object) -> str:
    """The name of a function, or of the module whose call it is."""
    function = _called(function)
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def code_of(function: object) -> types.CodeType | None:
    """The code of a function, or of the module whose call it is."""
    function = _called(function)
    function = getattr(function, "forward", None) if isinstance(function, type) else function
    function = function.__func__ if isinstance(function, types.MethodType) else function
    return function.__code__ if isinstance(function, types.FunctionType) else None


def why_skipped(reason: str) -> str:
    """Torch's reason for leaving a frame to Python, without the sentences that each has."""
    return _EACH_TIME.sub("", " ".join(reason.split())).strip(" .")


def seconds_of(manager: Any, local: Mapping[str, Any]) -> float | None:
    """The quickest of a few checks of all guards, which hold now."""
    taken = []
    for _ in range(CHECKS):
        started = perf_counter()
        holds = manager.check(local)
        taken.append(perf_counter() - started)
        if not holds:
            return None  # the compile has changed what they ask of
    return min(taken)


def around_resume(seen: Observation, call: Call) -> Iterator[None]:
    yield
    compile = seen.compile()
    if isinstance(call.result, types.CodeType):
        seen.continuations[call.result] = compile.id
        compile.register(call.result, "continuation")
        names = ", ".join(code.co_name for code, (_, role) in compile.registered.items() if role == "continuation")
        compile.breaks[-1:] = [replace(each, continuation=names) for each in compile.breaks[-1:]]


HOOK = Hook(
    "frames",
    shows="bytecode of every frame, original and rewritten, resume functions, frames left to Python with why",
    missing="compiles under torch's own numbers, without bytecode, titles and what was left to Python",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._dynamo.convert_frame:CatchErrorsWrapper.__call__", around_answer),
        Patch(COMPILE, around_frame),
        Patch("torch._dynamo.resume_execution:ContinueExecutionCache.lookup", around_resume),
    ),
)


# Dynamo's evaluation step by step: instruction, symbolic stack and locals, and which instruction made which node.


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
    if step < EvaluatorSteps.CAP:
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
    known = compile.register(code, "inlined")
    made = EvaluatorFrame(len(compile.activations) - 1, tracer, known, compile.offsets[code])
    made.stored = tuple(tracer.symbolic_locals)
    evaluation.frames[id(tracer)] = made
    return made


def _step(compile: Compile, evaluation: Evaluation, frame: EvaluatorFrame, instruction: str) -> data.StepData:
    at_entry = isinstance(frame.stored, tuple) and len(evaluation.frames) == 1
    last = -1 if at_entry else len(compile.steps) - 1

    def value(of: object) -> int:
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

    def made(node: object) -> None:
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


def described(value: object) -> str:
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


def _source(value: object) -> str:
    source = vars(value).get("source") if hasattr(value, "__dict__") else None
    try:
        name = getattr(source, "name", "")
        return str(name() if callable(name) else name)
    except NotImplementedError:  # a source that stands for no expression
        return ""


STEPS_HOOK = Hook(
    "steps",
    shows="the evaluation step by step, and which instruction made which node of the graph",
    missing="no steps; a node leads to its source line, not to an instruction",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch("torch._dynamo.symbolic_convert:InstructionTranslatorBase.step", around_step),),
)
