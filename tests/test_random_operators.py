"""Which calls draw random numbers is what torch says of the operators: as their run on a generator shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.ir.graph import draws, mentions_random

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
