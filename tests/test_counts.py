"""How many graphs a sequence of calls takes: as few as torch.compile, whose counts are beside ours in `SEQUENCES`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import ones

import explorer
from benchmarks.counts import judge
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


def marked(*sizes: int) -> torch.Tensor:
    torch._dynamo.mark_dynamic(made := ones(*sizes), 0)
    return made


def transposed(x):
    return x.t_() * 2


def widened(x):
    return x.unsqueeze_(0).mul_(2) + 1


a = ones(3)
SEQUENCES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[int]]] = {
    "an int from 0": (times, [(ones(3), k) for k in (0, 1, 2, 3, 1)], [1, 2, 2, 2, 2]),
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
    "a method over a break": (filled, [(ones(3), 2), (ones(4), 2), (ones(5), 2)], [2, 4, 4]),
}


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


def test_dynamic_numbers_from_the_start() -> None:
    seen = []
    compiled = explorer.compile(times, dynamic=True, backend=lambda module, inputs: seen.append(1) or module.forward)
    for k in (2, 3, 0, 1, 0.5, 1.5):
        assert torch.equal(compiled(ones(3), k), times(ones(3), k))
    assert len(seen) == 2


def test_sequences_are_judged() -> None:
    fewer = Program("", "def f(a0, a1):\n    return a0 * next(a1)", ("R = f(t(3), counter)",) * 4)
    assert judge(fewer, "eager")[0] == "better"
    same = Program("", "def f(a0):\n    return a0 * 2", ("R = f(t(3))", "R = f(t(4))", "R = f(t(5))"))
    assert judge(same, "eager")[0] == "same"
    assert sequence("seed", 3) == sequence("seed", 3)
