"""Containers: list, dict, set, deque, range, sorted ..."""

from __future__ import annotations

import collections
from collections.abc import Callable

import torch

from explorer.compiler.capture.rules import positional
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.sequences import ListValue, SliceValue, TupleValue
from explorer.compiler.capture.values.sets import SetValue

NONE = Constant(None)


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
def _counter(t: Tracer, items: Value | None = None, **kwargs: Value) -> Value:
    """How often each item occurs."""
    made = DictValue(collections.Counter)
    for item in t.items(items) if items is not None and not isinstance(items, DictValue) else []:
        made.put(item, t.binary("+", made.get_item(t, item), Constant(1)))
    for counts in (items, t.new_dict(kwargs)):
        for key, count in counts.pairs(t) if isinstance(counts, DictValue) else []:
            made.put(key, t.binary("+", made.get_item(t, key), count))
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
    named = {"module": Constant(t.frames[-1].globals.get("__name__"))} | kwargs
    known = {key: t.constant_of(value) for key, value in named.items()}
    return t.from_python(t.python(collections.namedtuple, t.constant_of(name), t.constant_of(fields), **known))


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
