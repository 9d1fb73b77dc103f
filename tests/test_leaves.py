"""What of a result is compared with eager's: everything that Python can read of it."""

import array
import collections
import dataclasses
import datetime
import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import explorer
from explorer.records.check.accuracy import compare
from explorer.records.check.leaves import MOST, leaves


@dataclasses.dataclass
class Result:
    y: Any


class Holder:
    def __init__(self, y: Any) -> None:
        self.y = y


class Slots:
    __slots__ = ("y",)

    def __init__(self, y: Any) -> None:
        self.y = y


class Private:
    __slots__ = ("__y",)

    def __init__(self, y: Any) -> None:
        self.__y = y


class Items(dict[str, Any]):
    pass


class Color(enum.Enum):
    ONE = 1
    TWO = 2


Named = collections.namedtuple("Named", "y")  # noqa: PYI024 - what many programs have


def closure(y: Any) -> Callable[[], Any]:
    return lambda: y


def with_attribute(y: Any) -> Tensor:
    made = torch.zeros(1)
    made.more = y  # type: ignore[attr-defined]
    return made


def with_items(y: Any) -> Items:
    made = Items(a=1)
    made.y = y  # type: ignore[attr-defined]
    return made


def module(y: Tensor) -> nn.Module:
    made = nn.Module()
    made.register_buffer("y", y)
    return made


def cyclic(y: Any) -> list[Any]:
    made: list[Any] = [y]
    made.append(made)
    return made


HOLDING: dict[str, Callable[[Tensor], Any]] = {
    "dataclass": Result, "object": Holder, "slots": Slots, "private slots": Private, "named tuple": Named,
    "namespace": lambda y: types.SimpleNamespace(y=y), "deque": lambda y: collections.deque([y]),
    "dictionary in an object": lambda y: Holder({"a": [y]}), "key": lambda y: {Named(y): 1},
    "attribute of a dictionary": with_items, "array": lambda y: y.detach().numpy(),
    "number of NumPy": lambda y: y.detach().numpy()[0], "number": lambda y: y[0].item(),
    "numbers": lambda y: y.tolist(),
    "bytes": lambda y: y.detach().numpy().tobytes(), "bytearray": lambda y: bytearray(y.detach().numpy().tobytes()),
    "array of numbers": lambda y: array.array("f", y.tolist()), "text": lambda y: f"{y.sum():.3f}",
    "set": lambda y: set(y.tolist()), "frozen set": lambda y: frozenset(y.tolist()), "closure": closure,
    "partial": lambda y: functools.partial(max, y), "method": lambda y: Holder(y).__init__, "module": module,
    "attribute of a tensor": with_attribute, "exception": lambda y: ValueError(y), "cycle": cyclic,
    "complex": lambda y: complex(y[0]),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOLDING)
def test_what_any_result_holds_is_compared(kind: str) -> None:
    made = HOLDING[kind]
    y = torch.tensor([0.5, 1.25, 3.0])
    given = {"output": made(y)}
    assert compare(given, {"output": made(y.clone())}).ok
    assert not compare(given, {"output": made(y + 1)}).ok


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ([1, 2], (1, 2), "class of output: 'list' instead of 'tuple'"),
        ([1, 2], [1, 2, 3], "output[2] is missing"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "keys of output: \"'a', 'b'\" instead of \"'b', 'a'\""),
        (True, 1, "output: True instead of 1"),
        (1, 1.0, "output: 1 instead of 1.0"),
        (Color.ONE, Color.TWO, "output: 'test_leaves.Color.ONE' instead of"),
        (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), "output: datetime.date(2026, 1, 1) instead of"),
        (numpy.float32(1), numpy.float64(1), "output: np.float32(1.0) instead of np.float64(1.0)"),
        (numpy.zeros(2, "U3"), numpy.ones(2, "U3"), ""),
        (b"x" * 1000, b"y" * 1000, "output: b'xxx"),
        (max, min, ""),
        (int, float, "output: 'type int' instead of 'type float'"),
        (None, 0, "output: None instead of 0"),
    ],
)  # fmt: skip
def test_kinds_orders_and_constants_are_compared(one: Any, other: Any, said: str) -> None:
    found = compare({"output": one}, {"output": other})
    assert found.first_mismatch.startswith(said) if said else found.ok and found.opaque
    assert len(found.first_mismatch) < 300
    assert compare({"output": one}, {"output": one}).ok


def test_a_value_that_cannot_be_read_is_named() -> None:
    assert compare({"output": [iter([1])]}, {"output": [iter([2])]}).opaque == "output[0] (a list_iterator)"
    one, other = ((each for each in given) for given in ((), (1,)))
    assert compare({"output": one}, {"output": other}).opaque == "output (a generator)"
    assert not compare({"output": 1}, {"output": 1}).opaque
    many = leaves(list(range(MOST + 5)), "output")
    assert len(many) <= MOST + 2 and "the rest of output" in many


