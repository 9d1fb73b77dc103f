"""What stock's compile time goes into, by torch's own timers."""

from __future__ import annotations

from typing import Any

from explorer.records.stock.hook import Hook, Patch
from explorer.records.stock.observation import Observation

SHORTEST = 200_000
"""Nanoseconds; a phase that took less is counted, not shown."""


def before_end(seen: Observation, args: tuple[Any, ...]) -> None:
    logger, name, ended, _, began = args[:5]
    if not seen.compiling():  # a thread that builds a kernel, which is a build of its compile
        return
    compile = seen.compile()
    if ended - began < SHORTEST:
        compile.left_out["Phase"] += 1
    else:
        depth = len(logger.get_stack()) - 1
        compile.event("Phase", name="  " * max(depth, 0) + name, seconds=f"{(ended - began) / 1e9:.6f}")


HOOK = Hook(
    "phases",
    shows="compile time by phase, as torch times it",
    missing="the times of the stages alone",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch("torch._dynamo.utils:ChromiumEventLogger.log_event_end", before=before_end),),
)
