"""Breaks, continuations and fallbacks: the program goes on as in eager, and the reasons are named."""

from __future__ import annotations

import collections
import contextlib
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from capturing import compiled
from explorer.compiler.capture import FullGraphError
from explorer.core.recorder import Recorder, recording
from explorer.ir.capture import CompilerBug, FrameSkipped, GuardFailed, Inlined, Restarted


def test_break_names_place_reason_and_continuation() -> None:
    def f(x):
        y = x * 2
        n = y.sum().item()
        return y * n

    fn, captures = compiled(f)
    x = torch.randn(3)
    torch.testing.assert_close(fn(x), f(x))
    (found,) = captures.made[0].breaks
    assert found.code == "break.item"
    assert found.where is not None and found.where.line == f.__code__.co_firstlineno + 2
    assert found.continuation == captures.made[1].code.qualname
    assert found.hint
    assert "item" in found.text
    assert captures.made[1].code.instructions[-1].id.startswith(captures.made[0].name + "@")


def test_both_ways_of_a_data_dependent_branch() -> None:
    def f(x):
        if x.sum() > 0:
            y = x.sin()
        else:
            y = x.cos()
        return y * 2

    fn, captures = compiled(f)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        assert torch.equal(fn(x), f(x))
    assert captures.breaks == ["break.data_dependent_branch"]
    assert len(captures.made) == 3


def inner(x):
    y = x + 1
    print("inner")
    return y * 3


def outer(x):
    y = x.sin()
    z = inner(y)
    return z.cos()


def test_break_in_an_inlined_call_runs_it_for_real(capsys: pytest.CaptureFixture[str]) -> None:
    fn, captures = compiled(outer)
    x = torch.randn(3)
    assert torch.equal(fn(x), outer(x))
    assert capsys.readouterr().out == "inner\n" * 2
    assert len(captures.graphs) == 4  # before the call, the callee's two halves, after it
    (place,) = captures.places
    assert place.line == inner.__code__.co_firstlineno + 2
    assert captures.made[0].breaks[0].stack[-1].endswith("in inner")


def test_effects_before_an_inlined_break_happen_once() -> None:
    log: list[Any] = []

    def noisy(x):
        log.append("before")
        print("now")
        log.append("after")
        return x + 1

    def f(x):
        log.append("start")
        y = noisy(x * 2)
        log.append("end")
        return y

    fn, _ = compiled(f)
    x = torch.ones(2)
    with contextlib.redirect_stdout(None):
        assert torch.equal(fn(x), x * 2 + 1)
    assert log == ["start", "before", "after", "end"]


def test_break_under_no_grad_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        with torch.no_grad():
            a = x * 2
            print(torch.is_grad_enabled())
            b = a + x
        return b, x * 3, torch.is_grad_enabled()

    fn, captures = compiled(f)
    x = torch.randn(3, requires_grad=True)
    b, c, enabled = fn(x)
    assert not b.requires_grad and c.requires_grad and enabled
    assert torch.is_grad_enabled()
    assert capsys.readouterr().out == "False\n"
    assert captures.fallbacks == []


def test_exception_under_no_grad_restores_the_mode() -> None:
    def f(x):
        with torch.no_grad():
            y = x * 2
            print(y.does_not_exist)
        return y

    fn, _ = compiled(f)
    with pytest.raises(AttributeError, match="does_not_exist"):
        fn(torch.ones(2))
    assert torch.is_grad_enabled()


def test_break_under_a_users_context_manager(capsys: pytest.CaptureFixture[str]) -> None:
    class Manager:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")
            return 3

        def __exit__(self, *error):
            self.log.append("exit")

    def f(x, log):
        with Manager(log) as n:
            x = x * n
            print("in")
            x = x + 1
        log.append("done")
        return x

    fn, _ = compiled(f)
    mine: list[str] = []
    assert torch.equal(fn(torch.ones(2), mine), torch.full((2,), 4.0))
    assert mine == ["enter", "exit", "done"]


