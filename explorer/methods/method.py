"""What a capture method is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from explorer.ir.methods import ViewData
from explorer.ir.record import LineData, TextData


@dataclass(frozen=True)
class Example:
    """The call that a method captures. It may keep the arguments; nobody else uses them."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def call(self) -> Any:
        return self.fn(*self.args, **self.kwargs)


@dataclass(frozen=True)
class Saving:
    """`write` puts the program in a file, `read` gives a callable from it in what is needed to run it there."""

    write: Callable[[Path], object]
    read: Callable[[Path], Callable[..., Any]]
    suffix: str
    needs: str
    """What is needed where it is loaded: "Python and torch", "ONNX Runtime alone"."""


@dataclass(frozen=True)
class Captured:
    """A program that a method captured. `call` takes the arguments of the function; `control` and `sizes` say what the
    captured text shows of branches, loops and shapes; `compiles` counts the compiles so far, where the method compiles
    anew for other inputs."""

    call: Callable[..., Any]
    views: Callable[[], tuple[ViewData, ...]]
    control: Callable[[], str]
    sizes: Callable[[], str]
    saving: Saving | str
    """A way to save it, or why there is none."""
    compiles: Callable[[], int] | None = None
    close: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class Method:
    """`capture` raises what its users would see. `missing` says what must be installed, or "" where all is there."""

    name: str
    how: str
    capture: Callable[[Example], Captured]
    missing: Callable[[], str] = field(default=lambda: "")


def tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments of a call, in order: what a graph without Python takes."""
    return [leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]


def in_graph(control: Iterable[str]) -> str:
    """What a graph holds of branches and loops, in words."""
    found = ", ".join(control)
    return f"in the graph: {found}" if found else "none in the graph: loops are unrolled, one branch was followed"


def view(title: str, text: str, language: str = "python") -> ViewData:
    return ViewData(title, TextData(tuple(LineData(line) for line in text.rstrip().splitlines()), language))
