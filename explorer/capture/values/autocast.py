"""torch.autocast as a context manager of traced code. Stock counterpart: variables/ctx_manager.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from explorer.capture.values.base import Value
from explorer.capture.values.constant import Constant
from explorer.capture.values.objects import ObjectValue
from explorer.ir.capture import Attr, Source

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer


class AutocastValue(ObjectValue):
    """torch.autocast: entering and leaving are nodes. `arguments` are device type, dtype, enabled, cache_enabled."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__(torch.autocast)
        self.arguments = arguments
        self.node: Any = None
        self.context: Any = None

    @classmethod
    def given_by_frame(cls, t: Tracer, source: Source, given: torch.autocast) -> AutocastValue:
        """For one made outside; what it asks for is guarded."""
        names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
        made = cls(tuple(t.constant_of(t.wrap(Attr(source, name), getattr(given, name))) for name in names))
        made.source, made.given = source, given
        return made

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "__enter__":
            return t.host(lambda args, kwargs: self.enter(t))
        if name == "__exit__":
            return t.host(lambda args, kwargs: self.leave(t))
        return super().get_attr(t, name)

    def enter(self, t: Tracer) -> Value:
        self.context = torch.amp.autocast_mode._enter_autocast(*self.arguments)
        t.autocasts.append(self)
        self.node = t.tape.add("call_function", torch.amp.autocast_mode._enter_autocast, self.arguments, {}, None)
        return self

    def leave(self, t: Tracer) -> Value:
        torch.amp.autocast_mode._exit_autocast(self.context)
        t.autocasts.remove(self)
        t.tape.add("call_function", torch.amp.autocast_mode._exit_autocast, (self.node,), {}, None)
        return Constant(False)
