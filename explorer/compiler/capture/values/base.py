"""What all of capture is about: a symbolic value, a frame of the evaluator, and what values ask of the evaluator.

Each of these names the others, so that they stand in one file, below all that implements them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from types import CellType, CodeType, FunctionType
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from torch import Tensor, fx
from torch._C import DispatchKeySet

from explorer.compiler.capture import reasons
from explorer.compiler.capture.effects import Effects
from explorer.compiler.capture.tape import Tape
from explorer.compiler.capture.torch_state import Switched, TorchState
from explorer.compiler.config import Config
from explorer.core.classes import is_written_in_c
from explorer.core.reasons import unsupported
from explorer.ir.bytecode import Code, Handler, Instruction
from explorer.ir.capture import (
    Activation,
    Attr,
    Condition,
    Contained,
    Guard,
    Known,
    Returned,
    Source,
    Specialised,
    ValueDescription,
)
from explorer.ir.capture import InputFrame as InputFrame
from explorer.ir.record import GlobalStateData

SHOWN_ITEMS = 8
"""Items of a container that a recorded step keeps."""


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
    """What steps tell of it, once one did and where it does not change."""
    called: str | None = None
    """What it is called where steps tell of it: a container is told of at many."""
    sight: object = None
    """What stands for it in steps where it changes."""
    told: tuple[object, Shown] | None = None
    """What the last step told of it, and what that step shares with those after which nothing changed."""
    compared = False
    """Whether the trace relies on which object it is: another input that was another object has to be one again."""

    def python_type(self) -> type:
        return self.of_type

    def constant(self) -> Any:
        """The Python object, where it is known and immutable (containers of such are made anew). Raises NotConstant."""
        raise NotConstant(self)

    def real(self) -> Any:
        """The live Python object behind the value, mutable or not. Raises NotConstant where there is none."""
        return self.constant()

    def number(self, t: Tracer) -> object:
        """Python's number for a scalar of NumPy's, None for other values."""
        return None

    def as_tensor(self, t: Tracer) -> Value | None:
        """The tensor that indexing takes an array of NumPy's for, None for other values."""
        return None

    def key(self) -> object:
        """A Python object that stands for the value as a dictionary key: equal where the values would be."""
        try:
            return self.constant()
        except NotConstant:
            unsupported(reasons.OPERATION, f"hash of {self.describe()}")

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
        unsupported(reasons.OPERATION, f"iteration over {self.describe()}")

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
        """Emit instructions that push the Python object this value stands for. `source` has been tried already."""
        unsupported(reasons.NOT_RECONSTRUCTED, self.describe())

    @property
    def shared(self) -> bool:
        """Whether it stands for all that is like it, so that no step made it."""
        return False

    def shown(self, depth: int = 2) -> Shown:
        """What a recorded step keeps of the value, which the program may lose: what it is now, where that may change.
        Containers are told with what they hold, to this depth."""
        if self.description is None:
            self.description = ValueDescription(self.describe(), self.shared)
        return self.description

    def was_read(self) -> None:
        """What it was called until now may have been its place in the program."""
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


class Cell(Value):
    """A closure cell. `given` is the real cell of a function found outside; `root_name` a cell of the root frame."""

    of_type = CellType

    def __init__(
        self, contents: Value | None = None, *, given: Any = None, source: Source | None = None, root_name: str = ""
    ) -> None:
        self.contents = contents
        self.given = given
        self.source = source
        self.root_name = root_name
        self.changed = False

    def load(self, t: Tracer) -> Value | None:
        """What the cell holds; None when it is empty."""
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


class Namespace(Value):
    """The globals of a module."""

    def read(self, t: Tracer, name: str, source: Source | None = None) -> Value | None:
        """What a global is; None where there is none of this name."""
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


