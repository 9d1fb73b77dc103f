"""Runs a graph before and after each stage that changes it, ours or stock's, to find the first that changes results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, fx

from explorer.core.origin import Origins
from explorer.ir import joint as artifacts
from explorer.ir.graph import Graph, computed_from, info
from explorer.ir.record import DivergenceData
from explorer.records.check import search
from explorer.records.check.accuracy import largest_distance, not_close
from explorer.records.check.trial import SEED, duplicate


class UnknownInput(Exception):
    """An input of a traced graph comes from no input or result of the captured graph."""


@dataclass
class StageChange:
    """A stage that changed a graph: the values before and after, and how each graph runs. `part`: the graph after is a
    part of the one before, so that they are compared by the nodes that they share."""

    name: str
    form: Form
    before: search.NodeValues
    after_form: Form
    after: search.NodeValues
    part: bool = False


def first_change(judge: Judge, changes: Callable[[bool], Iterator[StageChange]]) -> DivergenceData | None:
    """The first change of results. `changes` yields what each stage made, run in float64 if every operator supports
    it, so that rounding is not blamed on a stage, else in the program's dtypes."""
    for wide in (True, False):
        try:
            return next(filter(None, (judge.judged(change, wide) for change in changes(wide))), None)
        except (RuntimeError, NotImplementedError):  # an operator without a float64 form
            if not wide:
                raise
    return None


@dataclass
class Stages:
    """The stages of one of our compiles, from the captured graph to its halves."""

    report: search.FaultReport
    stages: Sequence[tuple[str, Any]]
    inputs: Sequence[Any]

    def first(self, captured: Graph) -> DivergenceData | None:
        """The first stage that changes results."""
        judge = Judge(self.report, self._tangents(), self.inputs)
        try:
            return first_change(judge, lambda wide: self._changes(captured, wide))
        except UnknownInput:
            return None

    def _changes(self, captured: Graph, wide: bool) -> Iterator[StageChange]:
        form: Form = CapturedGraphs(self.inputs)
        before = form.run(captured, wide)
        for name, made in self.stages:
            if isinstance(made, Graph) and made is not captured:
                after_form, graph = form, made
            elif isinstance(made, artifacts.Traced):
                after_form = form if isinstance(form, Joint) else self._joint(made, before)
                graph = made.forward
            elif isinstance(made, artifacts.Partitioned) and isinstance(form, Joint):
                for half, values in self._halves(form, made, wide):
                    yield StageChange(f"{name}, {half.name}", form, before, form, values, part=True)
                continue
            else:
                continue
            after = after_form.run(graph, wide)
            yield StageChange(name, form, before, after_form, after)
            form, before = after_form, after

    def _joint(self, traced: artifacts.Traced, captured: search.NodeValues) -> Joint:
        signature = traced.signature
        results = signature.forward_outputs
        joint = Joint(self.inputs, captured, lambda graph: signature.inputs, lambda tangent: results[tangent.output])
        joint.draw(traced.forward)
        joint.outputs, joint.mutates = signature.outputs, bool(signature.mutations)
        return joint

    def _halves(
        self, joint: Joint, parts: artifacts.Partitioned, wide: bool
    ) -> Iterator[tuple[Graph, search.NodeValues]]:
        """The halves of a partitioned graph, the backward on what the forward keeps."""
        primals = [source for source in parts.signature.inputs if isinstance(source, artifacts.Primal)]
        forward = joint.run(parts.forward, wide, primals)
        yield parts.forward, forward
        joint.kept = {id: forward.returned[place] for id, place in parts.kept_at.items()}
        yield parts.backward, joint.run(parts.backward, wide, parts.backward_inputs)

    def _tangents(self) -> frozenset[str]:
        """The placeholders that take the gradients of outputs."""
        traced = next(a for _, a in self.stages if isinstance(a, artifacts.Traced))
        pairs = zip(traced.forward.inputs, traced.signature.inputs, strict=True)
        return frozenset(info(node).id for node, source in pairs if isinstance(source, artifacts.Tangent))


