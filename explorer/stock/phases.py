"""What stock's compile time goes into, by torch's own timers."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.stock.hook import Call, Hook, Watch
from explorer.stock.observation import Observation

SHORTEST = 200_000
"""Nanoseconds; a phase that took less is counted, not shown."""


def around_end(seen: Observation, call: Call) -> Iterator[None]:
    name, ended = call.args[1:3]
    began = call.args[4] if len(call.args) > 4 else call.kwargs["start_time_ns"]
    if not seen.compiling():  # a thread that builds a kernel, which is a build of its compile
        yield
        return
    compile = seen.compile()
    if ended - began < SHORTEST:
        compile.left_out["Phase"] += 1
    else:
        depth = len(call.args[0].get_stack()) - 1
        compile.event("Phase", name="  " * max(depth, 0) + name, seconds=f"{(ended - began) / 1e9:.6f}")
    yield


HOOK = Hook(
    "phases",
    shows="compile time by phase, as torch times it",
    missing="the times of the stages alone",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    watches=(Watch("torch._dynamo.utils:ChromiumEventLogger.log_event_end", around_end),),
)
