"""Attributes and classes that change, or that run code when they are read: as in eager."""

from __future__ import annotations

import collections
import types
from typing import Any

import pytest
import torch

import explorer
from effectful import kept


@pytest.mark.parametrize("ending", ("del made", "made = None", "kept.append(made)", "pass"))
def test_the_end_of_an_object_that_is_made_is_noticed(ending: str) -> None:
    space: dict[str, Any] = {"torch": torch, "log": [], "kept": []}
    program = f"""
class Noticed:
    def __del__(self): log.append("ended")
def body(x):
    y = x + 1
    made = Noticed()
    {ending}
    return y * 2
"""
    exec(program, space)
    x, found = torch.ones(3), []
    for body in (space["body"], explorer.compile(space["body"])):
        assert torch.equal(body(x), (x + 1) * 2)
        found.append((list(space["log"]), len(space["kept"])))
        space["log"].clear()
        space["kept"].clear()
        space["log"].clear()
    assert found[0] == found[1] and found[0][0] == ["ended"] * (ending != "kept.append(made)")


def family() -> tuple[Any, Any, Any]:
    class Root:
        rate = 3

        def shift(self, x: Any) -> Any:
            return x + 1

        @property
        def bias(self) -> int:
            return 1

    class Middle(Root):
        pass

    class Leaf(Middle):
        def run(self, x: Any) -> Any:
            return super().shift(x) * super().bias * super(Middle, self).rate

    return Root, Middle, Leaf()


CHANGED_BASES = {
    "another function": lambda root, middle: setattr(root, "shift", lambda self, x: x * 9),
    "another property": lambda root, middle: setattr(root, "bias", property(lambda self: 5)),
    "other data": lambda root, middle: setattr(root, "rate", 7),
    "a class between": lambda root, middle: setattr(middle, "shift", lambda self, x: x - 2),
    "data in a class between": lambda root, middle: setattr(middle, "bias", 4),
}


@pytest.mark.parametrize("change", CHANGED_BASES.values(), ids=CHANGED_BASES)
def test_what_super_finds_may_change(change: Any) -> None:
    root, middle, leaf = family()
    fn, x = explorer.compile(lambda x: leaf.run(x), backend="eager"), torch.ones(2)
    assert torch.equal(fn(x), leaf.run(x))
    change(root, middle)
    assert torch.equal(fn(x), leaf.run(x))


class Pair:
    __match_args__: Any = ("left", "right")

    def __init__(self) -> None:
        self.left, self.right = 1, 2


def matched(x: Any) -> Any:
    match Pair():
        case Pair(2, 1):
            return x - 1
        case Pair(left, right=2):
            return x + left


