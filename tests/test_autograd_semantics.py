"""What a caller can see of a rejoined call: values, strides, aliases, writes, versions and gradients, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reference_backend import Backend, compiled, symbolic
from rejoined import compare, inner, leaf, plain, seen

CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {}

RESTRIDED = "transposes_in_place transposes_differentiable_in_place transposes_and_writes unsqueezes_in_place".split()
"""Captured by fx.symbolic_trace: Dynamo refuses to."""


def case(*makers: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = function, lambda: [make() for make in makers]
        return function

    return register


@case(lambda: plain(3, 4))
def writes_plain_input(x):
    x.add_(1)
    return x * 2


@case(lambda: plain(3, 4), lambda: leaf(3, 4))
def writes_plain_input_in_training(x, w):
    x.add_(1)
    return (x * w).sum()


@case(lambda: inner(3, 4), lambda: leaf(4))
def writes_differentiable_input(x, w):
    x.mul_(w)
    return x.sum(0)


@case(lambda: plain(4), lambda: leaf(4))
def buffer_starts_to_require_grad(buffer, w):
    buffer.add_(w * w)
    return buffer * 2


@case(lambda: leaf(4))
def writes_parameter_without_grad(w):
    with torch.no_grad():
        w.add_(1.0)
    return w * w


@case(lambda: leaf(4))
def writes_through_detach(w):
    w.detach().mul_(2.0)
    return w * w


@case(lambda: inner(4, 4), lambda: leaf(4))
def writes_view_of_differentiable_input(x, w):
    x[1].mul_(w)
    x[:, 0] = 0.0
    return x.sin()


@case(lambda: plain(4, 4))
def writes_many_views(x):
    x[0] = 1.0
    x.t()[1].mul_(3.0)
    x.view(-1)[5:7].zero_()
    x.diagonal().add_(1.0)


@case(lambda: plain(4), lambda: leaf(4))
def reads_before_write(buffer, w):
    before = (buffer + w).sin()
    buffer.copy_(w.detach())
    return before + buffer


@case(lambda: inner(4), lambda: leaf(4))
def writes_twice(x, w):
    x.mul_(w)
    with torch.no_grad():
        x.mul_(2.0)
    x.add_(w)
    return x.exp()


@case(lambda: plain(3, 4))
def transposes_in_place(x):
    x.t_()
    return x * 2


@case(lambda: inner(3, 4))
def transposes_differentiable_in_place(x):
    x.t_()
    return x.sum(0)


@case(lambda: plain(3, 4))
def transposes_and_writes(x):
    x.t_().add_(1.0)
    return x + 1


@case(lambda: plain(3, 4))
def unsqueezes_in_place(x):
    x.unsqueeze_(0)
    return x


@case(lambda: leaf(3, 4))
def intermediate_in_place(x):
    y = x * 2
    y.neg_()
    y[0].mul_(3.0)
    y[:, 1:3] += x[:, 1:3]
    y.relu_()
    return y


@case(lambda: plain(5), lambda: torch.tensor([0, 2]), lambda: leaf(2))
def index_put_in_place(x, i, v):
    y = x.clone()
    y[i] = v
    return y


@case(lambda: plain(4))
def write_cancels(x):
    x.add_(1)
    x.sub_(1)
    return x.clone()


@case(lambda: plain(3, 4))
def returns_input(x):
    return x, x + 1, x


@case(lambda: leaf(3, 4))
def returns_views_of_parameter(x):
    return x.t(), x[1], x.view(-1), x.detach(), x.expand(2, 3, 4), (x * 2).sum()


@case(lambda: inner(3, 4))
def returns_written_input_and_view(x):
    x.mul_(2)
    return x, x[0], x.t()


@case(lambda: plain(3, 4))
def returns_plain_views(x):
    y = x * 2
    return y, y[0], y.t(), x.unsqueeze(0)


@case(lambda: leaf(3, 4))
def returns_views_of_intermediate(x):
    y = x * 2
    return y.view(-1), y.t(), y[1:]


@case(lambda: leaf(3, 4))
def returns_intermediate_and_views(x):
    y = x.exp()
    return y, y[1], y.t()


@case(lambda: leaf(3, 4))
def returns_intermediate_and_detached(x):
    y = x.exp()
    return y, y.detach(), y[0].detach()


@case(lambda: leaf(6, 2))
def returns_split(x):
    y = x * 3
    return torch.split(y, 2), x.chunk(3), y.unbind(1)


@case(lambda: leaf(4, 3), lambda: leaf(5, 3))
def returns_views_of_matmul(a, b):
    y = F.linear(a[None], b)
    return y, y[0], y.transpose(0, 1)


@case(lambda: leaf(3))
def returns_same_result_twice(x):
    y = x.sin()
    return y, y, {"again": y}


@case(lambda: leaf(3))
def returns_equal_results(x):
    return x.sin(), x.sin()


@case(lambda: leaf(3))
def returns_clones(x):
    y = x.sin()
    return y, y.clone(), x.clone()


@case(lambda: leaf(3, 4))
def view_under_no_grad(x):
    with torch.no_grad():
        y = x.view(-1)
    return y, x * 2


@case(lambda: plain(4, 4))
def as_strided_view(x):
    return x.as_strided((2, 2), (4, 1), 1), x.cos()


@case(lambda: plain(2, 3))
def expanded_result(x):
    return (x + 1).unsqueeze(1).expand(2, 5, 3)


@case(lambda: leaf(3, 4))
def mixed_results(x):
    return x.argmax(1), x > 0, None, 3, (x * 2).detach(), x.exp(), "text"


@case(lambda: leaf(3, 4))
def nothing_differentiable(x):
    return x.argmax(), (x > 0).sum()


@case(lambda: leaf(3, 4))
def no_grad_region(x):
    with torch.no_grad():
        z = x * 2
    return x * z, z


@case(lambda: leaf(3, 4), lambda: leaf(3, 4))
def detached_path(x, y):
    return (x.detach() * y).sum(), x


@case(lambda: leaf(3, 4), lambda: leaf(4))
def unused_parameter(x, w):
    return x.sin()


@case(lambda: leaf(3, 4))
def gradient_is_the_tangent(x):
    return x + 1, x.sum()


@case(lambda: leaf(3), lambda: leaf(3))
def gradient_twice_the_same(x, y):
    return x + y


@case(lambda: leaf(2, 3, 5, 5).to(memory_format=torch.channels_last), lambda: leaf(4, 3, 3, 3))
def channels_last(x, w):
    return F.relu(F.conv2d(x, w, padding=1))


@case(lambda: leaf(3, 4).t())
def transposed_input(x):
    return x * 2, (x + 1).sum(1)


@case(lambda: leaf(2, 3), lambda: leaf(4, 3), lambda: leaf(4))
def autocast_inside(x, w, b):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, w, b)
    return y.float() + 1, y


@case(lambda: leaf(2, 3), lambda: leaf(3, 3))
def weight_cast_twice(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ w) @ w


@case(lambda: torch.randn(3, 4, dtype=torch.bfloat16, requires_grad=True))
def bfloat16(x):
    return F.softmax(F.gelu(x), -1), F.layer_norm(x, (4,))


@case(lambda: torch.randint(0, 5, (3, 4)), lambda: leaf(5, 2))
def embedding_of_integers(i, w):
    return F.embedding(i, w).sum(1), i + 1


@case(lambda: leaf(6))
def constant_tensor(x):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) + torch.tensor(2.0)


@case(lambda: leaf(4), lambda: leaf(4), lambda: leaf(4))
def double_use(a, b, c):
    shared = a * b
    return (shared + c) * shared, shared * c


@pytest.mark.parametrize("name", CASES)
def test_like_eager(name: str) -> None:
    function, inputs = CASES[name]
    expected = seen(function, inputs)
    torch._dynamo.reset()
    if name in RESTRIDED:
        call = compiled(symbolic(function, *inputs())).call
        actual = seen(lambda *given: call(*given), inputs)
    else:
        actual = seen(torch.compile(function, backend=Backend(), fullgraph=True), inputs)
    compare(actual, expected)


def test_result_and_its_view_stay_one_tensor() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y.view(-1), y.t()

    def run(f: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        flat, turned = f(x)
        flat.mul_(torch.arange(6.0))
        (turned * torch.arange(6.0).reshape(3, 2)).sum().backward()
        return turned.detach(), x.grad

    torch._dynamo.reset()
    for left, right in zip(run(torch.compile(function, backend=Backend())), run(function), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2)[0],
        lambda x: (x * 2).t(),
        lambda x: (x + x.mean(1, keepdim=True)).view(-1)[1:],
        lambda x: (x * 2).unsqueeze(0).permute(2, 0, 1),
    ],
)
def test_results_may_be_written(function: Callable[[Tensor], Tensor]) -> None:
    def run(f: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        x = leaf(3, 4)
        y = f(x)
        y.mul_(3.0)
        y[0] = 0.0
        (y * torch.arange(float(y.numel())).reshape(y.shape)).sum().backward()
        return y.detach(), x.grad

    torch._dynamo.reset()
    for left, right in zip(run(torch.compile(function, backend=Backend())), run(function), strict=True):
        torch.testing.assert_close(left, right)


def test_view_of_input_follows_later_writes() -> None:
    x = inner(3, 4)
    torch._dynamo.reset()
    view = torch.compile(lambda x: x[1], backend=Backend())(x)
    view.mul_(2.0)
    assert view._base is x
    x.sum().backward()


def test_inference_tensors_and_inference_mode() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.add_(1) * 2, backend=Backend())
    with torch.inference_mode():
        x = torch.zeros(3)
        y = compiled(x)
        assert y.is_inference()
    torch.testing.assert_close(y, torch.full((3,), 2.0))


def test_random_numbers_are_eagers() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        torch.rand(3)
        noise = torch.randn_like(x)
        return F.dropout(x, 0.3) + noise, torch.bernoulli(x.detach().sigmoid()), torch.randint(0, 9, (4,))

    def run(f: Callable[..., Any]) -> list[Tensor]:
        x = torch.linspace(-1, 1, 32).requires_grad_()
        torch.manual_seed(5)
        results = f(x)
        (results[0] * torch.arange(32.0)).sum().backward()
        return [*[r.detach() for r in results], torch.rand(2), x.grad]

    torch._dynamo.reset()
    for left, right in zip(run(torch.compile(function, backend=Backend())), run(function), strict=True):
        assert torch.equal(left, right)


def dynamic_cases() -> dict[str, Callable[..., Any]]:
    def sizes_as_results(x, w):
        return (x * w).sum(0), x.shape[0], x.shape[0] * 2 + 1

    def views_by_size(x, w):
        y = x * w
        return y.view(-1), y.t(), x.view(x.shape[1], x.shape[0])

    def means_and_factories(x, w):
        mask = torch.ones(x.shape[0], x.shape[0]).tril()
        return mask @ (x - x.mean(0)) * w, torch.arange(x.shape[0])

    def writes_by_size(x, w):
        y = x.clone()
        y[: x.shape[0] // 2] = 0.0
        return F.softmax(F.layer_norm(y * w, (4,)), 0), y.reshape(2, -1)

    return {f.__name__: f for f in (sizes_as_results, views_by_size, means_and_factories, writes_by_size)}


@pytest.mark.parametrize("name", dynamic_cases())
def test_symbolic_sizes(name: str) -> None:
    function = dynamic_cases()[name]
    torch._dynamo.reset()
    backend = Backend()
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=True)
    for rows in (6, 10, 14):
        inputs = lambda rows=rows: [leaf(rows, 4), leaf(4)]  # noqa: E731
        compare(seen(compiled, inputs), seen(function, inputs))
    assert len(backend.plans) == 1
