"""Iterators and generators. Stock counterpart: variables/iter.py."""

from __future__ import annotations

import itertools
import types
from typing import TYPE_CHECKING, Any

from explorer.capture import reasons
from explorer.capture.values.base import Raised, Value, unsupported
from explorer.capture.values.constant import Constant
from explorer.capture.values.objects import IdentityKey
from explorer.capture.values.sequences import SequenceValue, TupleValue
from explorer.ir.capture import Source

if TYPE_CHECKING:
    from explorer.capture.frame import Frame
    from explorer.capture.rebuild import Rebuilder
    from explorer.capture.tracer import Tracer


class IteratorValue(Value):
    """What all iterators share."""

    kind: type = object

    def python_type(self) -> type:
        return self.kind

    def key(self) -> Any:
        return IdentityKey(self)

    def shown(self) -> str:
        return self.describe()

    def iterate(self, t: Tracer) -> Value:
        return self

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in ("__next__", "__iter__"):
            return t.builtin_method(self, name)
        t.raise_(AttributeError, f"'{self.kind.__name__}' object has no attribute '{name}'")

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self
        if name == "__next__":
            found = self.next(t)
            if found is None:
                t.raise_value(StopIteration, [])
            return found
        return super().method(t, name, args, kwargs)

    def describe(self) -> str:
        return self.kind.__name__


class SequenceIterator(IteratorValue):
    """Over a list, tuple, range or string, by position: it sees items appended meanwhile, as Python's does.

    `given` is where the real iterator is, for one that a continuation was handed.
    """

    def __init__(self, base: Value, index: int = 0, given: Source | None = None) -> None:
        self.base = base
        self.index = index
        self.given = given
        self.done = False

    def python_type(self) -> type:
        return (
            type(iter(self.base.python_type()()))
            if self.base.python_type() in (list, tuple, str)
            else type(iter(range(0)))
        )

    def next(self, t: Tracer) -> Value | None:
        if self.done:
            return None
        size = len(self.base.items) if isinstance(self.base, SequenceValue) else len(self.base.constant())
        if self.index >= size:
            self.done = True
            return None
        position, self.index = self.index, self.index + 1
        if isinstance(self.base, SequenceValue):
            return self.base.at(t, position)
        return t.from_python(self.base.constant()[position])

    @property
    def remaining(self) -> int:
        if self.done:
            return 0
        size = len(self.base.items) if isinstance(self.base, SequenceValue) else len(self.base.constant())
        return max(0, size - self.index)

    def rebuild(self, r: Rebuilder) -> None:
        if self.given is not None:
            r.source(self.given)
        else:
            r.value(TupleValue([]) if self.done else self.base)
            r.emit("GET_ITER")
        if self.index == 0 or (self.done and self.given is None):
            return
        name = r.store_new(self)
        position = Constant(self.index + self.remaining if self.done else self.index)
        r.after_effects(lambda: r.discard_method(lambda: r.emit("LOAD_FAST", name), "__setstate__", [position]))
        r.emit("LOAD_FAST", name)

    def describe(self) -> str:
        return f"iterator at {self.index}"


class IndexingIterator(IteratorValue):
    """Over an object with __getitem__ alone."""

    def __init__(self, base: Value) -> None:
        self.base = base
        self.index = 0

    def next(self, t: Tracer) -> Value | None:
        try:
            found = t.get_item(self.base, Constant(self.index))
        except Raised as raised:
            if issubclass(raised.value.python_type(), IndexError):
                return None
            raise
        self.index += 1
        return found


class EnumerateIterator(IteratorValue):
    kind = enumerate

    def __init__(self, base: Value, index: int) -> None:
        self.base, self.index = base, index

    def next(self, t: Tracer) -> Value | None:
        item = self.base.next(t)
        if item is None:
            return None
        self.index += 1
        return TupleValue([Constant(self.index - 1), item])

    def rebuild(self, r: Rebuilder) -> None:
        r.call(enumerate, [self.base, Constant(self.index)])


class ZipIterator(IteratorValue):
    kind = zip

    def __init__(self, bases: list[Value], strict: bool) -> None:
        self.bases, self.strict = bases, strict

    def next(self, t: Tracer) -> Value | None:
        items: list[Value] = []
        for position, base in enumerate(self.bases):
            item = base.next(t)
            if item is None:
                if self.strict and (position > 0 or any(other.next(t) is not None for other in self.bases[1:])):
                    t.raise_(ValueError, f"zip() argument {position + 1} is of another length than those before it")
                return None
            items.append(item)
        return TupleValue(items) if items else None

    def rebuild(self, r: Rebuilder) -> None:
        r.call(zip, self.bases, {"strict": Constant(True)} if self.strict else {})


