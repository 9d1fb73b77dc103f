"""Why stock does not fuse two groups of loops: the reasons of compiler/schedule/reasons.py if they apply, and reasons
of stock's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy
from torch._inductor import config
from torch._inductor.dependencies import Dep, MemoryDep, StarDep, WeakDep
from torch.utils._sympy.symbol import SymT, free_symbol_is_type

from explorer.compiler.schedule import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data

PEAK_MEMORY = reason(
    "stock.peak_memory",
    "Fusing them would keep more memory alive",
    "Each of the two is the last reader of some buffers, whose memory can be reused in between if they stay separate. "
    "torch estimates that fusing them would add more bytes to peak memory than it saves in memory traffic.",
    "If memory is tight, this is the better choice; otherwise move the two uses closer together.",
)
SMALL_SAVING = reason(
    "stock.small_saving",
    "They share too little data",
    "Fusing them would save fewer bytes than torch._inductor.config.score_fusion_memory_threshold.",
    "Lower score_fusion_memory_threshold, or let both read the same tensor.",
)
TEMPLATE = reason(
    "stock.template",
    "A template kernel fuses only with certain loops",
    "One of the two is a template kernel (such as a tuned matrix product). It fuses only with pointwise loops of its "
    "own shape, and only if the configuration allows it.",
    "See the detail; the settings are torch._inductor.config.epilogue_fusion and prologue_fusion.",
)
MEASURED = reason(
    "stock.measured",
    "The fused kernel was measured to be slower",
    "With torch._inductor.config.benchmark_fusion, torch builds both versions and keeps the faster one.",
)
FOREACH = reason(
    "stock.foreach",
    "The loops of the two foreach kernels do not match",
    "A foreach operation is one kernel of many loops. It fuses with another only if each loop of one matches a loop of "
    "the other.",
)
OUTER_GROUP = reason(
    "stock.outer_group",
    "One is a group of loops that share only their outer loop",
    "torch's C++ back end put several inner loops under one outer loop. Such a group fuses only with a loop that reads "
    "its results and has the same outer loop.",
)
MIXED_ORDER = reason(
    "stock.mixed_order",
    "One is a kernel with reductions over different axes",
    "torch fused reductions over different axes of one tensor into one kernel, which fuses only with certain loops.",
)
STREAMS = reason(
    "stock.streams",
    "They run on different streams",
    "The program runs the two on different CUDA streams.",
)
PRIORITY = reason(
    "stock.priority",
    "Fusions with higher priority came first",
    "In each round torch tries only the pairs with the highest priority. These two could be fused, but were not tried.",
)
NO_KERNEL = reason(
    "stock.no_kernel",
    "One of the two has no kernel",
    "The scheduler node of one only represents memory or an order of execution, so there is nothing to fuse.",
)
MARKED = reason(
    "stock.marked",
    "Fusion is disabled for a buffer",
    "A lowering or the configuration excludes the buffer from fusion.",
)
IN_STOCKS_WORDS = reason(
    "stock.own_words",
    "Another reason of torch's scheduler",
    "The detail is the message of torch's scheduler.",
)

SAID: tuple[tuple[str, str], ...] = (
    ("will create cycle", reasons.CYCLE), ("intermediate nodes", reasons.CYCLE),
    ("exceeds max fusion", reasons.TOO_LARGE), ("fusion_prevent_too_many", reasons.TOO_LARGE),
    ("increase peak memory", PEAK_MEMORY), ("score_fusion_memory_threshold", SMALL_SAVING),
    ("too far away", reasons.FAR_APART), ("numel", reasons.ITERATION_SPACE), ("tiling", reasons.ITERATION_SPACE),
    ("Split scan", reasons.ITERATION_SPACE), ("loop order", reasons.ITERATION_SPACE),
    ("device mismatch", reasons.DEVICE),
    ("explicit disabled", MARKED), ("foreach", FOREACH), ("prologue", TEMPLATE), ("epilogue", TEMPLATE),
    ("template", TEMPLATE), ("is nop", NO_KERNEL), ("extern", reasons.LIBRARY_CALL), ("buf layouts", TEMPLATE),
    ("register spilling", MEASURED), ("grouped node", MARKED),
)  # fmt: skip
"""Our code by a part of what `WhyNoFuse` says. "no shared data" and "memory deps did not match" are looked into."""


@dataclass(frozen=True)
class Pair:
    """Two groups of loops as stock's scheduler has them, in the order in which they would run."""

    scheduler: Any
    first: Any
    second: Any

    @property
    def vertical(self) -> bool:
        """Whether the second needs what the first writes."""
        return bool(self.first.get_operation_names() & self.second.ancestors)

    def shared(self) -> Iterator[tuple[Dep, bool, Dep, bool]]:
        """Touches of one buffer by both, each with whether it writes; what one writes for the other first."""
        rename = self.scheduler.mutation_renames
        touches: list[dict[str, list[tuple[Dep, bool]]]] = []
        for node in (self.first, self.second):
            found: dict[str, list[tuple[Dep, bool]]] = {}
            for deps, written in ((node.read_writes.writes, True), (node.read_writes.reads, False)):
                for dep in deps:
                    found.setdefault(rename.get(dep.name, dep.name), []).append((dep, written))
            touches.append(found)
        one, other = touches
        pairs = [
            (*a, *b) for name in one.keys() & other.keys() for a in one[name] for b in other[name]
        ]  # fmt: skip
        yield from sorted(pairs, key=lambda pair: (not (pair[1] and not pair[3]), not pair[1], pair[0].name, str(pair)))