@dataclass
class Judge:
    """Decides whether a stage changed what is computed. `tangents` are the placeholders that take the gradients of
    outputs; `inputs` are those of the call, whose dtypes set the tolerance. `half` names the graphs' half, if any."""

    report: search.FaultReport
    tangents: Collection[str]
    inputs: Sequence[Any]
    half: str = ""

    def judged(self, change: StageChange, wide: bool) -> DivergenceData | None:
        """The first node whose value the stage changed."""
        if change.part:
            pairs = [(info(nodes[0]).id, other) for nodes, other in self._pairs(change)]
            expected = [change.before.by_id[other] for _, other in pairs]
            return self._changed(change, expected, [change.after.by_id[id] for id, _ in pairs])
        if isinstance(change.after_form, Joint) and change.after_form is not change.form:
            return self._changed(change, *change.after_form.paired_outputs(change.before, change.after, wide))
        return self._changed(change, results(change.before), results(change.after))

    def _changed(
        self, change: StageChange, expected: Sequence[object], actual: Sequence[object]
    ) -> DivergenceData | None:
        """The first node whose value differs after the stage, both in float64 and in the program's dtypes."""
        before, after = change.before, change.after
        if not any(self._differ(a, e) for a, e in zip(actual, expected, strict=True)):
            return None
        plain: search.NodeValues | None = None
        again: search.NodeValues | None = None
        for nodes, other in self._pairs(change):
            right, group = before.by_id[other], search.scale(before, other)
            if all(self._differ(after.by_id[info(n).id], right, group) for n in nodes):
                plain = plain or change.form.run(before.graph, False)
                node, eager = nodes[-1], plain.by_id[other]
                ours = after.by_id[info(node).id]
                if not_close(search.narrowed(ours), search.narrowed(eager), group):
                    with search.unwritten_memory_filled():
                        again = again or change.form.run(before.graph, False)
                    if not_close(search.narrowed(again.by_id[other]), search.narrowed(eager), group):
                        continue  # unwritten memory, or not deterministic
                    what = f"after {change.name}, {info(node).id} has another value than {other} had before"
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

    def _differ(self, one: object, other: object, group: float = 0.0) -> bool:
        """Whether two values differ in the program's precision; some constants are float32 even in a float64 run."""
        is_double = any(isinstance(v, Tensor) and v.dtype in (torch.float64, torch.complex128) for v in self.inputs)
        one, other = (one, other) if is_double else (search.narrowed(one), search.narrowed(other))
        return not_close(one, other, group)


class Form(Protocol):
    """Runs graphs of one form (captured, traced) on the inputs of the call."""

    def run(self, graph: Graph, wide: bool) -> search.NodeValues: ...


@dataclass
class CapturedGraphs:
    """Runs captured graphs on the inputs of the call."""

    inputs: Sequence[Any]

    def run(self, graph: Graph, wide: bool) -> search.NodeValues:
        torch.manual_seed(SEED)
        with torch.set_grad_enabled(graph.grad_enabled):
            return search.run_nodes(graph, duplicate(tuple(self.inputs)), float64=wide)


