"""Where a call of a compiled function begins and ends, ours and stock's: what is wrapped while a program is watched.

These run at every call, so that they are as short as can be and no part of what surrounds functions elsewhere.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePath
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

import torch
from torch._dynamo import eval_frame, pgo

from explorer.core.files import cell_name
from explorer.core.recorder import SILENT, Recorder, recording
from explorer.ir.settings import skip_frames
from explorer.records.check.trial import Trial
from explorer.records.data.calls import PROFILED, CallLog, Function, OutsideGraphs, Place, Share, place_of
from explorer.records.stock.frames import code_of, name_of
from explorer.records.stock.hook import Hook, Patch, unseen, watching
from explorer.records.stock.observation import Observation
from explorer.records.stock.run import WATCHING, applied, forget_sizes, release

# What one call of compiled functions runs outside graphs, ours and stock's: seconds of each function's own Python, and
# ATen calls.
#
# It is measured in one call, since telling it of every call would cost more than the call: the frames that may run
# eagerly are told by Python's profiler, the operators by torch's first one (the later one prints to the terminal).


GRAPH = "a graph"
FRAME = "frame "
GRAPHS = (GRAPH, "CompiledFunctionBackward")
OTHERS = (*GRAPHS, "TorchDynamo Cache Lookup")
"""What is no function of the program. Torch says the last of checking guards."""

MOST_FRAMES = 50_000
"""Calls of the program's functions in one call that is measured; it is given up where there are more."""

_torch: Any = torch.autograd


