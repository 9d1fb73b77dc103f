"""Guards: what they say, when they fail, and that the structured ones agree with the C++ ones."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from capturing import compiled
from explorer.compiler.capture.guards import Checks, Has, IsEmpty, KeysAre, LengthIs, ShapeHolds
from explorer.core.recorder import Recorder, recording
from explorer.ir.capture import ByCompiler, Guard
from explorer.ir.description import described, global_state
from explorer.records.to_record.capture import guard_data
from guard_decisions import Decision, decide


def scale(x, factor, flag=True):
    return x * factor if flag else x + factor


def refused(guards: Iterable[Guard], **values: Any) -> list[Decision]:
    """The guards that a call with these arguments, described, breaks."""
    given = [described(f"L[{name!r}]", value) for name, value in values.items()]
    return [d for d in decide([guard_data(each, 0) for each in guards], given, global_state()) if d.holds is False]


def test_every_broken_guard_is_listed() -> None:
    fn, captures = compiled(scale)
    fn(torch.randn(3, 4), 2.0)
    guards = captures.linked[0].guards
    assert refused(guards, x=torch.randn(3, 4), factor=2.0, flag=True) == []
    broken = refused(guards, x=torch.randn(3, 5, dtype=torch.float64, requires_grad=True), factor=3.0, flag=False)
    assert [d.how for d in broken] == [
        "is False, expected True",
        "dtype is float64, expected float32, requires_grad is True, expected False, size(1) is 5, expected 4",
        "is 3.0, expected 2.0",
    ]


CHANGES = {
    "size": {"x": torch.randn(3, 5)},
    "dtype": {"x": torch.randn(3, 4, dtype=torch.float64)},
    "strides": {"x": torch.randn(4, 3).t()},
    "requires grad": {"x": torch.randn(3, 4, requires_grad=True)},
    "parameter": {"x": nn.Parameter(torch.randn(3, 4))},
    "rank": {"x": torch.randn(3)},
    "no tensor": {"x": 3},
    "value": {"factor": 3.0},
    "int for float": {"factor": 2},
    "tensor for float": {"factor": torch.tensor(2.0)},
    "flag": {"flag": False},
    "int for flag": {"flag": 1},
    "nothing": {},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_descriptions_agree_with_the_real_checks(change: dict[str, Any]) -> None:
    fn, captures = compiled(scale)
    base = {"x": torch.randn(3, 4), "factor": 2.0, "flag": True}
    fn(**base)
    manager, guards = captures.linked[0].manager, captures.linked[0].guards
    given = base | change
    assert (refused(guards, **given) == []) == manager.check(given)
    assert manager.check(given) == (not change)
    assert bool(manager.failure(given)) == bool(change)


def test_shape_relations_are_checked_on_descriptions() -> None:
    def add(x, y):
        return x + y[: x.shape[0]]

    fn, captures = compiled(add, dynamic=True)
    fn(torch.randn(5), torch.randn(8))
    guards = captures.linked[0].guards
    assert refused(guards, x=torch.randn(6), y=torch.randn(9)) == []
    broken = refused(guards, x=torch.randn(1), y=torch.randn(9))
    assert broken and all(d.guard.property == "shape" for d in broken)
    assert broken[0].how == "with L['x'].size(0) = 1"


def test_guards_name_what_caused_them() -> None:
    fn, captures = compiled(scale)
    fn(torch.randn(3), 2.0)
    *read, state = captures.linked[0].guards
    assert (state.kind, state.cause) == ("global_state", ByCompiler("every capture"))
    for guard in read:
        (cause,) = guard.cause.ids
        assert cause.startswith("f") and "@" in cause
        assert guard.cause.span is not None and guard.cause.span.file == __file__


def test_only_what_is_read_is_guarded() -> None:
    def first(x, options):
        return x * options["scale"]

    fn, captures = compiled(first)
    x = torch.randn(3)
    options = {"scale": 2.0, "other": 1}
    fn(x, options)
    fn(x, {"scale": 2.0, "other": 2, "more": 3})
    assert len(captures.made) == 1
    fn(x, {"scale": 3.0})
    assert len(captures.made) == 2


def test_global_state_is_guarded() -> None:
    fn, captures = compiled(scale)
    x = torch.randn(3)
    fn(x, 2.0)
    with torch.no_grad():
        fn(x, 2.0)
    assert len(captures.made) == 2
    fn(x, 2.0)
    with torch.no_grad():
        fn(x, 2.0)
    assert len(captures.made) == 2


FACTOR = 2.0


def reads_global(x):
    return x * FACTOR


def test_globals_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    fn, captures = compiled(reads_global)
    x = torch.randn(3)
    assert torch.equal(fn(x), x * 2)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert torch.equal(fn(x), x * 5)
    assert len(captures.made) == 2


def helper(x):
    return x + 1


def calls_helper(x):
    return helper(x)


def test_replaced_functions_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fn, captures = compiled(calls_helper)
    x = torch.randn(3)
    assert torch.equal(fn(x), x + 1)
    monkeypatch.setitem(globals(), "helper", lambda x: x - 1)
    assert torch.equal(fn(x), x - 1)
    assert len(captures.made) == 2


class Net(nn.Module):
    rate = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.gain = 1.0

    def forward(self, x):
        return self.scale(self.linear(x)) * self.gain

    def scale(self, x):
        return x * self.rate if self.training else x


def test_module_changes_are_noticed() -> None:
    net = Net()
    fn, captures = compiled(net)
    x = torch.randn(2, 3)

    def check(compiles: int) -> None:
        torch.testing.assert_close(fn(x), net(x))
        assert len(captures.made) == compiles

    check(1)
    check(1)
    net.gain = 3.0
    check(2)
    net.eval()
    check(3)
    net.train()
    check(3)
    net.linear = nn.Linear(3, 3, bias=False)
    check(4)
    net.linear.weight.data.mul_(2)
    check(4)
    net.linear.weight = nn.Parameter(torch.randn(3, 3))
    check(4)
    net.scale = lambda x: x * 7
    check(5)
    del net.scale
    net.linear.register_forward_hook(lambda module, args, out: out + 1)
    check(6)
    Net.rate = 4.0
    try:
        check(7)
    finally:
        Net.rate = 2.0


def test_replaced_methods_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    fn, captures = compiled(net)
    x = torch.randn(2, 3)
    fn(x)
    monkeypatch.setattr(Net, "scale", lambda self, x: x - 1)
    torch.testing.assert_close(fn(x), net(x))
    assert len(captures.made) == 2


def test_aliased_inputs_compile_separately() -> None:
    def add_in_place(x, y):
        x.add_(1)
        return x * y

    fn, captures = compiled(add_in_place)
    a, b = torch.ones(3), torch.ones(3)
    assert torch.equal(fn(a, b), torch.full((3,), 2.0))
    c = torch.ones(3)
    assert torch.equal(fn(c, c), torch.full((3,), 4.0))
    assert len(captures.made) == 2
    d = torch.ones(3)
    assert torch.equal(fn(d, d), torch.full((3,), 4.0))
    assert len(captures.made) == 2


def test_same_list_twice_is_noticed() -> None:
    def append(a, b, x):
        a.append(x)
        return x * len(b)

    fn, captures = compiled(append)
    x = torch.ones(2)
    shared: list[Any] = []
    assert torch.equal(fn(shared, shared, x), x)
    first, second = [], []
    assert torch.equal(fn(first, second, x), x * 0)
    assert len(captures.made) == 2


def test_sizes_become_dynamic_once_they_change() -> None:
    def total(x):
        return x.sum(0) * x.shape[0]

    fn, captures = compiled(total)
    for n in (4, 5, 6, 7, 1, 0):
        x = torch.randn(n, 3)
        torch.testing.assert_close(fn(x), total(x))
    assert len(captures.made) == 4  # 4; any; 1; 0
    symbols = captures.made[1].symbols
    assert [(s.source.name, s.hint, s.lower) for s in symbols] == [("L['x'].size(0)", 5, 2)]
    assert "change" in symbols[0].why
    assert captures.made[2].specialized or not captures.made[2].symbols


def test_integers_become_dynamic_once_they_change() -> None:
    def pad(x, n):
        return torch.cat([x, x.new_zeros(n)])

    fn, captures = compiled(pad)
    x = torch.randn(3)
    for n in (2, 5, 6, 9, 11):
        assert torch.equal(fn(x, n), pad(x, n))
    assert len(captures.made) == 2


def test_dynamic_false_compiles_each_size() -> None:
    fn, captures = compiled(scale, dynamic=False)
    for n in (2, 3, 4):
        fn(torch.randn(n), 2.0)
    assert len(captures.made) == 3
    assert all(not capture.symbols for capture in captures.made)


def test_equal_sizes_share_a_symbol_and_are_guarded() -> None:
    def add(x, y):
        return x + y

    fn, captures = compiled(add, dynamic=True)
    fn(torch.randn(4), torch.randn(4))
    fn(torch.randn(6), torch.randn(6))
    assert len(captures.made) == 1
    assert [g.why for g in captures.made[0].guards].count("sizes that were equal share a symbol") == 1
    with pytest.raises(RuntimeError, match="must match"):
        fn(torch.randn(4), torch.randn(6))


@pytest.mark.parametrize(
    "asked", [lambda n: n == 6, lambda n: n * 2 == 12, lambda n: 6 == n, lambda n: n > 3, lambda n: n - 6 == 0]
)
def test_one_size_is_not_reported_to_equal_another(asked: Callable[[int], bool]) -> None:
    fn, captures = compiled(lambda x: x.sum() if asked(x.shape[0]) else x, dynamic=True)
    fn(torch.randn(6))
    shapes = [(g.condition, g.why) for g in captures.made[0].guards if isinstance(g.condition, ShapeHolds)]
    found = [(condition.expression, why) for condition, why in shapes]
    assert found and len(dict(found)) == len(found)
    assert not [why for _, why in found if "share a symbol" in why]
    fn(torch.randn(2))
    assert len(captures.made) == 2


@dataclasses.dataclass
class Options:
    scale: float = 2.0
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


def test_objects_are_guarded_by_what_is_read() -> None:
    def apply(x, options):
        return x * options.scale if "skip" not in options.extra else x

    fn, captures = compiled(apply)
    x = torch.randn(3)
    assert torch.equal(fn(x, Options()), x * 2)
    assert torch.equal(fn(x, Options(extra={"other": 1})), x * 2)
    assert len(captures.made) == 1
    assert torch.equal(fn(x, Options(extra={"skip": 1})), x)
    assert torch.equal(fn(x, Options(scale=3.0)), x * 3)
    assert len(captures.made) == 3


def test_nan_constant() -> None:
    fn, captures = compiled(scale)
    fn(torch.ones(2), float("nan"))
    fn(torch.ones(2), float("nan"))
    assert len(captures.made) == 1


def test_text() -> None:
    fn, captures = compiled(scale)
    fn(torch.randn(3), 2.0)
    text = str(captures.made[0].text())
    assert "L['x']: f32[3]" in text and "L['factor'] == 2.0" in text
    assert "guards" in str(captures.linked[0].text())


UNREAD = {
    "returned": lambda x, k: (x + 1, k),
    "held": lambda x, k: (x + 1, [k], {"k": k}, (k, k)),
    "passed": lambda x, k: ((lambda a, unused: a + 1)(x, k), k),
    "is a tensor": lambda x, k: (x + 1, torch.is_tensor(k), k is x),
    "closed over": lambda x, k: (x + 1, (lambda: k)()),
    "attribute": lambda x, k: (setattr(x, "kept", k), x.kept),
}
READ = {
    "text": lambda x, k: (x + 1, f"{k}"),
    "truth": lambda x, k: x + 1 if k else x,
    "key": lambda x, k: (x + 1, {2: 5}.get(k if isinstance(k, (int, str, float)) else 0)),
    "type": lambda x, k: (x + 1, type(k), hasattr(k, "shape"), callable(k)),
    "equal": lambda x, k: (x + 1, not isinstance(k, torch.Tensor) and k == 2),
    "length": lambda x, k: (x + 1, len(k) if isinstance(k, (list, str)) else 0),
    "items": lambda x, k: (x + 1, [*k] if isinstance(k, list) else 0),
    "identity": lambda x, k: (x + 1, k is None, k is True),
}
GIVEN = (
    2, 3, 2.5, 3.5, True, False, None, "a", "b", torch.ones(1), [1], [1, 2], [], 1j, torch.float32, range(3), range(2),
)  # fmt: skip


@pytest.mark.parametrize("name", [*UNREAD, *READ])
def test_any_kind_after_any(name: str) -> None:
    """Whatever comes in the place of another value, results are eager's."""
    function = {**UNREAD, **READ}[name]
    for given in (GIVEN, GIVEN[::-1]):
        fn, _ = compiled(function, recompile_limit=40)
        for each in given:
            assert repr(fn(torch.ones(2), each)) == repr(function(torch.ones(2), each))


