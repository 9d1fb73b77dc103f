"""What the viewer decides of described calls is what the checks say of the values: in C++, and each guard's class."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

import explorer
from capturing import compiled
from explorer.compiler.capture.guards import ShapeHolds
from explorer.core.recorder import Recorder, recording
from explorer.ir.capture import Global, Known, Local, Size, Source, Stride, read
from explorer.ir.description import constant, described, global_state
from explorer.ir.record import CompileData, ExpressionData, GuardData, InputData, TensorFactsData
from explorer.records.to_record import compile as exported
from explorer.records.to_record.capture import guard_data
from guard_decisions import Decision, decide


def uses(x: Tensor, items: list[Any], table: dict[str, Any], count: int, flag: bool | None, name: str) -> Tensor:
    for item in items:
        x = x + item
    if flag is None or "bias" in table:
        x = x - 1
    for value in table.values():
        x = x * value
    return x.view(count, -1) if name == "flat" else x


BASE = {"x": torch.ones(4, 6), "items": [1, 2], "table": {"a": 2}, "count": 2, "flag": True, "name": "flat"}
CALLS: dict[str, dict[str, Any]] = {
    "the same": {},
    "other values": {"x": torch.zeros(4, 6)},
    "longer list": {"items": [1, 2, 3]},
    "tuple for list": {"items": (1, 2)},
    "other item": {"items": [1, 3]},
    "more keys": {"table": {"a": 2, "b": 3}},
    "other key": {"table": {"b": 2}},
    "key asked for": {"table": {"bias": 2}},
    "number": {"count": 3},
    "number as bool": {"count": True},
    "None for a flag": {"flag": None},
    "string": {"name": "wide"},
    "no string": {"name": 1},
    "tensor for a number": {"count": torch.tensor(2)},
    "columns": {"x": torch.ones(6, 4).t()},
    "broadcast": {"x": torch.ones(4, 1).expand(4, 6)},
    "half": {"x": torch.ones(4, 6).half()},
    "leaf": {"x": torch.ones(4, 6, requires_grad=True)},
}


@pytest.mark.parametrize("change", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_agrees_with_the_real_checks(change: dict[str, Any], dynamic: bool | None) -> None:
    fn, captures = compiled(uses, dynamic=dynamic)
    fn(**BASE)
    (linked,) = captures.linked
    call = BASE | change
    given = [described(f"L[{name!r}]", value) for name, value in call.items()]
    given += [described(f"L['items'][{n}]", item) for n, item in enumerate(call["items"])]
    given += [described(f"L['table'][{key!r}]", item) for key, item in call["table"].items()]
    decisions = decide([guard_data(each, 0) for each in linked.guards], given, global_state())
    refused = [d.guard.expression for d in decisions if d.holds is False]
    assert (not refused) == linked.manager.check(call), (refused, linked.manager.failure(call))
    for decision in decisions:
        assert bool(decision.how) == (decision.holds is not True)


def flags(x: Tensor, mask: Tensor, heads: int, causal: bool, mode: str, options: dict[str, int]) -> Tensor:
    y = x.view(x.shape[0], heads, x.shape[1] // heads)
    if causal:
        y = y * mask
    return (y.relu() if mode == "relu" else y).sum(options["dim"])


def sizes(x: Tensor, y: Tensor, n: int) -> Tensor:
    if x.shape[0] * 2 > n and x.shape[0] % 2 == 0:
        return x.reshape(-1, 2).sum() + y[:n].sum() + x.stride(0)
    return x.sum() - y.sum()


def containers(items: list[Tensor], nothing: Tensor | None, by_name: dict[str, Any]) -> Tensor:
    total = torch.zeros(()) + sum(item.sum() for item in items)
    if nothing is None:
        total = total + by_name["a"].sum()
    return total * len(by_name)


X = torch.ones(6, 8)
PROGRAMS: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "flags": (flags, {"x": torch.ones(8, 64), "mask": torch.ones(8, 4, 16), "heads": 4, "causal": True,
                      "mode": "relu", "options": {"dim": 1}}),
    "sizes": (sizes, {"x": torch.ones(6, 4), "y": torch.ones(20), "n": 5}),
    "containers": (containers, {"items": [X, X + 1, X], "nothing": None, "by_name": {"a": X, "b": 1}}),
}  # fmt: skip


def changed(value: Any, draw: random.Random) -> Any:
    """Some other value in the same place."""
    others: list[Any] = [3, True, 3.0, "relu", None, 2**60, {}, {"a": 3}, {"dim": 2, "b": 1}, [], [X], X]
    if isinstance(value, Tensor) and draw.random() < 0.8:
        shape = [old if draw.random() < 0.6 else draw.choice([0, 1, 2, 4, 6, 9]) for old in value.shape]
        shape = draw.choice([shape] * 4 + [[], [2], [1, 2, 3]])
        made = torch.ones(shape, dtype=draw.choice([value.dtype] * 4 + [torch.float64]))
        made = made.t().contiguous().t() if made.dim() == 2 and draw.random() < 0.3 else made
        return made.requires_grad_(draw.random() < 0.2)
    return draw.choice(others)


def test_each_guard_on_random_calls() -> None:
    """What a guard's own class says of the values is decided of their descriptions, where they tell."""
    draw, seen = random.Random(7), set()
    for function, base in PROGRAMS.values():
        for dynamic in (None, True):
            fn, captures = compiled(function, dynamic=dynamic)
            fn(**base)
            guards, frame = captures.linked[0].guards, captures.made[0].frame
            assert frame is not None
            for _ in range(60):
                share, grad = draw.choice([0.0, 0.2, 0.6]), draw.random() < 0.8
                call = {name: changed(value, draw) if draw.random() < share else value for name, value in base.items()}
                with torch.set_grad_enabled(grad):
                    now = replace(frame, locals=call)
                    said, first, given = {}, {}, {}
                    for guard in guards:
                        sources = [each for each in (guard.source, *getattr(guard.condition, "sources", ())) if each]
                        whole = isinstance(guard.source, Local) and guard.kind in ("tensor", "type", "id", "constant")
                        if not whole and any(other_kind(each, call, base) for each in sources):
                            continue  # what is asked of an object of another kind has no meaning
                        with suppress(KeyError, IndexError, TypeError):  # an item that is not there
                            said[guard.id] = guard.condition.failure(guard.source, now)
                            for source in sources:
                                source = source.base if isinstance(source, (Size, Stride)) else source
                                value = read(source, call, frame.globals)
                                same = first.setdefault(id(value), source.name)
                                same_as = same if isinstance(value, Tensor) and same != source.name else ""
                                given[source.name] = described(source.name, value, same_as=same_as)
                    found = decide([guard_data(each, 0) for each in guards], given.values(), global_state())
                for guard, decision in zip(guards, found, strict=True):
                    if decision.holds is not None and guard.id in said:
                        assert decision.holds == (said[guard.id] == ""), (guard.text, decision, said[guard.id])
                    seen.add((guard.kind, decision.holds))
    for kind in ("tensor", "constant", "shape", "length", "id", "global_state"):
        assert {(kind, True), (kind, False)} <= seen, f"no call holds and breaks a guard of kind {kind}: {seen}"


