"""Numbers and text: len, int, str, format, min, sum ..."""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from explorer.capture import reasons
from explorer.capture.model import is_number
from explorer.capture.rules import positional
from explorer.capture.values.arrays import ArrayValue, operate
from explorer.capture.values.base import Value, unsupported
from explorer.capture.values.constant import Constant
from explorer.capture.values.exceptions import ExceptionValue
from explorer.capture.values.objects import MISSING, ObjectValue
from explorer.capture.values.sequences import SequenceValue, TupleValue
from explorer.capture.values.size import SizeValue
from explorer.capture.values.tensor import TensorValue, graph_call

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer


@positional(len)
def _len(t: Tracer, value: Value) -> Value:
    """len(value)."""
    return t.length(value)


@positional(bool)
def _bool(t: Tracer, value: Value = Constant(False)) -> Value:
    """The truth of the value."""
    return Constant(t.truth(value))


def _number(kind: type) -> Callable[..., Value]:
    def convert(t: Tracer, value: Value = Constant(0), *rest: Value) -> Value:
        """A conversion of a known number or text; of a tensor it breaks."""
        if isinstance(value, TensorValue):
            unsupported(reasons.ITEM, f"{kind.__name__}({value.describe()})")
        if isinstance(value, SizeValue):
            if kind is int and isinstance(value.sym, torch.SymInt):
                return value
            if kind is float:
                return t.from_sym(torch.sym_float(value.sym))
            return Constant(kind(t.specialise(value, value.python_type())))
        for name in (f"__{kind.__name__}__", "__index__"):
            if isinstance(value, ObjectValue) and t.look_up(value.cls, name) is not MISSING:
                return value.special(t, name, [])
        return Constant(t.python(kind, t.constant_of(value), *map(t.constant_of, rest)))

    convert.__name__ = kind.__name__
    return convert


positional(int)(_number(int))
positional(float)(_number(float))
positional(complex)(_number(complex))


def text_of(t: Tracer, value: Value, how: str) -> Value:
    """str, repr, ascii or format of a value."""
    if isinstance(value, TensorValue):
        unsupported(reasons.ITEM, f"{how} of {value.describe()}")
    if isinstance(value, ObjectValue) and not isinstance(value, SequenceValue):
        name = "__repr__" if how in ("repr", "ascii") else "__str__"
        found = t.look_up(value.cls, name)
        if found is object.__str__:
            found, name = t.look_up(value.cls, "__repr__"), "__repr__"
        if isinstance(found, types.FunctionType):
            return t.call(t.bind(t.known_function(found), value), [], {})
        if isinstance(value, ExceptionValue):
            return value.method(t, name, [], {})
    function = {"str": str, "repr": repr, "ascii": ascii, "format": format}[how]
    return Constant(t.python(function, t.constant_of(value)))


@positional(str)
def _str(t: Tracer, value: Value = Constant(""), *rest: Value) -> Value:
    """str(value)."""
    return text_of(t, value, "str")


@positional(repr)
def _repr(t: Tracer, value: Value) -> Value:
    """repr(value)."""
    return text_of(t, value, "repr")


@positional(format)
def _format(t: Tracer, value: Value, spec: Value = Constant("")) -> Value:
    """format(value, spec)."""
    if isinstance(value, TensorValue):
        unsupported(reasons.ITEM, f"format of {value.describe()}")
    return Constant(t.python(format, t.constant_of(value), t.constant_of(spec)))


@positional(abs)
def _abs(t: Tracer, value: Value) -> Value:
    """abs(value)."""
    if isinstance(value, TensorValue):
        return graph_call(t, "call_function", operator.abs, [value], {})
    if isinstance(value, ArrayValue):
        return operate(t, operator.abs, value)
    if isinstance(value, SizeValue):
        return t.from_sym(t.on_sizes(abs, value))
    return (
        value.special(t, "__abs__", [])
        if isinstance(value, ObjectValue)
        else Constant(t.python(abs, t.constant_of(value)))
    )


@positional(divmod)
def _divmod(t: Tracer, left: Value, right: Value) -> Value:
    """(left // right, left % right)."""
    return TupleValue([t.binary("//", left, right), t.binary("%", left, right)])


@positional(pow)
def _pow(t: Tracer, left: Value, right: Value, modulus: Value | None = None) -> Value:
    """left ** right."""
    if modulus is not None:
        return Constant(t.python(pow, t.constant_of(left), t.constant_of(right), t.constant_of(modulus)))
    return t.binary("**", left, right)


def _extreme(symbol: str, function: Callable[..., Any]) -> Callable[..., Value]:
    def choose(t: Tracer, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
        """The smallest or largest; of tensors by comparing, as Python does (which breaks)."""
        items = t.items(args[0]) if len(args) == 1 else list(args)
        if not items:
            if default is not None:
                return default
            t.raise_(ValueError, f"{function.__name__}() arg is an empty sequence")
        if key is None and any(isinstance(i, SizeValue) for i in items) and all(map(is_number, items)):
            torch_function = torch.sym_min if function is min else torch.sym_max
            return functools.reduce(lambda a, b: t.from_sym(t.on_sizes(torch_function, a, b)), items)
        best, score = items[0], items[0] if key is None else t.call(key, [items[0]], {})
        for item in items[1:]:
            other = item if key is None else t.call(key, [item], {})
            if t.truth(t.compare(symbol, other, score)):
                best, score = item, other
        return best

    choose.__name__ = function.__name__
    return choose


positional(min)(_extreme("<", min))
positional(max)(_extreme(">", max))


@positional(sum)
def _sum(t: Tracer, items: Value, start: Value = Constant(0)) -> Value:
    """Additions, from left to right."""
    total = start
    for item in t.items(items):
        total = t.binary("+", total, item)
    return total


@positional(any)
def _any(t: Tracer, items: Value) -> Value:
    """Whether one item is true; stops there."""
    iterator = t.iterate(items)
    while (item := iterator.next(t)) is not None:
        if t.truth(item):
            return Constant(True)
    return Constant(False)


@positional(all)
def _all(t: Tracer, items: Value) -> Value:
    """Whether every item is true; stops at the first that is not."""
    iterator = t.iterate(items)
    while (item := iterator.next(t)) is not None:
        if not t.truth(item):
            return Constant(False)
    return Constant(True)


@positional(math.prod)
def _prod(t: Tracer, items: Value, *, start: Value = Constant(1)) -> Value:
    """Multiplications, from left to right."""
    total = start
    for item in t.items(items):
        total = t.binary("*", total, item)
    return total
