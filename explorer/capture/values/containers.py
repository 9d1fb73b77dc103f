"""Tuples, lists, dictionaries, sets and slices. Stock counterpart: variables/lists.py, variables/dicts.py."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from explorer.capture import reasons
from explorer.capture.values.base import NotConstant, Value, unsupported
from explorer.capture.values.constant import Constant
from explorer.capture.values.objects import DELETED, MISSING, ObjectValue, type_attribute
from explorer.ir.capture import Source

if TYPE_CHECKING:
    from explorer.capture.rebuild import Rebuilder
    from explorer.capture.tracer import Tracer


class Lazy:
    """An item of a container that the program has not read yet, so that nothing is assumed of it."""

    def __init__(self, source: Source, given: Any) -> None:
        self.source = source
        self.given = given


class SliceValue(Value):
    """slice(start, stop, step)."""

    def __init__(self, start: Value, stop: Value, step: Value) -> None:
        self.start, self.stop, self.step = start, stop, step

    def python_type(self) -> type:
        return slice

    def constant(self) -> Any:
        return slice(self.start.constant(), self.stop.constant(), self.step.constant())

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            found: Value = getattr(self, name)
            return found
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        fixed = slice(*(t.index_or_none(part) for part in (self.start, self.stop, self.step)))
        return t.from_python(t.python(getattr(fixed, name), *(t.index(a) for a in args)))

    def fixed(self, t: Tracer) -> slice:
        """With every symbolic bound made a number."""
        return slice(*(t.index_or_none(part) for part in (self.start, self.stop, self.step)))

    def rebuild(self, r: Rebuilder) -> None:
        for part in (self.start, self.stop, self.step):
            r.value(part)
        r.build("BUILD_SLICE", 3)


class SequenceValue(ObjectValue):
    """What lists, tuples and deques share. `items` are values, or Lazy until they are read."""

    items: list[Any]

    def __init__(self, items: Iterable[Any], cls: type, source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(cls, source, given)
        self.items = list(items)

    def shown(self) -> str:
        return f"{self.describe()} of {len(self.items)}"

    def constant(self) -> Any:
        if self.cls not in (tuple, list, torch.Size) and not hasattr(self.cls, "_fields"):
            raise NotConstant(self)
        plain = [i.given if isinstance(i, Lazy) else i.constant() for i in self.items]
        if any(isinstance(i, Lazy) for i in self.items):
            raise NotConstant(self)
        return self.cls(*plain) if hasattr(self.cls, "_fields") else self.cls(plain)

    def truth(self, t: Tracer) -> bool:
        if t.overrides(self.cls, "__bool__", "__len__"):
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
        return item  # type: ignore[no-any-return]

    def get_item(self, t: Tracer, key: Value) -> Value:
        if isinstance(key, SliceValue) or (isinstance(key, Constant) and isinstance(key.value, slice)):
            part = key.fixed(t) if isinstance(key, SliceValue) else key.value
            chosen = [self.at(t, i) for i in range(*part.indices(len(self.items)))]
            return self.like(chosen)
        index = t.index(key)
        if not -len(self.items) <= index < len(self.items):
            t.raise_(IndexError, f"{self.cls.__name__} index out of range")
        return self.at(t, index)

    def like(self, items: list[Value]) -> Value:
        raise NotImplementedError

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name:
            case "__getitem__":
                return SequenceValue.get_item(self, t, args[0])
            case "__len__":
                return Constant(len(self.items))
            case "__iter__":
                return t.sequence_iterator(self)
            case "__contains__":
                return Constant(any(t.same_or_equal(item, args[0]) for item in t.items(self)))
            case "index":
                for position, item in enumerate(t.items(self)):
                    if t.same_or_equal(item, args[0]):
                        return Constant(position)
                t.raise_(ValueError, f"{args[0].describe()} is not in {self.cls.__name__}")
            case "count":
                return Constant(sum(t.same_or_equal(item, args[0]) for item in t.items(self)))
            case "__add__" | "__mul__" | "__rmul__" | "__eq__" | "__ne__" | "__lt__" | "__le__" | "__gt__" | "__ge__":
                return t.sequence_operation(self, name, args[0])
            case "__hash__":
                return t.from_python(hash(self.key()))
        return super().method(t, name, args, kwargs)


class TupleValue(SequenceValue):
    """A tuple, torch.Size or namedtuple (`cls` says which)."""

    def __init__(
        self, items: Iterable[Any], cls: type = tuple, source: Source | None = None, given: Any = MISSING
    ) -> None:
        super().__init__(items, cls, source, given)

    def real(self) -> Any:
        if self.given is not MISSING and not self.overlay:
            return self.given
        if self.cls is not tuple:
            return self.constant()
        return tuple(i.given if isinstance(i, Lazy) else i.real() for i in self.items)

    def key(self) -> Any:
        return tuple(i.given if isinstance(i, Lazy) else i.key() for i in self.items)

    def like(self, items: list[Value]) -> Value:
        return TupleValue(items, self.cls if self.cls is torch.Size else tuple)

    def get_attr(self, t: Tracer, name: str) -> Value:
        fields = getattr(self.cls, "_fields", None) or _structseq_fields(self.cls)
        if name in fields:
            return self.at(t, fields.index(name))
        if name == "_replace" and hasattr(self.cls, "_fields"):
            return t.host(lambda args, kwargs: self._replace(t, kwargs))
        if name == "_asdict" and hasattr(self.cls, "_fields"):
            return t.host(lambda args, kwargs: t.new_dict(dict(zip(fields, t.items(self), strict=True))))
        return super().get_attr(t, name)

    def _replace(self, t: Tracer, changes: dict[str, Value]) -> Value:
        fields = self.cls._fields  # type: ignore[attr-defined]
        return TupleValue([changes.get(f, item) for f, item in zip(fields, t.items(self), strict=True)], self.cls)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.cls is torch.Size and name == "numel":
            product: Value = Constant(1)
            for item in t.items(self):
                product = t.binary("*", product, item)
            return product
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        if self.cls is tuple:
            for item in self.items:
                r.value(item)
            r.build("BUILD_TUPLE", len(self.items))
        elif hasattr(self.cls, "_fields"):
            r.call(self.cls, list(self.items))
        else:
            r.call(self.cls, [TupleValue(self.items)])


def _structseq_fields(cls: type) -> tuple[str, ...]:
    """The field names of torch.return_types.max and its like."""
    if not hasattr(cls, "n_sequence_fields"):
        return ()
    found = [name for name, member in vars(cls).items() if type(member).__name__ == "member_descriptor"]
    return tuple(found)


class ListValue(SequenceValue):
    """A list, a deque, or a subclass of list."""

    def __init__(
        self, items: Iterable[Any], cls: type = list, source: Source | None = None, given: Any = MISSING
    ) -> None:
        super().__init__(items, cls, source, given)
        self.maxlen: int | None = None

    def constant(self) -> Any:
        raise NotConstant(self)

    def key(self) -> Any:
        unsupported(reasons.OPERATION, "a list as a dictionary key")

    def like(self, items: list[Value]) -> Value:
        return ListValue(items)

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        t.effects.change(self)
        if isinstance(key, SliceValue) or (isinstance(key, Constant) and isinstance(key.value, slice)):
            part = key.fixed(t) if isinstance(key, SliceValue) else key.value
            if value is None:
                del self.items[part]
            else:
                t.python(self.items.__setitem__, part, t.items(value))
            return
        index = t.index(key)
        if not -len(self.items) <= index < len(self.items):
            t.raise_(IndexError, "list assignment index out of range")
        if value is None:
            del self.items[index]
        else:
            self.items[index] = value

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        change = _LIST_CHANGES.get(name)
        if change is not None:
            t.effects.change(self)
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
            return t.sequence_iterator(TupleValue([self.at(t, i) for i in reversed(range(len(self.items)))]))
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        if self.cls is collections.deque:
            r.call(self.cls, [TupleValue(self.items), Constant(self.maxlen)])
        elif self.cls is list:
            for item in self.items:
                r.value(item)
            r.build("BUILD_LIST", len(self.items))
        else:
            r.instance(self)

    def refill(self, r: Rebuilder, load: Callable[[], None]) -> None:
        """Make the object that `load` pushes hold these items."""
        if issubclass(self.cls, collections.deque):
            r.discard_method(load, "clear", [])
            r.discard_method(load, "extend", [TupleValue(self.items)])
            return
        r.value(ListValue(self.items))
        load()
        r.constant(None)
        r.constant(None)
        r.build("BUILD_SLICE", 2)
        r.emit("STORE_SUBSCR")


def _append(self: ListValue, t: Tracer, item: Value) -> None:
    self.items.append(item)


def _extend(self: ListValue, t: Tracer, items: Value) -> None:
    self.items.extend(t.items(items))


def _insert(self: ListValue, t: Tracer, index: Value, item: Value) -> None:
    self.items.insert(t.index(index), item)


def _pop(self: ListValue, t: Tracer, index: Value | None = None) -> Value:
    at = t.index(index) if index is not None else -1
    if not -len(self.items) <= at < len(self.items):
        t.raise_(IndexError, "pop from empty list" if not self.items else "pop index out of range")
    found = self.at(t, at)
    del self.items[at]
    return found


def _popleft(self: ListValue, t: Tracer) -> Value:
    if not self.items:
        t.raise_(IndexError, "pop from an empty deque")
    return _pop(self, t, Constant(0))


def _remove(self: ListValue, t: Tracer, item: Value) -> None:
    for position, other in enumerate(t.items(self)):
        if t.same_or_equal(other, item):
            del self.items[position]
            return
    t.raise_(ValueError, "list.remove(x): x not in list")


def _clear(self: ListValue, t: Tracer) -> None:
    self.items.clear()


def _reverse(self: ListValue, t: Tracer) -> None:
    self.items.reverse()


def _sort(self: ListValue, t: Tracer, key: Value | None = None, reverse: Value | None = None) -> None:
    self.items[:] = t.sorted(t.items(self), key, reverse)


def _setitem(self: ListValue, t: Tracer, key: Value, value: Value) -> None:
    ListValue.set_item(self, t, key, value)


def _delitem(self: ListValue, t: Tracer, key: Value) -> None:
    ListValue.set_item(self, t, key, None)


def _iadd(self: ListValue, t: Tracer, items: Value) -> Value:
    self.items.extend(t.items(items))
    return self


def _appendleft(self: ListValue, t: Tracer, item: Value) -> None:
    self.items.insert(0, item)


def _extendleft(self: ListValue, t: Tracer, items: Value) -> None:
    for item in t.items(items):
        self.items.insert(0, item)


def _rotate(self: ListValue, t: Tracer, n: Value | None = None) -> None:
    turned = collections.deque(self.items)
    turned.rotate(t.index(n) if n is not None else 1)
    self.items[:] = turned


def _list_init(self: ListValue, t: Tracer, items: Value | None = None, maxlen: Value | None = None) -> None:
    self.items[:] = t.items(items) if items is not None else []
    if maxlen is not None:
        self.maxlen = t.constant_of(maxlen)


_LIST_CHANGES: dict[str, Callable[..., Value | None]] = {
    "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "popleft": _popleft, "remove": _remove,
    "clear": _clear, "reverse": _reverse, "sort": _sort, "__setitem__": _setitem, "__delitem__": _delitem,
    "__iadd__": _iadd, "appendleft": _appendleft, "extendleft": _extendleft, "rotate": _rotate, "__init__": _list_init,
}  # fmt: skip


class DictValue(ObjectValue):
    """A dict, OrderedDict, defaultdict, Counter, or a subclass. `entries`: key object -> [key value, value or Lazy]."""

    def __init__(self, cls: type = dict, source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(cls, source, given)
        self.entries: dict[Any, list[Any]] = {}
        self.factory: Value | None = None
        self.unread: Callable[[], None] | None = None
        """Guards on all keys; called once, when something else than the presence of a key is asked."""

    def shown(self) -> str:
        return f"{self.describe()} of {len(self.entries)}"

    def read_all(self) -> None:
        if self.unread is not None:
            unread, self.unread = self.unread, None
            unread()

    def put(self, key: Value, value: Any) -> None:
        k = key.key()
        if k in self.entries:
            self.entries[k][1] = value
        else:
            self.entries[k] = [key, value]

    def at(self, t: Tracer, k: Any) -> Value:
        entry = self.entries[k]
        if isinstance(entry[1], Lazy):
            entry[1] = t.wrap(entry[1].source, entry[1].given)
        return entry[1]  # type: ignore[no-any-return]

    def keys(self) -> list[Value]:
        self.read_all()
        return [entry[0] for entry in self.entries.values()]

    def values(self, t: Tracer) -> list[Value]:
        self.read_all()
        return [self.at(t, k) for k in list(self.entries)]

    def pairs(self, t: Tracer) -> list[tuple[Value, Value]]:
        self.read_all()
        return [(self.entries[k][0], self.at(t, k)) for k in list(self.entries)]

    def plain_items(self, t: Tracer) -> dict[Any, Value]:
        """Items by the Python objects of the keys. Breaks the graph where a key has none."""
        return {t.constant_of(key): value for key, value in self.pairs(t)}

    def truth(self, t: Tracer) -> bool:
        if t.overrides(self.cls, "__bool__", "__len__"):
            return super().truth(t)
        self.read_all()
        return len(self.entries) > 0

    def key(self) -> Any:
        if self.cls in (dict, collections.OrderedDict, collections.defaultdict):
            t_name = self.cls.__name__
            unsupported(reasons.OPERATION, f"a {t_name} as a dictionary key")
        return super().key()

    def length(self, t: Tracer) -> Value:
        self.read_all()
        return Constant(len(self.entries))

    def iterate(self, t: Tracer) -> Value:
        return t.sequence_iterator(TupleValue(self.keys()))

    def contains(self, t: Tracer, item: Value) -> bool:
        return self.has(t, item.key())

    def has(self, t: Tracer, k: Any) -> bool:
        """Whether the key is there; of a dict from outside only that is assumed."""
        if self.unread is not None and self.source is not None:
            t.guard(self.source, "has", "==", (k, k in self.entries, "key"), "the program asked for this key")
        return k in self.entries

    def get_item(self, t: Tracer, key: Value) -> Value:
        k = key.key()
        if self.has(t, k):
            return self.at(t, k)
        missing = type_attribute(self.cls, "__missing__")
        if self.factory is not None and not (isinstance(self.factory, Constant) and self.factory.value is None):
            made = t.call(self.factory, [], {})
            t.effects.change(self)
            self.put(key, made)
            return made
        if hasattr(missing, "__code__"):
            return t.call_method(self, "__missing__", [key])
        if issubclass(self.cls, collections.Counter):
            return Constant(0)
        t.raise_value(KeyError, [key])

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        t.effects.change(self)
        if value is not None:
            self.put(key, value)
        elif self.entries.pop(key.key(), None) is None:
            t.raise_value(KeyError, [key])

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        rule = _DICT_METHODS.get(name)
        if rule is not None:
            if name in _DICT_CHANGES:
                t.effects.change(self)
            elif name not in ("get", "__getitem__", "__contains__"):
                self.read_all()
            found = rule(self, t, *args, **kwargs)
            return found if found is not None else Constant(None)
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        if self.cls is dict:
            for key, value in self.entries.values():
                r.value(key)
                r.value(value)
            r.build("BUILD_MAP", len(self.entries))
        elif self.cls in (collections.OrderedDict, collections.Counter):
            r.call(self.cls, [self.as_plain()])
        elif self.cls is collections.defaultdict:
            r.call(self.cls, [self.factory or Constant(None), self.as_plain()])
        else:
            r.instance(self)

    def as_plain(self) -> DictValue:
        made = DictValue()
        made.entries = {k: list(entry) for k, entry in self.entries.items()}
        return made

    def refill(self, r: Rebuilder, load: Callable[[], None]) -> None:
        """Make the object that `load` pushes hold these entries, by dict's own methods."""
        is_ordered = issubclass(self.cls, collections.OrderedDict)
        if self.given is not MISSING:
            r.discard_call(collections.OrderedDict.clear if is_ordered else dict.clear, load, [])
        if not is_ordered:
            r.discard_call(dict.update, load, [self.as_plain()])
            return
        for key, value in self.entries.values():  # OrderedDict.update would call an overridden __setitem__
            r.discard_call(collections.OrderedDict.__setitem__, load, [key, value])


