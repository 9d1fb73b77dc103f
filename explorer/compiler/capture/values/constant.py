"""Values that are known while tracing: numbers, strings, dtypes, enum members, ranges; symbolic sizes and what is
computed from them. Stock counterpart: variables/tensor.py, SymNodeVariable."""

from __future__ import annotations

import enum
import functools
import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy
import torch
import torch.nn.attention
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols

from explorer.compiler.capture import guards, reasons
from explorer.compiler.capture.guards import Equals, Has, IsObject, TypeIs
from explorer.compiler.capture.tape import first_line
from explorer.compiler.capture.values.base import (
    NotConstant,
    Reconstructor,
    Tracer,
    Value,
    lacks_to_set,
    type_name,
)
from explorer.core.libraries import is_written_in_c
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Computed, Condition, Contained, Source
from explorer.ir.description import is_of

PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme,
)  # fmt: skip

_BOUND = type(torch.nn.attention.SDPBackend)
"""The class of classes that C++ defines; those with __members__ are enumerations."""


def is_plain(value: object) -> bool:
    """Whether Python treats the object as an immutable piece of data, so that equality is all there is to it."""
    return (
        type(value) in PLAIN
        or issubclass(type(value), (np.generic, np.dtype))
        or (is_of(value, enum.Enum) and _stands_for_its_value(value))
        or (type(type(value)) is _BOUND and hasattr(type(value), "__members__"))
    )


def _stands_for_its_value(member: enum.Enum) -> bool:
    """Whether a member of an enumeration is no more than a name and a value: not where it holds what may change, but
    for one that is a number or a text, or its class says in Python what operators or attributes of it are."""
    is_data = any(base is not object and is_written_in_c(base) for base in type(member).__mro__)
    of_plain = is_data or vars(member).keys() <= _OF_MEMBERS and is_plain(member._value_)
    return of_plain and not _says_more(type(member))


_OF_MEMBERS = {"_name_", "_value_", "__objclass__", "_sort_order_", "_inverted_"}
_AT_CREATION = {"__new__", "__init__", "__init_subclass__", "_missing_", "_generate_next_value_"}


@functools.cache
def _says_more(cls: type) -> bool:
    own = (base for base in cls.__mro__ if not is_written_in_c(base) and base.__module__ != "enum")
    found = [(name, each) for base in own for name, each in vars(base).items() if name not in _AT_CREATION]
    read = (getattr(each, "fget", None) or getattr(each, "func", None) for _, each in found)
    special = (each for name, each in found if name[:2] == "__" and isinstance(each, types.FunctionType))
    return any(getattr(each, "__module__", "enum") != "enum" for each in (*special, *filter(None, read)))


