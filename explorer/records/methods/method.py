"""What a capture method is, and what it gives back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from explorer.ir.methods import ViewData
from explorer.ir.record import LineData, TextData
from explorer.records.methods.where import line_of


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


Places = Mapping[str, str]
"""Where the program made what has a name: "FILE:LINE" by name."""


def view(title: str, text: str, language: str = "python", where: Callable[[str], str] = lambda line: "") -> ViewData:
    """`where` gives the place in the program that made a line of the text, "" where it does not know."""
    lines = ((line, where(line)) for line in text.rstrip().splitlines())
    return ViewData(title, TextData(tuple(LineData(line, "", (at,) if at else ()) for line, at in lines), language))


def by_name(places: Places) -> Callable[[str], str]:
    """Lines that begin with the name of what they make: `relu = torch.relu(x)`, `%relu : ...`."""
    return lambda line: places.get(found[1], "") if (found := _MADE.match(line)) else ""


def places(graph: torch.fx.Graph) -> Places:
    """Of the nodes of a graph, as far as they keep the stack that made them."""
    return {node.name: line_of(node.meta.get("stack_trace")) for node in graph.nodes}


_MADE = re.compile(r"\s*%?(\w+)\s*[:=]")
