"""`python -m benchmarks.watch_child plain|watched` runs a training script of three functions that stock compiles, alone
or watched; `steady stock|explorer` times calls. Both print JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import nullcontext
from functools import partial
from statistics import median

import torch
import torch._dynamo
import torch._inductor.compile_fx
from torch._dynamo.utils import counters

import explorer
from benchmarks.stock_child import processor, timed

STEPS = 50
ROUNDS, LOOPS, CALLS = 40, 40, 50


def train() -> None:
    """Sizes change in the middle, the rate every tenth step."""
    torch.set_num_threads(1)  # threads that wait for work use the processor too, now more and now less
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    forward = torch.compile(lambda x: model(x))
    loss = torch.compile(lambda y, target, scale: ((y - target) ** 2).mean() * scale)
    norm = torch.compile(lambda x: (x - x.mean()) / (x.std() + 1e-5))
    for step in range(STEPS):
        x = torch.randn(64 if step < STEPS // 2 else 96, 256)
        loss(forward(norm(x)), x, 1.0 if step < 10 else 0.5).backward()
        optimizer.step()
        optimizer.zero_grad()


class Kept(logging.Handler):
    """Torch's messages about recompiles."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def recompiles_kept() -> Kept:
    kept = Kept()
    torch._logging.set_logs(recompiles=True)
    log = logging.getLogger("torch._dynamo.guards.__recompiles")
    log.handlers, log.propagate = [kept], False
    return kept


def plain() -> dict[str, float]:
    recompiles_kept()  # which makes torch put each reason into words, watched or not
    return timed(train)


def watched() -> dict[str, float]:
    kept = recompiles_kept()
    log = explorer.watch()

    def run() -> None:
        with log:
            train()

    took = timed(run)
    graphs, logged = counters["stats"]["unique_graphs"], len(kept.messages)
    started = processor()
    record = log.record
    reading = processor() - started
    compiles = record.data.compiles
    hooks = [event for each in compiles for event in each.events if event.kind in ("HookFailed", "HookMissing")]
    return {
        **took,
        "hooks": log.spent,
        "reading": reading,
        "graphs": graphs,
        "recorded": sum(any(stage.name == "capture" for stage in each.stages) for each in compiles),
        "logged": logged,
        "recompiles": sum(bool(each.recompiles) for each in compiles),
        "unexplained": sum(not (each.expression and each.values) for each in record.recompiles) + len(hooks),
    }


def steady(engine: str) -> dict[str, float]:
    """Seconds of a call of a small function, alone, and what watching adds: in turn, and compared with the loops just
    before."""
    x = torch.ones(4, 8)
    found: dict[str, list[float]] = {"plain": [], "watched": []}
    for _ in range(ROUNDS):
        for how, samples in found.items():
            torch._dynamo.reset()
            compiler = partial(torch.compile, backend="eager") if engine == "stock" else explorer.compile
            compiled = compiler(lambda x: x + 1)
            quickest = float("inf")
            with explorer.watch() if how == "watched" else nullcontext():
                compiled(x)
                for _ in range(LOOPS):
                    started = time.perf_counter()
                    for _ in range(CALLS):
                        compiled(x)
                    quickest = min(quickest, (time.perf_counter() - started) / CALLS)
            samples.append(quickest)
    more = median(after - before for before, after in zip(*found.values(), strict=True))
    return {"plain": min(found["plain"]), "more": more}


if __name__ == "__main__":
    print(json.dumps({"plain": plain, "watched": watched, "steady": steady}[sys.argv[1]](*sys.argv[2:])))
