"""The symbolic evaluator: its state, its one step, and the frames it runs. Stock counterpart: symbolic_convert.py."""

from __future__ import annotations

import types
from time import perf_counter
from typing import Any

from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture import autograd_functions, calls, model, reasons
from explorer.compiler.capture import wrap as wrapping
from explorer.compiler.capture.effects import Effects
from explorer.compiler.capture.fakes import forget_real_tensors
from explorer.compiler.capture.library import numbers
from explorer.compiler.capture.opcodes import OPCODES
from explorer.compiler.capture.values import arrays, functions, iterators, tensor
from explorer.compiler.capture.values.base import (
    Cell,
    Frame,
    NotConstant,
    Raised,
    RecordedFrame,
    Shown,
    Tracer,
    Unhashable,
    Value,
)
from explorer.compiler.capture.values.constant import (
    Constant,
    Offset,
)
from explorer.compiler.capture.values.mappings import InstanceDict
from explorer.compiler.capture.values.objects import DELETED, MISSING, ExceptionValue, ObjectValue, look_up
from explorer.core.origin import origin
from explorer.core.reasons import Unsupported, Why, unsupported
from explorer.core.recorder import EventRoom, room
from explorer.core.rules import YOUR_RULE, OwnRule
from explorer.ir import capture as ir
from explorer.ir.bytecode import Span
from explorer.ir.capture import Activation, EvaluatorSteps

MAX_STEPS = 400_000


