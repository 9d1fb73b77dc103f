"""Python's data model in captured programs: results, kinds, messages and what is left behind are eager's."""

from __future__ import annotations

import abc
import copy
import dataclasses
import enum
import functools
import importlib
import inspect
import itertools
import operator
import sys
import typing
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
import torch
from torch import nn

import explorer
from capturing import compiled
from data_model import shown
from python_programs import PROGRAMS, Keeping


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    """In one graph, and the same again for other numbers."""
    compiled = explorer.compile(PROGRAMS[name], backend=lambda graph, inputs: graph, fullgraph=True)
    for start in (1.0, 2.0, 2.0):
        x = torch.arange(start, start + 4)
        assert shown(compiled(x)) == shown(PROGRAMS[name](x))


WHO_CALLS: dict[str, Callable[[], object]] = {
    "currentframe": lambda: inspect.currentframe().f_code.co_name,  # type: ignore[union-attr]
    "stack": lambda: inspect.stack()[0].function,
    "trace": lambda: len(inspect.trace()),
    "_getframe": lambda: sys._getframe().f_lineno,
    "a type variable": lambda: TypeVar("T").__module__,  # type: ignore[misc]
    "a class of named tuples": lambda: NamedTuple("N", [("a", int)]).__module__,  # type: ignore[misc]
    "a dataclass": lambda: dataclasses.make_dataclass("N", ["a"]).__module__,
    "an enumeration": lambda: enum.Enum("N", "a b").__module__,
    "an enumeration of another module": lambda: enum.Enum("N", "a b", module="elsewhere").__module__,
}


@pytest.mark.parametrize("name", WHO_CALLS)
def test_what_asks_for_its_caller_is_told_of_the_program(name: str) -> None:
    def step(x: torch.Tensor) -> tuple[torch.Tensor, object]:
        return x + 1, WHO_CALLS[name]()

    x = torch.ones(2)
    assert str(compiled(step)[0](x)) == str(step(x))


@pytest.mark.parametrize("backend", ["aot_eager", None])
def test_gradients_of_parameters_made_inside(backend: str | None) -> None:
    def f(x):
        made = nn.Linear(4, 3)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.fill_(0.5)
        return made(x).square().sum(), made

    compiled = explorer.compile(f, fullgraph=True, **({"backend": backend} if backend else {}))
    for _ in range(2):
        x = torch.arange(4.0)
        found, expected = compiled(x), f(x)
        found[0].backward(), expected[0].backward()
        assert torch.equal(found[0], expected[0])
        for mine, eager in zip(found[1].parameters(), expected[1].parameters(), strict=True):
            assert type(mine) is nn.Parameter and mine.is_leaf and torch.equal(mine.grad, eager.grad)


@pytest.mark.parametrize("make", [torch.LongTensor, torch.IntTensor, torch.tensor, torch.stack])
def test_values_of_tensors_are_not_constants(make: Any) -> None:
    compiled = explorer.compile(lambda values: make(values) + 1)
    for first in (3, 5):
        values = [torch.tensor(first), torch.tensor(first + 1)]
        assert torch.equal(compiled(values), make(values) + 1)


class Held:
    pass


def test_attributes_set_and_deleted() -> None:
    def f(o, x):
        o.c = x
        del o.c
        return x + 1

    compiled = explorer.compile(f, fullgraph=True)
    for held in (Held(), Held()):
        assert torch.equal(compiled(held, torch.ones(2)), torch.full((2,), 2.0))
        assert vars(held) == {}


def test_own_setattr_that_calls_super() -> None:
    class Counting(nn.Module):
        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2 if name == "count" else value)

        def forward(self, x):
            self.count = self.count + 1
            return x + self.count

    plain, compiled = Counting(), Counting()
    plain.count = compiled.count = 1
    call = explorer.compile(compiled)
    for _ in range(2):
        assert torch.equal(call(torch.ones(2)), plain(torch.ones(2)))
    assert compiled.count == plain.count


