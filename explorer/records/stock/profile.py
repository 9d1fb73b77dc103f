"""Seconds of each of stock's kernels and library calls, measured while the compiled program runs, and the memory that
each half holds, on inputs that Inductor makes up."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from explorer.compiler.runtime.timing import occupy_gpu
from explorer.ir import record as data
from explorer.records.check import profile as check
from explorer.records.check.profile import AT_END, Launches, marked, peak_bytes_at
from explorer.records.stock.kernel_outputs import Observer, observed
from explorer.records.stock.observation import Half
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


def one_call(run: StockRun) -> data.CallData | None:
    """One call with what it launches; None where it runs on a GPU, which works on while the host goes on."""
    halves = [(compile.id, half) for compile in run.observation.compiles for half in compile.halves.values()]
    if not halves or any(half.target.startswith("cuda") for _, half in halves):
        return None

    @contextmanager
    def noting(launches: Launches) -> Iterator[None]:
        with ExitStack() as stack:
            for compile, half in halves:
                stack.enter_context(observed(half, _note(compile, half.name, launches)))
            yield

    return check.one_call(run.contestant.call, run.trial.reset, noting)


def _note(compile: str, half: str, launches: Launches) -> Observer:
    def observer(ids: tuple[str, ...], call: Callable[[], object], given: tuple[object, ...]) -> Any:
        at = time.perf_counter()
        made = call()
        launches.append((compile, half, ", ".join(ids), at, time.perf_counter() - at))
        return made

    return observer


def live_bytes(run: StockRun) -> dict[str, dict[str, tuple[int, ...]]]:
    """The bytes that each half holds beside its inputs, by compile and half: the most at each step of its schedule, and
    what is returned in the end. Calls that the wrapper makes by another way than `observed` sees share the figure of
    the step after them. A half that cannot be run by itself is left out."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for compile in run.observation.compiles:
        known: dict[str, Any] = {}
        if len(compile.halves) > 2:  # parts of one graph, whose values have the same names
            continue
        for half in compile.halves.values():
            graph = next((each.graph for each in compile.stages if each.half == half.name and each.graph), None)
            if graph is None or not half.runs or not hasattr(half.module, "get_args"):
                break  # a backward reads what its forward keeps
            try:
                found.setdefault(compile.id, {})[half.name] = _live_bytes_of(half, graph, known)
            except Exception as error:  # made-up inputs may be outside what an operator takes
                compile.event("NotMeasured", half=half.name, what="memory", why=f"{type(error).__name__}: {error}")
                break
    return found


def _live_bytes_of(half: Half, graph: data.GraphData, known: dict[str, object]) -> tuple[int, ...]:
    """Adds to `known` what the half is given and returns, by the names of the graph's nodes."""
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = half.module.get_args()
    for each in made:
        if isinstance(each, torch.Tensor) and not each.is_floating_point():
            each.zero_()  # an index is in range
    given = [known.get(name, other) for name, other in zip(names, made, strict=True)]
    returned: list[Any] = []

    def call() -> Any:
        with observed(half, _mark):
            returned[:] = half.module.call(list(given))
        return returned

    at = peak_bytes_at(call)
    nodes = {node.id: node.name for node in graph.nodes}
    known |= dict(zip(names, given, strict=True))
    known |= {nodes[id]: value for id, value in zip(graph.outputs, returned, strict=False) if id in nodes}
    steps = [item.id for item in half.items]
    each = {id: most for ids, most in at.items() for id in ids.split(",")}
    after, most = [], at.get(AT_END, 0)
    for id in reversed(steps):
        most = each.get(id, most)
        after.append(most)
    return (*reversed(after), at[AT_END]) if each.keys() & set(steps) else ()


def _mark(ids: tuple[str, ...], call: Callable[[], object], given: tuple[object, ...]) -> Any:
    with marked(",".join(ids)):
        return call()


def _clock(note: defaultdict[str, list[float]]) -> Observer:
    """Records the seconds of a call under its first id."""

    def observer(ids: tuple[str, ...], call: Callable[[], object], given: tuple[object, ...]) -> Any:
        on_gpu = any(isinstance(each, torch.Tensor) and each.is_cuda for each in given)
        result, seconds = (_on_gpu if on_gpu else _on_processor)(call)
        if ids:
            note[ids[0]].append(seconds)
        return result

    return observer


def _on_processor(call: Callable[[], object]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def _on_gpu(call: Callable[[], object]) -> tuple[Any, float]:
    """By the GPU's own clock."""
    cuda: Any = torch.cuda
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    occupy_gpu()
    begin.record()
    result = call()
    end.record()
    end.synchronize()
    return result, begin.elapsed_time(end) / 1e3
