"""Containers and iteration: list, dict, set, deque, range, sorted; iter, zip, map and itertools."""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import importlib.util
import inspect
import itertools
import operator
import sys
import types
from typing import Any
from unittest.mock import patch

import torch

from explorer.compiler.capture.calls import inline
from explorer.compiler.capture.library import in_python
from explorer.compiler.capture.model import binary, get_item
from explorer.compiler.capture.rules import CALLS, each, positional, positional_each, table
from explorer.compiler.capture.values import iterators
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import function_of
from explorer.compiler.capture.values.mappings import DictValue, DictView, SetValue
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, lacks, look_up
from explorer.compiler.capture.values.sequences import ListValue, SequenceValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue

NONE = Constant(None)


@positional(tuple)
def _tuple(t: Tracer, items: Value | None = None) -> Value:
    """tuple(items)."""
    if isinstance(items, TupleValue) and items.cls is tuple:
        return items
    return TupleValue(items.unpack(t) if items is not None else [])


@each(dict, collections.OrderedDict, collections.defaultdict)
def _mapping(cls: type, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A dictionary of mappings, pairs and keywords."""
    made = DictValue(cls)
    made.method(t, "__init__", args, kwargs)
    return made


@positional(vars(collections)["_count_elements"])
def _count_elements(t: Tracer, counts: Value, items: Value) -> Value:
    """Add to the mapping how often each item occurs."""
    for item in items.unpack(t):
        t.set_item(counts, item, binary(t, "+", t.call_method(counts, "get", [item, Constant(0)], {}), Constant(1)))
    return NONE


@positional(collections.Counter)
def _counter(t: Tracer, items: Value | None = None, **kwargs: Value) -> Value:
    """How often each item occurs."""
    made = DictValue(collections.Counter)
    if items is not None and not isinstance(items, DictValue):
        _count_elements(t, made, items)
    for counts in (items, t.from_python(kwargs)):
        for key, count in counts.pairs(t) if isinstance(counts, DictValue) else []:
            made.put(key, binary(t, "+", made.get_item(t, key), count))
    return made


@positional(collections.deque)
def _deque(t: Tracer, items: Value | None = None, maxlen: Value | None = None) -> Value:
    """deque(items, maxlen)."""
    made = ListValue([], collections.deque)
    made.method(
        t, "__init__", [items if items is not None else TupleValue([]), *([maxlen] if maxlen is not None else [])], {}
    )
    return made


@positional(collections.namedtuple)
def _namedtuple(t: Tracer, name: Value, fields: Value, **kwargs: Value) -> Value:
    """A class of tuples, made once."""
    named = {"module": Constant(t.stack.frames[-1].globals.get("__name__"))} | kwargs
    known = {key: value.known(t) for key, value in named.items()}
    return t.from_python(t.python(collections.namedtuple, name.known(t), fields.known(t), **known))


@positional(slice)
def _slice(t: Tracer, first: Value, stop: Value | None = None, step: Value = NONE) -> Value:
    """slice(stop), slice(start, stop, step)."""
    return SliceValue(NONE, first, NONE) if stop is None else SliceValue(first, stop, step)


@positional(next)
def _next(t: Tracer, iterator: Value, default: Value | None = None) -> Value:
    """The next item, the default or StopIteration."""
    found = iterator.next(t)
    if found is not None:
        return found
    if default is None:
        values = (
            [iterator.returned]
            if isinstance(iterator, iterators.GeneratorValue) and not iterator.returned.is_none()
            else []
        )
        t.raise_value(StopIteration, values)
    return default


@positional(reversed)
def _reversed(t: Tracer, items: Value) -> Value:
    """The items, last first."""
    if items.overrides(t, "__reversed__"):
        return items.special(t, "__reversed__", [])
    if isinstance(items, SequenceValue):
        return iterators.ReversedIterator(items)
    if isinstance(items, (DictValue, DictView)):
        return items.method(t, "__reversed__", [], {})
    if isinstance(items, ObjectValue):
        if look_up(t, items.cls, "__getitem__") is MISSING or look_up(t, items.cls, "__len__") is MISSING:
            lacks(t, items.cls, "__reversed__")
        places = reversed(range(t.length(items).as_index(t)))
        return t.sequence_iterator(TupleValue([get_item(t, items, Constant(place)) for place in places]))
    if isinstance(items, TensorValue):
        return t.call_method(items, "__reversed__", [])
    known = items.constant()
    if isinstance(known, range):
        return t.sequence_iterator(Constant(known[::-1]))
    made = iterators.TakenIterator([*map(t.from_python, t.python(lambda: tuple(reversed(known))))], reversed)
    made.made_by = (reversed, [items], {})
    return made


@positional_each(
    itertools.product, itertools.combinations, itertools.permutations, itertools.combinations_with_replacement
)
def _combined(function: Any, t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Python combines positions in place of the items."""
    many: list[list[Value]] = []
    rest: list[Any] = []
    for position, argument in enumerate(args):
        if (
            function in (itertools.combinations, itertools.permutations, itertools.combinations_with_replacement)
            and position
        ):
            rest.append(argument.as_index_or_none(t))
        else:
            many.append(argument.unpack(t))
    options = {name: value.known(t) for name, value in kwargs.items()}
    chosen = function(*(range(len(items)) for items in many), *rest, **options)
    made: list[Value] = []
    for indices in chosen:
        pools = many * len(indices) if len(many) == 1 else many
        if function is itertools.product and "repeat" in options:
            pools = many * options["repeat"]
        made.append(TupleValue([pool[i] for pool, i in zip(pools, indices, strict=False)]))
    found = iterators.TakenIterator(list(made), function)
    pools_given: list[Value] = [TupleValue(items) for items in many]
    found.made_by = (function, [*pools_given, *map(Constant, rest)], kwargs)
    return found


_ITERATED = frozenset(("iterable", "iterables", "data", "selectors"))
"""Parameters of what is in C that takes an iterator of them when it is called, and not with the first item."""


def _inlined(function: object, body: types.FunctionType) -> None:
    parameters, lazy = list(inspect.signature(body).parameters), inspect.isgeneratorfunction(body)

    def rule(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """What the function's body in Python does; what it goes over is asked for an iterator at once."""
        names = parameters if parameters[0] != "iterables" else parameters[:1] * len(args)
        asked = [lazy and name in _ITERATED for name in names[: len(args)]]
        given = [t.iterate(each) if once else each for once, each in zip(asked, args, strict=False)]
        made = inline(t, function_of(body), [*given, *args[len(given) :]], kwargs)
        if isinstance(made, iterators.GeneratorValue):
            made.made_by = (t.from_python(function), list(args), dict(kwargs))
            made.of_type = function if isinstance(function, type) else made.of_type
        return made

    CALLS.rule(function)(rule)


for _module in (itertools, operator, functools):
    for _name, _body in vars(in_python).items():
        if isinstance(_body, types.FunctionType) and _name in vars(_module):
            _inlined(vars(_module)[_name], _body)


def _without_c(name: str) -> dict[str, Any]:
    """The contents of a module of the standard library when its C part is missing: everything is in Python."""
    space: dict[str, Any] = {"__name__": name}
    with patch.dict(sys.modules, {f"_{name}": None}):
        exec(importlib.util.find_spec(name).loader.get_code(name), space)  # type: ignore[union-attr]
    return space


_MORE_THAN_OPERATORS = "call countOf delitem indexOf setitem".split()

for _module in (bisect, heapq, operator):
    _bodies = {vars(_module).get(name): body for name, body in _without_c(_module.__name__).items() if callable(body)}
    for _known, _body in _bodies.items():
        if isinstance(_body, types.FunctionType) and isinstance(_known, types.BuiltinFunctionType):
            if _module is not operator or _known.__name__ in _MORE_THAN_OPERATORS:
                _inlined(_known, _body)


table({
    iter: lambda t, value, sentinel=None:
        t.iterate(value) if sentinel is None else iterators.CallableIterator(value, sentinel),
    zip: lambda t, *many, strict=Constant(False):
        iterators.ZipIterator([t.iterate(items) for items in many], strict.truth(t)),
    inspect.getattr_static(itertools.chain, "from_iterable"): lambda t, cls, many:
        iterators.ChainIterator(t.iterate(many)),
    itertools.repeat: lambda t, object, times=None: iterators.RepeatIterator(
        object, None if times is None else t.python(itertools.repeat, None, times.as_index(t)).__length_hint__()),
    list: lambda t, items=None: ListValue(items.unpack(t) if items is not None else []),
    torch.Size: lambda t, items=None: TupleValue(items.unpack(t) if items is not None else [], torch.Size),
    set: lambda t, items=None: SetValue.of(items.unpack(t) if items is not None else []),
    frozenset: lambda t, items=None: SetValue.of(items.unpack(t) if items is not None else [], frozenset),
    # range of numbers; symbolic bounds are made numbers, since loops are unrolled.
    range: lambda t, *args: Constant(t.python(range, *(each.as_index(t) for each in args))),
    sorted: lambda t, items, *, key=None, reverse=None: ListValue(t.sorted(items.unpack(t), key, reverse)),
    # Pairs of position and item.
    enumerate: lambda t, items, start=Constant(0): iterators.EnumerateIterator(t.iterate(items), start.as_index(t)),
    map: lambda t, function, *many: iterators.MapIterator(function, [t.iterate(items) for items in many]),
    # The items for which the function is true.
    filter: lambda t, function, items: iterators.FilterIterator(function, t.iterate(items)),
    # The items of each, one after the other.
    itertools.chain: lambda t, *many: iterators.ChainIterator(t.sequence_iterator(TupleValue(many))),
    itertools.count: lambda t, start=Constant(0), step=Constant(1): iterators.CountIterator(start, step),
})  # fmt: skip
