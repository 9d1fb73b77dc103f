"""What this machine can do at best, measured: the roof that kernels are held against."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

COPY_BYTES = 128 * 2**20
MATRIX = 1536
TRIES = 5

SCATTER = 1.15
"""How much longer than the quickest try the middle one takes at most on a machine that does nothing else."""

AT_WORK = 0.9
"""The least share of the time in which a busy thread is at work there."""

AGAIN_SECONDS = 60.0
"""After which a machine that was busy is measured again."""

NO_PEAKS = (
    "the machine was busy while its peaks were measured, so that no share of them is given; they are measured again "
    "a minute later"
)


@dataclass(frozen=True)
class Peaks:
    """Bytes a second of a large copy, read and written; float32 operations a second of a matrix product."""

    name: str
    bytes: float
    flops: float


@dataclass
class _Known:
    """What is known of a device, and from when on it may be measured again."""

    peaks: Peaks | None = None
    again: float = -math.inf


def peaks(device: str = "cpu") -> Peaks | None:
    """Measured once, in about half a second; None while the machine does other work."""
    known = _known(device)
    if known.peaks is None and time.monotonic() >= known.again:
        known.peaks = _measured(device)
        known.again = time.monotonic() + AGAIN_SECONDS
    return known.peaks


@cache
def _known(device: str) -> _Known:
    return _Known()


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


def _best(call: Callable[[], Any], device: str) -> float | None:
    """Seconds of the quickest call, after one that is not counted; None as soon as it is clear that other work
    disturbed them."""
    on_card, threads = device.startswith("cuda"), torch.get_num_threads()
    call()
    taken, idle = [], 0.0
    for _ in range(TRIES):
        if on_card:
            torch.cuda.synchronize(device)
        started, working = time.perf_counter(), time.process_time()
        call()
        if on_card:
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - started)
        idle += threads * taken[-1] - (time.process_time() - working)
        if not on_card and idle > (1 - AT_WORK) * threads * TRIES * min(taken):
            return None
    return min(taken) if statistics.median(taken) <= SCATTER * min(taken) else None
