"""CAPTURE: a frame to graph, guards and compiled bytecode, and what must hold of them. Stock counterpart:
torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import torch

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.flow import stack_depths
from explorer.compiler.capture import guards as conditions
from explorer.compiler.capture import higher_order, messages, reasons, torch_rules, transforms
from explorer.compiler.capture.compiled_bytecode import COMPILED, FRAME, CompiledBytecode, breaking, returning
from explorer.compiler.capture.saved_inputs import outdated, refuses_writes
from explorer.compiler.capture.shapes import symbols
from explorer.compiler.capture.tracer import BreakAt, Evaluator
from explorer.compiler.capture.values.arrays import check_copies, check_memory
from explorer.compiler.capture.values.base import Frame, Retry, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import BuiltinValue
from explorer.compiler.capture.values.modules import Uninitialized
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.compiler.config import Config
from explorer.core.files import in_cell
from explorer.core.origin import origin, synthetic
from explorer.core.reasons import Unsupported, Why
from explorer.core.recorder import note
from explorer.ir import capture as ir
from explorer.ir.bytecode import Code, Placeholder, Span
from explorer.ir.description import described
from explorer.ir.record import InputData
from explorer.ir.settings import hooks_not_counted, kept
from explorer.ir.sizes import relations

RULES = (higher_order, messages, torch_rules, transforms)
"""Importing the rules fills the table of calls."""


class FullGraphError(ir.BreakForbidden):
    """fullgraph=True met a break."""

    def __init__(self, broken: ir.Break) -> None:
        place = f" at {in_cell(broken.where.id)}" if broken.where else ""
        calls = "".join(f"\n  {in_cell(line)}" for line in broken.stack) if len(broken.stack) > 1 else ""
        super().__init__(Why(reasons.FULLGRAPH, f"{broken.why}{place}{calls}"), broken)


@dataclass(frozen=True)
class CaptureInput:
    """What CAPTURE takes: the decoded body, the frame it is about to run in, and the configuration."""

    code: Code
    frame: ir.InputFrame
    config: Config


def capture(given: CaptureInput) -> ir.Capture:
    """Evaluate the frame symbolically. A frame that cannot be captured has a `fallback` and no compiled bytecode.

    Raises FullGraphError where the configuration forbids the break that is needed.
    """
    refused = not_captured(given.code)
    if refused is not None:
        return _eager(given, refused)
    known: BreakAt | None = None
    whole = ""
    attempt = Retry()
    while True:
        lazy: Uninitialized | None = None
        with preserved_state():
            attempt = replace(attempt, stop_at=known.step if known else 0)
            tracer = Evaluator(given.code, given.frame, given.config, attempt)
            with closing(tracer), closing(tracer.torch_state):
                frame = tracer.start()
                try:
                    tracer.run(frame)
                except Uninitialized as found:
                    lazy = found
                except BreakAt as found:
                    if found.why.code == reasons.RAISES and tracer.asked_compiling and attempt.says_compiling:
                        # in a frame that Python runs the program would not see that it is compiled
                        attempt, known = replace(attempt, says_compiling=False), None
                        continue
                    if tracer.left_class and attempt.may_leave_classes:
                        # the continuation may need the class
                        attempt, known = replace(attempt, may_leave_classes=False), None
                        continue
                    first, known = known is None, found.alone()
                    if not found.clean and first:
                        whole = tracer.tape.whole
                        note(ir.Restarted, given.frame.id, given.code.instructions[frame.position - 1].id, found.why)
                        continue
                if lazy is None:
                    tracer.tape.whole = tracer.tape.whole or whole
                    return _finish(given, tracer, frame, known)
        refused = lazy.initialize()
        if refused is not None:
            return _eager(given, refused)


@contextmanager
def preserved_state() -> Iterator[None]:
    """Restore the settings that tracing changes, and the random generator."""
    with kept(), hooks_not_counted(), torch.random.fork_rng(devices=[]):
        yield


def _finish(given: CaptureInput, t: Evaluator, frame: Frame, known: BreakAt | None) -> ir.Capture:
    place = _break(t, frame, known.why, known.stack, known.where) if known is not None else None
    if place is not None and _is_forbidden(given, place):
        raise FullGraphError(place)
    untouched = t.tape.calls == 0 and not (t.effects.changes and t.stack.decoded)
    try:
        if place is None:
            compiled_bytecode = returning(t, frame)
            # The unchanged frame would call the functions that were inlined here, and they would be captured again.
            idle = not compiled_bytecode.calls_graph and not t.stack.decoded
            return _result(given, t, None if idle else compiled_bytecode, ())
        if untouched and place.why.code == reasons.RAISES:
            return _result(given, t, None, (place,))
        refused = not_splittable(t.code, frame)
        if t.tape.whole:
            refused = Why(reasons.FRAME_BREAK, t.tape.whole)
        if refused is not None and place.why.code in reasons.THE_PROGRAMS:
            return _result(given, t, None, (place,))  # other calls may not raise
        if refused is not None:
            raise Unsupported(refused)
        compiled_bytecode = breaking(t, frame)
        names = ", ".join(dict.fromkeys(c.code.qualname for c in compiled_bytecode.continuations))
        return _result(given, t, compiled_bytecode, (replace(place, continuation=names),))
    except Unsupported as problem:
        return _fallback(given, t, place or _break(t, frame, problem.why, ()), problem.why)


def _is_forbidden(given: CaptureInput, place: ir.Break) -> bool:
    """Whether fullgraph=True forbids a break here. A continuation means that the program's own error caused one."""
    is_continuation = given.frame.history.body is not None
    return given.config.fullgraph and not is_continuation and place.why.code not in reasons.THE_PROGRAMS


