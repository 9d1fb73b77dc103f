"""A deliberate fault in stock's compile, wherever it is, is found at its node, its kernel and the program's line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch._dynamo
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from torch import Tensor, fx
from torch._inductor import decomposition
from torch._inductor.codegen import cpp

import explorer
from explorer import Record
from explorer.ir.record import DivergenceData
from explorer.records.check.search import unwritten_memory_filled
from explorer.records.check.trial import Trial
from explorer.records.stock.divergence import stock_divergence
from programs import NAMED
from test_first_divergence import blended, inputs, line_of

aten = torch.ops.aten
SIN = {"scalar": "std::sin({})", "vector": "({}).sin()"}


def found(function: Callable[..., Any], *args: Any) -> DivergenceData | None:
    return stock_divergence(Trial(function, args, {}), {})


def leaves(train: bool) -> list[Tensor]:
    return [each.requires_grad_(train) for each in inputs()]


def lines(first: DivergenceData | None) -> int:
    assert first is not None and first.span is not None and first.engine == "stock", first
    return first.span.line


@pytest.mark.parametrize("train", [False, True])
def test_nothing_parts_where_nothing_is_wrong(train: bool) -> None:
    assert found(blended, *leaves(train)) is None


def another_constant(graph: fx.Graph) -> None:
    """As a user's pass might: relu(z - 0.2) becomes relu(z - 0.3)."""
    for node in graph.nodes:
        if node.target is aten.sub.Tensor and node.args[1] == 0.2:
            node.update_arg(1, 0.3)


@pytest.mark.parametrize("train", [False, True])
def test_a_pass_of_the_user_that_changes_what_is_computed(train: bool) -> None:
    with inductor_config.patch(post_grad_custom_post_pass=another_constant):
        first = found(blended, *leaves(train))
    assert lines(first) == line_of(blended, "torch.relu")
    assert first is not None and first.node.startswith("aten.sub")
    assert first.half == ("s0_forward" if train else "s0_inference")
    assert "after post-grad: post_grad_custom_post_pass" in first.detail
    assert first.eager_error is not None and first.error == pytest.approx(0.1, rel=1e-3)


@contextmanager
def sine_for(name: str) -> Iterator[None]:
    """Stock writes another function in C++."""
    with (
        mock.patch.object(cpp.CppOverrides, name, staticmethod(SIN["scalar"].format)),
        mock.patch.object(cpp.CppVecOverrides, name, staticmethod(SIN["vector"].format)),
    ):
        yield


@pytest.mark.parametrize("train", [False, True])
def test_wrong_generated_code(train: bool) -> None:
    with sine_for("tanh"):
        first = found(blended, *leaves(train))
    assert lines(first) == line_of(blended, "torch.tanh")
    assert first is not None and first.node == "aten.tanh" and first.kernel.startswith("k")
    assert "aten.tanh is the first of its nodes that is wrong when each is compiled alone" in first.detail
    assert first.error is not None and first.eager_error is not None and first.error > 1e3 * first.eager_error


def test_a_fault_in_the_backward_alone() -> None:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        return F.gelu(y).square().mean()

    with sine_for("exp"):
        first = found(loss, *leaves(True))
    assert lines(first) == line_of(loss, "gelu")
    assert first is not None and first.half == "s0_backward" and first.node == "aten.exp"


@pytest.mark.parametrize("train", [False, True])
def test_a_wrong_decomposition(train: bool) -> None:
    def powers(x: Tensor, w: Tensor) -> Tensor:
        y = (x @ w).sin()
        z = F.silu(y)
        return z.sum(0) + y.mean(0)

    wrong = {aten.silu.default: lambda x: x * torch.sigmoid(x) * 1.01}
    decomposition.fast_random_decomps.cache_clear()
    try:
        with mock.patch.dict(decomposition.decompositions, wrong):
            first = found(powers, *leaves(train))
    finally:
        decomposition.fast_random_decomps.cache_clear()
    assert lines(first) == line_of(powers, "silu")
    assert first is not None and "after trace" in first.detail and "fx.z" in first.detail


