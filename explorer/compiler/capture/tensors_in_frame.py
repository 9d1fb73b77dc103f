"""Whether a frame that is about to run may touch a tensor at all. Stock: convert_frame.py, has_tensor_in_frame."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from explorer.compiler.capture.guards import instance_dict
from explorer.compiler.capture.values.constant import is_plain
from explorer.core.classes import is_written_in_c

DEEPEST = 4
MOST = 200
"""How deep into objects, and at how many of them, is looked for a tensor: a frame with more to it may have one."""


def may_use_tensors(code: types.CodeType, locals: Mapping[str, Any], globals: Mapping[str, Any]) -> bool:
    """Whether a tensor, a module or torch itself can be reached from what the frame is given or names.

    Functions that it calls are frames of their own, which are asked for themselves.
    """
    named = (globals[name] for name in set(_names(code)) if name in globals)
    return any(_is_torchs(value) for value in (*named, *locals.values())) or _holds_tensor(locals.values())


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that the body and the bodies inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_torchs(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] == "torch"
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return True
    module = getattr(value, "__module__", None) if callable(value) else None
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def _holds_tensor(values: Iterable[Any]) -> bool:
    pending = [(value, 0) for value in values]
    for looked, (value, depth) in enumerate(pending):
        inside = _inside(value)
        if inside is None or looked > MOST or (inside and depth == DEEPEST):
            return True
        pending += [(item, depth + 1) for item in inside]
    return False


def _inside(value: Any) -> list[Any] | None:
    """What an object holds, without running code of its own; None for a tensor, an array, a module, and what cannot
    be looked into."""
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return None
    if is_plain(value) or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return []
    if issubclass(kind, (torch.Tensor, torch.nn.Module)):
        return None
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return [*_contents(value.__closure__ or ()), *(value.__defaults__ or ()), *value.__dict__.values()]
    classes = list(kind.__mro__)
    while not is_written_in_c(classes[0]):
        if vars(classes.pop(0)).get("__slots__"):
            return None
    base = classes[0]
    if base not in _CONTAINERS:
        return None
    return [*_CONTAINERS[base](value), *(instance_dict(value) or {}).values()]


def _contents(cells: Iterable[types.CellType]) -> list[Any]:
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue  # still empty
    return found


_CONTAINERS: Mapping[type, Callable[[Any], Iterable[Any]]] = {
    object: lambda value: (), dict: dict.values, collections.OrderedDict: dict.values,
    collections.defaultdict: dict.values, list: list.__iter__, tuple: tuple.__iter__, set: set.__iter__,
    frozenset: frozenset.__iter__,
}  # fmt: skip
"""What objects hold, by the nearest class of theirs that is written in C."""
