"""Operators between operands of any two kinds: Python's results, and its errors where a type takes no such operand."""

import collections
import copy
import datetime
import decimal
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer


class Plain:
    pass


class Reflecting:
    """The reflected methods, which a type written in C leaves the work to."""

    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"

    def __ror__(self, other):
        return "ror"

    def __rand__(self, other):
        return "rand"

    def __eq__(self, other):
        return "eq"

    def __gt__(self, other):
        return "gt"


KINDS = (
    "[1, x]", "(x, 2)", "{1, 2}", "frozenset({1})", "{1: x}", "{1: 2}.keys()", "{1: 2}.values()", "{1: 2}.items()",
    "collections.deque([1, 2], 2)", "range(2)", "'a'", "2.5", "True", "n", "x.shape",
    "Plain()", "Reflecting()", "iter([1])",
)  # fmt: skip
OPERATORS = ("+", "*", "%", "@", "&", "|", "==", "<", "in", "+=", "*=", "|=")


def cases(left, right, operator):
    if operator.endswith("=") and operator not in ("==", "!="):
        return f"    try:\n        v = {left}\n        v {operator} {right}\n        out.append(v)\n"
    return f"    try:\n        out.append({left} {operator} {right})\n"


def shown(value):
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, getattr(value, "maxlen", None), [shown(each) for each in value]
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(each)) for key, each in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(str(shown(each)) for each in value)
    if isinstance(value, (str, int, float, type(None))):
        return type(value).__name__, value
    return type(value).__name__


def is_told_apart(left, right, operator):
    """Not: tensors compared as items, of which eager asks the truth; a symbolic int under @, which has other words."""
    if operator in ("@", "@="):
        return "n" not in (left, right)
    return operator not in ("==", "!=", "<", "in") or not {left, right} & {"[1, x]", "(x, 2)", "{1: x}"}


@pytest.mark.parametrize("left", KINDS)
def test_operators_between_kinds(left):
    pairs = [(left, right, each) for right in KINDS for each in OPERATORS if is_told_apart(left, right, each)]
    handler = "    except (TypeError, ValueError) as error:\n        out.append(str(error))\n"
    body = "".join(cases(*each) + handler for each in pairs)
    namespace = dict(globals())
    exec(f"def program(x, n):\n    out = [x + 1]\n{body}    return out", namespace)
    program = namespace["program"]
    compiled = explorer.compile(program, backend="eager", dynamic=True)
    expected, got = program(torch.ones(2), 3), compiled(torch.ones(2), 3)
    for pair, one, other in zip(pairs, expected[1:], got[1:], strict=True):
        assert shown(one) == shown(other), pair


def test_what_is_not_found_is_printed():
    def program(x, values):
        out = []
        for each in values:
            try:
                out.append(each.index(x))
            except ValueError as error:
                out.append(str(error))
        return out

    x, values = torch.ones(3), ([], (), collections.deque())
    assert explorer.compile(program, backend="eager")(x, values) == program(x, values)


@pytest.mark.parametrize("place", [-2, 0])
def test_item_of_a_tensor_changed_in_place(place):
    def program(x):
        x[torch.tensor(place)] += 2
        return x

    assert torch.equal(explorer.compile(program, backend="eager")(torch.ones(2, 3)), program(torch.ones(2, 3)))


class OwnLength(list[Any]):
    def __len__(self) -> int:
        return 7


def derived(base: type, value: Any) -> Callable[[], Any]:
    return lambda: type(f"Derived_{base.__name__}", (base,), {})(value)


GIVEN: dict[str, Callable[[], Any]] = {
    "int": lambda: 2, "derived int": derived(int, 2), "derived float": derived(float, 2.0),
    "derived str": derived(str, "ab"), "derived tuple": derived(tuple, (1, 2)), "derived list": derived(list, [1, 2]),
    "derived frozenset": derived(frozenset, {1}), "own length": lambda: OwnLength([1]),
    "decimal": lambda: decimal.Decimal(2), "date": lambda: datetime.date(2020, 1, 1),
}  # fmt: skip
"""Objects of classes over types written in C."""


@pytest.mark.parametrize("left", GIVEN)
def test_operators_on_objects_over_c_types(left: str) -> None:
    for symbol in ("==", "<", "+"):
        namespace: dict[str, Any] = {}
        exec(f"def program(x, v, w):\n    return x + 1, v {symbol} w", namespace)
        program = namespace["program"]
        compiled = explorer.compile(program, backend="eager")
        for right, made in GIVEN.items():
            found = [_outcome(each, GIVEN[left](), made()) for each in (program, compiled, compiled)]
            assert found[1:] == found[:1] * 2, f"{left} {symbol} {right}"


def _outcome(function: Callable[..., Any], v: Any, w: Any) -> Any:
    try:
        return shown(function(torch.ones(2), v, w)[1])
    except TypeError as error:
        return str(error)


OF_MODULE = [
    each for name, each in vars(operator).items() if callable(each) and name == each.__name__ and name[0] != "_"
]
OPERANDS = [["x"], [3], ["x", 2], ["x", "x"], [7, 2], [[1, 2], 1], [[1, 2], 0, 5], ["item"]]


@pytest.mark.parametrize("function", OF_MODULE, ids=lambda function: function.__name__)
def test_a_function_of_operator_does_what_the_operator_does(function):
    def fn(x, *operands):
        return function(*[x.clone() if each == "x" else each for each in operands])

    def outcome(call, operands):
        try:
            return str(call(torch.tensor([2, 3]), *copy.deepcopy(operands)))
        except Exception as error:
            return type(error).__name__

    bugs = explorer.counters().get("compiler bugs", 0)
    for operands in OPERANDS:
        found, expected = outcome(explorer.compile(fn), operands), outcome(fn, operands)
        assert found == expected or "object at 0x" in expected
    assert explorer.counters().get("compiler bugs", 0) == bugs
