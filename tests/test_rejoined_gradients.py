"""The gradients of a rejoined call: which there are, their layout, and what they accumulate into, against eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explorer
from reference_backend import Backend
from rejoined import leaf, plain


@pytest.mark.parametrize(
    "tangent",
    [
        lambda y: torch.ones(()).expand(y.shape),
        lambda y: torch.randn(y.shape[::-1]).t(),
        lambda y: torch.randn(*y.shape, 2)[..., 0],
        lambda y: None,
    ],
    ids=["expanded", "transposed", "strided", "none"],
)
def test_gradients_come_in_any_layout(tangent: Callable[[Tensor], Tensor | None]) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin(), x.cos()

    def run(f: Callable[..., Any]) -> Tensor:
        torch.manual_seed(0)
        x = leaf(3, 4)
        first, second = f(x)
        given = tangent(first)
        (gradient,) = torch.autograd.grad(
            [first, second] if given is not None else [second],
            [x],
            [given, torch.ones_like(second)] if given is not None else [torch.ones_like(second)],
        )
        return gradient

    torch._dynamo.reset()
    torch.testing.assert_close(run(torch.compile(function, backend=Backend())), run(function))


def test_accumulates_and_retains_like_eager() -> None:
    def run(wrap: Callable[..., Any]) -> Tensor:
        torch.manual_seed(0)
        w, f = leaf(3, 3), wrap(lambda w: (w @ w).relu())
        y = f(w)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        f(w).mean().backward()
        return w.grad

    torch._dynamo.reset()
    torch.testing.assert_close(run(lambda f: torch.compile(f, backend=Backend())), run(lambda f: f))


def test_parameter_changed_before_backward_is_noticed() -> None:
    w = leaf(3)
    torch._dynamo.reset()
    y = torch.compile(lambda w: (w * w).sin(), backend=Backend())(w)
    with torch.no_grad():
        w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_only_wanted_gradients_are_returned() -> None:
    a, b = leaf(3), leaf(3)
    torch._dynamo.reset()
    y = torch.compile(lambda a, b: a * b, backend=Backend())(a, b)
    (gradient,) = torch.autograd.grad(y.sum(), b)
    torch.testing.assert_close(gradient, a)
    assert a.grad is None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(F.relu(self.norm(self.conv(x))))
        return self.out(F.avg_pool2d(x, 4).flatten(1))


def test_training_steps_with_norm_and_dropout() -> None:
    def run(wrap: Callable[..., Any]) -> list[Tensor]:
        torch.manual_seed(0)
        net = Net()
        step = wrap(lambda x, t: F.cross_entropy(net(x), t))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            loss = step(torch.randn(5, 2, 4, 4), torch.tensor([0, 1, 2, 1, -100]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [loss.detach(), *net.state_dict().values()]

    torch._dynamo.reset()
    for left, right in zip(run(lambda f: torch.compile(f, backend=Backend())), run(lambda f: f), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_outer_autocast() -> None:
    def run(wrap: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        w, x = leaf(4, 4), plain(3, 4)
        f = wrap(lambda x, w: (F.linear(x, w), x.sum()))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y, total = f(x, w)
        y.float().sum().backward()
        return [y.detach(), total, w.grad]

    torch._dynamo.reset()
    for left, right in zip(run(lambda f: torch.compile(f, backend=Backend())), run(lambda f: f), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize(
    "held",
    [lambda w: (w,), lambda w: {0: w}.values(), lambda w: {w}, lambda w: (each for each in [w]), lambda w: {w: 0}],
    ids=["tuple", "values", "set", "generator", "keys"],
)
def test_a_gradient_of_a_tensor_that_the_function_made_however_it_is_held(held):
    def fn(x):
        made = x * 1
        loss = (made**3).sum()
        return torch.autograd.grad(loss, held(made), create_graph=True, allow_unused=True)

    def outcome(call):
        try:
            return [each.tolist() for each in call(torch.arange(3.0, requires_grad=True))]
        except RuntimeError as error:
            return str(error)

    assert outcome(explorer.compile(fn)) == outcome(fn)


PRODUCTS = {
    "all": lambda x: x.prod(),
    "over a dimension": lambda x: x.prod(-1),
    "kept": lambda x: x.prod(0, keepdim=True),
    "masked": lambda x: torch.masked.prod(x, mask=x != 3),
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_the_gradient_of_a_product_is_a_quotient_where_no_factor_is_zero(product):
    compiled = explorer.compile(product)
    for factors in itertools.product((2.0, 0.0, torch.inf, torch.nan, 3.0), repeat=3):
        grads = []
        for call in (product, compiled):
            x = torch.tensor([factors, (1.0, 2.0, 4.0)], requires_grad=True)
            call(x).sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(*grads, equal_nan=True)


def retained(x, h, y):
    h.retain_grad()
    y.backward()
    return h.grad


def asked_of_backward(x, h, y):
    y.backward(inputs=[h])
    return h.grad


def asked_of_the_module(x, h, y):
    torch.autograd.backward([y], None, False, False, None, [h, x])
    return h.grad, x.grad


def asked_again(x, h, y):
    (first,) = torch.autograd.grad(y, h, create_graph=True)
    return torch.autograd.grad(first.sum(), h)


@pytest.mark.parametrize(
    "ask", [retained, asked_of_backward, asked_of_the_module, asked_again], ids=lambda f: f.__name__
)
def test_a_gradient_inside_the_graph_is_eagers_and_the_rest_is_compiled(ask):
    def step(x, optimizer):
        h = x * 2
        y = h.exp().sum()
        found = ask(x, h, y)
        x.grad = x.detach() * 3
        optimizer.step()
        return found

    def given():
        x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
        return x, torch.optim.SGD([x], lr=0.1)

    def after(call):
        x, optimizer = given()
        return call(x, optimizer), x

    torch.testing.assert_close(after(explorer.compile(step)), after(step))
    record = explorer.explore(step)(*given())
    assert "a gradient of a tensor that the same graph makes" in str(record)
    assert record.kernels


def _changed_between(change: Callable[[torch.nn.Module], object], run: Callable[..., Any], dtype: torch.dtype) -> Any:
    """The gradients where a module's data changes between the forward and the backward."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 3).to(dtype)
    x = torch.linspace(-1, 1, 6, dtype=dtype).reshape(2, 3).requires_grad_()
    try:
        result = run(x, layer.weight, layer.bias)
        change(layer)
        result.sum().backward()
    except RuntimeError as error:
        return str(error)
    return x.grad, layer.weight.grad, layer.bias.grad