@dataclass
class Joint:
    """Runs traced graphs on the inputs of the captured graph, with random gradients for its results. `sources` says
    what a traced graph's inputs are, `of` of which result a tangent is the gradient. `kept` are values by id that a
    half takes as inputs. `outputs` say what the traced graph returns (None: nobody knows); `mutates`: it writes inputs.
    """

    inputs: Sequence[Any]
    captured: search.NodeValues
    sources: Callable[[Graph], Sequence[artifacts.GraphInput]]
    of: Callable[[artifacts.Tangent], artifacts.GraphOutput]
    outputs: Sequence[artifacts.GraphOutput | None] = ()
    mutates: bool = False
    tangents: dict[int, Tensor] = field(default_factory=dict)
    ends: dict[int, Tensor] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, graph: Graph) -> None:
        """Draw the gradients that a traced graph takes. Raises UnknownInput for that of no tensor."""
        generator = torch.Generator().manual_seed(SEED)
        for node, source in zip(graph.inputs, self.sources(graph), strict=True):
            if isinstance(source, artifacts.Tangent):
                like = _captured(self.of(source), self.captured)
                if not isinstance(like, Tensor):
                    raise UnknownInput(f"{info(node).id} is not the gradient of a result of the captured graph")
                drawn = torch.randn(like.shape, generator=generator, dtype=torch.float64)
                self.tangents[source.output], self.ends[source.output] = laid_out(drawn, info(node).value), like

    def run(self, graph: Graph, wide: bool, sources: Sequence[artifacts.GraphInput] | None = None) -> search.NodeValues:
        given = duplicate(tuple(self.inputs))
        values = [self._value(source, given) for source in sources or self.sources(graph)]
        torch.manual_seed(SEED)
        with torch.no_grad(), torch._C._DisableAutocast():
            return search.run_nodes(graph, values, float64=wide)

    def _value(self, source: artifacts.GraphInput, given: Sequence[object]) -> Any:
        match source:
            case artifacts.Primal(index=index):
                return given[index]
            case artifacts.Tangent(output=output):
                return self.tangents[output]
            case artifacts.SavedValue(id=id):
                return self.kept[id]

    def paired_outputs(
        self, captured: search.NodeValues, traced: search.NodeValues, wide: bool
    ) -> tuple[list[Any], list[Any]]:
        """(the captured graph's, the traced graph's) results, new values of inputs, and gradients, pair by pair."""
        pairs = list(zip(self.outputs, traced.returned, strict=True)) if self.outputs else []
        known = [
            (_captured(o, captured), value)
            for o, value in pairs
            if isinstance(o, (artifacts.Result, artifacts.NewValue))
        ]
        gradients = [(o.index, v) for o, v in pairs if isinstance(o, artifacts.GradientOf)]
        wanted = [(captured.inputs[index], v) for index, v in gradients if isinstance(v, Tensor)]
        if wanted and not self.mutates and all(end.requires_grad for end in self.ends.values()):
            tangents = [search.widened(each) if wide else each for each in self.tangents.values()]
            leaves = [leaf for leaf, _ in wanted]
            found = torch.autograd.grad([*self.ends.values()], leaves, tangents, allow_unused=True, retain_graph=True)
            known += [(g, value) for g, (_, value) in zip(found, wanted, strict=True) if g is not None]
        return [expected for expected, _ in known], [actual for _, actual in known]


def laid_out(drawn: Tensor, traced: Tensor) -> Tensor:
    """A gradient with the dtype, device and, if known, strides that the graph was traced with."""
    strides = traced.stride()
    if not all(isinstance(change, int) for change in (*strides, *traced.shape)):
        return drawn.to(traced.dtype).to(traced.device)
    return torch.empty_strided(drawn.shape, strides, dtype=traced.dtype, device=traced.device).copy_(drawn)


def _distance(one: Any, other: Any) -> float | None:
    both = isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape
    return largest_distance(one, other) if both else None


def _captured(output: artifacts.GraphOutput | None, eager: search.NodeValues) -> Any:
    """What the captured graph has for an output of the traced one."""
    if isinstance(output, artifacts.Result):
        return eager.returned[output.index]
    return eager.inputs[output.index] if isinstance(output, artifacts.NewValue) else None


def results(values: search.NodeValues) -> list[Any]:
    return [*values.returned, *values.inputs]


def counterparts(before: Graph, after: Graph, tangents: Collection[str]) -> Iterator[tuple[list[fx.Node], str]]:
    """Pairs of nodes that have to yield the same value, in the order of `after`: (candidates in `after`, id in
    `before`); one of the candidates has to match.

    A node keeps its id; or it replaces a removed node with the same origins; or it is one of several nodes made from a
    node, which is then their only origin. `tangents` are ids of placeholders that take the gradients of outputs.
    Unwritten memory is left out.
    """
    old = {info(n).id: n for n in before.graph.nodes if n.op != "output"}
    nodes = [n for n in after.graph.nodes if n.op != "output" and not search.is_unwritten(n)]
    ids = {info(n).id for n in nodes}
    gone = _alone((info(n).origins, id) for id, n in old.items() if id not in ids and n.op != "placeholder")
    new = _alone((info(n).origins, info(n).id) for n in nodes if info(n).id not in old and n.op != "placeholder")
    backward = computed_from(nodes, [node for node in nodes if info(node).id in tangents])
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