def test_the_programs_error_under_fullgraph() -> None:
    """With eager's type, message and line."""

    class Refused(Exception):
        pass

    def f(x):
        y = x + 1
        raise Refused("no", y.shape[0]) from KeyError("cause")

    with pytest.raises(Refused) as caught:
        explorer.compile(f, fullgraph=True)(torch.ones(2))
    assert caught.value.args == ("no", 2) and repr(caught.value.__cause__) == "KeyError('cause')"
    assert any(entry.lineno + 1 == f.__code__.co_firstlineno + 2 for entry in caught.traceback)


def test_functions_that_outlive_the_frame_keep_their_variables() -> None:
    def f(x):
        y, n = x + 1, 5

        def outer():
            return lambda: y * n

        return [outer], {"k": outer()}, lambda: n

    compiled, eager = (g(torch.ones(2)) for g in (explorer.compile(f, fullgraph=True), f))
    assert torch.equal(compiled[0][0]()(), eager[0][0]()()) and torch.equal(compiled[1]["k"](), eager[1]["k"]())
    assert compiled[2]() == 5


def test_a_number_has_no_attributes_of_tensors() -> None:
    def f(v):
        return v * 2 if torch.overrides.is_tensor_like(v) else torch.zeros(8) + v

    compiled = explorer.compile(f)
    for given in (torch.ones(2), 4, torch.ones(3), 5):
        assert torch.equal(compiled(given), f(given))


def test_descriptor_that_only_sets_of_an_input() -> None:
    def f(held, x):
        held.kept = 10
        return x + held.kept

    compiled = explorer.compile(f, fullgraph=True)
    mine, eager = Keeping(), Keeping()
    for _ in range(2):
        assert torch.equal(compiled(mine, torch.ones(2)), f(eager, torch.ones(2)))
        assert vars(mine) == vars(eager)


def test_numpy_by_force() -> None:
    compiled = explorer.compile(lambda x: (x.numpy(force=False) + 1, x.numpy(force=True) * 2), fullgraph=True)
    plain, forced = compiled(torch.ones(2))
    assert plain.tolist() == forced.tolist() == [2.0, 2.0]


def test_optree() -> None:
    """Trees of optree are taken apart and put together while tracing; its setting of the order of keys is guarded."""
    optree = pytest.importorskip("optree")

    def f(x):
        tree = {"b": x, "a": [x, (x, None)]}
        leaves, spec = optree.tree_flatten(tree)
        return optree.tree_map(lambda a, b: a * b, tree, tree), optree.tree_unflatten(spec, leaves), spec.num_leaves, [
            *optree.tree_flatten(tree, namespace="ours")[0]
        ]  # fmt: skip

    compiled = explorer.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert shown(compiled(torch.arange(3.0))) == shown(f(torch.arange(3.0)))
    with optree.dict_insertion_ordered(True, namespace="ours"):
        assert shown(compiled(torch.arange(3.0))) == shown(f(torch.arange(3.0)))

    def specs(x):
        return x + 1, optree.tree_structure([x, {"a": x}])

    assert type(explorer.compile(specs)(torch.ones(2))[1]) is optree.PyTreeSpec


ODD: tuple[Any, ...] = (0.5, -1, None, "a", True, (), 0, 3, -2, 5, 1 << 70, torch.tensor(2))

GIVEN_ODD = {
    "islice(stop)": lambda o: list(itertools.islice([1, 2, 3], o)),
    "islice(start)": lambda o: list(itertools.islice([1, 2, 3], o, 2)),
    "islice(step)": lambda o: list(itertools.islice([1, 2, 3], 0, 3, o)),
    "index(start)": lambda o: [1, 2, 3].index(2, o),
    "index(end)": lambda o: (1, 2, 3).index(2, 0, o),
    "index(start, end)": lambda o: deque([1, 2, 3, 2]).index(2, o, 4),
    "hasattr(name)": lambda o: hasattr([], o),
    "tee(n)": lambda o: len(itertools.tee([1], o if o != 1 << 70 else 1)),
    "length_hint(default)": lambda o: operator.length_hint(object(), o if o != 1 << 70 else 1),
    "divmod(number, other)": lambda o: divmod(7, o),
    "divmod(other, number)": lambda o: divmod(o, 2),
    "divmod(float, other)": lambda o: divmod(7.5, o),
    "divmod(other, zero)": lambda o: divmod(o, 0),
}


