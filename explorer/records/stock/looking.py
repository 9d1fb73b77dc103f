"""The search for where a call compiled by stock parts from eager: graphs and halves are looked into as they run."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from explorer.ir.graph import Graph, info
from explorer.ir.record import DivergenceData
from explorer.records.check.accuracy import largest_distance, not_close, same_kind
from explorer.records.check.follow import Captured, Form, Judge, Step, laid_out, results
from explorer.records.check.lines import Lines, first_unlike
from explorer.records.check.nodes import Values, run_nodes, widened
from explorer.records.check.search import Blame, Search
from explorer.records.check.trial import SEED, duplicate
from explorer.records.stock.apart import first_wrong_apart
from explorer.records.stock.fxgraphs import DESCRIBED, GRADIENT
from explorer.records.stock.half import Half
from explorer.records.stock.held import Beside, Fault, Written, drawing
from explorer.records.stock.hook import Call, Hook, Watch, unwatched
from explorer.records.stock.observation import Compile, Observation

PRE_GRAD = "pre-grad"
PARTITION = "partition"
COPY = "aten.copy_.default"


@dataclass
class StockSearch(Search):
    """`lines` is what eager computed. `suspect` is a captured node that is none of them, which counts where results
    differ. `drew`: stock drew random numbers, in a way of its own. `unfollowed` says what could not be compared."""

    lines: Lines = field(default_factory=Lines)
    suspect: DivergenceData | None = None
    overwritten: dict[str, Tensor] = field(default_factory=dict)
    """Inputs of forwards that they overwrite, as they were, by the compile's and the node's id."""
    drew: bool = False
    unfollowed: list[str] = field(default_factory=list)

    def lost(self, why: str, blame: Blame) -> None:
        self.unfollowed.append(why)

    def graph(self, compile: Compile, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What Dynamo got for its graph, looked into when it is called."""
        blame = blame_of(compile)

        @functools.wraps(compiled, updated=())
        def call(*inputs: Any) -> Any:
            with unwatched():
                self.look(lambda: Above(self, compile, blame, inputs).first(), blame)
            return compiled(*inputs)

        return call

    def module(self, compile: Compile, half: Half, module: types.ModuleType) -> types.ModuleType:
        """A twin of the module that Inductor made of a half, looked into when it is called."""
        blame = blame_of(compile)
        plain = vars(module)["call"]
        twin = types.ModuleType(module.__name__)
        vars(twin).update(vars(module))

        def call(args: list[Any]) -> Any:
            with unwatched():
                self.look(lambda: Below(self, compile, half, blame, plain, tuple(args)).first(), blame)
            return plain(args)

        vars(twin)["call"] = call
        return twin


def blame_of(compile: Compile) -> Blame:
    return Blame(compile.id, lambda: (graph for _, _, graph in compile.graphs), "stock")


def best_referee(follow: Callable[[bool], DivergenceData | None]) -> DivergenceData | None:
    """In float64, or where an operator has no form for that as the program computes."""
    try:
        return follow(True)
    except (RuntimeError, NotImplementedError):
        return follow(False)


