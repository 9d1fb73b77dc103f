"""Iterators and generators. Stock counterpart: variables/iter.py."""

from __future__ import annotations

import collections
import itertools
import types
from collections.abc import Callable
from typing import Any, Self

from explorer.compiler.capture import reasons
from explorer.compiler.capture.effects import NUMBERS
from explorer.compiler.capture.values.base import Frame, Raised, Reconstructor, Tracer, Value, type_name
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import attribute_in_c
from explorer.compiler.capture.values.sequences import ListValue, SequenceValue, TupleValue
from explorer.core.reasons import unsupported
from explorer.ir.capture import Contained, Source


class IteratorValue(Value):
    """What all iterators share."""

    of_type: type = object
    source: Source | None = None
    made_as: int

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        made = super().__new__(cls)
        made.made_as = next(NUMBERS)
        return made

    def identity(self) -> object:
        return self

    def key(self) -> Any:
        return self

    def shown(self, depth: int = 2) -> Contained:
        return self.changing(self.describe())

    def iterate(self, t: Tracer) -> Value:
        return self

    def next(self, t: Tracer) -> Value | None:
        t.effects.touch(self)  # what was taken is gone: an instruction that cannot be traced must not have taken it
        return self.step(t)

    def step(self, t: Tracer) -> Value | None:
        """The next item, None when it is exhausted."""
        raise NotImplementedError(type(self).__name__)

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in ("__next__", "__iter__"):
            return t.builtin_method(self, name)
        if hasattr(self.python_type(), name):
            unsupported(reasons.ATTRIBUTE, f"{self.describe()}.{name}")
        t.raise_(AttributeError, f"'{type_name(self.python_type())}' object has no attribute '{name}'")

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
        return self.of_type.__name__


class SequenceIterator(IteratorValue):
    """Over a list, tuple, range or string, by position: it sees items appended meanwhile, as Python's does.

    One from outside (it has a source) is moved on after the graph, as far as it was used.
    """

    def __init__(self, base: Value, index: int = 0, source: Source | None = None) -> None:
        self.base = base
        self.index = index
        self.source = source
        self.done = False

    def python_type(self) -> type:
        for kind in (list, tuple, collections.deque):
            if issubclass(self.base.python_type(), kind):
                return type(iter(kind()))
        return type(iter(range(0))) if isinstance(self.base, SequenceValue) else type(iter(self.base.constant()))

    @property
    def _ended(self) -> bool:
        """No comparison with a length: that of a range may be more than len() tells."""
        items = self.base.items if isinstance(self.base, SequenceValue) else self.base.constant()
        return not items[self.index : self.index + 1]

    def step(self, t: Tracer) -> Value | None:
        if self.done:
            return None
        if self.source is not None:
            t.effects.advance(self)
        if self._ended:
            self.done = True
            return None
        position, self.index = self.index, self.index + 1
        return self._at(t, position)

    def _at(self, t: Tracer, position: int) -> Value:
        if isinstance(self.base, SequenceValue):
            return self.base.at(t, position)
        return t.from_python(self.base.constant()[position])

    def reconstruct(self, r: Reconstructor) -> None:
        base = self._nothing() if self.done else self.base
        if base.overrides(r.t, "__iter__"):
            r.call(attribute_in_c(base.python_type(), "__iter__"), [base])
        else:
            r.value(base)
            r.emit("GET_ITER")
        if self.index == 0 or self.done:
            return
        name = r.store_new(self)
        r.after_effects(lambda: self.move(r, lambda: r.emit("LOAD_FAST", name)))
        r.emit("LOAD_FAST", name)

    def _nothing(self) -> Value:
        if isinstance(self.base, SequenceValue):
            return ListValue([]) if isinstance(self.base, ListValue) else TupleValue([])
        return Constant(self.base.constant()[:0])

    def move(self, r: Reconstructor, load: Callable[[], None]) -> None:
        """Put the iterator that `load` pushes where this one is."""
        grown = len(self.base.items) if self.done and isinstance(self.base, SequenceValue) else 0
        r.discard_method(load, "__setstate__", [Constant(max(self.index, grown))])
        if self.done:
            r.discard_call(next, load, [Constant(None)])

    def describe(self) -> str:
        return f"iterator at {self.index}"