def _dict_get(self: DictValue, t: Tracer, key: Value, default: Value | None = None) -> Value:
    k = key.key()
    return self.at(t, k) if self.has(t, k) else default if default is not None else Constant(None)


def _dict_pop(self: DictValue, t: Tracer, key: Value, default: Value | None = None) -> Value:
    k = key.key()
    if k in self.entries:
        found = self.at(t, k)
        del self.entries[k]
        return found
    if default is None:
        t.raise_value(KeyError, [key])
    return default


def _dict_setdefault(self: DictValue, t: Tracer, key: Value, default: Value | None = None) -> Value:
    k = key.key()
    if k not in self.entries:
        self.put(key, default if default is not None else Constant(None))
    return self.at(t, k)


def _dict_update(self: DictValue, t: Tracer, *others: Value, **kwargs: Value) -> None:
    for other in others:
        for key, value in t.mapping_pairs(other):
            self.put(key, value)
    for name, value in kwargs.items():
        self.put(Constant(name), value)


def _dict_init(self: DictValue, t: Tracer, *others: Value, **kwargs: Value) -> None:
    if issubclass(self.cls, collections.defaultdict) and others:
        self.factory, *rest = others
        others = tuple(rest)
    _dict_update(self, t, *others, **kwargs)


def _dict_popitem(self: DictValue, t: Tracer, last: Value | None = None) -> Value:
    if not self.entries:
        t.raise_(KeyError, "popitem(): dictionary is empty")
    keys = list(self.entries)
    k = keys[-1] if last is None or last.truth(t) else keys[0]
    found = TupleValue([self.entries[k][0], self.at(t, k)])
    del self.entries[k]
    return found


