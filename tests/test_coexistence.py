"""Ours and stock torch.compile in one process, on shared functions: neither disturbs the other."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

import explorer
from capturing import histories


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def ours(fn: Any, **settings: Any) -> Any:
    return explorer.compile(fn, backend="eager", **settings)


def compiles(compiled: Any) -> int:
    return sum(history.compiles for history in histories(compiled))


def refusals(compiled: Any) -> list[Any]:
    return [history.gave_up for history in histories(compiled) if history.gave_up is not None]


def scaled(x, n):
    return x * n + 1


def broken(x, n):
    y = scaled(x, n)
    print(end="")
    return scaled(y, n + 1)


def outer(x, n):
    a = broken(x, n)
    print(end="")
    return broken(a, n).sum() + n


def raising(x, n):
    y = scaled(x, n)
    print(end="")
    if n == 3:
        raise KeyError("three")
    return y - n


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.first(x)
        print(end="")
        return broken(x, 2).relu()


CALLS = [(torch.arange(1.0, size + 1), n) for n in (2, 3, 5) for size in (3, 4)]


def alone(fn: Callable[..., Any]) -> tuple[int, int, list[int]]:
    """What stock compiles of `fn` over CALLS, twice, with us out of the way: frames, operations, after each call."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(fn, backend=counter)
    after = []
    for x, n in CALLS * 2:
        quietly(compiled, x, n)
        after.append(counter.frame_count)
    torch._dynamo.reset()
    return counter.frame_count, counter.op_count, after


def quietly(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except KeyError as error:
        if error.args != ("three",):
            raise
        return error.args


def check(compiled: Callable[..., Any], fn: Callable[..., Any], x: Any, n: int) -> None:
    found, expected = quietly(compiled, x, n), quietly(fn, x, n)
    if isinstance(expected, tuple):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected)


FUNCTIONS = [scaled, broken, outer, raising]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_stock_compiles_what_it_would_without_us(fn):
    wanted = alone(fn)
    counter = CompileCounter()
    stock, mine = torch.compile(fn, backend=counter), ours(fn)
    after = []
    for x, n in CALLS * 2:
        check(mine, fn, x, n)
        check(stock, fn, x, n)
        check(mine, fn, x, n)
        after.append(counter.frame_count)
    assert (counter.frame_count, counter.op_count, after) == wanted
    assert refusals(mine) == []


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_ours_compiles_what_it_would_without_stock(fn):
    lonely = ours(fn)
    after = []
    for x, n in CALLS * 2:
        quietly(lonely, x, n)
        after.append(compiles(lonely))
    beside, stock = ours(fn), torch.compile(fn, backend="eager")
    for (x, n), count in zip(CALLS * 2, after, strict=True):
        check(stock, fn, x, n)
        check(beside, fn, x, n)
        check(stock, fn, x, n)
        assert compiles(beside) == count
    assert compiles(lonely) == after[-1]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_reset_between(fn):
    """Stock starts anew after its reset; ours keeps what it has."""
    counter = CompileCounter()
    stock, mine = torch.compile(fn, backend=counter), ours(fn)
    for x, n in CALLS:
        check(mine, fn, x, n)
        check(stock, fn, x, n)
    made, frames = compiles(mine), counter.frame_count
    for turn in (2, 3):
        torch._dynamo.reset()
        for x, n in CALLS:
            check(mine, fn, x, n)
            check(stock, fn, x, n)
        assert compiles(mine) == made
        assert counter.frame_count == turn * frames


def test_resets_at_any_time():
    stock, mine = torch.compile(outer, backend="eager"), ours(outer)
    for number, (x, n) in enumerate(CALLS * 4):
        check(mine if number % 2 else stock, outer, x, n)
        if number % 3 == 0:
            torch._dynamo.reset()
        check(stock if number % 2 else mine, outer, x, n)


def test_explain_and_ours():
    expected = torch._dynamo.explain(outer)(*CALLS[0])
    torch._dynamo.reset()
    mine = ours(outer)
    for x, n in CALLS:
        check(mine, outer, x, n)
    made = compiles(mine)
    found = torch._dynamo.explain(outer)(*CALLS[0])
    assert (found.graph_count, found.graph_break_count, found.op_count) == (
        expected.graph_count,
        expected.graph_break_count,
        expected.op_count,
    )
    for x, n in CALLS:
        check(mine, outer, x, n)
    assert compiles(mine) == made


def test_export_and_ours():
    mine = ours(scaled)
    x = torch.ones(3)
    check(mine, scaled, x, 2)

    class Wrapped(torch.nn.Module):
        def forward(self, x):
            return scaled(x, 2)

    program = torch.export.export(Wrapped(), (x,))
    torch.testing.assert_close(program.module()(x), scaled(x, 2))
    check(mine, scaled, x, 2)
    assert compiles(mine) == 1