@pytest.mark.parametrize("fields", [("right", "left"), ("left",), ("left", "left"), ("right", "right"), ()])
def test_the_fields_of_a_class_pattern_may_change(fields: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fn = explorer.compile(matched, backend="eager")
    assert torch.equal(fn(torch.ones(2)), matched(torch.ones(2)))
    monkeypatch.setattr(Pair, "__match_args__", fields)
    found = []
    for each in (fn, matched):
        try:
            found.append(str(each(torch.ones(2))))
        except TypeError as error:
            found.append(str(error))
    assert found[0] == found[1]


NAMES = types.SimpleNamespace(n=1)


def of_a_namespace(x: Any) -> Any:
    NAMES.n += 1
    return x * NAMES.n, repr(NAMES)


def of_a_cache(x: Any) -> Any:
    kept(1).append(len(kept(1)))
    return x * len(kept(1)), kept(1) is kept(1)


@pytest.mark.parametrize("fn", [of_a_namespace, of_a_cache])
def test_what_is_kept_outside_is_read_as_it_is_now(fn: Any) -> None:
    seen = []
    for each in (fn, explorer.compile(fn, backend="eager")):
        NAMES.n = 1
        kept.cache_clear()
        seen.append([str(each(torch.ones(2))) for _ in range(3)])
    assert seen[0] == seen[1]


READ: list[str] = []


def noting(self, name):
    READ.append(name)
    return object.__getattribute__(self, name)


class Settings:
    def __init__(self):
        self.first, self.second = 3, 2

    def scaled(self, x):
        return x * self.first

    @property
    def both(self):
        return self.first + self.second


class Table(dict):
    pass


class Row(list):
    pass


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return x * self.weight


READS = {
    "attribute": lambda x, s, t, r, m: (x * s.first + s.second,),
    "method": lambda x, s, t, r, m: s.scaled(x),
    "property": lambda x, s, t, r, m: x * s.both,
    "module": lambda x, s, t, r, m: m(x),
    "not read": lambda x, s, t, r, m: (x + 1, [each for each in (s, t, r, m)][:0]),
    "identity": lambda x, s, t, r, m: (x, s == s, {s: 1}[s], s is not None, type(s).__name__),
    "items": lambda x, s, t, r, m: (x * t["a"], len(t), r[0], sum(r), [*t], bool(r), t.get("z"), r.index(2)),
    "hasattr": lambda x, s, t, r, m: (x, hasattr(s, "other"), s.first, vars(s)["second"]),
    "set": lambda x, s, t, r, m: (x, setattr(s, "third", 3), s.third),
    "break": lambda x, s, t, r, m: (torch._dynamo.graph_break(), x * s.first, m(x))[1:],
    "isinstance": lambda x, s, t, r, m: (x, isinstance(s, Settings), isinstance(s, Row)),
}  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_a_class_that_notes_what_is_read_notes_what_it_does_in_eager(read):
    """Nothing of the compiler reads an object by code of its class: neither while it compiles, nor in guards."""
    kinds = [type(kind.__name__, (kind,), {"__getattribute__": noting}) for kind in (Settings, Table, Row, Scale)]

    def held():
        settings, table, row, scale = kinds
        return settings(), table(a=2), row([1, 2]), scale()

    compiled = explorer.compile(READS[read], backend="eager")
    ours, eagers, x = held(), held(), torch.ones(2)
    for _ in range(3):
        noted = []
        for call, objects in ((compiled, ours), (READS[read], eagers)):
            READ.clear()
            noted.append((str(call(x, *objects)), list(READ)))
        assert noted[0] == noted[1]


class Hashed:
    def __hash__(self):
        READ.append("hash")
        return 1

    def __getattr__(self, name):
        READ.append(name)
        raise AttributeError(name)


def test_a_member_of_a_set_is_not_asked():
    def function(x, members):
        torch._dynamo.graph_break()
        return x * len(members)

    compiled, kept = explorer.compile(function), {Hashed(), Hashed()}
    for members in (kept, {Hashed()}, kept, {Hashed(), Hashed()}):
        READ.clear()
        assert compiled(torch.ones(1), members) == len(members)
        assert not READ


class Keyed:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        READ.append(("hash", self.number))
        return 5

    def __eq__(self, other):
        READ.append(("eq", self.number, other.number))
        return self.number == other.number


ONE, TWO, AGAIN = Keyed(1), Keyed(2), Keyed(1)
HELD = {ONE: 1.0, TWO: 2.0}
ORDERED = collections.OrderedDict(HELD)
KEYED = {
    "asked": lambda x: x * HELD[AGAIN] + HELD.get(TWO, 7.0) + (Keyed(3) in HELD),
    "values": lambda x: x * sum(HELD.values()) + len(HELD),
    "ordered": lambda x: x * ORDERED[AGAIN],
    "made": lambda x: x * {ONE: x, TWO: x + 1}[AGAIN],
    "comprehension": lambda x: x * len({key: 1 for key in (ONE, TWO, AGAIN)}),
    "merged": lambda x: x * len({**HELD, AGAIN: 3.0}) + len(HELD | {AGAIN: 1}),
    "compared": lambda x: x * (HELD == {AGAIN: 1.0, TWO: 2.0}),
    "counted": lambda x: x * collections.Counter([ONE, TWO, AGAIN])[ONE],
    "set": lambda x: x * len({ONE, TWO} & {AGAIN}) + len({ONE, TWO} - {AGAIN}),
    "tuple": lambda x: x * {(ONE, 1): 3.0}[AGAIN, 1],
}


@pytest.mark.parametrize("name", KEYED)
def test_keys_are_hashed_and_compared_as_often_as_in_eager(name):
    compiled, x = explorer.compile(KEYED[name], backend="eager"), torch.ones(2)
    for _ in range(3):
        noted = []
        for call in (KEYED[name], compiled):
            READ.clear()
            noted.append((call(x).tolist(), list(READ)))
        assert noted[0] == noted[1]


def counting(self, name):
    found = object.__getattribute__(self, "__dict__")
    found["count"] = found.get("count", 0) + 1
    return object.__getattribute__(self, name)


def breaking(self, name):
    torch._dynamo.graph_break()
    return object.__getattribute__(self, name)


def doubling(self, name):
    found = object.__getattribute__(self, name)
    return torch.as_tensor(found) * 2 if name in ("first", "second") else found


@pytest.mark.parametrize("hook", [noting, counting, breaking, doubling])
def test_a_compiled_getattribute_is_called_as_in_eager(hook):
    def seen(hook):
        kind = type("Hooked", (Settings,), {"__getattribute__": hook})
        made, found = kind(), []
        function = explorer.compile(lambda x: (x * made.first + made.second, made.scaled(x)), backend="eager")
        for _ in range(3):
            READ.clear()
            found += [str(made.first), str(made.second), str(function(torch.ones(2))), list(READ)]
            made.first = object.__getattribute__(made, "first") + 1
        return found, object.__getattribute__(made, "__dict__").get("count")

    assert seen(explorer.compile(hook, backend="eager")) == seen(hook)