def _dict_move(self: DictValue, t: Tracer, key: Value, last: Value | None = None) -> None:
    k = key.key()
    if k not in self.entries:
        t.raise_value(KeyError, [key])
    entry = self.entries.pop(k)
    if last is None or last.truth(t):
        self.entries[k] = entry
    else:
        self.entries = {k: entry, **self.entries}


def _dict_copy(self: DictValue, t: Tracer) -> Value:
    made = DictValue(
        self.cls if self.cls in (collections.OrderedDict, collections.defaultdict, collections.Counter) else dict
    )
    made.entries = {k: list(entry) for k, entry in self.entries.items()}
    made.factory = self.factory
    return made


def _dict_clear(self: DictValue, t: Tracer) -> None:
    self.entries.clear()


def _dict_setitem(self: DictValue, t: Tracer, key: Value, value: Value) -> None:
    self.put(key, value)


def _dict_delitem(self: DictValue, t: Tracer, key: Value) -> None:
    DictValue.set_item(self, t, key, None)


def _dict_or(self: DictValue, t: Tracer, other: Value) -> Value:
    made = _dict_copy(self, t)
    assert isinstance(made, DictValue)
    _dict_update(made, t, other)
    return made


def _dict_ior(self: DictValue, t: Tracer, other: Value) -> Value:
    _dict_update(self, t, other)
    return self