class DequeIterator(SequenceIterator):
    """Over a deque, which must not get or lose items, or turn, meanwhile."""

    def __init__(self, base: ListValue) -> None:
        super().__init__(base)
        self.deque = base
        self.turns = base.turns

    def step(self, t: Tracer) -> Value | None:
        if self.turns != self.deque.turns:
            t.raise_(RuntimeError, "deque mutated during iteration")
        return super().step(t)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.turns != self.deque.turns or r.t.effects.is_changed(self.deque):
            unsupported(reasons.NOT_RECONSTRUCTED, "an iterator over a deque that changed")
        if self.deque.overrides(r.t, "__iter__"):
            super().reconstruct(r)
        else:
            r.call(self.python_type(), [self.deque, Constant(self.index)])


class TakenIterator(IteratorValue):
    """Over items that were all taken when it was made: of a dictionary or a set, whose size must not change then.

    One from outside is moved on after the graph by as many items as were used.
    """

    def __init__(self, items: list[Any], kind: type, base: Value | None = None, source: Source | None = None) -> None:
        self.made_by: tuple[Any, list[Value], dict[str, Value]] | None = None
        """The call that makes it in Python."""
        self.items = items
        self.of_type = kind
        self.base = base
        self.source = source
        self.index = 0
        self.done = False

    def step(self, t: Tracer) -> Value | None:
        if self.done:
            return None
        if self.source is not None:
            t.effects.advance(self)
        if self.base is not None and self.base.length(t).as_index(t) != len(self.items):
            what = {"set": "Set changed size", "odi": "OrderedDict mutated"}
            message = what.get(self.of_type.__name__[:3], "dictionary changed size")
            t.raise_(RuntimeError, f"{message} during iteration")
        if self.index >= len(self.items):
            self.done = True
            return None
        self.index += 1
        item: Value = self.items[self.index - 1]
        return item

    def reconstruct(self, r: Reconstructor) -> None:
        if self.base is not None:
            resized = self.base.length(r.t).as_index(r.t) != len(self.items)
            if resized or r.t.effects.is_changed(getattr(self.base, "base", self.base)):
                unsupported(reasons.NOT_RECONSTRUCTED, f"a {self.of_type.__name__} over what changed its size")
        if self.made_by is None:
            unsupported(reasons.NOT_RECONSTRUCTED, f"a {self.of_type.__name__}")
        r.call(*self.made_by)
        if self.index or self.done:
            name = r.store_new(self)
            r.after_effects(lambda: self.move(r, lambda: r.emit("LOAD_FAST", name)))
            r.emit("LOAD_FAST", name)

    def move(self, r: Reconstructor, load: Callable[[], None]) -> None:
        r.discard_call(advance, load, [Constant(self.index + self.done)])


def advance(iterator: Any, count: int) -> None:
    """Take this number of items."""
    for _ in range(count):
        next(iterator, None)


class ReversedIterator(IteratorValue):
    """reversed(list or tuple): from a position down."""

    def __init__(self, base: Value) -> None:
        assert isinstance(base, SequenceValue)
        self.base = base
        self.index = len(base.items) - 1

    def python_type(self) -> type:
        return type(reversed([])) if issubclass(self.base.cls, list) else reversed

    def step(self, t: Tracer) -> Value | None:
        if not 0 <= self.index < len(self.base.items):
            self.index = -1
            return None
        self.index -= 1
        return self.base.at(t, self.index + 1)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(list.__reversed__ if issubclass(self.base.cls, list) else reversed, [self.base])
        if self.index == len(self.base.items) - 1:
            return
        name = r.store_new(self)
        at = [Constant(self.index)]
        r.after_effects(lambda: r.discard_method(lambda: r.emit("LOAD_FAST", name), "__setstate__", at))
        r.emit("LOAD_FAST", name)