@pytest.mark.parametrize("name", UNREAD)
@pytest.mark.parametrize("values", [(2, 3, 4), (0.5, 1.5), ("a", "b"), ([1], [1, 2], [])], ids=str)
def test_what_is_not_read_does_not_compile_again(name: str, values: tuple[Any, ...]) -> None:
    fn, captures = compiled(UNREAD[name])
    for value in values:
        assert repr(fn(torch.ones(2), value)) == repr(UNREAD[name](torch.ones(2), value))
    assert len(captures.made) == 1


def test_longest_a_deque_can_be() -> None:
    def push(x, items):
        items.append(1)
        return x + len(items), items

    fn, _ = compiled(push)
    for longest in (2, None, 3, 2):
        mine, eager = (collections.deque([1, 2], longest) for _ in range(2))
        assert repr(fn(torch.ones(2), mine)) == repr(push(torch.ones(2), eager))


BOUNDS = ["> 2", ">= 3", "> 4", "< 9", "<= 8", "< 7"]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(BOUNDS, 2)))
def test_a_bound_that_another_implies_says_so(first: str, second: str) -> None:
    given: dict[str, Any] = {}
    exec(f"def asked(x):\n    return x + 1 if x.shape[0] {first} and x.shape[0] {second} else x\n", given)
    fn, captures = compiled(given["asked"], dynamic=True)
    fn(torch.ones(6))
    holds = {
        each: {size for size in range(2, 20) if each.condition.function(size)}
        for each in captures.linked[0].guards if isinstance(each.condition, ShapeHolds)
    }  # fmt: skip
    implied = [each for each in holds if "imply it" in each.why]
    left = set.intersection(set(range(2, 20)), *(holds[each] for each in holds if each not in implied))
    assert all(left <= holds[each] for each in implied)
    asked = [each for each in holds if each.why.startswith("it was needed")]
    others = {each: [holds[other] for other in asked if other is not each] for each in asked}
    assert [each for each in asked if each in implied] == [
        each for each in asked if any(other < holds[each] for other in others[each])
    ]