def why(pair: Pair, said: str) -> data.WhyData:
    """Why the pair was refused; `said` is what stock said, "" where it said nothing."""
    if said in ("no shared data", "no shared data due to indexing mismatch", "memory deps did not match"):
        return elsewhere(pair)
    for part, code in SAID:
        if part in said:
            return made(code, said if code in (TEMPLATE, FOREACH, MARKED) else detail(pair, code))
    return made(IN_STOCKS_WORDS, said) if said else unsaid(pair)


def made(code: str, detail: str = "") -> data.WhyData:
    return data.WhyData(code, CATALOGUE[code].title, detail)


def detail(pair: Pair, code: str) -> str:
    if code == reasons.ITERATION_SPACE:
        return ", and ".join(reasons.loops_text(*loops(node)) for node in (pair.first, pair.second))
    if code == reasons.LIBRARY_CALL:
        return " and ".join(called(node) for node in (pair.first, pair.second) if node.is_extern())
    if code == reasons.TOO_LARGE:
        return f"{len(pair.first.get_nodes()) + len(pair.second.get_nodes())} loops"
    if code == reasons.CYCLE:
        between = sorted(pair.second.ancestors - pair.first.get_operation_names())
        needs = [
            name
            for name in between
            if pair.scheduler.name_to_fused_node[name].ancestors & pair.first.get_operation_names()
        ]
        return ", ".join(needs[:4])
    if code == reasons.DEVICE:
        return f"{pair.first.get_device()} and {pair.second.get_device()}"
    return ""


def called(node: Any) -> str:
    return str(getattr(node.node, "python_kernel_name", None) or type(node.node).__name__)


def is_part(node: Any) -> bool:
    """Whether it is one of the results of a library call, which runs nothing by itself."""
    return type(node.node).__name__ == "MultiOutput"


def part_of(node: Any) -> str:
    whole = " and ".join(sorted(dep.name for dep in node.read_writes.reads))
    return f"{node.get_name()} is one of the outputs of {whole}"


