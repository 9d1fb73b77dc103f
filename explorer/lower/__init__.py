"""From a functional ATen graph to loops and library calls. Inductor: lowering.py, graph.py, ir.py."""

from explorer.core.stage import Stage
from explorer.ir.graph import Graph
from explorer.ir.loops import Loops
from explorer.lower.driver import lower_graph
from explorer.lower.verify import verify_loops

LOWER: Stage[Graph, Loops] = Stage("lower", lower_graph, verify_loops)
