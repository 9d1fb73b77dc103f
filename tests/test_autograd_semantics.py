"""What a caller can see of a rejoined call: values, strides, aliases, writes, versions and gradients, against eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explorer
from reference_backend import Backend, compiled, symbolic

CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {}
RESTRIDED = "transposes_in_place transposes_differentiable_in_place transposes_and_writes unsqueezes_in_place".split()
"""Captured by fx.symbolic_trace: Dynamo refuses to."""


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def inner(*shape: int) -> Tensor:
    """A tensor that requires grad and is no leaf, so that it may be written in place."""
    return leaf(*shape) * 1.0


def plain(*shape: int) -> Tensor:
    return torch.randn(*shape)


def case(*makers: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = function, lambda: [make() for make in makers]
        return function

    return register


# Writes.


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


# Results that share memory.


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


# Results that need no gradient, or are no tensors.


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


# Layouts, dtypes, regions.


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


def seen(function: Callable[..., Any], inputs: Callable[[], list[Any]]) -> dict[str, Any]:
    """Everything visible of one call and of a backward through all that it made differentiable."""
    torch.manual_seed(1)
    given = inputs()
    leaves = [g for tensor in given for g in grad_leaves(tensor)]
    versions = [tensor._version for tensor in given]
    torch.manual_seed(2)
    output = function(*given)
    results = flatten(output)
    tensors = [value for value in [*results, *given] if isinstance(value, Tensor)]
    facts = {
        "results": [fact(value) for value in results],
        "inputs": [fact(value) for value in given],
        "written": [tensor._version != before for tensor, before in zip(given, versions, strict=True)],
        "shared": sharing(tensors),
        "values": [value.detach().clone() for value in tensors],
    }
    live = [value for value in [*results, *given] if isinstance(value, Tensor) and value.grad_fn is not None]
    torch.manual_seed(3)
    if live:
        torch.autograd.backward(live, [torch.randn_like(value) for value in live])
    facts["gradients"] = [x.grad for x in leaves]
    facts["gradient strides"] = [None if x.grad is None else x.grad.stride() for x in leaves]
    return facts


def grad_leaves(tensor: Any) -> list[Tensor]:
    if not isinstance(tensor, Tensor) or not tensor.requires_grad:
        return []
    if tensor.is_leaf:
        return [tensor]
    found, pending = [], [tensor.grad_fn]
    while pending:
        grad_fn = pending.pop()
        if hasattr(grad_fn, "variable"):
            found.append(grad_fn.variable)
        pending += [f for f, _ in grad_fn.next_functions if f is not None]
    return found


def flatten(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in flatten(each)]
    return [value]


def fact(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    strides = value.stride() if value.numel() else ()
    return value.dtype, tuple(value.shape), strides, value.requires_grad, value.is_leaf


def sharing(tensors: list[Tensor]) -> list[tuple[int, int, int, bool]]:
    """(i, j, distance in bytes, same object) for each pair in one storage."""
    return [
        (i, j, b.data_ptr() - a.data_ptr(), a is b)
        for i, a in enumerate(tensors)
        for j, b in enumerate(tensors)
        if i < j and a.numel() and b.numel() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    ]


def compare(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("results", "inputs", "written", "shared"):
        assert actual[name] == expected[name], name
    for name in ("values", "gradients"):
        for left, right in zip(actual[name], expected[name], strict=True):
            assert (left is None) == (right is None), name
            if right is not None:
                loose = right.dtype is torch.bfloat16
                torch.testing.assert_close(left, right, rtol=2e-2 if loose else 1e-5, atol=2e-2 if loose else 1e-5)


# Results used further.


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


def test_inference_tensors_and_inference_mode() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.add_(1) * 2, backend=Backend())
    with torch.inference_mode():
        x = torch.zeros(3)
        y = compiled(x)
        assert y.is_inference()
    torch.testing.assert_close(y, torch.full((3,), 2.0))


# Modules.


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


# Symbolic sizes.


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
