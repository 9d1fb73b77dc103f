"""Timing several contestants in one run, in turn, so that a machine whose speed drifts is unfair to none; and what this
machine can do at best, measured: the roof that kernels are held against.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

_SAMPLES = (
    "are timed in turn, in one run, after two warm-up calls each; a sample is the mean of a batch of calls of at "
    "least 2 ms; the time is the median of the samples, its spread their interquartile range"
)
METHOD = f"eager and compiled calls {_SAMPLES}"
GRAPHS_METHOD = f"the graphs of a call, without the Python between them, {_SAMPLES}"

BATCH_SECONDS = 2e-3
LEAST_SAMPLES = 5
MOST_SAMPLES = 60

BUSY = 400_000
"""Cycles of a GPU, 0.2 to 0.4 ms: longer than it takes to queue a call."""


def occupy_gpu() -> None:
    """Give the GPU something to do, so that what is queued meanwhile starts at once when it ends. The time between two
    events around a short kernel would else be what it took to launch it."""
    torch.cuda._sleep(BUSY)


@dataclass(frozen=True)
class TimingSamples:
    """Seconds a call, one entry a sample. `waited` is the part of their time in which the threads of this process had
    work and no processor; 0 where the system does not tell."""

    seconds: tuple[float, ...]
    waited: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The interquartile range in seconds."""
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return high - low


def interleave(
    contestants: Mapping[str, Callable[[], object]],
    *,
    budget: float = 1.0,
    on_sample: Callable[[str, float], None] | None = None,
    reset: Callable[[], object] = lambda: None,
    steady: bool = True,
) -> dict[str, TimingSamples]:
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
    ran: dict[str, list[tuple[int, int]]] = {name: [] for name in timers}
    spent = 0.0
    while len(taken[next(iter(taken))]) < MOST_SAMPLES:
        if spent > budget * len(timers) and len(taken[next(iter(taken))]) >= LEAST_SAMPLES:
            break
        for name, timer in timers.items():
            reset()
            before = _scheduled()
            seconds = timer.timeit(batches[name]).times[0]
            ran[name].append(_since(before))
            spent += seconds * batches[name]
            taken[name].append(seconds)
            if on_sample is not None:
                on_sample(name, seconds)
    return {name: TimingSamples(tuple(seconds), _part_waited(ran[name])) for name, seconds in taken.items()}


def _scheduled() -> dict[str, tuple[int, int]]:
    """Nanoseconds that each thread of this process ran and waited for a processor, by Linux; {} elsewhere."""
    found = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            numbers = Path(f"/proc/self/task/{thread}/schedstat").read_text().split()
            if len(numbers) > 1:  # a sandbox may have the file and tell nothing
                found[thread] = int(numbers[0]), int(numbers[1])
    return found


def _since(before: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    both = [(before[thread], now) for thread, now in _scheduled().items() if thread in before]
    return sum(now[0] - then[0] for then, now in both), sum(now[1] - then[1] for then, now in both)


def _part_waited(samples: Sequence[tuple[int, int]]) -> float:
    ran, waited = map(sum, zip(*samples, strict=True))
    return waited / (ran + waited) if ran + waited else 0.0


def _timer(call: Callable[[], object]) -> Any:
    """torch's timer, which brings setuptools along; it synchronizes a GPU. It would time with one thread by default,
    unlike the user's program."""
    timer = importlib.import_module("torch.utils.benchmark").Timer
    return timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())


COPY_BYTES = 128 * 2**20
MATRIX = 1536
TRIES = 5

SCATTER = 1.15
"""How much longer than the quickest try the middle one takes at most on a machine that does nothing else."""

AT_WORK = 0.9
"""The least share of the time in which a busy thread is at work there."""

AGAIN_SECONDS = 60.0
"""After which a machine is measured again, until two measurements agree."""

NO_PEAKS = (
    "other programs used the machine while its peaks were measured, so kernels are not compared with the peaks; they "
    "are measured again after a minute"
)


@dataclass(frozen=True)
class Peaks:
    """Bytes a second of a large copy, read and written; float32 operations a second of a matrix product."""

    name: str
    bytes: float
    flops: float


@dataclass
class _KnownDevice:
    """What is known of a device, and from when on it may be measured again."""

    peaks: Peaks | None = None
    again: float = -math.inf

    def measure(self, device: str) -> None:
        """What others do can only make a machine look slower, so the larger figure counts, and one that was measured
        twice is final."""
        before, found = self.peaks, _measured(device)
        agree = False
        if before is not None and found is not None:
            pairs = ((before.bytes, found.bytes), (before.flops, found.flops))
            agree = all(max(pair) <= SCATTER * min(pair) for pair in pairs)
            found = Peaks(found.name, *map(max, pairs))
        self.peaks = found or before
        self.again = math.inf if agree else time.monotonic() + AGAIN_SECONDS


def peaks(device: str = "cpu") -> Peaks | None:
    """Measured in about half a second, with the threads that torch has now; None while the machine does other work."""
    known = _known(device, torch.get_num_threads())
    if time.monotonic() >= known.again:
        known.measure(device)
    return known.peaks


@cache
def _known(device: str, threads: int) -> _KnownDevice:
    return _KnownDevice()


def _measured(device: str) -> Peaks | None:
    count = COPY_BYTES // 4
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    if (copying := _best(lambda: target.copy_(source), device)) is None:
        return None
    a = torch.ones(MATRIX, MATRIX, device=device)
    product = torch.empty_like(a)
    if (multiplying := _best(lambda: torch.mm(a, a, out=product), device)) is None:
        return None
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else f"{torch.get_num_threads()} threads"
    return Peaks(name, 2 * COPY_BYTES / copying, 2 * MATRIX**3 / multiplying)


def _best(call: Callable[[], object], device: str) -> float | None:
    """Seconds of the quickest call, after one that is not counted; None as soon as it is clear that other work
    disturbed them: the threads waited, or this one alone did while another of the process was at work."""
    on_gpu, threads = device.startswith("cuda"), torch.get_num_threads()
    call()
    taken, idle = [], 0.0
    for _ in range(TRIES):
        if on_gpu:
            torch.cuda.synchronize(device)
        started, working, own = time.perf_counter(), time.process_time(), time.thread_time()
        call()
        if on_gpu:
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - started)
        waited = taken[-1] - (time.thread_time() - own)
        idle += threads * max(waited, taken[-1] - (time.process_time() - working) / threads)
        if not on_gpu and idle > (1 - AT_WORK) * threads * TRIES * min(taken):
            return None
    return min(taken) if statistics.median(taken) <= SCATTER * min(taken) else None
