"""torch.autocast as a context manager of traced code. Stock counterpart: variables/ctx_manager.py."""

from __future__ import annotations

from typing import Any

import torch
from torch.cpu.amp import autocast_mode as cpu
from torch.cuda.amp import autocast_mode as cuda

from explorer.compiler.capture import reasons
from explorer.compiler.capture.torch_state import Autocast
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import MISSING, ObjectValue
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Source

AUTOCASTS = (torch.autocast, cpu.autocast, cuda.autocast)


class AutocastValue(ObjectValue):
    """torch.autocast: entering and leaving are nodes. `arguments` are device type, dtype, enabled, cache_enabled."""

    NAMES = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    BEFORE = ("device", "prev_fastdtype", "prev", "prev_cache_enabled")
    """The attributes that hold the arguments, and those that hold the state before it was entered."""

    def __init__(self, arguments: Autocast, source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(torch.autocast, source, given)
        self.arguments = arguments
        if given is MISSING:
            self.overlay = dict(zip(self.NAMES, map(Constant, arguments), strict=True))

    @classmethod
    def given_by_frame(cls, t: Tracer, source: Source, given: torch.autocast) -> AutocastValue:
        """For one made outside; what it asks for is guarded."""
        return cls(_read(t, source, given, cls.NAMES), source, given)

    def enter(self, t: Tracer) -> Value:
        t.torch_state.enter_autocast(self.arguments, self)
        return self

    def leave(self, t: Tracer) -> Value:
        opened = t.torch_state.autocasts
        if opened and opened[-1].manager is self:
            t.torch_state.leave_autocast()
        elif self.source is None or opened:
            unsupported(reasons.OPERATION, "leaving a torch.autocast block that is not the innermost one")
        else:
            t.torch_state.leave_given_autocast(self, self.arguments, _read(t, self.source, self.given, self.BEFORE))
        return Constant(False)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(torch.autocast, list(map(Constant, self.arguments)))


def _read(t: Tracer, source: Source, given: Any, names: tuple[str, ...]) -> Any:
    """Attributes of an autocast that was made outside, guarded."""
    if not all(hasattr(given, name) for name in names):
        unsupported(reasons.OPERATION, "leaving a torch.autocast block that was not entered")
    return tuple(t.constant_of(t.wrap(Attr(source, name), getattr(given, name))) for name in names)
