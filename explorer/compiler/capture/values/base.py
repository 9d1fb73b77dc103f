"""The types that all of capture shares: a symbolic value, a frame of the evaluator, and what values need of the
evaluator. Their signatures name each other, so they are in one file, which the implementations import."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakSet, ref

import torch
from torch import Tensor, fx

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.flow import handlers_by_position
from explorer.compiler.capture import reasons
from explorer.compiler.capture.assumptions import Assumptions, Numbers
from explorer.compiler.capture.effects import NUMBERS, Effects
from explorer.compiler.capture.tape import Place, Tape
from explorer.compiler.capture.torch_state import Switched, TorchState
from explorer.compiler.config import Config
from explorer.core.files import is_standard
from explorer.core.libraries import is_written_in_c, name_in_messages
from explorer.core.reasons import Unsupported, unsupported
from explorer.ir.bytecode import Code, Handler, Instruction, Span
from explorer.ir.capture import (
    Activation,
    Attr,
    Contained,
    Item,
    Known,
    Local,
    Returned,
    Source,
    ValueDescription,
)
from explorer.ir.capture import InputFrame as InputFrame

TORCH_DIR = os.path.dirname(torch.__file__) + os.sep
MAX_ITEMS = 20_000
HIDDEN = "___"
"""How the names of locals begin that compiled bytecode and continuations have for themselves."""
SHOWN_ITEMS = 8
"""Items of a container that a recorded step keeps."""


T = TypeVar("T")


class NotConstant(Exception):
    """The value has no Python object that is known while tracing."""


class Unhashable(Exception):
    """The program hashes a value whose type has no hash: Python raises TypeError."""

    def __init__(self, kind: type) -> None:
        super().__init__(type_name(kind))


class Raised(Exception):
    """Traced code raised: `value` is the symbolic exception. Python's own exceptions are not used for this."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value


def type_name(cls: type) -> str:
    """What Python's own errors call a type: one written in C by its module too, except for builtins."""
    with_module = is_written_in_c(cls) and cls.__module__ != "builtins"
    return f"{cls.__module__}.{cls.__qualname__}" if with_module else cls.__name__


def lacks_to_set(name: str) -> str:
    """What Python's error says of an object without a dictionary, where its class has no such attribute either."""
    return f"has no attribute '{name}'" + " and no __dict__ for setting new attributes" * (sys.version_info >= (3, 13))


Shown = ValueDescription | Contained
NOT_READ = ValueDescription("not read yet", shared=True)


