"""Runs a graph before and after each stage that changes it, to find the first stage that changes its results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, fx

from explorer.core.origin import Origins
from explorer.ir.graph import Graph, info
from explorer.ir.joint import GradientOf, NewValue, Partitioned, Primal, Result, Tangent, Traced
from explorer.ir.record import DivergenceData
from explorer.records.check.accuracy import largest_distance, not_close
from explorer.records.check.nodes import (
    NodeValues,
    is_unwritten,
    narrowed,
    run_nodes,
    scale,
    unwritten_memory_filled,
    widened,
)
from explorer.records.check.search import FaultReport
from explorer.records.check.trial import SEED, duplicate


@dataclass
class Stages:
    """The stages of one compile from the captured graph to its halves, compared in float64 if every operator supports
    it, so that rounding is not blamed on a stage."""

    report: FaultReport
    stages: Sequence[tuple[str, Any]]
    inputs: Sequence[Any]

    def __post_init__(self) -> None:
        self.judge = Judge(self.report, self._tangents(), self.inputs)

    def first(self, captured: Graph) -> DivergenceData | None:
        """The first stage that changes results."""
        try:
            return self._follow(captured, wide=True)
        except (RuntimeError, NotImplementedError):  # an operator without a float64 form
            return self._follow(captured, wide=False)

    def _follow(self, captured: Graph, wide: bool) -> DivergenceData | None:
        form: Form = Captured(self.inputs)
        before = form.run(captured, wide)
        for name, made in self.stages:
            change: StageChange | None = None
            if isinstance(made, Graph) and made is not captured:
                after = form.run(made, wide)
                change = StageChange(name, form, before, form, after)
                found = self.judge.changed(change, results(before), results(after))
            elif isinstance(made, Traced):
                traced = form if isinstance(form, Joint) else Joint(made, self.inputs, before)
                if not traced.is_known:
                    return None
                after = traced.run(made.forward, wide)
                pairs = results(before), results(after)
                if traced is not form:
                    pairs = traced.paired_outputs(before, after, wide)
                change = StageChange(name, form, before, traced, after)
                found = self.judge.changed(change, *pairs)
            elif isinstance(made, Partitioned) and isinstance(form, Joint):
                found = self._cut(name, form, before, made, wide)
            else:
                continue
            if found is not None:
                return found
            if change is not None:
                form, before = change.after_form, change.after
        return None

    def _cut(self, name: str, form: Joint, joint: NodeValues, made: Partitioned, wide: bool) -> DivergenceData | None:
        """Compares the halves with the joint graph, by the nodes that they share."""
        for half, after in form.halves(made, wide):
            if found := self.judge.changed_nodes(StageChange(f"{name}, {half.name}", form, joint, form, after)):
                return found
        return None

    def _tangents(self) -> frozenset[str]:
        """The placeholders that take the gradients of outputs."""
        traced = next(a for _, a in self.stages if isinstance(a, Traced))
        pairs = zip(traced.forward.inputs, traced.signature.inputs, strict=True)
        return frozenset(info(node).id for node, source in pairs if isinstance(source, Tangent))


@dataclass
class Judge:
    """Decides whether a stage changed what is computed. `tangents` are the placeholders that take the gradients of
    outputs; `inputs` are those of the call, whose dtypes set the tolerance. `half` names the graphs' half, if any."""

    report: FaultReport
    tangents: Collection[str]
    inputs: Sequence[Any]
    half: str = ""

    def changed_nodes(self, change: StageChange) -> DivergenceData | None:
        """Compares the nodes that the graphs before and after have in common."""
        pairs = [(info(nodes[0]).id, other) for nodes, other in self._pairs(change)]
        expected = [change.before.by_id[other] for _, other in pairs]
        return self.changed(change, expected, [change.after.by_id[id] for id, _ in pairs])

    def changed(self, change: StageChange, expected: Sequence[Any], actual: Sequence[Any]) -> DivergenceData | None:
        """The first node whose value differs after the stage, both in float64 and in the program's dtypes."""
        before, after = change.before, change.after
        if not any(self._differ(a, e) for a, e in zip(actual, expected, strict=True)):
            return None
        plain: NodeValues | None = None
        again: NodeValues | None = None
        for nodes, other in self._pairs(change):
            right, group = before.by_id[other], scale(before, other)
            if all(self._differ(after.by_id[info(n).id], right, group) for n in nodes):
                plain = plain or change.form.run(before.graph, False)
                node, eager = nodes[-1], plain.by_id[other]
                ours = after.by_id[info(node).id]
                if not_close(narrowed(ours), narrowed(eager), group):
                    with unwritten_memory_filled():
                        again = again or change.form.run(before.graph, False)
                    if not_close(narrowed(again.by_id[other]), narrowed(eager), group):
                        continue  # unwritten memory, or not deterministic
                    what = f"after {change.name}, {info(node).id} is not what {other} was before it"
                    errors = _distance(ours, right), _distance(eager, right)
                    return self.report.divergence(node, self.half, "", errors, what)
        if plain is not None:
            return None  # only in float64, where an operator may have other bounds
        worst = max((_distance(a, e) or 0.0 for a, e in zip(actual, expected, strict=True)), default=0.0)
        what = f"results differ after {change.name}, which left no node that can be compared with one before"
        return self.report.divergence(None, self.half, "", (worst, None), what)

    def _pairs(self, change: StageChange) -> Iterator[tuple[list[fx.Node], str]]:
        """Nodes that have to yield the same value. An operator with several results is compared by the getitem nodes
        that take them, since it may leave the others unwritten."""
        for nodes, other in counterparts(change.before.graph, change.after.graph, self.tangents):
            if not isinstance(change.before.by_id[other], (tuple, list)):
                yield nodes, other

    def _differ(self, one: Any, other: Any, group: float = 0.0) -> bool:
        """Whether two values differ in the program's precision; some constants are float32 even in a float64 run."""
        is_double = any(isinstance(v, Tensor) and v.dtype in (torch.float64, torch.complex128) for v in self.inputs)
        return not_close(one, other, group) if is_double else not_close(narrowed(one), narrowed(other), group)


