"""Slices, tuples (named and structured ones too), lists and deques. Stock counterpart: variables/lists.py."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from explorer.compiler.capture.guards import LengthIs
from explorer.compiler.capture.values.base import HostValue, NotConstant, Reconstructor, Tracer, Unhashable, Value
from explorer.compiler.capture.values.constant import Constant, is_number
from explorer.compiler.capture.values.objects import MISSING, Lazy, ObjectValue, look_up
from explorer.core.libraries import name_in_messages
from explorer.ir.capture import Contained, Source


class SliceValue(Value):
    """slice(start, stop, step)."""

    of_type = slice

    def __init__(self, start: Value, stop: Value, step: Value) -> None:
        self.start, self.stop, self.step = start, stop, step

    @property
    def parts(self) -> tuple[Value, Value, Value]:
        return self.start, self.stop, self.step

    def operator_method(self, t: Tracer, name: str, other: Value) -> Value | None:
        if not isinstance(other, SliceValue) or not hasattr(slice, name):
            return None
        return TupleValue(self.parts).operator_method(t, name, TupleValue(other.parts))

    def key(self) -> Any:
        if slice.__hash__ is None:  # before Python 3.12
            raise Unhashable(slice)
        return slice(*(part.key() for part in self.parts))

    def constant(self) -> Any:
        return slice(*(part.constant() for part in self.parts))

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            found: Value = getattr(self, name)
            return found
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.from_python(t.python(getattr(self.fixed(t), name), *(a.as_index(t) for a in args)))

    def fixed(self, t: Tracer) -> slice:
        """With every symbolic bound made a number."""
        return slice(*(part.as_index_or_none(t) for part in self.parts))

    def reconstruct(self, r: Reconstructor) -> None:
        for part in self.parts:
            r.value(part)
        r.emit("BUILD_SLICE", 3)


class SequenceValue(ObjectValue):
    """What lists, tuples and deques share. `items` are values, or Lazy until they are read."""

    def __init__(
        self, items: Iterable[object], cls: type = tuple, source: Source | None = None, given: object = MISSING
    ) -> None:
        super().__init__(cls, source, given)
        self._items = list(items)

    def guard(self, t: Tracer) -> None:
        t.guards.on(self.source, LengthIs(len(self._items)), "its items are read by position")

    @property
    def items(self) -> list[Any]:
        self.read_all()
        return self._items

    @items.setter
    def items(self, items: list[object]) -> None:
        self.read_all()
        self._items = items

    def shown(self, depth: int = 2) -> Contained:
        return self.holding(len(self._items), enumerate(self._items), depth)

    def constant(self) -> Any:
        if self.cls not in (tuple, list, torch.Size) and not hasattr(self.cls, "_fields"):
            raise NotConstant(self)
        plain = [i.given if isinstance(i, Lazy) else i.constant() for i in self.items]
        if any(isinstance(i, Lazy) for i in self.items):
            raise NotConstant(self)
        return self.cls(*plain) if hasattr(self.cls, "_fields") else self.cls(plain)

    def known(self, t: Tracer) -> Any:
        if self.cls not in (tuple, list, torch.Size):
            return super().known(t)
        return self.cls(item.known(t) for item in self.unpack(t))

    def lasting(self, t: Tracer) -> Any:
        if self.cls not in (tuple, list):
            return super().lasting(t)
        return self.cls(item.lasting(t) for item in self.unpack(t))

    def unpack(self, t: Tracer) -> list[Value]:
        if self.overrides(t, "__iter__"):
            return super().unpack(t)
        return [self.at(t, i) for i in range(len(self.items))]

    def truth(self, t: Tracer) -> bool:
        if self.overrides(t, "__bool__", "__len__"):
            return super().truth(t)
        return len(self.items) > 0

    def length(self, t: Tracer) -> Value:
        return Constant(len(self.items))

    def iterate(self, t: Tracer) -> Value:
        return t.sequence_iterator(self)

    def at(self, t: Tracer, index: int) -> Value:
        """The item at a position; reads it from the program if need be."""
        item = self.items[index]
        if isinstance(item, Lazy):
            item = self.items[index] = t.wrap(item.source, item.given)
            t.effects.read += 1
        return item  # type: ignore[no-any-return]

    def get_item(self, t: Tracer, key: Value) -> Value:
        if (part := self.slice_of(t, key)) is not None:
            chosen = [self.at(t, i) for i in range(*part.indices(len(self.items)))]
            return self.like(chosen)
        index = self.place(t, key)
        if not -len(self.items) <= index < len(self.items):
            t.python(operator.getitem, self.builtin(), index)  # raises
        return self.at(t, index)

    def slice_of(self, t: Tracer, key: Value) -> slice | None:
        """The subscript, if it is a slice; a deque takes none."""
        if self.builtin is collections.deque or key.python_type() is not slice:
            return None
        return key.fixed(t) if isinstance(key, SliceValue) else key.known(t)

    @property
    def builtin(self) -> type:
        """The type whose methods and messages the class has."""
        return next((base for base in (tuple, list, collections.deque) if issubclass(self.cls, base)), self.cls)

    def place(self, t: Tracer, key: Value) -> int:
        """The subscript as a number."""
        if look_up(t, key.python_type(), "__index__") is MISSING:
            name = name_in_messages(key.python_type())
            if self.builtin is collections.deque:
                t.raise_(TypeError, f"sequence index must be integer, not '{name}'")
            t.raise_(TypeError, f"{self.builtin.__name__} indices must be integers or slices, not {name}")
        return key.as_index(t)

    def times(self, t: Tracer, count: Value) -> list[Value]:
        """The items of a product."""
        number = count.as_index(t)
        t.python(operator.mul, (), number)  # raises where C takes no such number
        t.check_length(len(self.items) * number)
        return list(self.items) * number

    def like(self, items: list[Value]) -> Value:
        raise NotImplementedError

    def operation(self, t: Tracer, name: str, right: Value) -> Value:
        """+, * and the comparisons of lists and tuples."""
        if name in ("__mul__", "__rmul__"):
            return self.like(self.times(t, right))
        kinds = (list, tuple, collections.deque)
        alike = any(issubclass(self.cls, kind) and issubclass(right.python_type(), kind) for kind in kinds)
        if not isinstance(right, SequenceValue) or not alike:
            return Constant(NotImplemented)
        if name == "__add__":
            items = [*self.items, *right.items]
            if not isinstance(self, TupleValue):
                return self.like(items)
            kind = torch.Size if torch.Size in (self.cls, right.cls) else tuple
            if kind is torch.Size:
                types_of = (type(i.given) if isinstance(i, Lazy) else i.python_type() for i in items)
                one_each = [1 if issubclass(each, int) else type(each.__name__, (), {})() for each in types_of]
                t.python(torch.Size, one_each)
            return TupleValue(items, kind)
        if name in ("__eq__", "__ne__"):
            alike = len(self.items) == len(right.items)
            if alike or isinstance(self, TupleValue):  # tuples ask their items before their lengths
                both = range(min(len(self.items), len(right.items)))
                pairs = [(self.at(t, i), right.at(t, i)) for i in both]
                if all(is_number(one) and is_number(other) for one, other in pairs):  # sizes compare otherwise
                    known = [pair for pair in pairs if isinstance(pair[0], Constant) and isinstance(pair[1], Constant)]
                    alike = alike and all(t.same_or_equal(*pair) for pair in known)
                    pairs = pairs if alike else []
                alike = all(t.same_or_equal(*pair) for pair in pairs) and alike
            return Constant(alike == (name == "__eq__"))
        symbol = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}[name]
        for i in range(min(len(self.items), len(right.items))):
            if not t.same_or_equal(self.at(t, i), right.at(t, i)):
                return t.compare(symbol, self.at(t, i), right.at(t, i))
        return t.compare(symbol, Constant(len(self.items)), Constant(len(right.items)))

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name:
            case "__getitem__":
                return SequenceValue.get_item(self, t, args[0])
            case "__len__":
                return Constant(len(self.items))
            case "__iter__":
                return t.sequence_iterator(self)
            case "__contains__":
                return Constant(any(t.same_or_equal(item, args[0]) for item in self.unpack(t)))
            case "index":
                items = self.unpack(t)
                first, end = ([_bound(t, each) for each in args[1:3]] + [0, len(items)][len(args) - 1 :])[:2]
                for position in range(len(items))[first:end]:
                    if t.same_or_equal(items[position], args[0]):
                        return Constant(position)
                if issubclass(self.cls, tuple):
                    t.raise_(ValueError, "tuple.index(x): x not in tuple")
                text = t.from_python(repr).call(t, [args[0]], {}).known(t)
                kind = "deque" if issubclass(self.cls, collections.deque) else "list"
                t.raise_(ValueError, f"{text} is not in {kind}")
            case "count":
                return Constant(sum(t.same_or_equal(item, args[0]) for item in self.unpack(t)))
            case "__add__" | "__mul__" | "__rmul__" | "__eq__" | "__ne__" | "__lt__" | "__le__" | "__gt__" | "__ge__":
                return self.operation(t, name, args[0])
            case "__radd__" if isinstance(args[0], SequenceValue):  # torch.Size puts itself before the tuple
                return args[0].operation(t, "__add__", self)
            case "__hash__":
                return t.from_python(hash(self.key()))
        return super().method(t, name, args, kwargs)


def _bound(t: Tracer, value: Value) -> int:
    """A bound of sequence.index()."""
    if look_up(t, value.python_type(), "__index__") is MISSING:
        t.raise_(TypeError, "slice indices must be integers or have an __index__ method")
    return value.as_index(t)


class TupleValue(SequenceValue):
    """A tuple, torch.Size or namedtuple (`cls` says which)."""

    def real(self) -> Any:
        items = tuple(item.real() for item in self._read())
        if self.given is not MISSING and not self.overlay:
            return self.given
        return items if self.cls is tuple else self.constant()

    def key(self) -> Any:
        return tuple(item.key() for item in self._read())

    def _read(self) -> list[Value]:
        """All items, of a tuple that the frame found too."""
        return self.items if self.asked is None else self.unpack(self.asked)

    def like(self, items: list[Value]) -> Value:
        return TupleValue(items, self.cls if self.cls is torch.Size else tuple)

    def get_attr(self, t: Tracer, name: str) -> Value:
        fields = getattr(self.cls, "_fields", None) or _structseq_fields(self.cls)
        if name in fields:
            return self.at(t, fields.index(name))
        if name == "_replace" and hasattr(self.cls, "_fields"):
            return HostValue(lambda args, kwargs: self._replace(t, kwargs))
        if name == "_asdict" and hasattr(self.cls, "_fields"):
            return HostValue(lambda args, kwargs: t.from_python(dict(zip(fields, self.unpack(t), strict=True))))
        return super().get_attr(t, name)

    def _replace(self, t: Tracer, changes: dict[str, Value]) -> Value:
        fields = self.cls._fields  # type: ignore[attr-defined]
        return TupleValue([changes.get(f, item) for f, item in zip(fields, self.unpack(t), strict=True)], self.cls)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.cls is torch.Size and name == "numel":
            product: Value = Constant(1)
            for item in self.unpack(t):
                product = t.binary("*", product, item)
            return product
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.cls is tuple:
            for item in self.items:
                r.value(item)
            r.emit("BUILD_TUPLE", len(self.items))
        elif hasattr(self.cls, "n_sequence_fields") or self.cls is torch.Size:
            r.call(self.cls, [TupleValue(self.items)])
        else:
            r.instance(self, [TupleValue(self.items)])


def _structseq_fields(cls: type) -> tuple[str, ...]:
    """The field names of torch.return_types.max and its like."""
    if not hasattr(cls, "n_sequence_fields"):
        return ()
    return tuple(name for name, member in vars(cls).items() if isinstance(member, types.MemberDescriptorType))


class ListValue(SequenceValue):
    """A list, a deque, or a subclass of list."""

    def __init__(
        self, items: Iterable[object], cls: type = list, source: Source | None = None, given: object = MISSING
    ) -> None:
        super().__init__(items, cls, source, given)
        self.maxlen: int | None = None
        self.turns = 0
        """How often a deque got or lost items or was turned, which ends its iterators."""

    def operate_in_place(self, t: Tracer, function: Callable[..., object], other: Value) -> Value | None:
        name = function.__name__
        is_last = not self.overrides(t, f"__{name}__") and other.overrides(t, f"__r{name[1:]}__")
        return None if is_last else super().operate_in_place(t, function, other)

    def kept_in_c(self, t: Tracer, name: str) -> Value:
        return Constant(self.maxlen) if name == "maxlen" else super().kept_in_c(t, name)

    def constant(self) -> Any:
        raise NotConstant(self)

    def like(self, items: list[Value]) -> Value:
        if not issubclass(self.cls, collections.deque):
            return ListValue(items)
        made = ListValue(items[-self.maxlen :] if self.maxlen else items, self.cls)
        made.maxlen = self.maxlen
        return made

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        t.effects.change(self)
        if (part := self.slice_of(t, key)) is not None:
            if value is None:
                del self.items[part]
            elif look_up(t, value.python_type(), "__iter__") is MISSING:
                t.python(self.items.__setitem__, part, None)  # raises
            else:
                t.python(self.items.__setitem__, part, value.unpack(t))
            return
        index = self.place(t, key)
        if not -len(self.items) <= index < len(self.items):
            t.python(operator.setitem, self.builtin(), index, None)  # raises
        if value is None:
            self.turns += 1
            del self.items[index]
        else:
            self.items[index] = value

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        change = _LIST_CHANGES.get(name)
        if change is not None:
            t.effects.change(self)
            self.turns += name not in ("reverse", "__setitem__")
            found = change(self, t, *args, **kwargs)
            if self.maxlen is not None and len(self.items) > self.maxlen:
                extra = len(self.items) - self.maxlen
                if name in ("appendleft", "extendleft"):
                    del self.items[-extra:]
                else:
                    del self.items[:extra]
            return found if found is not None else Constant(None)
        if name in ("copy", "__copy__"):
            return self.like(list(self.items))
        if name == "__reversed__":
            return t.reversed_iterator(self)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.cls is collections.deque:
            r.call(self.cls, [TupleValue(self.items), Constant(self.maxlen)])
        elif self.cls is list:
            for item in self.items:
                r.value(item)
            r.emit("BUILD_LIST", len(self.items))
        else:
            r.instance(self)

    def refill(self, r: Reconstructor, load: Callable[[], None]) -> None:
        """Make the object that `load` pushes hold these items, by its base's own methods."""
        if issubclass(self.cls, collections.deque):
            r.discard_call(collections.deque.clear, load, [])
            r.discard_call(collections.deque.extend, load, [TupleValue(self.items)])
        else:
            r.discard_call(list.__setitem__, load, [Constant(slice(None)), ListValue(self.items)])