@pytest.mark.parametrize("keys", [("a", "b"), ("a", 2), (True,), ()])
def test_a_guard_on_a_key_that_the_guard_on_all_keys_implies_says_so(keys: tuple[Any, ...]) -> None:
    all_keys = KeysAre(keys)
    for name in ("a", "c", 1, 2.0, True):
        for present in (True, False):
            assert all_keys.imply(Has(name, present, "key")) == ((name in keys) == present)
            assert not all_keys.imply(Has(name, present, "attribute"))
    assert [all_keys.imply(LengthIs(length)) for length in range(3)] == [length == len(keys) for length in range(3)]
    assert all_keys.imply(IsEmpty()) == (not keys) and not all_keys.imply(Has(object(), False, "key"))

    def summed(x, given):
        if "a" in given:
            x = x + 1
        for value in given.values():
            x = x + value
        return x

    fn, captures = compiled(summed)
    fn(torch.ones(2), dict.fromkeys(keys, 1))
    asked = [each for each in captures.linked[0].guards if getattr(each.condition, "name", "") == "a"]
    assert asked and all(each.why.endswith("the guard on all its keys implies it") for each in asked)


class Key(str):
    """Equal to a plain string, and another object."""


KEYS = tuple(f"layer {n}" for n in range(100))
DICTIONARIES = {
    "the same": (dict.fromkeys(KEYS), True),
    "equal keys": (dict.fromkeys(key[:1] + key[1:] for key in KEYS), True),
    "keys of another class": (dict.fromkeys(map(Key, KEYS)), False),
    "ordered": (collections.OrderedDict.fromkeys(KEYS), True),
    "another order": (dict.fromkeys(reversed(KEYS)), False),
    "one less": (dict.fromkeys(KEYS[1:]), False),
    "one more": (dict.fromkeys((*KEYS, "other")), False),
    "another": (dict.fromkeys((*KEYS[:-1], "other")), False),
    "none": ({}, False),
}


