"""How many graphs a sequence of calls takes: as few as torch.compile, whose counts are beside ours in `SEQUENCES`."""

from __future__ import annotations

import collections
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import ones

import explorer
from benchmarks.counts import Counts, is_comparable, judge, judge_whole, total
from benchmarks.fuzz.program import Program
from benchmarks.fuzz.sequences import sequence


def times(x, k):
    return x * k


def made(x, k):
    return torch.zeros(k, 3) + x


def loop(x, k):
    for i in range(k):
        x = x + i
    return x


def row(x, k):
    return x[k]


def counted(x, counter):
    return x * next(counter) + next(counter)


def both(x, y):
    return x + y


def hashed(x, k):
    return x + len({k, 1.0})


def array(x):
    y = x.detach().numpy()
    return x + y.shape[0], (y * 2).reshape(-1)


def handed_on(x, k):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2 if k is None else x * k


def filled(x, k):
    x.fill_(x.sum().item())
    return x * k


def written(x):
    x[slice(1, None)] = x.shape[0] / 2
    x[x > 3] = x.shape[0] / 8
    return x.fill_(x.shape[0] / 2), x.masked_fill(x > 0, x.shape[0] / 4), x.index_fill(0, torch.tensor([1]), len(x) / 3)


def listed(x, k):
    return torch.tensor([k, 2.0, 1]) + x, torch.tensor([[k], [x.shape[0] / 2]]), torch.as_tensor(k, dtype=torch.float16)


def other_kinds(x):
    unlike = x.shape == x.shape[0], x.shape != [x.shape[0], 3], x.shape[0] == (x.shape[0],), [x.shape[0]] == {2}
    return x * 2, unlike


def hands_on(x, y):
    z = y
    return x + 1, z, y is x


def in_inference_mode(x, y):
    with torch.inference_mode():
        return x * 2


def after_a_class(x):
    y = x + 1

    class Scale:
        by = 2 * y

        def __call__(self, x):
            return x * self.by

    return Scale()(x) + y


def marked(*sizes: int) -> torch.Tensor:
    torch._dynamo.mark_dynamic(made := ones(*sizes), 0)
    return made


def transposed(x):
    return x.t_() * 2


def widened(x):
    return x.unsqueeze_(0).mul_(2) + 1


def renamed(x, other):
    another = other  # noqa: F841
    return x * 2


def stream(items):
    yield from items


def handed_to_a_generator(x, other):
    waiting = stream(other)  # noqa: F841
    return x * 2


def started_generator(x, other):
    return x * 2, list(stream(other)), stream(other)


def described(x):
    class Kept:
        pass

    return x * 2


def noted(x, table):
    table["new"] = x * 2
    table["newer"] = x
    return x + 1


def noted_and_asked(x, table):
    table["new"] = x * 2
    return table["new"] + 1, "new" in table, "old" in table


def rounded(x, k):
    return x + k, round(k, 1), round(k, None)


def turned_and_added(x):
    x.t_()
    return x + 1


def raises_for_one(x, k):
    with torch.no_grad():
        y = x * k
        return y + (missing if k == 2 else 1)  # noqa: F821


def adds_to_a_view(x, k):
    x.view(-1).add_(torch.zeros(k * 3))
    return x * 2


def shaped_text(x):
    form = "{} {}"
    text = form.format(x.shape[0], x.shape[0] + 1)
    return x * 2, str(x.size()), f"{x.shape[0]:>5} of {x.shape}", "%d, %s" % (x.shape[0], x.shape), text  # noqa: UP031


def number_text(x, k):
    return x * k, f"{k:.2f}", repr((k, 1)), "%s" % k  # noqa: UP031


def text_of_text(x):
    text = str(x.shape[0]).zfill(3).upper()
    return x * 2, text, text.replace("0", "o"), str(x.shape).lower().title(), f"{x.shape[0]}".center(9, "-")


def code_point(x):
    return x * 2, "%c" % (x.shape[0] + 60)  # noqa: UP031


def measured_text(x):
    return x * 2, len(str(x.shape[0]))


