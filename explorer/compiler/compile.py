"""The compiler by itself: `compile(fn)`, and the settings by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from explorer.compiler.capture import optimize
from explorer.compiler.config import Config, GraphPass
from explorer.compiler.pipeline import compile_frame
from explorer.ir.program import Target

OWN_BACKENDS = ("explorer", "eager")


def compile(fn: object = None, config: Config | None = None) -> Any:
    """Compile a function, method or module with these settings; without `fn`, a decorator that does."""
    chosen = config or Config()
    if fn is None:
        return lambda decorated: optimize(decorated, chosen, compile_frame)
    return optimize(fn, chosen, compile_frame)


def not_there(name: str) -> Callable[..., Any]:
    raise ValueError(f"no backend {name!r}; there are: {', '.join(OWN_BACKENDS)}")


def configure(
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "explorer",
    target: str | None = None,
    passes: Sequence[GraphPass] = (),
    options: Mapping[str, Any] | None = None,
    named: Callable[[str], Callable[..., Any]] = not_there,
) -> Config:
    """A Config from the arguments of `explorer.compile`; `named` finds a backend that is not this package's own.
    Raises ValueError naming what does not exist and what does."""
    known = {field.name for field in fields(Config)}
    if unknown := sorted(set(options or {}) - known):
        raise ValueError(f"no option {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    chosen = None if target is None else Target.parse(target)
    base = Config(target=chosen, fullgraph=fullgraph, dynamic=dynamic, backend=backend, passes=tuple(passes))
    made = replace(base, **dict(options or {}))
    if isinstance(made.backend, str) and made.backend not in OWN_BACKENDS:
        made = replace(made, backend=named(made.backend))
    if not isinstance(made.backend, str) and not callable(made.backend):
        raise TypeError(f"a backend is a name or a callable, not {type(made.backend).__name__}")
    return made
