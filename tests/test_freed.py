"""What a compile and a call let go of, at once and without the garbage collector: inputs, parameters, optimizers."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import explorer

Weak = list[weakref.ref[Any]]
CASES: dict[str, Callable[[Callable[[Any], Any]], Weak]] = {}


def case(program: Callable[[Any], Weak]) -> Callable[[Any], Weak]:
    CASES[program.__name__] = program
    return program


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def weak(*values: Any) -> Weak:
    return [weakref.ref(value) for value in values]


@case
def module(c):
    m = nn.Linear(3, 3)
    x = torch.randn(2, 3)
    c(m)(x).sum().backward()
    return weak(m, m.weight, m.weight.grad, x)


@case
def parameter_given_and_owned(c):
    m = nn.Linear(3, 3)
    c(lambda p, x: m(x) * p.sum())(m.weight, torch.randn(2, 3)).sum().backward()
    return weak(m.weight)


@case
def input_of_a_function(c):
    x = torch.randn(3)
    y = c(lambda x: x.sin())(x)
    return weak(x, y)


@case
def no_graph(c):
    x = torch.randn(3)
    assert c(lambda x: x)(x) is x
    return weak(x)


@case
def training_input(c):
    x = torch.randn(3, requires_grad=True)
    z = x * 1
    y = c(lambda z: z.sin() * 2)(z)
    y.sum().backward()
    return weak(x, z, y)


@case
def graph_break(c):
    def f(p, x, table):
        print(end="")
        return x * p + table["a"][0]

    p, x, a = nn.Parameter(torch.randn(3)), torch.randn(2, 3), torch.randn(3)
    c(f)(p, x, {"a": [a]}).sum().backward()
    return weak(p, x, a)


@case
def optimizer(c):
    m = nn.Linear(3, 3)
    o = torch.optim.Adam(m.parameters())
    step = c(lambda: o.step())
    for _ in range(2):
        m(torch.randn(2, 3)).sum().backward()
        step()
    return weak(m.weight, m.weight.grad, o.state[m.weight]["exp_avg"])


@case
def saved_for_a_backward_that_is_done(c):
    x = torch.randn(3, requires_grad=True)
    z = x * 1
    y = c(lambda z: z.sin().exp())(z)
    y.sum().backward()
    made = weak(z)
    del z
    assert made[0]() is None  # though y, and so the backward's node, is alive
    return made


@pytest.mark.parametrize("backend", ["explorer", "aot_eager", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_kept(name: str, backend: str) -> None:
    made = CASES[name](lambda f: explorer.compile(f, backend=backend))
    assert [ref() is None for ref in made] == [True] * len(made)