def switched_before_a_break(x):
    with torch.no_grad():
        torch._dynamo.graph_break()
    return x * 2


def damped(x, k):
    with torch.no_grad():
        return x * math.sqrt(k) * (1 / k) ** 0.5


def of_count(x):
    with torch.no_grad():
        return x.mul(math.sqrt(x.numel()))


def divided(x, k):
    try:
        return x * (1 / k) * math.sqrt(k)
    except (ZeroDivisionError, ValueError):
        return x - 1


def noted_and_rooted(x, k):
    NOTED.append(k)
    return x * math.sqrt(k)


NOTED: list[float] = []
TAKE_A_FLOAT: dict[str, Callable[..., Any]] = {
    "full": lambda x, k: torch.full((2,), k) + x[0, 0],
    "clamp": lambda x, k: torch.clamp(x, k, max=k + 1),
    "add": lambda x, k: torch.add(x, x.sin(), alpha=k).add_(x, alpha=-k),
    "lerp": lambda x, k: x.lerp(x.exp(), k),
    "leaky_relu": lambda x, k: torch.nn.functional.leaky_relu(-x, k),
    "softplus": lambda x, k: torch.nn.functional.softplus(x, k),
    "addcdiv": lambda x, k: torch.addcdiv(x, x, x + 9, value=k),
    "remainder": torch.remainder,
    "foreach": lambda x, k: torch._foreach_mul([x, x + 1], k)[1],
    "half": lambda x, k: x.half() * k,
    "norm": lambda x, k: x.norm(k + 0.1),
    "arange": lambda x, k: torch.arange(0.0, 3.0, k + 0.1).sum() + x,
    "index_add": lambda x, k: x.index_add(0, torch.tensor([1, 0]), x.exp(), alpha=k),
    "scatter": lambda x, k: x.scatter(1, torch.tensor([[0], [2]]), k),
    "softshrink": lambda x, k: torch.nn.functional.softshrink(x, k),
}

