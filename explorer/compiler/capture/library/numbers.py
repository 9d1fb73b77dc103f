"""Numbers and text: len, int, str, format, min, sum ..."""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.messages import is_checked_later
from explorer.compiler.capture.model import binary, compare
from explorer.compiler.capture.rules import each, positional, positional_each, table
from explorer.compiler.capture.values.arrays import ArrayValue
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import (
    Constant,
    FloatValue,
    IntOrFloat,
    NumberValue,
    SizeValue,
    TextValue,
    computed,
    is_number,
    number_now,
    on_numbers,
)
from explorer.compiler.capture.values.derived import DerivedValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import MISSING, ExceptionValue, ObjectValue, look_up
from explorer.compiler.capture.values.overrides import PLAIN
from explorer.compiler.capture.values.sequences import SequenceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorOrNumber, TensorValue, graph_call, note_copy
from explorer.core.libraries import name_in_messages
from explorer.core.reasons import unsupported


@positional(bool)
def _bool(t: Tracer, value: Value = Constant(False)) -> Value:
    """The truth of the value; a number of the graph, where it is a tensor's and a setting allows it."""
    if t.tape.scalar_outputs and (isinstance(value, TensorValue) or isinstance(value, ArrayValue) and value.is_single):
        value = value.method(t, "item", [], {})
    if isinstance(value, IntOrFloat):
        value = value.as_float()
    if isinstance(value, NumberValue):
        return value if value.python_type() is bool else on_numbers(t, operator.ne, value, Constant(0))
    return Constant(value.truth(t))


@positional_each(int, float, complex)
def _converted_number(kind: type, t: Tracer, value: Value = Constant(0), *rest: Value) -> Value:
    """A conversion of a known number or text; of a tensor it breaks."""
    if rest:
        return Constant(t.python(kind, value.known(t), *(each.known(t) for each in rest)))
    if isinstance(value, (TensorValue, ArrayValue)):
        return value.method(t, f"__{kind.__name__}__", [], {})
    if isinstance(value, IntOrFloat):
        value = value.as_float()
    if isinstance(value, FloatValue):
        return value if kind is float else computed(t, kind, value)
    if isinstance(value, SizeValue):
        if kind is int and isinstance(value.sym, torch.SymInt):
            return value
        if kind is float:
            return on_numbers(t, torch.sym_float, value)
        if kind is int and isinstance(value.sym, torch.SymFloat) and isinstance(value, NumberValue):
            return on_numbers(t, torch.sym_int, value)
        return Constant(kind(value.specialize(t, value.python_type())))
    for name in (f"__{kind.__name__}__", "__float__" if kind is complex else "__index__", "__index__"):
        if isinstance(value, ObjectValue) and look_up(t, value.cls, name) is not MISSING:
            found = value.special(t, name, [])
            return found if name == f"__{kind.__name__}__" else Constant(kind(found.known(t)))
    return Constant(t.python(kind, value.known(t)))


def text_of(t: Tracer, value: Value, how: str, spec: str = "") -> Value:
    """str, repr, ascii or format of a value."""
    if made := text_by(t, _TEXTS[how], [value, Constant(spec)] if how == "format" else [value]):
        return made
    if isinstance(value, TensorValue):
        number = value.number_given(t) if how == "format" and t.tape.scalar_outputs else None
        if number is None:
            unsupported(reasons.ITEM, f"{how} of {value.describe()}")
        value = number
    if isinstance(value, ObjectValue):
        if how == "format":
            if isinstance(look_up(t, value.cls, "__format__"), types.FunctionType):
                return value.special(t, "__format__", [Constant(spec)])
            if spec and look_up(t, value.cls, "__format__") is object.__format__:
                t.raise_(TypeError, f"unsupported format string passed to {name_in_messages(value.cls)}.__format__")
            if spec and isinstance(value, DerivedValue):
                return text_of(t, value.plain, how, spec)
        name = "__repr__" if how in ("repr", "ascii") else "__str__"
        found = look_up(t, value.cls, name)
        if found is object.__str__:
            found, name = look_up(t, value.cls, "__repr__"), "__repr__"
        if isinstance(found, types.FunctionType) or isinstance(value, ExceptionValue):
            text = value.special(t, name, [])
            return text if how != "ascii" else Constant(ascii(text.known(t))[1:-1])
        if isinstance(value, (SequenceValue, DictValue)) and not spec and found in _OF_CONTAINERS:
            return Constant(_OF_CONTAINERS[found](t, value))
    if isinstance(value, DerivedValue):
        value = value.plain
    if isinstance(value, ObjectValue) and _is_alias(value):
        return Constant(t.python(format if how == "format" else str, value.given))
    if how == "format":
        return Constant(t.python(format, value.known(t), spec))
    return Constant(t.python(_TEXTS[how], value.known(t)))


