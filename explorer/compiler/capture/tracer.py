"""The symbolic evaluator: its state, its one step, and the frames it runs. Stock counterpart: symbolic_convert.py."""

from __future__ import annotations

import math
import types
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.flow import handlers_by_position
from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture import autograd_functions, reasons
from explorer.compiler.capture import wrap as wrapping
from explorer.compiler.capture.calls import STDLIB_DIR, TORCH_DIR, Calls
from explorer.compiler.capture.effects import Effects
from explorer.compiler.capture.guards import IsObject, TypeIs
from explorer.compiler.capture.library import numbers
from explorer.compiler.capture.model import DataModel
from explorer.compiler.capture.opcodes import OPCODES
from explorer.compiler.capture.steps import StepRecorder
from explorer.compiler.capture.tape import Place, Tape
from explorer.compiler.capture.torch_state import TorchState
from explorer.compiler.capture.values import arrays, functions, iterators
from explorer.compiler.capture.values.base import Cell, Frame, NotConstant, Raised, Unhashable, Value
from explorer.compiler.capture.values.classes import NamespaceValue
from explorer.compiler.capture.values.constant import (
    HIDDEN,
    Constant,
    FloatValue,
    NumberValue,
    Offset,
    SizeValue,
    Unread,
)
from explorer.compiler.capture.values.mappings import DictValue, InstanceDict
from explorer.compiler.capture.values.modules import ModuleValue
from explorer.compiler.capture.values.objects import DELETED, MISSING, ExceptionValue, ObjectValue
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, version
from explorer.compiler.config import Config
from explorer.core.origin import origin, origins
from explorer.core.reasons import Unsupported, Why, unsupported
from explorer.core.recorder import room
from explorer.core.rules import YOUR_RULE
from explorer.ir import capture as ir
from explorer.ir.bytecode import Code, Handler, Span
from explorer.ir.capture import EvaluatorSteps
from explorer.ir.description import global_state