@pytest.mark.parametrize("held", DICTIONARIES.values(), ids=DICTIONARIES)
def test_a_check_of_keys_and_its_text_agree(held: tuple[dict[str, None], bool]) -> None:
    def read(x, layers):
        return x + len(list(layers))

    fn, captures = compiled(read)
    x = torch.ones(2)
    fn(x, dict.fromkeys(KEYS))
    manager = captures.linked[0].manager
    given, holds = held
    assert manager.check({"x": x, "layers": given}) == (holds and type(given) is dict)
    assert (not KeysAre(KEYS).difference(given)) == holds


def test_a_check_of_keys_makes_no_call_for_each() -> None:
    given = dict.fromkeys(KEYS)
    calls: list[Any] = []
    asked = KeysAre(KEYS)

    class Installs:
        build = types.SimpleNamespace(check=lambda manager, function, text: calls.append(function))
        manager = staticmethod(lambda source: None)

    asked.install(Installs(), None, "")  # type: ignore[arg-type]
    check, frames = calls.pop(), []
    sys.setprofile(lambda frame, event, arg: frames.append(frame.f_code) if event == "call" else None)
    try:
        assert check(given)
    finally:
        sys.setprofile(None)
    assert len(frames) == 1


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


HOOKS: dict[str, Callable[[nn.Module], Any]] = {
    "_forward_hooks": lambda module: module.register_forward_hook(lambda module, args, out: out + 1),
    "_forward_pre_hooks": lambda module: module.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "_backward_hooks": lambda module: module.register_full_backward_hook(lambda module, given, out: (given[0] * 2,)),
    "_backward_pre_hooks": lambda module: module.register_full_backward_pre_hook(lambda module, out: (out[0] * 2,)),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_of_any_kind_is_noticed(kind: str) -> None:
    net = Stack()
    fn, captures = compiled(net)
    x = torch.randn(2, 3, requires_grad=True)
    fn(x)
    manager, given = captures.linked[0].manager, {"self": net, "x": x}
    assert manager.check(given)
    HOOKS[kind](net.layers[3])
    assert not manager.check(given)
    assert f"not L['self']._modules['layers']._modules['3'].{kind}" in manager.failure(given)
    torch.testing.assert_close(fn(x), net(x))
    ours, eager = (torch.autograd.grad(call(x).sum(), x)[0] for call in (fn, net))
    torch.testing.assert_close(ours, eager)
    getattr(net.layers[3], kind).clear()
    assert manager.check(given)
    delattr(net.layers[3], kind)
    assert not manager.check(given)


def test_whether_a_module_has_hooks_is_one_check() -> None:
    net = Stack()
    fn, captures = compiled(net)
    x = torch.randn(2, 3)
    fn(x)
    manager, called = captures.linked[0].manager, []
    sys.setprofile(lambda frame, event, arg: called.append(frame.f_code) if event == "call" else None)
    try:
        assert manager.root.check({"self": net, "x": x})
    finally:
        sys.setprofile(None)
    asks = [code for code in called if set(code.co_consts) >= set(HOOKS)]
    assert len(asks) == len(net.layers) and len(set(map(id, asks))) == 1


def test_checks_are_made_in_the_order_in_which_they_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, ...]] = []
    add = Checks.add

    def noted(self: Checks, guard: Guard) -> None:
        made.append(parts(guard.source))
        add(self, guard)

    def parts(source: Any) -> tuple[str, ...]:
        return (*(parts(source.base) if hasattr(source, "base") else ()), source.name)

    monkeypatch.setattr(Checks, "add", noted)
    fn, captures = compiled(lambda x, nets: [net(x) for _ in range(2) for net in nets])
    fn(torch.randn(2, 3), [Stack(), Stack()])
    assert len(captures.linked) == 1 and len(made) > 50
    for depth in range(1, max(map(len, made))):
        whole = [path[:depth] for path in made if len(path) >= depth]
        assert len(list(itertools.groupby(whole))) == len(set(whole))  # each object's guards, and its parts', together