class Value:
    """A value of the traced program. `source` says where to find it at entry; None for values made while tracing.

    Each method is one operation of Python's data model with `t`, the tracer, beside it; the default is a refusal, which
    breaks the graph. Stock counterpart: VariableTracker.
    """

    of_type: type
    source: Source | None = None
    description: ValueDescription | None = None
    """Its description in recorded steps, made for the first one that shows it, if it does not change."""
    called: str | None = None
    """Its name in recorded steps; the steps that show a container share it."""
    sight: object = None
    """What identifies it in recorded steps, if it changes."""
    last_shown: tuple[object, Shown] | None = None
    """Its state in the last recorded step; steps share this until something changes."""
    compared = False
    """Whether the trace relies on which object it is: another input that was another object has to be one again."""
    precedence = 0
    """The operand whose kind has the highest precedence decides first what an operator means."""
    plain: Value | None = None
    """The number or text that an instance of a derived class is apart from its class."""
    unread: Tracer | None = None
    """For a value that the frame was given: the tracer that guards it once the program asks for more than its identity.
    """

    def python_type(self) -> type:
        return self.of_type

    def constant(self) -> Any:
        """The Python object, where it is known and immutable (containers of such are made anew). Raises NotConstant."""
        raise NotConstant(self)

    def real(self) -> Any:
        """The live Python object behind the value, mutable or not. Raises NotConstant where there is none."""
        return self.constant()

    def known(self, t: Tracer) -> Any:
        """The Python object of a constant; a symbolic size is made a number. Breaks the graph for anything else."""
        try:
            return self.constant()
        except NotConstant:
            unsupported(reasons.OPERATION, f"{self.describe()} where a constant is needed")

    def live(self, t: Tracer) -> Any:
        """The live Python object, or where there is none the one that the value is known to be."""
        try:
            return self.real()
        except NotConstant:
            return self.known(t)

    def identity(self) -> object | None:
        """What `is` compares, where that needs no read of the object: the value, if each object has one."""
        return None

    def lasting(self, t: Tracer) -> Any:
        """The object that nothing can change without a guard that notices. Raises NotConstant where there is none."""
        return self.real()

    def guard(self, t: Tracer) -> None:
        """Rely on what was read of the object, which the frame was given. Asked once, by `read_all`."""

    def read_all(self) -> None:
        """Guard the value if nothing guards it yet: the program is about to depend on it."""
        if self.unread is not None:
            t, self.unread = self.unread, None
            try:
                self.guard(t)
            except BaseException:
                self.unread = t  # a break guards it later
                raise

    def is_none(self) -> bool:
        return False

    def as_exception(self, t: Tracer) -> Value:
        """What `raise` raises of it: an instance, where it is a class."""
        return self

    def tell_attribute(self, value: Value, name: str) -> None:
        """Tell an AttributeError of a failed read, as Python does, what was read of what."""

    def as_index(self, t: Tracer) -> int:
        """The value as a Python int; a symbolic size is made a number."""
        return int(t.python(operator.index, self.known(t)))

    def as_index_or_none(self, t: Tracer) -> int | None:
        return None if self.is_none() else self.as_index(t)

    def number(self, t: Tracer) -> object:
        """Python's number for a scalar of NumPy's, None for other values."""
        return None

    def as_tensor(self, t: Tracer) -> Value | None:
        """The tensor that indexing takes an array of NumPy's for, None for other values."""
        return None

    def key(self) -> object:
        """A Python object to use as a dictionary key for the value: two are equal if the values are."""
        try:
            return self.constant()
        except NotConstant:
            unsupported(reasons.OPERATION, f"hash of {self.describe()}")

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value | None:
        """An operator's result, where this operand decides first; None if the methods of the types decide."""
        return None

    def operate_in_place(self, t: Tracer, function: Callable[..., object], other: Value) -> Value | None:
        """The result of `+=` and its like; None if the value has none of its own and `+` decides."""
        return None

    def operator_method(self, t: Tracer, name: str, other: Value) -> Value | None:
        """The result of the type's own method for an operand; None if it has no method, or none for such an operand."""
        return None

    def get_attr(self, t: Tracer, name: str) -> Value:
        unsupported(reasons.ATTRIBUTE, f"{self.describe()}.{name}")

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        """Set, or with None delete, an attribute."""
        unsupported(reasons.ATTRIBUTE, f"setting {self.describe()}.{name}")

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        unsupported(reasons.UNTRACEABLE_CALL, self.describe())

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call a method that the type implements in C (one written in Python is looked up and inlined instead)."""
        unsupported(reasons.OPERATION, f"{self.describe()}.{name}()")

    def truth(self, t: Tracer) -> bool:
        kind = self.python_type()
        if hasattr(kind, "__bool__") or hasattr(kind, "__len__"):
            unsupported(reasons.OPERATION, f"whether {self.describe()} is true")
        return True

    def iterate(self, t: Tracer) -> Value:
        """The iterator over the value: a value with `next`."""
        kind = self.python_type()
        if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
            t.raise_(TypeError, f"'{name_in_messages(kind)}' object is not iterable")
        unsupported(reasons.OPERATION, f"iteration over {self.describe()}")

    def overrides(self, t: Tracer, *names: str) -> bool:
        """Whether its class defines one of these methods in Python."""
        return False

    def special(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        """Call a method that Python looks up on the type."""
        return self.method(t, name, args, kwargs or {})

    def unpack(self, t: Tracer) -> list[Value]:
        """All items of an iterable, in order."""
        iterator = t.iterate(self)
        found: list[Value] = []
        while (item := iterator.next(t)) is not None:
            found.append(item)
            t.check_length(len(found))
        return found

    def own_pairs(self, t: Tracer) -> list[tuple[Value, Value]] | None:
        """Keys and items of a dictionary, None where code of the program says what they are, and for other values."""
        return None

    def next(self, t: Tracer) -> Value | None:
        """The next item of an iterator, None when it is exhausted."""
        unsupported(reasons.OPERATION, f"next() of {self.describe()}")

    def get_item(self, t: Tracer, key: Value) -> Value:
        unsupported(reasons.OPERATION, f"{self.describe()}[...]")

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        """Set, or with None delete, an item."""
        unsupported(reasons.OPERATION, f"setting an item of {self.describe()}")

    def contains(self, t: Tracer, item: Value) -> bool:
        return self.is_in(t, item, t.iterate(self))

    def is_in(self, t: Tracer, item: Value, iterator: Value) -> bool:
        while (other := iterator.next(t)) is not None:
            if t.same_or_equal(other, item):
                return True
        return False

    def length(self, t: Tracer) -> Value:
        unsupported(reasons.OPERATION, f"len of {self.describe()}")

    def reconstruct(self, r: Reconstructor) -> None:
        """Emit instructions that push the value's Python object. Loading it from `source` has been tried already."""
        unsupported(reasons.NOT_RECONSTRUCTED, self.describe())

    @property
    def shared(self) -> bool:
        """Whether all equal values share one description, so that no single step made it."""
        return False

    def shown(self, depth: int = 2) -> Shown:
        """The value's state for a recorded step, if it can change; it does not keep the value alive. Containers are
        described with their items, up to this depth."""
        if self.description is None:
            self.description = ValueDescription(self.describe(), self.shared)
        return self.description

    def was_read(self) -> None:
        """Its name until now may have been its place in the program."""
        if self.description is not None:
            self.description.text = self.describe()

    def holding(self, many: int, items: Iterable[Any], depth: int) -> Contained:
        """The value as a container of `many`. `items` are pairs of a key and what it leads to; what is no value the
        program did not read yet."""
        first = islice(items, SHOWN_ITEMS if depth else 0)
        held = [
            (
                key.description or key.shown(0) if isinstance(key, Value) else key,
                each.description or each.shown(depth - 1) if isinstance(each, Value) else NOT_READ,
            )
            for key, each in first
        ]
        if self.called is None:
            self.called = self.describe()
        return self.changing(f"{self.called} of {many}", tuple(held))

    def changing(self, text: str, items: tuple[tuple[Shown | int, Shown], ...] = ()) -> Contained:
        if self.sight is None:
            self.sight = object()
        return Contained(self.sight, text, items)

    def describe(self) -> str:
        """The value in a message or a step's stack: short."""
        name = self.source.name if self.source is not None else ""
        return f"{self.python_type().__name__} {name}".rstrip()


