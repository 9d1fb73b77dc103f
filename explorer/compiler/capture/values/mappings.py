"""Dictionaries, the one of an instance, and views of them; sets, mutable and frozen. Stock counterparts:
variables/dicts.py, variables/sets.py."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Has, KeysAre, keys_of
from explorer.compiler.capture.values.base import NotConstant, Reconstructor, Tracer, Value, type_name
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant, is_plain
from explorer.compiler.capture.values.iterators import taken_iterator
from explorer.compiler.capture.values.objects import (
    DELETED,
    MISSING,
    Lazy,
    ObjectValue,
    ProgramKey,
    lacks,
    look_up,
    mapping_pairs,
    takes,
)
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.core.reasons import unsupported
from explorer.ir.capture import Contained, Source


class DictValue(ObjectValue):
    """A dict, OrderedDict, defaultdict, Counter, or a subclass. `entries`: key object -> [key value, value or Lazy]."""

    def __init__(self, cls: type = dict, source: Source | None = None, given: object = MISSING) -> None:
        super().__init__(cls, source, given)
        self.entries: dict[Any, list[Any]] = {}
        self.factory: Value | None = None
        self.written: set[object] = set()
        """Keys that the program has set, while the order or number of all keys was not used yet."""

    def kept_in_c(self, t: Tracer, name: str) -> Value:
        return self.factory or Constant(None) if name == "default_factory" else super().kept_in_c(t, name)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Value, Value]], kind: type = dict) -> DictValue:
        made = cls(kind)
        for key, value in pairs:
            made.put(key, value)
        return made

    def shown(self, depth: int = 2) -> Contained:
        return self.holding(len(self.entries), self.entries.values(), depth)

    def put(self, key: Value, value: object) -> None:
        k = key.key()
        if k in self.entries:
            self.entries[k][1] = value
        else:
            self.entries[k] = [key, value]

    def at(self, t: Tracer, k: object) -> Value:
        entry = self.entries[k]
        if isinstance(entry[1], Lazy):
            entry[1] = t.wrap(entry[1].source, entry[1].given)
            t.effects.read += 1
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

    def own_pairs(self, t: Tracer) -> list[tuple[Value, Value]] | None:
        return None if self.overrides(t, "keys", "__getitem__") else self.pairs(t)

    def plain_items(self, t: Tracer) -> dict[Any, Value]:
        """Items by the Python objects of the keys. Breaks the graph where a key has none."""
        return {key.known(t): value for key, value in self.pairs(t)}

    def known(self, t: Tracer) -> Any:
        if self.cls not in (dict, collections.OrderedDict):
            return super().known(t)
        return self.cls((key.known(t), value.known(t)) for key, value in self.pairs(t))

    def truth(self, t: Tracer) -> bool:
        if self.overrides(t, "__bool__", "__len__"):
            return super().truth(t)
        self.read_all()
        return len(self.entries) > 0

    def guard(self, t: Tracer) -> None:
        raw = self.given if issubclass(self.cls, dict) else dict(self.given)
        why = "all its keys, and their order, were used"
        t.guards.on(self.source, KeysAre(tuple(keys_of(raw))), why)

    def length(self, t: Tracer) -> Value:
        self.read_all()
        return Constant(len(self.entries))

    def iterate(self, t: Tracer) -> Value:
        return taken_iterator(t, self.keys(), type(iter(self.empty())), self)

    def contains(self, t: Tracer, item: Value) -> bool:
        return self.has(t, item.key())

    def has(self, t: Tracer, k: object) -> bool:
        """Whether the key is there; of a dict from outside only that is assumed."""
        if self.unread is not None and self.source is not None and k not in self.written:
            if isinstance(k, ProgramKey):
                unsupported(reasons.OPERATION, "a dictionary asked for a key whose class compares keys in Python")
            t.guards.on(self.source, Has(k, k in self.entries, "key"), "the program asked for this key")
        return k in self.entries

    def get_item(self, t: Tracer, key: Value) -> Value:
        k = key.key()
        if self.has(t, k):
            return self.at(t, k)
        if self.overrides(t, "__missing__") and self.cls is not collections.Counter:
            return self.special(t, "__missing__", [key])
        return self.missing(t, key)

    def missing(self, t: Tracer, key: Value) -> Value:
        """The value that the class written in C gives for a missing key."""
        if self.factory is not None and not (isinstance(self.factory, Constant) and self.factory.value is None):
            made = self.factory.call(t, [], {})
            t.set_item(self, key, made)
            return made
        if issubclass(self.cls, collections.Counter):
            return Constant(0)
        t.raise_value(KeyError, [key])

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        if value is not None and self._is_set_alone(key.key()):
            self.written.add(key.key())
            t.effects.set_item(self, key.key())
        else:
            t.effects.change(self)
        if value is not None:
            self.put(key, value)
        elif self.entries.pop(key.key(), None) is None:
            t.raise_value(KeyError, [key])

    def _is_set_alone(self, k: object) -> bool:
        """Whether an item is set without anything being assumed of the others."""
        is_plain_dict = type(self) is DictValue and self.cls in (dict, collections.defaultdict)
        return is_plain_dict and self.unread is not None and is_plain(k)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        rule = _DICT_METHODS.get(name)
        if rule is not None:
            if name in _DICT_CHANGES:
                if name == "clear" and type(self) is DictValue:
                    self.unread = None  # whatever its keys are
                t.effects.change(self)
            elif name not in ("get", "__getitem__", "__contains__"):
                self.read_all()
            found = rule(self, t, *args, **kwargs)
            return found if found is not None else Constant(None)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.cls is dict:
            for key, value in self.entries.values():
                r.value(key)
                r.value(value)
            r.emit("BUILD_MAP", len(self.entries))
        elif self.cls in (collections.OrderedDict, collections.Counter):
            r.call(self.cls, [self.as_plain()])
            r.filled(self)
        elif self.cls is collections.defaultdict:
            r.call(self.cls, [self.factory or Constant(None), self.as_plain()])
        else:
            r.instance(self)

    def empty(self) -> dict[object, object]:
        """An empty one, of the class in C of which iterators and views are."""
        return collections.OrderedDict() if issubclass(self.cls, collections.OrderedDict) else {}

    def as_plain(self) -> DictValue:
        made = DictValue()
        made.entries = {k: list(entry) for k, entry in self.entries.items()}
        return made

    def refill(self, r: Reconstructor, load: Callable[[], None]) -> None:
        """Make the object that `load` pushes hold these entries, by dict's own methods."""
        is_ordered = issubclass(self.cls, collections.OrderedDict)
        if self.given is MISSING and self.factory is not None:
            r.discard_call(collections.defaultdict.__init__, load, [self.factory])
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
        _put(self, t, key, default if default is not None else Constant(None))
    return self.at(t, k)


