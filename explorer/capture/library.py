"""Rules for Python's builtins and its standard library."""

from __future__ import annotations

import builtins
import collections
import contextlib
import contextvars
import copy
import functools
import itertools
import math
import operator
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from explorer.capture import reasons
from explorer.capture.model import BINARY, COMPARE, INPLACE, UNARY, is_number
from explorer.capture.onward import as_it_was, traceback_of
from explorer.capture.rules import positional
from explorer.capture.values.base import Value, unsupported
from explorer.capture.values.constant import Constant
from explorer.capture.values.containers import DictValue, ListValue, SequenceValue, SetValue, SliceValue, TupleValue
from explorer.capture.values.functions import BoundMethod, FunctionValue, PartialValue
from explorer.capture.values.iterators import (
    CallableIterator,
    ChainIterator,
    CountIterator,
    EnumerateIterator,
    FilterIterator,
    GeneratorValue,
    MapIterator,
    RepeatIterator,
    ZipIterator,
)
from explorer.capture.values.objects import MISSING, ClassValue, ExceptionValue, ObjectValue, SuperValue, type_attribute
from explorer.capture.values.size import SizeValue
from explorer.capture.values.tensor import TensorValue, graph_call

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer

NONE = Constant(None)


# ------------------------------------------------------------------------------------------------------- what breaks


