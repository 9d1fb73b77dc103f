"""The wrapper's text as a live function, and a built program run kernel by kernel with somebody watching, from outside
the generated code: for timing each kernel, and for comparing what it writes.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import linecache
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from explorer.core.text import Text
from explorer.ir.program import Around, CppKernel, EntryPoint, Generated, KernelObserver

_numbers = itertools.count()


def execute(text: Text, name: str, names: Mapping[str, Any]) -> Callable[[Iterable[object]], tuple[object, ...]]:
    """Run the wrapper's text under a file name that tracebacks can show lines of while its `call`, which this returns,
    is alive."""
    source = str(text) + "\n"
    file = f"<explorer {name} {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = dict(names)
    exec(compile(source, file, "exec"), namespace)
    call: Callable[[Iterable[object]], tuple[object, ...]] = namespace["call"]
    weakref.finalize(call, linecache.cache.pop, file, None)
    return call


def release_pools(call: Callable[..., object]) -> None:
    """Free the memory pools that an executed wrapper keeps between calls."""
    call.__globals__.get("POOLS", {}).clear()


def stepwise(
    generated: Generated, library: ctypes.CDLL, names: Mapping[str, Any]
) -> tuple[Callable[[Sequence[object], KernelObserver], tuple[object, ...]], Callable[[], None]]:
    """A function that runs the program once, each kernel and library call by way of a `KernelObserver`, and one that
    frees the memory pools which that keeps."""
    watching: list[KernelObserver] = []
    order: list[Iterator[str]] = [iter(())]

    @functools.cache
    def call() -> Callable[[Iterable[object]], tuple[object, ...]]:
        kernels = {kernel.id: kernel for kernel in generated.of(CppKernel)}
        watched = dict(names)
        for entry in generated.entries:
            watched[entry.function] = _watched_entry(entry, kernels, library, watching)
        for name in {name for _, name in generated.externs}:
            watched[name] = _watched_extern(names[name], order, watching)
        return execute(generated.wrapper, f"{generated.name} stepwise", watched)

    def run(inputs: Sequence[object], watch: KernelObserver) -> tuple[object, ...]:
        watching[:] = [watch]
        order[0] = iter([id for id, _ in generated.externs])
        return call()(inputs)

    def release() -> None:
        if call.cache_info().currsize:
            release_pools(call())

    return run, release


class _Timer:
    """Seconds by id of kernel or library call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def kernel(self, id: str, run: Callable[[], int], written: Mapping[str, int]) -> int:
        started = time.perf_counter()
        failed = run()
        self.seconds[id] = max(0.0, time.perf_counter() - started - _call_overhead())
        return failed

    def call(self, id: str, run: Callable[[], object]) -> object:
        started = time.perf_counter()
        made = run()
        self.seconds[id] = time.perf_counter() - started
        return made


class _Within:
    def __init__(self, around: Around) -> None:
        self.around = around

    def kernel(self, id: str, run: Callable[[], int], written: Mapping[str, int]) -> int:
        with self.around(id):
            return run()

    def call(self, id: str, run: Callable[[], object]) -> object:
        with self.around(id):
            return run()


def profiler(
    run: Callable[[Sequence[object], KernelObserver], tuple[object, ...]],
) -> Callable[[Sequence[object]], Mapping[str, float]]:
    """A function that runs the program once, kernel by kernel, and returns seconds by id of kernel or library call."""

    def profile(inputs: Sequence[object]) -> Mapping[str, float]:
        timer = _Timer()
        run(inputs, timer)
        return timer.seconds

    return profile


def marker(
    run: Callable[[Sequence[object], KernelObserver], tuple[object, ...]],
) -> Callable[[Sequence[object], Around], tuple[object, ...]]:
    """A function that runs the program once, each kernel and library call inside a context of its id."""
    return lambda inputs, around: run(inputs, _Within(around))


def _watched_entry(
    entry: EntryPoint, kernels: Mapping[str, CppKernel], library: ctypes.CDLL, watching: list[KernelObserver]
) -> Callable[..., int]:
    """Stands in for an entry: calls its kernels one at a time."""
    steps = []
    reported = 0
    for id in entry.kernels:
        kernel = kernels[id]
        function = library[kernel.function]
        types = [ctypes.c_long if argument.buffer is None else ctypes.c_void_p for argument in kernel.arguments]
        function.argtypes = [*types, ctypes.c_int]
        fails = bool(kernel.errors)
        function.restype = ctypes.c_int if fails else None
        steps.append((id, function, kernel.arguments, fails, reported))
        reported += kernel.errors
    bases, sizes = list(entry.buffers), list(entry.sizes)

    def run(*given: int) -> int:
        for id, function, arguments, fails, before in steps:
            passed = [
                given[len(bases) + sizes.index(a.size)] if a.base is None else given[bases.index(a.base)] + a.offset
                for a in arguments
            ]
            places = zip(arguments, passed, strict=True)
            written = {a.buffer: place for a, place in places if a.written and a.buffer is not None}
            failed = watching[0].kernel(id, functools.partial(function, *passed, given[-1]), written)
            if fails and failed:
                return int(before + (failed & -failed).bit_length())
        return 0

    return run


def _watched_extern(
    function: Callable[..., object], order: list[Iterator[str]], watching: list[KernelObserver]
) -> Callable[..., object]:
    def run(*args: object, **kwargs: object) -> object:
        return watching[0].call(next(order[0]), functools.partial(function, *args, **kwargs))

    return run


@lru_cache(maxsize=1)
def _call_overhead() -> float:
    """Seconds that a call through ctypes takes before any kernel starts."""
    function = ctypes.CDLL(None).abs
    function.argtypes = [ctypes.c_int]
    nothing = functools.partial(function, 0)
    best = 1.0
    for _ in range(100):
        started = time.perf_counter()
        nothing()
        best = min(best, time.perf_counter() - started)
    return best