def _break(t: Evaluator, frame: Frame, why: Why, stack: tuple[str, ...], where: Span | None = None) -> ir.Break:
    """The break before the instruction the root frame stands at; `where` is what caused it, inside inlined calls."""
    position = min(frame.position, len(t.code.instructions) - 1)
    instruction = t.code.instructions[position]
    return ir.Break(why, instruction.id, where or instruction.span, stack or t.stack.lines())


def _fallback(given: CaptureInput, t: Evaluator, place: ir.Break, why: Why) -> ir.Capture:
    if _is_forbidden(given, place):
        raise FullGraphError(place)
    return replace(_eager(given, why), breaks=(place,), inlined=tuple(t.stack.decoded.values()))


def _eager(given: CaptureInput, why: Why) -> ir.Capture:
    return ir.Capture(given.frame.id, given.code, None, (), (), (), (), None, fallback=why, frame=given.frame)


def _result(
    given: CaptureInput, t: Evaluator, compiled_bytecode: CompiledBytecode | None, broken: tuple[ir.Break, ...]
) -> ir.Capture:
    with origin(synthetic("values that nothing reads")):
        for each in t.objects.unread:
            if (
                each.unread is not None
                and each.source is not None
                and (each.source, conditions.Equals.kind) not in t.guards.made
            ):
                t.guards.on(each.source, conditions.TypeIs(each.python_type()), "only its type was used")
    from_sizes, on_sizes = symbols(t)
    guards = (*conditions.with_implied(t.guards.made.values()), *on_sizes, *_on_everything(t))
    calls_graph = compiled_bytecode is not None and compiled_bytecode.calls_graph
    inputs = tuple(compiled_bytecode.inputs) if compiled_bytecode is not None and calls_graph else ()
    check_copies(t, compiled_bytecode.outputs if compiled_bytecode is not None else ())
    graph = t.tape.finish(compiled_bytecode.outputs) if compiled_bytecode is not None and calls_graph else None
    if graph is not None and broken and broken[0].why.code == reasons.GRADIENT_INSIDE:
        graph = replace(graph, eager=broken[0].why)
    return ir.Capture(
        name=given.frame.id,
        code=given.code,
        graph=graph,
        inputs=inputs,
        guards=guards,
        breaks=broken,
        effects=t.effects.described(),
        compiled_bytecode=compiled_bytecode.code if compiled_bytecode is not None else None,
        continuations=tuple(c.code for c in compiled_bytecode.continuations) if compiled_bytecode is not None else (),
        symbols=from_sizes,
        specialized=tuple(t.numbers.specialized),
        inlined=tuple(t.stack.decoded.values()),
        assumed=relations(t.tape.shape_env).since(0),
        given=described_inputs(given.code, given.frame, guards, inputs, t.tape.reals),
        frame=replace(given.frame),
    )