@pytest.mark.parametrize("name", GIVEN_ODD)
def test_odd_arguments_of_builtins(name):
    for odd in ODD:
        found = []
        for call in (GIVEN_ODD[name], explorer.compile(lambda x, o: (x + 1, GIVEN_ODD[name](o))[1], backend="eager")):
            try:
                result = call(*((torch.ones(2), odd) if found else (odd,)))
                found.append((type(result), result))
            except Exception as error:
                found.append((type(error), str(error)))
        assert found[0] == found[1], odd


def tagged(x: torch.Tensor) -> torch.Tensor:
    x.tag = [1]
    return x


DEEPLY_COPIED = {
    "whole": lambda: torch.arange(6.0).reshape(2, 3), "turned": lambda: torch.arange(6.0).reshape(2, 3).t(),
    "steps": lambda: torch.arange(15.0).reshape(5, 3)[::2], "end": lambda: torch.arange(15.0).reshape(5, 3)[1:],
    "begin": lambda: torch.arange(6.0)[:2], "repeated": lambda: torch.ones(3).expand(2, 3),
    "folded": lambda: torch.arange(6.0).as_strided((2, 3), (1, 1)), "tagged": lambda: tagged(torch.arange(6.0)),
    "parameter": lambda: nn.Parameter(torch.arange(6.0)[::2]),
}  # fmt: skip

DEEP_COPIES = {
    "itself": lambda x: [copy.deepcopy(x)],
    "of a part": lambda x: [copy.deepcopy(x.detach()[1:])],
    "twice": lambda x: copy.deepcopy([x, x]),
    "with a view": lambda x: copy.deepcopy([x.detach(), x.detach().view_as(x)]),
    "of a part of what is made": lambda x: [copy.deepcopy(x.detach().sin()[:1])],
    "of what is made": lambda x: [copy.deepcopy(x.detach().sin())],
}


@pytest.mark.parametrize("how", DEEP_COPIES)
@pytest.mark.parametrize("what", DEEPLY_COPIED)
def test_a_deep_copy_has_the_memory_of_eagers(what: str, how: str) -> None:
    def memory(copies: list[torch.Tensor]) -> Any:
        same = [each.untyped_storage()._cdata == copies[0].untyped_storage()._cdata for each in copies]
        return same, [
            (each.tolist(), each.stride(), each.storage_offset(), each.untyped_storage().nbytes(), vars(each))
            for each in copies
        ]

    copied = DEEP_COPIES[how]
    compiled = explorer.compile(copied, backend="eager")
    for each in (what, "whole", "tagged", what):
        assert memory(compiled(DEEPLY_COPIED[each]())) == memory(copied(DEEPLY_COPIED[each]()))


class Level(enum.IntEnum):
    HIGH = 3


class Bits(enum.IntFlag):
    TWO = 2


NOW = [2]
"""What members of the enumerations below read when they are asked."""


class Holding(enum.Enum):
    LIST = [1]
    DICT = {"k": 1}


class Speaking(enum.Enum):
    IT = 1

    def __bool__(self) -> bool:
        return NOW[0] > 2

    def __len__(self) -> int:
        return NOW[0]

    def __add__(self, other: int) -> int:
        return NOW[0] + other

    __radd__ = __add__

    def __lt__(self, other: int) -> bool:
        return NOW[0] < other

    def __eq__(self, other: object) -> bool:
        return bool(NOW[0] == other)

    def __hash__(self) -> int:
        return 1

    def __getitem__(self, place: int) -> int:
        return NOW[0] + place

    def __iter__(self) -> Iterator[int]:
        return iter(NOW)

    def __contains__(self, item: object) -> bool:
        return item in NOW

    def __neg__(self) -> int:
        return -NOW[0]

    def __format__(self, spec: str) -> str:
        return str(NOW[0])

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        return NOW[0]

    @property
    def asked(self) -> int:
        return NOW[0]

    @enum.property
    def told(self) -> int:
        return NOW[0]