def _put(self: DictValue, t: Tracer, key: Value, value: Value) -> None:
    """Add an item as the dictionary's own methods do: those of OrderedDict call the class's __setitem__."""
    if issubclass(self.cls, collections.OrderedDict):
        t.set_item(self, key, value)
    else:
        self.put(key, value)


def _dict_update(self: DictValue, t: Tracer, *others: Value, **kwargs: Value) -> None:
    pairs = [pair for other in others for pair in mapping_pairs(t, other)]
    for key, value in (*pairs, *((Constant(name), value) for name, value in kwargs.items())):
        _put(self, t, key, value)


def _dict_init(self: DictValue, t: Tracer, *others: Value, **kwargs: Value) -> None:
    if issubclass(self.cls, collections.defaultdict) and others:
        self.factory, *rest = others
        if not self.factory.is_none() and look_up(t, self.factory.python_type(), "__call__") is MISSING:
            t.raise_(TypeError, "first argument must be callable or None")
        others = tuple(rest)
    _dict_update(self, t, *others, **kwargs)


def _dict_popitem(self: DictValue, t: Tracer, last: Value | None = None) -> Value:
    if not self.entries:
        is_ordered = issubclass(self.cls, collections.OrderedDict)
        t.raise_(KeyError, "dictionary is empty" if is_ordered else "popitem(): dictionary is empty")
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
    others = {} if last is None or last.truth(t) else dict(self.entries)
    for each in others:
        del self.entries[each]
    self.entries[k] = entry
    self.entries.update(others)


def _dict_copy(self: DictValue, t: Tracer) -> Value:
    kinds = (collections.OrderedDict, collections.defaultdict, collections.Counter)
    if self.cls not in kinds and issubclass(self.cls, kinds):  # their methods call the class to make a copy
        made = ClassValue(self.cls).call(t, [self.factory or Constant(None), self] if self.factory else [], {})
        if not self.factory:
            for key, value in self.pairs(t):
                t.set_item(made, key, value)
        return made
    made = DictValue(self.cls if self.cls in kinds else dict)
    made.entries = {k: list(entry) for k, entry in self.entries.items()}
    made.factory = self.factory
    return made


def _dict_or(self: DictValue, t: Tracer, other: Value) -> Value:
    made = _dict_copy(self, t)
    assert isinstance(made, DictValue)
    _dict_update(made, t, other)
    return made


