"""A deliberate fault in any stage is found at its node, its kernel and the program's own line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import explorer
from explorer.api import configure
from explorer.compiler.autograd import decompositions
from explorer.compiler.lower.table import LOWERINGS
from explorer.ir.program import BuildOptions
from explorer.ir.record import DivergenceData
from explorer.ir.scalar import OPS
from explorer.records.check.first_divergence import first_divergence
from explorer.records.check.search import ReferenceRun
from explorer.records.check.trial import SEED, Trial
from explorer.show.record import Record
from programs import NAMED
from reference_backend import symbolic
from zoo.observe import require_grad

aten = torch.ops.aten


def blended(x: Tensor, w: Tensor) -> Tensor:
    y = torch.softmax(x @ w, -1)
    z = torch.tanh(y * 2)
    u = torch.relu(z - 0.2)
    return (u + 1).sum(0)


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def found(function: Callable[..., Any], *args: Any, grad: bool | None = None, **settings: Any) -> DivergenceData | None:
    torch.manual_seed(3)
    return first_divergence(Trial(function, args, {}, grad).contestant, configure(**settings))


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(8, 16), torch.randn(16, 16)


@contextmanager
def wrong(table: Any, key: Any, change: Callable[[Any], Any]) -> Iterator[None]:
    """A rule of a table, changed while the block runs."""
    right = table._rules[key]
    table._rules[key] = change(right)
    try:
        yield
    finally:
        table._rules[key] = right


def test_nothing_parts_where_nothing_is_wrong() -> None:
    assert found(blended, *inputs()) is None
    leaves = [each.requires_grad_() for each in inputs()]
    assert found(blended, *leaves) is None


@pytest.mark.parametrize(
    "name", ["pads", "nan_predicates", "casts", "embedding_lookup", "DropoutMLP", "copies_into_input", "TiedProjection"]
)
def test_rounding_and_unwritten_memory_are_no_faults(name: str) -> None:
    program = NAMED[name]
    args, kwargs = program.inputs()
    if program.grad:
        require_grad(program, args, kwargs)
    assert first_divergence(Trial(program.build(), args, kwargs).contestant, configure()) is None


def relu_to_gelu(module: fx.GraphModule) -> fx.GraphModule:
    for node in module.graph.nodes:
        if node.target is torch.relu:
            with module.graph.inserting_after(node):
                made = module.graph.call_function(F.gelu, node.args)
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)
    return module


@pytest.mark.parametrize("train", [False, True])
def test_a_pass_that_changes_what_is_computed(train: bool) -> None:
    args = [each.requires_grad_(train) for each in inputs()]
    first = found(blended, *args, passes=(relu_to_gelu,))
    assert first is not None and first.node == "fx.gelu"
    assert first.span is not None
    assert (first.span.file, first.span.line) == (__file__, line_of(blended, "torch.relu"))
    assert first.detail == "after pass relu_to_gelu, fx.gelu has another value than fx.relu had before"
    assert first.eager_error is not None and first.error > 1e-3 > 1e-5 > first.eager_error


@pytest.mark.parametrize("train", [False, True])
def test_a_wrong_decomposition(train: bool) -> None:
    def averages(x: Tensor, w: Tensor) -> Tensor:
        y = (x @ w).sin()
        z = y.mean(0)
        return z + y.pow(2).sum(0)

    args = [each.requires_grad_(train) for each in inputs()]
    rules = decompositions.DECOMPOSITIONS
    with wrong(rules, aten.mean.dim, lambda right: lambda *given: right(*given) * 1.01):
        first = found(averages, *args)
    assert first is not None and first.node.startswith("aten.mul")
    assert first.span is not None and first.span.line == line_of(averages, "mean(0)")
    assert "after trace" in first.detail and "fx.mean" in first.detail


def test_a_wrong_lowering_rule() -> None:
    def sine_for_tanh(right: Any) -> Any:
        return LOWERINGS._rules[aten.sin.default]

    with wrong(LOWERINGS, aten.tanh.default, sine_for_tanh):
        first = found(blended, *inputs())
    assert first is not None and first.node == "aten.tanh"
    assert first.kernel.startswith("k")
    assert first.span is not None and first.span.line == line_of(blended, "torch.tanh")
    assert "aten.tanh is the first of its nodes that is wrong when each is compiled alone" in first.detail


def test_wrong_generated_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(OPS["exp"].cpp, "float32", "exp_float({0} * 1.001f)")
    options = {"build": BuildOptions(cache_dir=tmp_path)}
    first = found(blended, *inputs(), options=options)
    assert first is not None and first.node.startswith("aten.exp")
    assert first.span is not None and first.span.line == line_of(blended, "softmax")


def test_a_fault_in_the_backward_alone() -> None:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        return F.gelu(torch.tanh(x @ w)).square().mean()

    args = [each.requires_grad_() for each in inputs()]

    def lost(right: Any) -> Any:
        return lambda lower, out, *operands: LOWERINGS._rules[aten.sin.default](lower, out, *operands)

    with wrong(LOWERINGS, aten.exp.default, lost):
        first = found(loss, *args)
    assert first is not None and first.node.startswith("aten.exp")
    assert "backward" in first.half
    assert first.span is not None and first.span.line == line_of(loss, "gelu")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.dropout(torch.tanh(self.first(x)))
        print("between")
        return self.second(hidden).softmax(-1)


def test_a_fault_after_a_break_in_a_module_with_random_numbers() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(8, 16)
    assert found(net, x) is None
    with wrong(LOWERINGS, aten.exp.default, lambda right: LOWERINGS._rules[aten.expm1.default]):
        first = found(net, x)
    assert first is not None and first.node.startswith("aten.exp") and first.compile == "f1"
    assert first.span is not None and first.span.line == line_of(Net.forward, "softmax")


@pytest.mark.parametrize("draws_alike", [False, True])
def test_the_reference_draws_what_the_graph_draws(draws_alike: bool) -> None:
    """The run in float64 beside it takes no numbers of its own; values that were drawn are judged where kernels draw
    alike, and only there."""

    def noisy(x: Tensor) -> tuple[Tensor, ...]:
        a = torch.rand_like(x)
        b = F.dropout(a.sin(), 0.5)
        return b, torch.randn_like(b) + b, x.cos()

    x = torch.randn(5)
    graph = symbolic(noisy, x)
    torch.manual_seed(SEED)
    expected = graph.module()(x)
    reference = ReferenceRun(graph, draws_alike=draws_alike)
    reference.run((x,))
    for node, value in zip(graph.outputs, expected, strict=True):
        torch.testing.assert_close(reference.eager[node], value, rtol=0, atol=0)
        torch.testing.assert_close(reference.exact[node].float(), value)
        assert reference.errors(node, value) is None
    pairs = zip(graph.outputs, expected, strict=True)
    judged = [reference.errors(node, value + 1) is not None for node, value in pairs]
    assert judged == [draws_alike, draws_alike, True]


def test_a_record_names_it(tmp_path: Path) -> None:
    x, w = inputs()
    record = explorer.explore(blended, passes=(relu_to_gelu,))(x, w)
    assert record.timing is not None and record.timing.accuracy is not None
    first = record.timing.accuracy.divergence
    assert first is not None and first.node == "fx.gelu", "looked for unasked, since results differ"
    assert record.bisect_accuracy() == first
    loaded = Record.load(record.save(tmp_path / "r.explore.json"))
    assert loaded.timing == record.timing
    with pytest.raises(RuntimeError, match="not the function to run again"):
        loaded.bisect_accuracy()
    plain = explorer.explore(blended, time=False)(x, w)
    assert plain.bisect_accuracy() is None
