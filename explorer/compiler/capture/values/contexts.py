"""Context managers of torch that are written in C++: inference_mode's, and others. Stock: variables/ctx_manager.py."""

from __future__ import annotations

from typing import Any

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import ObjectValue
from explorer.core.reasons import unsupported

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