MEMBERS_THAT_CHANGE = (
    "len(Holding.LIST.value)", "Holding.LIST.value.append(9)", "Holding.DICT.value['k']",
    "Holding.DICT.value.update(k=7)",
    "getattr(Level.HIGH, 'extra', 0)", "hasattr(Level.HIGH, 'extra')", "len(vars(Level.HIGH))",
    "setattr(Level.HIGH, 'count', getattr(Level.HIGH, 'count', 0) + 1)", "getattr(Level.HIGH, 'count', 0)",
    "1 if Speaking.IT else 2", "not Speaking.IT", "Speaking.IT + 1", "1 + Speaking.IT", "len(Speaking.IT)",
    "Speaking.IT < 4", "Speaking.IT == 3", "Speaking.IT[1]", "list(Speaking.IT)", "3 in Speaking.IT", "-Speaking.IT",
    "f'{Speaking.IT}'", "Speaking.IT.asked", "Speaking.IT.told", "Speaking.IT.anything",
)  # fmt: skip


@pytest.mark.parametrize("expression", MEMBERS_THAT_CHANGE)
def test_what_a_member_of_an_enumeration_holds_or_says_may_change(expression: str) -> None:
    namespace = {"Holding": Holding, "Level": Level, "Speaking": Speaking}
    exec(f"def fn(x):\n    y = x * 2\n    return y, {expression}", namespace)
    fn: Any = namespace["fn"]

    def answers(call: Any) -> list[object]:
        NOW[:], Holding.LIST.value[:], Holding.DICT.value["k"] = [2], [1], 1
        for name in ("extra", "count"):
            vars(Level.HIGH).pop(name, None)
        found = []
        for number in range(4):
            found.append((call(torch.ones(2))[1], list(Holding.LIST.value), vars(Level.HIGH).get("count")))
            NOW[0] += 1
            Holding.LIST.value.append(0)
            Holding.DICT.value["k"] += 1
            if number:
                Level.HIGH.extra = number  # type: ignore[attr-defined]
        return found

    expected = answers(fn)
    called, captures = compiled(fn)
    assert answers(called) == expected
    assert captures.graphs and not captures.fallbacks


class Odd(int):
    def __eq__(self, other: object) -> bool:
        return other == 4

    __hash__ = int.__hash__


NUMBERS_OF_OTHER_CLASSES = (
    *(f"n {symbol} Level.HIGH" for symbol in ("==", "!=", "<", ">=", "+", "*", "//", "|")),
    *(f"Level.HIGH {symbol} n" for symbol in ("==", "!=", "<", "-", "%")),
    "n == Odd(3)", "Odd(3) == n", "n | Bits.TWO", "Bits.TWO | n", "n + Bits.TWO", "max(n, Level.HIGH)",
    "n in (Level.HIGH, 9)", "n == np.float64(3)", "n * np.float64(0.5)",
)  # fmt: skip


@pytest.mark.parametrize("expression", NUMBERS_OF_OTHER_CLASSES)
def test_sizes_with_numbers_of_other_classes(expression: str) -> None:
    namespace = {"Level": Level, "Bits": Bits, "Odd": Odd, "np": np}
    exec(f"def fn(x):\n    n = x.shape[0]\n    return x * 2, {expression}, type({expression})", namespace)
    fn: Any = namespace["fn"]
    compiled = explorer.compile(fn, backend="eager")
    for size in (2, 5, 3, 4, 3):
        assert compiled(torch.ones(size))[1:] == fn(torch.ones(size))[1:]


MADE_INSIDE: dict[str, Callable[[Any], Any]] = {
    "partial": lambda x: functools.partial(torch.mul, x),
    "partial of a partial": lambda x: functools.partial(attributes_on(functools.partial(torch.mul, x), x), 2),
    "OrderedDict": lambda x: OrderedDict(a=x),
    "Counter": lambda x: Counter("aab"),
    "a class of a set": lambda x: Numbers([1, 2]),
}


