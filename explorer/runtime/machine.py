"""What this machine can do at best, measured: the roof that kernels are held against."""

from __future__ import annotations

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

NO_PEAKS = (
    "the machine was busy while its peaks were measured, so that no share of them is given; they are measured again "
    "with the next record"
)


@dataclass(frozen=True)
class Peaks:
    """Bytes a second of a large copy, read and written; float32 operations a second of a matrix product. `quiet`: the
    machine did nothing else meanwhile."""

    name: str
    bytes: float
    flops: float
    quiet: bool


def peaks(device: str = "cpu") -> Peaks:
    """The best that was measured so far. Takes about half a second, and again where the machine was busy then."""
    known = _known(device)
    if not known or not known[-1].quiet:
        found = _measured(device)
        if known:
            found = Peaks(found.name, max(found.bytes, known[-1].bytes), max(found.flops, known[-1].flops), found.quiet)
        known[:] = [found]
    return known[-1]


@cache
def _known(device: str) -> list[Peaks]:
    return []


def _measured(device: str) -> Peaks:
    count = COPY_BYTES // 4
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copying, quiet = _best(lambda: target.copy_(source), device)
    a = torch.ones(MATRIX, MATRIX, device=device)
    product = torch.empty_like(a)
    multiplying, still_quiet = _best(lambda: torch.mm(a, a, out=product), device)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else f"{torch.get_num_threads()} threads"
    return Peaks(name, 2 * COPY_BYTES / copying, 2 * MATRIX**3 / multiplying, quiet and still_quiet)


def _best(call: Callable[[], Any], device: str) -> tuple[float, bool]:
    """(seconds of the quickest call, after one that is not counted, and whether nothing disturbed them)."""
    call()
    taken, at_work = [], 0.0
    for _ in range(TRIES):
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        started, working = time.perf_counter(), time.process_time()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - started)
        at_work += time.process_time() - working
    undisturbed = statistics.median(taken) <= SCATTER * min(taken)
    if not device.startswith("cuda"):
        undisturbed = undisturbed and at_work >= AT_WORK * torch.get_num_threads() * sum(taken)
    return min(taken), undisturbed