class OneCall:
    """Measures one call, of one thread, at a time. `log` wraps the graphs. Functions are told apart that `seen` saw of
    stock, or `recorder` of ours; what others take is part of what called them."""

    def __init__(self, log: CallLog, seen: Observation, recorder: Recorder) -> None:
        self._log, self._seen, self._recorder = log, seen, recorder
        self._thread = 0
        self._warm = False
        self._places: list[Place] = []
        self._given_up = ""
        self._frames: Callable[[FrameType, str, Any], None] | None = None

    def begin(self) -> bool:
        """Measure what this thread does; False where somebody measures already."""
        if self._thread or sys.getprofile() is not None:
            return False
        self._thread = threading.get_ident()  # at once: other threads ask too
        if not _enabled():
            self._thread = 0
            return False
        if not self._warm:  # what torch does when it is asked for the first time is nobody's
            self._warm = True
            with torch._C._profiler._RecordFunctionFast(FRAME):
                _torch._disable_profiler_legacy()
            _enabled()
        self._given_up, self._places = "", []
        self._frames = self._frame_watcher()
        sys.setprofile(self._frames)
        return True

    def _frame_watcher(self) -> Callable[[FrameType, str, Any], None]:
        known: dict[int, tuple[CodeType, str]] = {}
        codes = [compile.code for compile in self._seen.compiles if compile.code is not None]
        theirs = {place_of(code)[:3] for code in (*codes, *self._seen.left, *self._seen.continuations)}
        ours = {run.title for run in self._recorder.compiles}
        graph, places, stack = self._log.runs_graph, self._places, list[tuple[FrameType, Any]]()
        fast: Any = torch._C._profiler._RecordFunctionFast

        def named(code: CodeType) -> str:
            if code is graph:
                name = GRAPH
            elif place_of(code)[:3] in theirs or code.co_qualname in ours or code.co_name in ours:
                name = f"{FRAME}{len(places)}"
                places.append(place_of(code))
            else:
                name = ""
            known[id(code)] = code, name
            return name

        def watch(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                code = frame.f_code
                found = known.get(id(code))
                if name := named(code) if found is None else found[1]:
                    counted[0] += 1
                    if counted[0] > MOST_FRAMES:
                        self.give_up(f"more than {MOST_FRAMES:,} calls of Python functions were made in it")
                        return
                    label = fast(name)
                    label.__enter__()
                    stack.append((frame, label))
            elif event == "return" and stack and stack[-1][0] is frame:
                stack.pop()[1].__exit__(None, None, None)

        counted = [0]
        skip_frames(watch, with_callees=True)
        return watch

    def give_up(self, why: str) -> None:
        if self._thread == threading.get_ident() and not self._given_up:
            self._given_up = why
            self._stop()

    def end(self) -> dict[Place, Share] | str:
        if self._thread != threading.get_ident():
            return self._given_up
        self._thread, undisturbed = 0, sys.getprofile() is self._frames
        if self._given_up:
            return self._given_up
        events = self._stop()
        return _shares(events, self._places) if undisturbed else PROFILED

    def _stop(self) -> Iterable[Iterable[Any]]:
        if sys.getprofile() is self._frames:
            sys.setprofile(None)
        self._frames = None
        made: Iterable[Iterable[Any]] = _torch._disable_profiler_legacy()
        return made


def _enabled() -> bool:
    """Whether torch's profiler is on from now on: not where the program has one on."""
    try:
        details = torch._C._profiler._ExperimentalConfig()
        settings = _torch.ProfilerConfig(_torch.ProfilerState.CPU, False, False, False, False, False, details)
        ENABLE(settings)
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


ENABLE: Any = getattr(_torch, "_enable_profiler_legacy", None)
"""As it is when nobody has wrapped it."""


def at(code: CodeType) -> str:
    """Where a function is: that which stands for the call of a module has no place."""
    return (
        ""
        if code.co_filename.startswith("<")
        else f"{cell_name(code.co_filename) or PurePath(code.co_filename).name}:{code.co_firstlineno}"
    )


def _shares(events: Iterable[Iterable[Any]], places: list[Place]) -> dict[Place, Share]:
    """Seconds and ATen calls by the innermost function around them. What graphs and checks of guards take is nobody's,
    and so is what comes before the first function."""
    found: dict[Place, Share] = {}
    for thread in events:
        nobody = Share()
        owners, operators, last = [nobody], [0], 0.0
        for event in thread:
            now, kind = event.start_us(), event.kind()
            owners[-1].seconds += (now - last) / 1e6
            last = now
            if kind == "pop" and len(owners) > 1:
                owners.pop()
                operators.pop()
            elif kind == "push":
                name, owner, around = event.name(), owners[-1], operators[-1]
                if name.startswith(FRAME):
                    owner = found.setdefault(places[int(name.removeprefix(FRAME))], Share())
                elif name in OTHERS:
                    owner.compiled |= name in GRAPHS
                    owner = nobody
                elif is_operator(event, name):
                    owner.calls += not around
                    around += 1
                owners.append(owner)
                operators.append(around)
    return found


def is_operator(event: Any, name: str) -> bool:
    """Functions of autograd have another scope, or a name of its own."""
    return event.scope() == 0 and "::" in name and not name.startswith(("autograd::", "torch::autograd::"))


PROFILERS = (
    "torch.autograd.profiler:_prepare_profiler", "torch.autograd.profiler:_enable_profiler",
    "torch.autograd.profiler_legacy:_enable_profiler_legacy", "torch.autograd:_enable_profiler_legacy",
)  # fmt: skip


def hook_of(log: CallLog, seen: Observation, recorder: Recorder) -> Hook:
    """What tells `log` of each call, and has it measure one of each function. `seen` learns what torch.compile was
    given, by function."""
    log.measure = one_call = OneCall(log, seen, recorder)

    def meet(_: object) -> tuple[str, str]:
        """Name and place of the function whose wrapper, made by torch.compile, is being called the first time."""
        wrapper = sys._getframe(3).f_locals
        fn = wrapper.get("fn")
        name = name_of(fn)
        if "self" in wrapper:
            seen.settings.update({f"{name}: {key}": value for key, value in applied(wrapper["self"]).items()})
        code = code_of(fn)
        return name, "" if code is None else at(code)

    def meet_ours(engine: Any) -> tuple[str, str]:
        code = engine.roots[0]
        return str(code.co_qualname), at(code)

    def begins(callback_from_stance: Function) -> Function:
        """torch.compiler.disable calls it too, with None, and so does each graph. What it gave back as it was is not
        asked for again under the same stance."""
        known, open, clock, some = log.known(meet, "stock"), log.open, perf_counter, object()
        as_is = callback_from_stance(some) is some and callback_from_stance(None) is None
        plain = eval_frame._stance if as_is else some

        def begin(callback: object) -> Any:
            if callback:
                open.stack.append((known[callback], clock()))
            return callback if eval_frame._stance is plain else callback_from_stance(callback)

        return unseen(begin)

    def begins_ours(enter_frames: Function) -> Function:
        known, open, clock = log.known(meet_ours, "explorer"), log.open, perf_counter

        def begin(engine: object) -> Any:
            open.stack.append((known[engine], clock()))
            return enter_frames(engine)

        return unseen(begin)

    def takes_stance(_: object, args: tuple[Any, ...]) -> None:
        seen.stances.update(dict.fromkeys([args[0].stance] if args[0].stance != "default" else []))

    def starts_process(_: object, __: tuple[Any, ...]) -> None:
        seen.processes += not seen.compiling()  # what compiles for torch beside it is none of the program's

    def ends(function: Function) -> Function:
        return unseen(log.leaving(function))

    def makes_way(profiler: Function) -> Function:
        """The program's own profiler, which torch refuses where there is one already."""

        def begin(*args: object, **kwargs: object) -> Any:
            one_call.give_up(PROFILED)
            return profiler(*args, **kwargs)

        return unseen(begin)

    return Hook(
        "calls",
        shows="each call of a compiled function, and its time",
        missing="no times of calls",
        checked=("2.13 CPU",),
        patches=(
            Patch("torch._dynamo.eval_frame:_callback_from_stance", instead=begins),
            Patch("torch._dynamo.decorators:_set_stance", before=takes_stance),
            Patch("multiprocessing.process:BaseProcess.start", before=starts_process),
            Patch("torch._C._functorch:pop_dynamic_layer_stack_and_undo_to_depth", instead=ends),
            Patch("explorer.compiler.capture.hook:enter_frames", instead=begins_ours),
            Patch("explorer.compiler.capture.hook:leave_region", instead=ends),
            *(Patch(each, instead=makes_way) for each in PROFILERS),
        ),
    )


MOST_CALLS = 5
"""Calls that are made until in one of them nothing is compiled."""


def one_call(trial: Trial, compiler: Callable[[Callable[..., Any]], Callable[..., Any]]) -> tuple[OutsideGraphs, ...]:
    """What runs outside graphs in one call of what `compiler` makes of the function. Raises what that raises."""
    log = CallLog()
    seen, recorder = Observation(calls=log), Recorder(SILENT, log)
    sizes = copy.deepcopy(pgo.get_code_state())
    try:
        with trial.timed(), recording(recorder), watching(seen, (*WATCHING, hook_of(log, seen, recorder))):
            contestant = trial.contestant(compiler)
            for _ in range(MOST_CALLS):
                trial.reset()
                contestant.call()
                if log.outside:
                    break
    finally:
        release(seen)
        forget_sizes(seen, sizes)
    return tuple(replace(each, number=0) for each in log.outside)