class Unread(Value):
    """A local of the root frame that the program has only given another name, so that nothing is assumed of it."""

    def __init__(self, source: Source, given: object) -> None:
        self.source: Source = source
        self.given = given

    def python_type(self) -> type:
        return type(self.given)


class Cell(Value):
    """A closure cell. `given` is the real cell of a function found outside; `root_name` a cell of the root frame."""

    of_type = CellType

    def __init__(
        self, contents: Value | None = None, *, given: Any = None, source: Source | None = None, root_name: str = ""
    ) -> None:
        self.contents = contents
        self.made_as = next(NUMBERS)
        self.given = given
        self.source = source
        self.root_name = root_name
        self.changed = False

    def load(self, t: Tracer) -> Value | None:
        """The cell's value; None when it is empty."""
        if self.contents is None and self.given is not None and not self.changed:
            try:
                held = self.given.cell_contents
            except ValueError:
                return None
            source = self.source
            assert source is not None
            self.contents = t.wrap(Attr(source, "cell_contents") if not self.root_name else source, held)
        return self.contents

    def store(self, t: Tracer, value: Value | None) -> None:
        t.effects.cell(self)
        self.contents = value
        self.changed = True

    def key(self) -> object:
        return self

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "cell_contents":
            held = self.load(t)
            if held is None:
                t.raise_(ValueError, "Cell is empty")
            return held
        return super().get_attr(t, name)

    def reconstruct(self, r: Reconstructor) -> None:
        r.cell(self)

    def describe(self) -> str:
        return f"cell {self.root_name}".rstrip()


