"""functools, operator, copy, types and contextlib."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import operator
import types
import typing
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from explorer.capture import reasons
from explorer.capture.model import BINARY, COMPARE, INPLACE, UNARY
from explorer.capture.rules import positional
from explorer.capture.values.base import Value, unsupported
from explorer.capture.values.classes import ClassValue
from explorer.capture.values.constant import Constant
from explorer.capture.values.functions import BoundMethod, FunctionValue, PartialValue, WeakReference
from explorer.capture.values.mappings import DictValue
from explorer.capture.values.objects import ObjectValue
from explorer.capture.values.sequences import ListValue, SequenceValue, TupleValue
from explorer.capture.values.sets import SetValue
from explorer.capture.values.size import SizeValue

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer

NONE = Constant(None)


@positional(functools.reduce)
def _reduce(t: Tracer, function: Value, items: Value, start: Value | None = None) -> Value:
    """The function of the total so far and the next item."""
    rest = t.items(items)
    if start is None:
        if not rest:
            t.raise_(TypeError, "reduce() of empty iterable with no initial value")
        start, *rest = rest
    for item in rest:
        start = t.call(function, [start, item], {})
    return start


@positional(functools.partial)
def _partial(t: Tracer, function: Value, *args: Value, **kwargs: Value) -> Value:
    """A call with some arguments given."""
    return PartialValue(function, list(args), kwargs)


@positional(functools.wraps)
def _wraps(t: Tracer, wrapped: Value, *args: Value, **kwargs: Value) -> Value:
    """A decorator that gives a function another's name."""

    def decorate(given: list[Value], named: dict[str, Value]) -> Value:
        function = given[0]
        if isinstance(function, FunctionValue) and function.given is None:
            for name in ("__module__", "__name__", "__qualname__", "__doc__"):
                found = t.attr_or_none(wrapped, name)
                if found is not None:
                    function.set_attr(t, name, found)
            function.set_attr(t, "__wrapped__", wrapped)
        return function

    return t.host(decorate)


@positional(operator.itemgetter)
def _itemgetter(t: Tracer, *keys: Value) -> Value:
    """A function that takes items."""

    def get(given: list[Value], named: dict[str, Value]) -> Value:
        found = [t.get_item(given[0], key) for key in keys]
        return found[0] if len(found) == 1 else TupleValue(found)

    return t.host(get)


@positional(operator.attrgetter)
def _attrgetter(t: Tracer, *names: Value) -> Value:
    """A function that takes attributes."""

    def get(given: list[Value], named: dict[str, Value]) -> Value:
        found = []
        for name in names:
            value = given[0]
            for part in t.constant_of(name).split("."):
                value = t.get_attr(value, part)
            found.append(value)
        return found[0] if len(found) == 1 else TupleValue(found)

    return t.host(get)


def _operator(symbol: str, how: str) -> Callable[..., Value]:
    def apply(t: Tracer, *args: Value) -> Value:
        """The operator itself."""
        result: Value = getattr(t, how)(symbol, *args)
        return result

    apply.__name__ = f"{how} {symbol}"
    return apply


for _symbol, (_function, _, _) in BINARY.items():
    positional(_function)(_operator(_symbol, "binary"))
for _symbol, (_function, _) in INPLACE.items():
    positional(_function)(_operator(_symbol + "=", "binary"))
for _symbol, (_function, _, _) in COMPARE.items():
    positional(_function)(_operator(_symbol, "compare"))
for _symbol, (_function, _) in UNARY.items():
    positional(_function)(_operator(_symbol, "unary"))


@positional(operator.getitem)
def _getitem(t: Tracer, base: Value, key: Value) -> Value:
    """base[key]."""
    return t.get_item(base, key)


@positional(operator.setitem)
def _setitem(t: Tracer, base: Value, key: Value, value: Value) -> Value:
    """base[key] = value."""
    t.set_item(base, key, value)
    return NONE


@positional(operator.contains)
def _contains(t: Tracer, base: Value, item: Value) -> Value:
    """item in base."""
    return Constant(t.contains(base, item))


@positional(operator.is_)
def _is(t: Tracer, left: Value, right: Value) -> Value:
    """left is right."""
    return Constant(t.is_same(left, right))


@positional(operator.is_not)
def _is_not(t: Tracer, left: Value, right: Value) -> Value:
    """left is not right."""
    return Constant(not t.is_same(left, right))


@positional(operator.truth)
def _truth(t: Tracer, value: Value) -> Value:
    """bool(value)."""
    return Constant(t.truth(value))


@positional(operator.not_)
def _not(t: Tracer, value: Value) -> Value:
    """not value."""
    return Constant(not t.truth(value))


@positional(operator.index)
def _index(t: Tracer, value: Value) -> Value:
    """The value as an integer."""
    return value if isinstance(value, SizeValue) else Constant(t.index(value))


@positional(copy.copy)
def _copy(t: Tracer, value: Value) -> Value:
    """A shallow copy."""
    if isinstance(value, (Constant, ClassValue, FunctionValue, TupleValue)):
        return value
    if isinstance(value, (ListValue, DictValue, SetValue)) and value.cls.__module__ in ("builtins", "collections"):
        return value.method(t, "copy", [], {})
    if (
        isinstance(value, ObjectValue)
        and not isinstance(value, SequenceValue)
        and not t.overrides(value.cls, "__copy__", "__reduce_ex__")
    ):
        if isinstance(value, torch.nn.Module) or issubclass(value.cls, torch.nn.Module):
            unsupported(reasons.UNTRACEABLE_CALL, "copy of a module")
        made = t.new_instance([ClassValue(value.cls)], {})
        assert isinstance(made, ObjectValue)
        if isinstance(value, DictValue) and isinstance(made, DictValue):
            made.entries = {k: list(e) for k, e in value.as_plain().entries.items()}
        for name in value.own_names():
            found = value.own(t, name)
            if found is not None:
                t.effects.set_attr(made, name, found)
        return made
    unsupported(reasons.UNTRACEABLE_CALL, f"copy of {value.describe()}")


@positional(copy.deepcopy)
def _deepcopy(t: Tracer, value: Value, memo: Value | None = None) -> Value:
    """Of constants and containers of them."""
    if isinstance(value, (Constant, ClassValue, FunctionValue)):
        return value
    if isinstance(value, (TupleValue, ListValue)):
        return type(value)([_deepcopy(t, item) for item in t.items(value)], value.cls)
    if isinstance(value, DictValue) and value.cls in (dict, collections.OrderedDict):
        made = DictValue(value.cls)
        for key, item in value.pairs(t):
            made.put(key, _deepcopy(t, item))
        return made
    unsupported(reasons.UNTRACEABLE_CALL, f"deepcopy of {value.describe()}")


@positional(types.MappingProxyType)
def _proxy(t: Tracer, mapping: Value) -> Value:
    """A view of a mapping."""
    return mapping


@positional(types.MethodType)
def _method_type(t: Tracer, function: Value, bound: Value) -> Value:
    """A bound method."""
    return BoundMethod(function, bound)


@positional(types.SimpleNamespace)
def _namespace(t: Tracer, **kwargs: Value) -> Value:
    """An object with these attributes."""
    made = ObjectValue(types.SimpleNamespace)
    made.overlay.update(kwargs)
    return made


@positional(weakref.ref)
def _weak_reference(t: Tracer, target: Value, callback: Value = NONE) -> Value:
    """A weak reference, without a callback."""
    if not t.is_none(callback):
        unsupported(reasons.UNTRACEABLE_CALL, "weakref.ref with a callback")
    if isinstance(target, (Constant, TupleValue)) or isinstance(target, ListValue) and target.cls is list:
        t.raise_(TypeError, f"cannot create weak reference to '{target.python_type().__name__}' object")
    return WeakReference(target)


@positional(typing.cast)
def _cast(t: Tracer, kind: Value, value: Value) -> Value:
    """The value."""
    return value


@positional(contextlib.nullcontext)
def _nullcontext(t: Tracer, enter_result: Value = NONE) -> Value:
    """A context manager that does nothing."""
    made = ObjectValue(contextlib.nullcontext)
    made.overlay["enter_result"] = enter_result
    return made
