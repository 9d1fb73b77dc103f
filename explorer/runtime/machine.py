"""What this machine can do at best, measured: the roof that kernels are held against."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

COPY_BYTES = 128 * 2**20
MATRIX = 1536


@cache
def peaks(device: str = "cpu") -> tuple[str, float, float]:
    """(name, bytes a second of a large copy, read and written, float32 operations a second of a matrix product).

    Each is the best of several tries, measured once a process; takes about half a second.
    """
    count = COPY_BYTES // 4
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copying = _best(lambda: target.copy_(source), device)
    a = torch.ones(MATRIX, MATRIX, device=device)
    product = torch.empty_like(a)
    multiplying = _best(lambda: torch.mm(a, a, out=product), device)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else f"{torch.get_num_threads()} threads"
    return name, 2 * COPY_BYTES / copying, 2 * MATRIX**3 / multiplying


def _best(call: Callable[[], Any], device: str, tries: int = 5) -> float:
    """Seconds of the quickest call, after one that is not counted."""
    call()
    best = float("inf")
    for _ in range(tries):
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - started)
    return best
