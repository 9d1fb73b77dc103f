"""Seconds of each kernel and library call in one run, measured from outside the generated code."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from explorer.ir.program import Entry, Generated, Kernel
from explorer.runtime.wrapper import execute


def profiler(
    generated: Generated, library: ctypes.CDLL, names: Mapping[str, Any]
) -> Callable[[Sequence[Any]], Mapping[str, float]]:
    """A function that runs the program once, kernel by kernel, and returns seconds by id of kernel or library call."""
    kernels = {kernel.id: kernel for kernel in generated.kernels}
    seconds: dict[str, float] = {}
    order: list[Iterator[str]] = [iter(())]
    timed = dict(names)
    for entry in generated.entries:
        timed[entry.function] = _timed_entry(entry, kernels, library, seconds)
    for name in {name for _, name in generated.externs}:
        timed[name] = _timed_extern(names[name], order, seconds)
    call = execute(generated.wrapper, f"{generated.name} profile", timed)

    def profile(inputs: Sequence[Any]) -> Mapping[str, float]:
        seconds.clear()
        order[0] = iter([id for id, _ in generated.externs])
        call(inputs)
        return dict(seconds)

    return profile


def _timed_entry(
    entry: Entry, kernels: Mapping[str, Kernel], library: ctypes.CDLL, seconds: dict[str, float]
) -> Callable[..., int]:
    """Stands in for an entry: calls its kernels one at a time."""
    steps = []
    reported = 0
    for id in entry.kernels:
        kernel = kernels[id]
        function = library[kernel.function]
        types = [ctypes.c_long if argument.buffer is None else ctypes.c_void_p for argument in kernel.arguments]
        function.argtypes = [*types, ctypes.c_int]
        fails = bool(kernel.constants["errors"])
        function.restype = ctypes.c_int if fails else None
        steps.append((id, function, kernel.arguments, fails, reported))
        reported += kernel.constants["errors"]
    bases, sizes = list(entry.buffers), list(entry.sizes)

    def run(*given: int) -> int:
        for id, function, arguments, fails, before in steps:
            passed = [
                given[len(bases) + sizes.index(a.size)] if a.base is None else given[bases.index(a.base)] + a.offset
                for a in arguments
            ]
            started = time.perf_counter()
            failed = function(*passed, given[-1])
            seconds[id] = max(0.0, time.perf_counter() - started - _call_overhead())
            if fails and failed:
                return int(before + (failed & -failed).bit_length())
        return 0

    return run


def _timed_extern(
    function: Callable[..., Any], order: list[Iterator[str]], seconds: dict[str, float]
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        id = next(order[0])
        started = time.perf_counter()
        made = function(*args, **kwargs)
        seconds[id] = time.perf_counter() - started
        return made

    return run


@lru_cache(maxsize=1)
def _call_overhead() -> float:
    """Seconds that a call through ctypes takes before any kernel starts."""
    nothing = ctypes.CDLL(None).abs
    nothing.argtypes = [ctypes.c_int]
    best = 1.0
    for _ in range(100):
        started = time.perf_counter()
        nothing(0)
        best = min(best, time.perf_counter() - started)
    return best
