"""The bytecode that runs in the frame's place: it calls the graph, reconstructs values, replays effects, and continues.
LINK: its placeholder is replaced by the compiled graph, and the guards get their C++ checks.

Stock counterpart: torch/_dynamo/output_graph.py, compile_subgraph.
"""

from __future__ import annotations

import inspect
import sys
import traceback
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from explorer.compiler.bytecode import build
from explorer.compiler.bytecode.encode import encode
from explorer.compiler.bytecode.flow import argument_count, comes_back, handlers_by_position, liveness
from explorer.compiler.capture import guards, hook, reasons
from explorer.compiler.capture.effects import Change
from explorer.compiler.capture.late_errors import raises_late, unused_failing_calls
from explorer.compiler.capture.messages import Refuted, check
from explorer.compiler.capture.reconstruct import Reconstruction
from explorer.compiler.capture.resume import (
    TEMP,
    Continuation,
    Slot,
    as_its_own_cells,
    error_in,
    restored,
    run_continuations,
    split,
)
from explorer.compiler.capture.saved_inputs import (
    AfterDraws,
    Before,
    Drawn,
)
from explorer.compiler.capture.shapes import of_compile
from explorer.compiler.capture.values.base import Frame, Tracer, Value
from explorer.compiler.capture.values.constant import NULL, Constant
from explorer.compiler.capture.values.functions import CellAside
from explorer.compiler.capture.values.objects import DELETED, Lazy, attribute_in_c, is_shadowed, set_in_dict
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.files import OWN_FILES, raised_at
from explorer.core.origin import origin, synthetic
from explorer.core.reasons import unsupported
from explorer.core.recorder import note, recorder
from explorer.ir.bytecode import Code, Handler, Instruction, Placeholder, Span
from explorer.ir.capture import Capture, Continued, FrameHistory, GraphRaised, GuardedCode, Input, Linking
from explorer.ir.graph import version
from explorer.ir.settings import SETTINGS, as_they_are, skip_frames

COMPILED = "compiled_graph"
FRAME = "original_function"
"""The placeholder for the function of the frame as it was."""
VERSIONS = f"{TEMP}versions"
"""The local with the version counters from before the graph."""
DRAWN = f"{TEMP}drawn"
"""The local with the states of random generators from before the draws."""
MOST_WRITTEN = 32


@dataclass(frozen=True)
class CompiledBytecode:
    """The code, the graph's outputs and inputs, and the continuations. `calls_graph`: whether it has a placeholder."""

    code: Code
    outputs: list[fx.Node]
    inputs: list[Input]
    continuations: list[Continuation]
    calls_graph: bool


def returning(t: Tracer, frame: Frame) -> CompiledBytecode:
    """The bytecode of a frame that was evaluated to its end."""
    r = Reconstruction(t)
    _draw(t, r)
    checks = _checks(t, r)
    with origin(synthetic("result")):
        assert frame.result is not None
        r.value(frame.result)
        result = r.temp()
        r.body.append(build.store_fast(result))
    _replay(t, r, ends=True)
    with origin(synthetic("result")):
        r.body += [build.load_fast(result), build.return_value()]
    return _assemble(t, r, checks, r.body, [], ())


