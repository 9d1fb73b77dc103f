"""Tracers that run the function once, and TorchScript: torch.fx.symbolic_trace (proxies without values),
torch.jit.trace, and torch.jit.script, which reads the source.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from explorer.records.methods.method import (
    Captured,
    Example,
    Method,
    Saving,
    by_name,
    is_program,
    tensors,
    user_line,
    view,
)


class Tracing(torch.fx.Tracer):
    """What torch.fx.symbolic_trace uses, noting also the line that asked for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, str] = {}

    def create_node(self, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = super().create_node(*args, **kwargs)
        if node.op not in ("placeholder", "output"):
            self.places[node.name] = user_line()
        return node


def _capture(example: Example) -> Captured:
    tracer = Tracing()
    graph = tracer.trace(example.fn, _plain(example))
    made = torch.fx.GraphModule(tracer.root, graph)
    where = by_name(tracer.places)
    return Captured(
        made,
        lambda: (view("code", made.code, where=where), view("graph", str(made.graph), "text", where)),
        lambda: "none can be: a branch on a value raises, a loop over a known length is unrolled",
        lambda: "not part of the graph",
        "a GraphModule pickles as Python source; it is loaded by running that",
    )


def _plain(example: Example) -> dict[str, object] | None:
    """A function that takes *args has to be told how many there are; others are traced as they are."""
    found = example.fn.forward if isinstance(example.fn, torch.nn.Module) else example.fn
    if not isinstance(found, (types.FunctionType, types.MethodType)):
        return None
    kinds = {parameter.kind for parameter in inspect.signature(found).parameters.values()}
    return {} if inspect.Parameter.VAR_POSITIONAL in kinds else None


FX = Method("torch.fx.symbolic_trace", "Runs the function once on proxies, and records what it does to them.", _capture)


def _trace(example: Example) -> Captured:
    """Tracing takes tensors alone: what else the call has is bound before, as its users do."""
    leaves, spec = tree_flatten((example.args, dict(example.kwargs)))
    if not example.kwargs and all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return _captured(torch.jit.trace(example.fn, example.args, check_trace=False))

    def bound(*traced: torch.Tensor) -> Any:
        given = iter(traced)
        all = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(all, spec)
        return example.fn(*args, **kwargs)

    made = torch.jit.trace(bound, tuple(tensors(example.args, example.kwargs)), check_trace=False)
    found = _captured(made)
    assert isinstance(found.saving, Saving)
    saving = replace(found.saving, read=lambda path: _of_tensors(_loaded(str(path))))
    return replace(found, call=_of_tensors(made), saving=saving)


def _of_tensors(program: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: program(*tensors(args, kwargs))


def _script(example: Example) -> Captured:
    return _captured(torch.jit.script(example.fn))


def _captured(made: Any) -> Captured:
    graph = made.inlined_graph
    kinds = {node.kind() for node in _nodes(graph)}
    saving = Saving(
        lambda path: torch.jit.save(made, str(path)), lambda path: _loaded(str(path)), ".pt", "libtorch, without Python"
    )
    return Captured(
        made,
        lambda: (view("graph", str(graph), "text", _place), view("TorchScript", made.code)),
        lambda: _control(kinds),
        lambda: "not part of the types; those of the example are written beside them and not checked",
        saving,
    )


def _place(line: str) -> str:
    """The place that the graph's printed lines end with: "# FILE:LINE:COLUMN"."""
    found = re.fullmatch(r"(.+):(\d+):\d+", line.rpartition(" # ")[2])
    return f"{found[1]}:{found[2]}" if found and is_program(found[1]) else ""


def _loaded(path: str) -> Callable[..., Any]:
    return torch.jit.load(path)  # type: ignore[no-any-return]


def _nodes(block: Any) -> Any:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _control(kinds: set[str]) -> str:
    found = [
        text
        for kind, text in (("prim::If", "branches (prim::If)"), ("prim::Loop", "loops (prim::Loop)"))
        if kind in kinds
    ]
    return f"in the graph: {' and '.join(found)}" if found else "none in the graph"


TRACE = Method(
    "torch.jit.trace",
    "Runs the function once on the example and writes down the operations that it meets; what is no tensor is bound.",
    _trace,
)
SCRIPT = Method(
    "torch.jit.script", "Reads the source and compiles a subset of Python, branches and loops included.", _script
)