def other_kind(source: Source, call: dict[str, Any], base: dict[str, Any]) -> bool:
    while not isinstance(source, (Local, Global, Known)):
        source = source.base
    return isinstance(source, Local) and type(call[source.variable]) is not type(base[source.variable])


def test_what_is_one_object_is_described() -> None:
    def add_in_place(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    fn, captures = compiled(add_in_place)
    a, b = torch.ones(3), torch.ones(3)
    fn(a, b)
    fn(b, b)
    for linked, apart in zip(captures.linked, (True, False), strict=True):
        for same_as in ("", "L['x']"):
            given = [described("L['x']", a), described("L['y']", a, same_as=same_as)]
            refused = [d for d in decide([guard_data(each, 0) for each in linked.guards], given) if d.holds is False]
            assert bool(refused) == (apart == bool(same_as))
    assert refused == [] and captures.made[1].given[1].same_as == "L['x']"


def test_global_state_is_described() -> None:
    (compile,) = explorer.explore(torch.relu, time=False)(torch.ones(3)).data.compiles
    for state, holds in ((global_state(), True), (msgspec.structs.replace(global_state(), threads=99), False)):
        (decision,) = decide([g for g in compile.guards if g.property == "global_state"], (), state)
        assert decision.holds is holds
    assert decision.how.startswith("number of threads is 99, expected ")


def test_what_is_not_described_is_not_decided() -> None:
    (compile,) = explorer.explore(lambda x: x + 1, time=False)(torch.ones(3)).data.compiles
    assert {d.holds for d in decide(compile.guards, ())} == {None}
    odd = InputData("L['x']", "tensor", type="torch.Tensor", tensor=TensorFactsData("float32", "cpu", (3,), None))
    tensor = next(d for d in decide(compile.guards, [odd]) if d.guard.property == "tensor")
    assert tensor.holds, "no strides are given: none are compared"


@dataclass
class Options:
    scale: float = 2.0
    tags: dict[str, int] = field(default_factory=dict)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.options = Options()

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x) * self.options.scale
        return y if self.training and not self.options.tags else y.relu()


def test_a_compile_says_what_it_was_given() -> None:
    record = explorer.explore(Net(), time=False)(torch.ones(2, 3))
    compile = record.data.compiles[-1]
    given = {each.source: each for each in compile.inputs}
    tensors = [each for each in compile.inputs if each.name]
    assert {each.tensor.sizes for each in tensors if each.tensor} == {(2, 3), (3, 3), (3,)}
    assert {each.role for each in tensors} == {"argument", "reached"}
    training = next(each for source, each in given.items() if source.endswith(".training"))
    assert (training.kind, training.constant) == ("bool", constant(True))
    state = next(guard.state for guard in compile.guards if guard.state is not None)
    assert all(d.holds is not False for d in decide(compile.guards, compile.inputs, state))
    off = [msgspec.structs.replace(e, constant=constant(False)) if e is training else e for e in compile.inputs]
    (refused,) = [d for d in decide(compile.guards, off, state) if d.holds is False]
    assert refused.guard.source == training.source and refused.how == "is False, expected True"