class BreakAt(Exception):
    """The root frame cannot get past a step. `clean` says that the step had changed nothing yet."""

    def __init__(self, step: int, why: Why, clean: bool, stack: tuple[str, ...], where: Span | None) -> None:
        super().__init__(str(why))
        self.where = where
        self.step = step
        self.why = why
        self.clean = clean
        self.stack = stack

    def alone(self) -> BreakAt:
        """The break without its frames and cause, which refer to the program's objects."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class Evaluator(Tracer):
    """A single evaluation of a frame."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.effects = Effects(DELETED)
        self.root_steps = 0
        self._rules = OPCODES.now()
        kept = room("EvaluatorStep", EvaluatorSteps.CAP)
        self.recorder = None if kept is None else StepRecorder(kept)

    # ------------------------------------------------------------------------------------------------------ the root

    def close(self) -> None:
        """Let go of the program's objects, at once and not when a collector finds that tracer and tape hold each other:
        an input of the first call is not to outlive the call."""
        forget_real_tensors(self.tape.mode)
        vars(self.tape).clear()
        vars(self).clear()

    def start(self) -> Frame:
        """The root frame, its locals not read yet."""
        frame = self.stack.make_frame(self.code, self.given.globals, {})
        frame.given = dict(self.given.locals)
        for name in self.code.cells:
            contents = self.given.locals.get(name, _UNBOUND)
            cell = Cell(root_name=name, source=ir.Local(name))
            cell.given = types.CellType(contents) if contents is not _UNBOUND else types.CellType()
            frame.cells[name] = cell
        for name in self.code.frees:
            frame.cells[name] = Cell(root_name=name, source=ir.Local(name), given=self.given.cells[name])
        self.objects.root_cells = {id(given): frame.cells[name] for name, given in self.given.cells.items()}
        self.stack.frames.append(frame)
        return frame

    def run(self, frame: Frame) -> None:
        """Evaluate the root frame to its end. Raises BreakAt."""
        before: Any = None
        while frame.result is None:
            self.root_steps += 1
            before = None  # the earlier values may be freed now
            before = (list(frame.stack), dict(frame.locals), frame.position, list(frame.handled))
            mark = (self.tape.calls, self.effects.version, self.torch_state.state())
            if self.root_steps == self.attempt.stop_at:
                self._note(frame)  # the graph and its steps end here
                return
            try:
                self._close_lost()
                self._advance(frame)
            except (Unsupported, Raised) as problem:
                why = problem.why if isinstance(problem, Unsupported) else Why(reasons.RAISES, problem.value.describe())
                stack, where = self.stack.lines(), self.stack.user_span()
                del self.stack.frames[1:]
                clean = mark == (self.tape.calls, self.effects.version, self.torch_state.state())
                if clean:
                    frame.stack[:], frame.locals, frame.position, frame.handled = before
                raise BreakAt(self.root_steps, why, clean, stack, where) from problem
            if frame.yielded is not None:
                unsupported(reasons.FRAME_KIND, "a generator")
        before = None
        frame.locals.clear()
        self._close_lost()

    def _close_lost(self) -> None:
        """Close the generators that the program does not hold any more, as Python does at once."""
        while self.generators.lost:
            generator = self.generators.lost.pop(0)
            assert isinstance(generator, iterators.GeneratorValue)
            try:
                generator.close(self)
            except Raised:
                continue  # Python prints the error and continues

    # ------------------------------------------------------------------------------------------------------ stepping

    def resume(self, frame: Frame) -> Value | None:
        """Run an inlined frame until it returns (None) or yields (the value)."""
        depth = len(self.stack.frames)
        self.stack.frames.append(frame)
        while frame.result is None and frame.yielded is None:
            self._advance(frame)  # after Unsupported the frames stay, to say where; the root drops them
        del self.stack.frames[depth:]
        found, frame.yielded = frame.yielded, None
        return found

    def _advance(self, frame: Frame) -> None:
        """One step, and the jump to a handler where it raises."""
        depth = len(self.stack.frames)
        try:
            if frame.pending is not None:
                pending, frame.pending = frame.pending.value, None
                raise Raised(pending)
            self.step(frame)
            if self.generators.lost:
                self._close_lost()
        except Raised as raised:
            self._in_context(raised.value)
            del self.stack.frames[depth:]
            if not self._handle(frame, raised):
                if depth > 1:
                    del self.stack.frames[depth - 1 :]
                    if isinstance(raised.value, ExceptionValue):
                        raised.value.has_own_traceback = True
                raise

    def step(self, frame: Frame) -> None:
        """The choke point: every instruction of every frame is evaluated here."""
        instruction = frame.code.instructions[frame.position]
        stack, tape = self.stack, self.tape
        self.effects.step = stack.steps
        stack.steps += 1
        if stack.steps > MAX_STEPS:
            unsupported(reasons.STEPS, f"{MAX_STEPS} instructions")
        with origin(instruction.id):
            if self.recorder is not None:
                self._note(frame)
            rule = self._rules.get(instruction.op)
            if rule is None:
                unsupported(reasons.OPCODE, instruction.op)
            frame.position += 1
            depth = len(frame.stack)
            try:
                target = rule(self, frame, instruction)
            except Unhashable as error:
                self.raise_(TypeError, f"unhashable type: '{error}'")
            except NotConstant as unknown:
                unsupported(reasons.OPERATION, f"{unknown.args[0].describe()} where a constant is needed")
            finally:
                if len(tape.shape_env.guards) != len(tape.shape_guard_causes):
                    tape.note_shape_guards("the number was needed here")
            if isinstance(rule, OwnRule):
                grown = len(frame.stack) - depth
                expected = OPS[instruction.op].effect(instruction.arg, target is not None)
                if grown != expected:
                    message = f"{rule.name}: the stack grew by {grown}; this instruction makes it grow by {expected}"
                    unsupported(YOUR_RULE, message)
            if target is not None:
                frame.position = frame.index[target]

    def _note(self, frame: Frame) -> None:
        if self.recorder is not None:
            self.recorder.note(self, frame, self.stack.steps - 1)

    def _in_context(self, error: Value) -> None:
        """Link an exception that the program just made to the one it was handling then."""
        if isinstance(error, ExceptionValue) and error.source is None and "__context__" not in error.overlay:
            handled = self.stack.handled()
            error.overlay["__context__"] = Constant(None) if handled is None or handled is error else handled

    def _handle(self, frame: Frame, raised: Raised) -> bool:
        """Go to the handler of the instruction just run; False where there is none."""
        position = frame.position - 1
        handler = frame.handlers[position]
        if handler is None:
            return False
        del frame.stack[handler.depth :]
        if handler.push_offset:
            frame.push(Offset(position))
        frame.push(raised.value)
        frame.position = frame.index[handler.target]
        return True

    # ------------------------------------------------------------------------------------------------ entry points

    wrap = wrapping.wrap
    wrap_tensor = wrapping.wrap_tensor
    from_python = wrapping.from_python
    rewrapped = wrapping.rewrapped
    array_of_tensor = arrays.array_of_tensor
    recorded = tensor.recorded
    register_hook = autograd_functions.register_hook
    text_by = numbers.text_by
    call_function = calls.call_function
    call_builtin = calls.call_builtin
    instantiate = calls.instantiate
    make = calls.make
    rule_for = calls.rule_for
    binary = model.binary
    compare = model.compare
    get_item = model.get_item
    sequence_iterator = staticmethod(iterators.sequence_iterator)
    bind = staticmethod(functions.BoundMethod)
    builtin_method = staticmethod(functions.BuiltinMethod)
    exception = staticmethod(ExceptionValue)
    reversed_iterator = staticmethod(iterators.ReversedIterator)
    indexing_iterator = staticmethod(iterators.IndexingIterator)

    def instance_dict(self, value: Value) -> Value:
        assert isinstance(value, ObjectValue)
        return InstanceDict(value, self)

    def printable(self, value: Value) -> Any:
        """The value for str.format and %: itself where it is known, else what asks the program for its text."""
        if isinstance(value, Constant):
            return value.value
        has_items = look_up(self, value.python_type(), "__getitem__") is not MISSING
        return numbers.PrintableItems(self, value) if has_items else numbers.Printable(self, value)


