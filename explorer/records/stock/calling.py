"""Where a call of a compiled function begins and ends, ours and stock's: what is wrapped while a program is watched.

These run at every call, so that they are as short as can be and no part of what surrounds functions elsewhere.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from torch._dynamo import eval_frame, pgo

from explorer.core.calls import CallLog, Function, OutsideGraphs
from explorer.core.recorder import SILENT, Recorder, recording
from explorer.records.check.trial import Trial
from explorer.records.stock.frames import name_of
from explorer.records.stock.hook import Hook, Patch, unseen, watching
from explorer.records.stock.observation import Observation
from explorer.records.stock.outside import OneCall
from explorer.records.stock.run import WATCHING, applied, forget_sizes, release

PROFILERS = (
    "torch.autograd.profiler:_prepare_profiler", "torch.autograd.profiler:_enable_profiler",
    "torch.autograd.profiler_legacy:_enable_profiler_legacy", "torch.autograd:_enable_profiler_legacy",
)  # fmt: skip


def hook_of(log: CallLog, seen: Observation, recorder: Recorder) -> Hook:
    """What tells `log` of each call, and has it measure one of each function. `seen` is told what torch.compile was
    given, by function."""
    log.measure = one_call = OneCall(log, seen, recorder)

    def meet(_: Any) -> str:
        """The name of the function whose wrapper, made by torch.compile, is being called the first time."""
        wrapper = sys._getframe(3).f_locals
        name = name_of(wrapper.get("fn"))
        if "self" in wrapper:
            seen.settings.update({f"{name}: {key}": value for key, value in applied(wrapper["self"]).items()})
        return name

    def meet_ours(engine: Any) -> str:
        return str(engine.roots[0].co_qualname)

    def begins(callback_from_stance: Function) -> Function:
        """torch.compiler.disable calls it too, with None, and so does each graph. What it gave back as it was is not
        asked for again under the same stance."""
        known, open, clock, some = log.known(meet, "stock"), log.open, perf_counter, object()
        as_is = callback_from_stance(some) is some and callback_from_stance(None) is None
        plain = eval_frame._stance if as_is else some

        def begin(callback: Any) -> Any:
            if callback:
                open.stack.append((known[callback], clock()))
            return callback if eval_frame._stance is plain else callback_from_stance(callback)

        return unseen(begin)

    def begins_ours(enter_frames: Function) -> Function:
        known, open, clock = log.known(meet_ours, "explorer"), log.open, perf_counter

        def begin(engine: Any) -> Any:
            open.stack.append((known[engine], clock()))
            return enter_frames(engine)

        return unseen(begin)

    def ends(function: Function) -> Function:
        return unseen(log.leaving(function))

    def makes_way(profiler: Function) -> Function:
        """The program's own profiler, which torch refuses where there is one already."""

        def begin(*args: Any, **kwargs: Any) -> Any:
            one_call.give_up()
            return profiler(*args, **kwargs)

        return unseen(begin)

    return Hook(
        "calls",
        shows="each call of a compiled function, and what it took",
        missing="no times of calls",
        checked=("2.13 CPU",),
        patches=(
            Patch("torch._dynamo.eval_frame:_callback_from_stance", instead=begins),
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
