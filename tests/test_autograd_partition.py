"""PARTITION: what is kept, what is computed again and why; and that halves together equal the joint graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from explorer.compiler.autograd import TRACE
from explorer.compiler.autograd.partition import is_library
from explorer.compiler.autograd.passes import is_random
from explorer.core.reasons import CATALOGUE
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Partitioned, Primal, SavedValue
from loops_reference import run_graph
from reference_backend import clean, plan, symbolic


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def parts(function: Callable[..., Any], *inputs: Tensor, dynamic: bool = False) -> Partitioned:
    made = plan(symbolic(function, *inputs, dynamic=dynamic))
    assert isinstance(made, Partitioned)
    return made


def whys(made: Partitioned, kind: str) -> dict[str, str]:
    return {saved.id: saved.why.code.rpartition(".")[2] for saved in made.saved if saved.kind == kind}


def targets(graph: Graph) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def block(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    h = F.layer_norm(x, (8,))
    h = F.dropout(F.gelu(F.linear(h, w1, b1)), 0.1)
    return x + F.linear(h, w2, b2)


BLOCK = (leaf(4, 8), leaf(16, 8), leaf(16), leaf(8, 16), leaf(8))


def test_random_and_library_calls_are_not_computed_again() -> None:
    made = parts(block, *BLOCK)
    backward = [node for node in made.backward.graph.nodes if node.op == "call_function"]
    assert not any(is_random(node) for node in backward)
    assert not any("addmm" in str(node.target) for node in backward)
    recomputed = {saved.id for saved in made.saved if saved.kind == "recomputed"}
    assert recomputed
    assert not any(is_library(n) or is_random(n) for n in backward if info(n).id in recomputed)


def test_reasons() -> None:
    made = parts(block, *BLOCK)
    kept = whys(made, "saved")
    assert "random" in kept.values() and "reduction" in kept.values() and "operand" in kept.values()
    assert all(saved.why.code in CATALOGUE for saved in made.saved)
    assert set(whys(made, "recomputed").values()) <= {"cheap", "view", "constant"}
    assert all(saved.bytes >= 0 and saved.origins for saved in made.saved)
    text = str(made.text())
    assert "saved:" in text and "recomputed:" in text and "a small result of a large reduction" in text


def test_pointwise_chain_keeps_only_its_input() -> None:
    made = parts(lambda x: x.sin().cos().exp().tanh(), leaf(64, 64))
    assert whys(made, "saved") == {} and list(whys(made, "input")) == ["aten.x"]
    assert [source for source in made.backward_inputs][0] == Primal(0)


def test_the_cut_keeps_the_small_side() -> None:
    """The product of a row and a column is large: the two are kept and the product made again."""
    made = parts(lambda a, b: ((a + 1.0) * (b + 1.0)).sin().sum(), leaf(64, 1), leaf(1, 64))
    assert sum(saved.bytes for saved in made.saved if saved.kind != "recomputed") <= 2 * 64 * 4


def test_fewer_bytes_than_eager() -> None:
    inputs = [leaf(32, 64), leaf(256, 64), leaf(256), leaf(64, 256), leaf(64)]
    saved: dict[int, int] = {}

    def function(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        h = F.gelu(F.linear(F.layer_norm(x, (64,)), w1, b1), approximate="tanh")
        return F.softmax(x + F.linear(h * torch.sigmoid(h), w2, b2), -1)

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*inputs)
    ours = sum(s.bytes for s in parts(function, *inputs).saved if s.kind != "recomputed")
    assert ours < sum(saved.values())


def test_halves_equal_the_joint_graph() -> None:
    def function(x: Tensor, w: Tensor, buffer: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.softmax(x @ w + buffer, -1)
        buffer.add_(h.detach().mean(0))
        return h.tanh(), h.sum(0)

    graph = symbolic(function, leaf(3, 4), leaf(4, 5), torch.rand(5))
    traced = clean(TRACE(graph))
    made = plan(graph)
    assert isinstance(made, Partitioned)
    inputs = [torch.randn(3, 4), torch.randn(4, 5), torch.rand(5)]
    tangents = [torch.randn(3, 5), torch.randn(5)]
    for_joint, for_halves = [x.clone() for x in inputs], [x.clone() for x in inputs]
    joint = run_graph(traced.forward, [*for_joint, *tangents])
    forward = run_graph(made.forward, for_halves)
    count = len(traced.signature.forward_outputs)
    given: list[Any] = []
    for source in made.backward_inputs:
        if isinstance(source, SavedValue):
            given.append(forward[made.kept_at[source.id]])
        elif isinstance(source, Primal):
            given.append(for_halves[source.index])
    backward = run_graph(made.backward, [*given, *tangents])
    for left, right in zip([*forward[:count], *backward], joint, strict=True):
        assert (left is None) == (right is None)
        if left is not None:
            torch.testing.assert_close(left, right)
    torch.testing.assert_close(for_halves[2], for_joint[2])


def test_written_input_is_copied_for_the_backward() -> None:
    def function(buffer: Tensor, w: Tensor) -> Tensor:
        y = (buffer + w).sin()
        buffer.mul_(2.0)
        return y

    made = parts(function, torch.randn(4), leaf(4))
    assert Primal(0) not in made.backward_inputs
    writes = [n for n in made.forward.graph.nodes if n.target is torch.ops.aten.copy_.default]
    assert len(writes) == 1 and list(made.forward.graph.nodes)[-2] is writes[0]
    assert not any(n.target is torch.ops.aten.copy_.default for n in made.backward.graph.nodes)


def test_sizes_are_kept_beside_tensors() -> None:
    made = parts(lambda x: x.sum(0).expand(x.shape[0], 4) * 2, leaf(5, 4), dynamic=True)
    kinds = [info(node).value for node in made.backward.inputs]
    assert any(isinstance(value, torch.SymInt) for value in kinds)
    first_size = next(i for i, value in enumerate(kinds) if isinstance(value, torch.SymInt))
    assert not any(isinstance(s, (Primal, SavedValue)) and isinstance(v, Tensor)
                   for s, v in zip(made.backward_inputs[first_size:], kinds[first_size:], strict=True))  # fmt: skip


def test_deterministic_and_input_untouched() -> None:
    graph = symbolic(block, *BLOCK)
    traced = clean(TRACE(graph))
    text = str(traced.text())
    made = [plan(graph) for _ in range(2)]
    assert str(made[0].text()) == str(made[1].text())
    assert str(traced.text()) == text


def test_recomputed_nodes_carry_the_ids_of_the_joint_graph() -> None:
    made = parts(block, *BLOCK)
    forward = {info(n).id: n for n in made.forward.graph.nodes if n.op != "output"}
    for node in made.backward.graph.nodes:
        if node.op == "call_function" and info(node).id in forward:
            assert node.target == forward[info(node).id].target
    recomputed = {saved.id for saved in made.saved if saved.kind == "recomputed"}
    assert recomputed <= {info(n).id for n in made.backward.graph.nodes if n.op != "output"}


def test_unused_gradients_cost_nothing() -> None:
    made = parts(lambda x, w: x.exp() + w.detach().sum(), leaf(4), leaf(4))
    assert made.backward.outputs[1] is None
    assert targets(made.backward).count("aten.exp.default") <= 1


@pytest.mark.parametrize("depth", [2, 8])
def test_residual_stream_is_not_recomputed_from_the_start(depth: int) -> None:
    def function(x: Tensor, *weights: Tensor) -> Tensor:
        for w in weights:
            x = x + torch.tanh(F.layer_norm(x, (8,)) @ w)
        return x

    weights = [leaf(8, 8) for _ in range(depth)]
    names = ", ".join(f"w{i}" for i in range(depth))
    made = parts(eval(f"lambda x, {names}: function(x, {names})", {"function": function}), leaf(4, 8), *weights)
    adds = [n for n in made.backward.graph.nodes if n.target is torch.ops.aten.add.Tensor and info(n).id in
            {s.id for s in made.saved if s.kind == "recomputed"}]  # fmt: skip
    assert len(adds) <= 2 * depth
