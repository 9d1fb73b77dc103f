"""Python's random generators in captured programs: numbers, their order and the state left behind are eager's."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

import explorer

OWN = random.Random(4)

DRAWN: dict[str, Callable[[Any], Any]] = {
    "random": lambda g: g.random(),
    "uniform": lambda g: g.uniform(-1, 2.5),
    "triangular": lambda g: g.triangular(0, 2, 1),
    "randint": lambda g: g.randint(-3, 9),
    "randrange": lambda g: g.randrange(1, 100, 3),
    "getrandbits": lambda g: g.getrandbits(40),
    "gauss": lambda g: g.gauss(0, 2),
    "normalvariate": lambda g: g.normalvariate(1, 2),
    "expovariate": lambda g: g.expovariate(2),
    "betavariate": lambda g: g.betavariate(1, 2),
    "seed": lambda g: (g.seed(9), g.random())[1],
}
MADE: dict[str, Callable[[Any], Any]] = {
    **DRAWN,
    "choice": lambda g: g.choice([1, 2, 3]),
    "sample": lambda g: sum(g.sample(range(9), 3)),
    "shuffle": lambda g: (items := [1, 2, 3, 4], g.shuffle(items))[0][0],
    "choices": lambda g: sum(g.choices([1, 2, 3], k=2)),
}


def observed(fn: Callable[..., Any], made: Callable[[Any], Any], *args: Any) -> list[Any]:
    """Results of three calls, and the numbers that come after each."""
    random.seed(1)
    OWN.seed(4)
    called, found = made(fn), []
    for turn in range(3):
        given = [random.Random(turn) for _ in args]
        try:
            result = repr([v.getstate() if isinstance(v, random.Random) else v for v in called(torch.ones(2), *given)])
        except ValueError as error:
            result = repr(error)
        found.append((result, random.random(), OWN.random(), [each.random() for each in given]))
    return found


def like_eager(fn: Callable[..., Any], *args: Any, backends: Any = ("eager",), **settings: Any) -> None:
    expected = observed(fn, lambda fn: fn, *args)
    for backend in backends:
        assert observed(fn, lambda fn, b=backend: explorer.compile(fn, backend=b, **settings), *args) == expected


@pytest.mark.parametrize("generator", [random, OWN], ids=["module", "own"])
@pytest.mark.parametrize("name", DRAWN)
def test_drawn(name: str, generator: Any) -> None:
    """In one graph: drawn anew in each call, in order, and whether or not the number is used."""

    def fn(x: torch.Tensor) -> Any:
        first = generator.random()
        generator.random()
        return x * first, DRAWN[name](generator), x + DRAWN[name](generator)

    like_eager(fn, fullgraph=True)


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    """A generator that the program makes with a seed: its numbers are constants, and it can be returned."""

    def fn(x: torch.Tensor) -> Any:
        generator = random.Random(5)
        return x + MADE[name](generator), MADE[name](generator), generator

    like_eager(fn, fullgraph=True)


def test_given() -> None:
    """Another generator, another compile."""
    like_eager(lambda x, g: (x * g.random(), g.getrandbits(20)), 1, fullgraph=True, backends=("explorer", "aot_eager"))


def test_break_between(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + random.random()
        print("now")
        return y + random.random(), OWN.choice([1, 2, 3]), y * OWN.random()

    like_eager(fn)


@pytest.mark.parametrize("name", MADE)
def test_its_truth_is_a_bool(name: str) -> None:
    like_eager(lambda x: (x, truth := bool(MADE[name](random)), truth + 1, type(truth), F.dropout(x, 0.0, truth)))


def test_branch_on_number() -> None:
    like_eager(lambda x: (x + 1 if random.random() < 0.5 else x - 1, random.random()))


@pytest.mark.parametrize("name", MADE)
def test_drawn_once_where_the_graph_writes_an_input_that_autograd_records(name: str) -> None:
    """A guard asks of all tensors that the graph is given whether autograd refuses to use them, not of numbers."""

    def fn(y: torch.Tensor) -> Any:
        y.add_(1)
        return (y.detach(), MADE[name](random)) if MADE[name](random) > 0.5 else y.detach() * MADE[name](random)

    compiled = explorer.compile(fn)
    expected, found = (observed(lambda x, f=f: f(x.requires_grad_() * 1), lambda f: f) for f in (fn, compiled))
    assert found == expected


def test_error_in_graph() -> None:
    """Nothing is drawn twice where the graph raises and the frame runs eagerly."""

    def fn(x: torch.Tensor) -> Any:
        number = random.random()
        return x + number, torch.bincount(x.long() - 2)

    settled: list[Any] = []
    for made in (lambda fn: fn, lambda fn: explorer.compile(fn)):
        random.seed(3)
        with pytest.raises(RuntimeError):
            made(fn)(torch.ones(2))
        settled.append(random.random())
    assert settled[0] == settled[1]


def resized(x: torch.Tensor, i: torch.Tensor) -> Any:
    torch.sin((x / x).unsqueeze(1), out=x)
    return torch.rand(3)


def caught(x: torch.Tensor, i: torch.Tensor) -> Any:
    y = F.dropout(x)
    try:
        return y + x[i]
    except IndexError:
        return y, torch.rand(2)


def written(x: torch.Tensor, i: torch.Tensor) -> Any:
    drawn = torch.randn(3)
    x.add_(1)
    return drawn + x[i]


@pytest.mark.parametrize("index", [1, 7])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("function", [resized, caught, written])
def test_torchs_generator_is_put_back_where_the_graph_raises(function, grad: bool, index: int) -> None:
    def outcome(called: Callable[..., Any]) -> Any:
        torch.manual_seed(3)
        x = nn.Parameter(torch.ones(4, 3))
        with torch.set_grad_enabled(grad):
            try:
                result = [each.tolist() for each in tree_leaves(called(x, torch.tensor([index])))]
            except (RuntimeError, IndexError) as error:
                result = type(error).__name__
        return result, x.tolist(), torch.rand(1).item()

    compiled = explorer.compile(function)
    assert outcome(compiled) == outcome(compiled) == outcome(function)


def test_errors() -> None:
    like_eager(lambda x: (x, random.randrange(0)))
    like_eager(lambda x: (x, random.Random(None) is None))
    like_eager(lambda x: (x + 1, random.getrandbits(100)))


def arrays(x):
    a, b = np.random.rand(2), np.random.randn(2, 3)
    a += 1
    c, d = np.random.uniform(1, 2, size=(3,)), np.random.randint(0, 5, 4)
    return a, torch.from_numpy(b) * 2, c, d, x + torch.from_numpy(a)


def written_beside(x, given):
    a = np.random.rand(2)
    given += a
    return a, given


def around_a_break(x):
    a = np.random.rand(x.shape[0])
    print(end="")
    return a, np.random.rand(2), np.random.rand(), np.random.randint(3)


@pytest.mark.parametrize("function", [arrays, written_beside, around_a_break])
def test_numpys_generator_is_in_the_state_of_eager(function):
    compiled = explorer.compile(function, fullgraph=function is not around_a_break)
    found = []
    for call in (function, compiled, compiled):
        np.random.seed(4)
        given = [np.ones(2)] if function is written_beside else []
        found.append([repr([call(torch.ones(2), *given) for _ in range(3)]), np.random.rand()])
    assert found[0] == found[1] == found[2]


WRITES = (
    "normal_()", "uniform_()", "exponential_()", "random_(0, 9)", "bernoulli_(0.5)", "geometric_(0.5)", "log_normal_()",
    "fill_(2)", "copy_(x)",
)  # fmt: skip
TARGETS = {
    "gaps": "x.new_empty_strided(x.shape, (16, 1))",
    "slice": "torch.zeros(x.shape[0], 16)[:, ::2]",
    "transposed": "torch.zeros(8, x.shape[0]).t()",
    "columns": "x.clone()[:, 1:]",
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_into_a_layout(write: str, target: str, dynamic: bool) -> None:
    if target == "columns":
        write = write.replace("(x)", "(x[:, 1:])")
    namespace: dict[str, Any] = {"torch": torch}
    exec(f"def program(x):\n    return {TARGETS[target]}.{write}", namespace)
    program = namespace["program"]
    compiled = explorer.compile(program, dynamic=dynamic)
    for rows in (6, 3):
        found = []
        for function in (program, compiled):
            torch.manual_seed(rows)
            given = torch.ones(rows, 8)
            found.append((function(given), given, torch.rand(1)))
        for expected, got in zip(*found, strict=True):
            torch.testing.assert_close(got, expected)
            assert got.stride() == expected.stride()


CONTEXTS = ["torch.no_grad()", "torch.device('meta')", "torch.autocast('cpu', dtype=torch.bfloat16)"]
DRAWS = [
    "random.uniform(0, 3)", "OWN.random()", "float(np.random.rand(2)[0])", "random.random() + float(torch.rand(()))",
]  # fmt: skip


def surroundings() -> tuple[Any, ...]:
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch._C._len_torch_function_stack()
    drawn = random.getstate(), OWN.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    return *modes, *drawn


@pytest.mark.parametrize("caught", [False, True], ids=["raised", "caught"])
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_graph_that_raises_after_a_draw_leaves_what_eager_leaves(context: str, draw: str, caught: bool) -> None:
    """The continuation begins inside of the context, which only Python leaves."""
    space = {**globals(), "sys": sys}
    lines = [f"with {context}:", "    sys.stdout.flush()", f"number = {draw}"]
    if caught:
        lines += ["try:", "    y = x[i]", "except IndexError:", "    y = x", "return y * number + random.random()"]
    else:
        lines += ["return x[i] * number"]
    exec("def fn(x, i):\n" + "".join(f"    {line}\n" for line in lines), space)

    def told(fn: Callable[..., Any]) -> list[Any]:
        found = []
        for seed, place in enumerate((0, 7, 1, 9)):
            for each in (random, OWN):
                each.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            try:
                result = fn(torch.ones(3), torch.tensor([place])).tolist()
            except IndexError as error:
                result = str(error)
            found.append((result, surroundings()))
        return found

    assert told(explorer.compile(space["fn"])) == told(space["fn"])


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.0])
@pytest.mark.parametrize("function", [F.dropout, F.alpha_dropout, F.dropout1d, F.dropout2d, F.feature_alpha_dropout])
def test_dropout_draws_what_eager_draws(function: Callable[..., torch.Tensor], p: float) -> None:
    found = []
    for made in (lambda f: f, explorer.compile):
        torch.manual_seed(4)
        x = torch.tensor([[[[1.0, 2.0]], [[3.0, torch.inf]]]], requires_grad=True)[:, :, 0]
        y, drawn = made(lambda x: (function(x, p, True), torch.rand(2)))(x)
        found.append([y, drawn, torch.get_rng_state(), *torch.autograd.grad(y.sum(), x)])
    torch.testing.assert_close(found[1], found[0], equal_nan=True)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_the_layers_of_a_recurrent_network(kind: type, packed: bool, bidirectional: bool) -> None:
    net = kind(2, 3, 3, dropout=0.5, bidirectional=bidirectional, batch_first=not packed, bias=not packed)
    x = torch.randn(4, 2, 2)

    def fn(x: torch.Tensor) -> Any:
        given = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 3])) if packed else x
        out, state = net(given)
        return out[0] if packed else out, state

    found = []
    for made in (lambda f: f, explorer.compile):
        torch.manual_seed(4)
        leaves = tree_leaves(made(fn)(x))
        gradients = torch.autograd.grad(sum(each.square().sum() for each in leaves), list(net.parameters()))
        found.append([*leaves, *gradients, torch.get_rng_state()])
    torch.testing.assert_close(found[1], found[0])


def written_parameter() -> None:
    nn.init.uniform_(nn.Parameter(torch.empty(3)))


@pytest.mark.parametrize("draw", [written_parameter, lambda: nn.Linear(3, 3), lambda: torch.rand(3), lambda: None])
def test_a_graph_that_raises_leaves_the_generator_as_eager_does(draw: Callable[[], Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        draw()
        return torch.bernoulli(x)

    states = []
    for made in (function, explorer.compile(function)):
        for value in (0.5, torch.nan):
            torch.manual_seed(4)
            try:
                made(torch.full((3,), value))
            except RuntimeError as error:
                assert "p_in" in str(error)
            states.append(torch.get_rng_state())
    torch.testing.assert_close(states[2:], states[:2])


class Listing(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        CALLS.append(function)
        return function(*args, **(kwargs or {}))


CALLS: list[object] = []


@pytest.mark.parametrize("draw", [lambda: random.randint(0, 3), random.random])
def test_a_mode_sees_no_call_that_draws_a_number_of_python(draw):
    def program(x):
        with Listing():
            y = x * draw()
        return y

    seen = []
    for function in (program, explorer.compile(program)):
        CALLS.clear()
        function(torch.ones(2))
        seen.append(list(CALLS))
    assert seen[0] == seen[1]
