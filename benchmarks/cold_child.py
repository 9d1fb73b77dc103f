"""One cold compile in a process of its own: `python -m benchmarks.cold_child explorer|stock|eager` prints JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time

import torch


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.relu(x * y + 0.5) * torch.sigmoid(x)
    return z.sum(-1)


def ours(x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """Seconds from the call to the record, and to the end of the last stage before code generation."""
    explorer = importlib.import_module("explorer")
    ended: dict[str, float] = {}
    started = time.perf_counter()
    record = explorer.explore(
        program, time=False, on_stage=lambda compile, stage: ended.setdefault(stage.name, time.perf_counter())
    )(x, y)
    finished = time.perf_counter()
    assert record.kernels, record
    names = list(ended)
    before = max(ended[name] for name in names[: names.index("generate")])
    return {"seconds": finished - started, "before_codegen": before - started}


def stock(x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """Seconds of the first call, after the imports that it would otherwise make."""
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch._inductor.compile_fx")
    started = time.perf_counter()
    torch.compile(program)(x, y)
    return {"seconds": time.perf_counter() - started}


def eager(x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    started = time.perf_counter()
    program(x, y)
    return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    inputs = torch.randn(1024, 1024), torch.randn(1024, 1024)
    print(json.dumps({"explorer": ours, "stock": stock, "eager": eager}[sys.argv[1]](*inputs)))