class StepRecorder:
    """Records the steps of one evaluation: descriptions of values, not the values, which it must not keep alive."""

    def __init__(self, room: EventRoom) -> None:
        self.room = room
        self.steps = EvaluatorSteps()
        room.run.events.append(self.steps)
        self._changes = 0
        self._activation: Activation | None = None
        self._since = object()

    def note(self, t: Tracer, frame: Frame, number: int) -> None:
        """Step `number`, which is about to run the next instruction of `frame`, the innermost."""
        if not self.room.takes():
            return
        recorded = frame.recorded
        if recorded is None:
            outer = t.stack.frames[-2].recorded if len(t.stack.frames) > 1 else None
            activation = Activation(frame.code.qualname, None if outer is None else outer.activation)
            recorded = frame.recorded = RecordedFrame(activation)
        changes = t.effects.version + t.effects.read + len(t.tape.shape_env.replacements)
        if changes != self._changes or recorded.activation is not self._activation:
            # An instruction that enters another frame may change something after that frame's steps, and say so before.
            self._since, self._changes, self._activation = object(), changes, recorded.activation
        bindings = frame.locals
        if frame.cells:
            bindings = bindings | {name: c.contents for name, c in frame.cells.items() if c.contents is not None}
        locals = {name: value.description or self._shown(value) for name, value in bindings.items()}
        if locals != recorded.locals:
            recorded.locals = locals
        steps = self.steps
        steps.begun.append(perf_counter())
        steps.numbers.append(number)
        steps.instructions.append(frame.code.instructions[frame.position].id)
        steps.activations.append(recorded.activation)
        steps.nodes.append(t.tape.nodes)
        steps.locals.append(recorded.locals)
        steps.stacks += [value.description or self._shown(value) for value in frame.stack]
        steps.ends.append(len(steps.stacks))

    def _shown(self, value: Value) -> Shown:
        """The value's state now, computed once between two changes."""
        if value.last_shown is None or value.last_shown[0] is not self._since:
            value.last_shown = self._since, value.shown()
        return value.last_shown[1]


_UNBOUND = object()
