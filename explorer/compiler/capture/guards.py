"""Structured guards to C++ checks. Stock counterpart: torch/_dynamo/guards.py."""

from __future__ import annotations

import collections
import math
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from explorer.compiler.capture import hook
from explorer.compiler.capture.iterator_position import progress
from explorer.ir.capture import (
    AsTensor,
    Attr,
    Computed,
    Frame,
    Global,
    Guard,
    Item,
    Known,
    Listed,
    Local,
    Returned,
    Size,
    Source,
    Stride,
    TypeOf,
    as_tensor,
    item_of,
    read,
    share_no_memory,
)

UNSET = object()
"""What a context variable without a value is asked for."""


class Tree:
    """Guard managers by source; a source's value at capture decides which C++ accessor reads it."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.guards = hook.Guards(frame.code)
        self.kept: list[Any] = []
        self._managers: dict[Source, Any] = {}
        self._values: dict[Source, Any] = {}
        self._scope: dict[str, Any] = {f"padding {n}": None for n in range(3)}

    def value(self, source: Source) -> Any:
        if source not in self._values:
            self._values[source] = read(source, self.frame.locals, self.frame.globals)
        return self._values[source]

    def manager(self, source: Source) -> Any:
        if source not in self._managers:
            self._managers[source] = self._make(source)
        return self._managers[source]

    def _make(self, source: Source) -> Any:
        build, name, example = self.guards, source.name, self.value(source)
        match source:
            case Local(variable):
                return build.local(variable, example)
            case Global(variable, ""):
                return build.dict_item(build.namespace("G", self.frame.globals), variable, name, example)
            case Global(variable, module):
                spaces = build.dict_item(
                    build.namespace("S", self._scope), self._hold(module, vars(sys.modules[module])), module, None
                )
                return build.dict_item(spaces, variable, name, example)
            case Known(label, held, _):
                return build.dict_item(build.namespace("S", self._scope), self._hold(f"K {label}", held), name, example)
            case Attr(base, attribute):
                return self._attribute(base, attribute, name, example)
            case Item(base, key):
                return self._item(base, key, name, example)
            case TypeOf(base):
                return build.type_of(self.manager(base), name, example)
            case Returned(base, method):
                return build.computed(self.manager(base), _caller(method), name, example)
            case Listed(base, part):
                return build.computed(self.manager(base), _lister(part), name, example)
            case AsTensor(base):
                return build.computed(self.manager(base), as_tensor, name, example)
            case Size() | Stride():
                return build.computed(self.manager(source.base), _measure(source), name, example)
        raise AssertionError(source)

    def _hold(self, key: str, value: Any) -> str:
        self._scope[key] = value
        return key

    def _attribute(self, base: Source, attribute: str, name: str, example: Any) -> Any:
        owner = self.value(base)
        if isinstance(owner, type) and attribute == "__dict__":
            return self.guards.members(self.manager(base), name, example)
        held = instance_dict(owner)
        if held is not None and attribute in held and not isinstance(owner, (type, types.ModuleType)):
            table = self.guards.instance_dict(self.manager(base), f"vars({base.name})", held)
            return self.guards.dict_item(table, attribute, name, example)
        return self.guards.attribute(self.manager(base), attribute, name, example)

    def _item(self, base: Source, key: Any, name: str, example: Any) -> Any:
        owner = self.value(base)
        if isinstance(owner, dict) or _is_members(base, owner):
            return self.guards.dict_item(self.manager(base), key, name, example)
        if type(owner) is list:
            return self.guards.list_item(self.manager(base), key, name, example)
        if isinstance(owner, tuple):
            return self.guards.tuple_item(self.manager(base), key, name, example)
        if isinstance(owner, list):
            return self.guards.computed(self.manager(base), lambda value: item_of(value, key), name, example)
        return self.guards.item(self.manager(base), key, name, example)

    # ---------------------------------------------------------------------------------------------------- one guard

    def add(self, guard: Guard) -> None:
        assert guard.source is not None
        build, text, value = self.guards, guard.text, guard.value
        if isinstance(guard.source, Computed):
            build.last(_answers(guard.source, value, self.frame.globals), text)
            return
        if guard.property != "has":
            manager = self.manager(guard.source)
        match guard.property:
            case "tensor":
                build.tensor(manager, self.value(guard.source), value, guard.source.name, text)
            case "type":
                self.kept.append(value)
                build.type(manager, value, text)
            case "id":
                self.kept.append(value)
                build.identity(manager, value, text)
            case "code":
                self.kept.append(value)
                code = build.attribute(manager, "__code__", f"{guard.source.name}.__code__", value)
                build.identity(code, value, text)
            case "constant":
                build.equals(manager, value, text)
            case "length":
                build.length(manager, value, text)
            case "keys":
                build.check(manager, has_keys(value), text)
            case "empty":
                if isinstance(self.value(guard.source), dict) and value:
                    build.dict_length(manager, 0, text)
                else:
                    build.check(manager, is_empty(value), text)
            case "has":
                self._presence(guard)
            case "alias" if guard.relation == "is":
                build.same_object(manager, self.manager(value), text)
            case "alias" if guard.relation == "share no memory":
                build.last(_apart(value, self.frame.globals), text)
            case "alias":
                build.different_objects([self.manager(source) for source in value], [source.name for source in value])
            case "value":
                build.check(manager, python_check(guard), text)
            case _:
                raise AssertionError(guard.property)

    def _presence(self, guard: Guard) -> None:
        assert guard.source is not None
        key, present, where = guard.value
        manager, value = self.manager(guard.source), self.value(guard.source)
        if where == "key" and isinstance(value, types.MappingProxyType) and not _is_members(guard.source, value):
            self.guards.check(manager, lambda held: (key in held) == present, guard.text)
            return
        if where == "key":
            self.guards.dict_contains(manager, present, key, guard.text)
            return
        held = instance_dict(value)
        if held is None or where == "slot":
            self.guards.check(manager, _lacks(key, present), guard.text)
        else:
            table = self.guards.instance_dict(manager, f"vars({guard.source.name})", held)
            self.guards.dict_contains(table, present, key, guard.text)


def build(guards: Iterable[Guard], frame: Frame) -> hook.Manager:
    """A guard manager that checks all of `guards`, and the global state as it is now.

    Cheap and telling guards come first: types and identities before tensors, relations between inputs last.
    """
    given = list(guards)
    tree = Tree(frame)
    state = "global state: grad mode, autocast, default dtype, deterministic mode, threads"
    tree.guards.global_state(state, frame.devices)
    shapes = [guard for guard in given if guard.property == "shape"]
    for guard in given:
        if guard.property not in ("shape", "alias", "global_state"):
            tree.add(guard)
    for guard in given:
        if guard.property == "alias":
            tree.add(guard)
    if shapes:
        tree.guards.last(_shape_check(shapes, frame), " and ".join(guard.text for guard in shapes))
    return hook.Manager(tree.guards.root, frame.globals, tree.kept)


def _shape_check(guards: list[Guard], frame: Frame) -> Callable[[dict[str, Any]], bool]:
    """One function of the locals for all relations between sizes; each source is read once."""
    sources = list(dict.fromkeys(source for guard in guards for source in guard.value.sources))
    position = {source: n for n, source in enumerate(sources)}
    relations = [(guard.value.holds, [position[s] for s in guard.value.sources]) for guard in guards]
    namespace = frame.globals

    def check(locals: dict[str, Any]) -> bool:
        try:
            values = [read(source, locals, namespace) for source in sources]
        except Exception:  # the program's own code may run here: where there is nothing to read, the guard fails
            return False
        return all(holds(*(values[n] for n in at)) for holds, at in relations)

    return check


def _answers(source: Source, value: Any, namespace: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    def check(locals: dict[str, Any]) -> bool:
        try:
            found = read(source, locals, namespace)
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            return False  # the program would raise this too
        return type(found) is type(value) and (found == value or (value != value and found != found))

    return check


def _apart(sources: tuple[Source, ...], namespace: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    return lambda locals: share_no_memory(read(source, locals, namespace) for source in sources)


def instance_dict(value: Any) -> dict[str, Any] | None:
    """What object.__dict__ is, without asking a class's own __getattribute__."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return held if isinstance(held, dict) else None