def _pop(self: ListValue, t: Tracer, index: Value | None = None) -> Value:
    at = index.as_index(t) if index is not None else -1
    if not -len(self.items) <= at < len(self.items):
        t.python(self.builtin(self.items).pop, *([at] if index is not None else []))  # raises
    found = self.at(t, at)
    del self.items[at]
    return found


def _popleft(self: ListValue, t: Tracer) -> Value:
    if not self.items:
        t.raise_(IndexError, "pop from an empty deque")
    return _pop(self, t, Constant(0))


def _remove(self: ListValue, t: Tracer, item: Value) -> None:
    for position, other in enumerate(self.unpack(t)):
        if t.same_or_equal(other, item):
            del self.items[position]
            return
    t.raise_(ValueError, "list.remove(x): x not in list")


def _sort(self: ListValue, t: Tracer, key: Value | None = None, reverse: Value | None = None) -> None:
    self.items[:] = t.sorted(self.unpack(t), key, reverse)


def _iadd(self: ListValue, t: Tracer, items: Value) -> Value:
    self.items.extend(items.unpack(t))
    return self


def _extendleft(self: ListValue, t: Tracer, items: Value) -> None:
    for item in items.unpack(t):
        self.items.insert(0, item)


def _imul(self: ListValue, t: Tracer, count: Value) -> Value:
    self.items[:] = self.times(t, count)
    return self


