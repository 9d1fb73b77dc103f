"""Numbers that a graph reads out of its tensors: a loop loads them; a size or a position is none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def written(x: torch.Tensor, s: torch.Tensor) -> Any:
    """The number is that of before the write."""
    before = torch.add(x, x, alpha=s)
    s.add_(1)
    return before, torch.add(x, x, alpha=s)


AS_NUMBERS: dict[str, Program] = {
    "addcdiv": lambda x, s: torch.addcdiv(x, x + 1, x + 2, value=s),
    "addcmul in place": lambda x, s: x.clone().addcmul_(x, x, value=-s),
    "alpha": lambda x, s: torch.add(x, x + 1, alpha=s * 2),
    "an element": lambda x, s: torch.add(x, x + 1, alpha=x.detach()[1, 2]),
    "of a sum": lambda x, s: torch.add(x, x, alpha=x.detach().sum()),
    "slope": lambda x, s: F.leaky_relu(x - 1, s),
    "filled": lambda x, s: torch.full((2,), s, dtype=torch.float64) * 2,
    "two numbers": lambda x, s: F.softplus(x, s, s + 1),
    "before a write": written,
}

NOT_IN_LOOPS: dict[str, Program] = {
    "size": lambda x, s: torch.ones(s.long()) * 2,
    "compared with another number": lambda x, s: F.hardtanh(x, 0.1, s),
}

OF_FLOATS: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "addcmul": lambda x, k: torch.addcmul(x, x, x + 1, value=k),
    "addmm": lambda x, k: torch.addmm(x, x, x, alpha=k, beta=k + 1),
    "addr": lambda x, k: torch.addr(x, x[0], x[:, 1], alpha=k),
    "baddbmm": lambda x, k: torch.baddbmm(x[None], x[None], x[None], beta=k),
    "batch_norm": lambda x, k: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True, momentum=k),
    "celu": lambda x, k: F.celu(1 - x, k + 0.1),
    "clamp": lambda x, k: torch.clamp(x, -k, k),
    "dropout": lambda x, k: F.dropout(x, k / 4, training=False) + F.dropout(x, min(k, 0)),
    "hardtanh": lambda x, k: F.hardtanh(x, -k, k),
    "huber_loss": lambda x, k: F.huber_loss(x, x.detach() * 2, delta=k),
    "in place": lambda x, k: (x * 1).add_(x, alpha=k).sub_(x, alpha=-k),
    "layer_norm": lambda x, k: F.layer_norm(x, (3,), eps=k),
    "lerp": lambda x, k: torch.lerp(x, x * 2, k),
    "nan_to_num": torch.nan_to_num,
    "scale": lambda x, k: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=k),
    "softshrink": F.softshrink,
    "sub": lambda x, k: x.sub(x * x, alpha=k),
    "threshold": lambda x, k: F.threshold(x, k, k),
    "two": lambda x, k: torch.add(x, x, alpha=k) * F.leaky_relu(x - 1, k / 2),
}
"""Operators that take a float of the program."""


def arguments(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(9.0).reshape(3, 3) / 3, torch.tensor(2, dtype=dtype)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.int64))
@pytest.mark.parametrize("name", AS_NUMBERS)
def test_loops_load_the_number(name: str, dtype: torch.dtype) -> None:
    program = AS_NUMBERS[name]
    compiled = explorer.compile(program)
    for number in (2, 1, 3):
        (x, s), (y, t) = ((x, s.fill_(number)) for x, s in (arguments(dtype), arguments(dtype)))
        torch.testing.assert_close((compiled(y, t), t), (program(x, s), s))
    assert not explorer.explore(program, time=False)(*arguments(dtype)).eager


@pytest.mark.parametrize("name", AS_NUMBERS)
def test_the_backward_reads_it_again(name: str) -> None:
    def outcome(function: Program) -> Any:
        x, s = arguments(torch.float32)
        y = x.requires_grad_() * 1
        results = function(y, s)
        found = results if isinstance(results, tuple) else (results,)
        total = sum((each.sin().sum() for each in found if each.requires_grad), torch.zeros(()))
        return results, torch.autograd.grad(total, x) if total.requires_grad else None

    torch.testing.assert_close(outcome(AS_NUMBERS[name]), outcome(explorer.compile(AS_NUMBERS[name])))


@pytest.mark.parametrize("name", NOT_IN_LOOPS)
def test_what_loops_do_not_take_runs_eagerly(name: str) -> None:
    compiled = explorer.compile(NOT_IN_LOOPS[name])
    for number in (2, 1, 3):
        x, s = arguments(torch.float32)
        s.fill_(number)
        torch.testing.assert_close(NOT_IN_LOOPS[name](x, s), compiled(x, s))


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("name", OF_FLOATS)
def test_an_operator_with_a_changing_float_is_compiled(name: str, dynamic: bool | None) -> None:
    program, before = OF_FLOATS[name], explorer.counters()
    compiled = explorer.compile(program, dynamic=dynamic)
    for k in (0.5, 0.25, 1.0, 0.1 + 0.2):
        outcomes = []
        for function in (program, compiled):
            x = (torch.arange(9.0).reshape(3, 3) / 3).requires_grad_()
            result = function(x, k)
            outcomes.append((result, *torch.autograd.grad(result.sin().sum(), x)))
        torch.testing.assert_close(*outcomes)
    assert explorer.counters().get("calls: fallback") == before.get("calls: fallback")


def test_what_was_asked_of_a_float_is_a_guard() -> None:
    """softshrink refuses a negative number, celu 0."""
    for program, refused, says in ((F.softshrink, -0.5, "lambda must be"), (F.celu, 0.0, "alpha cannot be 0")):
        compiled = explorer.compile(program)
        for k in (0.5, 0.25, 0.75):
            compiled(torch.ones(3), k)
        with pytest.raises(RuntimeError, match=says):
            compiled(torch.ones(3), refused)


@pytest.mark.parametrize("kind", ("AdamW", "Adagrad", "NAdam", "Adamax"))
def test_steps_of_optimizers_are_compiled(kind: str) -> None:
    """They hand operators a number that is the element of a tensor: the count of steps."""
    torch.manual_seed(0)
    models = [nn.Linear(3, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    plain, ours = (getattr(torch.optim, kind)(model.parameters()) for model in models)
    for model, step in zip(models, (plain.step, explorer.compile(ours.step)), strict=True):
        for n in range(3):
            model.zero_grad()
            model(torch.full((2, 3), float(n))).square().sum().backward()
            step()
    torch.testing.assert_close(list(models[0].parameters()), list(models[1].parameters()))
    assert not explorer.explore(ours.step, time=False)().eager
