"""Iterators and containers in captured programs: what they give, and when they end, is eager's."""

from __future__ import annotations

import itertools
import types
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from data_model import shown


def iterators() -> dict[str, Any]:
    return {
        "list": iter([1, 2, 3]), "tuple": iter((1, 2, 3)), "range": iter(range(4)), "str": iter("abc"),
        "keys": iter({1: 2, 3: 4}), "items": iter({1: 2, 3: 4}.items()), "set": iter({1, 3}),
        "zip": zip([1, 2], [3, 4], strict=True), "enumerate": enumerate([3, 4], 5),
        "map": map(len, iter(["a", "bb"])), "filter": filter(None, [0, 1, 2]),
        "nested": zip(iter("ab"), enumerate("cd"), strict=False),
    }  # fmt: skip


@pytest.mark.parametrize("kind", iterators())
@pytest.mark.parametrize("taken", [1, 9])
def test_iterator_from_outside(kind: str, taken: int) -> None:
    """It is left where eager leaves it."""

    def take(items, x):
        found = []
        for item in items:
            found.append(item)
            if len(found) == taken:
                break
        return x + len(found), found

    given, expected = iterators()[kind], iterators()[kind]
    compiled = explorer.compile(take, backend=lambda graph, inputs: graph, fullgraph=True)
    assert shown(compiled(given, torch.ones(2))) == shown(take(expected, torch.ones(2)))
    assert list(given) == list(expected)


class Tens(list):
    def __getitem__(self, index):
        return list.__getitem__(self, index) * 10


class Made(dict):
    def __getitem__(self, key):
        return dict.__getitem__(self, key)() if isinstance(key, str) else key


class Pair(tuple):
    def __getitem__(self, index):
        return tuple.__getitem__(self, index % 2)


@pytest.mark.parametrize(
    "held, key", [(Tens([torch.ones(2)]), 0), (Made(relu=nn.ReLU), "relu"), (Pair([1, torch.ones(2)]), 3)]
)
def test_containers_that_read_their_items_themselves(held: Any, key: Any) -> None:
    def f(held, x):
        found = held[key]
        return found(x) if callable(found) else found * x

    assert torch.equal(explorer.compile(f, fullgraph=True)(held, torch.ones(2)), f(held, torch.ones(2)))


