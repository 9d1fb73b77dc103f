"""Iteration: iter, zip, map and itertools."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from explorer.capture.rules import positional
from explorer.capture.values.base import Value
from explorer.capture.values.constant import Constant
from explorer.capture.values.iterators import (
    CallableIterator,
    ChainIterator,
    CountIterator,
    EnumerateIterator,
    FilterIterator,
    GeneratorValue,
    MapIterator,
    RepeatIterator,
    ReversedIterator,
    ZipIterator,
)
from explorer.capture.values.mappings import DictValue, DictView
from explorer.capture.values.objects import MISSING, ObjectValue
from explorer.capture.values.sequences import SequenceValue, TupleValue
from explorer.capture.values.slots import lacks

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer

NONE = Constant(None)


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
    if isinstance(items, SequenceValue):
        return ReversedIterator(items)
    if isinstance(items, (DictValue, DictView)):
        return items.method(t, "__reversed__", [], {})
    if isinstance(items, ObjectValue):
        if t.look_up(items.cls, "__getitem__") is MISSING or t.look_up(items.cls, "__len__") is MISSING:
            lacks(t, items.cls, "__reversed__")
        places = reversed(range(t.index(t.length(items))))
        return t.sequence_iterator(TupleValue([t.get_item(items, Constant(place)) for place in places]))
    return t.sequence_iterator(t.from_python(t.python(lambda: tuple(reversed(items.constant())))))


@positional(itertools.chain)
def _chain(t: Tracer, *many: Value) -> Value:
    """The items of each, one after the other."""
    return ChainIterator(t.sequence_iterator(TupleValue(many)))


@positional(inspect.getattr_static(itertools.chain, "from_iterable"))
def _chain_from(t: Tracer, cls: Value, many: Value) -> Value:
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