def test_stock_called_inside_ours():
    counter = CompileCounter()
    inner = torch.compile(broken, backend=counter)

    def calls(x, n):
        y = x.sin()
        z = inner(y, n)
        return scaled(z, n)

    mine = ours(calls)
    for x, n in CALLS:
        torch.testing.assert_close(mine(x, n), scaled(broken(x.sin(), n), n))
    for x, n in CALLS:
        check(inner, broken, x, n)
    made = compiles(mine)
    torch._dynamo.reset()
    for x, n in CALLS:
        torch.testing.assert_close(mine(x, n), scaled(broken(x.sin(), n), n))
        check(inner, broken, x, n)
    assert compiles(mine) == made


def test_ours_called_inside_stock():
    inner = ours(broken)

    def calls(x, n):
        y = x.sin()
        print(end="")
        z = inner(y, n)
        return scaled(z, n)

    stock = torch.compile(calls, backend="eager")
    for x, n in CALLS * 2:
        torch.testing.assert_close(stock(x, n), scaled(broken(x.sin(), n), n))
        check(inner, broken, x, n)
    torch._dynamo.reset()
    for x, n in CALLS:
        torch.testing.assert_close(stock(x, n), scaled(broken(x.sin(), n), n))
        check(inner, broken, x, n)


def test_a_module_compiled_by_both():
    torch.manual_seed(0)
    net = Net()
    counter = CompileCounter()
    stock, mine = torch.compile(net, backend=counter), ours(net)
    for rows in (2, 3, 2, 5, 3):
        x = torch.randn(rows, 4)
        expected = net(x)
        torch.testing.assert_close(mine(x), expected)
        torch.testing.assert_close(stock(x), expected)
    assert net.calls == 15
    net.compile(backend="eager")  # the frame of the module's own call is stock's now
    torch.testing.assert_close(net(x), expected)
    torch.testing.assert_close(ours(net)(x), expected)
    torch.testing.assert_close(mine(x), expected)


def test_ours_of_stock_and_stock_of_ours():
    for both in (ours(torch.compile(outer, backend="eager")), torch.compile(ours(outer), backend="eager")):
        for x, n in CALLS * 2:
            check(both, outer, x, n)
        torch._dynamo.reset()
        for x, n in CALLS:
            check(both, outer, x, n)


def test_ours_of_ours():
    once = ours(outer)
    assert ours(once) is once
    inner = ours(broken)

    def calls(x, n):
        return inner(x, n) + scaled(x, n)

    mine = ours(calls)
    for x, n in CALLS * 2:
        torch.testing.assert_close(mine(x, n), broken(x, n) + scaled(x, n))
        check(inner, broken, x, n)
    assert refusals(mine) == [] and refusals(inner) == []


def test_exceptions_leave_both_as_they_were():
    counter = CompileCounter()
    stock, mine = torch.compile(raising, backend=counter), ours(raising)
    for _ in range(3):
        for compiled in (mine, stock):
            with pytest.raises(KeyError, match="three"):
                compiled(torch.ones(3), 3)
        check(mine, raising, torch.ones(3), 2)
        check(stock, raising, torch.ones(3), 2)

    def refuses(module, inputs):
        raise RuntimeError("no backend today")

    failing = explorer.compile(scaled, backend=refuses)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no backend today"):
            failing(torch.ones(3), 2)
        check(stock, raising, torch.ones(3), 2)
    strict = ours(broken, fullgraph=True)
    with pytest.raises(Exception, match="fullgraph"):
        strict(torch.ones(3), 2)
    check(stock, raising, torch.ones(3), 2)
    check(mine, raising, torch.ones(3), 2)
    assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is None


def test_disabled_and_skipped_functions():
    @torch._dynamo.disable
    def left_alone(x):
        return x + 1

    def calls(x, n):
        return left_alone(x * n) * 2

    stock, mine = torch.compile(calls, backend="eager"), ours(calls)
    for x, n in CALLS * 2:
        check(mine, calls, x, n)
        check(stock, calls, x, n)


def test_stocks_cache_limit_is_its_own():
    """Entries of ours do not count against the limit at which stock stops compiling."""
    limit = torch._dynamo.config.recompile_limit
    kinds = [torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.bfloat16]
    mine = ours(outer)
    for dtype in kinds[: limit - 1]:
        check(mine, outer, torch.ones(3, dtype=dtype), 2)
    counter = CompileCounter()
    stock = torch.compile(outer, backend=counter)
    for dtype in kinds[: limit - 1]:
        before = counter.frame_count
        check(stock, outer, torch.ones(3, dtype=dtype), 2)
        assert counter.frame_count > before, dtype


