"""The nodes of one kernel, compiled by stock so that each is materialized, on given inputs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from explorer.ir.graph import Graph
from explorer.records.check.search import Errors
from explorer.records.check.trial import duplicate
from explorer.records.stock.kernel_outputs import ReferenceRun


def first_wrong_node(graph: Graph, within: Sequence[fx.Node], args: Sequence[object]) -> tuple[fx.Node, Errors] | None:
    """The first of `within` that is wrong, or None. Raises what stock raises."""
    reference = ReferenceRun(graph, {})
    reference.run(duplicate(tuple(args)))
    wanted = [node for node in within if isinstance(reference.eager[node], Tensor)]
    made, given, copied = extracted(wanted, reference)
    alike = Graph(graph.name, made, FakeTensorMode(), graph.constants)
    values = compiled(alike.module(), given)
    part = ReferenceRun(alike, {})
    part.run(duplicate(tuple(given)))
    for node, value in zip(wanted, values, strict=True):
        if (errors := part.errors(copied[node], value)) is not None:
            return node, errors
    return None


def extracted(
    wanted: Sequence[fx.Node], reference: ReferenceRun
) -> tuple[fx.Graph, list[Tensor], dict[fx.Node, fx.Node]]:
    """(a graph of these nodes alone, its input tensors, the original nodes mapped to its nodes)."""
    made = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    numbers: dict[fx.Node, object] = {}
    given: list[Tensor] = []
    inner = set(wanted)
    for source in dict.fromkeys(source for node in wanted for source in node.all_input_nodes if source not in inner):
        value = reference.eager[source]
        if isinstance(value, Tensor):
            copied[source] = made.placeholder(f"given_{len(given)}")
            copied[source].meta = dict(source.meta)
            given.append(value)
        else:
            numbers[source] = value
    for node in wanted:
        copied[node] = made.node_copy(node, lambda source: numbers.get(source, copied.get(source)))  # type: ignore[arg-type, return-value]
    made.output(tuple(copied[node] for node in wanted))
    return made, given, copied


def compiled(module: fx.GraphModule, given: Sequence[Tensor]) -> Sequence[object]:
    """The results of a graph, compiled with Inductor and run."""
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(each) for each in given]
    FakeTensorProp(module, mode).propagate_dont_convert_inputs(*fakes)
    with torch.no_grad():
        run = importlib.import_module("torch._inductor.compile_fx").compile_fx_inner(module, fakes)
        found: Sequence[object] = run(list(duplicate(tuple(given))))
    return found
