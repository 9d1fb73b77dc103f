"""Subclasses of classes that are written in C: super() goes past what they override, after a break too, and no code of
theirs runs for what the compiler itself reads and writes."""

from __future__ import annotations

import collections
import copy
import datetime
import functools
import io
import random
import threading
import types
from typing import Any

import pytest
import torch

import explorer

CALLED: list[str] = []

MEMBERS: list[tuple[Any, tuple[Any, ...], str, tuple[Any, ...]]] = [
    (dict, ({"a": 1},), "__getitem__", ("a",)),
    (dict, ({"a": 1},), "__setitem__", ("b", 2)),
    (dict, ({"a": 1},), "update", ({"b": 2},)),
    (dict, ({"a": 1},), "__eq__", ({"a": 1},)),
    (collections.OrderedDict, ({"a": 1},), "__setitem__", ("b", 2)),
    (collections.OrderedDict, (), "popitem", ()),
    (collections.defaultdict, (int, {"a": 1}), "__missing__", ("z",)),
    (collections.defaultdict, (int, {"a": 1}), "copy", ()),
    (list, ([3, 1],), "__setitem__", (0, 9)),
    (list, ([3, 1],), "__reversed__", ()),
    (list, ([3, 1],), "__iter__", ()),
    (set, ({1, 2},), "update", ({3},)),
    (set, ({1, 2},), "__iter__", ()),
    (set, ({1, 2},), "copy", ()),
    (frozenset, ({1, 2},), "__or__", ({3},)),
    (collections.deque, ([1, 2],), "extend", ([3],)),
    (collections.deque, ([1, 2],), "__eq__", ([1, 2],)),
    (collections.deque, (), "pop", ()),
    (str, ("abc",), "upper", ()),
    (str, ("abc",), "__eq__", ("abc",)),
    (str, ("abc",), "__lt__", ("b",)),
    (str, ("abc",), "__hash__", ()),
    (int, (5,), "__add__", (1,)),
    (int, (5,), "__index__", ()),
    (float, (2.5,), "__round__", (1,)),
    (tuple, ((1, 2),), "__getitem__", (0,)),
    (bytes, (b"ab",), "decode", ()),
    (ValueError, ("m",), "with_traceback", (None,)),
    (ValueError, ("m",), "__str__", ()),
    (types.SimpleNamespace, (), "__repr__", ()),
    (threading.local, (), "__setattr__", ("q", 1)),
    (object, (), "__setattr__", ("q", 1)),
    (io.StringIO, ("abc",), "write", ("x",)),
    (io.StringIO, ("abc",), "read", (2,)),
    (io.BytesIO, (b"abc",), "getvalue", ()),
    (datetime.timedelta, (1,), "total_seconds", ()),
    (random.Random, (3,), "random", ()),
    (functools.partial, (max, 3), "__call__", (9,)),
]