@dataclass(eq=False, repr=False)
class Seen:
    """What the last recorded step of a frame left in sight."""

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
    seen: Seen | None = None
    """What was recorded of it, where somebody records."""

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
    """What values ask of the code that makes their Python objects; reconstruct.py has the one implementation."""

    t: Tracer
    body: list[Instruction]

    def temp(self) -> str: ...
    def emit(self, op: str, arg: Any = None) -> None: ...
    def value(self, value: object) -> None: ...
    def store_new(self, value: Value) -> str: ...
    def constant(self, value: object) -> None: ...
    def size(self, sym: Any) -> None: ...
    def output(self, node: fx.Node) -> None: ...
    def after_effects(self, emit: Callable[[], None]) -> None: ...
    def call(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, Any] | None = None
    ) -> None: ...
    def call_on_output(self, function: Callable[..., object], node: fx.Node) -> None: ...
    def call_value(self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None: ...
    def method(self, base: Value, name: str, args: Sequence[Value] = ()) -> None: ...
    def discard_method(self, load: Callable[[], None], name: str, args: Sequence[object]) -> None: ...
    def discard_call(
        self, function: Callable[..., object], load: Callable[[], None], args: Sequence[object]
    ) -> None: ...
    def instance(self, value: Any, contents: Sequence[Value] = ()) -> None: ...
    def cell(self, cell: Any) -> None: ...
    def function(self, function: Any) -> None: ...
    def switch(self, settings: Iterable[Switched]) -> None: ...


Rule = Callable[["Tracer", list[Value], dict[str, Value]], Value]
"""What a call of a known callable does: rule(tracer, positional arguments, keyword arguments) -> result."""


class Tracer(Protocol):
    """What values and rules ask of the evaluation that they are part of: its state, and Python's data model.
    model.py, calls.py and tracer.py have the one implementation."""

    name: str
    code: Code
    given: InputFrame
    config: Config
    tape: Tape
    guards: dict[tuple[Source, object], Guard]
    effects: Effects[Value]
    torch_state: TorchState[Value]
    frames: list[Frame]
    state: GlobalStateData
    local_keys: tuple[DispatchKeySet, DispatchKeySet]
    """The dispatch keys that this thread adds to a tensor's, and leaves out, where the frame begins."""
    says_compiling: bool
    may_leave_classes: bool
    left_class: bool
    """Whether the root frame has a class that is not made: what goes on after a break could not have it."""
    asked_compiling: bool
    wrapped: dict[int, Value]
    """The values of objects of the program, by id."""
    looked_up: dict[tuple[int, str, int], Any]
    """What classes define, by id of the class and name."""
    tensors: dict[int, Any]
    arrays: dict[int, Any]
    storages: dict[int, Value]
    unshared: dict[int, Any]
    kept: list[Any]
    lost: list[Value]
    made_generators: WeakSet[Any]
    raw_items: set[Source]
    """Items of containers whose class says in Python how they are read."""
    unread: list[Any]
    """Constants that the frame was given, and that are guarded by their type alone where nothing reads them."""
    draws: list[Returned]
    """Random numbers that the frame draws before its graph, in this order."""
    decoded: dict[int, Code]
    specialised: list[Specialised]

    # calls
    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def call_method(
        self, value: Value, name: str, args: list[Value], kwargs: dict[str, Value] | None = None
    ) -> Value: ...
    def call_function(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def call_builtin(self, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def inline(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def python(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
    def host(self, function: Callable[[list[Value], dict[str, Value]], Value]) -> Value: ...
    def instantiate(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def make(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def new_instance(self, args: list[Value], kwargs: dict[str, Value]) -> Value: ...
    def bind(self, function: Value, bound: Value) -> Value: ...
    def builtin_method(self, bound: Value, name: str, descriptor: object = None) -> Value: ...
    def function_of(self, function: FunctionType) -> Value: ...
    def rule_for(self, function: Callable[..., object]) -> Rule | None: ...

    # exceptions
    def exception(self, cls: type, args: list[Value]) -> Value: ...
    def as_exception(self, value: Value) -> Value: ...
    def raise_(self, cls: type, message: str, **facts: Value) -> NoReturn: ...
    def raise_value(self, cls: type, args: list[Value]) -> NoReturn: ...
    def handled(self) -> Value | None: ...

    # operators, truth, items, iteration
    def unary(self, symbol: str, value: Value) -> Value: ...
    def binary(self, symbol: str, left: Value, right: Value) -> Value: ...
    def compare(self, symbol: str, left: Value, right: Value) -> Value: ...
    def truth(self, value: Value) -> bool: ...
    def is_none(self, value: Value) -> bool: ...
    def is_same(self, left: Value, right: Value) -> bool: ...
    def same_or_equal(self, left: Value, right: Value) -> bool: ...
    def contains(self, base: Value, item: Value) -> bool: ...
    def get_item(self, base: Value, key: Value) -> Value: ...
    def set_item(self, base: Value, key: Value, value: Value | None) -> None: ...
    def index(self, value: Value) -> int: ...
    def index_or_none(self, value: Value) -> int | None: ...
    def length(self, value: Value) -> Value: ...
    def check_length(self, count: int) -> None: ...
    def iterate(self, value: Value) -> Value: ...
    def items(self, value: Value) -> list[Value]: ...
    def mapping_pairs(self, value: Value) -> list[tuple[Value, Value]]: ...
    def sequence_iterator(self, base: Value) -> Value: ...
    def indexing_iterator(self, base: Value) -> Value: ...
    def taken_iterator(
        self, items: list[Value], kind: type, base: Value, function: Callable[..., Any] = iter
    ) -> Value: ...
    def reversed_iterator(self, base: Any) -> Value: ...
    def sequence_operation(self, left: Any, name: str, right: Value) -> Value: ...
    def sorted(self, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]: ...
    def text_of(self, value: Value, how: str, spec: str = "") -> Value: ...
    def text_by(self, function: Callable[..., str], args: Sequence[Value]) -> Value | None: ...
    def printable(self, value: Value) -> Any: ...

    # numbers
    def computed(self, function: Callable[..., Any], *values: Value) -> Value: ...
    def on_numbers(self, function: Callable[..., Any], *values: Value) -> Value: ...
    def number_now(self, value: Value) -> Any: ...
    def number_tensor(self, value: Any) -> Any: ...
    def float_of(self, value: Value) -> Value: ...
    def from_sym(self, found: object) -> Value: ...
    def specialise(self, value: Any, kind: type) -> Any: ...
    def is_dynamic(self, source: Source, value: int | float) -> bool: ...

    # attributes and names
    def get_attr(self, value: Value, name: str) -> Value: ...
    def attr_or_none(self, value: Value, name: str) -> Value | None: ...
    def look_up(self, cls: type, name: str, after: type | None = None) -> Any: ...
    def class_attribute(self, owner: type, name: str, found: object) -> Value: ...
    def overrides(self, cls: type, *names: str) -> bool: ...
    def instance_dict(self, value: Any) -> Value: ...
    def namespace(self, space: dict[str, Any]) -> Namespace: ...
    def cell(self, source: Source, given: CellType) -> Cell: ...
    def load_local(self, frame: Frame, name: str) -> Value: ...
    def bound_locals(self) -> dict[str, Value]: ...
    def unbind(self, frame: Frame, name: str) -> None: ...
    def is_bound(self, frame: Frame, name: str) -> bool: ...
    def unread_local(self, frame: Frame, name: str) -> Value | None: ...

    # between values and objects
    def wrap(self, source: Source, given: object) -> Value: ...
    def wrap_tensor(self, source: Source, given: Tensor) -> Any: ...
    def from_python(self, value: object) -> Value: ...
    def constant_of(self, value: Value) -> Any: ...
    def real_of(self, value: Value) -> Any: ...
    def lasting(self, value: Value) -> Any: ...
    def new_tuple(self, items: Sequence[Value]) -> Value: ...
    def new_list(self, items: Sequence[Value]) -> Value: ...
    def new_dict(self, items: dict[str, Value]) -> Value: ...
    def array_of_tensor(self, value: Any) -> Value: ...
    def register_hook(self, tensor: Any, name: str, hook: Value) -> Value: ...
    def wrapped_again(self, wrapper: Any) -> tuple[Callable[..., Tensor], list[Value]]: ...
    def note_copy(self, base: Any, copy: Any) -> None: ...

    # guards and sources
    def guard(self, source: Source, condition: Condition, why: str, seen: str = "") -> None: ...
    def known_source(self, value: object, fixed: bool = False, label: str = "") -> Known: ...

    # frames and places
    @property
    def generators(self) -> Sequence[Value]: ...
    def make_frame(self, code: Code, globals: dict[str, Any], locals: dict[str, Value]) -> Frame: ...
    def decode(self, code: CodeType) -> Code: ...
    def resume(self, frame: Frame) -> Value | None: ...
    def step(self, frame: Frame) -> None: ...
    def inside_module(self, module: Any) -> AbstractContextManager[None]: ...
    def checkpointed(self) -> AbstractContextManager[None]: ...
    def here(self) -> str: ...
    def user_stack(self) -> tuple[str, ...]: ...
