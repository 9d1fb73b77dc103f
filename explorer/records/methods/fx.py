"""torch.fx.symbolic_trace: the function runs once on proxies that hold no values."""

from __future__ import annotations

import inspect
import types
from typing import Any

import torch

from explorer.records.methods.method import Captured, Example, Method, by_name, view
from explorer.records.methods.where import user_line


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
