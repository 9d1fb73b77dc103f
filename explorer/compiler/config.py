"""The one configuration: frozen, passed down explicitly, part of every cache key, shown in the record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

from explorer.core.rules import Rules
from explorer.ir.edit import ProgramEdit
from explorer.ir.program import BuildOptions, Target

GraphPass = Callable[[fx.GraphModule], fx.GraphModule | None]


@dataclass(frozen=True)
class Config:
    """What a compile may depend on besides its input.

    `target`: None is the machine of the graph's tensors.
    `dynamic`: None makes a size dynamic once it has changed, True from the start, False never.
    `capture_scalar_outputs`: numbers that are read from tensors stay in the graph, as symbols;
    `capture_dynamic_output_shape_ops`: so do sizes that depend on values. None is True with `fullgraph` or if set so in
    torch._dynamo.config.
    `rules`: a user's rules, which override the built-in ones (`explorer.workbench`).
    `passes`: the user's FX passes over the captured graph, each a stage of its own.
    `edit`: what `Record.edit` changes.
    """

    target: Target | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Callable[..., Any] = "explorer"
    passes: tuple[GraphPass, ...] = ()
    capture_scalar_outputs: bool | None = None
    capture_dynamic_output_shape_ops: bool | None = None
    recompile_limit: int = 8
    inline_depth: int = 64
    fuse: bool = True
    build: BuildOptions = BuildOptions()
    rules: Rules = Rules()
    edit: ProgramEdit = ProgramEdit()

    @property
    def generates_code(self) -> bool:
        """Whether graphs are lowered here. Other backends take them as they were captured."""
        return self.backend == "explorer"

    def captures(self, name: str) -> bool:
        """Whether one of the two capture_ settings is on, here or in torch."""
        chosen: bool | None = getattr(self, name)
        if chosen is not None:
            return chosen
        return self.fullgraph or bool(getattr(sys.modules.get("torch._dynamo.config"), name, False))
