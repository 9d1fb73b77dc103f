"""The peak memory of one call, and the seconds of each kernel and library call of a half on made-up inputs."""

from __future__ import annotations

import operator
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import accumulate, cycle
from pathlib import Path
from types import FrameType
from typing import Any

import sympy
import torch
from torch import fx
from torch.autograd.profiler import record_function

from explorer.core.files import OWN_FILES
from explorer.ir import record as data
from explorer.ir.graph import Graph, has_effect, info, needed_by
from explorer.ir.joint import Partitioned, Primal, SavedValue
from explorer.ir.loops import Buffer, Loops, Size
from explorer.ir.program import Program


def peak_bytes(call: Callable[[], object]) -> int | None:
    """Runs the call once, its results alive to the end, and counts what torch's allocators give and get back: of the
    GPU, or where nothing is taken there of the processor. Of that the peak is counted from the lowest level before it,
    so that what the call frees first, such as the gradients of the last step, does not hide what it takes. None where
    torch does not tell, since the program is being profiled already, say."""
    if not torch.cuda.is_initialized():
        return _on_processor(call)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = _on_processor(call)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before or found


def _on_processor(call: Callable[[], object]) -> int | None:
    recorded = _recorded(call)
    if recorded is None:
        return None
    changes = [each.cpu_memory_usage() for thread in recorded for each in thread if each.kind() == "memory_alloc"]
    levels: list[int] = list(accumulate(changes, initial=0))
    return max(level - low for level, low in zip(levels, accumulate(levels, min), strict=True))


def _recorded(call: Callable[[], object]) -> Any:
    """What torch's first profiler records of a call, thread by thread, whose results are alive to the end: the later
    one prints to the terminal as it starts. None where torch does not tell."""
    own: Any = torch.autograd
    try:
        kind, details = own.ProfilerState.CPU, torch._C._profiler._ExperimentalConfig()
        own._enable_profiler_legacy(own.ProfilerConfig(kind, False, True, False, False, False, details))
    except (AttributeError, TypeError, RuntimeError):
        call()
        return None
    try:
        kept = call()
    except RuntimeError as error:
        if "rofiler" not in str(error):
            raise
        return None  # the program profiles itself, which it cannot do inside of another profile
    finally:
        recorded = own._disable_profiler_legacy()
    del kept
    return recorded


STEP = "explorer::"


def live_bytes(program: Program, steps: Sequence[str], inputs: Sequence[object]) -> tuple[int, ...]:
    """The bytes that a program holds beside its inputs, from what torch's allocator gives it and gets back: the most at
    each step, what is taken for it included, and what is returned in the end. () where torch does not tell."""
    run = program.marked
    if run is None:
        return ()
    program.release()
    found = peak_bytes_at(lambda: run(inputs, marked))
    return (*(found[id] for id in steps), found[AT_END]) if found.keys() == {*steps, AT_END} else ()


AT_END = ""


def marked(id: str) -> record_function:
    """Around a step, for `held_at`."""
    return record_function(STEP + id)


def peak_bytes_at(run: Callable[[], object]) -> dict[str, int]:
    """The most bytes that a run held at each step that it marks, and in the end. Empty where torch does not tell, or
    where the run marks nothing."""
    for events in _recorded(run) or ():
        now = most = 0
        at: dict[str, int] = {}
        begun: list[str] = []
        for event in events:
            match event.kind():
                case "memory_alloc":
                    now += event.cpu_memory_usage() + event.cuda_memory_usage()
                    most = max(most, now)
                case "push":
                    begun.append(event.name())
                case "pop" if begun and (name := begun.pop()).startswith(STEP):
                    at[name.removeprefix(STEP)] = most
                    most = now
        if at:
            return {**at, AT_END: now}
    return {}


LONGEST = 0.25
"""Seconds that profiling one half may take; one run is always made."""

RUNS = 20


