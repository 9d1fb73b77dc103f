"""A graph followed through the stages that change it: after which one it first computes something else."""

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
    Values,
    is_unwritten,
    narrowed,
    run_nodes,
    scale,
    unwritten_memory_filled,
    widened,
)
from explorer.records.check.search import Blame
from explorer.records.check.trial import SEED, duplicate


@dataclass
class Stages:
    """The stages of one compile from the captured graph to its halves.

    Rounding is no fault of a stage that changes graphs, so each is judged by runs in float64, where there are such.
    """

    blame: Blame
    stages: Sequence[tuple[str, Any]]
    inputs: Sequence[Any]

    def __post_init__(self) -> None:
        self.judge = Judge(self.blame, self._tangents(), self.inputs)

    def first(self, captured: Graph) -> DivergenceData | None:
        """The first change by which results part."""
        try:
            return self._follow(captured, wide=True)
        except (RuntimeError, NotImplementedError):  # an operator without a form for float64
            return self._follow(captured, wide=False)

    def _follow(self, captured: Graph, wide: bool) -> DivergenceData | None:
        form: Form = Captured(self.inputs)
        before = form.run(captured, wide)
        for name, made in self.stages:
            step: Step | None = None
            if isinstance(made, Graph) and made is not captured:
                after = form.run(made, wide)
                step = Step(name, form, before, form, after)
                found = self.judge.changed(step, results(before), results(after))
            elif isinstance(made, Traced):
                traced = form if isinstance(form, Joint) else Joint(made, self.inputs, before)
                if not traced.is_known:
                    return None
                after = traced.run(made.forward, wide)
                pairs = (results(before), results(after)) if traced is form else traced.beside(before, after, wide)
                step = Step(name, form, before, traced, after)
                found = self.judge.changed(step, *pairs)
            elif isinstance(made, Partitioned) and isinstance(form, Joint):
                found = self._cut(name, form, before, made, wide)
            else:
                continue
            if found is not None:
                return found
            if step is not None:
                form, before = step.after_form, step.after
        return None

    def _cut(self, name: str, form: Joint, joint: Values, made: Partitioned, wide: bool) -> DivergenceData | None:
        """The halves of a joint graph beside it: by the nodes that they share with it."""
        for half, after in form.halves(made, wide):
            if found := self.judge.changed_nodes(Step(f"{name}, {half.name}", form, joint, form, after)):
                return found
        return None

    def _tangents(self) -> frozenset[str]:
        """The placeholders that gradients come in by, in every form of the graph that has them."""
        traced = next(a for _, a in self.stages if isinstance(a, Traced))
        pairs = zip(traced.forward.inputs, traced.signature.inputs, strict=True)
        return frozenset(info(node).id for node, source in pairs if isinstance(source, Tangent))


@dataclass
class Judge:
    """Whether a stage changed what is computed. `tangents` are the placeholders that gradients come in by; `inputs`
    are those of the call, whose dtypes tell how exact results can be. `half` is the one that the graphs are of, if any.
    """

    blame: Blame
    tangents: Collection[str]
    inputs: Sequence[Any]
    half: str = ""

    def changed_nodes(self, step: Step) -> DivergenceData | None:
        """By the nodes that the graphs before and after share."""
        pairs = [(info(nodes[0]).id, other) for nodes, other in self._pairs(step)]
        expected = [step.before.by_id[other] for _, other in pairs]
        return self.changed(step, expected, [step.after.by_id[id] for id, _ in pairs])

    def changed(self, step: Step, expected: Sequence[Any], actual: Sequence[Any]) -> DivergenceData | None:
        """What a stage changed, where results part: the first node that yields something else after it, also when it
        is run as the program runs it."""
        before, after = step.before, step.after
        if not any(self._differ(a, e) for a, e in zip(actual, expected, strict=True)):
            return None
        plain: Values | None = None
        again: Values | None = None
        for nodes, other in self._pairs(step):
            right, group = before.by_id[other], scale(before, other)
            if all(self._differ(after.by_id[info(n).id], right, group) for n in nodes):
                plain = plain or step.form.run(before.graph, False)
                node, eager = nodes[-1], plain.by_id[other]
                ours = after.by_id[info(node).id]
                if not_close(narrowed(ours), narrowed(eager), group):
                    with unwritten_memory_filled():
                        again = again or step.form.run(before.graph, False)
                    if not_close(narrowed(again.by_id[other]), narrowed(eager), group):
                        continue  # nobody wrote it, or it is another each time
                    what = f"after {step.name}, {info(node).id} is not what {other} was before it"
                    return self.blame.told(node, self.half, "", (_distance(ours, right), _distance(eager, right)), what)
        if plain is not None:
            return None  # only in float64, where some operator's bounds are others
        worst = max((_distance(a, e) or 0.0 for a, e in zip(actual, expected, strict=True)), default=0.0)
        what = f"after {step.name} results differ, and it left no node that can be compared with one before it"
        return self.blame.told(None, self.half, "", (worst, None), what)

    def _pairs(self, step: Step) -> Iterator[tuple[list[fx.Node], str]]:
        """Nodes that have to yield the same. Of several results those count that are taken, which are nodes too: an
        operator may leave the others unwritten."""
        for nodes, other in counterparts(step.before.graph, step.after.graph, self.tangents):
            if not isinstance(step.before.by_id[other], (tuple, list)):
                yield nodes, other

    def _differ(self, one: Any, other: Any, group: float = 0.0) -> bool:
        """Whether two values differ by more than the program's dtypes can tell; some constants are single precision."""
        is_double = any(isinstance(v, Tensor) and v.dtype in (torch.float64, torch.complex128) for v in self.inputs)
        return not_close(one, other, group) if is_double else not_close(narrowed(one), narrowed(other), group)