@positional(print)
def _print(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Breaks: output shows real values, in order."""
    unsupported(reasons.PRINT)


# ------------------------------------------------------------------------------------------------ types and attributes


@positional(type)
def _type(t: Tracer, value: Value, *rest: Value) -> Value:
    """type(value); making a class breaks."""
    if rest:
        unsupported(reasons.UNTRACEABLE_CALL, "making a class")
    return t.from_python(value.python_type())


def _classes(t: Tracer, value: Value) -> Any:
    return tuple(_classes(t, v) for v in t.items(value)) if isinstance(value, TupleValue) else t.real_of(value)


@positional(isinstance)
def _isinstance(t: Tracer, value: Value, classes: Value) -> Value:
    """Of the value's type."""
    wanted = _classes(t, classes)
    given = getattr(value, "given", None)
    if (
        isinstance(value, ObjectValue)
        and value.given is not MISSING
        or isinstance(value, TensorValue)
        and given is not None
    ):
        return Constant(t.python(isinstance, given, wanted))
    if isinstance(value, TensorValue):
        return Constant(t.python(isinstance, torch.empty(0), wanted))
    if isinstance(value, (Constant, ClassValue)):
        return Constant(t.python(isinstance, value.constant(), wanted))
    return Constant(t.python(issubclass, value.python_type(), wanted))


@positional(issubclass)
def _issubclass(t: Tracer, value: Value, classes: Value) -> Value:
    """Of known classes."""
    return Constant(t.python(issubclass, t.constant_of(value), _classes(t, classes)))


@positional(callable)
def _callable(t: Tracer, value: Value) -> Value:
    """Whether the type has __call__."""
    if isinstance(value, (Constant,)):
        return Constant(callable(value.value))
    return Constant(type_attribute(value.python_type(), "__call__") is not MISSING)


@positional(getattr)
def _getattr(t: Tracer, value: Value, name: Value, default: Value | None = None) -> Value:
    """The attribute, or the default where reading raises AttributeError."""
    if default is None:
        return t.get_attr(value, t.constant_of(name))
    found = t.attr_or_none(value, t.constant_of(name))
    return found if found is not None else default


@positional(hasattr)
def _hasattr(t: Tracer, value: Value, name: Value) -> Value:
    """Whether reading raises AttributeError; guarded on an object from outside."""
    wanted = t.constant_of(name)
    found = t.attr_or_none(value, wanted)
    if found is None and isinstance(value, ObjectValue) and value.given is not MISSING and value.source is not None:
        if wanted not in value.overlay and hasattr(value.given, "__dict__"):
            t.guard(value.source, "has", "==", (wanted, False, "attribute"), "the program asked for this attribute")
    return Constant(found is not None)


@positional(setattr)
def _setattr(t: Tracer, value: Value, name: Value, given: Value) -> Value:
    """value.name = given."""
    value.set_attr(t, t.constant_of(name), given)
    return NONE


@positional(delattr)
def _delattr(t: Tracer, value: Value, name: Value) -> Value:
    """del value.name."""
    value.set_attr(t, t.constant_of(name), None)
    return NONE


@positional(vars)
def _vars(t: Tracer, value: Value) -> Value:
    """The instance's dictionary."""
    return t.get_attr(value, "__dict__")


@positional(id)
def _id(t: Tracer, value: Value) -> Value:
    """Of objects from outside, which are guarded; breaks for others."""
    given = getattr(value, "given", MISSING)
    if given is MISSING or given is None:
        unsupported(reasons.UNTRACEABLE_CALL, "id of a value made here")
    source = value.source
    if source is not None:
        t.guard(source, "id", "is", given, "its id() was used")
    return Constant(id(given))


@positional(super)
def _super(t: Tracer, start: Value, bound: Value) -> Value:
    """super(cls, instance); without arguments it is the CALL instruction's."""
    return SuperValue(t.constant_of(start), bound)


@positional(property, staticmethod, classmethod)
def _descriptor(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Made in class bodies only."""
    unsupported(reasons.UNTRACEABLE_CALL, "making a descriptor")


# ----------------------------------------------------------------------------------------------------- numbers, text


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
            if isinstance(value, ObjectValue) and type_attribute(value.cls, name) is not MISSING:
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
        found = type_attribute(value.cls, name)
        if found is object.__str__:
            found, name = type_attribute(value.cls, "__repr__"), "__repr__"
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


# -------------------------------------------------------------------------------------------------------- containers


@positional(list)
def _list(t: Tracer, items: Value | None = None) -> Value:
    """list(items)."""
    return ListValue(t.items(items) if items is not None else [])


@positional(tuple)
def _tuple(t: Tracer, items: Value | None = None) -> Value:
    """tuple(items)."""
    if isinstance(items, TupleValue) and items.cls is tuple:
        return items
    return TupleValue(t.items(items) if items is not None else [])


@positional(torch.Size)
def _size(t: Tracer, items: Value | None = None) -> Value:
    """torch.Size(items)."""
    return TupleValue(t.items(items) if items is not None else [], torch.Size)


def _mapping(cls: type) -> Callable[..., Value]:
    def make(t: Tracer, *args: Value, **kwargs: Value) -> Value:
        """A dictionary of mappings, pairs and keywords."""
        made = DictValue(cls)
        made.method(t, "__init__", list(args), kwargs)
        return made

    make.__name__ = cls.__name__
    return make


positional(dict)(_mapping(dict))
positional(collections.OrderedDict)(_mapping(collections.OrderedDict))
positional(collections.defaultdict)(_mapping(collections.defaultdict))


@positional(collections.Counter)
def _counter(t: Tracer, items: Value | None = None) -> Value:
    """How often each item occurs."""
    made = DictValue(collections.Counter)
    for item in t.items(items) if items is not None and not isinstance(items, DictValue) else []:
        made.put(item, t.binary("+", made.get_item(t, item), Constant(1)))
    if isinstance(items, DictValue):
        made.method(t, "update", [items], {})
    return made


@positional(collections.deque)
def _deque(t: Tracer, items: Value | None = None, maxlen: Value | None = None) -> Value:
    """deque(items, maxlen)."""
    made = ListValue([], collections.deque)
    made.method(
        t, "__init__", [items if items is not None else TupleValue([]), *([maxlen] if maxlen is not None else [])], {}
    )
    return made


@positional(set)
def _set(t: Tracer, items: Value | None = None) -> Value:
    """set(items)."""
    return SetValue.of(t.items(items) if items is not None else [])


@positional(frozenset)
def _frozenset(t: Tracer, items: Value | None = None) -> Value:
    """frozenset(items)."""
    return SetValue.of(t.items(items) if items is not None else [], frozenset)


@positional(slice)
def _slice(t: Tracer, *args: Value) -> Value:
    """slice(stop), slice(start, stop, step)."""
    if len(args) == 1:
        return SliceValue(NONE, args[0], NONE)
    return SliceValue(args[0], args[1], args[2] if len(args) > 2 else NONE)


@positional(range)
def _range(t: Tracer, *args: Value) -> Value:
    """range of numbers; symbolic bounds are made numbers, since loops are unrolled."""
    return Constant(t.python(range, *map(t.index, args)))


@positional(sorted)
def _sorted(t: Tracer, items: Value, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    """A sorted list."""
    return ListValue(t.sorted(t.items(items), key, reverse))


# --------------------------------------------------------------------------------------------------------- iteration


@positional(iter)
def _iter(t: Tracer, value: Value, sentinel: Value | None = None) -> Value:
    """iter(value), iter(function, sentinel)."""
    return t.iterate(value) if sentinel is None else CallableIterator(value, sentinel)


@positional(next)
def _next(t: Tracer, iterator: Value, default: Value | None = None) -> Value:
    """The next item, the default or StopIteration."""
    found = iterator.next(t)
    if found is not None:
        return found
    if default is None:
        values = (
            [iterator.returned] if isinstance(iterator, GeneratorValue) and not t.is_none(iterator.returned) else []
        )
        t.raise_value(StopIteration, values)
    return default


@positional(enumerate)
def _enumerate(t: Tracer, items: Value, start: Value = Constant(0)) -> Value:
    """Pairs of position and item."""
    return EnumerateIterator(t.iterate(items), t.index(start))


@positional(zip)
def _zip(t: Tracer, *many: Value, strict: Value = Constant(False)) -> Value:
    """Tuples of items, one of each."""
    return ZipIterator([t.iterate(items) for items in many], t.truth(strict))


@positional(map)
def _map(t: Tracer, function: Value, *many: Value) -> Value:
    """The function of each item, as they are asked for."""
    return MapIterator(function, [t.iterate(items) for items in many])


@positional(filter)
def _filter(t: Tracer, function: Value, items: Value) -> Value:
    """The items for which the function is true."""
    return FilterIterator(function, t.iterate(items))


@positional(reversed)
def _reversed(t: Tracer, items: Value) -> Value:
    """The items, last first."""
    if isinstance(items, ObjectValue) and t.overrides(items.cls, "__reversed__"):
        return items.special(t, "__reversed__", [])
    return t.sequence_iterator(TupleValue(t.items(items)[::-1]))


@positional(itertools.chain)
def _chain(t: Tracer, *many: Value) -> Value:
    """The items of each, one after the other."""
    return ChainIterator(t.sequence_iterator(TupleValue(many)))


@positional("chain.from_iterable")
def _chain_from(t: Tracer, many: Value) -> Value:
    """The items of each item."""
    return ChainIterator(t.iterate(many))


@positional(itertools.count)
def _count(t: Tracer, start: Value = Constant(0), step: Value = Constant(1)) -> Value:
    """start, start + step, ..."""
    return CountIterator(start, step)


@positional(itertools.repeat)
def _repeat(t: Tracer, item: Value, times: Value | None = None) -> Value:
    """The item again and again."""
    return RepeatIterator(item, t.index(times) if times is not None else None)


@positional(itertools.islice)
def _islice(t: Tracer, items: Value, *bounds: Value) -> Value:
    """Some of the items, by position."""
    part = slice(*(t.index_or_none(b) for b in bounds))
    iterator = t.iterate(items)
    found: list[Value] = []
    position = 0
    while part.stop is None or position < part.stop:
        item = iterator.next(t)
        if item is None:
            break
        if position >= (part.start or 0) and (position - (part.start or 0)) % (part.step or 1) == 0:
            found.append(item)
        position += 1
    return t.sequence_iterator(TupleValue(found))


def _combined(function: Callable[..., Any]) -> Callable[..., Value]:
    def combine(t: Tracer, *args: Value, **kwargs: Value) -> Value:
        """Positions are combined as Python would, and stand for the items."""
        many: list[list[Value]] = []
        rest: list[Any] = []
        for position, argument in enumerate(args):
            if (
                function in (itertools.combinations, itertools.permutations, itertools.combinations_with_replacement)
                and position
            ):
                rest.append(t.index_or_none(argument))
            else:
                many.append(t.items(argument))
        options = {name: t.constant_of(value) for name, value in kwargs.items() if name != "fillvalue"}
        chosen = function(*(range(len(items)) for items in many), *rest, **options)
        if function is itertools.pairwise:
            many = many * 2
        made: list[Value] = []
        for indices in chosen:
            pools = many * len(indices) if len(many) == 1 else many
            if function is itertools.product and "repeat" in options:
                pools = many * options["repeat"]
            made.append(TupleValue([
                pool[i] if i is not None else kwargs.get("fillvalue", NONE)
                for pool, i in zip(pools, indices, strict=False)
            ]))  # fmt: skip
        return t.sequence_iterator(TupleValue(made))

    combine.__name__ = function.__name__
    return combine


for _function in (itertools.product, itertools.combinations, itertools.permutations,
                  itertools.combinations_with_replacement, itertools.pairwise, itertools.zip_longest):  # fmt: skip
    positional(_function)(_combined(_function))


@positional(itertools.starmap)
def _starmap(t: Tracer, function: Value, items: Value) -> Value:
    """The function of each tuple of arguments."""
    return t.sequence_iterator(TupleValue([t.call(function, t.items(args), {}) for args in t.items(items)]))


@positional(itertools.accumulate)
def _accumulate(t: Tracer, items: Value, function: Value | None = None, *, initial: Value | None = None) -> Value:
    """Running totals."""
    made: list[Value] = [] if initial is None or t.is_none(initial) else [initial]
    for item in t.items(items):
        if not made:
            made.append(item)
        elif function is None or t.is_none(function):
            made.append(t.binary("+", made[-1], item))
        else:
            made.append(t.call(function, [made[-1], item], {}))
    return t.sequence_iterator(TupleValue(made))


@positional(itertools.takewhile)
def _takewhile(t: Tracer, function: Value, items: Value) -> Value:
    """Items as long as the function is true."""
    made: list[Value] = []
    iterator = t.iterate(items)
    while (item := iterator.next(t)) is not None and t.truth(t.call(function, [item], {})):
        made.append(item)
    return t.sequence_iterator(TupleValue(made))


@positional(itertools.groupby)
def _groupby(t: Tracer, items: Value, key: Value | None = None) -> Value:
    """Runs of items with equal keys."""
    groups: list[tuple[Value, list[Value]]] = []
    for item in t.items(items):
        k = item if key is None or t.is_none(key) else t.call(key, [item], {})
        if groups and t.same_or_equal(groups[-1][0], k):
            groups[-1][1].append(item)
        else:
            groups.append((k, [item]))
    return t.sequence_iterator(TupleValue([TupleValue([k, t.sequence_iterator(TupleValue(g))]) for k, g in groups]))


# ---------------------------------------------------------------------------------------- functools, operator, copy


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


@positional(contextvars.ContextVar.get)
def _context_get(t: Tracer, variable: Value, *default: Value) -> Value:
    """A context variable's value, guarded."""
    given = t.real_of(variable)
    try:
        found = given.get(*(t.constant_of(d) for d in default))
    except LookupError:
        t.raise_value(LookupError, [])
    if variable.source is not None:
        from_variable = t.returned(variable.source, "get")
        if not default:
            return t.wrap(from_variable, found)
    return t.from_python(found)


@positional(builtins.globals, builtins.locals, builtins.input, builtins.open, builtins.exec, builtins.eval,
            builtins.compile,
            builtins.breakpoint)  # fmt: skip
def _never(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Breaks."""
    unsupported(reasons.UNTRACEABLE_CALL, "a builtin that reads or changes the world")


@positional(traceback_of, as_it_was)
def _traceback(t: Tracer, *args: Value) -> Value:
    """Tracebacks are real frames' alone."""
    return NONE
