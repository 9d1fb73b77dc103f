"""Stock `torch.compile` as a contestant: its compile time from empty and from filled caches, its breaks, its calls."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch._dynamo
from torch._dynamo.utils import counters

from explorer.core.recorder import total
from explorer.records.check.trial import Contestant, Outcome, Trial


@dataclass(frozen=True)
class Stock:
    """A compiled contestant. `cold_seconds` is its first call with empty caches, `warm_seconds` that of a second
    compile which finds in them what the first left; both include one run. `graphs` and `breaks` are Dynamo's counts."""

    contestant: Contestant
    outcome: Outcome
    cold_seconds: float
    warm_seconds: float
    graphs: int
    breaks: int


@contextmanager
def stock(
    trial: Trial, *, dynamic: bool | None = None, on_phase: Callable[[str], None] | None = None
) -> Iterator[Stock]:
    """Compile `trial` with stock torch.compile in a cache folder of its own, which goes when the block ends.

    Dynamo is reset before and after: nothing of this compile outlives the block. `on_phase` hears "cold" and "warm".
    """
    tell = on_phase or (lambda phase: None)
    importlib.import_module("torch._inductor.compile_fx")  # a second, which no compile is charged for
    caches = importlib.import_module("torch._inductor.utils")
    torch._dynamo.reset()
    with caches.fresh_cache():
        try:
            tell("cold")
            before = _counts()
            cold, _, cold_seconds = _first_call(trial, dynamic)
            graphs, breaks = (after - earlier for after, earlier in zip(_counts(), before, strict=True))
            del cold
            torch._dynamo.reset()
            tell("warm")
            contestant, outcome, warm_seconds = _first_call(trial, dynamic)
            yield Stock(contestant, outcome, cold_seconds, warm_seconds, graphs, breaks)
        finally:
            torch._dynamo.reset()


def _first_call(trial: Trial, dynamic: bool | None) -> tuple[Contestant, Outcome, float]:
    contestant = trial.contestant(lambda fn: torch.compile(fn, dynamic=dynamic))
    started = time.perf_counter()
    outcome = contestant.observe()
    return contestant, outcome, time.perf_counter() - started


def compiles_so_far() -> int:
    """Of this process, stock's and ours: frames that Dynamo compiled or tried to, and what this compiler compiled."""
    return int(counters["frames"]["total"]) + total("compiles")


def _counts() -> tuple[int, int]:
    return int(counters["stats"]["unique_graphs"]), sum(counters["graph_break"].values())