def elsewhere(pair: Pair) -> data.WhyData:
    """Why no touch of a buffer by one is the same as a touch by the other, although both touch it."""
    for one, wrote_one, other, wrote_other in pair.shared():
        if isinstance(one, WeakDep) or isinstance(other, WeakDep) or (wrote_one and wrote_other):
            return made(reasons.MUTATION, one.name)
        if not (isinstance(one, MemoryDep) and isinstance(other, MemoryDep)):
            whole = one if isinstance(one, StarDep) else other
            return made(reasons.INDIRECT, f"all of {whole.name}, in an order not known")
        if wrote_other:
            return made(reasons.MUTATION, f"{one.name} is read at {one.index} and overwritten at {other.index}")
        if not wrote_one:
            continue
        where = f"{one.name} is written at {one.index} and read at {other.index}"
        if one.mode is not None:
            return made(reasons.SCATTER, f"{one.name}, by {one.mode}")
        if free_symbol_is_type(one.index, SymT.TMP):
            return made(reasons.SCATTER, where)
        if free_symbol_is_type(other.index, SymT.TMP):
            return made(reasons.INDIRECT, where)
        if pair.first.is_reduction():
            return made(reasons.REDUCTION_FIRST, where)
        if not same_points(pair):
            return made(reasons.ITERATION_SPACE, f"{detail(pair, reasons.ITERATION_SPACE)}; {where}")
        ordered = one.normalize_with_stride_order(), other.normalize_with_stride_order()
        same = ordered[0].index == ordered[1].index and ordered[0].size == ordered[1].size
        return made(reasons.MEMORY_ORDER if same else reasons.DIFFERENT_POINT, where)
    names = sorted({one.name for one, *_ in pair.shared()})
    if not names:
        return made(reasons.NOTHING_SHARED)
    if loops(pair.first) != loops(pair.second) and not same_points(pair) or reduces_otherwise(pair):
        return made(reasons.ITERATION_SPACE, detail(pair, reasons.ITERATION_SPACE))
    return made(reasons.OTHER_ELEMENTS, ", ".join(names[:3]))


def same_points(pair: Pair) -> bool:
    """Whether the loops of both have the same number of points."""
    counts = [sympy.Mul(*(size for sizes in loops(node) for size in sizes)) for node in (pair.first, pair.second)]
    return bool(sympy.simplify(counts[0] - counts[1]) == 0)


def reduces_otherwise(pair: Pair) -> bool:
    """Whether both reduce, over loops of other sizes."""
    (_, one), (_, other) = loops(pair.first), loops(pair.second)
    return bool(one and other) and loops(pair.first) != loops(pair.second)


def unsaid(pair: Pair) -> data.WhyData:
    """Why, where stock says nothing: what its back ends and its scheduler test without a word."""
    first, second = pair.first, pair.second
    kinds = {type(first).__name__, type(second).__name__}
    streams = getattr(pair.scheduler, "node_to_stream", {})
    if streams.get(first) != streams.get(second):
        return made(STREAMS)
    if kinds & {"FusedMixOrderReductions", "FusedNestedReductions"}:
        return made(MIXED_ORDER)
    if first.is_foreach() or second.is_foreach():
        return made(FOREACH)
    if first.is_template() or second.is_template():
        return made(TEMPLATE, "the C++ back end does not take these loops into the template")
    if not pair.vertical and "OuterLoopFusedSchedulerNode" in kinds:
        return made(OUTER_GROUP)
    if not pair.vertical and _crowded(pair):
        return made(reasons.TOO_LARGE, detail(pair, reasons.TOO_LARGE))
    if pair.vertical and first.is_reduction() and not _same_rows(pair):
        return made(reasons.REDUCTION_FIRST, detail(pair, reasons.ITERATION_SPACE))
    if pair.vertical and "OuterLoopFusedSchedulerNode" in kinds:
        return made(OUTER_GROUP, detail(pair, reasons.ITERATION_SPACE))
    return made(reasons.ITERATION_SPACE, detail(pair, reasons.ITERATION_SPACE))


def _crowded(pair: Pair) -> bool:
    return len(pair.first.get_nodes()) + len(pair.second.get_nodes()) > config.cpp.max_horizontal_fusion_size


def _same_rows(pair: Pair) -> bool:
    (rows_a, _), (rows_b, _) = loops(pair.first), loops(pair.second)
    depth = min(len(rows_a), len(rows_b))
    return depth >= 1 and rows_a[:depth] == rows_b[:depth]


def loops(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The sizes of a group's loops: outer, and reduced."""
    sizes = getattr(node, "group", (None, ((), ())))[1]
    if len(sizes) == 2 and all(isinstance(each, (tuple, list)) for each in sizes):
        return tuple(sizes[0]), tuple(sizes[1])
    return tuple(sizes), ()


def relation(pair: Pair) -> str:
    """The kind of a fusion that was made."""
    first, second = pair.first, pair.second
    if not pair.vertical:
        return reasons.SAME_ROWS if first.is_reduction() and second.is_reduction() else reasons.SAME_READS
    if first.is_reduction():
        return reasons.SAME_ROWS if second.is_reduction() else reasons.REDUCTION_EPILOGUE
    return reasons.REDUCTION_PROLOGUE if second.is_reduction() else reasons.PRODUCER_CONSUMER