def _rotate(self: ListValue, t: Tracer, n: Value | None = None) -> None:
    turned = collections.deque(self.items)
    t.python(turned.rotate, n.as_index(t) if n is not None else 1)
    self.items[:] = turned


def _list_init(self: ListValue, t: Tracer, items: Value | None = None, maxlen: Value | None = None) -> None:
    self.items[:] = items.unpack(t) if items is not None else []
    if maxlen is not None:
        self.maxlen = t.python(collections.deque, (), maxlen.known(t)).maxlen


_LIST_CHANGES: dict[str, Callable[..., Value | None]] = {
    "append": lambda self, t, item: self.items.append(item),
    "appendleft": lambda self, t, item: self.items.insert(0, item),
    "insert": lambda self, t, index, item: t.python(self.items.insert, index.as_index(t), item),
    "extend": lambda self, t, items: self.items.extend(items.unpack(t)),
    "clear": lambda self, t: self.items.clear(),
    "reverse": lambda self, t: self.items.reverse(),
    "__setitem__": lambda self, t, key, value: ListValue.set_item(self, t, key, value),
    "__delitem__": lambda self, t, key: ListValue.set_item(self, t, key, None),
    "pop": _pop, "popleft": _popleft, "remove": _remove, "sort": _sort, "extendleft": _extendleft, "rotate": _rotate,
    "__iadd__": _iadd, "__imul__": _imul, "__init__": _list_init,
}  # fmt: skip
