"""The search for the first divergence of a compiled call from eager, shared by both compilers, and the comparison of a
captured graph with what each line of the program computes in eager.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, info
from explorer.ir.record import DivergenceData, SpanData, WrittenData
from explorer.records.check.accuracy import largest_distance, not_close, same_kind
from explorer.records.check.float64 import NARROW
from explorer.records.check.trial import duplicate

# Runs a graph eagerly, node by node, keeping every value, also in float64: the oracle for each stage's result.


def arguments(node: fx.Node, values: Mapping[fx.Node, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The node's arguments with values in place of nodes."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    return args, kwargs


def call_node(node: fx.Node, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """What a call of a function or method yields."""
    target: Any = node.target
    if node.op == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)


@dataclass
class NodeValues:
    """A copy of each node's value by id, taken when it was computed, and the graph's results."""

    graph: Graph
    by_id: dict[str, Any] = field(default_factory=dict)
    returned: tuple[object, ...] = ()
    inputs: tuple[Any, ...] = ()
    """The inputs after the run."""


def run_nodes(graph: Graph, inputs: Sequence[object], *, float64: bool = False) -> NodeValues:
    """Run on real inputs, which the graph may update in place. With `float64`, everything is computed in float64.

    Raises what an operator raises.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(NARROW.get(default, default) if float64 else default)
    try:
        return _run(graph, tuple(map(widened, inputs)) if float64 else tuple(inputs), float64)
    finally:
        torch.set_default_dtype(default)


def _run(graph: Graph, given: tuple[object, ...], float64: bool) -> NodeValues:
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, given, strict=True))
    kept = NodeValues(graph, inputs=given)
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        if node.op != "placeholder":
            values[node] = _value(graph, node, values, float64)
            if is_unwritten(node):
                values[node].zero_()
        kept.by_id[info(node).id] = tree_map(_snapshot, values[node])
    kept.returned = tuple(values[value] if isinstance(value, fx.Node) else value for value in graph.outputs)
    return kept


@contextmanager
def unwritten_memory_filled() -> Iterator[None]:
    """Fills memory that an operator allocates and does not write with NaN, or with the largest integer."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # operators that have no other algorithm
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _value(graph: Graph, node: fx.Node, values: dict[fx.Node, object], float64: bool) -> object:
    if node.op == "get_attr":
        constant = graph.constants[str(node.target)]
        return widened(constant) if float64 else constant
    args, kwargs = arguments(node, values)
    if float64:
        args, kwargs = tree_map(wide, (args, kwargs))
    return call_node(node, args, kwargs)


def wide(value: object) -> object:
    """The float64 counterpart of a dtype; any other value unchanged."""
    return NARROW.get(value, value) if isinstance(value, torch.dtype) else value


def is_unwritten(node: fx.Node) -> bool:
    """Whether the node is uninitialized memory, which a run here fills with zeros."""
    name = getattr(node.target, "__name__", str(node.target))
    return name.partition(".")[0] in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def widened(value: object) -> Any:
    """A copy of a tensor in float64; any other value unchanged."""
    if not isinstance(value, Tensor) or value.dtype not in NARROW:
        return value
    made = value.detach().to(NARROW[value.dtype])
    return made.requires_grad_(value.requires_grad)


def narrowed(value: object) -> object:
    """The float64 tensors in a value, rounded to float32."""
    single = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return tree_map(lambda t: t.to(single.get(t.dtype, t.dtype)) if isinstance(t, Tensor) else t, value)


def _snapshot(value: object) -> object:
    return value.detach().clone() if isinstance(value, Tensor) else value


def scale(values: NodeValues, id: str) -> float:
    """The largest magnitude among a node's inputs; its rounding errors are relative to that."""
    node = next(n for n in values.graph.graph.nodes if n.op != "output" and info(n).id == id)
    return magnitude(values.by_id[info(n).id] for n in node.all_input_nodes)


def magnitude(values: Iterable[object]) -> float:
    """The largest finite magnitude among the floating-point tensors."""
    inexact = [v.detach() for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.numel()]
    largest = (v.abs()[torch.isfinite(v)] for v in inexact)
    return max((v.max().item() for v in largest if v.numel()), default=0.0)


def attempt(run: Callable[[], NodeValues]) -> NodeValues | None:
    """A float64 run, or None if an operator has no float64 form."""
    try:
        return run()
    except (RuntimeError, NotImplementedError):
        return None


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

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: Sequence[object] = (), kwargs: Any = None
    ) -> object:
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


def first_unlike(lines: Lines, graph: Graph, inputs: Sequence[object], report: FaultReport) -> DivergenceData | None:
    """The first node of a captured graph whose value no call on its source line computes in eager. A node counts only
    if a wrong result depends on it, since capture may write one Python call as several nodes. Nodes that depend on
    random numbers, and lines without a tensor of the node's shape and dtype, are not compared."""
    values: dict[fx.Node, object] = dict(zip(graph.inputs, duplicate(tuple(inputs)), strict=True))
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


def _distance(lines: Lines, node: fx.Node, values: Mapping[fx.Node, object]) -> float | None:
    """The distance of a node's value from the nearest value of its line; None if it is close or cannot be judged."""
    span, ours = info(node).span, values[node]
    if span is None or not isinstance(ours, Tensor):
        return None
    theirs = [each for each in lines.at.get((span.file, span.line), ()) if same_kind(each, ours)]
    scale = magnitude(values[each] for each in node.all_input_nodes)
    if not theirs or not all(not_close(ours, each, scale) for each in theirs):
        return None
    return min(largest_distance(ours, each) for each in theirs)
