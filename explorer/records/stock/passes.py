"""Inductor's passes over graphs: each that changed something, with the graph after it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from torch import fx

from explorer.records.stock.fxgraphs import captured, signature, traced
from explorer.records.stock.graphs import sources_of
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Half, Observation

Parts = list[Any]
"""The objects that make up a graph's nodes, one after the other. FX makes new ones when it changes a node."""

UNNAMED = "changes outside the named passes"
BEFORE = "views become reshapes"


@dataclass
class Passing:
    """A group of passes at work ("pre-grad", "joint", "post-grad") on one graph, and how the graph read last."""

    group: str
    half: Half | None
    module: fx.GraphModule
    last: int
    """The signature of the graph as it read last."""
    parts: Parts


def around_group(group: str) -> Any:
    """Around all passes of a group. A subgraph of the graph at work is passed over with it."""

    def around(seen: Observation, call: Call) -> Iterator[None]:
        compile = seen.compile()
        if compile.passing is not None:
            yield
            return
        module: fx.GraphModule = call.args[0]
        half = compile.half
        if half is None:
            compile.passing = Passing(group, half, module, signature(module.graph), parts(module.graph))
        else:
            compile.passing = Passing(group, half, module, half.signature, [])
            _note(compile, BEFORE)
        yield
        if call.error is None:
            if isinstance(call.result, fx.GraphModule):
                compile.passing.module = call.result
            _note(compile, UNNAMED)
        compile.passing = None

    return around


def around_pass(seen: Observation, call: Call) -> Iterator[None]:
    compile = seen.compile()
    observer = call.args[0]
    passing = compile.passing
    if passing is None or observer.gm is not passing.module:
        yield
        return
    _note(compile, UNNAMED)
    yield
    _note(compile, observer.passname)


def parts(graph: fx.Graph) -> Parts:
    return [part for node in graph.nodes for part in (node, node.target, node.args, node.kwargs, node.name)]


def unchanged(before: Parts, now: Parts) -> bool:
    """Whether a graph surely reads as before. A new object may still say the same: `signature` tells."""
    return len(before) == len(now) and all(map(operator.is_, before, now))


def _note(compile: Compile, name: str) -> None:
    """Add a stage where the graph reads otherwise than before."""
    passing: Passing = compile.passing
    present = parts(passing.module.graph)
    if unchanged(passing.parts, present):
        return
    passing.parts = present
    now = signature(passing.module.graph)
    if now == passing.last:
        return
    passing.last = now
    ended = perf_counter()
    half, graph = passing.half, passing.module.graph
    if passing.group == "pre-grad":
        made = captured(compile, graph, compile.id)
    elif half is None:
        made = traced(compile, sources_of(compile), graph, f"{compile.id}_{passing.group}")
    else:
        made = traced(compile, sources_of(compile), graph, half.name, half.part)
    name = f"{passing.group}: {name}"
    compile.stage(name, ended=ended, half=half.name if half else "", shown=made)


HOOK = Hook(
    "passes",
    shows="each pre-grad, joint and post-grad pass that changed the graph, with the graph after it",
    missing="graphs before and after Inductor, without the single passes",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._inductor.compile_fx:_recursive_pre_grad_passes", around_group("pre-grad")),
        Patch("torch._inductor.compile_fx:_recursive_joint_graph_passes", around_group("joint")),
        Patch("torch._inductor.compile_fx:_recursive_post_grad_passes", around_group("post-grad")),
        Patch("torch.fx.passes.graph_transform_observer:GraphTransformObserver.apply_graph_pass", around_pass),
        Patch("torch.fx.passes.graph_transform_observer:GraphTransformObserver.apply_gm_pass", around_pass),
    ),
)
