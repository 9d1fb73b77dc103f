"""What torch's partitioner lets the forward keep for the backward, and what it computes again."""

from __future__ import annotations

from torch import fx

from explorer.compiler.autograd import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data

KEPT = reason(
    "stock.kept",
    "saved: the smallest cut by torch's estimates",
    "torch's partitioner looks for the cheapest set of values from which the backward can be computed, by estimates of "
    "the memory traffic. It records no reason for a single value.",
    "torch._functorch.config.activation_memory_budget trades time for memory; torch.utils.checkpoint recomputes.",
)
RECOMPUTED = reason(
    "stock.recomputed",
    "recomputed: outside of torch's smallest cut",
    "torch's partitioner found it cheaper to recompute the value in the backward than to write and read it.",
)


def saved(
    forward: data.GraphData, backward: data.GraphData, forward_graph: fx.Graph, backward_graph: fx.Graph
) -> list[data.SavedData]:
    """Each forward value that the backward needs; ids are those of the two graphs."""
    of_forward = {node.name: node for node in forward.nodes}
    found = []
    for node, live in zip(backward.nodes, (n for n in backward_graph.nodes if n.op != "output"), strict=True):
        if node.op == "placeholder":
            source = of_forward.get(node.name)
            if source is None:  # a gradient
                continue
            fate = "input" if source.op == "placeholder" else "kept"
            code = reasons.KEPT_INPUT if fate == "input" else KEPT
            if not node.bytes and not node.type.startswith(("f", "i", "b", "c", "u", "(")):
                code = reasons.KEPT_SIZE
        elif live.meta.get("partitioner_tag") == "is_forward" and node.name in of_forward:
            fate, code = "recomputed", RECOMPUTED
        else:
            continue
        why = data.WhyData(code, CATALOGUE[code].title)
        found.append(data.SavedData(node.id, fate, node.bytes, why))
    return found