TABLES: list[dict[str, Any]] = [{}, {"old": 1}, {"new": 1, "newer": 2}, {"newer": 3, "other": 1}]
a = ones(3)
SEQUENCES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[int]]] = {
    "an int from 0": (times, [(ones(3), k) for k in (0, 1, 2, 3, 1)], [1, 2, 2, 2, 2]),
    "a root in a block": (damped, [(ones(3), k) for k in (0.5, 1.0, 2.0, 0.5)], [1, 2, 2, 2]),
    "a root of a count": (of_count, [(ones(n, 3),) for n in (2, 3, 4)], [1, 2, 2]),
    "numbers that raise": (divided, [(ones(3), k) for k in (2.0, 3.0, 0.0, 4.0, -1.0, 5.0)], [1, 2, 3, 3, 4, 4]),
    **{
        f"a float that {name} takes": (function, [(ones(2, 3), k) for k in (0.5, 0.25, 0.75, 2.0)], [1, 2, 2, 2])
        for name, function in TAKE_A_FLOAT.items()
    },
    "a float": (times, [(ones(3), k) for k in (0.5, 1.0, 2.0, 0.5)], [1, 2, 2, 2]),
    "an int as a size": (made, [(ones(3), k) for k in (0, 1, 2, 3, 0)], [1, 2, 3, 3, 3]),
    "turns of a loop": (loop, [(ones(3), k) for k in (2, 3, 4, 2)], [1, 2, 3, 3]),
    "an index": (row, [(ones(5, 5), k) for k in (0, 1, 2, 3, -1)], [1, 2, 2, 2, 3]),
    "a count": (counted, [(ones(3), counter) for counter in [itertools.count(3)] * 4], [1, 2, 2, 2]),
    "sizes": (times, [(ones(n, 3), 2) for n in (2, 4, 6, 2, 1, 0)], [1, 2, 2, 2, 3, 4]),
    "ranks": (times, [(ones(*s), 2) for s in ((2, 3), (3,), (4, 3), (5,), (6, 7))], [1, 2, 3, 3, 3]),
    "strides": (times, [(ones(4, 3), 2), (ones(5, 3), 2), (ones(3, 6).t(), 2), (ones(8, 3)[::2], 2)], [1, 2, 3, 4]),
    "marked": (times, [(marked(2, 3), 2), (marked(4, 3), 2), (ones(5, 3), 2), (ones(1, 3), 2)], [1, 1, 1, 2]),
    "transposed in place": (transposed, [(marked(2, 3),), (marked(4, 3),), (marked(6, 3),)], [1, 1, 1]),
    "widened in place": (widened, [(ones(2, 3),), (ones(4, 3),), (ones(6, 3),)], [1, 2, 2]),
    "aliases": (both, [(a, a), (ones(3), ones(3)), (a, a), (ones(4), ones(4)), (ones(5), ones(5))], [1, 2, 2, 3, 3]),
    "a hashed float": (hashed, [(ones(3), k) for k in (0.5, 1.5, 1.0, 1.5)], [1, 2, 3, 3]),
    "an array's sizes": (array, [(ones(n, 3),) for n in (2, 4, 5, 1)], [1, 2, 2, 3]),
    "arrays": (times, [(np.ones(n), 2) for n in (2, 4, 5)], [1, 2, 2]),
    "handed on at a break": (handed_on, [(ones(3), k) for k in (2, 3, 4)], [2, 3, 3]),
    "numbers written": (written, [(marked(n, 3),) for n in (2, 4, 6)], [1, 1, 1]),
    "numbers in a list": (listed, [(marked(n, 3), n / 4) for n in (2, 5, 6, 7)], [1, 2, 2, 2]),
    "sizes beside other types": (other_kinds, [(marked(n, 3),) for n in (2, 4, 6)], [1, 1, 1]),
    "tensors that nothing reads": (
        hands_on, [(a, ones(3)), (a, ones(2, 5)), (a, ones(1).double()), (a, a), (a, a)], [1, 1, 1, 2, 2]
    ),
    "inference mode": (in_inference_mode, [(ones(n), 2) for n in (2, 2, 4, 6)], [1, 1, 2, 2]),
    "a class statement": (after_a_class, [(marked(n, 3),) for n in (2, 4)], [2, 3]),
    "a local that is renamed": (renamed, [(a, other) for other in (torch.sin, print, int, None, a, {})], [1] * 6),
    "an unused class statement": (described, [(a,), (ones(3),), (a,)], [1, 1, 1]),
    "items that are set": (noted, [(a, dict(table)) for table in TABLES], [1] * 4),
    "an item that is set and read": (noted_and_asked, [(a, dict(table)) for table in TABLES], [1, 2, 2, 2]),
    "a rounded int": (rounded, [(a, k) for k in (2, 3, 4, 2)], [1, 2, 2, 2]),
    "turned in place in a wider storage": (
        turned_and_added, [(ones(3 * n, n)[n : n * 2].clone(),) for n in (3, 4, 5)], [1, 2, 2]
    ),
    "an argument of a generator that never runs": (
        handed_to_a_generator, [(a, other) for other in ([a], (a,), {1: a}, None, a)], [1] * 5,
    ),
    "an argument of a generator that runs": (
        started_generator, [(a, other) for other in ([a], (a,), {1: a}, [a])], [1, 2, 3, 3],
    ),
    "a text made of a text of sizes": (text_of_text, [(ones(n, 3),) for n in (2, 4, 5, 1)], [1, 2, 2, 3]),
    "a text of sizes": (shaped_text, [(ones(n, 3),) for n in (2, 4, 5, 1)], [1, 2, 2, 3]),
    "a text of a float": (number_text, [(ones(3), k) for k in (0.5, 1.5, 2.5, 0.5)], [1, 2, 2, 2]),
    "a text that may raise": (code_point, [(ones(n, 3),) for n in (2, 4, 5)], [1, 2, 3]),
    "a text that is read": (measured_text, [(ones(n, 3),) for n in (2, 4, 5)], [1, 2, 3]),
    "a mode and a break": (switched_before_a_break, [(ones(3),)] * 2, [1, 1]),
    "a method over a break": (filled, [(ones(3), 2), (ones(4), 2), (ones(5), 2)], [2, 4, 4]),
}  # fmt: skip