def _on_everything(t: Evaluator) -> tuple[ir.Guard, ...]:
    """Guard what every capture assumes: the global state, and that inputs which were different objects still are."""
    found: list[ir.Guard] = []

    def rely(name: str, source: ir.Source | None, condition: ir.Condition, why: str) -> None:
        found.append(t.guards.of(name, source, condition, ir.ByCompiler("every capture"), why))

    why = "whether gradients are recorded, and in what precision operators compute, is part of the graph"
    rely("state", None, conditions.GlobalStateIs(t.torch_state.at_entry), why)
    why = "the graph writes it, autograd records that, and refuses it of leaves, their views and some other views"
    recorded = t.tape.recorded_inputs()
    for number, source in enumerate(recorded):
        condition = conditions.Equals(refuses_writes(t.tape.reals[source]))
        rely(f"written{number or ''}", ir.Computed(refuses_writes, (source,)), condition, why)
    matched = {guard.source for guard in t.guards.made.values() if isinstance(guard.condition, conditions.TensorMatch)}
    others = [source for source in t.tape.reals if source in matched and source not in recorded]  # no drawn number
    if recorded and others:
        given = [*recorded, *others]
        condition = conditions.Equals(outdated(len(recorded), *(t.tape.reals[source] for source in given)))
        why = "autograd refuses to use some views after the graph has written their base"
        rely("outdated", ir.Computed(outdated, (len(recorded), *given)), condition, why)
    why = "a change made through one would be seen through the other"
    for number, sources in enumerate(filter(lambda sources: len(sources) > 1, _distinct(t))):
        rely(f"distinct{number or ''}", sources[0], conditions.AllDistinct(tuple(sources)), why)
    if arrays := check_memory(t):
        why = "one of them is written, which would be seen through the others"
        rely("no_overlap", arrays[0], conditions.ShareNoMemory(tuple(arrays)), why)
    return tuple(found)


def _object(source: ir.Source) -> ir.Source:
    """The source of the object that a tensor was made from."""
    if isinstance(source, ir.Inside):
        return ir.Attr(source.base, source.part)
    return source.base if isinstance(source, ir.AsTensor) else source


def _distinct(t: Evaluator) -> Iterator[list[ir.Source]]:
    """Inputs that have to be different objects: all tensors, and of each type those that were changed, together with
    the others that could be them, and those whose identity was asked for. Parameters that nothing wrote to are trusted
    to be."""
    values = [value for value in t.objects.values.values() if value.source is not None]
    compared = {value.source for value in values if value.compared}
    written = t.tape.written_inputs() != []
    tensors = [
        _object(guard.source)
        for guard in t.guards.made.values()
        if isinstance(guard.condition, conditions.TensorMatch) and guard.source is not None
        and (written or guard.condition.type is not torch.nn.Parameter or guard.source in compared)
    ]  # fmt: skip
    unread = (each for each in t.objects.unread if isinstance(each, TensorValue) and each.unread is not None)
    yield tensors + [each.source for each in unread if each.compared and each.source is not None]
    changed = {id(change.value) for change in t.effects.changes.values()}
    kinds: dict[type, list[Value]] = {}
    for value in values:
        if not isinstance(value, (TensorValue, Constant, ClassValue, PyModuleValue, BuiltinValue)):
            kinds.setdefault(value.python_type(), []).append(value)
    for alike in kinds.values():
        all_matter = any(id(value) in changed for value in alike)
        yield [value.source for value in alike if (all_matter or value.compared) and value.source is not None]


def verify_code(code: Code) -> None:
    """Raise ValueError where two ways lead to an instruction with different stack depths, or an empty stack is popped;
    AssertionError unless each instruction has an id of its own and each jump a target."""
    ids = {instruction.id for instruction in code.instructions}
    assert len(ids) == len(code.instructions), f"{code.qualname}: two instructions share an id"
    targets = {instruction.target for instruction in code.instructions} - {None}
    assert targets <= ids, f"{code.qualname}: jumps to {targets - ids}, which is nowhere"
    stack_depths(code)


