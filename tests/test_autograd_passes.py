"""The clean-up passes one by one, each on a graph that it changes and on one that it must leave; and user passes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx

import explorer
from explorer.compiler.autograd import CLEANUP, TRACE, user_pass
from explorer.compiler.autograd.passes import is_lossless
from explorer.core.reasons import Unsupported
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Traced
from loops_reference import run_graph
from reference_backend import compiled, symbolic

PASSES = {stage.name: stage for stage in CLEANUP}
A, B = torch.randn(4, 6), torch.randn(4, 6)


def calls(traced: Traced) -> list[str]:
    nodes = traced.forward.graph.nodes
    return [str(node.target).removeprefix("aten.").partition(".")[0] for node in nodes if node.op == "call_function"]


def cleaned(name: str, function: Callable[..., Any], *inputs: Tensor) -> tuple[list[str], list[str]]:
    """The operators before and after one pass; the results must not change, nor must the graph it was given."""
    before = TRACE(symbolic(function, *inputs))
    text = str(before.text())
    after = PASSES[name](before)
    assert str(before.text()) == text
    copies = [x.clone() for x in inputs]
    for left, right in zip(run_graph(after.forward, inputs), run_graph(before.forward, copies), strict=True):
        assert torch.equal(left, right) and left.stride() == right.stride()
    return calls(before), calls(after)


# pass, function, inputs, operators before, operators after
CHANGES: list[tuple[str, Callable[..., Any], tuple[Tensor, ...], str, str]] = [
    ("dead code", lambda a, b: (a * b, a + b)[1], (A, B), "mul add", "add"),
    ("dead code", lambda a: (torch.rand_like(a), a + 1)[1], (A,), "rand_like add", "rand_like add"),
    (
        "constant folding",
        lambda a: a.new_full((4, 6), 2.0) * a.new_full((4, 6), 3.0) + a,
        (A,),
        "full full mul add",
        "full add",
    ),
    ("constant folding", lambda a: a * a.new_ones(4, 6) + 1, (A,), "full mul add", "add"),
    ("constant folding", lambda a: a.new_ones(6).expand(4, 6).neg() * a, (A,), "full expand neg mul", "full mul"),
    (
        "constant folding",
        lambda a: a.to(torch.int64) * a.new_ones(4, 6),
        (A,),
        "_to_copy full mul",
        "_to_copy full mul",
    ),
    ("constant folding", lambda a: a * a.new_ones(2, 4, 6) + 1, (A,), "full mul add", "full mul add"),
    ("constant folding", lambda a: a * torch.ones_like(a), (A.to(torch.complex64),), "full mul", "full mul"),
    ("no-ops", lambda a: a.view(4, 6).clone() * 2, (A,), "view clone mul", "mul"),
    (
        "no-ops",
        lambda a: a.expand(4, 6)[0:4].permute(0, 1).detach() * 2,
        (A,),
        "expand view slice permute detach mul",
        "mul",
    ),
    ("no-ops", lambda a: (a + 1) * 1, (A,), "add mul", "add"),
    ("no-ops", lambda a: (a + 1) * 1, (A.to(torch.complex64),), "add mul", "add mul"),
    ("no-ops", lambda a: (a + 1).clone(), (A,), "add clone", "add"),
    ("no-ops", lambda a: (a * 1 / 1) + 2, (A,), "mul div add", "add"),
    ("no-ops", lambda a: a.clone(), (A,), "clone", "clone"),
    ("no-ops", lambda a: (lambda s: (s, s.clone()))(a.sin()), (A,), "sin clone", "sin clone"),
    (
        "no-ops",
        lambda a: a.t().clone(memory_format=torch.contiguous_format) * 2,
        (A,),
        "permute clone mul",
        "permute clone mul",
    ),
    ("no-ops", lambda a: a[1:] * 2, (A,), "slice mul", "slice mul"),
    ("casts", lambda a: a.float().bfloat16() * 2, (A.bfloat16(),), "_to_copy _to_copy mul", "mul"),
    ("casts", lambda a: a.float().double() * 2, (A.bfloat16(),), "_to_copy _to_copy mul", "_to_copy mul"),
    ("casts", lambda a: a.bfloat16().float() * 2, (A,), "_to_copy _to_copy mul", "_to_copy _to_copy mul"),
    ("casts", lambda a: a.float().bfloat16(), (A.bfloat16(),), "_to_copy _to_copy", "_to_copy _to_copy"),
    ("views", lambda a: a.view(2, 12).view(3, 8) * 2, (A,), "view view mul", "view mul"),
    (
        "views",
        lambda a: a.view(2, 2, 6).permute(1, 2, 0).permute(1, 0, 2) * 2,
        (A,),
        "view permute permute mul",
        "view permute mul",
    ),
    ("views", lambda a: a.t().t() * 2, (A,), "permute permute mul", "mul"),
    (
        "views",
        lambda a: a.view(4, 1, 6).expand(4, 3, 6).expand(2, 4, 3, 6) * 2,
        (A,),
        "view expand expand mul",
        "view expand mul",
    ),
    ("views", lambda a: a[:, :4].view(2, 2, 4).view(4, 2, 2) * 2, (A,), "slice view view mul", "slice view mul"),
    ("common subexpressions", lambda a: torch.exp(a) * torch.exp(a), (A,), "exp exp mul", "exp mul"),
    ("common subexpressions", lambda a: (a + 1) * (a + 1.0), (A,), "add add mul", "add add mul"),
    ("common subexpressions", lambda a: (torch.sin(a), torch.sin(a)), (A,), "sin sin", "sin sin"),
    ("common subexpressions", lambda a: (torch.sin(a), torch.sin(a) + 1), (A,), "sin sin add", "sin add"),
    (
        "read-back",
        lambda a: torch.select_scatter(a, a[0].sin(), 0, 1)[1] * 2,
        (A,),
        "select sin select_scatter select mul",
        "select sin mul",
    ),
    (
        "read-back",
        lambda a: torch.select_scatter(a, a[0].sin(), 0, 1)[2] * 2,
        (A,),
        "select sin select_scatter select mul",
        "select sin select_scatter select mul",
    ),
    (
        "read-back",
        lambda a: torch.slice_scatter(a, a[:2].sin(), 0, 1, 3)[1:3] * 2,
        (A,),
        "slice sin slice_scatter slice mul",
        "slice sin mul",
    ),
    (
        "common subexpressions",
        lambda a: a.split(2)[0] + a.split(2)[0],
        (A,),
        "slice slice slice slice add",
        "slice add",
    ),
]


@pytest.mark.parametrize(("name", "function", "inputs", "before", "after"), CHANGES)
def test_pass(name: str, function: Callable[..., Any], inputs: tuple[Tensor, ...], before: str, after: str) -> None:
    assert cleaned(name, function, *inputs) == (before.split(), after.split())


def test_random_calls_are_never_merged() -> None:
    traced = PASSES["common subexpressions"](TRACE(symbolic(lambda a: torch.rand_like(a) + torch.rand_like(a), A)))
    assert calls(traced).count("rand_like") == 2


def test_merged_nodes_keep_the_origins_of_both() -> None:
    graph = symbolic(lambda a: torch.exp(a) * torch.exp(a), A)
    traced = PASSES["common subexpressions"](TRACE(graph))
    (exp,) = [node for node in traced.forward.graph.nodes if node.target is torch.ops.aten.exp.default]
    assert info(exp).origins == ("fx.exp", "fx.exp_1")


def test_pool_backward_gets_only_a_shape() -> None:
    traced = TRACE(symbolic(lambda x: F.max_pool2d(x.exp(), 2), torch.randn(1, 2, 8, 8, requires_grad=True)))
    made = PASSES["shape-only operands"](traced)
    (pool,) = [node for node in made.forward.graph.nodes if "pool2d_with_indices_backward" in str(node.target)]
    assert pool.args[1].target is torch.ops.aten.empty.memory_format
    assert info(pool.args[1]).value.shape == (1, 2, 8, 8)


@pytest.mark.parametrize(
    ("a", "b", "exact"),
    [
        (torch.bfloat16, torch.float32, True),
        (torch.float16, torch.bfloat16, False),
        (torch.bfloat16, torch.float16, False),
        (torch.int8, torch.float16, True),
        (torch.int16, torch.float16, False),
        (torch.int32, torch.float32, False),
        (torch.int32, torch.float64, True),
        (torch.uint8, torch.int8, False),
        (torch.uint8, torch.int16, True),
        (torch.bool, torch.float16, True),
        (torch.float32, torch.int64, False),
        (torch.int8, torch.uint8, False),
    ],
)
def test_lossless_casts(a: torch.dtype, b: torch.dtype, exact: bool) -> None:
    assert is_lossless(a, b) is exact


# User passes.


def relu_to_gelu(module: fx.GraphModule) -> None:
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in (F.relu, torch.relu):
            with module.graph.inserting_after(node):
                made = module.graph.call_function(F.gelu, node.args)
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)
    module.recompile()


def widen(module: fx.GraphModule) -> fx.GraphModule:
    """Replace relu(x) by relu(x.double()), as three nodes, in a module of its own."""

    class Widen(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target is not torch.relu:
                return super().call_function(target, args, kwargs)
            return super().call_function(torch.relu, (args[0].double(),), kwargs) * 2

    return Widen(module).transform()


def network() -> Graph:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(x @ w)
        return h.sum(1), h.t()

    return symbolic(function, torch.randn(3, 4, requires_grad=True), torch.randn(4, 5))


def test_user_pass_in_place() -> None:
    graph = network()
    text = str(graph.text())
    stage = user_pass(relu_to_gelu)
    made = stage(graph)
    assert str(graph.text()) == text
    assert stage.name == "pass relu_to_gelu"
    (gelu,) = [node for node in made.graph.nodes if node.target is F.gelu]
    (relu,) = [node for node in graph.graph.nodes if node.target is torch.relu]
    assert info(gelu).origins == info(relu).origins and info(gelu).span == info(relu).span
    assert "relu_to_gelu" in info(gelu).about
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    total, turned = compiled(made).call(x, w)
    torch.testing.assert_close(total, F.gelu(x @ w).sum(1))
    torch.testing.assert_close(turned, F.gelu(x @ w).t())


def test_user_pass_that_returns_a_module_and_changes_dtypes() -> None:
    made = user_pass(widen)(network())
    assert [info(out).value.dtype for out in made.outputs] == [torch.float64, torch.float64]
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    torch.testing.assert_close(compiled(made).call(x, w)[0], torch.relu((x @ w).double()).sum(1) * 2)
    added = [node for node in made.graph.nodes if node.target in ("double", torch.mul) or "mul" in node.name]
    assert added and all(info(node).origins for node in added)


def test_user_pass_that_does_nothing() -> None:
    graph = network()
    assert str(user_pass(lambda module: None)(graph).text()) == str(graph.text())


def test_user_pass_that_breaks_the_graph() -> None:
    def shape_error(module: fx.GraphModule) -> None:
        (relu,) = [node for node in module.graph.nodes if node.target is torch.relu]
        relu.args = (relu.args[0], 1, 2, 3)

    with pytest.raises(Unsupported) as refusal:
        user_pass(shape_error)(network())
    assert refusal.value.why.code == "autograd.user_pass"


@pytest.mark.parametrize("call", ["topk(1)", "max(0)", "sort()", "svd()", "mm(x)", "unbind()", "split(2)", "exp()"])
@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
def test_results_of_equal_calls_are_as_distinct_as_in_eager(call: str, backend: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def program(x):\n    return *_parts(x.{call}), *_parts(x.{call}), *_parts(x.{call})[-1:]", namespace)
    namespace["_parts"] = lambda found: tuple(found) if isinstance(found, tuple) else (found,)
    program = namespace["program"]
    x = torch.randn(4, 4)

    def shares(found: tuple[Tensor, ...]) -> list[tuple[bool, bool]]:
        pairs = itertools.combinations(found, 2)
        return [(a is b, a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()) for a, b in pairs]

    assert shares(explorer.compile(program, backend=backend)(x)) == shares(program(x))