def test_break_inside_a_suspended_generator_runs_eagerly() -> None:
    @contextlib.contextmanager
    def managed(log):
        log.append("enter")
        yield 2
        log.append("exit")

    def f(x, log):
        with managed(log) as n:
            x = x * n
            print(end="")
            x = x + 1
        return x

    fn, captures = compiled(f)
    log: list[str] = []
    assert torch.equal(fn(torch.ones(2), log), torch.full((2,), 3.0))
    assert log == ["enter", "exit"]
    assert "break.generator" in captures.fallbacks


def test_try_except_finally_around_a_break(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x, bad):
        try:
            x = x + 1
            print("trying")
            if bad:
                raise ValueError("bad")
            x = x * 2
        except ValueError as error:
            x = x - len(str(error))
        finally:
            x = x * 10
        return x

    fn, captures = compiled(f)
    for bad in (False, True):
        assert torch.equal(fn(torch.ones(2), bad), f(torch.ones(2), bad))
    assert captures.fallbacks == []


def fails(values):
    return values["missing"]


def test_exceptions_keep_type_message_and_lines() -> None:
    def f(x, values):
        y = x + 1
        return fails(values) * y

    fn, _ = compiled(f)
    for _ in range(2):
        with pytest.raises(KeyError, match="missing") as caught:
            fn(torch.ones(2), {})
        lines = [(entry.name, entry.lineno) for entry in traceback.extract_tb(caught.value.__traceback__)]
        assert lines[-1] == ("fails", fails.__code__.co_firstlineno + 1)
        assert any(line == f.__code__.co_firstlineno + 2 for _, line in lines)


def test_operator_errors_are_eagers_own() -> None:
    def f(x, y):
        z = x * 2
        return z @ y

    fn, captures = compiled(f)
    with pytest.raises(RuntimeError) as mine:
        fn(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(RuntimeError) as theirs:
        f(torch.ones(2, 3), torch.ones(2, 3))
    assert str(mine.value) == str(theirs.value)
    assert "break.operator_raised" in captures.breaks


def by_count(x, n):
    for i in range(n):
        x = x * 0.5
        print(end="")
        x = x + i
    return x


def by_data(x, most):
    while x.sum() < most:
        x = x * 2
    return x


def by_counter(x, n):
    turn = 0
    while turn < n:
        x = x + turn
        print(end="")
        turn += 1
        if turn == n - 1:
            x = -x
    return x


def in_each_other(x, n):
    for i in range(n):
        for j in range(n):
            if j == 2:
                continue
            x = x + i * j
            if x.sum() > 1e4:
                break
        else:
            x = x * 0.5
        print(end="")
    return x


def over_pairs(x, n):
    total = x
    for place, (name, factor) in enumerate(zip("ab" * n, range(n), strict=False)):
        if place == n - 1:
            break
        total = total + factor
        print(name, end="")
    else:
        total = total * 2
    return total


def over_tensors(x, n):
    total = x
    for row in torch.arange(2 * n).view(n, 2):
        total = total + row * total.max().item()
        total = total / total.norm()
    return total


LOOPS = [by_count, by_counter, in_each_other, over_pairs, over_tensors]


@pytest.mark.parametrize("fn", LOOPS, ids=lambda f: f.__name__)
def test_loops_that_break_in_each_turn(fn, capsys):
    """Few compiles for many turns, and no deeper stack for more of them."""
    fn_, captures = compiled(fn)
    x = torch.ones(2)
    for n in (3, 12, 40, 41):
        torch.testing.assert_close(fn_(x, n), fn(x, n))
        out = capsys.readouterr().out
        assert out[: len(out) // 2] == out[len(out) // 2 :]
    assert captures.fallbacks == []
    made = len(captures.made)
    fn_(x, 90)  # range(90) is a constant of the function's own compile
    assert len(captures.made) <= made + 1 < 30


def test_a_loop_on_data() -> None:
    fn, captures = compiled(by_data)
    for start in (1.0, 1e-30, 200.0):
        x = torch.full((2,), start)
        assert torch.equal(fn(x, 100), by_data(x, 100))
    assert captures.fallbacks == [] and len(captures.made) == 3


def test_more_turns_than_the_stack_is_deep() -> None:
    fn, captures = compiled(by_count)
    turns = sys.getrecursionlimit() * 2
    torch.testing.assert_close(fn(torch.ones(2), turns), by_count(torch.ones(2), turns))
    assert captures.fallbacks == []


def test_an_exception_in_a_later_turn() -> None:
    def fails(x, n):
        try:
            for i in range(n):
                x = x + i
                print(end="")
                if i == 20:
                    raise KeyError(i)
        except KeyError as error:
            return x * error.args[0]
        finally:
            x = x + 1
            print(end="")
        return x

    fn, captures = compiled(fails)
    for n in (5, 30):
        assert torch.equal(fn(torch.ones(2), n), fails(torch.ones(2), n))
    assert captures.fallbacks == []


def test_layers_that_break_share_one_compile() -> None:
    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(12))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x).relu()
                print(end="")
            return x

    net = Layers()
    fn, captures = compiled(net)
    x = torch.randn(2, 3)
    torch.testing.assert_close(fn(x), net(x))
    assert captures.fallbacks == [] and len(captures.made) < 8


