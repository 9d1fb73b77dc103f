"""What a capture method is and gives back: graphs written as the stages of a record are, each node with its line."""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from explorer.core.files import PACKAGE, is_standard
from explorer.ir.bytecode import Span
from explorer.ir.graph import NodeInfo
from explorer.ir.record import LineData, TextData
from explorer.records.data.methods import ViewData
from explorer.records.stock.fxgraphs import module_of, saved_graph, shown, value_of

_COMPILERS = tuple(f"{each}{os.sep}" for each in (Path(torch.__file__).parent, PACKAGE))
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


def user_line() -> str:
    """ "FILE:LINE" of the innermost frame that runs the program; "" where none does."""
    return _innermost(_frames(sys._getframe(1)))


def line_of(stack: str | None) -> str:
    """The same of a stack as Python prints it, innermost last."""
    return _innermost((file, int(line)) for file, line in reversed(_PLACE.findall(stack or "")))


def is_program(file: str) -> bool:
    """Whether a file is of the program: not of torch, of this package or of the standard library. Another library is,
    since that is where the lines of its models are."""
    return not (file.startswith(("<frozen", *_COMPILERS)) or is_standard(file))


def _frames(frame: types.FrameType | None) -> Iterable[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _innermost(places: Iterable[tuple[str, int]]) -> str:
    return next((f"{file}:{line}" for file, line in places if is_program(file)), "")


def graph_lines(module: torch.fx.GraphModule) -> list[LineData]:
    """The nodes keep the stacks that made them; a line's place is the innermost of the program."""
    made = shown(saved_graph(module.graph), "forward", _facts, FakeTensorMode())
    return [LineData(each.text, "", each.origins) for each in made.body.lines]


def _facts(node: torch.fx.Node) -> NodeInfo:
    file, _, line = line_of(node.meta.get("stack_trace")).rpartition(":")
    span = Span(file, int(line), int(line)) if file and node.op not in ("placeholder", "output") else None
    return NodeInfo(node.name, value_of(node), (span.id,) if span else (), span, module_of(node))


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
class Runnable:
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
    capture: Callable[[Example], Runnable]
    missing: Callable[[], str] = field(default=lambda: "")


def tensors(args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[torch.Tensor]:
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
