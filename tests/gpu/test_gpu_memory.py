"""On a card: what one run of each half holds is measured, of ours and of stock."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import explorer
from explorer.show.view import memory

pytestmark = pytest.mark.gpu


def step(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w).softmax(-1) * 2


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_a_run_holds_at_least_what_is_planned(engine: str) -> None:
    given = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda", requires_grad=True)
    record = explorer.explore(step, engine=engine, time=0.1)(*given)
    halves = [half for compile in record.data.compiles for half in compile.halves]
    assert len(halves) == 2
    for half in halves:
        planned = memory.peak(half)
        assert half.memory is not None and half.schedule is not None and planned is not None
        assert len(half.memory.measured) == len(half.schedule.items) + 1
        assert planned.bytes <= max(half.memory.measured)
    assert str(record.memory).count(": measured peak of one run, without inputs: ") == 2
