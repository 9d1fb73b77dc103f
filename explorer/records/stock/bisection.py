"""Bisection of a call compiled by stock: its graphs and kernels are compared with eager operators as they run."""

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
from explorer.ir.joint import GradientOf, GraphInput, GraphOutput, NewValue, Primal, Result, SavedValue, Tangent
from explorer.ir.record import DivergenceData
from explorer.records.check.accuracy import largest_distance, not_close, same_kind
from explorer.records.check.lockstep import CapturedGraphs, Form, Joint, Judge, StageChange, UnknownInput, first_change
from explorer.records.check.search import (
    FaultReport,
    Lines,
    Mismatch,
    NodeValues,
    ReferenceRun,
    Search,
    drawing,
    first_unlike,
    run_nodes,
)
from explorer.records.check.trial import SEED, duplicate
from explorer.records.stock.fxgraphs import DESCRIBED, GRADIENT
from explorer.records.stock.hook import Call, Hook, Patch, unwatched
from explorer.records.stock.kernel_outputs import KernelOutputs, first_wrong_node
from explorer.records.stock.observation import Compile, Half, Observation

PRE_GRAD = "pre-grad"
PARTITION = "partition"
COPY = "aten.copy_.default"


@dataclass
class StockSearch(Search):
    """`lines` are the values of an eager run. `suspect` is a captured node whose value is not among them; it counts
    only if results differ. `drew`: Inductor drew random numbers. `not_compared`
    says what could not be compared, and why."""

    lines: Lines = field(default_factory=Lines)
    suspect: DivergenceData | None = None
    overwritten: dict[str, Tensor] = field(default_factory=dict)
    """Copies of inputs that a forward overwrites, by the ids of compile and node."""
    drew: bool = False
    not_compared: list[str] = field(default_factory=list)

    def lost(self, why: str, report: FaultReport) -> None:
        self.not_compared.append(why)

    def graph(self, compile: Compile, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The function that the backend made of a graph; each call of it compares the graphs first."""
        report = report_of(compile)

        @functools.wraps(compiled, updated=())
        def call(*inputs: Any) -> Any:
            with unwatched():
                self.compare(lambda: GraphComparison(self, compile, report, inputs).first(), report)
            return compiled(*inputs)

        return call

    def module(self, compile: Compile, half: Half, module: types.ModuleType) -> types.ModuleType:
        """A copy of the module that Inductor made of a half; each call of it compares the kernels first."""
        report = report_of(compile)
        plain = vars(module)["call"]
        twin = types.ModuleType(module.__name__)
        vars(twin).update(vars(module))

        def call(args: list[Any]) -> Any:
            with unwatched():
                self.compare(lambda: KernelComparison(self, compile, half, report, plain, tuple(args)).first(), report)
            return plain(args)

        vars(twin)["call"] = call
        return twin


def report_of(compile: Compile) -> FaultReport:
    return FaultReport(compile.id, lambda: (graph for _, _, graph in compile.graphs), "stock")


@dataclass
class GraphComparison:
    """The graphs of a compile before lowering: as captured, after each pre-grad pass, traced, and partitioned."""

    search: StockSearch
    compile: Compile
    report: FaultReport
    inputs: Sequence[Any]

    def first(self) -> DivergenceData | None:
        graphs = [(name, graph) for name, half, graph in self.compile.graphs if not half or name == PARTITION]
        if not graphs:
            self.search.not_compared.append(f"{self.compile.id} has no recorded graph")
            return None
        captured = graphs.pop(0)[1]
        if self.search.suspect is None:
            self.search.suspect = first_unlike(self.search.lines, captured, self.inputs, self.report)
        judge = Judge(self.report, _tangents(graphs), self.inputs)
        try:
            return first_change(judge, lambda wide: self._changes(captured, graphs, wide))
        except UnknownInput as error:
            self.search.not_compared.append(str(error))
            return None

    def _changes(self, captured: Graph, later: Sequence[tuple[str, Graph]], wide: bool) -> Iterator[StageChange]:
        form: Form = CapturedGraphs(self.inputs)
        before = form.run(captured, wide)
        for name, graph in later:
            after_form = form
            if isinstance(form, CapturedGraphs) and not name.startswith(PRE_GRAD):
                after_form = self._joint(captured, before, graph)
            if name == PARTITION:
                assert isinstance(form, Joint)
                form.kept = before.by_id
            after = after_form.run(graph, wide)
            if name == PARTITION or drawing(before.graph) == drawing(graph):  # else of other numbers
                yield StageChange(name, form, before, after_form, after, part=name == PARTITION)
            if name != PARTITION:
                form, before = after_form, after

    def _joint(self, captured: Graph, before: NodeValues, graph: Graph) -> Joint:
        places = {info(node).id: place for place, node in enumerate(captured.inputs)}
        tangents = {info(node).id: _tangent(node) for node in graph.inputs if _is_tangent(node)}

        def source(node: fx.Node) -> GraphInput:
            facts = info(node)
            if facts.id in tangents:
                return tangents[facts.id]
            if (place := next((places[origin] for origin in facts.origins if origin in places), None)) is not None:
                return Primal(place)
            if facts.id in joint.kept:
                return SavedValue(facts.id)
            raise UnknownInput(f"{facts.id}, an input of the traced graph, is not an input of Dynamo's graph")

        def sources(each: Graph) -> list[GraphInput]:
            return [source(node) for node in each.inputs]

        joint = Joint(self.inputs, before, sources, lambda tangent: Result(tangent.output))
        joint.draw(graph)
        output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
        described = tree_leaves(output.meta.get(DESCRIBED)) if output.meta.get(DESCRIBED) else []
        joint.outputs = [_output(each) for each in described]
        joint.mutates = any(type(each).__name__ == "InputMutationAOTOutput" for each in described)
        return joint


def _tangent(node: fx.Node) -> Tangent:
    place = getattr(getattr(node.meta.get(DESCRIBED), "output", None), "idx", None)
    if place is None:
        raise UnknownInput(f"{info(node).id} is not the gradient of a result of Dynamo's graph")
    return Tangent(place)


def _output(described: Any) -> GraphOutput | None:
    """What AOTAutograd says that an output of the traced graph is."""
    match type(described).__name__:
        case "PlainAOTOutput":
            return Result(described.idx)
        case "InputMutationAOTOutput" if hasattr(described.mutated_input, "idx"):
            return NewValue(described.mutated_input.idx)
        case "GradAOTOutput" if hasattr(described.grad_of, "idx"):
            return GradientOf(described.grad_of.idx)
    return None


def _is_tangent(node: fx.Node) -> bool:
    return info(node).origins == (GRADIENT,)


def _tangents(graphs: Sequence[tuple[str, Graph]]) -> frozenset[str]:
    """The placeholders that take the gradients of outputs."""
    return frozenset(info(node).id for _, graph in graphs for node in graph.inputs if _is_tangent(node))


@dataclass
class KernelComparison:
    """One half as it runs: the post-grad passes over its graph, then its kernels and library calls."""

    search: StockSearch
    compile: Compile
    half: Half
    report: FaultReport
    plain: Callable[[list[Any]], Any]
    args: tuple[Any, ...]

    def first(self) -> DivergenceData | None:
        graphs = [(name, graph) for name, half, graph in self.compile.graphs if half == self.half.name]
        graphs = [(name, graph) for name, graph in graphs if name != PARTITION]
        if not graphs or any(len(graph.inputs) != len(self.args) for _, graph in graphs):
            self.search.not_compared.append(f"{self.half.name} does not take the inputs of its graph")
            return None
        graph = graphs[-1][1]
        if found := self._overwritten(graph):
            return found
        judge = Judge(self.report, frozenset(), self.args, self.half.name)
        return first_change(judge, lambda wide: self._changes(graphs, wide)) or self._kernels(graph)

    def _overwritten(self, graph: Graph) -> DivergenceData | None:
        """A node of the backward that reads an input after the forward has overwritten it."""
        written = {node.args[0] for node in graph.graph.nodes if str(node.target) == COPY}
        for node, value in zip(graph.inputs, self.args, strict=True):
            key = f"{self.compile.id} {info(node).id}"
            if node in written and isinstance(value, Tensor):
                self.search.overwritten.setdefault(key, value.detach().clone())
            elif self.half.part == "backward" and key in self.search.overwritten:
                before = self.search.overwritten[key]
                if same_kind(before, value) and not_close(value, before):
                    user = next(iter(node.users), node)
                    what = f"{info(user).id} reads {info(node).id} after the forward has overwritten it"
                    errors = largest_distance(value, before), None
                    return self.report.divergence(user, self.half.name, "", errors, what)
        return None

    def run(self, graph: Graph, wide: bool) -> NodeValues:
        torch.manual_seed(SEED)
        with torch.no_grad(), torch._C._DisableAutocast():
            return run_nodes(graph, duplicate(self.args), float64=wide)

    def _changes(self, graphs: Sequence[tuple[str, Graph]], wide: bool) -> Iterator[StageChange]:
        before = self.run(graphs[0][1], wide) if len(graphs) > 1 else None
        for name, graph in graphs[1:]:
            assert before is not None
            after = self.run(graph, wide)
            if drawing(before.graph) == drawing(graph):
                yield StageChange(name, self, before, self, after)
            before = after

    def _kernels(self, graph: Graph) -> DivergenceData | None:
        """The first kernel or call that differs from eager operators on the same inputs."""
        outputs, given = KernelOutputs(self.half), duplicate(self.args)
        with torch.no_grad():
            outputs.run(self.plain, given)
            roots = set(self.half.updates.values())
            updated = {id for buffer, id in self.half.holds.items() if buffer in roots}
            reference = ReferenceRun(graph, self._materialized(outputs), updated)
            with torch._C._DisableAutocast():
                reference.run(duplicate(self.args))
            self.search.drew |= reference.drew
            order = {item.id: place for place, item in enumerate(self.half.items)}
            for mismatch in sorted(reference.mismatches, key=lambda each: order.get(each.item, 0)):
                return self._report(mismatch, graph)
            for mismatch in self._wrong_outputs(graph, reference, outputs, given):
                return self._report(mismatch, graph)
        return None

    def _materialized(self, outputs: KernelOutputs) -> dict[str, tuple[str, Tensor]]:
        """The nodes whose values the half writes to memory, by id: (kernel or call, value)."""
        found: dict[str, tuple[str, Tensor]] = {}
        for buffer, value in outputs.values.items():
            if (id := self.half.holds.get(buffer)) is not None:
                found.setdefault(id, value)
        return found

    def _wrong_outputs(
        self, graph: Graph, reference: ReferenceRun, outputs: KernelOutputs, given: Sequence[Any]
    ) -> Iterator[Mismatch]:
        """Wrong results and wrong new values of inputs, of nodes without a known buffer."""
        for node, value in zip(graph.outputs, outputs.returned, strict=True):
            if isinstance(node, fx.Node) and (errors := reference.errors(node, value)) is not None:
                yield Mismatch(node, "", errors)
        for node in graph.graph.nodes:
            if str(node.target) == COPY and node.args[0] in graph.inputs:
                now = given[graph.inputs.index(node.args[0])]
                if (errors := reference.errors(node, now)) is not None:
                    yield Mismatch(node, "", errors)

    def _report(self, mismatch: Mismatch, graph: Graph) -> DivergenceData:
        """The kernel's first node that is wrong when each of its nodes is compiled alone; else the mismatch itself."""
        id = info(mismatch.node).id
        detail = f"{mismatch.item} wrote {id}" if mismatch.item else f"{self.half.name} gives {id}"
        item = next((item for item in self.half.items if item.id == mismatch.item), None)
        operations = set(item.operations) if item is not None and item.kind == "kernel" else set()
        names = {origin for each in self.half.operations if each.id in operations for origin in each.origins}
        within = [n for n in graph.graph.nodes if n.op == "call_function" and info(n).id in names]
        return self.report.of_kernel(
            mismatch.node, self.half.name, mismatch.item, mismatch.errors, detail, within,
            lambda: first_wrong_node(graph, within, self.args),
        )  # fmt: skip


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
    "bisection",
    shows="the first node, kernel and source line where compiled results differ from eager's, on request",
    missing="whether results differ, but not where",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._dynamo.output_graph:OutputGraph.call_user_compiler", around_graph),
        Patch("torch._inductor.graph:GraphLowering.compile_to_module", around_module),
    ),
)