def test_iterator_over_a_list_that_grows() -> None:
    def f(x, items):
        total = x
        for item in items:
            print(end="")
            total = total + item
            if len(items) < 4:
                items.append(item * 2)
        return total

    fn, _ = compiled(f)
    mine, theirs = [torch.ones(2)], [torch.ones(2)]
    assert torch.equal(fn(torch.zeros(2), mine), f(torch.zeros(2), theirs))
    assert len(mine) == len(theirs) == 4


class Base:
    def run(self, x):
        return x + 1


class Derived(Base):
    def run(self, x):
        x = x * 2
        print(end="")
        return super().run(x)


def test_super_after_a_break() -> None:
    fn, captures = compiled(Derived().run)
    assert torch.equal(fn(torch.ones(2)), torch.full((2,), 3.0))
    assert captures.breaks == ["break.print"]
    assert captures.fallbacks == []


def test_fullgraph_names_place_and_reason() -> None:
    fn, _ = compiled(outer, fullgraph=True)
    with pytest.raises(FullGraphError, match="print") as caught:
        fn(torch.ones(2))
    assert f"{__file__}:{inner.__code__.co_firstlineno + 2}" in str(caught.value)


def test_fullgraph_lets_the_programs_own_exceptions_through() -> None:
    def f(x):
        raise ValueError("mine")

    fn, _ = compiled(f, fullgraph=True)
    with pytest.raises(ValueError, match="mine"):
        fn(torch.ones(2))


def test_recompile_limit() -> None:
    def f(x, name):
        return x * len(name)

    fn, captures = compiled(f, recompile_limit=3)
    recorder = Recorder()
    with recording(recorder):
        for n in range(6):
            assert torch.equal(fn(torch.ones(2), "n" * n), torch.full((2,), float(n)))
    assert len(captures.made) == 3
    events = [event for run in recorder.compiles for event in run.events]
    assert [e.why.code for e in events if isinstance(e, FrameSkipped)] == ["frame.recompile_limit"]
    failed = [(e.of, e.expression, e.how) for e in events if isinstance(e, GuardFailed)]
    assert failed == [
        ("f0", "L['name'] == ''", "is 'n', expected ''"),
        ("f0", "L['name'] == ''", "is 'nn', expected ''"),
        ("f0.1", "L['name'] == 'n'", "is 'nn', expected 'n'"),
    ]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("[1]", "v.append(v)"),
        ("{}", "v['v'] = v"),
        ("collections.OrderedDict()", "v['v'] = v"),
        ("collections.deque()", "v.append((v, 1))"),
        ("collections.defaultdict(list)", "v['a'].append(v)"),
        ("types.SimpleNamespace()", "v.me = [v]; v.me.append(v.me)"),
        ("[1]", "v.append(lambda: v)"),
    ],
)
def test_what_a_call_makes_may_hold_itself(first: str, then: str) -> None:
    space: dict[str, Any] = {"collections": collections, "types": types}
    exec(f"def body(x):\n v = {first}\n {then}\n return x + 1, v", space)
    recorder = Recorder()
    with recording(recorder):
        found, held = explorer.compile(space["body"])(torch.ones(2))
    assert found.tolist() == [2, 2] and type(held) is type(space["body"](torch.ones(2))[1])
    assert repr(held).count("...") == repr(space["body"](torch.ones(2))[1]).count("...")
    assert not [event for run in recorder.compiles for event in run.events if isinstance(event, CompilerBug)]