def profile(program: Program, inputs: Sequence[object]) -> dict[str, float]:
    """The median seconds by id of kernel or library call; empty where the program cannot be profiled."""
    if program.profile is None:
        return {}
    found: dict[str, list[float]] = defaultdict(list)
    program.profile(inputs)
    started = time.perf_counter()
    for _ in range(RUNS):
        for id, seconds in program.profile(inputs).items():
            found[id].append(seconds)
        if time.perf_counter() - started > LONGEST:
            break
    return {id: statistics.median(seconds) for id, seconds in found.items()}


LIBRARY = f"{Path(torch.__file__).parent}{os.sep}"


def kept_by_eager(call: Callable[[], object], fn: object, alive: Iterable[torch.Tensor]) -> dict[str, int]:
    """Runs the call of `fn` once, and counts what autograd saves in it by line and module, apart from the memory of
    `alive`. Empty where something in the program does not go with hooks on saved tensors."""
    modules = {id(module): name for name, module in fn.named_modules()} if isinstance(fn, torch.nn.Module) else {}
    known = {_memory(each)._cdata for each in alive if each.layout is torch.strided}
    found: Counter[str] = Counter()
    held: list[torch.UntypedStorage] = []  # so that no other gets its address

    def pack(value: torch.Tensor) -> torch.Tensor:
        if value.layout is torch.strided and (memory := _memory(value))._cdata not in known:
            known.add(memory._cdata)
            held.append(memory)
            found[_line(modules)] += memory.nbytes()
        return value

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            call()
    except RuntimeError:
        return {}
    return dict(found)


def _memory(value: torch.Tensor) -> torch.UntypedStorage:
    return value.detach().untyped_storage()


def _line(modules: Mapping[int, str]) -> str:
    """The innermost line, "FILE:LINE", that is neither torch's nor this package's, and the innermost module."""
    frame: FrameType | None = sys._getframe(1)
    module = ""
    while frame is not None and frame.f_code.co_filename.startswith((LIBRARY, OWN_FILES)):
        module = module or modules.get(id(frame.f_locals.get("self")), "")
        frame = frame.f_back
    inside = f" in module {module}" if module else ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}{inside}" if frame is not None else ""


CALLS = 5
"""Among which the one of median length is kept; where they take long, fewer."""

Launches = list[tuple[str, str, str, float, float]]
"""Compile, half, ids, when it began by the clock, and seconds."""


