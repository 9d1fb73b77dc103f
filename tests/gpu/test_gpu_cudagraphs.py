"""On a card: what a record says of CUDA graphs that stock records, skips, and records again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explorer
from explorer.show.record import Record

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def watched(fn: Callable[..., Any], *calls: tuple[Any, ...]) -> Record:
    compiled = torch.compile(fn, mode="reduce-overhead")
    with explorer.watch() as log, torch.no_grad():
        for args in calls:
            torch.compiler.cudagraph_mark_step_begin()
            compiled(*args)
    assert log.record is not None
    assert not [e for c in log.record.data.compiles for e in c.events if e.kind.startswith("Hook")]
    return log.record


def test_one_recording_serves_calls_with_other_tensors() -> None:
    record = watched(lambda x: torch.relu(x) + 1, *((torch.randn(64, device="cuda"),) for _ in range(4)))
    text = record.cudagraphs.text()
    assert "recorded 1 CUDA graph:" in text and "inference of inputs (64,): the first recording" in text
    assert "no CUDA graph" not in text


def test_a_weight_that_moves_is_recorded_again_with_why() -> None:
    model = nn.Linear(16, 16).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(4, 16, device="cuda")
    with explorer.watch() as log, torch.no_grad():
        for n in range(6):
            if n == 4:
                model.weight.data = model.weight.data.clone()
            torch.compiler.cudagraph_mark_step_begin()
            compiled(x)
    text = log.record.cudagraphs.text()
    assert "recorded 2 CUDA graphs, 1 of them because no earlier recording fitted" in text
    assert "recorded again, since static input data pointer changed" in text and "mark_static_address" in text


def test_a_graph_that_writes_its_input_runs_without_and_says_why() -> None:
    def f(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    text = watched(f, *((torch.randn(64, device="cuda"),) for _ in range(4))).cudagraphs.text()
    assert "no CUDA graph: mutated inputs (1 instances)" in text and "test_gpu_cudagraphs.py" in text
    assert "to avoid this: write to a new tensor" in text


def test_a_part_on_the_cpu_is_reported_with_its_operations() -> None:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x) + 1, torch.sin(y) * 2

    calls = ((torch.randn(64, device="cuda"), torch.randn(8)) for _ in range(4))
    text = watched(f, *calls).cudagraphs.text()
    assert "cpu ops" in text or "no CUDA graph: cpu device" in text


def test_ours_says_that_it_records_none() -> None:
    record = explorer.explore(lambda x: torch.relu(x) + 1, time=False)(torch.randn(64, device="cuda"))
    assert "this compiler records no CUDA graphs" in record.cudagraphs.text()