def scaled(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    torch._dynamo.graph_break()
    z = y * (3.0 if torch.compiler.is_compiling() else 2.0)
    return z.sin()


def test_a_graph_that_is_not_what_python_computes() -> None:
    first = found(scaled, *inputs())
    assert lines(first) == line_of(scaled, "is_compiling()")
    assert first is not None and first.compile == "s1" and first.node == "fx.z"
    assert "no call on this line has that value in eager" in first.detail


CALLS = [0]


def counting(x: Tensor, w: Tensor) -> Tensor:
    CALLS[0] += 1
    return x @ w * CALLS[0]


def test_a_program_that_gives_something_else_each_time_is_reported_to() -> None:
    first = found(counting, *inputs())
    assert first is not None and not first.node
    assert "eager differs from itself when called again" in first.detail


def test_what_the_backward_gets_as_the_forward_left_it() -> None:
    """As stock does: it computes `steps + 1` again in the backward, from what is `steps + 1` by then."""
    model = NAMED["RunningMean"]
    args, kwargs = model.inputs()
    first = stock_divergence(Trial(model.build(), args, kwargs), {})
    if first is None:
        pytest.skip("this torch no longer does")
    assert first.half == "s0_backward"
    assert "after the forward has overwritten it" in first.detail


@pytest.mark.parametrize(
    "name", ["slice_scatters", "scatter_overwrites", "index_put_accumulates", "mutates_views_of_input", "lerp_and_addc"]
)
def test_memory_that_is_written_again_is_no_fault(name: str) -> None:
    program = NAMED[name]
    args, kwargs = program.inputs()
    assert stock_divergence(Trial(program.build(), args, kwargs), {}) is None


def repeated(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(12):
        x = torch.sin(x @ w * 3)
    return x


NOTED: list[None] = []


@torch.library.custom_op("explorer_tests::noted", mutates_args=())
def noted(x: Tensor) -> tuple[Tensor, Tensor]:
    """Twice x, and something that is another at each call, as memory is that nobody wrote."""
    NOTED.append(None)
    return x * 2, torch.full((3,), float(len(NOTED)))


@noted.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(3)


def keep(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def doubled(ctx: Any, gradient: Tensor, unused: Tensor) -> Tensor:
    (kept,) = ctx.saved_tensors
    return gradient * (kept > 0).all() * 2


noted.register_autograd(doubled, setup_context=keep)


@pytest.mark.parametrize("train", [False, True])
def test_what_an_operator_leaves_unwritten_is_no_fault(train: bool) -> None:
    def attention(x: Tensor, w: Tensor) -> Tensor:
        return noted(x @ w)[0].sin()

    assert found(attention, *leaves(train)) is None


def test_unwritten_memory_is_filled_in_the_block_and_only_there() -> None:
    with unwritten_memory_filled():
        assert torch.empty(8).isnan().all()
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_rounding_that_adds_up_is_no_fault() -> None:
    first = found(repeated, *inputs())
    assert first is not None and first.engine == "stock"
    assert not first.node and "accumulated rounding" in first.detail
    assert first.error is not None and first.eager_error is not None


def dropped(x: Tensor, w: Tensor) -> Tensor:
    return F.dropout(x @ w, 0.5).sin()


def test_random_numbers_are_no_fault() -> None:
    first = found(dropped, *inputs())
    assert first is not None and not first.node and "only by random numbers" in first.detail


def test_numbers_that_stock_draws_as_eager_does_are_no_fault() -> None:
    def several(x: Tensor) -> tuple[Tensor, ...]:
        return x + torch.randn_like(x), torch.rand(2, 3), torch.randint(0, 9, (4,)), torch.randperm(5)

    first = found(several, torch.zeros(4))
    assert first is not None and not first.node and "only by random numbers" in first.detail


def test_what_is_computed_beside_random_numbers_is_compared() -> None:
    def both(x: Tensor, w: Tensor) -> Tensor:
        return F.dropout(torch.tanh(x @ w), 0.5) + 1

    with sine_for("tanh"):
        first = found(both, *leaves(True))
    assert lines(first) == line_of(both, "dropout") and first is not None and first.node == "aten.tanh"


def test_a_compile_that_fails_is_reported_to() -> None:
    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("this backend fails")

    first = stock_divergence(Trial(blended, inputs(), {}), {"backend": backend})
    assert first is not None and "this backend fails" in first.detail


def test_a_search_leaves_the_programs_compiled_code_as_it_was() -> None:
    """Inductor keeps the modules that it made: two compiles of one graph share one."""
    x, w = inputs()
    mine = torch.compile(blended)
    before = mine(x, w)
    assert found(blended, x, w) is None
    first = "explorer.records.stock.bisection.KernelComparison.first"
    with mock.patch(first, side_effect=AssertionError("still compared")):
        torch.testing.assert_close(mine(x, w), before)


def test_a_record_of_both_names_whose_results_part(tmp_path: Path) -> None:
    x, w = inputs()
    with inductor_config.patch(post_grad_custom_post_pass=another_constant):
        record = explorer.explore(blended, engine="both")(x, w)
        assert record.timing is not None
        ours, theirs = record.timing.accuracy, record.timing.stock_accuracy
        assert ours is not None and ours.engine == "explorer" and not ours.first_mismatch
        assert theirs is not None and theirs.engine == "stock" and theirs.first_mismatch
        first = theirs.divergence
        assert first is not None and first.compile == "s0", "looked for unasked, since results differ"
        assert record.bisect_accuracy() == record.bisect_accuracy("stock") == first
        assert record.bisect_accuracy("explorer") is None
    loaded = Record.load(record.save(tmp_path / "r.explore.json"))
    assert loaded.timing == record.timing
    assert first.node == "aten.sub_1"
    assert "stock: first differs from eager in s0 at sub_1 (aten.sub.Tensor)" in repr(record)
    with pytest.raises(ValueError, match="'eager' compiled nothing in it; expected 'explorer' or 'stock'"):
        record.bisect_accuracy("eager")


def test_random_numbers_are_not_looked_into_unasked() -> None:
    record = explorer.explore(dropped, engine="stock")(*inputs())
    assert record.timing is not None and record.timing.accuracy is not None
    first = record.timing.accuracy.divergence
    assert first is not None and "other random numbers than eager" in first.detail


def test_random_numbers_are_reported_of_a_function_that_is_not_called_again() -> None:
    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.rand(4) + x
        seen.append(y.sum().item())
        print("called")
        return y

    for engine in ("stock", "both"):
        record = explorer.explore(program, engine=engine)(torch.zeros(4))
        assert record.timing is not None
        accuracy = record.timing.accuracy if engine == "stock" else record.timing.stock_accuracy
        assert accuracy is not None and accuracy.first_mismatch and accuracy.divergence is not None
        assert "other random numbers than eager" in accuracy.divergence.detail