def verify_capture(capture: ir.Capture) -> None:
    """Raise AssertionError unless each input of the graph has a source, each guard an id of its own and a cause that
    was evaluated or is the compiler, and the compiled bytecode is sound and names only what LINK can fill in."""
    if capture.graph is not None:
        wanted = [node.name for node in capture.graph.inputs]
        assert wanted == [given.name for given in capture.inputs], f"{capture.name}: inputs without a source"
    assert len({guard.id for guard in capture.guards}) == len(capture.guards), f"{capture.name}: two guards share an id"
    evaluated = {each.id for code in (capture.code, *capture.inlined) for each in code.instructions}
    for guard in capture.guards:
        if isinstance(guard.cause, ir.ByProgram):
            caused = bool(guard.cause.ids) and evaluated.issuperset(guard.cause.ids)
            assert caused, f"{guard.id}: {guard.cause.ids or 'nothing'} made it, which was not evaluated"
    for code in (*capture.continuations, *([] if capture.compiled_bytecode is None else [capture.compiled_bytecode])):
        verify_code(code)
    if capture.compiled_bytecode is not None:
        known = {COMPILED, FRAME, *(code.name for code in capture.continuations)}
        named = {i.arg.name for i in capture.compiled_bytecode.instructions if isinstance(i.arg, Placeholder)}
        assert named <= known, f"{capture.name}: nothing fills {named - known}"


def verify_linked(made: ir.GuardedCode) -> None:
    """Raise AssertionError unless there is sound code in which nothing is left to fill in, with a check of all its
    guards, or a reason why there is none."""
    assert (made.code is None) == (made.fallback is not None), f"{made.name}: neither code nor a reason"
    assert (made.code is None) == (made.manager is None), f"{made.name}: code without the checks of its guards"
    if made.code is not None:
        left = [each.name for each in made.code.co_consts if isinstance(each, Placeholder)]
        assert not left, f"{made.name}: nothing filled {left}"
        verify_code(decode(made.code))


# Where a frame can be split in two, and where it cannot.


_NEVER = frozenset(
    "YIELD_VALUE SEND END_SEND GET_YIELD_FROM_ITER GET_AWAITABLE GET_AITER GET_ANEXT CLEANUP_THROW END_ASYNC_FOR "
    "BEFORE_ASYNC_WITH WITH_EXCEPT_START LOAD_FAST_AND_CLEAR MAKE_CELL PUSH_EXC_INFO POP_EXCEPT RERAISE "
    "MAKE_FUNCTION".split()
)


def not_captured(code: Code) -> Why | None:
    """Why a frame of this kind is never captured, or None."""
    if code.flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return Why(reasons.FRAME_KIND, "a generator or coroutine")
    if not code.flags & inspect.CO_OPTIMIZED:
        return Why(reasons.FRAME_KIND, "a module or class body")
    return None


def not_splittable(code: Code, frame: Frame) -> Why | None:
    """Why the frame cannot be split before the instruction it stands at, or None."""
    position = frame.position
    instruction = code.instructions[position]
    if instruction.op in _NEVER:
        return Why(reasons.FRAME_BREAK, f"at {instruction.op}")
    if any(frame.stack[each.place : each.place + 1] != [each.below] for each in frame.handled):
        return Why(reasons.FRAME_BREAK, "inside an except block that moved what it handles")
    return None


def described_inputs(
    code: Code,
    frame: ir.InputFrame,
    guards: Iterable[ir.Guard],
    placeholders: Iterable[ir.Input],
    held: Mapping[ir.Source, object],
) -> tuple[InputData, ...]:
    """Each value once: the arguments first, then what guards ask about, in the order in which the frame read it.
    What is `held` is not read again: reading may draw a random number."""
    names = {each.source: each.name for each in placeholders}
    sources: dict[ir.Source, None] = {ir.Local(name): None for name in frame.locals}
    sources |= {g.source: None for g in guards if g.source is not None and g.condition.described}
    sources |= {each: None for each in names}
    objects: dict[int, str] = {}
    found = []
    for source in sources:
        value = held[source] if source in held else ir.read(source, frame.locals, frame.globals)
        has_identity = value is not None and not issubclass(type(value), (bool, int, float, complex, str, bytes, type))
        first = objects.setdefault(id(value), source.name) if has_identity else source.name
        same_as = first if first != source.name else ""
        found.append(described(source.name, value, _role(source, code), names.get(source, ""), same_as))
    return tuple(found)


def _role(source: ir.Source, code: Code) -> str:
    if isinstance(source, ir.Local):
        return "closure" if source.variable in code.frees else "argument"
    return "global" if isinstance(ir.root(source), ir.Global) else "reached"