def _dict_equal(self: DictValue, t: Tracer, other: Value) -> Value:
    if not isinstance(other, DictValue) or self.entries.keys() != other.entries.keys():
        return Constant(False)
    return Constant(all(t.same_or_equal(self.at(t, k), other.at(t, k)) for k in list(self.entries)))


_DICT_METHODS: dict[str, Callable[..., Value | None]] = {
    "get": _dict_get, "pop": _dict_pop, "setdefault": _dict_setdefault, "update": _dict_update,
    "popitem": _dict_popitem,
    "move_to_end": _dict_move, "copy": _dict_copy, "__copy__": _dict_copy, "clear": _dict_clear, "__init__": _dict_init,
    "__setitem__": _dict_setitem, "__delitem__": _dict_delitem, "__or__": _dict_or, "__ior__": _dict_ior,
    "__eq__": _dict_equal,
    "__ne__": lambda self, t, other: Constant(not _dict_equal(self, t, other).truth(t)),
    "keys": lambda self, t: DictView(self, "keys"),
    "values": lambda self, t: DictView(self, "values"),
    "items": lambda self, t: DictView(self, "items"),
    "__getitem__": lambda self, t, key: DictValue.get_item(self, t, key),
    "__contains__": lambda self, t, key: Constant(self.has(t, key.key())),
    "__len__": lambda self, t: Constant(len(self.entries)),
    "__iter__": lambda self, t: DictValue.iterate(self, t),
    "__reversed__": lambda self, t: t.sequence_iterator(TupleValue(self.keys()[::-1])),
}  # fmt: skip
_DICT_CHANGES = frozenset(
    "pop setdefault update popitem move_to_end clear __init__ __setitem__ __delitem__ __ior__".split()
)