class IndexingIterator(IteratorValue):
    """An iterator over an object that has __getitem__ and no __iter__."""

    def __init__(self, base: Value) -> None:
        self.base = base
        self.index = 0

    def step(self, t: Tracer) -> Value | None:
        found = t.unless(IndexError, t.get_item, self.base, Constant(self.index))
        self.index += found is not None
        return found


class EnumerateIterator(IteratorValue):
    """An enumerate from outside is advanced after the graph, and its iterator with it."""

    of_type = enumerate

    def __init__(self, base: Value, index: int, source: Source | None = None) -> None:
        self.base, self.index = base, index
        self.source = source
        self.taken = 0

    def step(self, t: Tracer) -> Value | None:
        item = self.base.next(t)
        self.taken += 1
        if self.source is not None:
            t.effects.advance(self)
        if item is None:
            return None
        self.index += 1
        return TupleValue([Constant(self.index - 1), item])

    def move(self, r: Reconstructor, load: Callable[[], None]) -> None:
        r.discard_call(advance, load, [Constant(self.taken)])

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(enumerate, [self.base, Constant(self.index)])


class ZipIterator(IteratorValue):
    of_type = zip

    def __init__(self, bases: list[Value], strict: bool, source: Source | None = None) -> None:
        self.bases, self.strict = bases, strict
        self.source = source

    def step(self, t: Tracer) -> Value | None:
        items: list[Value] = []
        for position, base in enumerate(self.bases):
            item = base.next(t)
            if item is None:
                if self.strict:
                    self._check(t, position)
                return None
            items.append(item)
        return TupleValue(items) if items else None

    def _check(self, t: Tracer, ended: int) -> None:
        """zip(strict=True): the first iterator that ended is `ended`; the others have to end with it."""

        def others(last: int) -> str:
            return "argument 1" if last == 1 else f"arguments 1-{last}"

        if ended:
            t.raise_(ValueError, f"zip() argument {ended + 1} is shorter than {others(ended)}")
        for position, base in enumerate(self.bases[1:], 1):
            if base.next(t) is not None:
                t.raise_(ValueError, f"zip() argument {position + 1} is longer than {others(position)}")

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(zip, self.bases, {"strict": Constant(True)} if self.strict else {})


class MapIterator(IteratorValue):
    of_type = map

    def __init__(self, function: Value, bases: list[Value], source: Source | None = None) -> None:
        self.function, self.bases = function, bases
        self.source = source

    def step(self, t: Tracer) -> Value | None:
        items: list[Value] = []
        for base in self.bases:
            item = base.next(t)
            if item is None:
                return None
            items.append(item)
        return self.function.call(t, items, {})

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(map, [self.function, *self.bases])


class FilterIterator(IteratorValue):
    of_type = filter

    def __init__(self, function: Value, base: Value, source: Source | None = None) -> None:
        self.function, self.base = function, base
        self.source = source

    def step(self, t: Tracer) -> Value | None:
        while (item := self.base.next(t)) is not None:
            is_identity = isinstance(self.function, Constant) and self.function.value is None
            if (item if is_identity else self.function.call(t, [item], {})).truth(t):
                return item
        return None

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(filter, [self.function, self.base])


class ChainIterator(IteratorValue):
    of_type = itertools.chain

    def __init__(self, parts: Value) -> None:
        self.parts = parts
        self.current: Value | None = None

    def step(self, t: Tracer) -> Value | None:
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

    def reconstruct(self, r: Reconstructor) -> None:
        if self.current is None:
            r.call(itertools.chain.from_iterable, [self.parts])
            return
        rest = ChainIterator(self.parts)
        r.call(itertools.chain, [self.current, rest])


class CountIterator(IteratorValue):
    of_type = itertools.count

    def __init__(self, current: Value, by: Value, source: Source | None = None) -> None:
        self.current, self.by = current, by
        self.source = source
        self.taken = 0

    def step(self, t: Tracer) -> Value | None:
        if self.source is not None:
            t.effects.advance(self)
        found = self.current
        self.current = t.binary("+", self.current, self.by)
        self.taken += 1
        return found

    def move(self, r: Reconstructor, load: Callable[[], None]) -> None:
        for _ in range(self.taken):
            r.discard_call(next, load, [])

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(itertools.count, [self.current, self.by])