MAX_STEPS = 400_000
MAX_ITEMS = 20_000


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
        """Without the frames and the error that it comes from, which hold what the program gave."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class Evaluator(Calls, DataModel):
    """One evaluation of one frame. `stop_at` is the root step before which the graph is to end, if that is known.

    `decoded` gets the bodies of inlined functions, by id of their code objects, which need not have a hash: an
    evaluation that starts over gives them the ids they had.
    """

    def __init__(
        self,
        code: Code,
        frame: ir.InputFrame,
        config: Config,
        decoded: dict[int, Code],
        stop_at: int = 0,
        says_compiling: bool = True,
        may_leave_classes: bool = True,
    ) -> None:
        self.name = frame.id
        self.code = code
        self.given = frame
        self.config = config
        self.stop_at = stop_at
        self.says_compiling, self.asked_compiling = says_compiling, False
        self.may_leave_classes, self.left_class = may_leave_classes, False
        self.tape = Tape(
            frame.id.replace(".", "_"),
            self._dynamic_dims,
            self.place,
            config.captures("capture_scalar_outputs"),
            config.captures("capture_dynamic_output_shape_ops"),
        )
        self.guards: dict[tuple[ir.Source, object], ir.Guard] = {}
        """By source and the key of the condition."""
        self.state = global_state(frame.devices)
        self.local_keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
        self.effects: Effects[Value] = Effects(DELETED)
        self.wrapped: dict[int, Value] = {}
        self.looked_up: dict[tuple[int, str, int], Any] = {}
        self.tensors: dict[int, Any] = {}
        self.arrays: dict[int, Any] = {}
        self.storages: dict[int, Value] = {}
        self.unshared: dict[int, Any] = {}
        self._floats: dict[ir.Source, TensorValue] = {}
        self.kept: list[Any] = []
        self.frames: list[Frame] = []
        self.made_generators: weakref.WeakSet[iterators.GeneratorValue] = weakref.WeakSet()
        self.lost: list[Value] = []
        self.raw_items: set[ir.Source] = set()
        self.unread: list[Constant] = []
        self.draws: list[ir.Returned] = []
        self.modules: list[str] = []
        self.torch_state: TorchState[Value] = TorchState(self.tape, frame.devices)
        self.decoded = decoded
        self._prepared: dict[int, tuple[dict[str, int], tuple[Handler | None, ...]]] = {}
        self.specialised: list[ir.Specialised] = []
        self.steps = 0
        self.checkpoints = 0
        """The calls of torch.utils.checkpoint so far."""
        self.checkpoint = 0
        """The outermost one that is being evaluated."""
        self.root_steps = 0
        kept = room("EvaluatorStep", EvaluatorSteps.CAP)
        self.recorder = None if kept is None else StepRecorder(kept)
        self._unbound: set[str] = set()
        self._labels: dict[int, ir.Known] = {}
        self._names: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------------ the root

    def close(self) -> None:
        """Let go of the program's objects, at once and not when a collector finds that tracer and tape hold each other:
        an input of the first call is not to outlive the call."""
        for value in self.unread:
            value.unread = None  # which holds the value itself
        vars(self.tape).clear()
        vars(self).clear()

    def start(self) -> Frame:
        """The root frame, its locals not read yet."""
        frame = self.make_frame(self.code, self.given.globals, {})
        for name in self.code.cells:
            contents = self.given.locals.get(name, _UNBOUND)
            cell = Cell(root_name=name, source=ir.Local(name))
            cell.given = types.CellType(contents) if contents is not _UNBOUND else types.CellType()
            frame.cells[name] = cell
        for name in self.code.frees:
            frame.cells[name] = Cell(root_name=name, source=ir.Local(name), given=self.given.cells[name])
        self._root_cells = dict(frame.cells)
        self.frames.append(frame)
        return frame

    def run(self, frame: Frame) -> None:
        """Evaluate the root frame to its end. Raises BreakAt."""
        before: Any = None
        while frame.result is None:
            self.root_steps += 1
            before = None  # what it held last may be lost now
            before = (list(frame.stack), dict(frame.locals), frame.position, list(frame.handled))
            mark = (self.tape.calls, self.effects.version, self.torch_state.state())
            if self.root_steps == self.stop_at:
                self._note(frame)  # the graph ends here, so the steps do too
                return
            try:
                self._close_lost()
                self._advance(frame)
            except (Unsupported, Raised) as problem:
                why = problem.why if isinstance(problem, Unsupported) else Why(reasons.RAISES, problem.value.describe())
                stack, where = self.user_stack(), self.user_span()
                del self.frames[1:]
                clean = mark == (self.tape.calls, self.effects.version, self.torch_state.state())
                if clean:
                    frame.stack[:], frame.locals, frame.position, frame.handled = before
                raise BreakAt(self.root_steps, why, clean, stack, where) from problem
            if frame.yielded is not None:
                unsupported(reasons.FRAME_KIND, "a generator")
        before = None
        frame.locals.clear()
        self._close_lost()

    @property
    def generators(self) -> list[iterators.GeneratorValue]:
        """Those that Python would run once more, to close them, if it lost them now."""
        return [each for each in self.made_generators if each.is_suspended]

    def _close_lost(self) -> None:
        """Close the generators that the program does not hold any more, as Python does at once."""
        while self.lost:
            generator = self.lost.pop(0)
            assert isinstance(generator, iterators.GeneratorValue)
            try:
                generator.close(self)
            except Raised:
                continue  # Python tells of it, and goes on

    # ------------------------------------------------------------------------------------------------------ stepping

    def resume(self, frame: Frame) -> Value | None:
        """Run an inlined frame until it returns (None) or yields (the value)."""
        depth = len(self.frames)
        self.frames.append(frame)
        while frame.result is None and frame.yielded is None:
            self._advance(frame)  # where it is Unsupported the frames stay, to tell where; the root drops them
        del self.frames[depth:]
        found, frame.yielded = frame.yielded, None
        return found

    def _advance(self, frame: Frame) -> None:
        """One step, and the jump to a handler where it raises."""
        depth = len(self.frames)
        try:
            if frame.pending is not None:
                pending, frame.pending = frame.pending.value, None
                raise Raised(pending)
            self.step(frame)
            if self.lost:
                self._close_lost()
        except Raised as raised:
            self._in_context(raised.value)
            del self.frames[depth:]
            if not self._handle(frame, raised):
                if depth > 1:
                    del self.frames[depth - 1 :]
                    if isinstance(raised.value, ExceptionValue):
                        raised.value.left_inlined = True
                raise

    def step(self, frame: Frame) -> None:
        """The choke point: every instruction of every frame is evaluated here."""
        instruction = frame.code.instructions[frame.position]
        self.effects.step = self.steps
        self.steps += 1
        if self.steps > MAX_STEPS:
            unsupported(reasons.STEPS, f"{MAX_STEPS} instructions")
        with origin(instruction.id):
            self._note(frame)
            rule = OPCODES.get(instruction.op)
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
                self.tape.note_shape_guards("the number was needed here")
            if own := OPCODES.own(instruction.op):
                grown = len(frame.stack) - depth
                expected = OPS[instruction.op].effect(instruction.arg, target is not None)
                if grown != expected:
                    said = f"{own.name}: the stack grew by {grown}; this instruction makes it grow by {expected}"
                    unsupported(YOUR_RULE, said)
            if target is not None:
                frame.position = frame.index[target]

    def _note(self, frame: Frame) -> None:
        if self.recorder is not None:
            self.recorder.note(self, frame, self.steps - 1)

    def _in_context(self, error: Value) -> None:
        """Link an exception that the program just made to the one it was handling then."""
        if isinstance(error, ExceptionValue) and error.source is None and "__context__" not in error.overlay:
            handled = self.handled()
            error.overlay["__context__"] = Constant(None) if handled is None or handled is error else handled

    def handled(self) -> Value | None:
        """The exception that the program is handling."""
        return next((f.handled[-1].error for f in reversed(self.frames) if f.handled), None)

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

    def check_length(self, count: int) -> None:
        if count > MAX_ITEMS:
            unsupported(reasons.STEPS, f"an iterable of more than {MAX_ITEMS} items")

    # ------------------------------------------------------------------------------------------------------- places

    def here(self) -> str:
        """The id of the instruction being evaluated."""
        current = origins()
        return current[0] if current else ""

    def place(self) -> Place:
        return Place(self.user_span(), self.modules[-1] if self.modules else "", self.steps - 1, self.checkpoint)

    @contextmanager
    def checkpointed(self) -> Iterator[None]:
        """Around a call of torch.utils.checkpoint, whose values the backward computes again."""
        self.checkpoints += 1
        outer, self.checkpoint = self.checkpoint, self.checkpoint or self.checkpoints
        try:
            yield
        finally:
            self.checkpoint = outer

    def user_span(self) -> Span | None:
        """The innermost source position that is not inside torch or the standard library."""
        first: Span | None = None
        for frame in reversed(self.frames):
            span = frame.code.instructions[max(0, frame.position - 1)].span
            if span is not None and first is None:
                first = span
            if span is not None and not span.file.startswith((TORCH_DIR, STDLIB_DIR)):
                return span
        return first

    def user_stack(self) -> tuple[str, ...]:
        lines = []
        for frame in self.frames:
            span = frame.code.instructions[max(0, frame.position - 1)].span
            lines.append(f"{span.id if span else frame.code.filename} in {frame.code.name}")
        return tuple(lines)

    @contextmanager
    def inside_module(self, module: ModuleValue) -> Iterator[None]:
        self.modules.append(module_path(module.source))
        try:
            yield
        finally:
            self.modules.pop()

    def decode(self, code: types.CodeType) -> Code:
        """The body of a function to inline; each code object is decoded once and has instruction ids of its own."""
        if id(code) not in self.decoded:
            prefix = f"{self.name}/{code.co_name}.{len(self.decoded)}"
            self.decoded[id(code)] = decode(code, prefix)
        return self.decoded[id(code)]

    def make_frame(self, code: Code, globals: dict[str, Any], locals: dict[str, Value]) -> Frame:
        if id(code) not in self._prepared:
            self._prepared[id(code)] = (code.index, handlers_by_position(code))
        return Frame(code, globals, locals, *self._prepared[id(code)])

    # ------------------------------------------------------------------------------------------------ guards, sources

    def guard(self, source: ir.Source, condition: ir.Condition, why: str, seen: str = "") -> None:
        """Rely on something; `why` says what for, `seen` what it is now where the condition does not."""
        base = ir.root(source)
        if isinstance(base, ir.Known) and (base.fixed or base is source and isinstance(condition, (IsObject, TypeIs))):
            return
        key = source, condition.key
        if key in self.guards:
            return
        place = self.user_span()
        self.guards[key] = ir.Guard(
            f"{self.name}.guard{len(self.guards)}",
            source,
            condition,
            self.here(),
            place,
            why,
            origins(),
            seen,
            self.steps - 1,
        )

    def namespace(self, space: dict[str, Any]) -> NamespaceValue:
        """The globals of a module."""
        found = self.wrapped.get(id(space))
        if not isinstance(found, NamespaceValue):
            name = str(space.get("__name__", ""))
            source = self.known_source(space, label=f"globals of {name}")
            found = self.wrapped[id(space)] = NamespaceValue(space, source, name)
        return found

    def known_source(self, value: object, fixed: bool = False, label: str = "") -> ir.Known:
        """A source for an object that is reached without going through the frame."""
        if id(value) not in self._labels:
            names = (getattr(value, attribute, None) for attribute in ("__qualname__", "__name__"))
            base = label or next(filter(None, names), type(value).__name__)
            count = self._names[str(base)] = self._names.get(str(base), 0) + 1
            self._labels[id(value)] = ir.Known(f"{base}" if count == 1 else f"{base}#{count}", value, fixed)
            self.kept.append(value)
        return self._labels[id(value)]

    def wrap_tensor(self, source: ir.Source, given: torch.Tensor) -> Any:
        self.kept.append(given)
        return wrapping.wrap_tensor(self, source, given)

    def number_tensor(self, value: FloatValue | SizeValue) -> TensorValue | None:
        """A number of the program as the graph's input; None for one that only the graph knows."""
        origin = value.source if isinstance(value, FloatValue) else self.tape.source_of(value.sym.node.expr)
        if origin is None or isinstance(value, NumberValue):
            return None
        if isinstance(value, SizeValue):
            self.tape.hold_in_64_bits(value.sym.node.expr)
        source = ir.AsTensor(origin)
        if source not in self._floats:
            given = ir.as_tensor(self.number_now(value))
            assert given is not None
            self.kept.append(given)
            self._floats[source] = TensorValue(*self.tape.input(source, given))
        return self._floats[source]

    def note_copy(self, base: Any, copy: Any) -> None:
        """Python would go on with an object that the graph has as a copy: writes to either refuse the frame."""
        for each in (base, copy):
            self.unshared[id(each)] = (base.fake, version(base.fake), copy.fake, version(copy.fake))
        self.kept += [base, copy]

    def load_local(self, frame: Frame, name: str) -> Value:
        found = self.bound_local(frame, name)
        if found is None:
            self.raise_(
                UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value"
            )
        return found

    def bound_local(self, frame: Frame, name: str) -> Value | None:
        """A local of a frame; one of the root frame is read when it is first needed."""
        found = self.unread_local(frame, name) or frame.locals.get(name)
        if isinstance(found, Unread):
            found = frame.locals[name] = self.wrap(found.source, found.given)
        return found

    def unread_local(self, frame: Frame, name: str) -> Unread | None:
        """A local of the root frame that the program has not touched yet."""
        is_here = frame is self.frames[0] and name in self.given.locals and name not in self._unbound
        return Unread(ir.Local(name), self.given.locals[name]) if is_here and name not in frame.locals else None

    def is_bound(self, frame: Frame, name: str) -> bool:
        return name in frame.locals or self.unread_local(frame, name) is not None

    def bound_locals(self) -> dict[str, Value]:
        """What locals() gives the function that asks."""
        frame = self.frames[-1]
        found: dict[str, Value] = {}
        for name in (*frame.code.locals, *frame.code.cells, *frame.code.frees):
            cell = frame.cells.get(name)
            held = self.bound_local(frame, name) if cell is None else cell.load(self)
            if held is not None and not name.startswith(HIDDEN):
                found[name] = held
        return found

    def unbind(self, frame: Frame, name: str) -> None:
        frame.locals.pop(name, None)
        if frame is self.frames[0]:
            self._unbound.add(name)

    # ----------------------------------------------------------------------------------------------- dynamic numbers

    def _dynamic_dims(self, source: ir.Source, tensor: torch.Tensor) -> Sequence[DimDynamic]:
        """Which sizes of an input get a symbol: those that changed or that the program marked, each one of its own; or
        all with dynamic=True, where equal sizes share one. Never a parameter's, nor those marked static."""
        sizes = tuple(tensor.shape)
        asked = self.config.dynamic is not False and not isinstance(tensor, torch.nn.Parameter)
        history = self.given.history
        marked = marks(tensor, "dynamic") | marks(tensor, "weak_dynamic") | marks(tensor, "unbacked")
        static = marks(tensor, "static")
        wanted = []
        for dim, size in enumerate(sizes):
            changed = asked and history.changes(source.name, dim, *sizes)
            kind = DimDynamic.STATIC
            if dim in marked or changed and dim not in static:
                kind = DimDynamic.DYNAMIC
            elif asked and self.config.dynamic and dim not in static:
                kind = DimDynamic.DUCK
            if kind is not DimDynamic.STATIC and size in (0, 1):
                why = "0 and 1 are always constants: they broadcast"
                self.specialised.append(ir.Specialised(ir.Size(source, dim), size, why, self.steps - 1))
                kind = DimDynamic.STATIC
            wanted.append(kind)
        return wanted

    def is_dynamic(self, source: ir.Source, value: int | float) -> bool:
        """Whether a number of the program may change without another compile: an integer then gets a symbol, and a
        float is computed with whatever its value. One that was seen to change is, and with dynamic=True any finite one.
        """
        if self.config.dynamic is False or isinstance(ir.root(source), ir.Known):
            return False
        all_are = bool(self.config.dynamic) and source.name not in self.given.history.sizes and math.isfinite(value)
        return all_are or self.given.history.changes(source.name, 0, value)

    # ------------------------------------------------------------------------------------------------ small services

    wrap = wrapping.wrap
    from_python = wrapping.from_python
    wrapped_again = wrapping.wrapped_again
    array_of_tensor = arrays.array_of_tensor
    register_hook = autograd_functions.register_hook
    text_of = numbers.text_of
    text_by = numbers.text_by
    host = staticmethod(functions.HostValue)
    bind = staticmethod(functions.BoundMethod)
    builtin_method = staticmethod(functions.BuiltinMethod)
    exception = staticmethod(ExceptionValue)
    reversed_iterator = staticmethod(iterators.ReversedIterator)
    indexing_iterator = staticmethod(iterators.IndexingIterator)
    new_tuple = staticmethod(TupleValue)
    new_list = staticmethod(ListValue)

    def new_dict(self, items: dict[str, Value]) -> DictValue:
        return DictValue.of((Constant(name), value) for name, value in items.items())

    def instance_dict(self, value: ObjectValue) -> Value:
        return InstanceDict(value, self)

    def cell(self, source: ir.Source, given: types.CellType) -> Cell:
        """The value of a real cell: one for each, whoever names it."""
        found = self.wrapped.get(id(given))
        if not isinstance(found, Cell):
            found = self.wrapped[id(given)] = Cell(given=given, source=source)
            for name, real in self.given.cells.items():
                if real is given:
                    found = self.wrapped[id(given)] = self._root_cells[name]
            self.kept.append(given)
        return found

    def printable(self, value: Value) -> Any:
        """The value for str.format and %: itself where it is known, else what asks the program for its text."""
        if isinstance(value, Constant):
            return value.value
        has_items = self.look_up(value.python_type(), "__getitem__") is not MISSING
        return numbers.PrintableItems(self, value) if has_items else numbers.Printable(self, value)


_UNBOUND = object()


def marks(tensor: torch.Tensor, kind: str) -> frozenset[int]:
    """The dimensions that torch._dynamo.mark_dynamic and its like have marked."""
    return frozenset(getattr(tensor, f"_dynamo_{kind}_indices", ()))


def module_path(source: ir.Source | None) -> str:
    """ "transformer.h.0.mlp" for L['self']._modules['transformer']...: the path as state_dict has it."""
    parts: list[str] = []
    while source is not None:
        if isinstance(source, ir.Item):
            if isinstance(source.base, ir.Attr) and source.base.attribute == "_modules":
                parts.append(str(source.key))
                source = source.base.base
                continue
            source = source.base
        elif isinstance(source, ir.Attr):
            source = source.base
        else:
            break
    return ".".join(reversed(parts))