_TEXTS: dict[str, Callable[..., str]] = {"str": str, "repr": repr, "ascii": ascii, "format": format}


def text_by(t: Tracer, function: Callable[..., str], args: Sequence[Value]) -> TextValue | None:
    """The text that a function of Python makes, where some of its arguments are not known and it raises for none."""
    if not any(map(_is_open, args)):
        return None
    for number in _TRIED:
        given = [_with(arg, number) for arg in args]
        if MISSING in given:
            return None
        try:
            function(*given)
        except (ValueError, TypeError, LookupError, OverflowError, AttributeError):
            return None  # the caller gets the error again, with the number
    return TextValue(t, function, args)


_TRIED = (1, -1, 1 << 40)
"""If a format raises for any number, it raises for one of these: a code point is neither negative nor that large."""


def _is_open(value: Value) -> bool:
    if isinstance(value, TupleValue):
        return value.cls in (tuple, torch.Size) and any(isinstance(i, Value) and _is_open(i) for i in value.items)
    if isinstance(value, TextValue):
        return value.unread is not None
    return isinstance(value, (FloatValue, SizeValue))


def _with(value: object, number: int) -> Any:
    """An object like the value, with this number where the number is not known; MISSING if it is not a number, text or
    tuple."""
    if isinstance(value, TupleValue) and value.cls in (tuple, torch.Size):
        parts = [_with(item, number) for item in value.items]
        return MISSING if MISSING in parts else value.cls(parts)
    if isinstance(value, Constant):
        return value.value if not _is_open(value) else ""
    return value.python_type()(number) if isinstance(value, Value) and _is_open(value) else MISSING


def joined(t: Tracer, parts: Sequence[Value]) -> Value:
    """The text that the parts of an f-string make together."""
    return text_by(t, _joined, parts) or Constant("".join(each.known(t) for each in parts))


def _joined(*parts: str) -> str:
    return "".join(parts)


def _is_alias(value: ObjectValue) -> bool:
    """Whether the text of the object itself is its text: list[int], a union, what else does not change."""
    unchanging = value.cls.__module__ in ("typing", "types") and value.cls is not types.SimpleNamespace
    return unchanging and value.given is not MISSING


def _listed(t: Tracer, items: Iterable[Value]) -> str:
    return ", ".join(text_of(t, item, "repr").known(t) for item in items)


_OF_CONTAINERS: dict[Any, Callable[[Tracer, Any], str]] = {
    list.__repr__: lambda t, value: f"[{_listed(t, value.unpack(t))}]",
    tuple.__repr__: lambda t, value: f"({_listed(t, value.unpack(t))}{',' * (len(value.items) == 1)})",
    dict.__repr__: lambda t, value: "{" + ", ".join(": ".join(
        text_of(t, part, "repr").known(t) for part in pair) for pair in value.pairs(t)) + "}",
}  # fmt: skip


class Printable:
    """A value in the place of its object, for str.format and %."""

    def __init__(self, t: Tracer, value: Value) -> None:
        self._t, self._value = t, value

    def __str__(self) -> str:
        return str(text_of(self._t, self._value, "str").known(self._t))

    def __repr__(self) -> str:
        return str(text_of(self._t, self._value, "repr").known(self._t))

    def __format__(self, spec: str) -> str:
        return str(text_of(self._t, self._value, "format", spec).known(self._t))

    def __getattr__(self, name: str) -> Any:
        return self._t.printable(self._t.get_attr(self._value, name))

    def __int__(self) -> int:
        return int(_converted_number(int, self._t, self._value).known(self._t))

    def __float__(self) -> float:
        return float(_converted_number(float, self._t, self._value).known(self._t))

    def __index__(self) -> int:
        return self._value.as_index(self._t)


class PrintableItems(Printable):
    """A printable value with items. The operator % uses it as a mapping, and need not print every item."""

    def __getitem__(self, key: object) -> Any:
        return self._t.printable(self._t.get_item(self._value, Constant(key)))


@positional(str)
def _str(t: Tracer, value: Value = Constant(""), *rest: Value, **named: Value) -> Value:
    """str(value), str(bytes, encoding, errors)."""
    if not rest and not named:
        return text_of(t, value, "str")
    how = {name: each.known(t) for name, each in named.items()}
    return Constant(t.python(str, value.known(t), *(each.known(t) for each in rest), **how))


@positional(bytes)
def _bytes(t: Tracer, value: Value = Constant(b""), *rest: Value, **named: Value) -> Value:
    """bytes(value)."""
    if isinstance(value, ObjectValue) and look_up(t, value.cls, "__bytes__") is not MISSING:
        return value.special(t, "__bytes__", [])
    how = {name: each.known(t) for name, each in named.items()}
    return Constant(t.python(bytes, value.known(t), *(each.known(t) for each in rest), **how))


