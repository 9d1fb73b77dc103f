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
from explorer.compiler.autograd.userpass import call, stamp_added
from explorer.compiler.autograd.verify import verify_traced
from explorer.core.rules import OwnRule, RuleTable, using
from explorer.core.stage import Stage
from explorer.ir.graph import Graph, info, restamp
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

PASSES: RuleTable[str, Rewrite] = RuleTable("pass")
"""Passes by name that a person puts after those of CLEANUP; none is built in."""


def own_passes() -> tuple[Stage[Traced, Traced], ...]:
    """The person's own passes that are in force, in the order in which they were given."""
    return tuple(graph_pass(f"pass {name}", completed(rule)) for name in PASSES if (rule := PASSES.own(name)))


def completed(rule: OwnRule) -> Rewrite:
    """The pass, and after it what a node needs that the pass added without: where it comes from, and its value."""

    def rewrite(graph: fx.Graph) -> None:
        before = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        before.output(before.graph_copy(graph, copies))
        for old, copy in copies.items():
            copy.meta = dict(old.meta)
        rule(graph)
        with using(rule.name):
            stamp_added(before, graph, rule.name)
        for node in graph.nodes:
            if node.op == "call_function" and info(node).value is None:
                restamp(node, value=call(node, {n: info(n).value for n in node.all_input_nodes}, rule.name), about="")

    return rewrite