@pytest.mark.parametrize(("function", "calls", "graphs"), SEQUENCES.values(), ids=SEQUENCES)
def test_graphs_after_each_call(function: Any, calls: list[tuple[Any, ...]], graphs: list[int]) -> None:
    made = 0

    def backend(module: Any, inputs: Any) -> Any:
        nonlocal made
        made += 1
        return module.forward

    compiled = explorer.compile(function, backend=backend)
    found = []
    for args in calls:
        compiled(*args)
        found.append(made)
    assert found == graphs


TEXTS = [
    "a text of sizes", "a text made of a text of sizes", "a text of a float", "a text that may raise",
    "a text that is read",
]  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_text_of_numbers_is_eagers_in_each_call(name: str, dynamic: bool | None) -> None:
    function, calls, _ = SEQUENCES[name]
    compiled = explorer.compile(function, backend="eager", dynamic=dynamic)
    for args in calls:
        assert compiled(*args)[1:] == function(*args)[1:]


@pytest.mark.parametrize("text", ["%d %d", "%c", "{0.missing}", "{:q}"])
def test_a_text_that_cannot_be_made_raises_as_in_eager(text: str) -> None:
    def function(x):
        return x * 2, text % (-x.shape[0],) if "%" in text else text.format(x.shape[0])

    compiled = explorer.compile(function, backend="eager", dynamic=True)
    for size in (3, 5):
        with pytest.raises((TypeError, OverflowError, AttributeError, ValueError)) as eager:
            function(ones(size))
        with pytest.raises(eager.type, match=re.escape(str(eager.value))):
            compiled(ones(size))


@pytest.mark.parametrize(("fn", "raising"), [(raises_for_one, 2), (adds_to_a_view, 5)])
def test_a_call_that_raises_leaves_other_calls_compiled(fn: Any, raising: int) -> None:
    made: list[Any] = []
    compiled = explorer.compile(fn, backend=lambda module, inputs: made.append(module) or module.forward)
    for k in (raising, 1, raising, 1):
        if k == raising:
            with pytest.raises((NameError, RuntimeError)):
                compiled(ones(1, 3), k)
        else:
            assert torch.equal(compiled(ones(1, 3), k), fn(ones(1, 3), k))
    assert len(made) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int8])
@pytest.mark.parametrize("write", [torch.Tensor.fill_, lambda x, k: x.__setitem__(slice(1, None), k) or x])
def test_a_number_that_a_dtype_does_not_hold_is_an_error(dtype: torch.dtype, write: Callable[..., Any]) -> None:
    compiled = explorer.compile(write, dynamic=True)
    for k in (1.5, 300.5, 1e300, 2.5, float("inf")):
        outcomes = []
        for function in (write, compiled):
            try:
                outcomes.append(function(ones(3, dtype=dtype), k).tolist())
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", [*TAKE_A_FLOAT, "divided"])
def test_floats_of_the_graph_compute_as_eagers_do(name: str, backend: str) -> None:
    function = TAKE_A_FLOAT.get(name, divided)
    compiled = explorer.compile(function, backend=backend)
    for k in (0.5, 0.25, -0.0, float("nan"), 1e300, 0.75):
        outcomes = []
        for each in (function, compiled):
            x = torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()
            try:
                result = each(x, k)
            except RuntimeError as error:
                outcomes.append((torch.tensor([*str(error).encode()]),))
                continue
            result.float().sum().backward()
            outcomes.append((result.detach(), x.grad))
        torch.testing.assert_close(*outcomes, equal_nan=True)


def test_no_effect_is_lost_where_a_number_cannot_be_computed() -> None:
    compiled = explorer.compile(noted_and_rooted, backend="eager")
    for k in (2.0, 3.0, 4.0):
        compiled(ones(3), k)
    NOTED.clear()
    with pytest.raises(ValueError, match="math domain error"):
        compiled(ones(3), -1.0)
    assert NOTED == [-1.0]


