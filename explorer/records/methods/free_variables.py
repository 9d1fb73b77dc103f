"""Plain values that a function reads and that are not arguments: globals, closures, attributes of a module."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

Plain = (bool, int, float)


@dataclass(frozen=True)
class FreeVariable:
    """Another value for a free variable. `kind` is "global", "closure" or "attribute"; `was` is the original."""

    kind: str
    name: str
    value: Any
    was: Any

    @contextmanager
    def on(self, fn: Callable[..., Any]) -> Iterator[None]:
        """`fn` reads the other value inside the block."""
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


def free_variables(fn: Callable[..., Any]) -> Iterator[FreeVariable]:
    """Each plain free variable that `fn` itself reads, with another value."""
    if isinstance(fn, torch.nn.Module):
        names = [name for name in vars(fn) if not name.startswith("_") and name != "training"]
        plain = ((name, getattr(fn, name)) for name in names if _plain(getattr(fn, name)))
        yield from (_changed_variable("attribute", *each) for each in plain)
        return
    if not isinstance(fn, types.FunctionType):
        return
    for name in fn.__code__.co_names:
        if _plain(value := fn.__globals__.get(name)):
            yield _changed_variable("global", name, value)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if _plain(value := cell.cell_contents):
            yield _changed_variable("closure", name, value)


@contextmanager
def containers(fn: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """The lists, dicts and sets among the globals and closures that `fn` itself names; their items are put back at the
    end of the block."""
    found: dict[str, Any] = {}
    if isinstance(fn, types.FunctionType):
        found.update((name, fn.__globals__.get(name)) for name in fn.__code__.co_names)
        found.update(inspect.getclosurevars(fn).nonlocals)
    found = {name: value for name, value in found.items() if type(value) in (list, dict, set)}
    before = {name: copy.copy(value) for name, value in found.items()}
    try:
        yield found
    finally:
        for name, value in found.items():
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(before[name])


def _plain(value: Any) -> bool:
    return isinstance(value, Plain)


def _changed_variable(kind: str, name: str, value: Any) -> FreeVariable:
    return FreeVariable(kind, name, (not value) if isinstance(value, bool) else value + 1, value)


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
