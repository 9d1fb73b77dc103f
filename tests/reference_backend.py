"""The pipeline up to the halves, whose graphs are then interpreted: what tests of the front half compile with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from explorer.compiler.autograd import CLEANUP, PARTITION, REJOIN, TRACE
from explorer.compiler.capture.import_fx_graph import import_fx_graph
from explorer.core.text import Text
from explorer.ir.graph import Graph
from explorer.ir.joint import Compiled, Halves, Partitioned, Traced
from explorer.ir.program import Generated, Program
from loops_reference import run_graph


def interpreted(graph: Graph) -> Program:
    """A stand-in for a built half: `call` runs the graph with eager kernels."""
    made = Generated(graph.name, "cpu", (), Text(()), len(graph.inputs), len(graph.outputs), {})
    return Program(made, lambda inputs: run_graph(graph, inputs), (), dict)


def clean(traced: Traced) -> Traced:
    for stage in CLEANUP:
        traced = stage(traced)
    return traced


def plan(graph: Graph) -> Traced | Partitioned:
    traced = clean(TRACE(graph))
    return traced if traced.is_inference else PARTITION(traced)


def compiled(graph: Graph) -> Compiled:
    made = plan(graph)
    backward = interpreted(made.backward) if isinstance(made, Partitioned) else None
    return REJOIN(Halves(made, interpreted(made.forward), backward))


class Backend:
    """A torch.compile backend that keeps the graphs it was given and what became of them."""

    def __init__(self) -> None:
        self.captured: list[Graph] = []
        self.plans: list[Traced | Partitioned] = []

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graph = import_fx_graph(module, inputs)
        self.captured.append(graph)
        made = compiled(graph)
        self.plans.append(plan(graph))
        return made.call


def symbolic(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> Graph:
    """The graph that fx.symbolic_trace makes of a function of tensors: for programs that Dynamo does not capture.

    `dynamic` gives every size above 1 a symbol.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fakes = [mode.from_tensor(x, static_shapes=not dynamic) if isinstance(x, torch.Tensor) else x for x in inputs]
    return import_fx_graph(fx.symbolic_trace(function), fakes)


def captured(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> Graph:
    """The graph that stock Dynamo captures for one call (the whole function, in one graph)."""
    torch._dynamo.reset()
    found: list[Graph] = []

    def keep(module: fx.GraphModule, example: list[Any]) -> Callable[..., Any]:
        found.append(import_fx_graph(module, example))
        return module

    torch.compile(function, backend=keep, fullgraph=True, dynamic=dynamic)(*inputs)
    (graph,) = found
    return graph
