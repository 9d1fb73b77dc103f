"""What is read from torch and Python about operators (do they draw random numbers, do they write an argument?) is what
running them shows."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.compiler.autograd.aliases import writes
from explorer.ir.graph import IN_PLACE, draws, mentions_random

aten = torch.ops.aten
X = torch.rand(1, 2, 4, 4)
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (torch.rand, (2,), {}), (torch.randn_like, (X,), {}), (torch.bernoulli, (X,), {}), (torch.normal, (X, X), {}),
    (torch.binomial, (X, X), {}), (F.dropout, (X,), {}), (F.dropout2d, (X,), {}), (F.gumbel_softmax, (X,), {}),
    (F.fractional_max_pool2d, (X, 2, 2), {}), (torch.rrelu, (-X,), {"training": True}),
    (torch.nn.init.uniform_, (X,), {}),
    (F.scaled_dot_product_attention, (X, X, X), {"dropout_p": 0.5}), (F.scaled_dot_product_attention, (X, X, X), {}),
    (ATTENTION, (X, X, X), {}), (ATTENTION, (X, X, X, 0.0), {}), (aten.native_dropout.default, (X, 0.5, True), {}),
    (aten.poisson.default, (X,), {}), (torch.add, (X, X), {}), (F.normalize, (X,), {}), (F.relu, (X,), {}),
    (F.poisson_nll_loss, (X, X), {}), (torch.ones, (2,), {}), (F.layer_norm, (X, (4,)), {}),
    (torch.lstm, (X[0], [torch.zeros(1, 4, 4)] * 2, [torch.ones(16, 4)] * 2, False, 1, 0.0, True, False, False), {}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_a_call_is_said_to_draw_where_it_does(function: Any, args: Any, kwargs: Any) -> None:
    before = torch.get_rng_state()
    function(*args, **kwargs)
    assert draws(function, args, kwargs) is not torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("layer", [torch.nn.Dropout1d, torch.nn.RReLU, torch.nn.FractionalMaxPool3d, torch.nn.Linear])
def test_a_layer_mentions_the_functions_that_draw(layer: type[torch.nn.Module]) -> None:
    assert mentions_random(layer.forward) is (layer is not torch.nn.Linear)


@pytest.mark.parametrize("name", [name for name in operator.__all__ if callable(getattr(operator, name))])
def test_a_function_of_operator_is_in_place_if_it_writes_its_first_argument(name: str) -> None:
    function = getattr(operator, name)
    if isinstance(function, type) or name in ("call", "length_hint", "delitem"):
        pytest.skip("it takes no tensors")
    written, other = torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64)
    count = len(inspect.signature(function).parameters)
    given = (written, 0, other[0]) if name == "setitem" else (written, other)[:count]
    before = written._version
    try:
        function(*given)
    except (TypeError, RuntimeError):  # of functions for other kinds of objects
        assert function not in IN_PLACE or name in ("iconcat", "itruediv")
    else:
        has_method = name == "setitem" or hasattr(torch.Tensor, f"__{name}__")
        assert (written._version > before) is (function in IN_PLACE and has_method)


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("sign", ["+=", "*=", "<<=", "|=", "//="])
def test_an_input_that_is_written_in_place_counts_as_written(sign: str, array: bool) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(x, y):\n    x {sign} y\n    return x", space)
    seen: list[list[int]] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append([writes(node) for node in module.graph.nodes if node.op.startswith("call")])
        return module

    given = [torch.full((3,), 6), torch.full((3,), 2)]
    explorer.compile(space["f"], backend=backend)(*(each.numpy() if array else each for each in given))
    assert any(map(any, seen))