class RepeatIterator(IteratorValue):
    of_type = itertools.repeat

    def __init__(self, item: Value, times: int | None) -> None:
        self.item, self.times = item, times

    def step(self, t: Tracer) -> Value | None:
        if self.times is not None:
            if self.times <= 0:
                return None
            self.times -= 1
        return self.item

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(itertools.repeat, [self.item, *([] if self.times is None else [Constant(self.times)])])


class CallableIterator(IteratorValue):
    """iter(function, sentinel)."""

    of_type = type(iter(int, 1))

    def __init__(self, function: Value, sentinel: Value) -> None:
        self.function, self.sentinel = function, sentinel
        self.done = False

    def step(self, t: Tracer) -> Value | None:
        found = None if self.done else t.unless(StopIteration, self.function.call, t, [], {})
        self.done = found is None or t.same_or_equal(found, self.sentinel)
        return None if self.done else found

    def reconstruct(self, r: Reconstructor) -> None:
        if self.done:
            unsupported(reasons.NOT_RECONSTRUCTED, "a callable_iterator that has ended")
        r.call(iter, [self.function, self.sentinel])


class GivenIterator(IteratorValue):
    """An iterator that the frame was given. Python takes its items; `why` is the reason of the break for that."""

    def __init__(self, given: object, source: Any, why: str) -> None:
        self.given = given
        self.source = source
        self.why = why
        self.of_type = type(given)

    def step(self, t: Tracer) -> Value | None:
        unsupported(self.why, f"an iterator from outside, a {self.of_type.__name__}")


def stopped_inside(t: Tracer, stop: Value) -> Value:
    """The exception that a StopIteration becomes when it leaves a generator (PEP 479): below Python 3.12 where the
    generator is resumed, since then in the generator's own bytecode."""
    error = t.exception(RuntimeError, [Constant("generator raised StopIteration")])
    for link in ("__cause__", "__context__"):
        error.set_attr(t, link, stop)
    return error


