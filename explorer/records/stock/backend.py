"""Backends by name: ours for stock `torch.compile`, also where the package is not installed, and stock's for ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

from torch._dynamo.backends import registry
from torch._dynamo.exc import InvalidBackend


def register(ours: EntryPoint) -> None:
    """Make `torch.compile(fn, backend="explorer")` work. A second call changes nothing.

    `ours` is what an installed package's metadata would give, so that Dynamo loads it as it loads that one.
    """
    registry._BACKENDS.setdefault(ours.name, ours)


def installed() -> tuple[str, ...]:
    """The names of the backends that `torch.compile(backend=...)` takes here and whose packages are there."""
    found = []
    for name in registry.list_backends(exclude_tags=None):
        try:
            registry.lookup_backend(name)
        except ImportError:
            continue
        found.append(name)
    return tuple(found)


def named(name: str) -> Callable[..., Any]:
    """The backend that `torch.compile(fn, backend=name)` would use. Raises ValueError for one that does not exist."""
    try:
        return registry.lookup_backend(name)
    except InvalidBackend:
        known = sorted({*registry.list_backends(exclude_tags=None), "explorer"})
        raise ValueError(f"no backend {name!r}; there are: {', '.join(known)}") from None
