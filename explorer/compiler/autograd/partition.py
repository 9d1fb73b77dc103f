"""PARTITION: the joint graph cut into a forward and a backward half where the fewest bytes cross, by what it costs to
save a value and to compute it again.

Chen et al., Training Deep Nets with Sublinear Memory Cost (2016), for recomputing; the minimum cut over what is cheap
to recompute is that of AOTAutograd: partitioners.py (min_cut_rematerialization_partition, OpTypes,
should_ban_recomputation, get_node_weight).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import networkx
import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from explorer.compiler.autograd import reasons
from explorer.compiler.autograd.grad_functions import Routes
from explorer.compiler.autograd.layouts import Symbolic, size_weight
from explorer.compiler.autograd.passes import insert
from explorer.compiler.autograd.tape import is_view, root
from explorer.core.reasons import Why
from explorer.core.rules import RuleTable
from explorer.ir.graph import Graph, computed_from, has_effect, info, is_random, needed_by, restamp
from explorer.ir.joint import GraphInput, Partitioned, Primal, Saved, SavedValue, Tangent, Traced

aten = torch.ops.aten

REDUCTIONS = frozenset(
    {
        aten.sum.dim_IntList, aten.prod.default, aten.prod.dim_int, aten.amax.default, aten.amin.default,
        aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.argmax.default,
        aten.argmin.default,
    }
)  # fmt: skip
LOOPS = frozenset(
    {
        aten.clone.default, aten._to_copy.default, aten.index.Tensor, aten._unsafe_index.Tensor, aten.gather.default,
        aten.embedding.default, aten.cat.default, aten.constant_pad_nd.default, aten.slice_scatter.default,
        aten.select_scatter.default, aten.flip.default, aten.full.default, aten.arange.start_step,
        aten.empty.memory_format,
    }
)  # fmt: skip
"""What loops express beside elementwise operators and reductions, and compute again for little. Of the other operators
that have a lowering (scatters, poolings) results are kept, as those of library calls are."""

COSTS: RuleTable[str, Callable[..., float]] = RuleTable("cost", {"keep"}.__contains__)
"""keep(node, results, level): what it costs to keep a value for the backward."""

SMALL = 4
"""A reduction's result is small where its input is at least this many times as large."""


def is_library(node: fx.Node) -> bool:
    """Whether the node is a call of its own: not elementwise, a view, a reduction or another loop."""
    if not isinstance(node.target, OpOverload) or not isinstance(info(node).value, (Tensor, tuple, list)):
        return False
    return not (is_view(node.target) or node.target in LOOPS or node.target in REDUCTIONS or is_elementwise(node))


