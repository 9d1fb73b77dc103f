"""Reading back what was just written."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from explorer.autograd.passes.cse import frozen
from explorer.autograd.passes.rewrite import is_call, remove_dead, same_layout, supersede
from explorer.autograd.tape import is_view
from explorer.ir.graph import info

aten = torch.ops.aten

WRITTEN_BY = {
    aten.select.int: aten.select_scatter.default,
    aten.slice.Tensor: aten.slice_scatter.default,
    aten.diagonal.default: aten.diagonal_scatter.default,
}


def read_back(graph: fx.Graph) -> None:
    """Take the value itself where a view reads exactly the part that was just written.

    b = select_scatter(a, v, 0, 1); c = select(b, 0, 1)   ->   c = v

    Writes through views leave such pairs once they are functional.
    """
    returned = set(graph.output_node().all_input_nodes)
    for node in list(graph.nodes):
        below: Any = node.args[0] if node.args else None
        if not is_call(node, *WRITTEN_BY) or not is_call(below, WRITTEN_BY[node.target]) or node in returned:
            continue
        written = below.args[1]
        same_part = frozen(without_defaults(node.args[1:])) == frozen(without_defaults(below.args[2:]))
        if same_part and node.kwargs == below.kwargs and fits(written, node):
            supersede(node, written)
    remove_dead(graph)


def fits(written: fx.Node, node: fx.Node) -> bool:
    """Whether every user of `node` can read `written`: a view of it may need the very same strides."""
    a, b = info(written).value, info(node).value
    return same_layout(a, b) or (a.dtype == b.dtype and not any(is_view(user.target) for user in node.users))


def without_defaults(part: Any) -> tuple[Any, ...]:
    """A slice's arguments without the step of 1 that some calls spell out."""
    return tuple(part[:-1]) if len(part) == 4 and part[-1] == 1 else tuple(part)