def breaking(t: Tracer, frame: Frame) -> CompiledBytecode:
    """The bytecode of a frame with a break: it runs the breaking instruction, then a continuation."""
    code = t.code
    if t.generators.suspended:
        unsupported(reasons.GENERATOR, "one that Python would close at its end")
    position = frame.position
    instruction = code.instructions[position]
    live = liveness(code)
    cells = {*code.cells, *code.frees}
    taken = [name for name in (*code.cells, *code.frees) if name not in frame.cells]
    needed = [name for name in (*code.locals, *taken) if name in live[instruction.id] and name not in frame.cells]
    bound = [name for name in dict.fromkeys(needed) if frame.is_bound(name)]
    r = Reconstruction(t)
    _draw(t, r)
    checks = _checks(t, r)
    handled = {each.place: each.error for each in frame.handled}
    slots: list[Slot] = []
    placed: dict[int, str] = {}
    with origin(synthetic("values at the break")):
        for place, value in enumerate(frame.stack):
            kind: Slot = "cell" if isinstance(value, CellAside) else "error" if place in handled else "value"
            slots.append("null" if value is NULL else kind)
            if value is NULL:
                continue
            r.value(handled.get(place, value))
            placed[place] = error_in(place) if place in handled else r.temp()
            r.emit("STORE_FAST", placed[place])
        # Other locals stay where they are, without a guard.
        values: dict[str, Value] = {name: frame.locals[name] for name in bound if name in frame.locals}
        values |= {name: cell for name, cell in frame.cells.items() if cell.root_name != name}
        held: dict[str, list[Instruction]] = {}
        for name, value in values.items():
            r.value(value)
            held[name] = [build.load_fast(temp := r.temp()), build.store_fast(name)]
            r.emit("STORE_FAST", temp)
    _replay(t, r)
    with origin(synthetic("values at the break")):
        r.body += [step for name, steps in held.items() if name not in cells for step in steps]
        for name in code.locals:
            if name not in cells and name in t.given.locals and not frame.is_bound(name):
                r.body.append(build.delete_fast(name))
        r.finish_deferred()
        for name in taken:
            r.body += [build.instruction("LOAD_FAST_AND_CLEAR", name), build.pop_top()]
        r.body += [step for name, steps in held.items() if name in cells for step in steps]
        stacked, handlers = restored(slots, lambda place: build.load_fast(placed[place]), f"{t.name}/break")
        # Neither locals() nor the lifetime of the exception may differ from eager.
        stacked += [build.delete_fast(error_in(place)) for place in placed if place in handled]
        r.body += build.at(instruction.span, stacked)
    once = f"{t.name}/once" if comes_back(code, position) else ""
    if once and (handler := handlers_by_position(code)[position]):
        handlers.append(replace(handler, start=once, end=once))
    tail, continuations = _tail(t, frame, slots, bound, taken, once)
    return _assemble(t, r, checks, [*r.body, build.jump(once or instruction.id)], tail, tuple(continuations), handlers)


def _draw(t: Tracer, r: Reconstruction) -> None:
    """Random numbers are drawn once, in the program's order, used or not."""
    if t.in_graph.draws:
        draws = [r.load(source.base) for source in t.in_graph.draws]
        r.loads += [*build.call([build.load_const(Drawn)], draws), build.store_fast(DRAWN)]
    for source in t.in_graph.draws:
        r.load(source)


def _checks(t: Tracer, r: Reconstruction) -> list[Instruction]:
    """Checks the program's assertions right after the graph: if one is false, the frame runs again in eager."""
    for number, each in enumerate(t.in_graph.assertions):
        if isinstance(each.condition, TensorValue) and version(each.condition.fake) != each.version:
            unsupported(reasons.DATA_DEPENDENT_BRANCH, "what an assertion asks is written after it")
        with origin(synthetic("assertion")):
            r.constant(check)
            r.value(each.condition)
            r.constant(each.error)
            r.constant(each.args)
            r.body += build.call_stacked(3)
            r.body[-1] = replace(r.body[-1], id=f"{t.name}/assertion{number}")
            r.emit("POP_TOP")
    steps = list(r.body)
    r.body.clear()
    return steps


def _tail(
    t: Tracer, frame: Frame, slots: Sequence[Slot], bound: Sequence[str], taken: Sequence[str], once: str
) -> tuple[list[Instruction], list[Continuation]]:
    """The original body, with the breaking instruction followed by calls of continuations."""
    if t.code.instructions[frame.position].op in ("LOAD_METHOD", "LOAD_SUPER_METHOD"):
        unsupported(reasons.FRAME_BREAK, "at a method load")
    history = t.given.history
    following = t.code.instructions[frame.position + 1 : frame.position + 2]
    if history.base is not None and any(next.id not in history.base.index for next in following):
        unsupported(reasons.FRAME_BREAK, "while a continuation takes its arguments")
    return split(
        t.code,
        frame.position,
        slots,
        bound,
        taken,
        base=history.base,
        is_continuation=history.body is not None,
        frame=t.name,
        load=lambda made: Placeholder(made.code.name),
        once=once,
    )