OTHER_DATA: dict[str, Callable[[torch.nn.Module], object]] = {
    "other values": lambda m: setattr(m.weight, "data", m.weight.data * 3),
    "fewer elements": lambda m: [setattr(p, "data", torch.ones(1)) for p in m.parameters()],
    "of another dtype": lambda m: m.to(torch.float16),
    "there and back": lambda m: m.double().float(),
    "a part": lambda m: setattr(m.bias, "data", m.bias.data[:1].clone()),
}


@pytest.mark.parametrize("change", OTHER_DATA)
@pytest.mark.parametrize(
    "run",
    (
        lambda x, w, b: torch.nn.functional.linear(x, w, b).tanh(),
        lambda x, w, b: x * b * b,
        lambda x, w, b: (x @ w).sin() * b,
        lambda x, w, b: torch.nn.functional.layer_norm(x, (3,), b, b),
    ),
)
def test_a_backward_after_a_tensor_was_given_other_data(run: Callable[..., Any], change: str) -> None:
    """It reads what eager's backward reads, and never past the end of the new data."""
    eager = _changed_between(OTHER_DATA[change], run, torch.float32)
    ours = _changed_between(OTHER_DATA[change], explorer.compile(run), torch.float32)
    if not isinstance(eager, str):  # one kernel of eager's refuses what several broadcast
        torch.testing.assert_close(ours, eager)