def _dict_ior(self: DictValue, t: Tracer, other: Value) -> Value:
    _dict_update(self, t, other)
    return self


def _dict_equal(self: DictValue, t: Tracer, other: Value) -> Value:
    if isinstance(other, DictValue):
        other.read_all()
    if not isinstance(other, DictValue) or self.entries.keys() != other.entries.keys():
        return Constant(False)
    return Constant(all(t.same_or_equal(self.at(t, k), other.at(t, k)) for k in list(self.entries)))


_DICT_METHODS: dict[str, Callable[..., Value | None]] = {
    "get": _dict_get, "pop": _dict_pop, "setdefault": _dict_setdefault, "update": _dict_update, "copy": _dict_copy,
    "popitem": _dict_popitem, "move_to_end": _dict_move, "__copy__": _dict_copy, "__init__": _dict_init,
    "__or__": _dict_or, "__ior__": _dict_ior, "__eq__": _dict_equal,
    "clear": lambda self, t: self.entries.clear(),
    "__setitem__": lambda self, t, key, value: self.put(key, value),
    "__delitem__": lambda self, t, key: DictValue.set_item(self, t, key, None),
    "__ne__": lambda self, t, other: Constant(not _dict_equal(self, t, other).truth(t)),
    "keys": lambda self, t: DictView(self, "keys"),
    "values": lambda self, t: DictView(self, "values"),
    "items": lambda self, t: DictView(self, "items"),
    "__getitem__": lambda self, t, key: DictValue.get_item(self, t, key),
    "__contains__": lambda self, t, key: Constant(self.has(t, key.key())),
    "__len__": lambda self, t: Constant(len(self.entries)),
    "__iter__": lambda self, t: DictValue.iterate(self, t),
    "__missing__": lambda self, t, key: self.missing(t, key),
    "__reversed__": lambda self, t: taken_iterator(t, self.keys()[::-1], type(reversed(self.empty())), self, reversed),
}  # fmt: skip
_DICT_CHANGES = frozenset(
    "pop setdefault update popitem move_to_end clear __init__ __setitem__ __delitem__ __ior__".split()
)