class Numbers(set[int]):
    pass


def attributes_on(made: Any, x: torch.Tensor) -> Any:
    made.first, made.second, made.tensor, made.itself = 1, 2, x, [made]
    made.first = 3
    del made.second
    return made


@pytest.mark.parametrize("kind", MADE_INSIDE)
def test_attributes_of_what_is_made_inside_are_returned(kind: str) -> None:
    def function(x: torch.Tensor) -> tuple[Any, torch.Tensor]:
        return attributes_on(MADE_INSIDE[kind](x), x), x * 2

    def seen(made: Any) -> tuple[Any, ...]:
        function = getattr(made, "func", None)
        kept = made.first, hasattr(made, "second"), made.tensor.tolist(), made.itself[0] is made, list(vars(made))
        return (*kept, seen(function) if isinstance(function, functools.partial) else function is torch.mul)

    x = torch.ones(2)
    compiled = explorer.compile(function, backend="eager", fullgraph=True)
    assert [seen(compiled(x)[0]) for _ in range(2)] == [seen(function(x)[0])] * 2


class ByTwo(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return bool(super().__instancecheck__(value) and getattr(value, "even", True)) or value == "two"

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is int or super().__subclasscheck__(kind)


class ByNumber(abc.ABCMeta):
    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or value == 3


class Two(metaclass=ByTwo):
    even = True


class OddTwo(Two):
    even = False


class Three(metaclass=ByNumber):
    pass


@typing.runtime_checkable
class Weighted(typing.Protocol):
    weight: int


class HasWeight:
    def __init__(self) -> None:
        self.weight = 1


class Proxy:
    def __init__(self, of: object) -> None:
        self.of = of

    @property
    def __class__(self) -> type:
        return type(self.of)


MADE: tuple[Callable[[], object], ...] = (
    Two, OddTwo, Three, HasWeight, lambda: Proxy(HasWeight()), lambda: Proxy(Two()), lambda: "two", lambda: 3,
)  # fmt: skip

KINDS = (Two, OddTwo, Three, Weighted, HasWeight, Proxy, int | Two, (str, Two), (Weighted, (Three,)))


@pytest.mark.parametrize("given", [False, True])
def test_what_a_class_says_of_its_instances_is_asked_of_it(given: bool) -> None:
    held = [make() for make in MADE]

    def function(x: torch.Tensor) -> tuple[object, ...]:
        values = held if given else [make() for make in MADE]
        asked = [[isinstance(value, kind) for kind in KINDS] for value in values]
        matched = []
        for value in values:
            match value:
                case Three():
                    matched.append("three")
                case Two(even=even):
                    matched.append(even)
                case Weighted(weight=weight):
                    matched.append(weight)
                case _:
                    matched.append(None)
        kinds = [issubclass(kind, Two) for kind in (int, str, OddTwo)]
        return asked, matched, kinds, x

    x = torch.ones(2)
    assert str(explorer.compile(function, backend="eager", fullgraph=True)(x)) == str(function(x))


class NoDictionary:
    __slots__ = ("n",)

    @functools.cached_property
    def kept(self) -> int:
        return 1


ON_NO_DICTIONARY: dict[str, Callable[[Any], object]] = {
    "cached property": lambda made: made.kept,
    "attribute set": lambda made: setattr(made, "other", 1),
    "slot": lambda made: made.n,
    "vars": vars,
    "import of none": lambda made: importlib.import_module("no_such_module"),
}


@pytest.mark.parametrize("name", ON_NO_DICTIONARY)
def test_errors_of_objects_and_functions_have_what_eager_gives_them(name: str) -> None:
    def function(x: torch.Tensor) -> tuple[object, ...]:
        try:
            return x, ON_NO_DICTIONARY[name](NoDictionary())
        except Exception as error:
            return type(error), str(error), getattr(error, "name", None), x * 2

    x = torch.ones(2)
    assert str(explorer.compile(function, backend="eager", fullgraph=True)(x)) == str(function(x))
