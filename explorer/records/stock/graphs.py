"""The graphs between Dynamo and Inductor's lowering: captured, joint or inference, forward and backward, with what
torch's partitioner saves for the backward and what it computes again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from explorer.compiler.autograd import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data
from explorer.records.stock.caches import SAID
from explorer.records.stock.fxgraphs import (
    SavedGraph,
    captured,
    saved_graph,
    saved_traced,
    signature,
    sources_of,
    traced,
)
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Half, Observation, ObservedGraph

KEPT = reason(
    "stock.kept",
    "saved: the smallest cut by torch's estimates",
    "torch's partitioner looks for the cheapest set of values from which the backward can be computed, by estimates of "
    "the memory traffic. It records no reason for a single value.",
    "torch._functorch.config.activation_memory_budget trades time for memory; torch.utils.checkpoint recomputes.",
)
RECOMPUTED = reason(
    "stock.recomputed",
    "recomputed: outside of torch's smallest cut",
    "torch's partitioner found it cheaper to recompute the value in the backward than to write and read it.",
)


def saved(forward: ObservedGraph, backward: ObservedGraph, recomputed: Container[str]) -> list[data.SavedData]:
    """Each forward value that the backward needs, or computes again; ids are those of the two graphs."""
    of_forward = {node.name: node for node in forward.graph.nodes}
    owners = {node.name: _owner(node) for node in forward.artifact.graph.nodes}
    found = []
    for node in backward.graph.nodes:
        if node.op == "placeholder":
            source = of_forward.get(node.name)
            if source is None:  # a gradient
                continue
            kind = "input" if owners[node.name].op == "placeholder" else "saved"
            code = reasons.KEPT_INPUT if kind == "input" else KEPT
            if not node.bytes and not node.type.startswith(("f", "i", "b", "c", "u", "(")):
                code = reasons.KEPT_SIZE
        elif node.name in recomputed and node.name in of_forward:
            kind, code = "recomputed", RECOMPUTED
        else:
            continue
        why = data.WhyData(code, CATALOGUE[code].title)
        found.append(data.SavedData(node.id, kind, node.bytes, why))
    return found


def _owner(node: fx.Node) -> fx.Node:
    """The node whose memory a chain of views shows."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target.is_view and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


BACKEND = "torch._dynamo.output_graph:OutputGraph.call_user_compiler"
PARTITION = "torch._inductor.compile_fx:partition_fn"
INFERENCE = "torch._inductor.compile_fx:compile_fx_forward"
JOINT = "joint"


def around_backend(seen: Observation, call: Call) -> Iterator[None]:
    """Dynamo passes its graph to the backend."""
    compile = seen.compile()
    module: fx.GraphModule = call.args[1]
    ended = perf_counter()
    graph = saved_graph(module.graph)
    compile.stage(BACKEND, "capture", lambda: {"shown": captured(compile, graph, compile.id)}, ended=ended)
    begun = compile.mark
    yield
    compile.in_backend += call.seconds
    if compile.mark == begun:  # no stage of it was seen
        cached = any(event.kind == "Cache" and event.fields["state"] == SAID["hit"] for event in compile.events)
        compile.stage(BACKEND, "load from the cache" if cached else "backend")
    compile.mark = perf_counter()
    if seen.calls is not None and call.error is None:
        compiled = settled(call.result)
        call.result = functools.wraps(compiled, updated=())(seen.calls.graph(compile.id, compiled))


def settled(compiled: Callable[..., object]) -> Callable[..., Any]:
    """A graph that a backend gave back as it is, its code generated: as Dynamo does, which would not know it again."""
    owner = compiled if isinstance(compiled, _LazyGraphModule) else getattr(compiled, "__self__", None)
    if isinstance(owner, _LazyGraphModule):
        owner.real_recompile()
        return compiled if compiled is owner else owner.forward
    return compiled


def around_partition(seen: Observation, call: Call) -> Iterator[None]:
    """The partitioner splits AOTAutograd's joint graph into forward and backward."""
    compile = seen.compile()
    add_traced(compile, call.args[0].graph, JOINT, PARTITION)
    yield
    if call.error is None:
        halves = [(half, saved_traced(compile, module.graph, half))
                  for half, module in zip(("forward", "backward"), call.result[:2], strict=True)]  # fmt: skip
        compile.stage(PARTITION, "partition", lambda: parted(compile, halves), ended=call.started + call.seconds)


def parted(compile: Compile, halves: Sequence[tuple[str, SavedGraph]]) -> dict[str, Any]:
    recomputed = {node.name for node in halves[1][1].graph.nodes if node.meta.get("partitioner_tag") == "is_forward"}
    parts = [traced(compile, graph, f"{compile.id}_{half}", half) for half, graph in halves]
    compile.graphs += [("partition", part.graph.name, part.artifact) for part in parts]
    compile.saved += saved(parts[0], parts[1], recomputed)
    body = data.TextData(tuple(line for part in parts for line in part.body.lines), "python")
    return {"body": body, "halves": tuple(part.graph for part in parts)}


def around_inference(seen: Observation, call: Call) -> Iterator[None]:
    if call.kwargs.get("is_inference"):
        add_traced(seen.compile(), call.args[0].graph, "inference", INFERENCE)
    yield


def add_traced(compile: Compile, graph: fx.Graph, name: str, target: str) -> None:
    """The graph that AOTAutograd traced, as a stage."""
    ended = perf_counter()
    kept = saved_traced(compile, graph)

    def made() -> dict[str, ObservedGraph]:
        sources_of(compile).read(kept.graph)
        return {"shown": traced(compile, kept, f"{compile.id}_{name}")}

    compile.stage(target, "trace", made, ended=ended)


HOOK = Hook(
    "graphs",
    shows="the captured graph, the joint or inference graph, what the partitioner returned, what the backward keeps",
    missing="no graphs above Inductor",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch(BACKEND, around_backend),
        Patch(PARTITION, around_partition),
        Patch(INFERENCE, around_inference),
    ),
)


# Inductor's passes over graphs: each that changed something, with the graph after it.


Parts = list[Any]
"""The objects that make up a graph's nodes, one after the other. FX makes new ones when it changes a node."""

PASS = "torch.fx.passes.graph_transform_observer:GraphTransformObserver.apply_graph_pass"
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
    graph, name = passing.module.graph, f"{passing.group}: {name}"
    if passing.group == "pre-grad":
        before = saved_graph(graph)
        compile.stage(PASS, name, lambda: {"shown": captured(compile, before, compile.id)}, ended=ended)
        return
    own, part = (passing.half.name, passing.half.part) if passing.half else (f"{compile.id}_{passing.group}", "")
    after = saved_traced(compile, graph, part)
    half = passing.half.name if passing.half else ""
    compile.stage(PASS, name, lambda: {"shown": traced(compile, after, own, part)}, ended=ended, half=half)


PASSES_HOOK = Hook(
    "passes",
    shows="each pre-grad, joint and post-grad pass that changed the graph, with the graph after it",
    missing="graphs before and after Inductor, without the single passes",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._inductor.compile_fx:_recursive_pre_grad_passes", around_group("pre-grad")),
        Patch("torch._inductor.compile_fx:_recursive_joint_graph_passes", around_group("joint")),
        Patch("torch._inductor.compile_fx:_recursive_post_grad_passes", around_group("post-grad")),
        Patch(PASS, around_pass),
        Patch("torch.fx.passes.graph_transform_observer:GraphTransformObserver.apply_gm_pass", around_pass),
    ),
)
