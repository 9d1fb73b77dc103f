"""Seconds of each of stock's kernels and library calls, taken while the compiled program runs as it always does."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from explorer.runtime.timing import occupy_card
from explorer.stock.half import Half
from explorer.stock.run import StockRun

LONGEST = 0.25
"""Seconds that all runs together may take; one run is always made."""

RUNS = 20
LIBRARY = "extern_kernels"


def profile(run: StockRun) -> dict[str, dict[str, Mapping[str, float]]]:
    """The median seconds by compile, half and id of a kernel or library call. Calls that the wrapper makes by another
    way (torch.ops) and what a CUDA graph replays are not among them."""
    halves = [(compile.id, half) for compile in run.observation.compiles for half in compile.halves.values()]
    taken: dict[tuple[str, str], defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    started = time.perf_counter()
    for _ in range(RUNS):
        with timed(halves, taken):
            run.contestant.call()
        if time.perf_counter() - started > LONGEST:
            break
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    for (compile, half), seconds in taken.items():
        found.setdefault(compile, {})[half] = {id: statistics.median(each) for id, each in seconds.items()}
    return found


@contextmanager
def timed(
    halves: list[tuple[str, Half]], taken: Mapping[tuple[str, str], defaultdict[str, list[float]]]
) -> Iterator[None]:
    """Inside the block the generated modules call their kernels through a clock."""
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for compile, half in halves:
            if half.module is None:
                continue
            names = vars(half.module)
            note = taken[compile, half.name]
            functions: dict[str, list[str]] = defaultdict(list)
            for kernel in half.kernels:
                functions[kernel.function].append(kernel.id)
            targets = {operation.id: operation.target for operation in half.operations}
            calls = [item.id for item in half.items if targets.get(item.id, "").startswith(f"{LIBRARY}.")]
            for name, ids in functions.items():
                if name in names:
                    before.append((names, name, names[name]))
                    names[name] = _Kernel(names[name], _clock(iter(ids), note))
            if calls and LIBRARY in names:
                before.append((names, LIBRARY, names[LIBRARY]))
                names[LIBRARY] = _Library(names[LIBRARY], _clock(iter(calls), note))
        yield
    finally:
        for names, name, value in before:
            names[name] = value


Clock = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def _clock(ids: Iterator[str], note: defaultdict[str, list[float]]) -> Clock:
    """Calls a function, and notes the seconds under the next of `ids`."""

    def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        on_card = any(isinstance(each, torch.Tensor) and each.is_cuda for each in (*args, *kwargs.values()))
        result, seconds = (_on_card if on_card else _on_processor)(function, args, kwargs)
        if (id := next(ids, None)) is not None:
            note[id].append(seconds)
        return result

    return call


def _on_processor(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - started


def _on_card(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, float]:
    """By the card's own clock."""
    cuda: Any = torch.cuda
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    occupy_card()
    begin.record()
    result = function(*args, **kwargs)
    end.record()
    end.synchronize()
    return result, begin.elapsed_time(end) / 1e3


class _Kernel:
    """A kernel as the wrapper calls it: a function (C++), or an object with `run` (Triton)."""

    def __init__(self, kernel: Any, clock: Clock) -> None:
        self._kernel = kernel
        self._clock = clock

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._clock(self._kernel, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self._clock(self._kernel.run, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


class _Library:
    def __init__(self, library: Any, clock: Clock) -> None:
        self._library = library
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        return lambda *args, **kwargs: self._clock(function, args, kwargs)