class ByAttribute(dict):
    """A dict whose items are attributes, as configurations and models' outputs are."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class ListByAttribute(list):
    def __getattr__(self, name):
        if not name.startswith("item"):
            raise AttributeError(name)
        return self[int(name[4:])]

    def __setattr__(self, name, value):
        self[int(name[4:])] = value


@pytest.mark.parametrize("made", [lambda: ByAttribute(item0=2), lambda: ListByAttribute([2])])
def test_items_that_are_attributes_are_read_as_they_are_written(made):
    def program(x, held):
        held.item0 += 1
        before = held.item0
        for _ in [x, x]:
            held.item0 += before
        return x * held.item0, getattr(held, "other", None), hasattr(held, "item0")

    ours, theirs = made(), made()
    x = torch.ones(2)
    for _ in range(2):
        assert str(explorer.compile(program, backend="eager")(x, ours)) == str(program(x, theirs))
        assert ours == theirs


ENDED = (
    lambda: itertools.cycle([]),
    lambda: itertools.islice([1, 2], 1),
    lambda: itertools.takewhile(lambda each: each < 2, [1, 2, 3]),
    lambda: itertools.accumulate([1, 2]),
    lambda: map(abs, [1]),
    lambda: itertools.chain([1], [2]),
    lambda: (each for each in [1, 2]),
)


@pytest.mark.parametrize("made", ENDED)
def test_an_iterator_that_has_ended_is_kept_over_a_break(made):
    def f(x):
        found = made()
        items = list(found)
        torch._dynamo.graph_break()
        return x + sum(items), type(found).__name__, list(found), hasattr(found, "close")

    x = torch.ones(2)
    assert repr(explorer.compile(f)(x)) == repr(f(x))


def test_islice_refuses_bounds_when_it_is_made():
    def program(x):
        out = [x + 1]
        for bounds in ((-1,), (-3,), (0, -1), (-1, 2), (0, 3, 0), (0, 3, -1), (2,), (1, 5, 2), (None,), (1, None)):
            try:
                out.append(list(itertools.islice([1, 2, 3, 4, 5], *bounds)))
            except ValueError as error:
                out.append(str(error))
        return out

    x = torch.ones(2)
    assert str(explorer.compile(program, backend="eager")(x)) == str(program(x))


STEPS: list[Any] = []


@pytest.mark.parametrize(
    "make",
    [
        lambda given: itertools.islice(given, 2), lambda given: itertools.compress(given, [1, 0]),
        lambda given: itertools.takewhile(bool, given), lambda given: itertools.dropwhile(bool, given),
        lambda given: itertools.accumulate(given), itertools.pairwise, itertools.chain, itertools.cycle,
        lambda given: map(abs, given), lambda given: filter(None, given), enumerate, zip,
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["send", "throw", "close", "gi_running", "__name__"])
def test_iterators_of_c_are_no_generators(make, name):
    def f(x):
        STEPS.append(x.dim())
        return getattr(make(each for each in [1, 2]), name)

    for call in (f, explorer.compile(f, backend="eager")):
        STEPS.clear()
        with pytest.raises(AttributeError, match=name):
            call(torch.ones(2))
        assert STEPS == [1]


PROXY_EXPRESSIONS = (
    "proxy['a']", "proxy.pop('a')", "proxy.setdefault('a', x)", "proxy.clear()", "proxy | {'b': x}", "proxy == under",
    "under == proxy", "list(proxy.items())", "'a' in proxy", "proxy.get('z', x)", "proxy['z']", "under.update(b=x)",
    "proxy.copy()", "bool(proxy), len(proxy)", "{**proxy}", "hash(proxy)", "isinstance(proxy, dict)",
    "list(reversed(proxy))", "types.MappingProxyType(proxy)",
)  # fmt: skip

PROXY_STATEMENTS = ("proxy['b'] = x", "del proxy['a']", "del proxy[0]", "proxy |= {'b': x}")


@pytest.mark.parametrize("action", [*(f"found = {each}" for each in PROXY_EXPRESSIONS), *PROXY_STATEMENTS])
@pytest.mark.parametrize("under", ["dict(a=x)", "OrderedDict(a=x, c=x)", "vars(types.SimpleNamespace(a=x))"])
def test_a_mapping_proxy_shows_and_refuses(action: str, under: str) -> None:
    """One that the program makes, and one that it is given."""
    namespace = {"types": types, "OrderedDict": OrderedDict}
    source = f"""def fn(x, under, proxy):
    found = None
    under = under if under is not None else {under}
    proxy = proxy if proxy is not None else types.MappingProxyType(under)
    try:
        {action}
    except Exception as error:
        found = type(error), str(error)
    return found, proxy, under, type(proxy), x + 1
"""
    exec(source, namespace)
    fn: Any = namespace["fn"]

    def run(call: Any, given: bool) -> Any:
        x = torch.ones(2)
        made = eval(under, namespace, {"x": x}) if given else None
        return [shown(call(x, made, types.MappingProxyType(made) if given else None)) for _ in range(2)]

    for given in (False, True):
        assert run(explorer.compile(fn, backend="eager"), given) == run(fn, given)


class ItemsAlone(nn.Module):
    def __getitem__(self, place: int) -> int:
        if place > 2:
            raise IndexError
        return place


def test_a_module_with_items_alone_is_iterated_by_position() -> None:
    module = ItemsAlone()

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        return x * 2, list(module)

    assert explorer.compile(fn, fullgraph=True, backend="eager")(torch.ones(2))[1] == fn(torch.ones(2))[1] == [0, 1, 2]