def _is_members(source: Source, value: Any) -> bool:
    """Whether it is the dictionary of a class, which Python shows through a proxy alone."""
    return isinstance(source, Attr) and source.attribute == "__dict__" and isinstance(value, types.MappingProxyType)


def _caller(method: str) -> Callable[[Any], Any]:
    return lambda value: getattr(value, method)()


def _lister(part: str) -> Callable[[Any], Any]:
    take = getattr(dict, part)
    return lambda value: list(take(value))


def _measure(source: Size | Stride) -> Callable[[Any], Any]:
    dim = source.dim
    return (lambda value: value.size(dim)) if isinstance(source, Size) else (lambda value: value.stride(dim))


def has_keys(keys: tuple[Any, ...]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        found = tuple(keys_of(value))
        return len(found) == len(keys) and all(map(is_same_key, found, keys))

    return check


def keys_of(value: Any) -> Iterable[Any]:
    """The keys of a mapping in order, without calling what a subclass of dict overrides."""
    if isinstance(value, collections.OrderedDict):
        return collections.OrderedDict.keys(value)
    return dict.keys(value) if isinstance(value, dict) else value


def is_same_key(key: Any, other: Any) -> bool:
    """Whether a dictionary takes one for the other: tensors are equal to themselves alone."""
    return key is other or (hash(key) == hash(other) and not isinstance(other, torch.Tensor) and key == other)


def is_empty(expected: bool) -> Callable[[Any], bool]:
    return lambda value: (not value) == expected


def _lacks(key: str, present: bool) -> Callable[[Any], bool]:
    return lambda value: hasattr(value, key) == present


def python_check(guard: Guard) -> Callable[[Any], bool]:
    """The Python check of a "value" guard."""
    match guard.relation, guard.value:
        case "is", "nan":
            return lambda value: isinstance(value, float) and math.isnan(value)
        case "is", "unset":
            return lambda value: value.get(UNSET) is UNSET
        case "at", ("iterator", position, length):
            return lambda value: _where(value) == (position, length)
        case "over", ("range", base):
            return lambda value: _over(value) == base
        case "==", expected:
            return lambda value: type(value) is type(expected) and value == expected
        case "is number", number:
            return lambda value: type(value) is type(number) and value.tobytes() == number.tobytes()
    raise AssertionError(guard)


def _where(iterator: Any) -> tuple[int, int] | None:
    found = progress(iterator)
    return None if found is None else (found[1], len(found[0]))


def _over(iterator: Any) -> Any:
    found = progress(iterator)
    return None if found is None else found[0]