# ------------------------------------------------------------------------------------------------------------- effects


def _replay(t: Tracer, r: Reconstruction, ends: bool = False) -> None:
    """Everything the traced code did to objects that were there before, in order.

    All values are made first: replaying may overwrite what they are read from. What is filled with weak references
    comes before all else: others may end what these are of, which is dropped from it then. Where the frame ends, its
    own cells matter only to functions that outlive it.
    """
    steps: list[tuple[Change, Any]] = []
    own = [c for c in t.effects.changes.values() if ends and c.kind == "cell" and c.value.root_name in t.code.cells]
    waiting = [change for change in t.effects.changes.values() if change not in own]
    while True:
        for change in waiting:
            with origin(*change.origins):
                if change.kind == "iterator":
                    _move_on(r, change.value)
                else:
                    steps.append((change, _prepare(t, r, change)))
        with origin(synthetic("deferred")):
            r.finish_deferred()
        waiting = [each for each in own if each.value.root_name in r.cells]
        if not waiting:
            break
        own = [each for each in own if each not in waiting]
    for change, prepared in sorted(steps, key=lambda step: not _fills_with_references(step[0])):
        with origin(*change.origins):
            _apply(t, r, change, prepared)
    with origin(synthetic("iterators")):
        r.finish_last()
    with origin(synthetic("global state")):
        for pending in t.torch_state.pending:
            arguments = [Constant(None)] * 3 if pending.method == "__exit__" else []
            r.discard_method(lambda manager=pending.manager: r.value(manager), pending.method, arguments)  # type: ignore[misc]
        r.switch(t.torch_state.switched())


def _move_on(r: Reconstruction, iterator: Any) -> None:
    name = _hold(r, iterator)
    r.after_effects(lambda: iterator.move(r, lambda: r.emit("LOAD_FAST", name)))


def _hold(r: Reconstruction, value: Value) -> str:
    r.value(value)
    name = r.temp()
    r.emit("STORE_FAST", name)
    return name


def _prepare(t: Tracer, r: Reconstruction, change: Change) -> Any:
    target = change.value
    if change.kind == "attribute":
        return _hold(r, target), _hold(r, target.overlay[change.name])
    if change.kind == "deleted":
        return _hold(r, target)
    if change.kind == "cell":
        contents = target.contents
        cell = None if target.root_name else _hold(r, target)
        return cell, None if contents is None else _hold(r, contents)
    if change.kind == "global":
        value = t.effects.globals[id(target), change.name]
        return None if value is DELETED else _hold(r, value)
    if change.kind == "class":
        return _hold(r, t.effects.classes[id(target), change.name])
    if change.kind == "made":
        return _hold(r, target)
    if change.kind == "call":
        return [_hold(r, argument) for argument in target[1]]
    if change.kind == "item":
        return [_hold(r, part) for part in (target, *target.entries[change.name])]
    base = _hold(r, target)
    for item in _contents(target):
        r.value(item)
        r.emit("POP_TOP")
    return base


def _fills_with_references(change: Change) -> bool:
    parts = _contents(change.value) if change.kind == "container" else []
    kinds = (type(part.given) if isinstance(part, Lazy) else part.python_type() for part in parts)
    return any(issubclass(kind, weakref.ref) for kind in kinds)


def _contents(target: Any) -> list[Any]:
    if hasattr(target, "items"):
        return list(target.items)
    entries = target.entries.values()
    return [part for entry in entries for part in (entry if isinstance(entry, list) else [entry])]


