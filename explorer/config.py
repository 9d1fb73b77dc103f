"""The one configuration: frozen, passed down explicitly, part of every cache key, shown in the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

from explorer.ir.program import BuildOptions
from explorer.ir.target import Target

GraphPass = Callable[[fx.GraphModule], fx.GraphModule | None]


@dataclass(frozen=True)
class Config:
    """What a compile may depend on besides its input.

    `target`: None is the machine of the graph's tensors.
    `dynamic`: None makes a size dynamic once it was seen to change, True from the start, False never.
    `passes`: the user's FX passes over the captured graph, each a stage of its own.
    """

    target: Target | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Callable[..., Any] = "explorer"
    passes: tuple[GraphPass, ...] = ()
    recompile_limit: int = 8
    inline_depth: int = 64
    fuse: bool = True
    build: BuildOptions = BuildOptions()