class MapIterator(IteratorValue):
    kind = map

    def __init__(self, function: Value, bases: list[Value]) -> None:
        self.function, self.bases = function, bases

    def next(self, t: Tracer) -> Value | None:
        items = [base.next(t) for base in self.bases]
        if any(item is None for item in items):
            return None
        return t.call(self.function, [item for item in items if item is not None], {})

    def rebuild(self, r: Rebuilder) -> None:
        r.call(map, [self.function, *self.bases])


class FilterIterator(IteratorValue):
    kind = filter

    def __init__(self, function: Value, base: Value) -> None:
        self.function, self.base = function, base

    def next(self, t: Tracer) -> Value | None:
        while (item := self.base.next(t)) is not None:
            is_identity = isinstance(self.function, Constant) and self.function.value is None
            if t.truth(item if is_identity else t.call(self.function, [item], {})):
                return item
        return None

    def rebuild(self, r: Rebuilder) -> None:
        r.call(filter, [self.function, self.base])


class ChainIterator(IteratorValue):
    kind = itertools.chain

    def __init__(self, parts: Value) -> None:
        self.parts = parts
        self.current: Value | None = None

    def next(self, t: Tracer) -> Value | None:
        while True:
            if self.current is None:
                part = self.parts.next(t)
                if part is None:
                    return None
                self.current = t.iterate(part)
            item = self.current.next(t)
            if item is not None:
                return item
            self.current = None


class CountIterator(IteratorValue):
    kind = itertools.count

    def __init__(self, current: Value, step: Value) -> None:
        self.current, self.step = current, step

    def next(self, t: Tracer) -> Value | None:
        found = self.current
        self.current = t.binary("+", self.current, self.step)
        return found

    def rebuild(self, r: Rebuilder) -> None:
        r.call(itertools.count, [self.current, self.step])


class RepeatIterator(IteratorValue):
    kind = itertools.repeat

    def __init__(self, item: Value, times: int | None) -> None:
        self.item, self.times = item, times

    def next(self, t: Tracer) -> Value | None:
        if self.times is not None:
            if self.times <= 0:
                return None
            self.times -= 1
        return self.item


class CallableIterator(IteratorValue):
    """iter(function, sentinel)."""

    kind = type(iter(int, 1))

    def __init__(self, function: Value, sentinel: Value) -> None:
        self.function, self.sentinel = function, sentinel

    def next(self, t: Tracer) -> Value | None:
        found = t.call(self.function, [], {})
        return None if t.same_or_equal(found, self.sentinel) else found


class GivenIterator(IteratorValue):
    """An iterator that the frame was given. Python takes its items; `why` is the reason of the break for that."""

    def __init__(self, given: Any, source: Any, why: str) -> None:
        self.given = given
        self.source = source
        self.why = why
        self.kind = type(given)

    def next(self, t: Tracer) -> Value | None:
        unsupported(self.why, f"an iterator from outside, a {self.kind.__name__}")


class GeneratorValue(IteratorValue):
    """A generator: a frame of the evaluator that stops at each yield."""

    kind = types.GeneratorType

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.started = False
        self.done = False

    def next(self, t: Tracer) -> Value | None:
        return self.send(t, Constant(None))

    def send(self, t: Tracer, value: Value) -> Value | None:
        if self.done:
            return None
        return self._run(t, lambda: self.frame.stack.append(value) if self.started else None)

    def throw(self, t: Tracer, error: Value) -> Value | None:
        if self.done or not self.started:
            self.done = True
            raise Raised(error)

        def inject() -> None:
            self.frame.pending = Raised(error)

        return self._run(t, inject)

    def _run(self, t: Tracer, prepare: Any) -> Value | None:
        prepare()
        self.started = True
        try:
            yielded = t.resume(self.frame)
        except Raised as raised:
            self.done = True
            if issubclass(raised.value.python_type(), StopIteration):
                t.raise_(RuntimeError, "generator raised StopIteration")
            raise
        if yielded is None:
            self.done = True
        return yielded

    def close(self, t: Tracer) -> None:
        if self.done or not self.started:
            self.done = True
            return
        try:
            self.throw(t, t.exception(GeneratorExit, []))
        except Raised as raised:
            if not issubclass(raised.value.python_type(), (GeneratorExit, StopIteration)):
                raise
        self.done = True

    @property
    def returned(self) -> Value:
        """The value of its return, once it is done."""
        return self.frame.result if self.frame.result is not None else Constant(None)

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in ("send", "throw", "close"):
            return t.builtin_method(self, name)
        return super().get_attr(t, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "close":
            self.close(t)
            return Constant(None)
        if name in ("send", "throw", "__next__"):
            if name == "throw":
                error = args[1] if len(args) > 1 and not isinstance(args[1], Constant) else args[0]
                found = self.throw(t, t.as_exception(error))
            else:
                found = self.send(t, args[0] if args else Constant(None))
            if found is None:
                t.raise_value(StopIteration, [self.returned] if self.frame.result is not None else [])
            return found
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        unsupported(reasons.GENERATOR, self.frame.code.qualname)

    def describe(self) -> str:
        return f"generator {self.frame.code.qualname}"