class HostValue(Value):
    """A callable that the evaluator itself provides."""

    def __init__(
        self,
        function: Callable[[list[Value], dict[str, Value]], Value],
        made_by: tuple[type, list[Value], dict[str, Value]] | None = None,
    ) -> None:
        self.function = function
        self.made_by = made_by
        """The call that makes the like of it in Python."""

    def python_type(self) -> type:
        return self.made_by[0] if self.made_by is not None else BuiltinFunctionType

    def key(self) -> Any:
        return self

    def reconstruct(self, r: Reconstructor) -> None:
        if self.made_by is None:
            super().reconstruct(r)
        else:
            r.call(*self.made_by)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function(args, kwargs)

    def describe(self) -> str:
        return "builtin"


class Namespace(Value):
    """The globals of a module."""

    def read(self, t: Tracer, name: str, source: Source | None = None) -> Value | None:
        """The value of a global; None if there is none of this name."""
        raise NotImplementedError

    def write(self, t: Tracer, name: str, value: Value | None) -> None:
        """Set, or with None delete, a global."""
        raise NotImplementedError


@dataclass(frozen=True)
class Handled:
    """An exception being handled. `below` is the stack's entry, at `place`, that says what was handled before."""

    error: Value
    place: int
    below: Value


@dataclass(frozen=True)
class Assertion:
    """A condition that capture assumes and that is checked after the graph. `version` is its tensor's when it was
    assumed: a later write would change what is checked."""

    condition: Value
    error: type[BaseException]
    args: tuple[object, ...]
    version: object


@dataclass(eq=False, repr=False)
class RecordedFrame:
    """A frame's locals at its last recorded step."""

    activation: Activation
    locals: dict[str, Shown] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Frame:
    """A frame of the evaluator: the body, its names and its stack. `position` is the next instruction's. `yielded` and
    `result` are set by the instructions that leave the frame."""

    code: Code
    globals: dict[str, Any]
    locals: dict[str, Value]
    index: dict[str, int]
    handlers: tuple[Handler | None, ...]
    cells: dict[str, Cell] = field(default_factory=dict)
    stack: list[Value] = field(default_factory=list)
    position: int = 0
    handled: list[Handled] = field(default_factory=list)
    pending: Raised | None = None
    result: Value | None = None
    yielded: Value | None = None
    recorded: RecordedFrame | None = None
    """Its recorded steps, if steps are recorded."""
    given: dict[str, object] = field(default_factory=dict)
    """The locals of the root frame that the program has not unbound."""

    def load_local(self, t: Tracer, name: str) -> Value:
        found = self.bound_local(t, name)
        if found is None:
            message = f"cannot access local variable '{name}' where it is not associated with a value"
            t.raise_(UnboundLocalError, message)
        return found

    def bound_local(self, t: Tracer, name: str) -> Value | None:
        """A local; one of the root frame is read when it is first needed."""
        found = self.unread_local(name) or self.locals.get(name)
        if isinstance(found, Unread):
            found = self.locals[name] = t.wrap(found.source, found.given)
        return found

    def unread_local(self, name: str) -> Unread | None:
        """A local of the root frame that the program has not touched yet."""
        is_unread = name in self.given and name not in self.locals
        return Unread(Local(name), self.given[name]) if is_unread else None

    def is_bound(self, name: str) -> bool:
        return name in self.locals or name in self.given

    def unbind(self, name: str) -> None:
        self.locals.pop(name, None)
        self.given.pop(name, None)

    def bound_locals(self, t: Tracer) -> dict[str, Value]:
        """What locals() gives."""
        found: dict[str, Value] = {}
        for name in (*self.code.locals, *self.code.cells, *self.code.frees):
            cell = self.cells.get(name)
            held = self.bound_local(t, name) if cell is None else cell.load(t)
            if held is not None and not name.startswith(HIDDEN):
                found[name] = held
        return found

    def span(self) -> Span | None:
        """The position of the instruction that was begun last."""
        return self.code.instructions[max(0, self.position - 1)].span

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Value]:
        if count == 0:
            return []
        found = self.stack[-count:]
        del self.stack[-count:]
        return found


class Reconstructor(Protocol):
    """The interface by which values reconstruct their Python objects; reconstruct.py implements it."""

    t: Tracer
    body: list[Instruction]

    def temp(self) -> str: ...
    def emit(self, op: str, arg: object = None) -> None: ...
    def value(self, value: object) -> None: ...
    def store_new(self, value: Value) -> str: ...
    def constant(self, value: object) -> None: ...
    def size(self, sym: object) -> None: ...
    def output(self, node: fx.Node) -> None: ...
    def after_effects(self, emit: Callable[[], None]) -> None: ...
    def call(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object] | None = None
    ) -> None: ...
    def call_on_output(self, function: Callable[..., object], node: fx.Node) -> None: ...
    def call_value(self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None: ...
    def method(self, base: Value, name: str, args: Sequence[Value] = ()) -> None: ...
    def discard_method(self, load: Callable[[], None], name: str, args: Sequence[object]) -> None: ...
    def discard_call(
        self, function: Callable[..., object], load: Callable[[], None], args: Sequence[object]
    ) -> None: ...
    def instance(self, value: Any, contents: Sequence[Value] = ()) -> None: ...
    def filled(self, value: Any) -> None: ...
    def cell(self, cell: Cell) -> None: ...
    def function(self, function: Any) -> None: ...
    def switch(self, settings: Iterable[Switched]) -> None: ...


Rule = Callable[["Tracer", list[Value], dict[str, Value]], Value]
"""What a call of a known callable does: rule(tracer, positional arguments, keyword arguments) -> result."""


class EntryPoints(Protocol):
    """The operations of the evaluator that values call, and that may make a value of any kind or run code of the
    program. All kinds use them, so they are declared here and implemented in modules that import the kinds."""

    # calls
    def call_function(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def call_builtin(self, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def instantiate(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def make(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def bind(self, function: Value, bound: Value) -> Value: ...
    def builtin_method(self, bound: Value, name: str, descriptor: object = None) -> Value: ...
    def rule_for(self, function: Callable[..., object]) -> Rule | None: ...
    def exception(self, cls: type, args: list[Value]) -> Value: ...

    # operators, truth, items, iteration
    def binary(self, symbol: str, left: Value, right: Value) -> Value: ...
    def compare(self, symbol: str, left: Value, right: Value) -> Value: ...
    def get_item(self, base: Value, key: Value) -> Value: ...
    def sequence_iterator(self, base: Value) -> Value: ...
    def indexing_iterator(self, base: Value) -> Value: ...
    def reversed_iterator(self, base: Value) -> Value: ...
    def text_by(self, function: Callable[..., str], args: Sequence[Value]) -> Value | None: ...
    def printable(self, value: Value) -> Any: ...

    # between values and objects
    def instance_dict(self, value: Value) -> Value: ...
    def wrap(self, source: Source, given: object) -> Value: ...
    def wrap_tensor(self, source: Source, given: Tensor) -> Value: ...
    def from_python(self, value: object) -> Value: ...  # a container of values too
    def array_of_tensor(self, value: Value) -> Value: ...
    def recorded(self, kind: str, target: object, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def register_hook(self, tensor: Value, name: str, hook: Value) -> Value: ...
    def rewrapped(self, wrapper: Value) -> tuple[Callable[..., Tensor], list[Value]]: ...

    # frames and places
    def resume(self, frame: Frame) -> Value | None: ...
    def step(self, frame: Frame) -> None: ...


@dataclass(frozen=True)
class Retry:
    """What an evaluation keeps from earlier ones that had to start over."""

    decoded: dict[int, Code] = field(default_factory=dict)
    """The bodies of inlined functions, by id of their code objects, which need not have a hash: they keep their ids."""
    stop_at: int = 0
    """The root step before which the graph is to end, if that is known."""
    says_compiling: bool = True
    may_leave_classes: bool = True


@functools.cache
def _is_of_library(file: str) -> bool:
    return file.startswith(TORCH_DIR) or is_standard(file)


class CallStack:
    """The frames of an evaluation, the root first; where the program is."""

    def __init__(self, name: str, decoded: dict[int, Code]) -> None:
        self.name = name
        self.decoded = decoded
        self.frames: list[Frame] = []
        self.steps = 0
        self._modules: list[str] = []
        """The paths of the modules that are being called."""
        self._checkpoints = 0
        """The calls of torch.utils.checkpoint so far."""
        self._checkpoint = 0
        """The outermost one that is being evaluated."""
        self._placed_in: Callable[[], Frame | None] = lambda: None
        self._placed_at: tuple[int, int, str, int] | None = None
        self._prepared: dict[int, tuple[dict[str, int], tuple[Handler | None, ...]]] = {}

    def handled(self) -> Value | None:
        """The exception that the program is handling."""
        return next((f.handled[-1].error for f in reversed(self.frames) if f.handled), None)

    def user_span(self) -> Span | None:
        """The innermost source position that is not inside torch or the standard library."""
        first: Span | None = None
        for frame in reversed(self.frames):
            span = frame.span()
            if span is not None and not _is_of_library(span.file):
                return span
            first = first or span
        return first

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{span.id if (span := f.span()) else f.code.filename} in {f.code.name}" for f in self.frames)

    def place(self) -> Place:
        """Asked for each guard and node, of which a step makes several."""
        if not self.frames:
            return Place(None, "", self.steps - 1, self._checkpoint)
        frame, module = self.frames[-1], self._modules[-1] if self._modules else ""
        now = self.steps, frame.position, module, self._checkpoint
        if frame is not self._placed_in() or now != self._placed_at:
            self._placed_in, self._placed_at = ref(frame), now  # the generators that a frame holds are lost with it
            self._place = Place(self.user_span(), module, self.steps - 1, self._checkpoint)
        return self._place

    @contextmanager
    def checkpointed(self) -> Iterator[None]:
        """Around a call of torch.utils.checkpoint, whose values the backward computes again."""
        self._checkpoints += 1
        outer, self._checkpoint = self._checkpoint, self._checkpoint or self._checkpoints
        try:
            yield
        finally:
            self._checkpoint = outer

    @contextmanager
    def inside_module(self, module: Value) -> Iterator[None]:
        self._modules.append(module_path(module.source))
        try:
            yield
        finally:
            self._modules.pop()

    def decode(self, code: CodeType) -> Code:
        """The body of a function to inline; each code object is decoded once and has instruction ids of its own."""
        if id(code) not in self.decoded:
            prefix = f"{self.name}/{code.co_name}.{len(self.decoded)}"
            self.decoded[id(code)] = decode(code, prefix)
        return self.decoded[id(code)]

    def make_frame(self, code: Code, globals: dict[str, object], locals: dict[str, Value]) -> Frame:
        if id(code) not in self._prepared:
            self._prepared[id(code)] = (code.index, handlers_by_position(code))
        return Frame(code, globals, locals, *self._prepared[id(code)])


class ProgramObjects:
    """The objects of the program that the trace has met."""

    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        """The one value of each, by id."""
        self.root_cells: dict[int, Cell] = {}
        """The cells that the frame was given, by id."""
        self.unread: list[Value] = []
        """Values that the frame was given, guarded only by their type if nothing reads them."""
        self.raw_items: set[Source] = set()
        """Items of containers whose class says in Python how they are read."""
        self.looked_up: dict[tuple[int, str, int], object] = {}
        """What classes define, by id of the class and name."""
        self.kept: list[object] = []
        """Objects that are known by id, kept alive so that their ids stay theirs."""
        self.guards_global_hooks = False
        """Whether it is guarded that there are no hooks of all modules."""
        self._labels: dict[int, Known] = {}
        self._names: dict[str, int] = {}

    def known(self, value: object, fixed: bool = False, label: str = "") -> Known:
        """A source for an object that is reached without going through the frame."""
        if id(value) not in self._labels:
            base = label or name_of(value)
            count = self._names[base] = self._names.get(base, 0) + 1
            self._labels[id(value)] = Known(f"{base}" if count == 1 else f"{base}#{count}", value, fixed)
            self.kept.append(value)
        return self._labels[id(value)]

    def cell(self, source: Source, given: CellType) -> Cell:
        """The value of a real cell: one for each, whoever names it."""
        found = self.values.get(id(given))
        if not isinstance(found, Cell):
            found = self.values[id(given)] = self.root_cells.get(id(given)) or Cell(given=given, source=source)
            self.kept.append(given)
        return found


def name_of(value: object) -> str:
    """Its own name, or that of its class; code of the program that answers for attributes is not asked."""
    kind = type(value)
    defined = [vars(each).get(name) for each in kind.__mro__ for name in ("__getattr__", "__getattribute__")]
    read = inspect.getattr_static if any(isinstance(each, FunctionType) for each in defined) else getattr
    names = (read(value, attribute, None) for attribute in ("__qualname__", "__name__"))
    return next((name for name in names if isinstance(name, str) and name), kind.__name__)


class GraphValues:
    """The values of what the graph is given and computes."""

    def __init__(self) -> None:
        self.tensors: dict[int, Value] = {}
        """Keyed by id of the fake tensor."""
        self.arrays: dict[int, Value] = {}
        self.floats: dict[Source, Value] = {}
        """The inputs that are numbers of the program."""
        self.storages: dict[int, Value] = {}
        self.unshared: dict[int, tuple[Tensor, object, Tensor, object]] = {}
        self.draws: list[Returned] = []
        """Random numbers that the frame draws before the graph, in this order."""
        self.assertions: list[Assertion] = []
        """The program's assertions whose truth only the graph knows."""


class Generators:
    """The generators that the program made. `lost` are those that it does not hold any more."""

    def __init__(self) -> None:
        self.made: WeakSet[Any] = WeakSet()
        self.lost: list[Value] = []

    @property
    def suspended(self) -> list[Value]:
        """The generators that Python would run once more, to close them, if it lost them now."""
        return [each for each in self.made if each.is_suspended]


@dataclass(eq=False, repr=False)
class Tracer(EntryPoints):
    """The record of one evaluation of one frame, which values and rules are given, and what Python's data model does
    with values of any kind."""

    code: Code
    given: InputFrame
    config: Config
    attempt: Retry = field(default_factory=Retry)
    asked_compiling: bool = False
    left_class: bool = False
    """Whether the root frame has a class that is not made yet: a continuation could not get it."""
    effects: Effects[Value] = field(init=False)
    objects: ProgramObjects = field(default_factory=ProgramObjects)
    in_graph: GraphValues = field(default_factory=GraphValues)
    generators: Generators = field(default_factory=Generators)

    def __post_init__(self) -> None:
        self.name = self.given.id
        self.stack = CallStack(self.name, self.attempt.decoded)
        self.guards = Assumptions(self.name, self.stack.place)
        self.numbers = Numbers(self.given.history, self.config.dynamic, self.stack.place)
        self.tape = Tape(
            self.name.replace(".", "_"),
            self.numbers.of_sizes,
            self.stack.place,
            self.config.captures("capture_scalar_outputs"),
            self.config.captures("capture_dynamic_output_shape_ops"),
            self.config.fullgraph,
        )
        self.torch_state: TorchState[Value] = TorchState(self.tape, self.given.devices)

    def check_length(self, count: int) -> None:
        if count > MAX_ITEMS:
            unsupported(reasons.STEPS, f"an iterable of more than {MAX_ITEMS} items")

    def get_attr(self, value: Value, name: str) -> Value:
        try:
            return value.get_attr(self, name)
        except Raised as raised:
            raised.value.tell_attribute(value, name)
            raise

    def same_or_equal(self, left: Value, right: Value) -> bool:
        """Whether two items are the same object or equal, as `in` and list.index compare them."""
        return left is right or self.compare("==", left, right).truth(self)

    def call_method(self, value: Value, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        return self.get_attr(value, name).call(self, args, kwargs or {})

    def raise_value(self, cls: type, args: list[Value]) -> NoReturn:
        raise Raised(self.exception(cls, args))

    def raise_(self, cls: type, message: str, **facts: Value) -> NoReturn:
        error = self.exception(cls, [])
        error.method(self, "__init__", [self.from_python(message)], facts)
        raise Raised(error)

    def set_item(self, base: Value, key: Value, value: Value | None) -> None:
        name = "__setitem__" if value is not None else "__delitem__"
        if base.overrides(self, name):
            base.special(self, name, [key, value] if value is not None else [key])
            return
        base.set_item(self, key, value)

    def contains(self, base: Value, item: Value) -> bool:
        if base.overrides(self, "__contains__"):
            return base.special(self, "__contains__", [item]).truth(self)
        return base.contains(self, item)

    def length(self, value: Value) -> Value:
        if value.overrides(self, "__len__"):
            return value.special(self, "__len__", [])
        return value.length(self)

    def iterate(self, value: Value) -> Value:
        """iter(value): a value with `next`, which Python too takes for an iterator."""
        if value.overrides(self, "__iter__"):
            return value.special(self, "__iter__", [])
        return value.iterate(self)

    def unless(self, kind: type[BaseException], asked: Callable[..., T], *args: object) -> T | None:
        """The result of `asked`; None if it raises an exception of this kind in the program."""
        try:
            return asked(*args)
        except Raised as raised:
            if issubclass(raised.value.python_type(), kind):
                return None
            raise

    def attr_or_none(self, value: Value, name: str) -> Value | None:
        return self.unless(AttributeError, self.get_attr, value, name)

    def iterate_or(self, message: str, value: Value) -> Value:
        """iter(value), where Python has a message of its own for what is not iterable."""
        return self.unless(TypeError, self.iterate, value) or self.raise_(TypeError, message)

    def sorted(self, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
        by = [item if key is None or key.is_none() else key.call(self, [item], {}) for item in items]
        tracer = self

        class Order:
            def __init__(self, value: Value) -> None:
                self.value = value

            def __lt__(self, other: Order) -> bool:
                return tracer.compare("<", self.value, other.value).truth(tracer)

        order = sorted(
            range(len(items)), key=lambda i: Order(by[i]), reverse=reverse is not None and reverse.truth(self)
        )
        return [items[i] for i in order]

    def python(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """Call a pure Python function now; what it raises is raised in the traced program."""
        try:
            return function(*args, **kwargs)
        except (Raised, NotConstant, Unhashable, Unsupported):
            raise
        except Exception as error:
            arguments = [self.from_python(str(a) if isinstance(a, BaseException) else a) for a in error.args]
            made = self.exception(type(error), [])
            facts = {name: getattr(error, name, None) for name in ("name", "path")}
            attributes = {name: self.from_python(fact) for name, fact in facts.items() if type(fact) is str}
            made.method(self, "__init__", arguments, attributes)
            raise Raised(made) from None


def module_path(source: Source | None) -> str:
    """ "transformer.h.0.mlp" for L['self']._modules['transformer']...: the path as state_dict has it."""
    parts: list[str] = []
    while source is not None:
        if isinstance(source, Item):
            if isinstance(source.base, Attr) and source.base.attribute == "_modules":
                parts.append(str(source.key))
                source = source.base.base
                continue
            source = source.base
        elif isinstance(source, Attr):
            source = source.base
        else:
            break
    return ".".join(reversed(parts))