def test_dynamic_numbers_from_the_start() -> None:
    seen = []
    compiled = explorer.compile(times, dynamic=True, backend=lambda module, inputs: seen.append(1) or module.forward)
    for k in (2, 3, 0, 1, 0.5, 1.5):
        assert torch.equal(compiled(ones(3), k), times(ones(3), k))
    assert len(seen) == 2


def test_programs_are_judged_whole() -> None:
    def judged(body: str) -> str:
        return judge_whole(Program("", f"def f(a0):\n    {body}", ("R = f(t(3))",)), "eager")[0]

    assert judged("return a0 * 2") == "same"
    assert judged("print(a0.sum().item())\n    return a0 * 2") == "dropped"


def test_sequences_are_judged() -> None:
    fewer = Program("", "def f(a0, a1):\n    return a0 * next(a1)", ("R = f(t(3), counter)",) * 4)
    assert judge(fewer, "eager")[0] == "better"
    same = Program("", "def f(a0):\n    return a0 * 2", ("R = f(t(3))", "R = f(t(4))", "R = f(t(5))"))
    assert judge(same, "eager")[0] == "same"
    assert sequence("seed", 3) == sequence("seed", 3)


def test_what_stock_gives_up_is_not_compared_but_all_else_is() -> None:
    given_up = "def f(a0, a1):\n    for each in (a1, 2):\n        print(each)\n        a0 = a0 * each\n    return a0"
    outcome, _, text = judge(Program("", given_up, ("R = f(t(3), 1)", "R = f(t(3), 2)")), "eager")
    assert outcome == "further", text
    ours = Counts(graphs=2, recompiles=1, operators=5)
    assert not is_comparable(ours, Counts(graphs=1, left=1, operators=4))
    assert is_comparable(ours, Counts(graphs=1, left=1, operators=5))
    assert is_comparable(ours, Counts(graphs=1, operators=4))
    assert is_comparable(ours, Counts(graphs=1, passed_over=1, operators=4))
    assert not is_comparable(ours, Counts(passed_over=1))


def test_a_call_that_raises_is_not_compared_where_stock_gave_the_function_up() -> None:
    given_up = (
        "def f(a0, a1):\n    for each in (a1, 2):\n        print(each)\n        a0 = a0 * each\n"
        "    return a0 + torch.ones(a1 if a1 > 4 else 3)"
    )
    outcome, _, text = judge(Program("", given_up, ("R = f(t(3), 1)", "R = f(t(3), 2)", "R = f(t(3), 5)")), "eager")
    assert outcome == "further", text


@pytest.mark.parametrize(
    "function",
    [
        lambda x, pair: setattr(x * 2, "grad", None) or x + 1,
        lambda x, pair: (x * 2, hasattr(pair, "first"), _refused(pair)),
    ],
)
def test_what_changes_nothing_or_raises_breaks_nothing(function: Callable[..., Any]) -> None:
    compiled = explorer.compile(function, backend="eager", fullgraph=True)
    pair = collections.namedtuple("pair", "first second")(1, 2)
    assert str(compiled(ones(3), pair)) == str(function(ones(3), pair))


def _refused(pair: Any) -> list[str]:
    said = []
    for change in (lambda: setattr(pair, "first", 3), lambda: delattr(pair, "second")):
        try:
            change()
        except AttributeError as error:
            said.append(str(error))
    return said


def test_what_graphs_ran_before_the_program_raises_does_not_count() -> None:
    raising = "def f(a0):\n    a0.register_hook(print)\n    return a0.sin() * 2"
    assert judge(Program("", raising, ("R = f(t(3))",) * 2), "eager")[0] in ("same", "better")


def test_steps_are_distinguished() -> None:
    counts = Counts()
    counts.compiled(test_steps_are_distinguished.__code__)
    counts.ended()
    counts.compiled(test_steps_are_distinguished.__code__)
    counts.graphs = 3
    counts.ended()
    assert [(step.graphs, step.recompiles) for step in counts.steps()] == [(0, 0), (3, 1)]
    assert total(counts.steps()).graphs == 3