def is_elementwise(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags and not is_random(target)


def is_viewing(node: fx.Node) -> bool:
    return is_view(node.target)


def levels(nodes: Iterable[fx.Node]) -> dict[fx.Node, int]:
    """For each node the number of library calls on the longest path to it: nodes of one level can share kernels."""
    found: dict[fx.Node, int] = {}
    for node in nodes:
        found[node] = max((found[n] + is_library(n) for n in node.all_input_nodes if n in found), default=0)
    return found


def readers(node: fx.Node) -> Iterable[fx.Node]:
    """The users of a node, looking through views."""
    for user in node.users:
        if user.op == "call_function" and is_viewing(user):
            yield from readers(user)
        else:
            yield user


def banned(
    node: fx.Node, level: Mapping[fx.Node, int], backward: Container[fx.Node], forward: Container[fx.Node]
) -> Why | None:
    """Why the backward must not compute `node` again; None where it may."""
    value = info(node).value
    if node.op != "call_function":
        return None
    if not isinstance(value, (Tensor, tuple, list)):
        return Why(reasons.KEPT_SIZE) if isinstance(value, Symbolic) and can_keep(node) else None
    if is_random(node.target):
        return Why(reasons.KEPT_RANDOM)
    if is_library(node):
        return Why(reasons.KEPT_LIBRARY, str(node.target))
    if not isinstance(value, Tensor) or is_viewing(node):
        return None
    if not node.all_input_nodes:
        return None
    if node.target in REDUCTIONS:
        read = max(nbytes(info(source).value) for source in node.all_input_nodes)
        if read >= SMALL * nbytes(value):
            return Why(reasons.KEPT_REDUCTION, f"{read:,} bytes to {nbytes(value):,}")
    reading = list(readers(node))
    if any(user in backward and is_library(user) for user in reading):
        return Why(reasons.KEPT_OPERAND)
    if node in forward and any(user in level and user in forward and level[user] > level[node] for user in reading):
        return Why(reasons.KEPT_IN_MEMORY)
    return None


@COSTS.rule("keep")
def weight(node: fx.Node, results: Container[fx.Node], level: Mapping[fx.Node, int]) -> float:
    """What keeping the node costs: its bytes, twice where the forward would not have written it to memory anyway."""
    value = info(node).value
    if not isinstance(value, Tensor):
        return 8.0
    size = float(nbytes(value))
    if node.op == "placeholder":
        return max(size, 1.0)
    if is_viewing(node):
        return size + 1.0
    in_memory = node in results or is_library(node) or node.target in REDUCTIONS
    in_memory = in_memory or any(is_library(u) or level.get(u, 0) > level[node] for u in readers(node) if u in level)
    return max(size, 1.0) * (1.0 if in_memory else 2.0)


def drawn_from(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The random numbers, and what is computed from nothing but them: they are drawn only once."""
    found: set[fx.Node] = set()
    for node in nodes:
        sources = [n for n in node.all_input_nodes if isinstance(info(n).value, (Tensor, tuple, list))]
        if is_random(node.target) or node.op == "call_function" and sources and found.issuperset(sources):
            found.add(node)
    return found


def inside_checkpoint(node: fx.Node, sides: Sides) -> bool:
    """Whether nothing but what one call of torch.utils.checkpoint runs, and the backward, reads the node."""
    region = info(node).checkpoint
    if not region or node.op != "call_function":
        return False
    others = (user for user in node.users if user not in sides.backward)
    return all(user.op != "output" and info(user).checkpoint == region for user in others)


def recompute_reason(node: fx.Node) -> Why:
    if info(node).checkpoint and is_library(node):
        return Why(reasons.RECOMPUTED_CHECKPOINT)
    if not node.all_input_nodes:
        return Why(reasons.RECOMPUTED_CONSTANT)
    return Why(reasons.RECOMPUTED_VIEW if is_viewing(node) else reasons.RECOMPUTED_CHEAP)


def nbytes(value: object) -> int:
    """Bytes of a value by size hints; of a tuple, all of it; of a size, 8."""
    if isinstance(value, Tensor):
        return math.prod(map(size_weight, value.shape)) * value.element_size()
    if isinstance(value, (tuple, list)):
        return sum(map(nbytes, value))
    return 8


Nodes = dict[fx.Node, None]
"""An ordered set."""


@dataclass(frozen=True)
class Sides:
    """Which nodes of the joint graph belong where.

    `backward`: those that a gradient flows through. `forward`: those that results and writes need. `shared`: those
    that the backward needs and that no gradient flows through: each is kept or computed again.
    """

    backward: Nodes
    forward: Nodes
    shared: Nodes


def partition(traced: Traced) -> Partitioned:
    """Cut the joint graph. Values cheap to compute again are; the rest of what the backward needs is kept."""
    joint = traced.forward
    graph = joint.copy()
    sides = classify(graph, traced)
    changing = changing_memory(graph, traced, sides)
    kept, whys = cut(graph, traced, sides, changing)
    with joint.fake_mode:
        copies = copied(graph, changing, kept)
    return build(graph, traced, sides, kept, whys, copies)


def changing_memory(graph: fx.Graph, traced: Traced, sides: Sides) -> set[fx.Node]:
    """The inputs that the call writes, and the inputs and results that eager does not keep for a gradient which needs
    them here: the caller may write them before it, and eager neither raises then nor are its gradients others. A
    checkpoint keeps what is given to it. A parameter counts as kept, since a copy of each bias is a kernel in each
    call: writing one early is an error here."""
    placeholders = graph.find_nodes(op="placeholder")
    checkpointed = (node for node in graph.nodes if node.op == "call_function" and info(node).checkpoint)
    kept = {root(each) for node in checkpointed for each in node.all_input_nodes}
    given = [info(node).value for node in traced.captured.inputs]
    kept.update(placeholders[i] for i, value in enumerate(given) if isinstance(value, torch.nn.Parameter))
    made = returned_by(graph)[: len(traced.signature.forward_outputs)]
    tensors = {placeholders[i] for i, value in enumerate(given) if isinstance(value, Tensor)}
    tensors |= {root(node) for node in made if isinstance(node, fx.Node) and root(node).op == "call_function"}
    routes, reading = Routes(traced), reading_tangents(graph, traced, sides)
    by_eager: Counter[fx.Node] = Counter()
    for node, tangents in ((made[k], tangents) for k, tangents in routes.outputs.items()):
        by_eager[root(node)] |= tangents
    for index, tangents in routes.given.items():
        by_eager[placeholders[index]] |= tangents
    kept |= {node for node in tensors if by_eager[node] and not reading[node] & ~by_eager[node]}
    return tensors - kept | {placeholders[index] for index in traced.signature.written}


def reading_tangents(graph: fx.Graph, traced: Traced, sides: Sides) -> Counter[fx.Node]:
    """For each node the tangents, as a number, whose backward reads it or what is computed from it."""
    flowing: Counter[fx.Node] = Counter()
    sources = zip(graph.find_nodes(op="placeholder"), traced.signature.inputs, strict=True)
    flowing.update({node: 1 << k for k, node in enumerate(n for n, source in sources if isinstance(source, Tangent))})
    for node in sides.backward:
        for each in node.all_input_nodes:
            flowing[node] |= flowing[each]
    reading: Counter[fx.Node] = Counter()
    for node in reversed(graph.nodes):
        for user in node.users:
            reading[node] |= flowing[user] if user in sides.backward else reading[user]
    return reading


def returned_by(graph: fx.Graph) -> tuple[Any, ...]:
    values = graph.output_node().args[0]
    assert isinstance(values, tuple)
    return values


def copied(graph: fx.Graph, changing: set[fx.Node], kept: Iterable[fx.Node]) -> dict[fx.Node, fx.Node]:
    """The copies that stand in the backward for what is kept in memory that may change."""
    first = next(node for node in graph.nodes if node.op != "placeholder")
    copies = {}
    for node in kept:
        if root(node) in changing and isinstance(info(node).value, Tensor):
            after = first if node.op == "placeholder" else node.next
            copies[node] = insert(after, aten.clone.default, (node,), {}, info(node).origins)
            restamp(copies[node], about="the value before the input is written")
    return copies


def classify(graph: fx.Graph, traced: Traced) -> Sides:
    signature = traced.signature
    placeholders = graph.find_nodes(op="placeholder")
    tangents = [n for n, source in zip(placeholders, signature.inputs, strict=True) if isinstance(source, Tangent)]
    backward = computed_from((node for node in graph.nodes if node.op != "output"), tangents)
    returned = returned_by(graph)
    split = len(signature.forward_outputs)
    effects = [n for n in graph.nodes if must_run(n)]
    forward = needed_by([*returned[:split], *(n for n in effects if n not in backward)])
    wanted = needed_by([*returned[split:], *(n for n in effects if n in backward)])
    return Sides(backward, forward, {n: None for n in graph.nodes if n in wanted and n not in backward})


def must_run(node: fx.Node) -> bool:
    return node.op == "call_function" and (has_effect(node.target) or not node.users)


def cut(
    graph: fx.Graph, traced: Traced, sides: Sides, changing: set[fx.Node]
) -> tuple[list[fx.Node], dict[fx.Node, Why]]:
    """The nodes to keep, in graph order, and why each node of `sides.shared` is kept where it has to be."""
    returned = returned_by(graph)
    results = {n for n in returned if isinstance(n, fx.Node)}
    gradients = set(returned[len(traced.signature.forward_outputs) :])
    placeholders = graph.find_nodes(op="placeholder")
    free = {placeholders[i] for i, n in enumerate(traced.captured.inputs) if is_parameter(info(n).value)}
    level = levels(n for n in graph.nodes if n not in sides.backward and n.op != "output")
    drawn = drawn_from(graph.nodes)
    whys: dict[fx.Node, Why] = {}
    cost = COSTS["keep"]
    flow = networkx.DiGraph()
    flow.add_node("source")
    flow.add_node("sink")
    for node in sides.shared:
        again = isinstance(info(node).value, (Tensor, tuple, list)) and inside_checkpoint(node, sides)
        again = again and node not in drawn
        why = None if again else banned(node, level, sides.backward, sides.forward)
        if node.op == "placeholder" or why is not None:
            flow.add_edge("source", (node, "in"))
        if why is not None:
            whys[node] = why
        if can_keep(node) and not again:
            is_copied = root(node) in changing
            price = 1.0 if node in free and not is_copied else cost(node, results, level) * (1 + is_copied)
            flow.add_edge((node, "in"), (node, "out"), capacity=price)
        else:
            flow.add_edge((node, "in"), (node, "out"))
        for user in node.users:
            if user in sides.shared:
                flow.add_edge((node, "out"), (user, "in"))
            elif user in sides.backward or (user.op == "output" and node in gradients):
                flow.add_edge((node, "out"), "sink")
    _, (near, _) = networkx.minimum_cut(flow, "source", "sink", flow_func=networkx.algorithms.flow.boykov_kolmogorov)
    return [n for n in sides.shared if (n, "in") in near and (n, "out") not in near], whys


def is_parameter(value: object) -> bool:
    """Whether the caller keeps the tensor alive until the backward in any case: a leaf that gets a gradient."""
    return isinstance(value, Tensor) and value.requires_grad and value.is_leaf


def can_keep(node: fx.Node) -> bool:
    value = info(node).value
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        symbols = value.node.expr.free_symbols
        is_read = free_unbacked_symbols(value) or not all(each.is_integer for each in symbols)
        return node.op == "placeholder" or not is_read  # read again in the backward, out of the tensor
    return isinstance(value, (Tensor, int, float))


# The halves.


def build(
    graph: fx.Graph,
    traced: Traced,
    sides: Sides,
    kept: list[fx.Node],
    whys: dict[fx.Node, Why],
    copies: dict[fx.Node, fx.Node],
) -> Partitioned:
    signature = traced.signature
    placeholders = graph.find_nodes(op="placeholder")
    returned = returned_by(graph)
    results, gradients = list(returned[: len(signature.forward_outputs)]), returned[len(signature.forward_outputs) :]
    tensors = [copies.get(n, n) for n in kept if isinstance(info(n).value, Tensor)]
    tensors.sort(key=lambda node: node.op != "placeholder")  # inputs first
    numbers = [n for n in kept if not isinstance(info(n).value, Tensor)]
    extra = [n for n in dict.fromkeys(tensors + numbers) if n.op != "placeholder" and n not in results]
    outputs = results + extra
    primals = [n for n, source in zip(placeholders, signature.inputs, strict=True) if isinstance(source, Primal)]
    tangents = [n for n in placeholders if n in sides.backward]
    in_forward = needed_by([*outputs, *filter(must_run, sides.forward)])

    forward = HalfBuilder(traced.forward, "forward", "")
    for node in primals:
        forward.input(node)
    for node in graph.nodes:
        if node in in_forward and node.op not in ("placeholder", "output"):
            forward.add(node)
    index = {node: i for i, node in enumerate(primals)}
    given = [info(node).value for node in traced.captured.inputs]
    kept_alive = {n for n in tensors if n in index and (given[index[n]].is_leaf or not given[index[n]].requires_grad)}
    first = HalfBuilder(traced.forward, "backward", "bwd_", frozenset(n.name for n in tensors if n not in kept_alive))
    for node in tensors + numbers + tangents:
        first.input(node)
    for node, made in copies.items():
        first.nodes[node] = first.nodes[made]  # type: ignore[assignment]
    wanted = needed_by([*gradients, *filter(must_run, sides.backward)], set(first.nodes))
    for node in sides.backward:
        if node in wanted and node.op != "placeholder":
            first.add_with_inputs(node)
    for node in gradients:
        if isinstance(node, fx.Node):
            first.add_with_inputs(node)

    sources: list[GraphInput] = [Primal(index[n]) if n in index else SavedValue(info(n).id) for n in tensors + numbers]
    sources += [source for source in signature.inputs if isinstance(source, Tangent)]
    return Partitioned(
        forward=forward.finish(outputs),
        backward=first.finish(gradients),
        saved=tuple(saved_values(sides, kept, whys, copies, first)),
        signature=signature,
        backward_inputs=tuple(sources),
        kept_at={info(n).id: outputs.index(n) for n in tensors + numbers if n not in index},
        captured=traced.captured,
        eager_backward=traced.eager_backward,
    )


def saved_values(
    sides: Sides, kept: list[fx.Node], whys: dict[fx.Node, Why], copies: dict[fx.Node, fx.Node], backward: HalfBuilder
) -> Iterable[Saved]:
    """What became of each shared node that the backward half reads, and why."""
    chosen, credit = set(kept), COSTS.credit("keep")
    cut = Why(reasons.KEPT_CUT, credit)
    for node in sides.shared:
        facts = info(node)
        size = nbytes(facts.value)
        if node in copies:
            made = info(copies[node])
            yield Saved(made.id, "saved", size, Why(reasons.KEPT_COPY), made.origins)
        elif node in chosen:
            why = whys.get(node, cut)
            if node.op == "placeholder":
                yield Saved(facts.id, "input", size, Why(reasons.KEPT_INPUT), facts.origins)
            elif not isinstance(facts.value, Tensor):
                yield Saved(facts.id, "saved", size, Why(reasons.KEPT_SIZE), facts.origins)
            else:
                yield Saved(facts.id, "saved", size, why, facts.origins)
        elif node in backward.nodes:
            why = replace(recompute_reason(node), detail=credit)
            yield Saved(facts.id, "recomputed", size, why, facts.origins)


class HalfBuilder:
    """One half under construction: copies of joint nodes, with their ids."""

    def __init__(self, joint: Graph, name: str, mark: str, frees: frozenset[str] = frozenset()) -> None:
        self._joint = joint
        self._name = f"{joint.name}_{name}"
        self._mark, self._frees = mark, frees
        self._graph = fx.Graph()
        self.nodes: Nodes | dict[fx.Node, fx.Node] = {}

    def input(self, node: fx.Node) -> None:
        made = self._graph.placeholder(node.name)
        made.meta = dict(node.meta)
        self.nodes[node] = made  # type: ignore[assignment]

    def add(self, node: fx.Node) -> None:
        made = self._graph.node_copy(node, lambda n: self.nodes[n])
        made.meta = dict(node.meta)
        self.nodes[node] = made  # type: ignore[assignment]

    def add_with_inputs(self, node: fx.Node) -> None:
        """Add `node` and whatever it needs that is not there yet, as late as possible."""
        pending = [node]
        while pending:
            last = pending[-1]
            missing = [n for n in last.all_input_nodes if n not in self.nodes]
            if last in self.nodes or not missing:
                pending.pop()
                if last not in self.nodes:
                    self.add(last)
            else:
                pending += missing

    def finish(self, outputs: Iterable[Any]) -> Graph:
        self._graph.output(tuple(self.nodes[n] if isinstance(n, fx.Node) else n for n in outputs))
        named = {str(n.target) for n in self._graph.nodes if n.op == "get_attr"}
        constants = {name: value for name, value in self._joint.constants.items() if name in named}
        mode = self._joint.fake_mode
        return Graph(self._name, self._graph, mode, constants, False, self._mark, not self._mark, self._frees)
