"""TRACE: functional, attributed, pure; its decompositions equal the operators; what it refuses, it refuses by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from explorer.compiler.autograd import TRACE
from explorer.compiler.autograd.grad_functions import ACCUMULATION
from explorer.compiler.capture.import_fx_graph import import_fx_graph
from explorer.core.reasons import CATALOGUE, Unsupported
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Primal, Tangent
from loops_reference import run_graph
from reference_backend import captured, clean, compiled, symbolic


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


# Attribution.


def test_backward_operations_name_the_forward_call_that_caused_them() -> None:
    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        h = F.linear(x, w, b)
        h = F.gelu(h)
        return F.layer_norm(h, (5,))

    graph = symbolic(function, leaf(3, 4), leaf(5, 4), leaf(5))
    traced = TRACE(graph)
    ids = {str(node.target): info(node).id for node in graph.graph.nodes if node.op == "call_function"}
    linear, gelu, norm = (next(id for name, id in ids.items() if p in name) for p in ("linear", "gelu", "layer_norm"))
    cause: dict[str, set[str]] = {}
    flowing = {node for node in traced.forward.inputs if node.name.startswith("tangent")}
    for node in traced.forward.graph.nodes:
        if flowing.intersection(node.all_input_nodes) and node.op == "call_function":
            flowing.add(node)
            cause.setdefault(str(node.target), set()).update(info(node).origins)
    assert cause["aten.mm.default"] == {linear}
    assert cause["aten.mul.Tensor"] == {gelu, norm}
    assert ACCUMULATION not in set().union(*cause.values())


def test_accumulation_is_synthetic_and_everything_else_is_not() -> None:
    traced = TRACE(symbolic(lambda x: torch.sin(x) * torch.cos(x), leaf(3)))
    adds = [node for node in traced.forward.graph.nodes if node.target is torch.ops.aten.add.Tensor]
    assert [info(node).origins for node in adds] == [(ACCUMULATION,)]
    rest = [n for n in traced.forward.graph.nodes if n.op == "call_function" and n not in adds]
    assert all(id.startswith("fx.") for node in rest for id in info(node).origins)


def test_spans_come_from_the_captured_node() -> None:
    traced = TRACE(captured(lambda x: x.exp() * 2, leaf(3)))
    spans = {info(node).span for node in traced.forward.graph.nodes if node.op == "call_function"}
    assert {span.file for span in spans if span} == {__file__}


def test_eager_autograd_graph_is_recorded() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu().sum()

    graph = symbolic(function, leaf(3, 4), leaf(4, 5))
    eager = TRACE(graph).eager_backward
    assert [node.name for node in eager.nodes] == [
        "SumBackward0", "ReluBackward0", "MmBackward0", "AccumulateGrad", "AccumulateGrad"
    ]  # fmt: skip
    relu = eager.nodes[1]
    assert relu.origins == ("fx.relu",) and relu.inputs == ("grad.MmBackward0",)


# Purity.


def test_same_input_same_text_and_input_untouched() -> None:
    graph = captured(lambda x, w: F.softmax(F.linear(x, w), -1).sum(0), leaf(3, 4), leaf(5, 4))
    before = str(graph.text())
    first, second = TRACE(graph), TRACE(graph)
    assert str(graph.text()) == before
    assert str(first.text()) == str(second.text())
    text = str(first.text())
    assert str(clean(first).text()) == str(clean(second).text())
    assert str(first.text()) == text


def test_tracing_draws_no_random_numbers_and_leaves_no_mode() -> None:
    graph = captured(lambda x: F.dropout(x) + torch.rand_like(x), leaf(8))
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    TRACE(graph)
    assert torch.equal(torch.rand(4), expected)
    assert not _get_current_dispatch_mode_stack()
    assert torch.is_grad_enabled()


def test_an_unsupported_operator_restores_every_mode() -> None:
    gm = torch.fx.GraphModule({}, torch.fx.Graph())
    g = gm.graph
    x = g.placeholder("x")
    g.call_function(torch._C._set_grad_enabled, (False,))
    g.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    sparse = g.call_method("to_sparse", (x,))
    g.output((sparse,))
    for node in g.nodes:
        node.meta["example_value"] = None
    x.meta["example_value"] = symbolic(lambda x: x, torch.ones(())).graph.find_nodes(op="placeholder")[0].meta["val"]
    graph = import_fx_graph(gm, [torch.ones(())])
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    with pytest.raises(Unsupported) as refusal:
        TRACE(graph)
    assert refusal.value.why.code == "autograd.tensor_kind"
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert torch.autocast_increment_nesting() - 1 == nesting
    torch.autocast_decrement_nesting()
    assert not _get_current_dispatch_mode_stack()


# The graph.


def test_joint_layout() -> None:
    traced = TRACE(symbolic(lambda x, y: (x * y, x.detach() + 1), leaf(3), torch.randn(3)))
    signature = traced.signature
    assert signature.inputs == (Primal(0), Primal(1), Tangent(0))
    assert signature.differentiable == (True, False)
    assert [str(output) for output in signature.outputs] == [
        "result 0", "result 1", "gradient of input 0", "gradient of input 1"
    ]  # fmt: skip
    assert traced.forward.outputs[3] is None


def test_inference_where_nothing_requires_grad() -> None:
    graph = symbolic(lambda x: x.argmax(), leaf(3))
    assert TRACE(graph).is_inference
    with torch.no_grad():
        assert TRACE(symbolic(lambda x: x * 2, leaf(3))).is_inference


def test_same_tensor_twice_is_one_input() -> None:
    w = leaf(3)
    graph = symbolic(lambda a, b: a * b, w, w)
    assert TRACE(graph).signature.repeats == {1: 0}
    call = compiled(graph).call
    (y,) = call(w, w)
    y.sum().backward()
    torch.testing.assert_close(w.grad, 2 * w)
    other = leaf(3)
    torch.testing.assert_close(call(w, other)[0], w * other)


def test_unexpected_overlap_runs_eagerly() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return a * b

    call = compiled(symbolic(function, torch.zeros(4), torch.zeros(4))).call
    base = torch.arange(6.0)
    expected = base.clone()
    wanted = function(expected[:4], expected[2:])
    torch.testing.assert_close(call(base[:4], base[2:])[0], wanted)
    torch.testing.assert_close(base, expected)
    halves = torch.zeros(8)
    torch.testing.assert_close(call(halves[:4], halves[4:])[0], torch.zeros(4))


def test_constants_are_named() -> None:
    graph = captured(lambda x: x * torch.tensor([1.0, 2.0]), leaf(2))
    traced = TRACE(graph)
    names = [str(node.target) for node in traced.forward.graph.nodes if node.op == "get_attr"]
    assert names and set(names) == set(traced.forward.constants)


# Refusals.


def writes_alias() -> Graph:
    base = torch.zeros(4)
    return symbolic(lambda a, b: a.add_(1) * b, base[:3], base[1:])


def changes_storage() -> Graph:
    return symbolic(lambda a, b: a.set_(b) * 2, torch.zeros(4), torch.ones(4))


def changes_requires_grad() -> Graph:
    return symbolic(lambda a: a.requires_grad_() * 2, torch.zeros(4))


def makes_leaf() -> Graph:
    return symbolic(lambda a: torch.zeros_like(a).requires_grad_(), torch.zeros(4))


def restrided_alias() -> Graph:
    def function(a: Tensor) -> tuple[Tensor, Tensor]:
        row = a[0]
        return a.t_(), row

    return symbolic(function, torch.zeros(2, 3))


def sparse_input() -> Graph:
    return symbolic(lambda a: a * 2, torch.eye(3).to_sparse())


def raises() -> Graph:
    graph = symbolic(lambda a, b: a + b, torch.zeros(3), torch.zeros(3))
    other = symbolic(lambda a, b: a + b, torch.zeros(3), torch.zeros(4, 1))
    for node, value in zip(graph.inputs, other.inputs, strict=True):
        node.meta = dict(value.meta)
    (add,) = [node for node in graph.graph.nodes if node.op == "call_function"]
    add.target = torch.mm
    return Graph(graph.name, graph.graph, other.fake_mode, {}, True)


def writes_expanded() -> Graph:
    return symbolic(lambda a: a.expand(2, 3).zero_(), torch.ones(3))


def detached_with_a_gradient() -> Graph:
    return symbolic(lambda a: a.detach().add_(a), leaf(3))


def saved_then_written() -> Graph:
    def function(a: Tensor) -> Tensor:
        y = a.exp()
        y.add_(1)
        return y

    return symbolic(function, leaf(3))


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (writes_alias, "autograd.aliased_mutation"),
        (changes_storage, "autograd.storage_changed"),
        (changes_requires_grad, "autograd.requires_grad_changed"),
        (makes_leaf, "autograd.new_leaf"),
        (restrided_alias, "autograd.restrided_alias"),
        (sparse_input, "autograd.tensor_kind"),
        (raises, "autograd.trace_failed"),
        (saved_then_written, "autograd.trace_failed"),
        (writes_expanded, "autograd.overlapping_write"),
        (detached_with_a_gradient, "autograd.alias_unknown"),
    ],
)
def test_refusals(build: Callable[[], Graph], code: str) -> None:
    graph = build()
    with pytest.raises(Unsupported) as refusal:
        TRACE(graph)
    assert refusal.value.why.code == code
    assert CATALOGUE[code].title
    assert not _get_current_dispatch_mode_stack()


# Decompositions: the traced graph, run, equals the operator.


def channels_last(*shape: int) -> Tensor:
    return torch.randn(*shape).to(memory_format=torch.channels_last)


X = torch.randn(3, 4, 5)
NAN = torch.tensor([[1.0, float("nan"), 3.0], [float("inf"), 2.0, 2.0]])
DECOMPOSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sum": (lambda x: (x.sum(), x.sum(dtype=torch.float64), x.int().sum()), (X,)),
    "mean": (lambda x: (x.mean(), x.mean(1), x.mean((0, -1), keepdim=True), x.mean(dtype=torch.float64)), (X,)),
    "labels up to the first -1": (
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1], [1, -1, 0, 2], [0, 1, 2, 3]])),
        (X[:, :, 0],),
    ),
    "mean of bfloat16": (lambda x: (x.mean(), x.mean(1)), (X.bfloat16(),)),
    "var": (lambda x: (x.var(), x.var(1), x.var((0, -1), unbiased=False), x.var(0, correction=2, keepdim=True)), (X,)),
    "var_mean": (lambda x: (*torch.var_mean(x, 1), *torch.var_mean(x), *torch.var_mean(x, (0, 2), keepdim=True)), (X,)),
    "var of many": (
        lambda x: (x.var(), x.var((1, 2)), *torch.var_mean(x, (1, 2), correction=0, keepdim=True)),
        (1e3 + torch.randn(2, 600, 512),),
    ),
    "var of one": (lambda x: (x.var(0), x.std(0), x.var(0, correction=5)), (torch.randn(1, 4),)),
    "var of zero dim": (lambda x: (x.var(unbiased=False), x.mean()), (torch.tensor(3.0),)),
    "max": (lambda x: (*x.max(1), *x.min(-1, keepdim=True), x.max(), x.min()), (X,)),
    "max of nan": (lambda x: (*x.max(1), *x.min(1)), (NAN,)),
    "max of bool": (lambda x: (*(x > 0).max(1), *(x > 0).min(1)), (X,)),
    "max of zero dim": (lambda x: (*x.max(0), x.max()), (torch.tensor(3.0),)),
    "pow": (
        lambda x: (x**2, x**3, x**-1, x.abs() ** 0.5, x.abs() ** -0.5, x**4, (x * 3).int() ** 2, x.int() ** 2.0),
        (X,),
    ),
    "likes": (
        lambda x: (
            torch.zeros_like(x),
            torch.ones_like(x, dtype=torch.int8),
            torch.full_like(x, 7),
            x.new_full((2,), 3),
        ),
        (channels_last(2, 3, 4, 4),),
    ),
    "likes of transposed": (lambda x: (torch.zeros_like(x), torch.full_like(x, 2.5)), (X.permute(2, 0, 1),)),
    "likes of gaps": (lambda x: (torch.ones_like(x), torch.zeros_like(x)), (X[:, ::2],)),
    "like with a format": (
        lambda x: (
            torch.zeros_like(x, memory_format=torch.contiguous_format),
            torch.ones_like(x, memory_format=torch.channels_last),
        ),
        (torch.randn(2, 3, 4, 4).permute(0, 1, 3, 2),),
    ),
    "factories": (
        lambda x: (
            x.new_zeros(2, 3),
            x.new_ones(2),
            torch.zeros(3, dtype=torch.bool),
            torch.arange(5),
            torch.arange(1, 7, 2),
        ),
        (X,),
    ),
    "copy": (
        lambda x: (torch.zeros(2, 5).copy_(x[0, 0]), torch.zeros(4, 3, dtype=torch.int64).t().copy_(x[:, :, 0])),
        (X,),
    ),
    "to": (
        lambda x: (x.to(torch.bfloat16), x.to(torch.float64, memory_format=torch.channels_last)),
        (torch.randn(2, 3, 4, 4),),
    ),
    "splits": (lambda x: (*x.split(2, 1), *x.split([1, 3, 1], 2), *x.chunk(2), *x.unbind(1)), (X,)),
    "split copies": (lambda x: tuple(p + 1 for p in torch.unsafe_split(x, 2, 1)), (X,)),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(1), x.squeeze((0, 2))), (torch.randn(1, 3, 1, 2),)),
    "repeat": (lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.repeat(1, 1, 1)), (X,)),
    "group norm": (
        lambda x: (
            F.group_norm(x, 2),
            F.group_norm(x, 4, torch.arange(4.0), torch.ones(4)),
            *torch.native_group_norm(x, None, None, 2, 4, 9, 2, 1e-5),
        ),
        (torch.randn(2, 4, 3, 3),),
    ),
    "group norm of channels last": (lambda x: F.group_norm(x, 2), (channels_last(2, 4, 3, 3),)),
    "group norm of bfloat16": (lambda x: F.group_norm(x, 2), (torch.randn(2, 4, 3).bfloat16(),)),
    "zero": (lambda x: x.t().clone().zero_(), (X[0],)),
    "logsumexp": (lambda x: (x.logsumexp(1), torch.logsumexp(x, (0, 2), keepdim=True)), (X,)),
    "glu": (lambda x: F.glu(x[..., :4]), (X,)),
    "clamp": (lambda x: (x.clamp(min=0), x.clamp(max=0.5), x.clamp(-0.1, 0.1), x.clamp_min(x.mean())), (X,)),
    "upsample": (
        lambda x: (F.interpolate(x, scale_factor=2.0), F.interpolate(x, size=(7, 5), mode="bilinear")),
        (torch.randn(1, 2, 3, 4),),
    ),
    "padding": (lambda x: (F.pad(x, (1, 2), "reflect"), F.pad(x, (1, 2), "replicate"), F.pad(x, (1, -1))), (X,)),
    "index": (lambda x: (x.index_select(1, torch.tensor([2, 0])), x.take(torch.tensor([3, 1])), x[:, [0, 2]]), (X,)),
    "index writes": (
        lambda x: (
            x.index_add(0, torch.tensor([0, 0]), x[:2]),
            x.index_copy(1, torch.tensor([1]), x[:, :1]),
            x.index_fill(2, torch.tensor([0]), 3.0),
            x.masked_fill(x > 0, -1.0),
        ),
        (X,),
    ),
    "stack": (lambda x: (torch.stack([x, x], 1), torch.cat([x, x], -1), x.roll(2, 1), x.flip(0), x.rot90()), (X,)),
    "scatter views": (
        lambda x: (
            torch.select_scatter(x, x[0] * 2, 0, 1),
            torch.slice_scatter(x, x[:, 1:2] * 2, 1, 2, 3),
            torch.diagonal_scatter(x[0, :4, :4], torch.ones(4)),
        ),
        (X,),
    ),
    "triangles": (lambda x: (x.tril(), x.triu(1), torch.eye(3), torch.tril_indices(3, 3)), (X,)),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions(name: str) -> None:
    def function(*inputs: Any) -> tuple[Any, ...]:
        made = operator(*inputs)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    operator, inputs = DECOMPOSED[name]
    expected = function(*inputs)
    graph = captured(function, *inputs)
    actual = compiled(graph).call(*inputs)
    assert len(actual) == len(expected)
    for left, right in zip(actual, expected, strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape
        assert used(left) == used(right), (left.stride(), right.stride())
        torch.testing.assert_close(left, right, equal_nan=True)
    names = {str(n.target) for n in clean(TRACE(graph)).forward.graph.nodes if n.op == "call_function"}
    assert all(target.startswith("aten.") or "getitem" in target for target in names), names


def used(value: Tensor) -> list[int]:
    return [s for n, s in zip(value.shape, value.stride(), strict=True) if n > 1] if value.numel() else []


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (3, 4, 2)], ids=str)
def test_nll_loss_and_its_gradient(shape: tuple[int, ...], weighted: bool, reduction: str) -> None:
    classes = 4
    target = torch.tensor(2) if len(shape) == 1 else torch.randint(0, classes, (shape[0], *shape[2:]))
    if target.dim():
        target.view(-1)[0] = -100
    weight = torch.rand(classes) if weighted else None

    def function(x: Tensor) -> Tensor:
        return F.cross_entropy(x, target, weight, reduction=reduction)

    def run(call: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        x = leaf(*shape)
        y = call(x)
        y = y[0] if isinstance(y, tuple) else y
        (y * torch.arange(1.0, 1 + y.numel()).reshape(y.shape)).sum().backward()
        return y.detach(), x.grad

    call = compiled(captured(function, leaf(*shape))).call
    for left, right in zip(run(lambda x: call(*by_name(function, x, target, weight))), run(function), strict=True):
        torch.testing.assert_close(left, right)


def by_name(function: Any, x: Tensor, target: Tensor, weight: Tensor | None) -> list[Tensor]:
    """The inputs in the order in which Dynamo lifts them: the argument, then what the closure holds, as first used."""
    return [x, target] if weight is None else [x, target, weight]


def test_run_graph_is_what_it_says() -> None:
    graph = symbolic(lambda x, y: (x + y, x.t()), torch.ones(2, 3), torch.ones(2, 3))
    total, turned = run_graph(graph, [torch.ones(2, 3), torch.ones(2, 3)])
    assert torch.equal(total, torch.full((2, 3), 2.0)) and turned.shape == (3, 2)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.exp() * factor

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return g * x.cos() * ctx.factor, None


def test_custom_functions_are_traced_through() -> None:
    """A node may call `apply` itself: its forward and its backward are both traced, and attributed to it."""
    module = torch.fx.GraphModule({}, torch.fx.Graph())
    x = module.graph.placeholder("x")
    scaled = module.graph.call_function(Scaled.apply, (x, 3.0))
    module.graph.output((module.graph.call_method("sin", (scaled,)),))
    graph = import_fx_graph(module, [torch.zeros(4, requires_grad=True)])
    traced = TRACE(graph)
    x_again = traced.forward.inputs[0]
    (cosine,) = [n for n in x_again.users if n.target is torch.ops.aten.cos.default]
    (called,) = [n for n in graph.graph.nodes if n.target == Scaled.apply]
    assert info(cosine).origins == (info(called).id,)
    given = torch.randn(4, requires_grad=True)
    (y,) = compiled(graph).call(given)
    (gradient,) = torch.autograd.grad(y.sum(), given)
    torch.testing.assert_close(gradient, (given.exp() * 3.0).cos() * given.cos() * 3.0)