def test_compiler_bug_runs_eagerly() -> None:
    from explorer.compiler.capture import optimize
    from explorer.compiler.config import Config

    def broken(frame, config):
        raise ZeroDivisionError("inside the compiler")

    def f(x):
        return x + 1

    fn = optimize(f, Config(), broken)
    recorder = Recorder()
    with recording(recorder):
        assert torch.equal(fn(torch.ones(2)), torch.full((2,), 2.0))
        assert torch.equal(fn(torch.ones(2)), torch.full((2,), 2.0))
    bugs = [event for run in recorder.compiles for event in run.events if isinstance(event, CompilerBug)]
    assert len(bugs) == 1 and "ZeroDivisionError" in bugs[0].traceback


def test_generators_and_coroutines_run_as_they_are() -> None:
    def numbers(x):
        yield x + 1
        yield x + 2

    fn, captures = compiled(numbers)
    assert [v.item() for v in fn(torch.zeros(()))] == [1, 2]
    assert captures.graphs == []


def test_events() -> None:
    fn, _ = compiled(outer)
    recorder = Recorder()
    with recording(recorder), contextlib.redirect_stdout(None):
        fn(torch.ones(2))
    events = [event for run in recorder.compiles for event in run.events]
    assert any(isinstance(e, Inlined) and e.function == "inner" for e in events)
    assert any(isinstance(e, Restarted) and e.why.code == "break.print" for e in events)
    steps = [e for e in events if type(e).__name__ == "EvaluatorSteps"]
    assert steps and steps[0].instructions[0].startswith("f")


def test_modules_called_for_real_after_a_break_are_captured() -> None:
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            print(end="")
            return self.linear(x).relu()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Noisy(), Noisy()])

        def forward(self, x):
            for block in self.blocks:
                x = block(x) + 1
            return x

    net = Net()
    fn, captures = compiled(net)
    x = torch.randn(3, 2)
    for _ in range(2):
        torch.testing.assert_close(fn(x), net(x))
    assert captures.fallbacks == []
    assert sum("linear" in name for n in range(len(captures.graphs)) for name in captures.ops(n)) >= 1


def _view_by_name() -> torch.Tensor:
    made = torch.zeros(2, 3, dtype=torch.uint8).reshape(3, 2)
    made.data = torch.ones(4, 3)
    return made


REFUSED_BY_TORCH: dict[str, tuple[Callable[..., object], Callable[[], torch.Tensor]]] = {
    "a setting of None": (lambda x: torch.set_grad_enabled(None), lambda: torch.ones(3)),
    "a number too large": (lambda x: x.long() < 2**70, lambda: torch.ones(3)),
    "a size divided by 0": (lambda x: x.view(x.shape[0] % (x.shape[0] - x.shape[0])), lambda: torch.ones(3)),
    "a view by name alone": (lambda x: x * 2, _view_by_name),
    "an inference tensor with grad": (lambda x: x * 2, lambda: _inference(torch.ones, 3, requires_grad=True)),
}


def _inference(make: Callable[..., torch.Tensor], *args: object, **kwargs: object) -> torch.Tensor:
    with torch.inference_mode():
        return make(*args, **kwargs)


@pytest.mark.parametrize("name", REFUSED_BY_TORCH)
def test_what_torch_refuses_is_no_error_inside_the_compiler(name: str) -> None:
    function, make = REFUSED_BY_TORCH[name]

    def outcome(call: Callable[..., object]) -> str:
        try:
            return str(call(make()))
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    bugs = explorer.counters().get("compiler bugs", 0)
    compiled = explorer.compile(function, dynamic=True)
    assert [outcome(compiled), outcome(compiled)] == [outcome(function)] * 2
    assert explorer.counters().get("compiler bugs", 0) == bugs
