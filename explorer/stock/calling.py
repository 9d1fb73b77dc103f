"""Where a call of a compiled function begins and ends, ours and stock's: what is wrapped while a program is watched.

These run at every call, so that they are as short as can be and no part of what surrounds functions elsewhere.
"""

from __future__ import annotations

import sys
from typing import Any

from explorer.core.calls import CallLog, Function
from explorer.stock.hook import Hook, Watch, unseen
from explorer.stock.run import applied


def hook_of(log: CallLog, settings: dict[str, str]) -> Hook:
    """What tells `log` of each call. `settings` get what torch.compile was given, by function."""

    def meet(_: Any) -> str:
        """The name of the function whose wrapper, made by torch.compile, is being called the first time."""
        wrapper = sys._getframe(3).f_locals
        name = _name(wrapper.get("fn"))
        if "self" in wrapper:
            settings.update({f"{name}: {key}": value for key, value in applied(wrapper["self"]).items()})
        return name

    def meet_ours(engine: Any) -> str:
        return str(engine.roots[0].co_qualname)

    def begins(callback_from_stance: Function) -> Function:  # which torch.compiler.disable calls with None
        return unseen(log.entering(callback_from_stance, meet, "stock"))

    def begins_ours(enter_frames: Function) -> Function:
        return unseen(log.entering(enter_frames, meet_ours, "explorer"))

    def ends(function: Function) -> Function:
        return unseen(log.leaving(function))

    return Hook(
        "calls",
        shows="each call of a compiled function, and what it took",
        missing="no times of calls",
        checked=("2.13 CPU",),
        watches=(
            Watch("torch._dynamo.eval_frame:_callback_from_stance", instead=begins),
            Watch("torch._C._functorch:pop_dynamic_layer_stack_and_undo_to_depth", instead=ends),
            Watch("explorer.capture.hook:enter_frames", instead=begins_ours),
            Watch("explorer.capture.hook:leave_region", instead=ends),
        ),
    )


def _name(fn: Any) -> str:
    inner = getattr(fn, "__self__", None)
    if inner is not None and getattr(fn, "__name__", "") in ("__call__", "_call_impl", "_wrapped_call_impl", "forward"):
        return type(inner).__qualname__
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)
