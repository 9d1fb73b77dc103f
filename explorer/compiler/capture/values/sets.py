"""Sets, mutable and frozen. Stock counterpart: variables/sets.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from explorer.compiler.capture.values.base import NotConstant, Reconstructor, Tracer, Unhashable, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, type_attribute
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.ir.attempt import Contained
from explorer.ir.capture import Source


class SetValue(ObjectValue):
    """A set or frozenset: key object -> value."""

    def __init__(self, cls: type = set, source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(cls, source, given)
        self.entries: dict[Any, Value] = {}

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
        """The class of what its operators make: a subclass makes none of its own."""
        return frozenset if issubclass(self.cls, frozenset) else set

    def constant(self) -> Any:
        if self.cls is not frozenset:
            raise NotConstant(self)
        return frozenset(item.constant() for item in self.entries.values())

    def real(self) -> Any:
        return self.cls(item.real() for item in self.entries.values())

    def key(self) -> Any:
        if type_attribute(self.cls, "__hash__") is None:
            raise Unhashable(self.cls)
        return frozenset(self.entries) if self.cls is frozenset else super().key()

    def truth(self, t: Tracer) -> bool:
        if t.overrides(self.cls, "__bool__", "__len__"):
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
        return t.taken_iterator(self.ordered(), type(iter(set())), self)

    def contains(self, t: Tracer, item: Value) -> bool:
        return _sought(item) in self.entries

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
            r.build("BUILD_SET", len(self.entries))
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
        for item in t.items(other):
            self.entries.setdefault(item.key(), item)


def _sought(item: Value) -> Any:
    """The key of what is looked for: a set is looked for as a frozenset."""
    return frozenset(item.entries) if isinstance(item, SetValue) and item.cls is set else item.key()


def _set_remove(self: SetValue, t: Tracer, item: Value) -> None:
    if self.entries.pop(_sought(item), None) is None:
        t.raise_value(KeyError, [item])


def _set_keep(self: SetValue, t: Tracer, other: Value) -> None:
    kept = {item.key() for item in t.items(other)}
    self.entries = {k: v for k, v in self.entries.items() if k in kept}


def _set_drop(self: SetValue, t: Tracer, other: Value) -> None:
    gone = {item.key() for item in t.items(other)}
    self.entries = {k: v for k, v in self.entries.items() if k not in gone}


def _set_flip(self: SetValue, t: Tracer, other: Value) -> None:
    self.entries = _symmetric(self.entries, SetValue.of(t.items(other)).entries)


def _symmetric(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
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
