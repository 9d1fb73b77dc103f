"""Timing several contestants in one run, in turn, so that a machine whose speed drifts is unfair to none."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

METHOD = (
    "contestants timed in turn in one run after two warm-up calls each; a sample is the mean of a batch of calls of at "
    "least 2 ms; median of the samples, spread is their interquartile range"
)

BATCH_SECONDS = 2e-3
LEAST_SAMPLES = 5
MOST_SAMPLES = 60

BUSY = 400_000
"""Cycles of a card, 0.2 to 0.4 ms: longer than it takes to queue a call."""


def occupy_card() -> None:
    """Give the card something to do, so that what is queued meanwhile starts at once when it ends. The time between two
    events around a short kernel would else be what it took to launch it."""
    torch.cuda._sleep(BUSY)


@dataclass(frozen=True)
class Samples:
    """Seconds a call, one entry a sample."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The interquartile range in seconds."""
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return high - low


def interleave(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    budget: float = 1.0,
    on_sample: Callable[[str, float], None] | None = None,
    reset: Callable[[], object] = lambda: None,
    steady: bool = True,
) -> dict[str, Samples]:
    """Samples by contestant, taken in turn for about `budget` seconds each and at least 5 of each.

    Calls on a GPU are waited for. `on_sample(name, seconds)` is told of each sample as it is taken; `reset` is called
    before each, which is one call where it is not `steady`. What a contestant
    raises propagates.
    """
    timers = {name: _timer(call) for name, call in contestants.items()}
    batches: dict[str, int] = {}
    for name, timer in timers.items():
        reset()
        timer.timeit(1)
        reset()
        once = timer.timeit(1).times[0]
        batches[name] = max(1, round(BATCH_SECONDS / max(once, 1e-7))) if steady else 1
    taken: dict[str, list[float]] = {name: [] for name in timers}
    spent = 0.0
    while len(taken[next(iter(taken))]) < MOST_SAMPLES:
        if spent > budget * len(timers) and len(taken[next(iter(taken))]) >= LEAST_SAMPLES:
            break
        for name, timer in timers.items():
            reset()
            seconds = timer.timeit(batches[name]).times[0]
            spent += seconds * batches[name]
            taken[name].append(seconds)
            if on_sample is not None:
                on_sample(name, seconds)
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


def _timer(call: Callable[[], Any]) -> Any:
    """torch's timer, which brings setuptools along; it synchronises a GPU. It would time with one thread by default,
    unlike the user's program."""
    timer = importlib.import_module("torch.utils.benchmark").Timer
    return timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