def subclass(base: Any, name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        CALLED.append(name)
        return getattr(super(made, self), name)(*args, **kwargs)

    made: Any = type("Sub", (base,), {name: method})
    return made


def shown(value: Any) -> Any:
    """A result by its class and contents: two runs share no objects."""
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    plain = isinstance(value, (int, float, str, bytes, dict, list, set, frozenset, tuple, collections.deque))
    return type(value).__name__, value if plain and type(value).__name__ != "Sub" else None


def contents(value: Any) -> Any:
    for kind in (dict, list, set, tuple, collections.deque):
        if isinstance(value, kind):
            return kind.__repr__(value)
    return None


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize(("base", "made_of", "name", "args"), MEMBERS)
def test_super_of_a_class_in_c(
    base: Any, made_of: tuple[Any, ...], name: str, args: tuple[Any, ...], is_given: bool
) -> None:
    """Results, exceptions, what the object holds afterwards, and how often the overriding method ran."""

    def run(compiled: bool) -> Any:
        cls = subclass(base, name)
        CALLED.clear()

        def program(x: torch.Tensor, given: Any) -> Any:
            x = x * 2
            value = cls(*made_of) if given is None else given
            try:
                found = getattr(value, name)(*args)
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                found = error
            return x + 1, found, value

        given = cls(*copy.deepcopy(made_of)) if is_given else None
        called = explorer.compile(program) if compiled else program
        tensor, found, value = called(torch.ones(2), given)
        return tensor.tolist(), shown(found), contents(value), CALLED.copy()

    expected = run(compiled=False)
    assert run(compiled=True) == expected


def test_keys_of_another_type_that_are_equal() -> None:
    """1, True and 1.0 are the same key to Python, and others to a program that computes with them."""

    @explorer.compile
    def program(x: torch.Tensor, keys: Any) -> Any:
        return x + 1, [type(key) for key in keys]

    for keys in ({1: 0}, {True: 0}, {1.0: 0}, {1}, {True}, {1.0}):
        assert program(torch.ones(2), keys)[1] == [type(key) for key in keys]


class Told:
    def __init__(self, ask):
        self.ask = ask

    def __get__(self, instance, owner=None):
        return self.ask(instance, owner)


class ToldAndSet(Told):
    def __set__(self, instance, value):
        raise AttributeError


class Asked:
    weight = 3
    told = Told(lambda instance, owner: (instance is None, owner.__name__, owner.weight))
    kept = ToldAndSet(lambda instance, owner: (instance is None, owner.weight))
    itself = Told(lambda instance, owner: owner.__dict__.get("itself"))

    @classmethod
    def of_class(cls):
        return cls.told, cls.kept


class AskedAgain(Asked):
    weight = 4

    def of_base(self):
        return super().told, super().kept, super().of_class()

    @classmethod
    def of_base_of_class(cls):
        return super().told, super().kept


ASKED = {
    "class": lambda: Asked.told,
    "derived class": lambda: (AskedAgain.told, AskedAgain.kept),
    "instance": lambda: (AskedAgain().told, AskedAgain().kept),
    "getattr": lambda: (Asked.told, getattr(Asked, "nope", 2), hasattr(Asked, "kept")),
    "what is there": lambda: (Asked.itself is Asked.__dict__["itself"], AskedAgain.itself),
    "super": lambda: AskedAgain().of_base(),
    "super of a class": lambda: AskedAgain.of_base_of_class(),
    "class method": lambda: AskedAgain.of_class(),
}


@pytest.mark.parametrize("name", ASKED)
def test_descriptors_are_asked_wherever_they_are_read(name, monkeypatch):
    compiled = explorer.compile(lambda x: (x + 1, ASKED[name]()), fullgraph=True, backend="aot_eager")
    for weight in (3, 5):
        monkeypatch.setattr(Asked, "weight", weight)
        assert compiled(torch.ones(1))[1] == ASKED[name]()
    monkeypatch.setattr(Asked, "told", Told(lambda instance, owner: 7))
    assert compiled(torch.ones(1))[1] == ASKED[name]()


class Kept:
    """Tells what is asked of it."""

    def __init__(self, inner):
        self.number, self.inner, self.rows = 3, inner, torch.ones(2)

    def __getattribute__(self, name):
        if name != "__class__":
            CALLED.append(name)
        return super().__getattribute__(name)


class KeptInSlots(Kept):
    __slots__ = ("slot",)

    def __init__(self, inner):
        super().__init__(inner)
        self.slot = [inner]


KEPT = KeptInSlots(Kept(None))


def kept(x):
    inner = KEPT.inner
    return x * inner.number + KEPT.rows * KEPT.number, inner, KEPT.slot


def kept_after_a_break(x):
    y = x * KEPT.number
    print(end="")
    return y + KEPT.inner.rows, KEPT.slot


@pytest.mark.parametrize("function", [kept, kept_after_a_break])
def test_no_attribute_is_asked_for_more_often(function, monkeypatch):
    compiled = explorer.compile(function, backend="aot_eager")
    for number in (3, 3, 5):
        KEPT.__dict__["number"] = number
        found = []
        for each in (function, compiled):
            CALLED.clear()
            value, *rest = each(torch.ones(2))
            found.append((value.tolist(), [*map(id, rest)], list(CALLED)))
        assert found[1] == found[0]