def test_threads_with_two_functions():
    """The callback belongs to a thread: each compiles its own function, and both share nested ones."""
    failures: list[str] = []
    start = threading.Barrier(4)

    def work(compiled: Callable[..., Any], fn: Callable[..., Any]) -> None:
        try:
            start.wait(timeout=30)
            for x, n in CALLS * 2:
                check(compiled, fn, x, n)
        except Exception as error:  # told by the main thread
            failures.append(f"{fn.__name__}: {''.join(traceback.format_exception(error))}")

    stock = torch.compile(outer, backend="eager")
    jobs = [(ours(outer), outer), (ours(raising), raising), (stock, outer), (broken, broken)]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert failures == []
    check(jobs[0][0], outer, *CALLS[0])


def test_threads_with_one_function():
    mine = ours(outer)
    failures: list[str] = []

    def work(calls: list[Any]) -> None:
        try:
            for x, n in calls:
                check(mine, outer, x, n)
        except Exception as error:  # told by the main thread
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(order,)) for order in (CALLS, CALLS[::-1], CALLS[3:] + CALLS[:3])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert failures == [] and refusals(mine) == []


def test_code_that_nobody_watches_is_eager():
    mine = ours(outer)
    check(mine, outer, *CALLS[0])
    counter = CompileCounter()
    stock = torch.compile(outer, backend=counter)
    check(stock, outer, *CALLS[0])
    frames, made = counter.frame_count, compiles(mine)
    seen: list[str] = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        outer(*CALLS[1])
    assert len(seen) > 5 and (counter.frame_count, compiles(mine)) == (frames, made)


def test_training_side_by_side():
    x = torch.randn(4, 4)
    gradients = {}
    for name, wrap in (
        ("eager", lambda m: m),
        ("ours", ours),
        ("stock", lambda m: torch.compile(m, backend="aot_eager")),
        ("ours over aot_eager", lambda m: explorer.compile(m, backend="aot_eager")),
    ):
        torch.manual_seed(0)
        net = Net()
        wrap(net)(x).sum().backward()
        gradients[name] = [p.grad for p in net.parameters()]
    for found in gradients.values():
        torch.testing.assert_close(found, gradients["eager"])


def test_stock_traces_through_ours():
    """A call of a function that we compiled is no break to stock: it traces the original. Modules may be one."""
    net = Net()
    function, module = ours(scaled), ours(torch.nn.Linear(4, 4))

    def calls(x):
        return function(x, 2).sin()

    counter = CompileCounter()
    x = torch.randn(2, 4)
    torch.testing.assert_close(torch.compile(calls, backend=counter, fullgraph=True)(x), calls(x))
    assert counter.frame_count == 1
    torch.testing.assert_close(torch.compile(lambda x: module(x) + 1, backend=counter)(x), module(x) + 1)
    torch.testing.assert_close(torch.compile(ours(net), backend=counter)(x), net(x))


def test_we_trace_through_stock():
    function = torch.compile(scaled, backend="eager")
    module = torch.compile(torch.nn.Linear(4, 4), backend="eager")

    def calls(x):
        return function(x, 2) + module(x).sin()

    x = torch.randn(2, 4)
    mine = ours(calls, fullgraph=True)
    torch.testing.assert_close(mine(x), calls(x))
    assert compiles(mine) == 1


def test_functions_that_look_alike_are_separate():
    """Equal code objects of two modules: what is known of one says nothing about the other."""
    made = []
    for value in (1, 2, 3):
        scope = {"bias": lambda x, value=value: x + value}
        exec("def inner(x):\n    y = bias(x)\n    print(end='')\n    return y * 2", scope)
        made.append(scope["inner"])
    assert made[0].__code__ == made[1].__code__

    def calls(x):
        print(end="")
        return [inner(x) for inner in made]

    mine, x = ours(calls), torch.ones(2)
    for _ in range(3):
        torch.testing.assert_close(mine(x), calls(x))
        torch._dynamo.reset()


def test_modules_made_inside_after_stock_has_compiled() -> None:
    """Once stock has compiled, making a module runs code of its own, which is no part of the program."""

    def made_inside(x):
        return torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Softmax(dim=-1))(x)

    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert torch.nn.Module.__init__.__module__ == "torch._dynamo.mutation_guard"
    x = torch.arange(4.0) - 2
    assert torch.equal(ours(made_inside, fullgraph=True)(x), made_inside(x))
