"""What a watched program runs outside of graphs: its time, its operators, and why it was not timed."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

import explorer
from explorer.records.data.calls import CallLog
from explorer.show.record import Record
from explorer.show.view.diagnosis import eager
from watched import X, argument

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@torch.compiler.disable
def slow_in_eager(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.02)
    for _ in range(7):
        x = x + 1
    return x


def between_graphs(x):
    y = slow_in_eager(x.sin())
    return (y.cos() + y).relu()


def left_to_python(x):
    for _ in range(3):
        x = x * 2
        torch._dynamo.graph_break()
        time.sleep(0.01)
    return x


class Between(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(slow_in_eager(self.lin(x)))


def stock_of(fn: Any) -> Any:
    return torch.compile(fn, backend="eager")


# what is compiled, seconds that it sleeps in eager, ATen calls outside graphs; a loop with a break ours compiles
OUTSIDE: dict[str, tuple[Callable[[], Any], float, int, tuple[str, ...]]] = {
    "a call between graphs": (lambda: between_graphs, 0.02, 7, ("explorer", "stock")),
    "a module": (Between, 0.02, 7, ("explorer", "stock")),
    "a frame left to Python": (lambda: left_to_python, 0.03, 3, ("stock",)),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("how", ["watched", "explored"])
def test_what_ran_outside_graphs_is_timed_and_its_operators_counted(name: str, how: str, tmp_path: Path) -> None:
    made, seconds, operators, engines = OUTSIDE[name]
    for engine in engines:
        torch._dynamo.reset()
        if how == "watched":
            compiled = (stock_of if engine == "stock" else explorer.compile)(made())
            with explorer.watch() as log:
                for _ in range(4):
                    compiled(X)
            record = log.record
            (calls,) = record.calls
            assert calls.measured == 2, "the first call in which nothing is compiled"
            whose = "in call 2 of "
        else:
            stock = {"backend": "eager"} if engine == "stock" else None
            record = explorer.explore(made(), engine=engine, stock=stock, time=0.001)(X)
            whose = "in a call of "
        (timed,) = (each for each in record.eager if each.seconds is not None)
        assert seconds <= timed.seconds < 10 * seconds
        assert timed.calls == operators
        said = f"and {operators} ATen calls {whose}"
        at = "" if (name, engine) == ("a module", "explorer") else rf" \({Path(__file__).name}:\d+\)"
        assert re.search(rf"{whose}[\w.]+{at}, measured", repr(record))
        assert said in repr(record) and said in repr(record.eager) and said in record.text()
        loaded = Record.load(record.save(tmp_path / f"{engine}.explore.json"))
        assert loaded.data.eager == record.data.eager


def prints_between(x):
    y = x.sin()
    print("between")
    return y.cos()


def opens_between(x):
    y = x.sin()
    open(os.devnull).close()
    return y.cos()


@pytest.mark.parametrize("times", [0, 1, 299, 301, 1000, 1001, 1002, 1007, 1008, 1009, 2500])
def test_each_run_of_a_graph_is_counted_though_few_are_timed(times: int) -> None:
    log = CallLog()
    run = log.graph("f0", lambda x: x)
    for number in range(times):
        assert run(number) == number
    assert log.runs["f0"].count == times and (log.runs["f0"].seconds > 0) == (times > 0)
    again = log.graph("f0", lambda x: x)
    assert again(1) == 1 and log.runs["f0"].count == times + 1
    assert len(log.open.ran) == min(times, 300) + 1


def one_way(x):
    y = x.sin()
    if x.sum() > 0:
        return y + 1
    return y.cos()


def in_a_loop(x):
    for _ in range(2):
        if x.sum() > 0:
            x = x + 1
        else:
            x = x.cos()
    return x


def opens_what_is_not_there(x):
    y = x.sin()
    open("/not/there")
    return y.cos()


# what never ran, and the call that would get to it; stock leaves a loop with a break to Python
NEVER: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "a branch": (one_way, "no call took this side of the branch", ("explorer", "stock")),
    "a branch in a loop": (in_a_loop, "no call took this side of the branch", ("explorer",)),
    "a break that raises": (opens_what_is_not_there, "not compiled: ", ("explorer", "stock")),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_continuation_that_was_never_compiled_is_reported_with_why(name: str) -> None:
    fn, why, engines = NEVER[name]
    for engine in engines:
        torch._dynamo.reset()
        compiled = (stock_of if engine == "stock" else explorer.compile)(fn)
        with explorer.watch() as log, suppress(FileNotFoundError):
            compiled(X.abs())
        never = [each for each in log.record.data.eager if not each.reached]
        assert never and all(why in each.why and f"{fn.__name__} after line " in each.what for each in never)
        assert not any("not timed" in eager(each, {}) for each in never)
        if name == "a branch":
            with explorer.watch() as log:
                compiled(X.abs())
                compiled(-X.abs())
            assert not [each for each in log.record.data.eager if not each.reached]


def scaled_then_broken(x, by):
    y = x * by
    torch._dynamo.graph_break()
    return y.cos()


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_a_continuation_that_was_compiled_before_the_watch_is_no_such(engine: str) -> None:
    torch._dynamo.reset()
    compiled = (stock_of if engine == "stock" else explorer.compile)(scaled_then_broken)
    compiled(X, 2.5)
    with explorer.watch() as log:
        compiled(X, True)
    assert len(log.record.data.compiles) == 1 and log.record.data.eager
    assert not [each for each in log.record.data.eager if not each.reached]


UNTIMED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "effects": (prints_between, {"time": 0.001}, "the function is not called for timing, because it prints"),
    "once": (opens_between, {"time": 0.001}, "the function was called only once, because it uses open"),
    "not asked for": (between_graphs, {"time": False}, "timing was not asked for"),
}


@pytest.mark.parametrize("engine", ["explorer", "stock"])
@pytest.mark.parametrize("name", [*UNTIMED, "watched"])
def test_the_record_says_why_what_ran_outside_graphs_was_not_timed(name: str, engine: str) -> None:
    if name == "watched":
        compiled = (stock_of if engine == "stock" else explorer.compile)(between_graphs)
        torch._dynamo.reset()
        with explorer.watch() as log:
            compiled(X)
        record, why = log.record, "between_graphs was called once, and calls are measured from the second on"
    else:
        fn, settings, why = UNTIMED[name]
        stock = {"backend": "eager"} if engine == "stock" else None
        record = explorer.explore(fn, engine=engine, stock=stock, **settings)(X)
    assert record.data.eager and all(each.seconds is None for each in record.data.eager)
    assert all(each.measured.startswith(why) for each in record.data.eager)
    assert f"; not timed: {why}" in repr(record.eager)
    if engine == "explorer":
        counted = f"an unknown number in Python between graphs (not counted: {why.partition(', because')[0]}"
        assert counted in repr(record)


def test_a_call_that_compiles_or_profiles_itself_is_not_measured() -> None:
    def profiles(x):
        y = x + 1
        torch._dynamo.graph_break()
        with torch.autograd.profiler.profile() as found:
            y.sin()
        seen.append(len(found.function_events))
        return y

    seen: list[int] = []
    compiled, sizes = stock_of(profiles), torch.compile(argument, backend="eager", dynamic=False)
    with explorer.watch() as log:
        for n in range(6):
            compiled(X)
            sizes(X, n)
    assert len(seen) == 6 and all(seen)
    assert [each.measured for each in log.record.calls] == [0, 0]
    assert sys.getprofile() is None
    with torch.autograd.profiler.profile():
        pass


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_why_python_was_not_timed_is_reported_of_the_function_that_ran_it(engine: str) -> None:
    """Calls that compile use up none of those that may be measured."""
    torch._dynamo.reset()
    compile = stock_of if engine == "stock" else explorer.compile
    late, never, once, profiled = map(compile, (broken_at(1), broken_at(2), broken_at(3), broken_at(4)))
    with explorer.watch() as log:
        for n in (1, 2, 3, 4, 5, 6, 6):
            late(X, str(n))
        for n in range(3):
            never(X, str(n))
        once(X, "a")
        for _ in range(5):
            profiled(X, "a")
            sys.setprofile(lambda *_: None)
        sys.setprofile(None)
    assert [each.measured for each in log.record.calls] == [7, 0, 0, 0]
    line = broken_at(1).__code__.co_firstlineno
    told = [each.measured for each in log.record.data.eager if each.compile and each.at_break]
    assert list(dict.fromkeys(told)) == [
        f"call 7 of broken_1 ({Path(__file__).name}:{line}), measured with torch's profiler",
        "something was compiled in each call of broken_2 that could be measured",
        "broken_3 was called once, and calls are measured from the second on",
        "a profiler of the program was on",
    ]


def broken_at(number: int) -> Callable[..., torch.Tensor]:
    def broken(x: torch.Tensor, how: str) -> torch.Tensor:
        y = x + len(how) if how != "b" else x
        torch._dynamo.graph_break()
        return y.cos()

    name, code = f"broken_{number}", broken.__code__
    broken.__qualname__ = broken.__name__ = name
    broken.__code__ = code.replace(co_name=name, co_qualname=name, co_firstlineno=code.co_firstlineno + 100 * number)
    return broken


def test_a_profiler_of_the_program_stays() -> None:
    told = []

    def profiler(frame: Any, event: str, argument: Any) -> None:
        told.append(event)

    compiled = stock_of(between_graphs)
    with explorer.watch() as log:
        compiled(X)
        sys.setprofile(profiler)
        try:
            compiled(X)
            assert sys.getprofile() is profiler
        finally:
            sys.setprofile(None)
        compiled(X)
        compiled(X)
    assert told and log.record.calls[0].measured == 3


def test_threads_that_call_a_function_at_once_are_measured_one_by_one() -> None:
    compiled = stock_of(between_graphs)
    compiled(X)
    torch._dynamo.reset()
    with explorer.watch() as log:
        compiled(X)
        threads = [threading.Thread(target=lambda: [compiled(X) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (calls,) = log.record.calls
    assert calls.count == 21
    assert sys.getprofile() is None
    assert sum(each.calls or 0 for each in log.record.eager) in (0, 7)
