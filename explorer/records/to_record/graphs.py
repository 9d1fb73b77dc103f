"""Graphs as record data."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from explorer.ir import record as data
from explorer.ir.graph import Graph, describe, info, target_name
from explorer.records.to_record.plain import span


def tensor_bytes(value: Any) -> int:
    """Bytes of a fake tensor (or of a tuple of them) by its size hints; 0 where a size has none, since only a run tells
    it."""
    if isinstance(value, (tuple, list)):
        return sum(map(tensor_bytes, value))
    if not isinstance(value, torch.Tensor):
        return 0
    count = 1
    for size in value.shape:
        count *= (size.node.hint or 0) if isinstance(size, torch.SymInt) else size
    return count * value.element_size()


def graph(artifact: Graph) -> data.GraphData:
    ids: dict[fx.Node, str] = {}
    nodes = []
    for node in artifact.graph.nodes:
        if node.op == "output":
            continue
        facts = info(node)
        ids[node] = facts.id
        nodes.append(
            data.NodeData(
                facts.id, node.name, node.op, target_name(node), facts.type or describe(facts.value),
                tuple(ids[n] for n in node.all_input_nodes), facts.origins, facts.module, facts.said,
                tensor_bytes(facts.value), span(facts.span),
            )
        )  # fmt: skip
    outputs = tuple(ids[value] if isinstance(value, fx.Node) else str(value) for value in artifact.outputs)
    return data.GraphData(artifact.name, tuple(nodes), outputs)
