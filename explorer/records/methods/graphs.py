"""Graphs of torch, written as the stages of a record are: one node a line, with its type and its place."""

from __future__ import annotations

import torch

from explorer.ir.bytecode import Span
from explorer.ir.graph import NodeInfo
from explorer.ir.record import LineData
from explorer.records.methods.where import line_of
from explorer.records.stock.fxgraphs import module_of, shown, value_of


def graph_lines(module: torch.fx.GraphModule) -> list[LineData]:
    """The nodes keep the stacks that made them; a line's place is the innermost of the program."""
    return [LineData(each.text, "", each.origins) for each in shown(module.graph, "forward", _facts).body.lines]


def _facts(node: torch.fx.Node) -> NodeInfo:
    file, _, line = line_of(node.meta.get("stack_trace")).rpartition(":")
    span = Span(file, int(line), int(line)) if file and node.op not in ("placeholder", "output") else None
    return NodeInfo(node.name, value_of(node), (span.id,) if span else (), span, module_of(node))