@dataclass
class Above:
    """The graphs of a compile above its halves: captured, after Inductor's pre-grad passes, traced, cut in two."""

    search: StockSearch
    compile: Compile
    blame: Blame
    inputs: Sequence[Any]

    def first(self) -> DivergenceData | None:
        graphs = [(name, graph) for name, half, graph in self.compile.graphs if not half or name == PARTITION]
        if not graphs:
            self.search.unfollowed.append(f"{self.compile.id} has no graph that was seen")
            return None
        captured = graphs.pop(0)[1]
        if self.search.suspect is None:
            self.search.suspect = first_unlike(self.search.lines, captured, self.inputs, self.blame)
        try:
            return best_referee(lambda wide: self._follow(captured, graphs, wide))
        except NotGiven as error:
            self.search.unfollowed.append(str(error))
            return None

    def _follow(self, captured: Graph, later: Sequence[tuple[str, Graph]], wide: bool) -> DivergenceData | None:
        form: Form = Captured(self.inputs)
        before = form.run(captured, wide)
        judge = Judge(self.blame, _tangents(later), self.inputs)
        for name, graph in later:
            if name.startswith(PRE_GRAD):
                after_form = form
            elif isinstance(form, Captured):
                after_form = Traced(captured, before, self.inputs, graph)
            elif isinstance(form, Traced):
                after_form = form.part(before) if name == PARTITION else form
            after = after_form.run(graph, wide)
            step = Step(name, form, before, after_form, after)
            if name == PARTITION:
                found = judge.changed_nodes(step)
            elif drawing(before.graph) != drawing(graph):  # of other numbers
                found = None
            elif form is after_form:
                found = judge.changed(step, results(before), results(after))
            else:
                assert isinstance(after_form, Traced)
                found = judge.changed(step, *after_form.beside(before, after, wide))
            if found is not None:
                return found
            if name != PARTITION:
                form, before = after_form, after
        return None


class NotGiven(Exception):
    """An input of a traced graph is none that Dynamo's graph is given."""


class Traced:
    """How graphs in the traced form are run: on the inputs of the captured one, and gradients drawn for the results.
    `kept` are values of the joint graph by id, which its halves may be given."""

    def __init__(self, captured: Graph, before: Values, inputs: Sequence[Any], graph: Graph) -> None:
        self.places = {info(node).id: place for place, node in enumerate(captured.inputs)}
        self.inputs = inputs
        self.kept: dict[str, Any] = {}
        self.tangents: dict[str, Tensor] = {}
        generator = torch.Generator().manual_seed(SEED)
        for node in filter(_is_tangent, graph.inputs):
            like = _output_of(node, before)
            drawn = torch.randn(like.shape, generator=generator, dtype=torch.float64)
            self.tangents[info(node).id] = laid_out(drawn, info(node).value)
        self.flowing = {info(node).id: _output_of(node, before) for node in filter(_is_tangent, graph.inputs)}

    def part(self, joint: Values) -> Traced:
        """For the halves of a joint graph that was run."""
        self.kept = joint.by_id
        return self

    def run(self, graph: Graph, wide: bool) -> Values:
        given = duplicate(tuple(self.inputs))
        values = [self._value(node, given) for node in graph.inputs]
        torch.manual_seed(SEED)
        with torch.no_grad(), torch._C._DisableAutocast():
            return run_nodes(graph, values, referee=wide)

    def _value(self, node: fx.Node, given: Sequence[Any]) -> Any:
        facts = info(node)
        if facts.id in self.tangents:
            return self.tangents[facts.id]
        place = next((self.places[origin] for origin in facts.origins if origin in self.places), None)
        if place is not None:
            return given[place]
        if facts.id in self.kept:
            return self.kept[facts.id]
        raise NotGiven(f"{facts.id}, an input of the traced graph, is none of Dynamo's graph")

    def beside(self, captured: Values, traced: Values, wide: bool) -> tuple[list[Any], list[Any]]:
        """What the captured graph gives and what the traced one does: results, new values of inputs, gradients."""
        output = next(node for node in reversed(traced.graph.graph.nodes) if node.op == "output")
        described = tree_leaves(output.meta.get(DESCRIBED))
        known: list[tuple[Any, Any]] = []
        wanted: list[tuple[Any, Any]] = []
        for what, value in zip(described, traced.returned, strict=True) if output.meta.get(DESCRIBED) else ():
            kind = type(what).__name__
            if kind == "PlainAOTOutput":
                known.append((captured.returned[what.idx], value))
            elif kind == "InputMutationAOTOutput" and hasattr(what.mutated_input, "idx"):
                known.append((captured.inputs[what.mutated_input.idx], value))
            elif kind == "GradAOTOutput" and hasattr(what.grad_of, "idx") and isinstance(value, Tensor):
                wanted.append((captured.inputs[what.grad_of.idx], value))
        mutates = any(type(what).__name__ == "InputMutationAOTOutput" for what in described)
        ends = list(self.flowing.values())
        if wanted and not mutates and all(end.requires_grad for end in ends):
            given = [self.tangents[id] for id in self.flowing]
            tangents = [widened(each) if wide else each for each in given]
            leaves = [leaf for leaf, _ in wanted]
            found = torch.autograd.grad(ends, leaves, tangents, allow_unused=True, retain_graph=True)
            known += [(g, value) for g, (_, value) in zip(found, wanted, strict=True) if g is not None]
        return [expected for expected, _ in known], [actual for _, actual in known]