class Form(Protocol):
    """How the graphs of one form are run on the inputs of the call."""

    def run(self, graph: Graph, wide: bool) -> Values: ...


@dataclass
class Step:
    """A stage that changed a graph: the graph's values before it and after it, and how either is run."""

    name: str
    form: Form
    before: Values
    after_form: Form
    after: Values


class Captured:
    """How graphs in the captured form are run: on the inputs of the call."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.inputs = inputs

    def run(self, graph: Graph, wide: bool) -> Values:
        torch.manual_seed(SEED)
        with torch.set_grad_enabled(graph.grad_enabled):
            return run_nodes(graph, duplicate(tuple(self.inputs)), referee=wide)


class Joint:
    """How graphs in the traced form are run: on the same inputs, and gradients drawn for the results."""

    def __init__(self, traced: Traced, inputs: Sequence[Any], captured: Values) -> None:
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
        """Whether every gradient that flows in has a shape that is known here."""
        return all(s.output in self.tangents for s in self.signature.inputs if isinstance(s, Tangent))

    def run(self, graph: Graph, wide: bool, sources: Sequence[Any] | None = None) -> Values:
        given = duplicate(tuple(self.inputs))
        values = [self._value(source, given) for source in sources or self.signature.inputs]
        torch.manual_seed(SEED)
        with torch.no_grad():
            return run_nodes(graph, values, referee=wide)

    def _value(self, source: Any, given: Sequence[Any]) -> Any:
        if isinstance(source, Primal):
            return given[source.index]
        return self.tangents[source.output] if isinstance(source, Tangent) else self.kept[source.id]

    def beside(self, captured: Values, traced: Values, wide: bool) -> tuple[list[Any], list[Any]]:
        """What the captured graph gives and what the traced one does: results, new values of inputs, gradients."""
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

    def halves(self, parts: Partitioned, wide: bool) -> Iterator[tuple[Graph, Values]]:
        primals = [source for source in self.signature.inputs if isinstance(source, Primal)]
        forward = self.run(parts.forward, wide, primals)
        yield parts.forward, forward
        self.kept = {id: forward.returned[place] for id, place in parts.kept_at.items()}
        yield parts.backward, self.run(parts.backward, wide, parts.backward_inputs)


def laid_out(drawn: Tensor, traced: Tensor) -> Tensor:
    """A gradient as the graph was traced for: its dtype, device and, where known, its strides."""
    strides = traced.stride()
    if not all(isinstance(step, int) for step in (*strides, *traced.shape)):
        return drawn.to(traced.dtype).to(traced.device)
    return torch.empty_strided(drawn.shape, strides, dtype=traced.dtype, device=traced.device).copy_(drawn)


def _distance(one: Any, other: Any) -> float | None:
    both = isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape
    return largest_distance(one, other) if both else None


def _forward(output: Any, eager: Values) -> Any:
    if isinstance(output, Result):
        return eager.returned[output.index]
    return eager.inputs[output.index] if isinstance(output, NewValue) else None


def results(values: Values) -> list[Any]:
    return [*values.returned, *values.inputs]


def counterparts(before: Graph, after: Graph, tangents: Collection[str]) -> Iterator[tuple[list[fx.Node], str]]:
    """What has to yield the same, in the order of `after`: (nodes of `after` of which one does, id in `before`).

    A node is kept under its id; or stands for one that is gone, with the same origins; or it is among those that were
    made of a node, which they then have as their origin, and that others read. `tangents` are the ids of placeholders
    that gradients come in by. Memory that nobody has written yet may hold anything.
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
    """By origins: the one id that has them; where several have, none."""
    found: dict[Origins, list[str]] = {}
    for origins, id in pairs:
        found.setdefault(origins, []).append(id)
    return {origins: ids[0] for origins, ids in found.items() if len(ids) == 1}


def _alike(one: Any, other: Any) -> bool:
    both = isinstance(one, Tensor) and isinstance(other, Tensor)
    return both and one.dtype == other.dtype and tuple(map(str, one.shape)) == tuple(map(str, other.shape))
