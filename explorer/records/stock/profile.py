"""Seconds of each of stock's kernels and library calls, measured while the compiled program runs."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch

from explorer.compiler.runtime.timing import occupy_gpu
from explorer.records.stock.kernel_outputs import Observer, observed
from explorer.records.stock.run import StockRun

LONGEST = 0.25
"""Seconds that all runs together may take; one run is always made."""

RUNS = 20


def profile(run: StockRun) -> dict[str, dict[str, Mapping[str, float]]]:
    """The median seconds by compile, half and id of a kernel or library call. Calls that the wrapper makes by another
    way (torch.ops) and what a CUDA graph replays are not among them."""
    halves = [(compile.id, half) for compile in run.observation.compiles for half in compile.halves.values()]
    taken: dict[tuple[str, str], defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    started = time.perf_counter()
    for _ in range(RUNS):
        with ExitStack() as stack:
            for compile, half in halves:
                stack.enter_context(observed(half, _clock(taken[compile, half.name])))
            run.trial.reset()
            run.contestant.call()
        if time.perf_counter() - started > LONGEST:
            break
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    for (compile, name), seconds in taken.items():
        found.setdefault(compile, {})[name] = {id: statistics.median(each) for id, each in seconds.items()}
    return found


def _clock(note: defaultdict[str, list[float]]) -> Observer:
    """Records the seconds of a call under its first id."""

    def observer(ids: tuple[str, ...], call: Callable[[], Any], given: tuple[Any, ...]) -> Any:
        on_gpu = any(isinstance(each, torch.Tensor) and each.is_cuda for each in given)
        result, seconds = (_on_gpu if on_gpu else _on_processor)(call)
        if ids:
            note[ids[0]].append(seconds)
        return result

    return observer


def _on_processor(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def _on_gpu(call: Callable[[], Any]) -> tuple[Any, float]:
    """By the GPU's own clock."""
    cuda: Any = torch.cuda
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    occupy_gpu()
    begin.record()
    result = call()
    end.record()
    end.synchronize()
    return result, begin.elapsed_time(end) / 1e3
