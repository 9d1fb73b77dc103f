"""The search for the first divergence of a compiled call from eager, shared by both compilers, and the comparison of a
captured graph with what each line of the program computes in eager.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, draws, info
from explorer.ir.record import DivergenceData, SpanData, WrittenData
from explorer.records.check.accuracy import errors_if_not_close, largest_distance, not_close, same_kind
from explorer.records.check.float64 import NARROW
from explorer.records.check.trial import SEED, duplicate

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
    given = tuple(map(widened, inputs)) if float64 else tuple(inputs)
    values: dict[fx.Node, object] = dict(zip(graph.inputs, given, strict=True))
    kept = NodeValues(graph, inputs=given)
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        if node.op != "placeholder":
            values[node] = computed(graph, node, values, float64)
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


def computed(graph: Graph, node: fx.Node, values: Mapping[fx.Node, object], float64: bool = False) -> Any:
    """What a node yields, given the values of those before it; zeros where it is memory that nothing wrote."""
    if node.op == "get_attr":
        constant = graph.constants[str(node.target)]
        return widened(constant) if float64 else constant
    given, default = arguments(node, values), torch.get_default_dtype()
    if float64:
        torch.set_default_dtype(NARROW.get(default, default))
    try:
        made = call_node(node, *(tree_map(wide, given) if float64 else given))
    finally:
        torch.set_default_dtype(default)
    return made.zero_() if is_unwritten(node) else made


def drawn(node: fx.Node, constants: Mapping[str, object]) -> list[str]:
    """The operators that draw random numbers in a node or in the graphs that it calls."""
    if node.op != "call_function":
        return []
    names = [_name(node)] if draws(node.target, node.args, node.kwargs) else []
    for called in (constants.get(str(each.target)) for each in node.all_input_nodes if each.op == "get_attr"):
        if isinstance(called, fx.GraphModule):
            inner = dict(called.named_children())
            names += [f"{_name(node)} {name}" for each in called.graph.nodes for name in drawn(each, inner)]
    return names


def drawing(graph: Graph) -> list[str]:
    """The operators of a graph that draw random numbers, in order."""
    return [name for node in graph.graph.nodes for name in drawn(node, graph.constants)]


def _name(node: fx.Node) -> str:
    """ "rand" for aten.rand.default and for torch.rand."""
    return str(getattr(node.target, "__name__", node.target)).partition(".")[0].rstrip("_")


def wide(value: object) -> object:
    """The float64 counterpart of a dtype; any other value unchanged."""
    return NARROW.get(value, value) if isinstance(value, torch.dtype) else value


def is_unwritten(node: fx.Node) -> bool:
    """Whether the node is uninitialized memory, which a run here fills with zeros."""
    return _name(node) in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


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


Errors = tuple[float | None, float | None]
"""(our, eager's) largest distance from the reference; None if it is not finite."""


@dataclass(frozen=True)
class Mismatch:
    node: fx.Node
    item: str
    errors: Errors


@dataclass
class ReferenceRun:
    """A graph run node by node, with eager operators and in float64: what the kernels made from it are compared with.
    Both runs continue from a node's compiled value where it is given, so that each kernel is judged on its real inputs.
    `draws_alike`: the kernels draw the same random numbers."""

    graph: Graph
    materialized: Mapping[str, tuple[str, Tensor]] = field(default_factory=dict)
    """By node id: the kernel or call that wrote the node, and the value."""
    updated: Collection[str] = ()
    """Ids whose memory is later updated in place, so that a difference may come from before or after the update."""
    draws_alike: bool = False
    eager: dict[fx.Node, Any] = field(default_factory=dict)
    exact: dict[fx.Node, Any] = field(default_factory=dict)
    drew: bool = False
    unknown: set[fx.Node] = field(default_factory=set)
    """Nodes that depend on random numbers of the compiled half."""
    without_float64: set[fx.Node] = field(default_factory=set)
    """Nodes without a float64 form; eager is their reference."""
    mismatches: list[Mismatch] = field(default_factory=list)

    def run(self, given: Sequence[object]) -> None:
        torch.manual_seed(SEED)
        self.eager.update(zip(self.graph.inputs, given, strict=True))
        self.exact.update(zip(self.graph.inputs, map(widened, given), strict=True))
        for node in self.graph.graph.nodes:
            if node.op not in ("placeholder", "output"):
                self._step(node)
                self._compare(node)

    def errors(self, node: fx.Node, ours: object) -> Errors | None:
        """The errors of a compiled value, or None if it is right or cannot be judged."""
        if node in self.unknown or not same_kind(ours, self.eager[node]):
            return None
        scale = magnitude(self.eager[each] for each in node.all_input_nodes)
        exact = None if node in self.without_float64 else self.exact[node]
        return errors_if_not_close(ours, self.eager[node], exact, scale)

    def _step(self, node: fx.Node) -> None:
        draws_here = bool(drawn(node, self.graph.constants))
        self.drew |= draws_here
        if not self.draws_alike and (draws_here or self.unknown.intersection(node.all_input_nodes)):
            self.unknown.add(node)
        self.eager[node] = computed(self.graph, node, self.eager)
        try:
            if draws_here:  # the run in float64 takes the numbers that eager drew
                raise NotImplementedError
            self.exact[node] = computed(self.graph, node, self.exact, float64=True)
        except (RuntimeError, NotImplementedError):
            self.without_float64.add(node)
            self.exact[node] = tree_map(widened, self.eager[node])

    def _compare(self, node: fx.Node) -> None:
        item, ours = self.materialized.get(info(node).id, ("", None))
        if ours is None or not same_kind(ours, self.eager[node]):
            return
        errors = self.errors(node, ours)
        if errors is not None and info(node).id in self.updated:
            return
        if errors is not None and not is_unwritten(node) and self._is_deterministic(node):
            self.mismatches.append(Mismatch(node, item, errors))
        self.unknown.discard(node)
        self.eager[node] = _filled(self.eager[node], ours)
        self.exact[node] = _filled(self.exact[node], widened(ours))

    def _is_deterministic(self, node: fx.Node) -> bool:
        """Whether the operator yields the same value again; memory that it leaves unwritten differs."""
        call = node.args[0] if node.target is operator.getitem else node
        assert isinstance(call, fx.Node)
        if not isinstance(call.target, torch._ops.OpOverload) or call.target._schema.is_mutable:
            return True
        with unwritten_memory_filled():
            again = call_node(call, *arguments(call, self.eager))
        return not not_close(again if call is node else again[node.args[1]], self.eager[node])


def _filled(value: Tensor, ours: Tensor) -> Tensor:
    """`value` with the contents of `ours`, in its own layout."""
    try:
        return value.copy_(ours)
    except RuntimeError:  # elements that share memory, or another dtype
        return ours.clone()


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
        place = None if node is None else self._source_line(id)
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

    def _source_line(self, id: str) -> Span | None:
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
            before = torch.get_rng_state()
            values[node] = computed(graph, node, values)
            drew = not torch.equal(before, torch.get_rng_state())
            if node.op == "get_attr":
                continue
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
