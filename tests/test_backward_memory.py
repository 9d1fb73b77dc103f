"""A backward frees each saved tensor after its last use, as eager's does node by node."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import accumulate
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import explorer
from explorer.records.check.profile import _recorded

SLACK = 1 / 20
"""Of eager's peak: what a compiled backward may hold beyond it."""


class Block(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        attended = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.after(x))))


class Residual(nn.Module):
    def __init__(self, depth: int = 24, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + F.gelu(layer(norm(x)))
        return x


class Pieces(nn.Module):
    """Each layer compiled by itself: what one keeps is the input of the next."""

    def __init__(self, compile: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Dropout()) for _ in range(6))
        self.compiled = [compile(layer) for layer in self.layers]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.compiled:
            x = layer(x)
        return x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[1], 32)
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], (h, c))
        return h


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


Build = Callable[[Callable[[Any], Any]], Any]
MODELS: dict[str, tuple[Build, Callable[[], Tensor]]] = {
    "24 layers": (lambda c: c(Residual()), lambda: torch.randn(128, 64)),
    "linear and relu": (
        lambda c: c(nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(64, 64), nn.ReLU())])),
        lambda: torch.randn(512, 64),
    ),
    "transformer blocks": (lambda c: c(nn.Sequential(Block(), Block())), lambda: torch.randn(4, 32, 32)),
    "convolutions": (lambda c: c(convolutions()), lambda: torch.randn(8, 3, 32, 32)),
    "pieces": (Pieces, lambda: torch.randn(512, 64)),
    "recurrent": (lambda c: c(Recurrent()), lambda: torch.randn(6, 64, 32)),
}


def changes(call: Callable[[], Any]) -> list[int]:
    """What torch's allocator gave and got back in a call."""
    recorded = _recorded(call)
    return [each.cpu_memory_usage() for thread in recorded for each in thread if each.kind() == "memory_alloc"]


def peak(call: Callable[[], Any]) -> int:
    return max(0, *accumulate(changes(call)))


def measured(name: str, compile: Callable[[Any], Any], retain: bool) -> tuple[int, int, list[Tensor]]:
    """The most bytes in a backward alone and in a whole step, and the gradients."""
    build, given = MODELS[name]
    torch.manual_seed(0)
    model, x = build(compile), given()
    parameters = list(model.parameters())

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(x).square().mean()

    def step() -> None:
        loss().backward()

    step()
    for each in parameters:
        each.grad = None
    gc.collect()
    made: list[Tensor] = []
    changes(lambda: made.append(loss()))  # what is given back counts only where a profile saw that it was taken
    backward = peak(lambda: made[0].backward(retain_graph=retain))
    found = [each.grad.clone() for each in parameters]
    if retain:
        made[0].backward()
        found += [each.grad for each in parameters]
    made.clear()
    for each in parameters:
        each.grad = None
    return backward, peak(step), found


@pytest.mark.parametrize("retain", [False, True], ids=["freed", "retained"])
@pytest.mark.parametrize("name", MODELS)
def test_a_backward_holds_no_more_than_that_of_eager(name: str, retain: bool) -> None:
    backward, step, gradients = measured(name, explorer.compile, retain)
    of_eager, step_of_eager, expected = measured(name, lambda f: f, retain)
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    assert backward <= (1 + SLACK) * of_eager, f"backward: {backward:,} bytes, eager {of_eager:,}"
    assert step <= (1 + SLACK) * step_of_eager, f"step: {step:,} bytes, eager {step_of_eager:,}"


def gradient(of: Tensor, at: Tensor) -> None:
    torch.autograd.grad(of.sum(), at)


def test_what_a_later_backward_needs_is_kept_and_no_more() -> None:
    """Of two results that share nothing, a backward from one frees what only it needs."""

    def two(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(x @ x).exp() @ x, torch.tanh(y @ y).exp() @ y

    def left(f: Callable[..., Any]) -> list[int]:
        x, y = (torch.randn(64, 64, requires_grad=True) for _ in range(2))
        f(x, y)[0].sum().backward()
        made: list[tuple[Tensor, Tensor]] = []
        held = [sum(changes(lambda: made.append(f(x, y))))]
        for k, of in enumerate((x, y)):
            held.append(held[-1] + sum(changes(partial(gradient, made[0][k], of))))
        return [n // (64 * 64 * 4) for n in held]

    before, between, after = left(explorer.compile(two))
    assert after == 2, "the two results"
    assert before - between == between - after > 0


class Refused(Exception):
    pass


def refuses(gradient: Tensor) -> None:
    raise Refused


def twice(x: Tensor, y: Tensor) -> str:
    y.sum().backward()
    return said(y.sum().backward)


def after_an_error(x: Tensor, y: Tensor) -> str:
    handle = x.register_hook(refuses)
    first = said(y.sum().backward)
    handle.remove()
    return first + said(y.sum().backward)


def written(x: Tensor, y: Tensor) -> str:
    y.detach().mul_(2)
    return said(y.sum().backward)


def retained_and_written(x: Tensor, y: Tensor) -> str:
    y.sum().backward(retain_graph=True)
    first = said(y.sum().backward)
    return first + said(y.sum().backward)


def graph_of_it_alone(x: Tensor, y: Tensor) -> str:
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True, retain_graph=False)
    return said(y.sum().backward)


def said(run: Callable[[], Any]) -> str:
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(':')[0]}. "
    return "fine. "


