"""The graphs between Dynamo and Inductor's lowering: captured, joint or inference, forward and backward, with what
torch's partitioner saves for the backward and what it computes again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from explorer.compiler.autograd import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data
from explorer.records.stock.caches import SAID
from explorer.records.stock.fxgraphs import TracedSources, captured, copied, traced
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation, Shown

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


def saved(
    forward: data.GraphData, backward: data.GraphData, forward_graph: fx.Graph, backward_graph: fx.Graph
) -> list[data.SavedData]:
    """Each forward value that the backward needs; ids are those of the two graphs."""
    of_forward = {node.name: node for node in forward.nodes}
    owners = {node.name: _owner(node) for node in forward_graph.nodes}
    found = []
    for node, live in zip(backward.nodes, (n for n in backward_graph.nodes if n.op != "output"), strict=True):
        if node.op == "placeholder":
            source = of_forward.get(node.name)
            if source is None:  # a gradient
                continue
            fate = "input" if owners[node.name].op == "placeholder" else "kept"
            code = reasons.KEPT_INPUT if fate == "input" else KEPT
            if not node.bytes and not node.type.startswith(("f", "i", "b", "c", "u", "(")):
                code = reasons.KEPT_SIZE
        elif live.meta.get("partitioner_tag") == "is_forward" and node.name in of_forward:
            fate, code = "recomputed", RECOMPUTED
        else:
            continue
        why = data.WhyData(code, CATALOGUE[code].title)
        found.append(data.SavedData(node.id, fate, node.bytes, why))
    return found


def _owner(node: fx.Node) -> fx.Node:
    """The node whose memory a chain of views shows."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target.is_view and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


BACKEND = "torch._dynamo.output_graph:OutputGraph.call_user_compiler"
JOINT = "joint"


def around_backend(seen: Observation, call: Call) -> Iterator[None]:
    """Dynamo passes its graph to the back end."""
    compile = seen.compile()
    module: fx.GraphModule = call.args[1]
    ended = perf_counter()
    graph = copied(compile, module.graph) if compile.patient else None
    if graph is None:
        compile.stage("capture", ended=ended, shown=captured(compile, module.graph, compile.id))
    else:
        compile.stage_later(BACKEND, "capture", lambda: {"shown": captured(compile, graph, compile.id)}, ended)
    begun = compile.mark
    yield
    compile.in_backend += call.seconds
    if compile.mark == begun:  # no stage of it was seen
        cached = any(event.kind == "Cache" and event.fields["state"] == SAID["hit"] for event in compile.events)
        compile.stage_later(BACKEND, "load from the cache" if cached else "back end", dict)
    compile.mark = perf_counter()
    if seen.calls is not None and call.error is None:
        compiled = settled(call.result)
        call.result = functools.wraps(compiled, updated=())(seen.calls.graph(compile.id, compiled))


def settled(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that a back end gave back as it is, its code generated: as Dynamo does, which would not know it again."""
    owner = compiled if isinstance(compiled, _LazyGraphModule) else getattr(compiled, "__self__", None)
    if isinstance(owner, _LazyGraphModule):
        owner.real_recompile()
        return compiled if compiled is owner else owner.forward
    return compiled


def around_partition(seen: Observation, call: Call) -> Iterator[None]:
    """The partitioner splits AOTAutograd's joint graph into forward and backward."""
    compile = seen.compile()
    sources = sources_of(compile)
    joint: fx.GraphModule = call.args[0]
    add_traced(compile, joint.graph, "trace", JOINT)
    yield
    if call.error is None:
        forward, backward = call.result[:2]
        parts = [
            traced(compile, sources, module.graph, f"{compile.id}_{half}", half)
            for module, half in ((forward, "forward"), (backward, "backward"))
        ]
        body = data.TextData(tuple(line for part in parts for line in part.body.lines), "python")
        compile.stage(
            "partition", ended=call.started + call.seconds, body=body, halves=tuple(part.graph for part in parts)
        )
        compile.graphs += [("partition", part.graph.name, part.artifact) for part in parts]
        compile.saved += saved(parts[0].graph, parts[1].graph, forward.graph, backward.graph)


def around_inference(seen: Observation, call: Call) -> Iterator[None]:
    if call.kwargs.get("is_inference"):
        compile = seen.compile()
        module: fx.GraphModule = call.args[0]
        add_traced(compile, module.graph, "trace", "inference")
    yield


def sources_of(compile: Compile) -> TracedSources:
    if compile.sources is None:
        compile.sources = TracedSources(compile)
    found: TracedSources = compile.sources
    return found


def add_traced(compile: Compile, graph: fx.Graph, stage: str, name: str) -> Shown:
    """The graph that AOTAutograd traced, as a stage."""
    ended = perf_counter()
    sources = sources_of(compile)
    sources.read(graph)
    made = traced(compile, sources, graph, f"{compile.id}_{name}")
    compile.stage(stage, ended=ended, shown=made)
    return made


HOOK = Hook(
    "graphs",
    shows="the captured graph, the joint or inference graph, what the partitioner made of it, what the backward keeps",
    missing="no graphs above Inductor",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch(BACKEND, around_backend),
        Patch("torch._inductor.compile_fx:partition_fn", around_partition),
        Patch("torch._inductor.compile_fx:compile_fx_forward", around_inference),
    ),
)