def test_recompiles_name_each_guard_that_refused() -> None:
    def scale(x: Tensor, k: int, options: Options) -> Tensor:
        return x * k * options.scale

    def calls(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        inner = explorer.compile(scale)
        return inner(x, 2, Options()), inner(y, 2, Options()), inner(x, 2, Options(3.0))

    recorder = Recorder()
    with recording(recorder):
        calls(torch.ones(3, 4), torch.ones(3, 4, dtype=torch.float64))
    found: list[CompileData] = [exported(run) for run in recorder.compiles if run.id != "process"]
    assert [[(r.of, r.expression, r.why) for r in each.recompiles] for each in found] == [
        [],
        [("f0", "L['x']: f32[3, 4] strides (4, 1) on cpu", "dtype is float64, expected float32")],
        [
            ("f0", "L['options'].scale == 2.0", "is 3.0, expected 2.0"),
            ("f0.1", "L['x']: f64[3, 4] strides (4, 1) on cpu", "dtype is float32, expected float64"),
            ("f0.1", "L['options'].scale == 2.0", "is 3.0, expected 2.0"),
        ],
    ]
    first = {guard.id for guard in found[0].guards}
    assert {r.guard for r in found[2].recompiles if r.of == "f0"} <= first


def leaf(op: str, value: float = 0, source: str = "") -> ExpressionData:
    return ExpressionData(op, value=value, source=source)


def relation(shape: ExpressionData) -> Decision:
    (decision,) = decide([GuardData("g", "", "shape", "holds", "", "", "", shape=shape)], ())
    return decision


@pytest.mark.parametrize(
    ("op", "numbers", "expected"),
    [
        ("+", (1, 2, 3), 6), ("*", (2, 3, 4), 24), ("-", (5,), -5), ("/", (1, 4), 0.25), ("//", (-7, 2), -4),
        ("%", (-7, 3), 2), ("%", (7, -3), -2), ("**", (2, 10), 1024), ("min", (3, 1, 2), 1), ("max", (3, 1), 3),
        ("abs", (-3,), 3), ("floor", (-1.5,), -2), ("ceil", (-1.5,), -1), ("<", (1, 2), True), (">=", (1, 2), False),
        ("==", (2, 2), True), ("!=", (2, 2), False),
    ],
)  # fmt: skip
def test_the_grammar(op: str, numbers: tuple[float, ...], expected: float) -> None:
    made = ExpressionData(op, tuple(leaf("number", n) for n in numbers))
    shape = made if isinstance(expected, bool) else ExpressionData("==", (made, leaf("number", expected)))
    assert relation(shape).holds is (expected if isinstance(expected, bool) else True)


def test_one_part_may_decide_it() -> None:
    true = ExpressionData("==", (leaf("number", 1), leaf("number", 1)))
    unknown = ExpressionData("==", (leaf("size", 0, "L['y']"), leaf("number", 1)))
    assert relation(ExpressionData("or", (unknown, true))).holds is True
    assert relation(ExpressionData("and", (unknown, ExpressionData("not", (true,))))).holds is False
    assert relation(ExpressionData("if", (true, true, unknown))).holds is True
    by_zero = ExpressionData("//", (leaf("number", 1), leaf("number", 0)))
    for shape, why in (
        (ExpressionData("and", (unknown, true)), "L['y'].size(0) is not described"),
        (by_zero, "it divides by zero"),
        (ExpressionData("?", text="Rounded(s0)"), "this page cannot compute Rounded(s0)"),
    ):
        assert (relation(shape).holds, relation(shape).how) == (None, why)


def test_relations_on_sizes_are_trees() -> None:
    def shaped(x: Tensor, n: int) -> Tensor:
        if x.shape[0] % 3 == 0 and x.shape[0] * 2 + n > 10:
            return x[: x.shape[0] // 2].reshape(-1)
        return x

    fn, captures = compiled(shaped, dynamic=True)
    fn(torch.ones(6, 4), 3)
    guards = [guard for guard in (guard_data(each, 0) for each in captures.linked[0].guards) if guard.shape is not None]
    live = [g.condition for g in captures.linked[0].guards if isinstance(g.condition, ShapeHolds)]
    for rows in range(2, 14):
        for n in (3, 0, -9):
            given = [described("L['x']", torch.ones(rows, 4)), described("L['n']", n)]
            values = {"L['x'].size(0)": rows, "L['x'].size(1)": 4, "L['x'].stride(0)": 4, "L['n']": n}
            for relation, decision in zip(live, decide(guards, given), strict=True):
                assert decision.holds == relation.function(*(values[source.name] for source in relation.sources))
