"""The viewer's curves of memory in use have the peaks that the planner counted."""

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import torch

import explorer

EXTENSION = Path(__file__).parent.parent / "extension"
NODE = shutil.which("node")


def layers(x, a, b):
    h = torch.softmax(x @ a, -1)
    h = torch.tanh(h @ b).cumsum(0)
    h = (h * h.mean(0)) @ a
    return torch.layer_norm(h, h.shape[-1:]).sort(0).values.sum()


def updated(x, y):
    z = torch.sin(x) @ y
    z.add_(1).mul_(2)
    x.copy_(z @ y)
    return (z @ z).exp() @ y


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.skipif(not (EXTENSION / "node_modules" / "esbuild").is_dir(), reason="needs the extension's node_modules")
@pytest.mark.parametrize(("fn", "count", "grad"), [(layers, 3, True), (updated, 2, False)])
def test_peaks_are_the_planners(fn, count, grad, tmp_path):
    arguments = [torch.randn(48, 48, requires_grad=grad) for _ in range(count)]
    data = explorer.explore(fn, time=False)(*arguments).data
    file = tmp_path / "record.json"
    file.write_bytes(msgspec.json.encode(data))
    run = subprocess.run(
        [str(NODE), str(EXTENSION / "test" / "peaks.mjs"), str(file)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    halves = [half for compile in data.compiles for half in compile.halves]
    plans = [half.memory for half in halves if half.memory is not None]
    assert len(plans) == len(halves) > 0
    assert any(plan.pool for plan in plans)
    assert json.loads(run.stdout) == [[plan.peak_before, plan.peak_after] for plan in plans]