@positional(hash)
def _hash(t: Tracer, value: Value) -> Value:
    """hash(value), of what does not lie elsewhere in each run."""
    if isinstance(value, ObjectValue) and look_up(t, value.cls, "__hash__") is not object.__hash__:
        return value.special(t, "__hash__", [])
    if isinstance(value, TensorValue) and look_up(t, value.cls, "__hash__") is torch.Tensor.__hash__:
        return t.from_python(id).call(t, [value], {})
    return Constant(t.python(hash, value.known(t)))


@positional(abs)
def _abs(t: Tracer, value: Value) -> Value:
    """abs(value)."""
    if isinstance(value, TensorValue):
        return graph_call(t, "call_function", operator.abs, [value], {})
    if isinstance(value, ArrayValue):
        return value.operate(t, operator.abs, [value])
    if isinstance(value, FloatValue):
        return computed(t, abs, value)
    if isinstance(value, SizeValue):
        return on_numbers(t, operator.abs, value)
    if isinstance(value, ObjectValue):
        return value.special(t, "__abs__", [])
    return Constant(t.python(abs, value.known(t)))


@each(round, math.floor, math.ceil, math.trunc)
def _rounded(function: Callable[..., object], t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of the class, or of the function of a number."""
    if args and isinstance(args[0], ObjectValue):
        return args[0].special(t, f"__{function.__name__}__", [*args[1:], *kwargs.values()])
    if args and isinstance(args[0], TensorValue):
        unsupported(reasons.ITEM, f"{function.__name__}({args[0].describe()})")
    if any(isinstance(arg, FloatValue) for arg in args) and not kwargs:
        return computed(t, function, *args)
    if function is round and len(args) == 2 and args[1].is_none():
        args = args[:1]
    if len(args) == 1 and isinstance(args[0], SizeValue) and not kwargs:
        return on_numbers(t, function, args[0])
    if function is round and len(args) == 2 and isinstance(args[0], SizeValue) and not kwargs:
        digits = args[1].as_index(t)
        if args[0].python_type() is int and digits >= 0:
            return args[0]  # an integer has no digits after the point
        if args[0].python_type() is float:
            return on_numbers(t, round, args[0], Constant(digits))
    plain = [arg.known(t) for arg in args]
    return t.from_python(t.python(function, *plain, **{k: v.known(t) for k, v in kwargs.items()}))


@positional(math.sqrt)
def _sqrt(t: Tracer, value: Value) -> Value:
    """math.sqrt(value); that a number which only the graph knows is not negative is checked after it."""
    if isinstance(value, NumberValue):
        number = t.from_python(float).call(t, [value], {})
        not_negative = compare(t, ">=", number, Constant(0.0))
        is_known = not isinstance(not_negative, NumberValue) and not_negative.truth(t)
        if is_known or is_checked_later(t, not_negative, ValueError, ("math domain error",)):
            return on_numbers(t, torch.sym_sqrt, number)
    elif isinstance(value, (SizeValue, FloatValue)):
        return computed(t, math.sqrt, value)
    return t.from_python(t.python(math.sqrt, value.known(t)))


@positional(divmod)
def _divmod(t: Tracer, left: Value, right: Value) -> Value:
    """(left // right, left % right)."""
    for value, other, name in ((left, right, "__divmod__"), (right, left, "__rdivmod__")):
        if isinstance(value, ObjectValue) and look_up(t, value.cls, name) is not MISSING:
            return value.special(t, name, [other])
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):  # tensors have no __divmod__
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            unsupported(reasons.UNTRACEABLE_CALL, "divmod of an array and a tensor, which NumPy converts")
        kinds = " and ".join(f"'{name_in_messages(each.python_type())}'" for each in (left, right))
        t.raise_(TypeError, f"unsupported operand type(s) for divmod(): {kinds}")
    numbers = is_number(left) and is_number(right) and not isinstance(right, NumberValue)
    if numbers and number_now(t, right) == 0:  # of floats, the error is not that of //
        return on_numbers(t, divmod, left, right)
    return TupleValue([binary(t, "//", left, right), binary(t, "%", left, right)])


@positional(pow)
def _pow(t: Tracer, left: Value, right: Value, modulus: Value | None = None) -> Value:
    """left ** right."""
    if modulus is not None:
        return Constant(t.python(pow, left.known(t), right.known(t), modulus.known(t)))
    return binary(t, "**", left, right)


def _is_number_tensor(value: Value) -> bool:
    return isinstance(value, TensorValue) and value.cls in PLAIN and value.fake.dim() == 0


def _better(t: Tracer, symbol: str, best: Value, other: Value) -> Value:
    """The better of two tensors of no dimension or numbers; a tensor, where one of them is."""
    t.torch_state.leave_unreported()
    better = compare(t, symbol, other, best)
    if isinstance(better, Constant):
        return other if better.value else best
    return graph_call(t, "call_function", torch.where, [better, other, best], {})


def _chosen(t: Tracer, symbol: str, best: Value, other: Value) -> Value:
    """The better of two tensors of no dimension, with Python's answer for ties and for what is not a number."""
    found = _better(t, symbol, best, other)
    note_copy(t, best, found)
    note_copy(t, other, found)
    return found


def _are_alike(tensors: Sequence[TensorValue]) -> bool:
    """Whether it makes no difference which of these tensors a result is: they have one dtype, and no gradients."""
    of_one_kind = len({each.fake.dtype for each in tensors}) == 1 and tensors[0].fake.is_floating_point()
    return of_one_kind and not (torch.is_grad_enabled() and any(each.fake.requires_grad for each in tensors))


@positional_each(min, max)
def _extreme(
    function: Callable[..., object], t: Tracer, *args: Value, key: Value | None = None, default: Value | None = None
) -> Value:
    """The smallest or largest; of tensors by comparing, as Python does (which breaks)."""
    symbol = "<" if function is min else ">"
    if not args or len(args) > 1 and default is not None:
        t.python(function, *range(len(args)), **({} if default is None else {"default": 0}))
    items = args[0].unpack(t) if len(args) == 1 else list(args)
    if not items:
        if default is not None:
            return default
        t.python(function, ())
    symbolic = any(isinstance(i, SizeValue) for i in items) and all(map(is_number, items))
    mixed = key is None and symbolic and any(isinstance(i, IntOrFloat) for i in items)
    kinds = {i.python_type() for i in items} if key is None and symbolic and not mixed else set()
    torch_function = torch.sym_min if function is min else torch.sym_max
    if len(kinds) == 1:
        return functools.reduce(lambda a, b: on_numbers(t, torch_function, a, b), items)
    in_graph = any(isinstance(i, NumberValue) for i in items) and not any(isinstance(i, FloatValue) for i in items)
    if mixed or {float} < kinds <= {int, float, bool} and in_graph:
        floats = [t.from_python(float).call(t, [item], {}) for item in items]
        best = functools.reduce(lambda a, b: on_numbers(t, torch_function, a, b), floats)
        assert isinstance(best, NumberValue)
        return IntOrFloat(best, function, items)
    copies = all(map(_is_number_tensor, items)) and len({(i.fake.dtype, i.fake.requires_grad) for i in items}) == 1  # type: ignore[attr-defined]
    if key is None and copies and (torch.is_grad_enabled() or not items[0].fake.requires_grad):  # type: ignore[attr-defined]
        return functools.reduce(lambda a, b: _chosen(t, symbol, a, b), items)
    tensors = [i for i in items if isinstance(i, TensorValue) and _is_number_tensor(i)]
    if key is None and tensors and all(i in tensors or is_number(i) for i in items) and _are_alike(tensors):
        best = functools.reduce(lambda a, b: _better(t, symbol, a, b), items)
        assert isinstance(best, TensorValue)
        made = TensorOrNumber(best, function, items)
        for each in tensors:
            note_copy(t, each, made)
        return made
    best, score = items[0], items[0] if key is None else key.call(t, [items[0]], {})
    for item in items[1:]:
        other = item if key is None else key.call(t, [item], {})
        if compare(t, symbol, other, score).truth(t):
            best, score = item, other
    return best


@positional(sum)
def _sum(t: Tracer, items: Value, start: Value = Constant(0)) -> Value:
    """Additions, from left to right."""
    iterator, total = t.iterate(items), start
    while (item := iterator.next(t)) is not None:
        total = binary(t, "+", total, item)
    return total


@positional(any)
def _any(t: Tracer, items: Value) -> Value:
    """Whether one item is true; stops there."""
    iterator = t.iterate(items)
    while (item := iterator.next(t)) is not None:
        if item.truth(t):
            return Constant(True)
    return Constant(False)


@positional(all)
def _all(t: Tracer, items: Value) -> Value:
    """Whether every item is true; stops at the first that is not."""
    iterator = t.iterate(items)
    while (item := iterator.next(t)) is not None:
        if not item.truth(t):
            return Constant(False)
    return Constant(True)


@positional(math.prod)
def _prod(t: Tracer, items: Value, *, start: Value = Constant(1)) -> Value:
    """Multiplications, from left to right."""
    iterator, total = t.iterate(items), start
    while (item := iterator.next(t)) is not None:
        total = binary(t, "*", total, item)
    return total


table({
    len: lambda t, value: t.length(value),
    repr: lambda t, value: text_of(t, value, "repr"),
    format: lambda t, value, spec=Constant(''): text_of(t, value, "format", spec.known(t)),
})  # fmt: skip