def one_call(
    call: Callable[[], object],
    reset: Callable[[], object],
    noting: Callable[[Launches], AbstractContextManager[object]],
) -> data.CallData:
    """A call with what it launches, which is noted inside the context `noting`."""
    found: list[tuple[float, float, Launches]] = []
    started = time.perf_counter()
    while len(found) < CALLS and (not found or time.perf_counter() - started < LONGEST):
        reset()
        launches: Launches = []
        with noting(launches):
            began = time.perf_counter()
            kept = call()
            found.append((time.perf_counter() - began, began, launches))
        del kept
    seconds, began, launches = sorted(found, key=lambda each: each[0])[len(found) // 2]
    made = (data.LaunchData(of, half, ids, at - began, took) for of, half, ids, at, took in launches)
    return data.CallData(seconds, tuple(made))


@contextmanager
def noted(program: Program, compile: str, half: str, launches: Launches) -> Iterator[None]:
    """Inside the block what a program for the CPU launches is noted, in the wrapper that its calls run."""
    assert program.call is not None
    names: dict[str, Any] = program.call.__globals__
    order = cycle([id for id, _ in program.generated.externs])  # a call may run it more than once
    called = {name for _, name in program.generated.externs}
    entries = {entry.function: ", ".join(entry.kernels) for entry in program.generated.entries}
    before = {name: names[name] for name in (*entries, *called)}
    clock = time.perf_counter

    def watched(function: Callable[..., object], ids: str) -> Callable[..., Any]:
        def run(*args: object, **kwargs: object) -> Any:
            own = ids or next(order, "")
            at = clock()
            made = function(*args, **kwargs)
            launches.append((compile, half, own, at, clock() - at))
            return made

        return run

    names.update({name: watched(function, entries.get(name, "")) for name, function in before.items()})
    try:
        yield
    finally:
        names.update(before)


def kept_for_backward(
    parts: Partitioned, forward: Program, given: Sequence[object], made: Sequence[object]
) -> list[Any]:
    """Inputs of the backward half that go with those `given` to the forward half: what that keeps for it, computed.
    Library calls read the workspace that others of theirs wrote, and may crash on any other. `made` are the rest."""
    returned = forward.call(given) if forward.call is not None else ()
    return [
        given[source.index] if isinstance(source, Primal)
        else returned[parts.kept_at[source.id]] if isinstance(source, SavedValue)
        else other
        for source, other in zip(parts.backward_inputs, made, strict=True)
    ]  # fmt: skip


def recomputed(parts: Partitioned, given: Sequence[object], inputs: Sequence[object]) -> dict[str, float]:
    """The median seconds that each value kept for the backward takes to compute again, operator by operator, from what
    was `given` to the forward half and what else is kept. `inputs` are the backward half's. The largest come first,
    until `LONGEST` is over."""
    graph = parts.forward
    if graph.device.type != "cpu":
        return {}
    sources = zip(parts.backward_inputs, inputs, strict=True)
    kept = {source.id: value for source, value in sources if isinstance(source, SavedValue)}
    nodes = {info(node).id: node for node in graph.graph.nodes if node.op != "output"}
    values = dict(zip(graph.inputs, given, strict=True)) | {nodes[id]: value for id, value in kept.items()}
    found: dict[str, float] = {}
    ends = time.perf_counter() + LONGEST
    for saved in sorted(parts.saved, key=lambda each: -each.bytes):
        again = _again(graph, nodes[saved.id], values) if isinstance(kept.get(saved.id), torch.Tensor) else None
        if again is None or time.perf_counter() > ends:
            continue
        again()
        own: list[float] = []
        while len(own) < RUNS and (not own or sum(own) < LONGEST / RUNS):
            started = time.perf_counter()
            again()
            own.append(time.perf_counter() - started)
        found[saved.id] = statistics.median(own)
    return found


def _again(graph: Graph, node: fx.Node, values: Mapping[fx.Node, object]) -> Callable[[], Any] | None:
    """Computes a node from the others that have values. None where more than ATen is in between, such as a collective,
    or random numbers, which would be others."""
    given = values.keys() - {node}
    needed = needed_by([node], given)
    part = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    for each in graph.graph.nodes:
        if each in needed and each in given:
            made[each] = part.placeholder(each.name)
        elif each in needed:
            pure = each.op == "get_attr" or each.target is operator.getitem
            if not pure and (getattr(each.target, "namespace", "") not in ("aten", "prims") or has_effect(each.target)):
                return None
            made[each] = part.node_copy(each, made.__getitem__)
    part.output(made[node])
    return partial(fx.GraphModule(dict(graph.constants), part), *(values[each] for each in made if each in given))


def example_inputs(loops: Loops) -> Sequence[Any]:
    """A value for each placeholder of a half: tensors of its layout, sizes at their hints. Floating-point tensors are
    drawn from a normal distribution and others are zero, so that an index is in range."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [
            _tensor(entry, loops.hints) if isinstance(entry, Buffer) else _hinted_size(entry, loops.hints)
            for entry in loops.inputs
            if not (isinstance(entry, Buffer) and entry.kind == "constant")
        ]


def _tensor(buffer: Buffer, hints: Mapping[sympy.Symbol, int]) -> torch.Tensor:
    layout = buffer.layout
    size, stride = ([_hinted_size(n, hints) for n in numbers] for numbers in (layout.size, layout.stride))
    made = torch.empty_strided(size, stride, dtype=layout.dtype, device=layout.device)
    return made.normal_() if made.is_floating_point() else made.zero_()


def _hinted_size(size: Size, hints: Mapping[sympy.Symbol, int]) -> int:
    return int(size.subs(hints)) if isinstance(size, sympy.Expr) else int(size)