class InstanceDict(DictValue):
    """An object's __dict__: writing to it sets attributes."""

    def __init__(self, owner: ObjectValue, t: Tracer) -> None:
        super().__init__()
        self.owner = owner
        for name in owner.own_names():
            found = owner.own(t, name)
            if found is not None:
                self.put(Constant(name), found)

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        super().set_item(t, key, value)
        t.effects.set_attr(self.owner, t.constant_of(key), value if value is not None else DELETED)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        before = {k: entry[1] for k, entry in self.entries.items()}
        found = super().method(t, name, args, kwargs)
        for k, (_, value) in self.entries.items():
            if before.pop(k, None) is not value:
                t.effects.set_attr(self.owner, k, value)
        for k in before:
            t.effects.set_attr(self.owner, k, DELETED)
        return found


class DictView(Value):
    """dict.keys(), .values() or .items(): a live view."""

    def __init__(self, base: DictValue, kind: str) -> None:
        self.base = base
        self.kind = kind

    def python_type(self) -> type:
        return type(getattr({}, self.kind)())

    def as_items(self, t: Tracer) -> list[Value]:
        if self.kind == "keys":
            return self.base.keys()
        if self.kind == "values":
            return self.base.values(t)
        return [TupleValue(list(pair)) for pair in self.base.pairs(t)]

    def truth(self, t: Tracer) -> bool:
        return bool(self.base.entries)

    def length(self, t: Tracer) -> Value:
        return Constant(len(self.base.entries))

    def iterate(self, t: Tracer) -> Value:
        return t.sequence_iterator(TupleValue(self.as_items(t)))

    def contains(self, t: Tracer, item: Value) -> bool:
        if self.kind == "keys":
            return item.key() in self.base.entries
        return any(t.same_or_equal(other, item) for other in self.as_items(t))

    def get_attr(self, t: Tracer, name: str) -> Value:
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self.iterate(t)
        if self.kind != "values":
            return SetValue.of(self.as_items(t)).method(t, name, args, kwargs)
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        r.method(self.base, self.kind)