class Key:
    asked = 0

    def __repr__(self) -> str:
        Key.asked += 1
        return "a key"


@pytest.mark.parametrize("recorded", [False, True])
def test_no_text_of_a_guard_runs_the_programs_code(recorded: bool) -> None:
    keys = Key(), Key()
    by_key = {keys[0]: torch.ones(2), (keys[1], 2): torch.ones(2)}

    def fn(x):
        for each in by_key.values():
            each.mul_(1.5)
        return x + by_key[keys[0]] + (keys[1] in by_key)

    with recording(Recorder()) if recorded else contextlib.nullcontext():
        call = explorer.compile(fn, backend="eager")
        call(torch.ones(2))
        del by_key[keys[1], 2]
        call(torch.ones(2))
    assert Key.asked == 0


def test_a_dictionary_that_is_emptied_may_have_any_keys() -> None:
    def emptied(x: torch.Tensor, table: dict[str, object]) -> object:
        before = table.get("b", 0)
        table.clear()
        table["new"] = x * 2
        return x + 1, len(table), "a" in table, {**table}, before

    fn, captures = compiled(emptied)
    x = torch.ones(2)
    tables: list[dict[str, object]] = [{"a": 1}, {"c": x, "a": 2}, {}, {"b": 2}, collections.OrderedDict(a=1)]
    for count, table in zip((1, 1, 1, 2, 3), tables, strict=True):
        other = table.copy()
        assert str(emptied(x, table)) == str(fn(x, other))
        assert str(table) == str(other) and len(captures.made) == count
