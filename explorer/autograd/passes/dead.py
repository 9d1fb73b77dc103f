"""Dead code."""

from __future__ import annotations

from torch import fx

from explorer.autograd.passes.rewrite import remove_dead


def dead_code(graph: fx.Graph) -> None:
    """Drop what nobody reads.

    a = mul(x, y); b = add(x, y); return b   ->   b = add(x, y); return b

    Random operators stay even when unread, so that later draws are those of eager.
    Inductor: fx_passes/joint_graph.py; torch.fx.Graph.eliminate_dead_code.
    """
    remove_dead(graph)
