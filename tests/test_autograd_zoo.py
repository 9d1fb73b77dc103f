"""Every program of the zoo and its own networks through trace, clean-up, partition and rejoin, against eager: both
halves are interpreted. Networks of transformers are compared in test_zoo.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from explorer.compiler.capture.import_fx_graph import import_fx_graph
from explorer.core.reasons import Unsupported
from programs import MODELS, ZOO, assert_same, observe
from reference_backend import compiled

REFUSED = {
    "custom_backward": "autograd.higher_order",
    "overlapping_inputs": "autograd.aliased_mutation",
    "integers_stay_integers": "autograd.data_dependent",
    "kv_cache_write": "autograd.data_dependent",
    "one_hot_and_buckets": "autograd.data_dependent",  # before torch 2.12
}
"""Programs with a graph that runs eagerly, and the reason."""
RUNS = [(p, train) for p in ZOO for train in (False, True) if p.grad or not train] + [(m, True) for m in MODELS]


def case(subject: Any, train: bool) -> Any:
    return pytest.param(subject, train, id=f"{subject.name}-{'train' if train else 'eval'}")


@pytest.mark.parametrize(("subject", "train"), [case(*run) for run in RUNS])
def test_like_eager(subject: Any, train: bool) -> None:
    refused: list[str] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        try:
            return compiled(import_fx_graph(module, inputs)).call
        except Unsupported as refusal:
            refused.append(refusal.why.code)
            return module

    torch._dynamo.reset()
    expected = observe(subject, train=train)
    actual = observe(subject, lambda f: torch.compile(f, backend=backend), train=train)
    assert_same(actual, expected, rtol=subject.rtol, atol=subject.atol)
    assert set(refused) <= {REFUSED.get(subject.name)}, refused