class SetValue(ObjectValue):
    """A set or frozenset: key object -> value."""

    def __init__(self, cls: type = set, source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(cls, source, given)
        self.entries: dict[Any, Value] = {}

    def shown(self) -> str:
        return f"{self.describe()} of {len(self.entries)}"

    @classmethod
    def of(cls, items: Iterable[Value], kind: type = set) -> SetValue:
        made = cls(kind)
        for item in items:
            made.entries.setdefault(item.key(), item)
        return made

    def constant(self) -> Any:
        if self.cls is not frozenset:
            raise NotConstant(self)
        return frozenset(item.constant() for item in self.entries.values())

    def real(self) -> Any:
        return self.cls(item.real() for item in self.entries.values())

    def key(self) -> Any:
        if self.cls is not frozenset:
            unsupported(reasons.OPERATION, "a set as a dictionary key")
        return frozenset(self.entries)

    def truth(self, t: Tracer) -> bool:
        return bool(self.entries)

    def length(self, t: Tracer) -> Value:
        return Constant(len(self.entries))

    def ordered(self) -> list[Value]:
        """The items in Python's own order, where all are plain constants; else in order of insertion."""
        try:
            plain = [item.constant() for item in self.entries.values()]
        except NotConstant:
            return list(self.entries.values())
        return [self.entries[k] for k in set(plain)]

    def iterate(self, t: Tracer) -> Value:
        return t.sequence_iterator(TupleValue(self.ordered()))

    def contains(self, t: Tracer, item: Value) -> bool:
        return item.key() in self.entries

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in _SET_CHANGES:
            t.effects.change(self)
            _SET_CHANGES[name](self, t, *args)
            return self if name.startswith("__i") and name != "__init__" else Constant(None)
        if name == "pop":
            t.effects.change(self)
            if not self.entries:
                t.raise_(KeyError, "pop from an empty set")
            first = self.ordered()[0]
            del self.entries[first.key()]
            return first
        if name in _SET_OPERATIONS:
            others = [SetValue.of(t.items(a)) for a in args]
            result: Any = dict(self.entries)
            for other in others:
                result = _SET_OPERATIONS[name](result, other.entries)
            if isinstance(result, bool):
                return Constant(result)
            made = SetValue(self.cls if self.cls in (set, frozenset) else set)
            made.entries = result
            return made
        match name:
            case "copy":
                return SetValue.of(self.entries.values(), self.cls)
            case "__contains__":
                return Constant(args[0].key() in self.entries)
            case "__len__":
                return Constant(len(self.entries))
            case "__iter__":
                return self.iterate(t)
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        if self.cls is set:
            for item in self.ordered():
                r.value(item)
            r.build("BUILD_SET", len(self.entries))
        else:
            r.call(self.cls, [TupleValue(self.ordered())])

    def refill(self, r: Rebuilder, load: Callable[[], None]) -> None:
        r.discard_method(load, "clear", [])
        r.discard_method(load, "update", [TupleValue(self.ordered())])


def _set_add(self: SetValue, t: Tracer, item: Value) -> None:
    self.entries.setdefault(item.key(), item)


def _set_update(self: SetValue, t: Tracer, *others: Value) -> None:
    for other in others:
        for item in t.items(other):
            self.entries.setdefault(item.key(), item)


def _set_discard(self: SetValue, t: Tracer, item: Value) -> None:
    self.entries.pop(item.key(), None)


def _set_remove(self: SetValue, t: Tracer, item: Value) -> None:
    if self.entries.pop(item.key(), None) is None:
        t.raise_value(KeyError, [item])


def _set_keep(self: SetValue, t: Tracer, other: Value) -> None:
    kept = {item.key() for item in t.items(other)}
    self.entries = {k: v for k, v in self.entries.items() if k in kept}


def _set_drop(self: SetValue, t: Tracer, other: Value) -> None:
    gone = {item.key() for item in t.items(other)}
    self.entries = {k: v for k, v in self.entries.items() if k not in gone}


def _set_clear(self: SetValue, t: Tracer) -> None:
    self.entries.clear()


_SET_CHANGES: dict[str, Callable[..., None]] = {
    "add": _set_add, "update": _set_update, "__ior__": _set_update, "__init__": _set_update, "discard": _set_discard,
    "remove": _set_remove, "intersection_update": _set_keep, "__iand__": _set_keep, "difference_update": _set_drop,
    "__isub__": _set_drop, "clear": _set_clear,
}  # fmt: skip


def _union(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {**b, **a} if not a else {**a, **{k: v for k, v in b.items() if k not in a}}


def _intersection(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {k: v for k, v in a.items() if k in b}


def _difference(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {k: v for k, v in a.items() if k not in b}


def _symmetric(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {**_difference(a, b), **_difference(b, a)}


_SET_OPERATIONS: dict[str, Callable[[dict[Any, Value], dict[Any, Value]], Any]] = {
    "union": _union, "__or__": _union, "__ror__": _union, "intersection": _intersection, "__and__": _intersection,
    "difference": _difference, "__sub__": _difference, "symmetric_difference": _symmetric, "__xor__": _symmetric,
    "issubset": lambda a, b: a.keys() <= b.keys(), "__le__": lambda a, b: a.keys() <= b.keys(),
    "__lt__": lambda a, b: a.keys() < b.keys(), "issuperset": lambda a, b: a.keys() >= b.keys(),
    "__ge__": lambda a, b: a.keys() >= b.keys(), "__gt__": lambda a, b: a.keys() > b.keys(),
    "isdisjoint": lambda a, b: a.keys().isdisjoint(b.keys()), "__eq__": lambda a, b: a.keys() == b.keys(),
    "__ne__": lambda a, b: a.keys() != b.keys(),
}  # fmt: skip
