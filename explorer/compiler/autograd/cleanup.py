"""CLEANUP: the named passes between the trace and the partition, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import fx

from explorer.compiler.autograd.passes import (
    common_subexpressions,
    dead_code,
    exact_casts,
    fold_constants,
    no_ops,
    read_back,
    shape_only_operands,
    views_of_views,
)
from explorer.compiler.autograd.verify import verify_traced
from explorer.core.stage import Stage
from explorer.ir.graph import Graph
from explorer.ir.joint import Traced

Rewrite = Callable[[fx.Graph], None]


def graph_pass(name: str, rewrite: Rewrite) -> Stage[Traced, Traced]:
    """A stage that runs `rewrite` on a copy of the traced graph."""

    def run(traced: Traced) -> Traced:
        old = traced.forward
        graph = old.copy()
        with old.fake_mode:
            rewrite(graph)
        used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
        constants = {name: value for name, value in old.constants.items() if name in used}
        return replace(traced, forward=Graph(old.name, graph, old.fake_mode, constants, old.grad_enabled))

    return Stage(name, run, verify_traced)


CLEANUP: tuple[Stage[Traced, Traced], ...] = (
    graph_pass("dead code", dead_code),
    graph_pass("constant folding", fold_constants),
    graph_pass("read-back", read_back),
    graph_pass("no-ops", no_ops),
    graph_pass("casts", exact_casts),
    graph_pass("views", views_of_views),
    graph_pass("shape-only operands", shape_only_operands),
    graph_pass("common subexpressions", common_subexpressions),
)
