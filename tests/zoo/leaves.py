"""Walking inputs, outputs and state of any make: containers, dataclasses and plain objects down to their leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, leaf) for each tensor and constant in `value`; a container yields its type first, as a leaf of its own."""
    match value:
        case Tensor():
            yield path, value
        case nn.Module():
            yield from leaves(dict(value.named_parameters(remove_duplicate=False)), path)
            yield from leaves(dict(value.named_buffers(remove_duplicate=False)), path)
        case list() | tuple():
            yield path + ":type", type(value)
            yield path + ":len", len(value)
            for index, item in enumerate(value):
                yield from leaves(item, f"{path}[{index}]")
        case dict():
            yield path + ":type", type(value)
            yield path + ":keys", list(value)
            for key, item in value.items():
                yield from leaves(item, f"{path}[{key!r}]")
        case type():
            yield path, value
        case _ if dataclasses.is_dataclass(value) or type(value).__module__.startswith("zoo"):
            yield path + ":type", type(value)
            for key, item in vars(value).items():
                yield from leaves(item, f"{path}.{key}")
        case _:
            yield path, value


def tensors(value: Any, path: str = "") -> dict[str, Tensor]:
    return {where: leaf for where, leaf in leaves(value, path) if isinstance(leaf, Tensor)}
