"""Gradients of outputs that other outputs are computed from: looked at by hooks, retained, asked for, or by nobody."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from explorer.compiler.autograd.backward import Backward


def chain(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    found = []
    for scale in (1.0, 0.5, 2.0):
        x = (x * w * scale).tanh()
        found.append(x)
    return (*found, x.sum())


def infinite(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    h = (x - x).sqrt()
    return h, (h * w).sum() + x.sum()


def writes_first(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        w.mul_(2)
    return x.sin(), w.exp(), x * w


PROGRAMS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]] = {
    "one": lambda x, w: (h := x.exp(), (h * w).sum()),
    "two before": lambda x, w: (a := x.sin(), b := a * w + x, (b * a).tanh()),
    "through a view": lambda x, w: (h := x * w, h.view(-1).exp().sum()),
    "side by side": lambda x, w: (a := x.sin(), b := w.cos(), (a * b).sum()),
    "chain": chain,
    "apart": lambda x, w: (x.sin(), w.cos()),
    "apart, with a later one": lambda x, w: (x.sin(), h := w.cos(), (h * w).sum()),
    "only another input": lambda x, w: (h := x * 2, (h.detach() * w).sum() + h.sum()),
    "results of one call": lambda x, w: (*(rows := (x * w).unbind()), (rows[0] * rows[1]).sum()),
    "one of these": lambda x, w: ((rows := (x * w).unbind())[0], (rows[0] * rows[1]).sum()),
    "in between written": lambda x, w: (h := (x * w).mul_(2).add_(1), h.pow(2).sum()),
    "a view of a view": lambda x, w: ((v := (x * w).view(3, 2))[0], v, v[0].exp().sum() + v.sum()),
    "of a view of a view": lambda x, w: (v := (x @ w.T).view(-1), row := v[1:3], row * 2),
    "views between results": lambda x, w: (
        v := (x @ w.T).view(-1),
        p := v.view(2, 2),
        row := p[0],
        s := row * 2,
        t := s.view(2, 1),
        last := t[1],
        last.exp(),
    ),
    "an infinite derivative": infinite,
    "an input written": writes_first,
    "random": lambda x, w: (h := torch.dropout(x * w, 0.5, True), (torch.dropout(h, 0.5, True) * x).sum()),
}


def gradients(*values: Tensor) -> list[Tensor | None]:
    return [each.grad for each in values]


def retained(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    for each in outputs[:-1]:
        each.retain_grad()
    outputs[-1].sum().backward()
    return gradients(*inputs, *outputs[:-1])


def only_the_first(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    outputs[0].retain_grad()
    (outputs[0].sum() * 3 + outputs[-1].sum()).backward()
    return gradients(outputs[0], *inputs)


def hooked(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    seen: dict[int, Tensor] = {}
    for k, each in enumerate(outputs):
        each.register_hook(lambda g, k=k: seen.setdefault(k, g * (k + 2)))
    outputs[-1].sum().backward()
    return [*gradients(*inputs), *(seen[k] for k in sorted(seen))]


def hooked_and_gone(outputs: list[Tensor], inputs: list[Tensor]) -> object:
    seen: list[Tensor] = []
    outputs[0].register_hook(lambda g: seen.append(g.clone()))
    last = outputs[-1].sum()
    outputs.clear()
    last.backward()
    return gradients(*inputs), seen


def hook_removed(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    outputs[0].register_hook(lambda g: g * 100).remove()
    outputs[-1].sum().backward()
    return gradients(*inputs)


def asked_for(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    last = outputs[-1].sum()
    both = torch.autograd.grad(last, [*outputs[:-1], *inputs], retain_graph=True, allow_unused=True)
    alone = torch.autograd.grad(last, outputs[:-1], retain_graph=True, allow_unused=True)
    return both, alone, torch.autograd.grad(last, inputs, allow_unused=True)


def asked_by_edge(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    edges = [torch.autograd.graph.get_gradient_edge(each) for each in outputs[:-1]]
    last = outputs[-1].sum()
    del outputs
    return torch.autograd.grad(last, edges, allow_unused=True)


def accumulated(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    last = outputs[-1].sum()
    last.backward(inputs=[outputs[0]], retain_graph=True)
    last.backward(inputs=inputs[:1])
    return gradients(outputs[0], *inputs)


def twice(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    outputs[0].retain_grad()
    outputs[-1].sum().backward(retain_graph=True)
    outputs[0].sum().backward(retain_graph=True)
    outputs[-1].sum().backward()
    return gradients(outputs[0], *inputs)


def second_derivative(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    first = torch.autograd.grad(outputs[-1].sum(), [outputs[0], inputs[1]], create_graph=True, allow_unused=True)
    sum(each.pow(2).sum() for each in first if each is not None).backward()
    return first, gradients(*inputs)


def unobserved(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    sum(each.sum() for each in outputs).backward()
    return gradients(*inputs)


def written(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    y = outputs[0].mul_(2)
    y.retain_grad()
    (y.sum() + outputs[-1].sum() * 0).backward()
    return gradients(y)


class Stops(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> None:
        return None


def no_gradient(outputs: Sequence[Tensor], inputs: list[Tensor]) -> object:
    Stops.apply(outputs[-1]).sum().backward()  # type: ignore[no-untyped-call]
    return gradients(*inputs)


LOOKS = (
    retained, only_the_first, hooked, hooked_and_gone, hook_removed, asked_for, asked_by_edge, accumulated, twice,
    second_derivative, unobserved, written, no_gradient,
)  # fmt: skip


def test_a_backward_to_inputs_alone_runs_no_graph_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[object] = []
    up_to = Backward.up_to
    monkeypatch.setattr(Backward, "up_to", lambda self, *args: (again.append(args), up_to(self, *args))[1])
    x, w = (torch.ones(2, 3, requires_grad=True) for _ in "xw")
    h, y = explorer.compile(PROGRAMS["one"])(x, w)
    torch.autograd.grad(y, (x, w), retain_graph=True)
    y.backward(inputs=[x], retain_graph=True)
    assert not again
    torch.autograd.grad(y, (x, h))
    assert again


def outcome(run: Callable[..., Any], look: Callable[..., Any]) -> Any:
    torch.manual_seed(0)
    inputs = [torch.linspace(*ends, 6).view(2, 3).clone().requires_grad_() for ends in ((0.1, 1.4), (2, -1))]
    try:
        return look([*run(*inputs)], inputs)
    except RuntimeError as error:
        return str(error)[:40]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_on_the_way_are_eagers(name: str, look: Callable[..., Any]) -> None:
    run = PROGRAMS[name]
    ours, eager = outcome(explorer.compile(run), look), outcome(run, look)
    assert type(ours) is type(eager)
    if not isinstance(eager, str):
        torch.testing.assert_close(ours, eager, equal_nan=True)


def test_nothing_is_kept_alive() -> None:
    compiled = explorer.compile(chain)
    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    compiled(x, w)
    gc.disable()
    try:
        for backward in (False, True):
            outputs = compiled(x, w)
            alive = [weakref.ref(each) for each in outputs]
            if backward:
                outputs[-1].backward()
            del outputs
            assert [each() for each in alive] == [None] * len(alive)
    finally:
        gc.enable()