def _apply(t: Tracer, r: Reconstruction, change: Change, prepared: Any) -> None:
    target = change.value
    if change.kind == "made":
        return
    if change.kind == "attribute":
        base, held = prepared
        is_own = is_shadowed(target.python_type(), change.name)
        if is_own or hasattr(target.python_type().__setattr__, "__code__"):  # it was inlined already
            r.constant(set_in_dict if is_own else attribute_in_c(target.python_type(), "__setattr__"))
            r.emit("LOAD_FAST", base)
            r.constant(change.name)
            r.emit("LOAD_FAST", held)
            r.body += build.call_stacked(3)
            r.emit("POP_TOP")
            return
        r.emit("LOAD_FAST", held)
        r.emit("LOAD_FAST", base)
        r.emit("STORE_ATTR", change.name)
    elif change.kind == "deleted":
        r.discard_call(forget, lambda: r.emit("LOAD_FAST", prepared), [Constant(change.name)])
    elif change.kind == "cell":
        base, held = prepared
        if target.root_name:
            if held is None:  # it may be empty here: the program stored and deleted the value while it was traced
                r.emit("LOAD_CONST", None)
                r.emit("STORE_DEREF", target.root_name)
                r.emit("DELETE_DEREF", target.root_name)
            else:
                r.emit("LOAD_FAST", held)
                r.emit("STORE_DEREF", target.root_name)
        else:
            if held is not None:
                r.emit("LOAD_FAST", held)
            r.emit("LOAD_FAST", base)
            r.emit("STORE_ATTR" if held is not None else "DELETE_ATTR", "cell_contents")
    elif change.kind == "class":
        r.emit("LOAD_FAST", prepared)
        r.constant(target)
        r.emit("STORE_ATTR", change.name)
    elif change.kind in ("call", "item"):
        r.constant(target[0] if change.kind == "call" else dict.__setitem__)
        for name in prepared:
            r.emit("LOAD_FAST", name)
        r.body += build.call_stacked(len(prepared))
        r.emit("POP_TOP")
    elif change.kind == "global" and prepared is None:
        if change.name in target:
            r.constant(target)
            r.constant(change.name)
            r.emit("DELETE_SUBSCR")
    elif change.kind == "global":
        r.emit("LOAD_FAST", prepared)
        if target is t.given.globals:
            r.emit("STORE_GLOBAL", change.name)
        else:
            r.constant(target)
            r.constant(change.name)
            r.emit("STORE_SUBSCR")
    else:
        target.refill(r, lambda: r.emit("LOAD_FAST", prepared))


def forget(owner: object, name: str) -> None:
    """Delete an attribute if it exists: the program may have set it before."""
    try:
        attribute_in_c(type(owner), "__delattr__")(owner, name)
    except AttributeError:
        return


# ------------------------------------------------------------------------------------------------------------ assembly