def test_numbers_may_be_off_by_the_rounding_of_the_tensors_they_come_from() -> None:
    x = torch.tensor(0.1)
    loss, next_to_it = torch.tensor([7.816814184188843, 7.816813707351685]).tolist()
    near = compare({"output": next_to_it}, {"output": loss})
    assert near.ok and 0 < near.largest_absolute < 1e-6 and near.where == "output"
    assert not compare({"output": loss * 1.001}, {"output": loss}).ok
    assert not compare({"output": loss * 1.001, "state": x.bfloat16()}, {"output": loss, "state": x.bfloat16()}).ok
    low = {"output": x.bfloat16().item(), "state": x.bfloat16()}
    assert compare({**low, "output": (x * 1.01).bfloat16().item()}, low).ok
    exact = {"output": 0.1, "state": x.double()}
    assert not compare({**exact, "output": 0.1 + 1e-7}, exact).ok
    clock = compare({"output": 1.7e9 + 0.25}, {"output": 1.7e9 + 0.01})
    assert clock.ok and not clock.largest_absolute, "as a time of day, whose error is not a tensor's"
    for special in (float("inf"), float("-inf"), float("nan")):
        assert compare({"output": special}, {"output": special}).ok
        assert not compare({"output": special}, {"output": 1.0}).ok
    assert not compare({"output": float("inf")}, {"output": float("-inf")}).ok


def test_no_code_of_the_program_runs() -> None:
    class Loud:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = object.__hash__
        __repr__ = __len__ = __iter__ = __bool__ = __eq__  # type: ignore[assignment]

    class LoudText(str):
        __eq__ = Loud.__eq__
        __hash__ = str.__hash__
        __repr__ = Loud.__eq__  # type: ignore[assignment]

    for made in (Loud, lambda: LoudText("a"), lambda: {Loud()}, lambda: {Loud(): 1}, lambda: [LoudText("b"), Loud()]):
        assert compare({"output": made()}, {"output": made()}).ok


def test_gradients_flow_from_tensors_in_objects() -> None:
    record = explorer.explore(lambda x: Result({"a": torch.sin(x)}), time=False)(torch.ones(3, requires_grad=True))
    assert record.timing is not None and record.timing.accuracy is not None
    assert any(half.name.endswith("backward") for each in record.data.compiles for half in each.halves)
    assert record.timing.accuracy.compared == 3, "output, gradient and input"


SEEN: list[Any] = []


class Counter:
    def __init__(self) -> None:
        self.count, self.last = 0, {"loss": 0.0}

    def step(self, x: Tensor) -> Tensor:
        y = x.sin().sum()
        self.count += 1
        self.last["loss"] = y.item()
        SEEN.append(y.detach() * 2)
        return y


@pytest.mark.parametrize("wrong", ["count", "loss", ""])
def test_what_a_call_leaves_in_objects_is_compared(wrong: str) -> None:
    """A backend that computes something else stands for a compiler that is wrong."""

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if wrong == "count":
                counter.count += 1
            found = graph(*args)
            return [each + 1 if wrong == "loss" and n == 0 else each for n, each in enumerate(found)]

        return run

    counter = Counter()
    SEEN.clear()
    record = explorer.explore(counter.step, engine="stock", stock={"backend": backend}, time=False)(torch.ones(3))
    accuracy = record.timing.accuracy if record.timing is not None else None
    assert accuracy is not None
    if not wrong:
        assert not accuracy.first_mismatch
    else:
        assert accuracy.first_mismatch
    assert counter.count == 1 and len(SEEN) == 1


OF_AN_INPUT = {
    "w.mul_(2)": True, "w += x": True, "torch.mul(x, 2, out=w)": False, "F.relu(w, inplace=True)": True,
    "w[0] = 5": True, "torch._foreach_mul_([w], 2)": False, "w = nn.Parameter(w).mul_(2)": False, "w.t_()": False,
    "w = w.detach().requires_grad_().mul_(2)": False, "w = w.detach()[:1].requires_grad_().add_(1)": False,
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("write", OF_AN_INPUT)
def test_an_input_that_is_written_without_grad_is_no_leaf_made_inside(write: str, size: int) -> None:
    """What computes from it is compiled, and its gradient is the input's; a leaf in its memory is one made inside."""
    source = f"def program(x, w):\n    with torch.no_grad():\n        {write}\n    return w * x, (w * w).sum()"
    exec(source, space := {"torch": torch, "F": torch.nn.functional, "nn": torch.nn})
    found = []
    for function in (
        space["program"],
        (whole := explorer.explore(space["program"])),
        explorer.compile(space["program"]),
    ):
        x, w = torch.linspace(-1, 2, size), torch.linspace(-2, 1, size * size).view(size, size).clone().requires_grad_()
        if function is whole:
            assert not OF_AN_INPUT[write] or "eagerly" not in str(function(x, w)).splitlines()[1]
            continue
        outputs = function(x, w)
        (outputs[0].sum() + outputs[1]).backward()
        found.append((*outputs, w, w.grad))
    torch.testing.assert_close(*found)
