"""Instances of classes derived from int, float, str, bytes and complex: one graph, with what eager returns."""

import enum
from typing import Any

import pytest
import torch

import explorer
from explorer.compiler.capture.values.derived import PLAIN_OF

WRITTEN: dict[str, Any] = {
    "nothing": {},
    "operators": {"__add__": lambda self, other: ("add", other), "__rmul__": lambda self, other: ("rmul", other)},
    "comparisons": {"__eq__": lambda self, other: True, "__hash__": lambda self: 7, "__lt__": lambda self, other: "lt"},
    "texts": {"__str__": lambda self: "text", "__repr__": lambda self: "shown"},
    "attributes": {"limit": 4, "half": property(lambda self: self[:1] if hasattr(self, "split") else self / 2)},
    "other methods of C": {"__add__": lambda self, other: NotImplemented, "__radd__": int.__bool__},
}
GIVEN = {int: (3, -2), float: (2.5, 0.0), str: ("ab", "é%"), bytes: (b"ab", b""), complex: (1 + 2j, 0j)}
COMMON = {
    "truth": lambda v, x: (bool(v), not v, 1 if v else 2),
    "hash": lambda v, x: (hash(v) == hash(v), {v: 1}[v], v in (v,), [v].index(v)),
    "equal": lambda v, x: (v == v, v != v, v == 3, "ab" == v, v is v, v == type(v)(v)),
    "text": lambda v, x: (str(v), repr(v), f"{v}", f"{v!r}", "%s" % (v,), "{}".format(v)),  # noqa: UP030, UP031, UP032
    "kind": lambda v, x: (type(v).__name__, isinstance(v, (int, str)), callable(v), v.__class__ is type(v)),
    "copies": lambda v, x: (type(v)(v), [v, v], {"k": v}),
    "attribute": lambda v, x: (getattr(v, "limit", 0), getattr(v, "half", 0), hasattr(v, "absent")),
}
OF_NUMBERS = {
    "with tensors": lambda v, x: (x * v, v * x, x + v, v + x, x - v, x.add(v), torch.full((2,), v), torch.tensor(v)),
    "with numbers": lambda v, x: (v + 1, 1 + v, v * 2.0, v / 3, -v, +v, abs(v), v - v, 2 * v),
}
OF_ORDERED = {"ordered": lambda v, x: (v < v, v <= v, max(v, v), sorted([v, v]))}
OF_INTS = {
    "as an index": lambda v, x: (x[v : v + 0], range(v), [0, 1, 2, 3][v], x.view(-1)[v], "abc"[v], divmod(v, 2), v | 1),
    "as a size": lambda v, x: (x.view(abs(v) // abs(v), -1), torch.zeros(abs(v) + 0), x.sum(v - v)),
    "of C": lambda v, x: (v.bit_length(), v.real, int(v), float(v), round(v), v.to_bytes(2, "big", signed=True)),
}
OF_SEQUENCES = {
    "items": lambda v, x: (len(v), v[:1], list(v), [each for each in v], v + v, v * 2, v[::-1]),
    "methods": lambda v, x: (v.upper(), v.split(), v.startswith(v), v.replace(v[:1], v), v in v, v.find(v)),
}
READS = {
    int: COMMON | OF_NUMBERS | OF_ORDERED | OF_INTS,
    float: COMMON | OF_NUMBERS | OF_ORDERED,
    complex: COMMON | {"with numbers": OF_NUMBERS["with numbers"]},
    str: COMMON | OF_ORDERED | OF_SEQUENCES,
    bytes: COMMON | OF_ORDERED | OF_SEQUENCES,
}
CASES = [(base, written, read) for base in PLAIN_OF for written in WRITTEN for read in READS[base]]


def facts(found):
    if isinstance(found, torch.Tensor):
        return found.dtype, found.tolist()
    if isinstance(found, (list, tuple)):
        return type(found), [facts(each) for each in found]
    if isinstance(found, dict):
        return [(facts(key), facts(value)) for key, value in found.items()]
    base = next((each for each in PLAIN_OF if isinstance(found, each)), None)
    return type(found).__name__, repr(found if base is None or type(found) is bool else PLAIN_OF[base](found))


def of(function, *args):
    try:
        return facts(function(*args))
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        return type(error).__name__, str(error).partition("\n")[0]


@pytest.mark.parametrize("base,written,read", CASES)
def test_derived(base, written, read):
    cls = type("Derived", (base,), dict(WRITTEN[written]))
    function = READS[base][read]
    made_inside = lambda given, x: function(cls(given), x)  # noqa: E731
    compiled, inside = explorer.compile(function, backend="eager"), explorer.compile(made_inside, backend="eager")
    for given in GIVEN[base]:
        x = torch.arange(6.0)
        expected = of(function, cls(given), x)
        assert of(compiled, cls(given), x) == expected
        assert of(inside, given, x) == expected


WHOLE = OF_NUMBERS | OF_ORDERED | OF_INTS | {name: COMMON[name] for name in ("truth", "hash", "text")}


@pytest.mark.parametrize("read", WHOLE)
def test_one_graph(read):
    cls = type("Derived", (int,), {"__rsub__": lambda self, other: 5, "__mod__": lambda self, other: 6})
    compiled = explorer.compile(lambda v, x: (WHOLE[read](v, x), x + 1), fullgraph=True, backend="aot_eager")
    assert facts(compiled(cls(2), torch.arange(6.0))[0]) == facts(WHOLE[read](cls(2), torch.arange(6.0)))


OUTSIDE = {"k": 2}


class Name(enum.StrEnum):
    A = "a"

    @property
    def k(self):
        return OUTSIDE["k"]

    def __eq__(self, other):
        return OUTSIDE["k"] == 2

    __hash__ = str.__hash__

    @property
    def function(self):
        return {"a": torch.sin}[self.value]


class Level(enum.IntEnum):
    ONE = 1

    def __add__(self, other):
        return OUTSIDE["k"]

    def __str__(self):
        return f"<{OUTSIDE['k']}>"


def of_members(x, name, level):
    return (
        x * name.k,
        name.function(x),
        level + 1,
        name == 3,
        str(level),
        f"{level}",
        x[level],
        x * level,
    )


def test_methods_of_members_that_are_numbers_or_texts_are_traced():
    """They were run once, while tracing, and what they read was not guarded."""
    compiled = explorer.compile(of_members, fullgraph=True, backend="eager")
    for OUTSIDE["k"] in (2, 3, 4, 2):
        x = torch.arange(2.0)
        assert facts(compiled(x, Name.A, Level.ONE)) == facts(of_members(x, Name.A, Level.ONE))


class Dotted(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Loose(dict):
    __getattr__ = dict.get
    __call__ = dict.get


def written_by_name(x, made):
    made.b = x * 2
    made.a = made.a + made.b
    del made.b
    made.c = 3
    return made.a, dict(made), hasattr(made, "c")


def read_by_name(x, made):
    return x + 1, made.absent, made("a"), made("absent", 4)


@pytest.mark.parametrize("function,cls", [(written_by_name, Dotted), (read_by_name, Loose)])
def test_methods_of_c_under_other_names(function, cls):
    found = []
    for run in (function, explorer.compile(function, fullgraph=True, backend="aot_eager")):
        made = cls(a=torch.ones(2))
        found.append(str((run(torch.ones(2), made), made, vars(made))))
    assert found[0] == found[1]
