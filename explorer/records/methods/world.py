"""Values that a function reads and that are not its arguments: globals, closures, plain attributes of a module."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

Plain = (bool, int, float)


@dataclass(frozen=True)
class Setting:
    """A value to be had for the time of a call. `kind` is "global", "closure" or "attribute"."""

    kind: str
    name: str
    value: Any
    was: Any

    @contextmanager
    def on(self, fn: Callable[..., Any]) -> Iterator[None]:
        """`fn` sees the value inside the block."""
        if self.kind == "attribute":
            setattr(fn, self.name, self.value)
        elif self.kind == "global":
            function(fn).__globals__[self.name] = self.value
        else:
            _cell(fn, self.name).cell_contents = self.value
        try:
            yield
        finally:
            if self.kind == "attribute":
                setattr(fn, self.name, self.was)
            elif self.kind == "global":
                function(fn).__globals__[self.name] = self.was
            else:
                _cell(fn, self.name).cell_contents = self.was


def settings(fn: Callable[..., Any]) -> Iterator[Setting]:
    """Each plain value that `fn` itself reads from outside, changed."""
    if isinstance(fn, torch.nn.Module):
        names = [name for name in vars(fn) if not name.startswith("_") and name != "training"]
        yield from (_setting("attribute", name, getattr(fn, name)) for name in names if _plain(getattr(fn, name)))
        return
    if not isinstance(fn, types.FunctionType):
        return
    for name in fn.__code__.co_names:
        if _plain(value := fn.__globals__.get(name)):
            yield _setting("global", name, value)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if _plain(value := cell.cell_contents):
            yield _setting("closure", name, value)


def _plain(value: Any) -> bool:
    return isinstance(value, Plain)


def _setting(kind: str, name: str, value: Any) -> Setting:
    return Setting(kind, name, (not value) if isinstance(value, bool) else value + 1, value)


def function(fn: Callable[..., Any]) -> types.FunctionType:
    """The Python function under `fn`. Raises TypeError where there is none."""
    if isinstance(fn, torch.nn.Module):
        fn = type(fn).forward
    found = getattr(fn, "__func__", fn)
    if not isinstance(found, types.FunctionType):
        raise TypeError(f"{fn!r} is not a Python function")
    return found


def _cell(fn: Callable[..., Any], name: str) -> types.CellType:
    found = function(fn)
    assert found.__closure__ is not None
    return found.__closure__[found.__code__.co_freevars.index(name)]