class GeneratorValue(IteratorValue):
    """A generator: a frame of the evaluator that stops at each yield. `made_by` is the call that makes it.

    One that nobody holds any more is closed by Python at once, which runs its `finally` blocks: `lost` takes it then.
    """

    of_type: type = types.GeneratorType

    def __init__(self, frame: Frame, made_by: tuple[Value, list[Value], dict[str, Value]], lost: list[Value]) -> None:
        self.frame = frame
        self.made_by = made_by
        self.lost = lost
        self.started = False
        self.running = False
        self.done = False

    def __del__(self) -> None:
        if self.is_suspended:
            self.lost.append(self)

    @property
    def is_suspended(self) -> bool:
        """Whether closing it would run code of its own."""
        at = self.frame.position - 1
        return self.started and not (self.done or self.running) and self.frame.handlers[at] is not None

    def step(self, t: Tracer) -> Value | None:
        return self.send(t, Constant(None))

    def send(self, t: Tracer, value: Value) -> Value | None:
        t.effects.touch(self)
        if not self.started and not value.is_none():
            t.raise_(TypeError, "can't send non-None value to a just-started generator")
        if self.done:
            return None
        if self.started:
            self.frame.stack.append(value)
        return self._run(t)

    def throw(self, t: Tracer, error: Value) -> Value | None:
        if self.done or not self.started:
            self.done = True
            raise Raised(error)
        if isinstance(receiver := self._receiver(), GeneratorValue):
            try:
                if issubclass(error.python_type(), GeneratorExit):
                    receiver.close(t)
                else:
                    found = receiver.throw(t, error)
                    if found is not None:
                        return found
                    self._resume_with(receiver.returned)
                    return self._run(t)
            except Raised as raised:
                error = raised.value
        self.frame.pending = Raised(error)
        return self._run(t)

    def _receiver(self) -> Value | None:
        """The iterator that it yields from, if it stands in `yield from`."""
        last = self.frame.code.instructions[self.frame.position - 1]
        return self.frame.stack[-1] if last.op == "YIELD_VALUE" and last.arg == "from" else None

    def _resume_with(self, result: Value) -> None:
        """End `yield from`, with this result."""
        before = self.frame.code.instructions[: self.frame.position]
        send = next(step for step in reversed(before) if step.op == "SEND")
        self.frame.push(result)
        self.frame.position = self.frame.index[send.target or ""]

    def _run(self, t: Tracer) -> Value | None:
        if self.running:
            t.raise_(ValueError, "generator already executing")
        self.started = self.running = True
        try:
            yielded = t.resume(self.frame)
        except Raised as raised:
            self.done = True
            self._let_go()
            if issubclass(raised.value.python_type(), StopIteration):
                raise Raised(stopped_inside(t, raised.value)) from raised
            raise
        finally:
            self.running = False
        if yielded is None:
            self.done = True
            self._let_go()
        return yielded

    def _let_go(self) -> None:
        self.frame.locals.clear()
        self.frame.stack.clear()

    def close(self, t: Tracer) -> None:
        if self.done or not self.started:
            self.done = True
            self._let_go()
            return
        try:
            found = self.throw(t, t.exception(GeneratorExit, []))
        except Raised as raised:
            if not issubclass(raised.value.python_type(), (GeneratorExit, StopIteration)):
                raise
        else:
            if found is not None:
                t.raise_(RuntimeError, "generator ignored GeneratorExit")

    @property
    def returned(self) -> Value:
        """The value of its return, once it is done."""
        return self.frame.result if self.frame.result is not None else Constant(None)

    def get_attr(self, t: Tracer, name: str) -> Value:
        if self.of_type is not types.GeneratorType:  # an iterator written in C, evaluated here in Python
            return super().get_attr(t, name)
        match name:
            case "send" | "throw" | "close":
                return t.builtin_method(self, name)
            case "__name__":
                return Constant(self.frame.code.name)
            case "__qualname__":
                return Constant(self.frame.code.qualname)
            case "gi_running":
                return Constant(self.running)
            case "gi_yieldfrom":
                return self._receiver() or Constant(None) if self.started and not self.done else Constant(None)
        return super().get_attr(t, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "close":
            self.close(t)
            return Constant(None)
        if name in ("send", "throw", "__next__"):
            if name == "throw":
                error = args[1] if len(args) > 1 and not isinstance(args[1], Constant) else args[0]
                found = self.throw(t, error.as_exception(t))
            else:
                found = self.send(t, args[0] if args else Constant(None))
            if found is None:
                is_something = self.frame.result is not None and not self.frame.result.is_none()
                t.raise_value(StopIteration, [self.returned] if is_something else [])
            return found
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.started and not self.done:
            unsupported(reasons.GENERATOR, self.frame.code.qualname)
        if self.done and self.of_type is not types.GeneratorType:
            unsupported(reasons.NOT_RECONSTRUCTED, f"a {self.of_type.__name__} that has ended")
        r.call_value(*self.made_by)
        if self.done:
            name = r.store_new(self)
            r.discard_method(lambda: r.emit("LOAD_FAST", name), "close", [])
            r.emit("LOAD_FAST", name)

    def describe(self) -> str:
        return f"generator {self.frame.code.qualname}"


def taken_iterator(
    t: Tracer, items: list[Value], kind: type, base: Value, function: Callable[..., Any] = iter
) -> Value:
    made, cls = TakenIterator(items, kind, base), base.python_type()
    name = f"__{function.__name__}__"
    made.made_by = (attribute_in_c(cls, name) if base.overrides(t, name) else function, [base], {})
    return made


def sequence_iterator(base: Value) -> Value:
    if isinstance(base, ListValue) and issubclass(base.cls, collections.deque):
        return DequeIterator(base)
    return SequenceIterator(base)