class ProxyValue(DictValue):
    """A types.MappingProxyType: what it shows is in `mapping`, whose later entries it has too."""

    def __init__(self, mapping: DictValue, source: Source | None = None, given: object = MISSING) -> None:
        super().__init__(types.MappingProxyType, source, given)
        self.mapping = mapping
        self.entries = mapping.entries

    def read_all(self) -> None:
        self.mapping.read_all()

    def at(self, t: Tracer, k: object) -> Value:
        return self.mapping.at(t, k)

    def has(self, t: Tracer, k: object) -> bool:
        return self.mapping.has(t, k)

    def truth(self, t: Tracer) -> bool:
        return self.mapping.truth(t)

    def length(self, t: Tracer) -> Value:
        return t.length(self.mapping)

    def iterate(self, t: Tracer) -> Value:
        return t.iterate(self.mapping)

    def contains(self, t: Tracer, item: Value) -> bool:
        return t.contains(self.mapping, item)

    def get_item(self, t: Tracer, key: Value) -> Value:
        return t.get_item(self.mapping, key)

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        if value is not None:
            t.raise_(TypeError, "'mappingproxy' object does not support item assignment")
        lacks(t, types.MappingProxyType, "__delitem__", key)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__ior__":
            t.raise_(TypeError, "'|=' is not supported by mappingproxy; use '|' instead")
        if name in _DICT_CHANGES:
            t.raise_(AttributeError, f"'mappingproxy' object has no attribute '{name}'")
        if self.given is not MISSING and name in ("copy", "__or__", "__ror__"):
            unsupported(reasons.UNTRACEABLE_CALL, f"{name}() of a mapping proxy: its class is not known")
        return t.call_method(self.mapping, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(types.MappingProxyType, [self.mapping])


class InstanceDict(DictValue):
    """An object's __dict__. It has no entries of its own: reading and writing it is reading and setting attributes."""

    def __init__(self, owner: ObjectValue, t: Tracer) -> None:
        super().__init__()
        self.owner = owner
        self.entries: Any = _Attributes(owner, t)
        if owner.given is not MISSING and owner.source is not None:
            self.unread = t

    def guard(self, t: Tracer) -> None:
        assert self.owner.source is not None
        why = "all its attributes, and their order, were used"
        t.guards.on(self.owner.stored_at(self.owner.source, "__dict__"), KeysAre(tuple(self.owner.given_names())), why)

    def put(self, key: Value, value: object) -> None:
        self.entries[key.key()] = [key, value]

    def has(self, t: Tracer, k: object) -> bool:
        owner = self.owner
        if owner.given is not MISSING and owner.source is not None and k not in owner.overlay and isinstance(k, str):
            there = k in owner.given_names()
            t.guards.on(owner.source, Has(k, there, "attribute"), "the program asked for this attribute")
        return k in self.entries

    def reconstruct(self, r: Reconstructor) -> None:
        r.value(self.owner)
        r.emit("LOAD_ATTR", "__dict__")


class _Attributes(MutableMapping[Any, list[Any]]):
    """The attributes in an object's dictionary, as the entries of one."""

    def __init__(self, owner: ObjectValue, t: Tracer) -> None:
        self.owner, self.t = owner, t

    def __getitem__(self, name: object) -> list[object]:
        found = self.owner.in_dict(name) if isinstance(name, str) else None
        if found is None:
            raise KeyError(name)
        return [Constant(name), found]

    def __setitem__(self, name: object, entry: list[Any]) -> None:
        value = entry[1]
        self.t.effects.set_attr(self.owner, entry[0].known(self.t), value)

    def __delitem__(self, name: str) -> None:
        self.t.effects.set_attr(self.owner, name, DELETED)

    def __iter__(self) -> Iterator[object]:
        return iter(self.owner.own_names(self.t))

    def __len__(self) -> int:
        return len(self.owner.own_names(self.t))


class DictView(Value):
    """dict.keys(), .values() or .items(): a live view."""

    def __init__(self, base: DictValue, kind: str) -> None:
        self.base = base
        self.kind = kind

    def _empty(self) -> Any:
        """The view of an empty dictionary of the kind."""
        return getattr(self.base.empty(), self.kind)()

    def python_type(self) -> type:
        return type(self._empty())

    def unpack(self, t: Tracer) -> list[Value]:
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
        return taken_iterator(t, self.unpack(t), type(iter(self._empty())), self)

    def contains(self, t: Tracer, item: Value) -> bool:
        if self.kind == "keys":
            return item.key() in self.base.entries
        if self.kind == "items" and not (isinstance(item, TupleValue) and len(item.items) == 2):
            return False
        return any(t.same_or_equal(other, item) for other in self.unpack(t))

    def get_attr(self, t: Tracer, name: str) -> Value:
        found = getattr(self.python_type(), name, None)
        if found is None:
            t.raise_(AttributeError, f"'{type_name(self.python_type())}' object has no attribute '{name}'")
        return t.builtin_method(self, name) if callable(found) else super().get_attr(t, name)

    def operator_method(self, t: Tracer, name: str, other: Value) -> Value | None:
        owner = self.python_type()
        if self.kind == "values" or look_up(t, owner, name) is MISSING or not takes(owner, name, other.python_type()):
            return None
        return self.method(t, name, [other], {})

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self.iterate(t)
        if self.kind != "values":
            return SetValue.of(self.unpack(t)).method(t, name, args, kwargs)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.method(self.base, self.kind)


# ----------------------------------------------------------------------------------------------------------------- sets


class SetValue(ObjectValue):
    """A set or frozenset: key object -> value."""

    def __init__(self, cls: type = set, source: Source | None = None, given: object = MISSING) -> None:
        super().__init__(cls, source, given)
        self.entries: dict[object, Value] = {}

    def shown(self, depth: int = 2) -> Contained:
        return self.holding(len(self.entries), enumerate(self.entries.values()), depth)

    @classmethod
    def of(cls, items: Iterable[Value], kind: type = set) -> SetValue:
        made = cls(kind)
        for item in items:
            made.entries.setdefault(item.key(), item)
        return made

    @property
    def _base(self) -> type:
        """The class of its operators' results: they are never of a subclass."""
        return frozenset if issubclass(self.cls, frozenset) else set

    def constant(self) -> object:
        if self.cls is not frozenset:
            raise NotConstant(self)
        return frozenset(item.constant() for item in self.entries.values())

    def known(self, t: Tracer) -> Any:
        return self.cls(item.known(t) for item in self.ordered())

    def real(self) -> object:
        return self.cls(item.real() for item in self.entries.values())

    def key(self) -> object:
        return frozenset(self.entries) if self.cls is frozenset else super().key()

    def truth(self, t: Tracer) -> bool:
        if self.overrides(t, "__bool__", "__len__"):
            return super().truth(t)
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
        return taken_iterator(t, self.ordered(), type(iter(set())), self)

    def contains(self, t: Tracer, item: Value) -> bool:
        return _sought(item) in self.entries

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__hash__" and self.cls is frozenset:
            return Constant(hash(self.known(t)))
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
            others = [SetValue.of(a.unpack(t)) for a in args]
            result: Any = dict(self.entries)
            for other in others:
                result = _SET_OPERATIONS[name](result, other.entries)
            if isinstance(result, bool):
                return Constant(result)
            made = SetValue(self._base)
            made.entries = result
            return made
        match name:
            case "copy":
                return self if self.cls is frozenset else SetValue.of(self.entries.values(), self._base)
            case "__contains__":
                return Constant(_sought(args[0]) in self.entries)
            case "__len__":
                return Constant(len(self.entries))
            case "__iter__":
                return self.iterate(t)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.cls is set:
            for item in self.ordered():
                r.value(item)
            r.emit("BUILD_SET", len(self.entries))
        elif self.cls is frozenset:
            r.call(self.cls, [TupleValue(self.ordered())])
        else:
            r.instance(self, [TupleValue(self.ordered())] if issubclass(self.cls, frozenset) else [])

    def refill(self, r: Reconstructor, load: Callable[[], None]) -> None:
        """Make the object that `load` pushes hold these items, by set's own methods."""
        r.discard_call(set.clear, load, [])
        r.discard_call(set.update, load, [TupleValue(self.ordered())])


def _set_update(self: SetValue, t: Tracer, *others: Value) -> None:
    for other in others:
        for item in other.unpack(t):
            self.entries.setdefault(item.key(), item)


def _sought(item: Value) -> object:
    """The key of what is looked for: a set is looked for as a frozenset."""
    return frozenset(item.entries) if isinstance(item, SetValue) and item.cls is set else item.key()


def _set_remove(self: SetValue, t: Tracer, item: Value) -> None:
    if self.entries.pop(_sought(item), None) is None:
        t.raise_value(KeyError, [item])


def _set_keep(self: SetValue, t: Tracer, other: Value) -> None:
    kept = {item.key() for item in other.unpack(t)}
    self.entries = {k: v for k, v in self.entries.items() if k in kept}


def _set_drop(self: SetValue, t: Tracer, other: Value) -> None:
    gone = {item.key() for item in other.unpack(t)}
    self.entries = {k: v for k, v in self.entries.items() if k not in gone}


def _set_flip(self: SetValue, t: Tracer, other: Value) -> None:
    self.entries = _symmetric(self.entries, SetValue.of(other.unpack(t)).entries)


def _symmetric(a: dict[object, Value], b: dict[object, Value]) -> dict[object, Value]:
    return {k: v for one, other in ((a, b), (b, a)) for k, v in one.items() if k not in other}


_SET_CHANGES: dict[str, Callable[..., None]] = {
    "add": lambda self, t, item: self.entries.setdefault(item.key(), item),
    "discard": lambda self, t, item: self.entries.pop(_sought(item), None),
    "clear": lambda self, t: self.entries.clear(),
    "update": _set_update, "__ior__": _set_update, "__init__": _set_update, "remove": _set_remove,
    "intersection_update": _set_keep, "__iand__": _set_keep, "difference_update": _set_drop, "__isub__": _set_drop,
    "symmetric_difference_update": _set_flip, "__ixor__": _set_flip,
}  # fmt: skip
_Asked = dict[str, Callable[[dict[Any, Value], dict[Any, Value]], Any]]
_ASKED: _Asked = {
    "union": lambda a, b: {**a, **{k: v for k, v in b.items() if k not in a}},
    "intersection": lambda a, b: {k: v for k, v in a.items() if k in b},
    "difference": lambda a, b: {k: v for k, v in a.items() if k not in b},
    "symmetric_difference": _symmetric,
    "issubset": lambda a, b: a.keys() <= b.keys(),
    "issuperset": lambda a, b: a.keys() >= b.keys(),
}
_SET_OPERATIONS: _Asked = {
    **_ASKED, "__or__": _ASKED["union"], "__ror__": _ASKED["union"], "__and__": _ASKED["intersection"],
    "__sub__": _ASKED["difference"], "__xor__": _symmetric, "__le__": _ASKED["issubset"],
    "__ge__": _ASKED["issuperset"], "__lt__": lambda a, b: a.keys() < b.keys(),
    "__gt__": lambda a, b: a.keys() > b.keys(), "isdisjoint": lambda a, b: a.keys().isdisjoint(b.keys()),
    "__eq__": lambda a, b: a.keys() == b.keys(), "__ne__": lambda a, b: a.keys() != b.keys(),
}  # fmt: skip
