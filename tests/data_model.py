"""What the tests of Python's data model share."""

from __future__ import annotations

import enum
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def shown(value: Any) -> Any:
    """A value as data that can be compared. Iterators are used up."""
    match value:
        case torch.Tensor():
            return (type(value).__name__, value.dtype, value.requires_grad, value.tolist(), shown(vars(value)))
        case nn.Module():
            return (type(value).__name__, shown(value.state_dict()), list(vars(value)))
        case None | bool() | int() | float() | str() | torch.Size() | enum.Enum():
            return value
        case Mapping():
            return (type(value).__name__, [(shown(k), shown(v)) for k, v in value.items()])
        case set() | frozenset():
            return (type(value).__name__, sorted(map(repr, value)))
        case list() | tuple() | deque():
            return (type(value).__name__, [shown(tuple.__getitem__(value, i) if isinstance(value, tuple) else value[i])
                                           for i in range(len(value))], getattr(value, "maxlen", None))  # fmt: skip
        case type() | types.FunctionType():
            return value.__qualname__
    if hasattr(value, "__next__"):
        return (type(value).__name__, [shown(item) for _, item in zip(range(9), value)])  # noqa: B905
    names = [*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())]
    return (type(value).__name__, [(name, shown(getattr(value, name, None))) for name in names if name != "__dict__"])