@pytest.mark.parametrize("hooks", [False, True], ids=["plain", "saved tensors packed"])
@pytest.mark.parametrize("program", [twice, after_an_error, written, retained_and_written, graph_of_it_alone])
def test_what_is_freed_is_missed_as_in_eager(program: Callable[[Tensor, Tensor], str], hooks: bool) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.tanh(x @ w).exp()

    def outcome(f: Callable[..., Any]) -> tuple[str, Tensor | None]:
        x, w = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
        packing = torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda t: t) if hooks else nullcontext()
        with packing:
            y = f(x, w)
        return program(x, y), x.grad

    (ours, gradient), (eager, expected) = outcome(explorer.compile(f)), outcome(f)
    assert ours == eager
    torch.testing.assert_close(gradient, expected)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool, rate: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.Dropout(rate), nn.LayerNorm(64))
            for _ in range(4)
        )
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


def stepped(run: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor) -> list[Tensor | None]:
    model.zero_grad()
    x.grad = None
    torch.manual_seed(1)
    run(x).square().mean().backward()
    return [x.grad, *(each.grad for each in model.parameters())]


@pytest.mark.parametrize("rate", [0.0, 0.25])
@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_computes_again_is_not_kept(reentrant: bool, rate: float) -> None:
    torch.manual_seed(0)
    model = Checkpointed(reentrant, rate)
    x = torch.randn(512, 64, requires_grad=True)
    compiled = explorer.compile(model, fullgraph=True)
    for ours, eager in zip(stepped(compiled, model, x), stepped(model, model, x), strict=True):
        assert ours is not None and eager is not None
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    plain = explorer.compile(lambda y: _without(model, y), fullgraph=True)
    stepped(plain, model, x)
    most = {
        name: peak(partial(stepped, run, model, x))
        for name, run in (("ours", compiled), ("eager", model), ("without", plain))
    }
    masks = 4 * x.numel() if rate else 0  # eager draws the same numbers again; one byte each is kept
    assert most["ours"] <= (1 + SLACK) * most["eager"] + masks
    assert most["ours"] < 0.7 * most["without"]


def _without(model: Checkpointed, x: Tensor) -> Tensor:
    for layer in model.layers:
        x = x + layer(x)
    return x


def test_a_record_says_what_a_checkpoint_has_computed_again() -> None:
    model = Checkpointed(False)
    record = explorer.explore(model, time=False)(torch.randn(8, 64))
    assert "recomputed: inside a checkpoint" in record.text()


def test_a_selective_checkpoint_is_decided_for_the_graph_as_a_whole() -> None:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE

    layer, x = nn.Linear(8, 8), torch.randn(4, 8, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, policy)

    def call(x: Tensor) -> Tensor:
        return checkpoint(layer, x, use_reentrant=False, context_fn=contexts)

    (eager,) = torch.autograd.grad(call(x).sin().sum(), x)
    (ours,) = torch.autograd.grad(explorer.compile(call)(x).sin().sum(), x)
    torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("made", ["x[:1]", "x * 1", "x.detach().clone()", "x", "w", "w.detach().requires_grad_()"])
@pytest.mark.parametrize("reads", ["a.relu_() * 1", "a.exp_() + w", "a * w", "a.sigmoid_().mul(w)", "a.add_(w) * 2"])
def test_an_input_that_was_written_and_is_gone_is_missed_as_in_eager(made: str, reads: str) -> None:
    """A backward that needs what it held then is refused: what counts its writes outlives it, its memory does not."""
    exec(f"def reading(a, w):\n    return {reads}", space := {})
    found = []
    for function in (space["reading"], explorer.compile(space["reading"])):
        w = torch.full((2, 3), 0.5, requires_grad=True)
        x = torch.linspace(-1, 2, 6).view(2, 3).requires_grad_() * 1
        given = eval(made, {"x": x, "w": w})
        try:
            result = function(given, w[: given.shape[0]])
            with torch.no_grad():
                given.mul_(2)
            given = x = None
            result.sum().backward()
            found.append(w.grad)
        except RuntimeError as error:
            found.append(str(error)[:40])
    assert str(found[0]) == str(found[1])
