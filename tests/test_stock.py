"""Stock torch.compile as a contestant, and our compiler as a backend of it."""

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch._dynamo.backends import registry

import explorer
from explorer.records.check.accuracy import compare
from explorer.records.check.trial import Trial
from explorer.records.stock.backend import register
from explorer.records.stock.contestant import stock


def halved(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x) * 2
    print("half way")
    return y.sum(-1) + 1


def test_registering_twice_changes_nothing() -> None:
    register(explorer._BACKEND)
    before = registry._BACKENDS["explorer"]
    register(EntryPoint("explorer", "explorer.api:compile", "torch_dynamo_backends"))
    assert registry._BACKENDS["explorer"] is before
    assert "explorer" in torch.compiler.list_backends()


@pytest.mark.slow
def test_a_contestant_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(8, 8)
    ours = explorer.compile(halved)
    expected = ours(x)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("_")}
    phases: list[str] = []
    trial = Trial(halved, (x,), {})
    with stock(trial, on_phase=phases.append) as made:
        caches = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        assert made.graphs == 2 and made.breaks == 1
        assert made.warm_seconds < made.cold_seconds
        assert compare(made.outcome.values(), trial.contestant().observe().values()).ok
    assert phases == ["cold", "warm"]
    assert not Path(caches).exists()
    assert {name: value for name, value in os.environ.items() if not name.startswith("_")} == environment
    torch.testing.assert_close(ours(x), expected)