def _assemble(
    t: Tracer,
    r: Reconstruction,
    checks: list[Instruction],
    body: list[Instruction],
    tail: list[Instruction],
    continuations: Sequence[Continuation],
    handlers: Sequence[Handler] = (),
) -> CompiledBytecode:
    with origin(synthetic("deferred")):
        r.finish_deferred()
    for node in list(unused_failing_calls(t.tape, list(r.outputs))):
        r.outputs.setdefault(node, r.temp())
    outputs = list(r.outputs)
    _balance(t)
    inputs = _used_inputs(t, outputs)
    calls_graph = bool(outputs) or t.tape.calls > 0 and not _only_switches(t.tape.graph)
    rescue: list[Instruction] = []
    if not tail:
        handlers = ()
    with origin(synthetic("graph call")):
        loads, call = r.loads, list[Instruction]()
        if calls_graph:
            arguments = [step for each in inputs for step in r.load(each.source)]
            *function, end = build.call([build.load_const(Placeholder(COMPILED))])
            call = [replace(end, arg=(len(arguments), ()))]
            versions = _versions(t, r)
            if versions is not None:
                call[-1] = replace(call[-1], id=f"{t.name}/graph")
                rescue = _eagerly(t, call[-1].id, versions)
                assertions = (f"{t.name}/assertion{number}" for number in range(len(t.in_graph.assertions)))
                may_raise = [call[-1].id, *assertions]
                handlers = [*(Handler(each, each, rescue[0].id, 0, False) for each in may_raise), *handlers]
                if len(versions) > 1:
                    call = [*versions, build.store_fast(VERSIONS), *call]
            later = [*checks, *body, *tail, *rescue]
            reads = Counter(map(_read_name, [*loads, *arguments, *call, *later]))
            loads = [*function, *_pushed(loads, arguments, reads)]
            loads, call = _sharing_locals(loads, call, set(map(_read_name, later)))
            if outputs:
                call += [build.unpack(len(outputs)), *(build.store_fast(r.outputs[node]) for node in outputs)]
            else:
                call.append(build.pop_top())
            call += checks
            if versions is not None and versions[-1].op == "CALL":
                call.append(build.delete_fast(VERSIONS))
        prologue = [*loads, *call, *body]
        if tail:
            prologue[-1:-1] = _forget_temporaries(prologue)
    instructions = build.number(f"{t.name}/compiled_bytecode", [*prologue, *tail, *rescue])
    named = [i.arg for i in instructions if i.op in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR")]
    captured = {*t.code.cells, *t.code.frees}
    locals = tuple(dict.fromkeys((*t.code.locals, *(n for n in named if n not in captured))))
    code = replace(
        t.code,
        instructions=instructions,
        locals=locals,
        handlers=(*(t.code.handlers if tail else ()), *handlers),
        original=None,
    )
    return CompiledBytecode(code, outputs, inputs, list(continuations), calls_graph)


def _read_name(step: Instruction) -> str:
    return step.arg if isinstance(step.arg, str) and step.op != "STORE_FAST" else ""


def _pushed(loads: list[Instruction], arguments: list[Instruction], reads: Mapping[str, int]) -> list[Instruction]:
    """`loads`, and then what pushes the graph's arguments. Those loaded in the graph's order stay on the stack, and
    what the next instruction alone reads needs no local: deep models would have thousands of both."""
    waiting, stored = deque(arguments), set[str]()
    made: list[Instruction] = []
    for step in loads:
        name = step.arg
        if step.op == "LOAD_FAST" and reads[name] == 1 and made and (made[-1].op, made[-1].arg) == ("STORE_FAST", name):
            made.pop()
            continue
        if step.op != "STORE_FAST":
            made.append(step)
            continue
        stays = bool(waiting) and waiting[0].arg == name
        if stays:
            waiting.popleft()
        if stays and reads[name] > 1:
            made.append(build.instruction("COPY", 1))
        if not stays or reads[name] > 1:
            made.append(step)
            stored.add(name)
        while stays and waiting and (waiting[0].op != "LOAD_FAST" or waiting[0].arg in stored):
            made.append(waiting.popleft())
    return [*made, *waiting]


def _sharing_locals(
    loads: list[Instruction], call: list[Instruction], later: set[str]
) -> tuple[list[Instruction], list[Instruction]]:
    """The same, with the locals of temporaries that are not read again reused by later ones."""
    steps = [*loads, *call]
    last = {step.arg: place for place, step in enumerate(steps) if step.op == "LOAD_FAST"}
    now: dict[str, str] = {}
    free: list[str] = []
    for place, step in enumerate(steps):
        name = step.arg
        if step.op == "STORE_FAST" and name in last and name not in later:
            now[name] = free.pop() if free else name
        if step.op in ("STORE_FAST", "LOAD_FAST") and name in now:
            steps[place] = replace(step, arg=now[name])
            if last[name] == place:
                free.append(now.pop(name))
    return steps[: len(loads)], steps[len(loads) :]


def _only_switches(graph: fx.Graph) -> bool:
    """Whether a graph only changes settings, and ends with those that it began with."""
    return all(node.op == "placeholder" or node.target in _SWITCHES for node in graph.nodes)


_SWITCHES = frozenset(setting.write for setting in SETTINGS.values())


def _forget_temporaries(steps: Sequence[Instruction]) -> list[Instruction]:
    """Unbinds temporary locals before the original code continues: they would keep values alive, and be in locals()."""
    bound: dict[str, None] = {}
    for step in steps:
        if step.op == "STORE_FAST" and step.arg.startswith(TEMP):
            bound[step.arg] = None
        elif step.op == "DELETE_FAST":
            bound.pop(step.arg, None)
    return [build.delete_fast(name) for name in bound]


def _versions(t: Tracer, r: Reconstruction) -> list[Instruction] | None:
    """Push what `eagerly` needs to know of the time before the graph: the version counters of the inputs that the graph
    writes, as a tuple, or a Before; None where they have none, or where reading so many would take its time."""
    written, drew, late = t.tape.written_inputs(), t.tape.mode.drew, raises_late(t.tape) or t.tape.checks_later
    if len(written) > MOST_WRITTEN and not t.tape.checks_later:
        return None

    def after_draws(before: Sequence[Instruction]) -> list[Instruction]:
        if not t.in_graph.draws:
            return [*before]
        return [*build.call([build.load_const(AfterDraws)], [[build.load_fast(DRAWN)], [*before]])]

    if not written and not drew:
        return after_draws([build.load_const(None if t.in_graph.draws else ())])
    loaded = [r.load(source) for source in written]
    counted = all(map(t.tape.counts_writes, written))
    if late or drew or t.in_graph.draws:
        whole = late and t.tape.runs_again
        most = sys.maxsize if whole else Before.most_kept if late or not drew else -1  # inputs are written last
        settings = [[build.load_const(each)] for each in (most, bool(drew), counted)]
        return after_draws(build.call([build.load_const(Before)], [*settings, *loaded]))
    if not counted:
        return None
    counters = [step for load in loaded for step in (*load, build.load_attr("_version"))]
    return [*counters, build.build_tuple(len(written))]


def _eagerly(t: Tracer, graph: str, versions: list[Instruction]) -> list[Instruction]:
    """If the graph raises and has not written an input, run the frame from its start in eager. The program then sees
    the exception where it comes from, in its own `try` statements too."""
    code = t.code
    arguments = code.locals[: argument_count(code)]
    error = f"{TEMP}error"
    frame = build.make_function(Placeholder(FRAME), [("closure", build.closure(code.frees))] if code.frees else [])
    before = [build.load_fast(VERSIONS)] if len(versions) > 1 else versions
    if versions[-1].op == "CALL":
        versions = before
    given = [[build.load_deref(name) if name in code.cells else build.load_fast(name)] for name in arguments]
    return [
        build.label(f"{graph}/raised"),
        build.instruction("PUSH_EXC_INFO"),
        build.store_fast(error),
        build.instruction("POP_EXCEPT"),
        *build.call([build.load_const(eagerly)], [frame, [build.load_fast(error)], before, versions, *given]),
        build.return_value(),
    ]


def eagerly(
    function: Callable[..., object], error: BaseException, before: object, after: object, *arguments: object
) -> Any:
    """The result of a frame that runs eagerly because its graph raised `error`. Raises the error if the graph has
    written inputs that cannot be restored, or if a saved-tensors hook of the program raised it."""
    shown = error.__cause__ if isinstance(error, Refuted) and error.__cause__ else error
    if not isinstance(error, Exception) or hook.saved_tensors_hooked() and _passed_others(error):
        raise shown
    if not before.put_back() if isinstance(before, Before) else before != after:
        raise shown
    result = hook.unwatched(function)(*arguments)
    if isinstance(error, Refuted):
        return result
    message = f"{type(error).__name__}: {error}{raised_at(error)}"
    note(GraphRaised, function.__qualname__, "".join(traceback.format_exception(error)), message)
    return result


def _passed_others(error: Exception) -> bool:
    """Whether it was raised by a hook: below the frame that called the graph is code of another package."""
    below = traceback.extract_tb(error.__traceback__)[1:]
    return not all(each.filename.startswith((OWN_FILES, "<")) for each in below)


def _balance(t: Tracer) -> None:
    """End the graph in the modes it began in; the compiled bytecode switches where the program did."""
    if t.torch_state.levels or t.torch_state.modes:
        unsupported(reasons.FRAME_BREAK, "a level of a transform, or a mode, is open")
    t.torch_state.balance()


def _used_inputs(t: Tracer, outputs: list[fx.Node]) -> list[Input]:
    """The inputs that a node or an output uses; placeholders of the others go."""
    kept: list[Input] = []
    for node in [n for n in t.tape.graph.nodes if n.op == "placeholder"]:
        if node.users or node in outputs:
            kept.append(t.tape.inputs[node])
        else:
            t.tape.graph.erase_node(node)
    return kept


# ----------------------------------------------------------------------------------------------------------------- LINK


skip_frames(run_continuations)
skip_frames(eagerly)  # we do not capture it either, only the functions that it calls


def link(given: Linking) -> GuardedCode:
    """The code to run while the guards hold. Without compiled bytecode it is the frame's own code."""
    capture = given.capture
    assert capture.frame is not None
    if capture.fallback is not None:
        return GuardedCode(capture.name, None, (), breaks=capture.breaks, fallback=capture.fallback)
    relied = capture.guards
    if given.compiled is not None:
        relied = (*relied, *of_compile(capture, given.compiled.assumed))
    manager = guards.build(relied, capture.frame)
    history = continued(capture.frame.history.after(capture), capture)
    if capture.compiled_bytecode is None:
        return GuardedCode(capture.name, capture.frame.code, relied, manager, is_idle=True, history=history)
    filling: dict[str, Any] = {code.name: history.continuations[code.name].code for code in capture.continuations}
    if given.compiled is not None:
        current = recorder()
        call = given.compiled.call if current is None else current.timed(given.compiled.call)
        filling[COMPILED] = hook.unwatched(call, as_they_are())
        filling[FRAME] = positional(capture.frame.code)
    code = encode(as_its_own_cells(placed(fill(capture.compiled_bytecode, filling))))
    is_idle = capture.graph is None and all(each.why.code in reasons.THE_PROGRAMS for each in capture.breaks)
    return GuardedCode(capture.name, code, relied, manager, capture.breaks, is_idle=is_idle, history=history)


def continued(history: FrameHistory, capture: Capture) -> FrameHistory:
    """`history` with the continuations of a capture. A continuation that an earlier compile made keeps its compiled
    code."""
    if not capture.continuations:
        return history
    new = (code for code in capture.continuations if code.name not in history.continuations)
    made = {code.name: Continued(encode(as_its_own_cells(code)), code, capture.name) for code in new}
    return replace(history, base=history.base or capture.code, continuations={**history.continuations, **made})


def positional(code: types.CodeType) -> types.CodeType:
    """A copy that takes each argument by position, that of * as a tuple and that of ** as a dict."""
    starred = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    count = code.co_argcount + code.co_kwonlyargcount + bin(code.co_flags & starred).count("1")
    return code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~starred)


def placed(code: Code) -> Code:
    """`code` with what has no source at the function's first line: a traceback through it has to name some line."""
    first = Span(code.filename, code.first_line, code.first_line)
    return replace(code, instructions=tuple(build.at(first, code.instructions)))


def fill(code: Code, filling: dict[str, object]) -> Code:
    """`code` with each placeholder replaced by its entry in `filling`. Raises KeyError for a name without one."""
    made = tuple(
        replace(i, arg=filling[i.arg.name]) if i.op == "LOAD_CONST" and isinstance(i.arg, Placeholder) else i
        for i in code.instructions
    )
    return replace(code, instructions=made)
