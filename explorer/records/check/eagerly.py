"""Eager calls, in which functions that the program compiled itself, by torch or by this package, run eagerly too."""

from __future__ import annotations

import importlib
import threading
from contextvars import ContextVar, Token
from types import ModuleType

from explorer.compiler.capture import hook

OWN_COMPILED = (
    "The program calls functions that it compiled itself: in the eager calls, with which results and times are "
    "compared, they run eagerly too, at the cost of the compilers' wrappers around them."
)

_met: ContextVar[list[object] | None] = ContextVar("compiled functions met in an eager call", default=None)


class Replaced:
    """Inside, what asks whether a call of a compiled function runs compiled is replaced. Unlike
    torch.compiler.set_stance this leaves alone what other threads call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._originals: list[tuple[ModuleType, str, object]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._replace(importlib.import_module("torch._dynamo.eval_frame"), "_callback_from_stance", None)
                self._replace(hook, hook.stance.__name__, "force_eager")

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._open -= 1
            while not self._open and self._originals:
                setattr(*self._originals.pop())

    def _replace(self, module: ModuleType, name: str, eager: object) -> None:
        original = getattr(module, name)

        def asked(*callback: object) -> object:
            """`callback`: stock's, None or False where the function is not to be compiled anyway."""
            met = _met.get()
            if met is None:
                return original(*callback)
            if callback not in ((None,), (False,)):
                met.append(callback)
            return eager

        self._originals.append((module, name, original))
        setattr(module, name, asked)


replaced = Replaced()


class Eagerly:
    """Inside, in this thread, compiled functions run eagerly; `met` gets an item for each call of one. Around timed
    calls, hence so little."""

    __slots__ = ("met", "_token")

    def __enter__(self) -> Eagerly:
        self.met: list[object] = []
        replaced.__enter__()
        self._token: Token[list[object] | None] = _met.set(self.met)
        return self

    def __exit__(self, *raised: object) -> None:
        _met.reset(self._token)
        replaced.__exit__()
