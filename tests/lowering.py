"""Small ATen graphs and what they lower to, for the tests of lowering and of what follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from explorer.autograd.decomps import decompositions
from explorer.core.origin import origin, synthetic
from explorer.ir.graph import Graph, stamp
from explorer.ir.loops import Loops
from explorer.lower import LOWER


def traced(fn: Callable[..., Any], *inputs: Any, dynamic: bool = False, decompose: bool = True) -> Graph:
    """The functional ATen graph of `fn` on these inputs. `dynamic` gives each size a symbol."""
    shapes = ShapeEnv() if dynamic else None
    mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    fakes = [_fake(mode, value, dynamic) for value in inputs]
    table = decompositions() if decompose else {}
    with enable_python_dispatcher(), torch.no_grad():
        made = make_fx(torch.func.functionalize(fn, remove="mutations"), decomposition_table=table,
                       tracing_mode="symbolic" if dynamic else "fake")(*fakes)  # fmt: skip
    return stamped(made, mode, "g")


@dataclass(frozen=True)
class OnCard:
    """An input to be taken for one on a card, which need not be here."""

    like: torch.Tensor


def _fake(mode: FakeTensorMode, value: Any, dynamic: bool) -> Any:
    if isinstance(value, OnCard):
        with mode:
            return torch.empty_strided(value.like.shape, value.like.stride(), dtype=value.like.dtype, device="cuda")
    if not isinstance(value, torch.Tensor):
        return value
    sizes = [DimDynamic.DYNAMIC if dynamic else DimDynamic.STATIC] * value.dim()
    return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes) if dynamic else None)


def stamped(module: fx.GraphModule, mode: FakeTensorMode, name: str) -> Graph:
    """The module's graph with the facts that a traced graph carries, its results as one flat tuple."""
    graph = module.graph
    constants: dict[str, Any] = {}
    for node in list(graph.nodes):
        with origin(synthetic("test")):
            if node.op == "get_attr":
                constants[node.target] = value = getattr(module, node.target)
                stamp(node, f"aten.{node.name}", mode.from_tensor(value))
            elif node.op == "output":
                returned = node.args[0]
                node.args = (tuple(returned) if isinstance(returned, (tuple, list)) else (returned,),)
            else:
                stamp(node, f"aten.{node.name}", node.meta["val"] if "val" in node.meta else None)
    return Graph(name, graph, mode, constants)


def lowered(fn: Callable[..., Any], *inputs: Any, dynamic: bool = False, decompose: bool = True) -> tuple[Loops, Graph]:
    """What `fn` lowers to on these inputs, and the graph that was lowered."""
    graph = traced(fn, *inputs, dynamic=dynamic, decompose=decompose)
    return LOWER(graph), graph