class Constant(Value):
    """An immutable Python object."""

    def __init__(self, value: object, source: Source | None = None) -> None:
        self._value = value
        self.source = source

    @property
    def kind(self) -> type:
        """Its type, which is guarded in any case."""
        return type(self._value)

    @property
    def shared(self) -> bool:
        return self._value is None

    @property
    def value(self) -> Any:
        if self.unread is not None:
            self.read_all()
            self.was_read()
        return self._value

    def condition(self) -> Condition:
        if self._value is None or isinstance(self._value, (bool, enum.Enum)):
            return IsObject(self._value)
        is_nan = isinstance(self._value, float) and math.isnan(self._value)
        return guards.is_nan() if is_nan else Equals(self._value)

    def guard(self, t: Tracer) -> None:
        t.guards.on(self.source, self.condition(), "a Python value is a constant in the graph, so it is guarded")

    def python_type(self) -> type:
        return self.kind

    def constant(self) -> Any:
        return self.value

    def is_none(self) -> bool:
        return self.value is None

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value | None:
        if all(isinstance(each, Constant) for each in operands):
            return t.from_python(t.python(function, *(each.value for each in operands)))  # type: ignore[attr-defined]
        is_text = function is operator.mod and operands[0] is self and isinstance(self.value, str)
        return self._interpolated(t, operands[1]) if is_text else None

    def operate_in_place(self, t: Tracer, function: Callable[..., object], other: Value) -> Value | None:
        return self.operate(t, function, [self, other]) if isinstance(other, Constant) else None

    def operator_method(self, t: Tracer, name: str, other: Value) -> Value | None:
        has_one = other.plain is not None and hasattr(self.value, name)
        return self.method(t, name, [other.plain], {}) if has_one and other.plain is not None else None

    def _interpolated(self, t: Tracer, given: Value) -> Value:
        """text % given."""
        if made := t.text_by(str.__mod__, [self, given]):
            return made
        many = issubclass(given.python_type(), tuple)
        plain = tuple(map(t.printable, given.unpack(t))) if many else t.printable(given)
        return Constant(t.python(operator.mod, self.value, plain))

    def truth(self, t: Tracer) -> bool:
        return bool(t.python(bool, self.value))

    def get_attr(self, t: Tracer, name: str) -> Value:
        if isinstance(self.value, enum.Enum) and name not in _OF_MEMBERS:
            source = self.source or t.objects.known(self.value)
            if name in vars(self.value):
                return t.wrap(Attr(source, name), vars(self.value)[name])
            if name == "__dict__":
                unsupported(reasons.ATTRIBUTE, f"{self.value!r}.{name}")
            t.guards.on(source, Has(name, False, "attribute"), "the object itself does not have it")
        found = t.python(getattr, self.value, name)
        if callable(found) and not isinstance(found, type) and not is_plain(found):
            if hasattr(found, "__code__") or hasattr(found, "__func__"):
                if isinstance(self.value, enum.Enum):
                    return t.bind(t.from_python(getattr(found, "__func__", found)), self)
                unsupported(reasons.ATTRIBUTE, f"{self.value!r}.{name}")
            return t.builtin_method(self, name, getattr(type(self.value), name, None))
        return t.from_python(found)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if type(self.value) not in PLAIN:
            unsupported(reasons.ATTRIBUTE, f"setting {self.value!r}.{name}")
        message = f"attribute '{name}' is read-only" if hasattr(self.value, name) else lacks_to_set(name)
        t.raise_(AttributeError, f"'{type_name(type(self.value))}' object {message}")

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Methods of immutable objects are pure: call them."""
        if isinstance(self.value, (str, bytes)) and name == "join":
            args = [_to_join(t, a) for a in args]
        if isinstance(self._value, str) and name in ("format", "__mod__") and not kwargs:
            if made := t.text_by(getattr(str, name), [self, *args]):
                return made
        is_printed = isinstance(self.value, str) and name in ("format", "__mod__")
        plain = [t.printable(a) if is_printed else a.known(t) for a in args]
        named = {k: t.printable(v) if is_printed else v.known(t) for k, v in kwargs.items()}
        return t.from_python(t.python(getattr(self.value, name), *plain, **named))

    def get_item(self, t: Tracer, key: Value) -> Value:
        return t.from_python(t.python(lambda: self.value[key.known(t)]))

    def contains(self, t: Tracer, item: Value) -> bool:
        return bool(t.python(lambda: item.known(t) in self.value))

    def length(self, t: Tracer) -> Value:
        return Constant(t.python(len, self.value))

    def iterate(self, t: Tracer) -> Value:
        t.python(iter, self.value)
        return t.sequence_iterator(self)

    def reconstruct(self, r: Reconstructor) -> None:
        r.constant(self.value)

    def describe(self) -> str:
        text = repr(self._value)
        return text if len(text) < 60 else text[:57] + "..."


def _to_join(t: Tracer, given: Value) -> Value:
    """The items that str.join is given, which has words of its own for what is no iterable."""
    return t.from_python(t.iterate_or("can only join an iterable", given).unpack(t))


class Null(Value):
    """CPython's empty slot beside a callable, or an unbound local that is put aside."""

    of_type = type(None)
    shared = True

    def describe(self) -> str:
        return "null"


NULL = Null()


