"""What every pass needs: which nodes have effects, whose memory leaves the graph, how a node is put in or taken out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from explorer.compiler.autograd.aliases import root
from explorer.compiler.autograd.sizes import expression
from explorer.core.origin import Origins, origin
from explorer.ir.graph import checks_positions, info, stamp

SEEDED = torch.Tag.nondeterministic_seeded


def is_random(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and SEEDED in node.target.tags


def has_effect(node: fx.Node) -> bool:
    """Whether the node matters even where nobody reads it: it writes, draws random numbers, or checks something."""
    if node.op != "call_function":
        return True
    if not isinstance(node.target, OpOverload):
        return False
    return node.target._schema.is_mutable or SEEDED in node.target.tags or not node.target._schema.returns


def remove_dead(graph: fx.Graph) -> None:
    """Erase nodes without users, without effects and without checks of an index tensor's elements, last first."""
    for node in reversed(graph.nodes):
        if not node.users and not has_effect(node) and not checks_positions(node.target):
            graph.erase_node(node)


def escaping(graph: fx.Graph) -> Counter[fx.Node]:
    """The nodes whose memory the caller gets, with the number of outputs that lie in it."""
    returned = graph.output_node().args[0]
    assert isinstance(returned, (tuple, list))
    return Counter(root(value) for value in returned if isinstance(value, fx.Node) and is_tensor(value))


def is_tensor(node: fx.Node) -> bool:
    return isinstance(info(node).value, Tensor)


def supersede(node: fx.Node, by: fx.Node) -> None:
    """Let every user of `node` read `by` instead, and erase it."""
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def may_share(node: fx.Node, source: fx.Node, outputs: Counter[fx.Node]) -> bool:
    """Whether `node`, a copy of `source`, can be replaced by it without the caller seeing two results, or a result and
    an input, in one memory."""
    if outputs[root(node)] == 0:
        return True
    memory = root(source)
    return memory.op == "call_function" and outputs[memory] == 0


def insert(
    before: fx.Node, target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], causes: Origins
) -> fx.Node:
    """A new node in front of `before`, its value computed from its arguments' values (under the fake mode in force)."""
    graph = before.graph
    name = f"{target._overloadpacket.__name__.lstrip('_')}_new"
    with graph.inserting_before(before):
        made = graph.create_node("call_function", target, args, kwargs, name=name)
    values = fx.map_arg((args, kwargs), lambda node: info(node).value)
    facts = info(before)
    with origin(*causes):
        value = target(*values[0], **values[1])
        return stamp(made, f"aten.{made.name}", value, span=facts.span, module=facts.module)


def same_layout(a: Tensor, b: Tensor) -> bool:
    """Same dtype, shape and strides, as far as is known without a new assumption about sizes."""
    return a.dtype == b.dtype and layout(a) == layout(b)


def layout(value: Tensor) -> tuple[Any, ...]:
    return (*map(expression, value.shape), *map(expression, value.stride()))


def is_call(node: Any, *targets: Any) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets

