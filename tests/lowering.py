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

from explorer.compiler.autograd.decompositions import decompositions
from explorer.compiler.lower import LOWER
from explorer.core.origin import origin, synthetic
from explorer.ir.graph import Graph, stamp
from explorer.ir.loops import Extern, Loop, Loops
from loops_reference import run_loops


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


def flat(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def strides_of(value: torch.Tensor) -> list[int]:
    """The strides that say where elements are: of dimensions that have more than one."""
    return [s for s, n in zip(value.stride(), value.shape, strict=True) if n != 1]


def copies(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        torch.empty_strided(v.shape, v.stride(), dtype=v.dtype).copy_(v) if isinstance(v, torch.Tensor) else v
        for v in inputs
    )


def check(
    fn: Callable[..., Any],
    *inputs: Any,
    dynamic: bool = False,
    decompose: bool = True,
    tolerance: float | None = None,
    strides: bool = True,
) -> Loops:
    """Lower, run, compare with eager; returns the loops for further questions."""
    loops, graph = lowered(lambda *args: fn(*args), *inputs, dynamic=dynamic, decompose=decompose)
    ours_in, eager_in = copies(inputs), copies(inputs)
    ours = run_loops(loops, ours_in)
    eager = flat(fn(*eager_in))
    assert len(ours) == len(eager)
    for mine, theirs in (*zip(ours, eager, strict=True), *zip(ours_in, eager_in, strict=True)):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs
            continue
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        allowed = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(mine, theirs, equal_nan=True, **allowed)
        if strides:
            assert strides_of(mine) == strides_of(theirs)
    return loops


def kernels(loops: Loops) -> list[Loop]:
    return [operation for operation in loops.operations if isinstance(operation, Loop)]


def externs(loops: Loops) -> list[str]:
    return [str(operation.target) for operation in loops.operations if isinstance(operation, Extern)]
