"""The search for the first divergence of a compiled call from eager, shared by both compilers, and the comparison of a
captured graph with what each line of the program computes in eager.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, info
from explorer.ir.record import DivergenceData, SpanData, WrittenData
from explorer.records.check.accuracy import largest_distance, not_close, same_kind
from explorer.records.check.nodes import arguments, call_node, is_unwritten, magnitude
from explorer.records.check.trial import duplicate

Errors = tuple[float | None, float | None]
"""(our, eager's) largest distance from the reference; None if it is not finite."""


@dataclass
class Search:
    """Compares programs as they run; a `thorough` search goes on after the first divergence, which `found` is.
    `written` has what kernels wrote in the first call of each half, by compile and half."""

    thorough: bool = False
    found: DivergenceData | None = None
    written: dict[tuple[str, str], tuple[WrittenData, ...]] = field(default_factory=dict)

    def compare(self, at: Callable[[], DivergenceData | None], report: FaultReport) -> None:
        """Runs the comparison `at` unless a divergence is known; restores random numbers and modes for the program."""
        if self.found is not None and not self.thorough:
            return
        devices = range(torch.cuda.device_count())
        with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                found = at()
                self.found = self.found or found
            except Exception as error:  # the program continues; the error is reported
                if self.found is None:
                    self.give_up(f"{report.compile} could not be compared: {type(error).__name__}: {error}", report)

    def give_up(self, why: str, report: FaultReport) -> None:
        """Records that something could not be compared."""
        self.found = report.divergence(None, "", "", (None, None), why)


@dataclass
class FaultReport:
    """Reports divergences in one compile, with their source lines. `graphs` yields all graphs of the compile."""

    compile: str
    graphs: Callable[[], Iterable[Graph]]
    engine: str = "explorer"

    def divergence(self, node: fx.Node | None, half: str, kernel: str, errors: Errors, detail: str) -> DivergenceData:
        id = "" if node is None else info(node).id
        place = None if node is None else self._place(id)
        return DivergenceData(self.compile, half, id, kernel, *errors, _span(place), detail, self.engine)

    def of_kernel(
        self, node: fx.Node, half: str, kernel: str, errors: Errors, detail: str, within: Sequence[fx.Node],
        first_wrong: Callable[[], tuple[fx.Node, Errors] | None],
    ) -> DivergenceData:  # fmt: skip
        """A kernel that wrote a wrong `node`: by the first of the nodes `within` it that is wrong when each is compiled
        alone, which `first_wrong` finds; else by the node itself."""
        if len(within) > 1:
            try:
                wrong = first_wrong()
            except Exception as error:
                detail += f"; its {len(within)} nodes could not be compiled alone: {type(error).__name__}: {error}"
            else:
                if wrong is not None:
                    node, errors = wrong
                    detail += f"; {info(node).id} is the first of its nodes that is wrong when each is compiled alone"
                else:
                    detail += f"; its {len(within)} nodes are right when each is compiled alone: their fusion is wrong"
        return self.divergence(node, half, kernel, errors, detail)

    def _place(self, id: str) -> Span | None:
        """The source line of a node, through its origins."""
        facts = {info(n).id: info(n) for g in self.graphs() for n in g.graph.nodes if n.op != "output"}
        pending = [id]
        seen: set[str] = set()
        while pending:
            found = facts.get(pending.pop(0))
            if found is None or found.id in seen:
                continue
            seen.add(found.id)
            if found.span is not None:
                return found.span
            pending += found.origins
        return None


def _span(at: Span | None) -> SpanData | None:
    return None if at is None else SpanData(at.file, at.line, at.end_line, at.column, at.end_column)


MOST = 1 << 30
"""Limit in bytes of the eager values kept; later values are not compared."""
MOST_AT_A_LINE = 1000


class Lines(TorchFunctionMode):
    """A mode that keeps the tensors that each source line computes, its callees included."""

    def __init__(self) -> None:
        super().__init__()
        self.at: defaultdict[tuple[str, int], list[Tensor]] = defaultdict(list)
        self.kept = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.kept += sum(leaf.numel() * leaf.element_size() for leaf in made)
        if made and self.kept <= MOST:
            copies = [leaf.detach().clone() for leaf in made]
            frame: FrameType | None = sys._getframe(1)
            while frame is not None:
                values = self.at[frame.f_code.co_filename, frame.f_lineno]
                if len(values) < MOST_AT_A_LINE:
                    values += copies
                frame = frame.f_back
        return result


def first_unlike(lines: Lines, graph: Graph, inputs: Sequence[Any], report: FaultReport) -> DivergenceData | None:
    """The first node of a captured graph whose value no call on its source line computes in eager. A node counts only
    if a wrong result depends on it, since capture may write one Python call as several nodes. Nodes that depend on
    random numbers, and lines without a tensor of the node's shape and dtype, are not compared."""
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, duplicate(tuple(inputs)), strict=True))
    unknown: set[fx.Node] = set()
    unlike: dict[fx.Node, float] = {}
    with torch.set_grad_enabled(graph.grad_enabled):
        for node in graph.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.op == "get_attr":
                values[node] = graph.constants[str(node.target)]
                continue
            before = torch.get_rng_state()
            values[node] = call_node(node, *arguments(node, values))
            drew = not torch.equal(before, torch.get_rng_state())
            if drew or is_unwritten(node) or unknown.intersection(node.all_input_nodes):
                unknown.add(node)
            elif (distance := _distance(lines, node, values)) is not None:
                unlike[node] = distance
    wrong = {node for node in graph.outputs if node in unlike}
    for node in reversed(graph.graph.nodes):
        if node in wrong:
            wrong.update(node.all_input_nodes)
    first = next((node for node in unlike if node in wrong), None)
    if first is None:
        return None
    what = f"the captured graph computes {info(first).id} here; no call on this line has that value in eager"
    return report.divergence(first, "", "", (unlike[first], None), what)


def _distance(lines: Lines, node: fx.Node, values: Mapping[fx.Node, Any]) -> float | None:
    """The distance of a node's value from the nearest value of its line; None if it is close or cannot be judged."""
    span, ours = info(node).span, values[node]
    if span is None or not isinstance(ours, Tensor):
        return None
    theirs = [each for each in lines.at.get((span.file, span.line), ()) if same_kind(each, ours)]
    scale = magnitude(values[each] for each in node.all_input_nodes)
    if not theirs or not all(not_close(ours, each, scale) for each in theirs):
        return None
    return min(largest_distance(ours, each) for each in theirs)
