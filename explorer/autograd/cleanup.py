"""CLEANUP: the named passes between the trace and the partition, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import fx

from explorer.autograd.passes.casts import exact_casts
from explorer.autograd.passes.cse import common_subexpressions
from explorer.autograd.passes.dead import dead_code
from explorer.autograd.passes.fold import fold_constants
from explorer.autograd.passes.noops import no_ops
from explorer.autograd.passes.readback import read_back
from explorer.autograd.passes.shapes import shape_only_operands
from explorer.autograd.passes.views import views_of_views
from explorer.autograd.verify import verify_traced
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
