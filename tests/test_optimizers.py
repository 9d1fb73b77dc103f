"""Optimizers compiled: step() alone and whole training steps, in as few graphs as stock or fewer, beside eager."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import explorer

STEPS = 20
SETTINGS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"lr": 0.01},
    "Adam amsgrad": {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1},
    "Adam lr": {"lr": torch.tensor(0.01)},
    "AdamW": {"lr": 0.01, "maximize": True},
    "RMSprop": {"lr": 0.01, "centered": True, "momentum": 0.9},
    "Adagrad": {"lr": 0.01},
    "Adadelta": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Rprop": {},
    "ASGD": {},
}
GRAPHS = {"SGD momentum": 2}
"""What the first step makes is a graph of its own where no state is made before it."""


class Counting:
    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: Any, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return module.forward  # type: ignore[no-any-return]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def batch(step: int) -> torch.Tensor:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step))


def optimizer(name: str, parameters: Any, **options: Any) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, name.partition(" ")[0])
    return kind(parameters, **copy.deepcopy(SETTINGS[name]), **options)  # type: ignore[no-any-return]


def steps_alone(name: str, compile: Callable[[Any], Any], **options: Any) -> list[torch.Tensor]:
    model = net()
    made = optimizer(name, model.parameters(), **options)
    step = compile(lambda: made.step())
    for number in range(STEPS):
        made.zero_grad()
        model(batch(number)).square().mean().backward()
        step()
    return [p.detach() for p in model.parameters()]


def whole_steps(name: str, compile: Callable[[Any], Any], finish: Callable[[nn.Module], Any]) -> list[torch.Tensor]:
    model = net()
    halves = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.02}]  # type: ignore[index]
    made = optimizer(name, halves)

    def train(x: torch.Tensor) -> torch.Tensor:
        made.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        finish(model)
        made.step()
        return loss

    compiled = compile(train)
    return [*(compiled(batch(number)).detach() for number in range(STEPS)), *(p.detach() for p in model.parameters())]


def close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_step_is_one_graph(name: str, foreach: bool | None) -> None:
    if foreach and name == "Adam lr":
        pytest.skip("eager refuses it")
    counting = Counting()
    found = steps_alone(name, lambda f: explorer.compile(f, backend=counting, fullgraph=True), foreach=foreach)
    close(found, steps_alone(name, lambda f: f, foreach=foreach))
    assert counting.graphs <= GRAPHS.get(name, 1)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_step(name: str) -> None:
    close(steps_alone(name, explorer.compile, fused=True), steps_alone(name, lambda f: f, fused=True))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
@pytest.mark.parametrize(
    "finish, most",
    [
        (lambda model: None, 2),
        (lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1), 3),
        (lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.1), 3),
    ],
    ids=["plain", "norm", "value"],
)
def test_a_whole_step_takes_as_many_graphs_as_stock(name: str, finish: Callable[[nn.Module], Any], most: int) -> None:
    """Forward and step; with clipping in the graph of the step, the first step, which makes the state, has its own."""
    counting = Counting()
    found = whole_steps(name, lambda f: explorer.compile(f, backend=counting), finish)
    close(found, whole_steps(name, lambda f: f, finish))
    assert counting.graphs <= most


@pytest.mark.parametrize("name", ["Adam", "SGD momentum"])
def test_generated_code(name: str) -> None:
    close(steps_alone(name, explorer.compile), steps_alone(name, lambda f: f))


def test_a_step_that_code_of_torch_takes_is_compiled() -> None:
    """A GradScaler reads whether the gradients are finite, where the graph breaks, and then calls step()."""
    ran: list[str] = []

    def backend(module: Any, inputs: list[Any]) -> Callable[..., Any]:
        ran.extend(str(node.target) for node in module.graph.nodes)
        return module.forward  # type: ignore[no-any-return]

    def steps(compile: Callable[[Any], Any]) -> list[torch.Tensor]:
        model = net()
        made, scaler = optimizer("Adam", model.parameters()), torch.amp.GradScaler("cpu")

        def train(x: torch.Tensor) -> torch.Tensor:
            made.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x).square().mean()
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.step(made)
            scaler.update()
            return loss

        compiled = compile(train)
        return [*(compiled(batch(k)).detach() for k in range(STEPS)), *(p.detach() for p in model.parameters())]

    close(steps(lambda train: explorer.compile(train, backend=backend)), steps(lambda train: train))
    assert "lerp_" in ran
