"""From a functional ATen graph to loops and library calls. Inductor: lowering.py, graph.py, ir.py."""

from explorer.compiler.lower.driver import lower_graph
from explorer.compiler.lower.verify import verify_loops
from explorer.core.stage import Stage
from explorer.ir.graph import Graph
from explorer.ir.loops import Loops


def _totals(graph: Graph, loops: Loops) -> tuple[str, ...]:
    """Where each ATen call runs."""
    return tuple(f"calls: {handled}" for handled, _ in loops.nodes.values())


LOWER: Stage[Graph, Loops] = Stage("lower", lower_graph, verify_loops, _totals)
