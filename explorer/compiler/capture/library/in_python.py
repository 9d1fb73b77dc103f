"""C functions of the standard library, written in Python: traced code calls these instead, so that they are inlined.
They are bodies for the evaluator, which reads no other code of this package."""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_ABSENT: object = object()


def accumulate(
    iterable: Iterable[object], func: Callable[[object, object], object] | None = None, *, initial: object = None
) -> Iterator[object]:
    func = operator.add if func is None else func
    items = iter(iterable)
    total = next(items, _ABSENT) if initial is None else initial
    if total is _ABSENT:
        return
    yield total
    for item in items:
        total = func(total, item)
        yield total


def compress(data: Iterable[object], selectors: Iterable[object]) -> Iterator[object]:
    for item, chosen in zip(data, selectors):  # noqa: B905
        if chosen:
            yield item


def cycle(iterable: Iterable[object]) -> Iterator[object]:
    seen = []
    for item in iterable:
        yield item
        seen.append(item)
    while seen:
        yield from seen


def dropwhile(predicate: Callable[[object], object], iterable: Iterable[object]) -> Iterator[object]:
    items = iter(iterable)
    for item in items:
        if not predicate(item):
            yield item
            break
    yield from items


def takewhile(predicate: Callable[[object], object], iterable: Iterable[object]) -> Iterator[object]:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def filterfalse(function: Callable[[object], object] | None, iterable: Iterable[object]) -> Iterator[object]:
    for item in iterable:
        if not (item if function is None else function(item)):
            yield item


def starmap(function: Callable[..., object], iterable: Iterable[Any]) -> Iterator[object]:
    for args in iterable:
        yield function(*args)


def pairwise(iterable: Iterable[object]) -> Iterator[object]:
    before = _ABSENT
    for item in iterable:
        if before is not _ABSENT:
            yield before, item
        before = item


def islice(iterable: Iterable[object], *bounds: object) -> Iterator[object]:
    part = slice(*bounds)
    start, stop, step = _bound(part.start, 0), _bound(part.stop, None), _bound(part.step, 1)
    if stop == -1:
        raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    items = iter(iterable)

    def chosen() -> Iterator[object]:
        position = 0
        while stop is None or position < stop:
            item = next(items, _ABSENT)
            if item is _ABSENT:
                return
            if position >= start and (position - start) % step == 0:
                yield item
            position += 1

    return chosen()


def _bound(given: Any, absent: object) -> Any:
    """A bound of islice: -1 for what is none."""
    if given is None:
        return absent
    try:
        bound = operator.index(given)
    except TypeError:
        return -1
    return bound if abs(bound) <= sys.maxsize else -1


def zip_longest(*iterables: Iterable[object], fillvalue: object = None) -> Iterator[object]:
    rest = [iter(each) for each in iterables]
    alive = [True] * len(rest)
    while rest:
        row = []
        for place, items in enumerate(rest):
            item = next(items, _ABSENT) if alive[place] else _ABSENT
            if item is _ABSENT:
                alive[place] = False
                item = fillvalue
            row.append(item)
        if not any(alive):
            return
        yield tuple(row)


def tee(iterable: Iterable[object], n: int = 2) -> tuple[Iterator[object], ...]:
    if n < 0:
        raise ValueError("n must be >= 0")
    items = iter(iterable)
    waiting: list[deque[object]] = [deque() for _ in range(n)]

    def one(own: deque[object]) -> Iterator[object]:
        while True:
            if not own:
                item = next(items, _ABSENT)
                if item is _ABSENT:
                    return
                for each in waiting:
                    each.append(item)
            yield own.popleft()

    return tuple([one(own) for own in waiting])


def groupby(iterable: Iterable[object], key: Callable[[object], object] | None = None) -> Iterator[object]:
    items = iter(iterable)
    of: Callable[[object], object] = (lambda item: item) if key is None else key
    head = next(items, _ABSENT)
    label = of(head) if head is not _ABSENT else None

    def run(own: object) -> Iterator[object]:
        nonlocal head, label
        while head is not _ABSENT and label == own:
            item, head = head, _ABSENT
            yield item
            head = next(items, _ABSENT)
            label = of(head) if head is not _ABSENT else None

    while head is not _ABSENT:
        own = label
        group = run(own)
        yield own, group
        for _ in group:
            pass


def cmp_to_key(mycmp: Callable[[object, object], object]) -> Callable[[object], object]:
    return lambda obj: Ordered(mycmp, obj)


class Ordered:
    """What functools.cmp_to_key makes of an object."""

    def __init__(self, mycmp: Callable[[Any, Any], Any], obj: object) -> None:
        self.mycmp = mycmp
        self.obj = obj

    def __lt__(self, other: Ordered) -> bool:
        return bool(self.mycmp(self.obj, other.obj) < 0)


def length_hint(obj: Any, default: int = 0) -> int:
    default = operator.index(default)
    if hasattr(type(obj), "__len__"):
        try:
            return len(obj)
        except TypeError:
            pass
    if not hasattr(type(obj), "__length_hint__"):
        return default
    try:
        hint = type(obj).__length_hint__(obj)
    except TypeError:
        return default
    if hint is NotImplemented:
        return default
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint
