"""Context managers of torch in traced code: autocast, and those that are written in C++. Stock:
variables/ctx_manager.py.
"""

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

_C: Any = torch._C

WITHOUT_NODES = (_C.DisableTorchFunctionSubclass, _C.DisableTorchFunction)
"""Those that no operator of a graph asks for: the tensors of a graph override nothing."""

CONTEXTS = (
    *WITHOUT_NODES, _C._InferenceMode, _C._DisableAutocast, _C._AutoDispatchBelowAutograd, _C._ExcludeDispatchKeyGuard,
    _C._IncludeDispatchKeyGuard, _C._ForceDispatchKeyGuard,
)  # fmt: skip


class ContextValue(ObjectValue):
    """One made while tracing: entered and left for real, and by nodes. `arguments` are its constructor's."""

    def __init__(self, cls: type, arguments: tuple[Any, ...]) -> None:
        super().__init__(cls)
        self.arguments = arguments

    def get_attr(self, t: Tracer, name: str) -> Value:
        return t.builtin_method(self, name) if name in ("__enter__", "__exit__") else super().get_attr(t, name)

    def special(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        return self.method(t, name, args, kwargs or {})

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name:
            case "__enter__":
                t.torch_state.enter_context(self, self.cls, self.arguments, self.cls not in WITHOUT_NODES)
                return self
            case "__exit__":
                if not t.torch_state.leave_context(self):
                    unsupported(reasons.OPERATION, f"leaving a {self.cls.__name__} that is not the innermost one")
                return Constant(None)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        """Push one made anew. Most are entered as they are made."""
        opened = next((each for each in r.t.torch_state.pending if each.manager is self), None)
        r.switch(opened.settings if opened is not None else ())
        r.call(self.cls, list(map(Constant, self.arguments)))
        if opened is None:
            name = r.temp()
            r.emit("STORE_FAST", name)
            r.discard_method(lambda: r.emit("LOAD_FAST", name), "__exit__", [Constant(None)] * 3)
            r.emit("LOAD_FAST", name)


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
