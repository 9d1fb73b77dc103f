"""Views of views."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from explorer.autograd.passes.rewrite import insert, is_call, layout, remove_dead, supersede
from explorer.core.origin import union
from explorer.ir.graph import info

aten = torch.ops.aten


def views_of_views(graph: fx.Graph) -> None:
    """Take one view where there were two.

    view(view(a, [6, 4]), [2, 12])           ->   view(a, [2, 12])
    permute(permute(a, [1, 2, 0]), [1, 0, 2])  ->   permute(a, [2, 1, 0])
    expand(expand(a, [4, 1]), [4, 8])        ->   expand(a, [4, 8])

    Inductor: fx_passes/post_grad.py; the views of ir.py fold the same way.
    """
    for node in list(graph.nodes):
        below: Any = node.args[0] if node.args else None
        if is_call(node, aten.view.default, aten.expand.default, aten.permute.default) and is_call(below, node.target):
            joined = join(node, below)
            if joined is not None:
                supersede(node, joined)
    remove_dead(graph)


def join(node: fx.Node, below: fx.Node) -> fx.Node | None:
    """One view from below's source to `node`, the source itself, or None where one view cannot do it."""
    source: Any = below.args[0]
    argument: Any = node.args[1]
    if node.target is aten.permute.default:
        argument = [below.args[1][position] for position in node.args[1]]  # type: ignore[index, union-attr]
        if argument == sorted(argument):
            return source  # type: ignore[no-any-return]
    elif any(isinstance(size, int) and size == -1 for size in argument):
        return None
    elif node.target is aten.view.default and not viewable(info(source).value, info(node).value):
        return None
    return insert(node, node.target, (source, argument), {}, union(info(below).origins, info(node).origins))  # type: ignore[arg-type]


def viewable(source: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether `source` can be viewed in the shape and strides of `wanted` directly."""
    if source.is_contiguous() and wanted.is_contiguous():
        return True
    try:
        return layout(source.view(wanted.shape)) == layout(wanted)
    except (RuntimeError, ValueError):
        return False