class Form(Protocol):
    """Runs graphs of one form (captured, traced) on the inputs of the call."""

    def run(self, graph: Graph, wide: bool) -> NodeValues: ...


@dataclass
class StageChange:
    """A stage that changed a graph: the values before and after, and how each graph runs."""

    name: str
    form: Form
    before: NodeValues
    after_form: Form
    after: NodeValues


class Captured:
    """Runs captured graphs on the inputs of the call."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.inputs = inputs

    def run(self, graph: Graph, wide: bool) -> NodeValues:
        torch.manual_seed(SEED)
        with torch.set_grad_enabled(graph.grad_enabled):
            return run_nodes(graph, duplicate(tuple(self.inputs)), float64=wide)


class Joint:
    """Runs traced graphs on the same inputs, with random gradients for the results."""

    def __init__(self, traced: Traced, inputs: Sequence[Any], captured: NodeValues) -> None:
        self.signature = traced.signature
        self.inputs = inputs
        generator = torch.Generator().manual_seed(SEED)
        self.tangents: dict[int, Tensor] = {}
        for node, source in zip(traced.forward.inputs, traced.signature.inputs, strict=True):
            if isinstance(source, Tangent):
                like = _forward(self.signature.forward_outputs[source.output], captured)
                if isinstance(like, Tensor):
                    drawn = torch.randn(like.shape, generator=generator, dtype=torch.float64)
                    self.tangents[source.output] = laid_out(drawn, info(node).value)
        self.kept: dict[str, Any] = {}

    @property
    def is_known(self) -> bool:
        """Whether the shape of every incoming gradient is known."""
        return all(s.output in self.tangents for s in self.signature.inputs if isinstance(s, Tangent))

    def run(self, graph: Graph, wide: bool, sources: Sequence[Any] | None = None) -> NodeValues:
        given = duplicate(tuple(self.inputs))
        values = [self._value(source, given) for source in sources or self.signature.inputs]
        torch.manual_seed(SEED)
        with torch.no_grad():
            return run_nodes(graph, values, float64=wide)

    def _value(self, source: Any, given: Sequence[Any]) -> Any:
        if isinstance(source, Primal):
            return given[source.index]
        return self.tangents[source.output] if isinstance(source, Tangent) else self.kept[source.id]

    def paired_outputs(self, captured: NodeValues, traced: NodeValues, wide: bool) -> tuple[list[Any], list[Any]]:
        """(the captured graph's, the traced graph's) results, new values of inputs, and gradients, pair by pair."""
        pairs = list(zip(self.signature.outputs, traced.returned, strict=True))
        known = [(_forward(o, captured), value) for o, value in pairs if isinstance(o, (Result, NewValue))]
        flowing = [
            (_forward(self.signature.forward_outputs[k], captured), widened(tangent) if wide else tangent)
            for k, tangent in self.tangents.items()
        ]
        gradients = [(o.index, v) for o, v in pairs if isinstance(o, GradientOf)]
        wanted = [(captured.inputs[index], v) for index, v in gradients if isinstance(v, Tensor)]
        if wanted and not self.signature.mutations and all(end.requires_grad for end, _ in flowing):
            ends, tangents = zip(*flowing, strict=True)
            found = torch.autograd.grad(ends, [leaf for leaf, _ in wanted], tangents, allow_unused=True)
            known += [(g, value) for g, (_, value) in zip(found, wanted, strict=True) if g is not None]
        return [expected for expected, _ in known], [actual for _, actual in known]

    def halves(self, parts: Partitioned, wide: bool) -> Iterator[tuple[Graph, NodeValues]]:
        primals = [source for source in self.signature.inputs if isinstance(source, Primal)]
        forward = self.run(parts.forward, wide, primals)
        yield parts.forward, forward
        self.kept = {id: forward.returned[place] for id, place in parts.kept_at.items()}
        yield parts.backward, self.run(parts.backward, wide, parts.backward_inputs)


def laid_out(drawn: Tensor, traced: Tensor) -> Tensor:
    """A gradient with the dtype, device and, if known, strides that the graph was traced with."""
    strides = traced.stride()
    if not all(isinstance(change, int) for change in (*strides, *traced.shape)):
        return drawn.to(traced.dtype).to(traced.device)
    return torch.empty_strided(drawn.shape, strides, dtype=traced.dtype, device=traced.device).copy_(drawn)


def _distance(one: Any, other: Any) -> float | None:
    both = isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape
    return largest_distance(one, other) if both else None


def _forward(output: Any, eager: NodeValues) -> Any:
    if isinstance(output, Result):
        return eager.returned[output.index]
    return eager.inputs[output.index] if isinstance(output, NewValue) else None


def results(values: NodeValues) -> list[Any]:
    return [*values.returned, *values.inputs]


def counterparts(before: Graph, after: Graph, tangents: Collection[str]) -> Iterator[tuple[list[fx.Node], str]]:
    """Pairs of nodes that have to yield the same value, in the order of `after`: (candidates in `after`, id in
    `before`); one of the candidates has to match.

    A node keeps its id; or it replaces a removed node with the same origins; or it is one of several nodes made from a
    node, which is then their only origin. `tangents` are ids of placeholders that take the gradients of outputs.
    Unwritten memory is left out.
    """
    old = {info(n).id: n for n in before.graph.nodes if n.op != "output"}
    nodes = [n for n in after.graph.nodes if n.op != "output" and not is_unwritten(n)]
    ids = {info(n).id for n in nodes}
    gone = _alone((info(n).origins, id) for id, n in old.items() if id not in ids and n.op != "placeholder")
    new = _alone((info(n).origins, info(n).id) for n in nodes if info(n).id not in old and n.op != "placeholder")
    backward: set[fx.Node] = set()
    for node in nodes:
        if info(node).id in tangents or backward.intersection(node.all_input_nodes):
            backward.add(node)
    made: dict[str, list[fx.Node]] = {}
    for node in nodes:
        facts = info(node)
        if facts.id not in old and node not in backward and len(facts.origins) == 1 and facts.origins[0] in old:
            readers = [user for user in node.users if user not in backward]
            leaves = any(user.op == "output" or info(user).origins != facts.origins for user in readers)
            if leaves and _alike(facts.value, info(old[facts.origins[0]]).value):
                made.setdefault(facts.origins[0], []).append(node)
    for node in nodes:
        facts = info(node)
        if node.op == "placeholder":
            continue
        if facts.id in old:
            yield [node], facts.id
        elif node not in backward and facts.origins in gone and new.get(facts.origins) == facts.id:
            yield [node], gone[facts.origins]
        elif facts.origins and made.get(facts.origins[0], [None])[-1] is node:
            yield made[facts.origins[0]], facts.origins[0]


def _alone(pairs: Iterable[tuple[Origins, str]]) -> dict[Origins, str]:
    """By origins: the id that has them, if it is the only one."""
    found: dict[Origins, list[str]] = {}
    for origins, id in pairs:
        found.setdefault(origins, []).append(id)
    return {origins: ids[0] for origins, ids in found.items() if len(ids) == 1}


def _alike(one: Any, other: Any) -> bool:
    both = isinstance(one, Tensor) and isinstance(other, Tensor)
    return both and one.dtype == other.dtype and tuple(map(str, one.shape)) == tuple(map(str, other.shape))