def _is_tangent(node: fx.Node) -> bool:
    return info(node).origins == (GRADIENT,)


def _tangents(graphs: Sequence[tuple[str, Graph]]) -> frozenset[str]:
    """The placeholders that gradients come in by."""
    return frozenset(info(node).id for _, graph in graphs for node in graph.inputs if _is_tangent(node))


def _output_of(node: fx.Node, captured: Values) -> Tensor:
    """The result of the captured graph that a gradient is of."""
    place = getattr(getattr(node.meta.get(DESCRIBED), "output", None), "idx", None)
    value = None if place is None else captured.returned[place]
    if not isinstance(value, Tensor):
        raise NotGiven(f"{info(node).id} is the gradient of no result of Dynamo's graph")
    return value


@dataclass
class Below:
    """One half as it runs: the post-grad passes over its graph, and then its kernels and library calls."""

    search: StockSearch
    compile: Compile
    half: Half
    blame: Blame
    plain: Callable[[list[Any]], Any]
    args: tuple[Any, ...]

    def first(self) -> DivergenceData | None:
        graphs = [(name, graph) for name, half, graph in self.compile.graphs if half == self.half.name]
        graphs = [(name, graph) for name, graph in graphs if name != PARTITION]
        if not graphs or any(len(graph.inputs) != len(self.args) for _, graph in graphs):
            self.search.unfollowed.append(f"{self.half.name} is not given what its graph is")
            return None
        graph = graphs[-1][1]
        if found := self._overwritten(graph):
            return found
        return best_referee(lambda wide: self._follow(graphs, wide)) or self._kernels(graph)

    def _overwritten(self, graph: Graph) -> DivergenceData | None:
        """An input of the forward that the backward gets as the forward left it."""
        written = {node.args[0] for node in graph.graph.nodes if str(node.target) == COPY}
        for node, value in zip(graph.inputs, self.args, strict=True):
            key = f"{self.compile.id} {info(node).id}"
            if node in written and isinstance(value, Tensor):
                self.search.overwritten.setdefault(key, value.detach().clone())
            elif self.half.part == "backward" and key in self.search.overwritten:
                before = self.search.overwritten[key]
                if same_kind(before, value) and not_close(value, before):
                    user = next(iter(node.users), node)
                    what = f"{info(user).id} reads {info(node).id}, which the forward has overwritten since"
                    return self.blame.told(user, self.half.name, "", (largest_distance(value, before), None), what)
        return None

    def run(self, graph: Graph, wide: bool) -> Values:
        torch.manual_seed(SEED)
        with torch.no_grad(), torch._C._DisableAutocast():
            return run_nodes(graph, duplicate(self.args), referee=wide)

    def _follow(self, graphs: Sequence[tuple[str, Graph]], wide: bool) -> DivergenceData | None:
        judge = Judge(self.blame, frozenset(), self.args, self.half.name)
        before = self.run(graphs[0][1], wide) if len(graphs) > 1 else None
        for name, graph in graphs[1:]:
            assert before is not None
            after = self.run(graph, wide)
            if drawing(before.graph) == drawing(graph):
                found = judge.changed(Step(name, self, before, self, after), results(before), results(after))
                if found is not None:
                    return found
            before = after
        return None

    def _kernels(self, graph: Graph) -> DivergenceData | None:
        """The first kernel or call that parts from eager operators on the inputs that it really gets."""
        written, given = Written(self.half), duplicate(self.args)
        with torch.no_grad():
            written.run(self.plain, given)
            roots = set(self.half.updates.values())
            updated = {id for buffer, id in self.half.holds.items() if buffer in roots}
            beside = Beside(graph, self._held(written), updated)
            with torch._C._DisableAutocast():
                beside.run(duplicate(self.args))
            self.search.drew |= beside.drew
            order = {item.id: place for place, item in enumerate(self.half.items)}
            for fault in sorted(beside.faults, key=lambda each: order.get(each.item, 0)):
                return self._told(fault, graph)
            for fault in self._leaving(graph, beside, written, given):
                return self._told(fault, graph)
        return None

    def _held(self, written: Written) -> dict[str, tuple[str, Tensor]]:
        """What the half keeps of its graph's nodes in memory, by the node's id."""
        found: dict[str, tuple[str, Tensor]] = {}
        for buffer, value in written.seen.items():
            if (id := self.half.holds.get(buffer)) is not None:
                found.setdefault(id, value)
        return found

    def _leaving(self, graph: Graph, beside: Beside, written: Written, given: Sequence[Any]) -> Iterator[Fault]:
        """Wrong results, and wrong new values of inputs, of nodes that no buffer is known to hold."""
        for node, value in zip(graph.outputs, written.returned, strict=True):
            if isinstance(node, fx.Node) and (errors := beside.errors(node, value)) is not None:
                yield Fault(node, "", errors)
        for node in graph.graph.nodes:
            if str(node.target) == COPY and node.args[0] in graph.inputs:
                now = given[graph.inputs.index(node.args[0])]
                if (errors := beside.errors(node, now)) is not None:
                    yield Fault(node, "", errors)

    def _told(self, fault: Fault, graph: Graph) -> DivergenceData:
        """Of all that the kernel computed, the first node that parts when each is computed by a kernel of its own."""
        id = info(fault.node).id
        detail = f"{fault.item} wrote {id}" if fault.item else f"{self.half.name} gives {id}"
        item = next((item for item in self.half.items if item.id == fault.item), None)
        operations = set(item.operations) if item is not None and item.kind == "kernel" else set()
        names = {origin for each in self.half.operations if each.id in operations for origin in each.origins}
        within = [n for n in graph.graph.nodes if n.op == "call_function" and info(n).id in names]
        if len(within) > 1:
            try:
                apart = first_wrong_apart(graph, within, self.args)
            except Exception as error:
                detail += f"; its {len(within)} nodes could not be computed apart: {type(error).__name__}: {error}"
            else:
                if apart is not None:
                    node, errors = apart
                    detail += f"; {info(node).id} is the first of its nodes that is wrong when each is computed apart"
                    return self.blame.told(node, self.half.name, fault.item, errors, detail)
                detail += f"; its {len(within)} nodes are right when each is computed apart, so fusing them is at fault"
        return self.blame.told(fault.node, self.half.name, fault.item, fault.errors, detail)


def around_graph(seen: Observation, call: Call) -> Iterator[None]:
    yield
    if seen.search is not None and call.error is None:
        call.result = seen.search.graph(seen.compile(), call.result)


def around_module(seen: Observation, call: Call) -> Iterator[None]:
    yield
    compile = seen.compile()
    if seen.search is not None and call.error is None and compile.half is not None:
        call.result = seen.search.module(compile, compile.half, call.result)


HOOK = Hook(
    "looking",
    shows="the first node, kernel and source line where compiled results part from eager's, when asked for",
    missing="whether results differ, without where",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    watches=(
        Watch("torch._dynamo.output_graph:OutputGraph.call_user_compiler", around_graph),
        Watch("torch._inductor.graph:GraphLowering.compile_to_module", around_module),
    ),
)