class TextValue(Constant):
    """A text that `function` makes of numbers which are not known. It is made anew in each call; once something asks
    what it is, the numbers are known, and guarded."""

    def __init__(self, t: Tracer, function: Callable[..., str], args: Sequence[Value]) -> None:
        super().__init__("")
        self.function = function
        self.args = args
        self.unread = t

    def guard(self, t: Tracer) -> None:
        self._value = t.python(self.function, *(each.known(t) for each in self.args))

    def get_attr(self, t: Tracer, name: str) -> Value:
        return t.builtin_method(self, name, getattr(str, name)) if name in _TEXTS_OF_TEXT else super().get_attr(t, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        made = t.text_by(getattr(str, name), [self, *args]) if name in _TEXTS_OF_TEXT and not kwargs else None
        return made or super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.unread is None:
            r.constant(self.value)
        else:
            r.call(self.function, self.args)

    def describe(self) -> str:
        return super().describe() if self.unread is None else "a text of sizes or numbers"


_TEXTS_OF_TEXT = frozenset((
    "capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip", "removeprefix", "removesuffix",
    "replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill",
))  # fmt: skip
"""Methods of a text that make another, whatever the text is."""


class Offset(Constant):
    """The place where an exception was raised, for the line of a traceback. After reconstruction it is the function's
    start: compiled bytecode has other offsets."""

    def constant(self) -> Any:
        return 0


# ------------------------------------------------------------------------------------------- numbers that are not known


_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def is_unbacked(number: object) -> bool:
    """Whether no input determines the symbolic number."""
    return isinstance(number, tuple(_TYPES)) and bool(free_unbacked_symbols(number))


class SizeValue(Value):
    """A number, known for the traced inputs, that the graph keeps symbolic. Asking for its value adds a shape guard."""

    precedence = 1

    def __init__(self, sym: torch.SymInt | torch.SymFloat | torch.SymBool, source: Source | None = None) -> None:
        self.sym = sym
        self.source = source

    def identity(self) -> object:
        return self

    def python_type(self) -> type:
        return _TYPES[type(self.sym)]

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value | None:
        return on_numbers(t, function, *operands) if all(map(is_number, operands)) else None

    def specialize(self, t: Tracer, kind: type) -> Any:
        """The number that it is for these inputs; guards on it."""
        try:
            found = kind(self.sym)
        except GuardOnDataDependentSymNode as error:
            unsupported(reasons.DATA_DEPENDENT_BRANCH if kind is bool else reasons.ITEM, first_line(error))
        as_what = "a branch or a test" if kind is bool else "a Python number"
        t.tape.note_shape_guards(f"it was needed as {as_what}, so the answer for these sizes was used")
        return found

    def known(self, t: Tracer) -> Any:
        return self.specialize(t, self.python_type())

    def lasting(self, t: Tracer) -> Any:
        raise NotConstant(self)

    def as_index(self, t: Tracer) -> int:
        return int(self.specialize(t, int)) if issubclass(self.python_type(), int) else super().as_index(t)

    def truth(self, t: Tracer) -> bool:
        return bool(self.specialize(t, bool))

    def key(self) -> Any:
        return self.python_type()(self.sym)  # a number from here on: ShapeEnv guards on it

    def get_attr(self, t: Tracer, name: str) -> Value:
        if not callable(getattr(self.python_type(), name, None)):
            return t.get_attr(t.from_python(self.known(t)), name)
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.from_python(self.known(t)).method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.size(self.sym)

    def shown(self, depth: int = 2) -> Contained:
        return self.changing(self.describe())  # ShapeEnv may come to know the number

    def describe(self) -> str:
        return f"size {self.sym}"


class NumberValue(SizeValue):
    """A number that only the graph knows: the node that yields it."""

    def __init__(self, sym: torch.SymInt | torch.SymFloat | torch.SymBool, node: fx.Node) -> None:
        super().__init__(sym)
        self.node = node

    def key(self) -> Any:
        unsupported(reasons.ITEM, f"hash of {self.describe()}")

    def reconstruct(self, r: Reconstructor) -> None:
        r.output(self.node)

    def describe(self) -> str:
        return f"number {self.node.name}"


class IntOrFloat(NumberValue):
    """One of several such numbers, of which some are ints and some floats. The graph has it as a float, which floating
    point tensors do not tell from an int in arithmetic; Python makes it of the numbers again. For everything else the
    graph ends."""

    def __init__(self, best: NumberValue, function: Callable[..., object], of: Sequence[Value]) -> None:
        super().__init__(best.sym, best.node)
        self.function, self.of = function, of

    def python_type(self) -> type:
        unsupported(reasons.ITEM, f"whether {self.describe()} is an int or a float")

    def as_float(self) -> NumberValue:
        return NumberValue(self.sym, self.node)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(self.function, self.of)


class FloatValue(Value):
    """A float that the frame was given, or that Python makes of such: any number will do until Python needs this one.

    The graph takes it as a tensor of no dimension, float64. Stock: specialize_float=False.
    """

    of_type = float
    precedence = 2

    def __init__(self, value: float, source: Source, asked: Tracer) -> None:
        self.value = value
        self.source: Source = source
        self.asked = asked

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value | None:
        return computed(t, function, *operands) if all(map(is_number, operands)) else None

    def known(self, t: Tracer) -> float:
        t.guards.on(self.source, Equals(self.value), "Python computed with the number, or branched on it")
        return self.value

    def number(self, t: Tracer) -> Any:
        return self.known(t)

    def truth(self, t: Tracer) -> bool:
        return computed(t, bool, self).truth(t)

    def key(self) -> Any:
        return self.known(self.asked)

    def get_attr(self, t: Tracer, name: str) -> Value:
        if not callable(getattr(float, name, None)):
            return t.get_attr(t.from_python(self.known(t)), name)
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.from_python(self.known(t)).method(t, name, args, kwargs)

    def describe(self) -> str:
        return f"float {self.source.name}"


def number_now(t: Tracer, value: Value) -> Any:
    """A number's value in this call, without a guard."""
    if isinstance(value, FloatValue):
        return value.value
    return value.python_type()(t.tape.hint(value.sym.node.expr)) if isinstance(value, SizeValue) else value.constant()


def origin_of(t: Tracer, value: Value) -> Any:
    """A number's origin: itself if it is plain, or its source; None if only the graph knows it."""
    if isinstance(value, FloatValue):
        return value.source
    if isinstance(value, SizeValue):
        return None if isinstance(value, NumberValue) else t.tape.source_of(value.sym.node.expr)
    return value.value if isinstance(value, Constant) and type(value.value) in (bool, int, float) else None


def as_computed(t: Tracer, value: Value) -> Value:
    """A symbolic float of sizes as one that Python computes; other values as they are."""
    if not isinstance(value, SizeValue) or (source := origin_of(t, value)) is None or value.python_type() is not float:
        return value
    return FloatValue(number_now(t, value), source, t)


def is_number(value: Value) -> bool:
    if isinstance(value, Constant):
        return isinstance(value.value, (int, float))
    return isinstance(value, (SizeValue, FloatValue))


_RIGHT_IS: dict[Callable[..., Any], Callable[[Any, Any], Any]] = {
    **dict.fromkeys((operator.floordiv, operator.ifloordiv, operator.mod, operator.imod, divmod), operator.ne),
    **dict.fromkeys((operator.truediv, operator.itruediv), operator.ne),
    **dict.fromkeys((operator.lshift, operator.ilshift, operator.rshift, operator.irshift), operator.ge),
}
"""The relation of the right operand to 0 for which Python has a result. The library of symbols accepts other numbers as
well."""


def _is_as_int(function: Callable[..., object], cls: type) -> bool:
    """Whether an operator does with a class of integers what it does with int."""
    name = function.__name__.strip("_")
    return cls is bool or all(getattr(cls, m, None) is getattr(int, m, None) for m in (f"__{name}__", f"__r{name}__"))


_TOTAL = frozenset(
    {operator.add, operator.sub, operator.mul, operator.neg, operator.pos, abs, bool, float}
    | {operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge}
)


def _is_total(function: object, values: Sequence[Value]) -> bool:
    """Whether it gives a number of the same class for all floats, and raises for none."""
    return function in _TOTAL or function is operator.truediv and isinstance(values[1], Constant)


def on_sizes(t: Tracer, function: Callable[..., object], *values: Value) -> Any:
    """A Python function of numbers, of which some are symbolic."""
    plain = [v.sym if isinstance(v, SizeValue) else v.known(t) for v in values]
    if getattr(function, "__module__", "") == "_operator":  # the library of symbols does not accept a bool as a number
        plain = [int(v) if isinstance(v, int) and _is_as_int(function, type(v)) else v for v in plain]
    if any(isinstance(v, (int, float)) and type(v) not in (int, float, bool) for v in plain):
        plain = [v.known(t) for v in values]  # nor an instance of a subclass
    defined = _RIGHT_IS.get(function)
    if defined is not None and not defined(plain[-1], 0):
        plain = [v if isinstance(v, float) else int(v) for v in plain]
    found = t.python(function, *plain)
    t.tape.note_shape_guards(f"the program asked {getattr(function, '__name__', 'a function')} of sizes")
    return found


def on_numbers(t: Tracer, function: Callable[..., object], *values: Value) -> Value:
    """The same as a value; a node, where one of the numbers is known only to the graph."""
    if any(isinstance(v, NumberValue) for v in values):
        return t.recorded("call_function", function, list(values), {})
    if function in (operator.mod, operator.imod) and any(v.python_type() is float for v in values):
        return computed(t, function, *values)  # the remainder of SymPy's that ShapeEnv takes is of integers
    try:
        return from_sym(t, on_sizes(t, function, *values))
    except GuardOnDataDependentSymNode as error:
        unsupported(reasons.DYNAMIC_OUTPUT, first_line(error))


def from_sym(t: Tracer, found: object) -> Value:
    """What was computed from sizes, as a value. A condition is True or False for these sizes from here on: it is no
    number to ShapeEnv, as it is to Python."""
    if not isinstance(found, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return t.from_python(found)
    made, expr = SizeValue(found), found.node.expr
    if isinstance(expr, sympy.Rel) and (apart := expr.lhs - expr.rhs).is_number:
        expr = expr.func(apart, 0)  # ShapeEnv takes 0 < 0 for true where sympy does not know that a number is real
    if expr.is_number or expr in (True, False):
        return Constant(made.python_type()(expr))
    if isinstance(found, torch.SymInt) and is_unbacked(found):
        node = t.tape.size_argument(found)
        return NumberValue(found, node) if isinstance(node, fx.Node) else Constant(node)
    if isinstance(found, torch.SymBool) and not is_unbacked(found):
        return Constant(made.specialize(t, bool))
    return made


def computed(t: Tracer, function: Callable[..., object], *values: Value) -> Value:
    """What a function of Python's makes of floats that the frame was given: computed again at each call, before the
    graph. Guards hold it to give what it gives now: a number of the same class, and no exception."""
    args = [origin_of(t, value) for value in values]
    found = _attempt(function, [number_now(t, each) for each in values]) if None not in args else None
    if type(found) not in (float, int, bool):
        return t.from_python(t.python(function, *(each.known(t) for each in values)))
    source = Computed(function, tuple(args))
    if type(found) is bool:
        t.guards.on(source, Equals(found), "a branch or a test was decided by it")
        return Constant(found)
    if not _is_total(function, values):
        t.guards.on(source, TypeIs(type(found)), "with other numbers it may raise, or give a number of another class")
    if isinstance(found, float):
        return FloatValue(found, source, t)
    assert isinstance(found, int)
    return SizeValue(t.tape.size_input(source, found), source)


def _attempt(function: Callable[..., object], numbers: Sequence[object]) -> object:
    """The result of a function of numbers; None if it raises."""
    try:
        return function(*numbers)
    except (ArithmeticError, ValueError, TypeError):
        return None
