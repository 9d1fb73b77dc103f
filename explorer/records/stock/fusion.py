"""Inductor's fusion: the pairs that it tried, and a verdict with a reason on every pair that was not fused: the reasons
of compiler/schedule/reasons.py if they apply, and reasons of stock's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import Any

import sympy
from torch._inductor import config
from torch._inductor.dependencies import Dep, MemoryDep, StarDep, WeakDep
from torch.utils._sympy.symbol import SymT, free_symbol_is_type

from explorer.compiler.schedule import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.core.text import count
from explorer.ir import record as data
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.lowering import Bodies
from explorer.records.stock.lowering import called as operator_of
from explorer.records.stock.observation import Compile, Half, Observation

PEAK_MEMORY = reason(
    "stock.peak_memory",
    "fusing them would keep more memory alive",
    "Each of the two is the last reader of some buffers, whose memory can be reused in between if they stay separate. "
    "torch estimates that fusing them would add more bytes to peak memory than it saves in memory traffic.",
    "If memory is tight, this is the better choice; otherwise move the two uses closer together.",
)
SMALL_SAVING = reason(
    "stock.small_saving",
    "they share too little data",
    "Fusing them would save fewer bytes than torch._inductor.config.score_fusion_memory_threshold.",
    "Lower score_fusion_memory_threshold, or let both read the same tensor.",
)
TEMPLATE = reason(
    "stock.template",
    "a template kernel fuses only with certain loops",
    "One of the two is a template kernel (such as a tuned matrix product). It fuses only with pointwise loops of its "
    "own shape, and only if the configuration allows it.",
    "See the detail; the settings are torch._inductor.config.epilogue_fusion and prologue_fusion.",
)
MEASURED = reason(
    "stock.measured",
    "the fused kernel was measured to be slower",
    "With torch._inductor.config.benchmark_fusion, torch builds both versions and keeps the faster one.",
)
FOREACH = reason(
    "stock.foreach",
    "the loops of the two foreach kernels do not match",
    "A foreach operation is one kernel of many loops. It fuses with another only if each loop of one matches a loop of "
    "the other.",
)
OUTER_GROUP = reason(
    "stock.outer_group",
    "one is a group of loops that share only their outer loop",
    "torch's C++ backend put several inner loops under one outer loop. Such a group fuses only with a loop that reads "
    "its results and has the same outer loop.",
)
MIXED_ORDER = reason(
    "stock.mixed_order",
    "one is a kernel with reductions over different axes",
    "torch fused reductions over different axes of one tensor into one kernel, which fuses only with certain loops.",
)
STREAMS = reason(
    "stock.streams",
    "they run on different streams",
    "The program runs the two on different CUDA streams.",
)
PRIORITY = reason(
    "stock.priority",
    "fusions with higher priority came first",
    "In each round torch tries only the pairs with the highest priority. These two could be fused, but were not tried.",
)
NO_KERNEL = reason(
    "stock.no_kernel",
    "one of the two has no kernel",
    "The scheduler node of one only represents memory or an order of execution, so there is nothing to fuse.",
)
MARKED = reason(
    "stock.marked",
    "fusion is disabled for a buffer",
    "A lowering or the configuration excludes the buffer from fusion.",
)
IN_STOCKS_WORDS = reason(
    "stock.own_words",
    "another reason of torch's scheduler",
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
class StockPair:
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


def why(pair: StockPair, text: str) -> data.WhyData:
    """Why the pair was refused; `text` is stock's reason, "" where it gave none."""
    if text in ("no shared data", "no shared data due to indexing mismatch", "memory deps did not match"):
        return elsewhere(pair)
    for part, code in SAID:
        if part in text:
            return made(code, text if code in (TEMPLATE, FOREACH, MARKED) else detail(pair, code))
    return made(IN_STOCKS_WORDS, text) if text else unstated_reason(pair)


def made(code: str, detail: str = "") -> data.WhyData:
    return data.WhyData(code, CATALOGUE[code].title, detail)


def detail(pair: StockPair, code: str) -> str:
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


def elsewhere(pair: StockPair) -> data.WhyData:
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


def same_points(pair: StockPair) -> bool:
    """Whether the loops of both have the same number of points."""
    counts = [sympy.Mul(*(size for sizes in loops(node) for size in sizes)) for node in (pair.first, pair.second)]
    return bool(sympy.simplify(counts[0] - counts[1]) == 0)


def reduces_otherwise(pair: StockPair) -> bool:
    """Whether both reduce, over loops of other sizes."""
    (_, one), (_, other) = loops(pair.first), loops(pair.second)
    return bool(one and other) and loops(pair.first) != loops(pair.second)


def unstated_reason(pair: StockPair) -> data.WhyData:
    """Why, where stock says nothing: what its backends and its scheduler test without a word."""
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
        return made(TEMPLATE, "the C++ backend does not take these loops into the template")
    if not pair.vertical and "OuterLoopFusedSchedulerNode" in kinds:
        return made(OUTER_GROUP)
    size = len(first.get_nodes()) + len(second.get_nodes())
    if not pair.vertical and size > config.cpp.max_horizontal_fusion_size:
        return made(reasons.TOO_LARGE, detail(pair, reasons.TOO_LARGE))
    if pair.vertical and first.is_reduction() and not _same_rows(pair):
        return made(reasons.REDUCTION_FIRST, detail(pair, reasons.ITERATION_SPACE))
    if pair.vertical and "OuterLoopFusedSchedulerNode" in kinds:
        return made(OUTER_GROUP, detail(pair, reasons.ITERATION_SPACE))
    return made(reasons.ITERATION_SPACE, detail(pair, reasons.ITERATION_SPACE))


def _same_rows(pair: StockPair) -> bool:
    (rows_a, _), (rows_b, _) = loops(pair.first), loops(pair.second)
    depth = min(len(rows_a), len(rows_b))
    return depth >= 1 and rows_a[:depth] == rows_b[:depth]


def loops(node: object) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The sizes of a group's loops: outer, and reduced."""
    sizes = getattr(node, "group", (None, ((), ())))[1]
    if len(sizes) == 2 and all(isinstance(each, (tuple, list)) for each in sizes):
        return tuple(sizes[0]), tuple(sizes[1])
    return tuple(sizes), ()


def relation(pair: StockPair) -> str:
    """The kind of a fusion that was made."""
    first, second = pair.first, pair.second
    if not pair.vertical:
        return reasons.SAME_ROWS if first.is_reduction() and second.is_reduction() else reasons.SAME_READS
    if first.is_reduction():
        return reasons.SAME_ROWS if second.is_reduction() else reasons.REDUCTION_EPILOGUE
    return reasons.REDUCTION_PROLOGUE if second.is_reduction() else reasons.PRODUCER_CONSUMER


MOST_PAIRS = 4000
"""The most verdicts kept for one half; further pairs that share no data are only counted."""


class Fusing:
    """The scheduler's messages about pairs so far, by the names of the two groups."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str], str] = {}
        self.allowed: set[tuple[str, str]] = set()
        self.reasons: dict[tuple[str, str], str] = {}
        self.scores: dict[tuple[str, str], float] = {}
        self.asking: list[list[str]] = []
        self.fused: list[data.FusionData] = []
        self.bodies = Bodies()


FUSE = "torch._inductor.scheduler:Scheduler.fuse_nodes"


def around_fuse(seen: Observation, call: Call) -> Iterator[None]:
    compile = seen.compile()
    half = compile.half
    scheduler, nodes = call.args[:2]
    if half is None or half.fusing is not None:
        yield
        return
    half.fusing = Fusing()
    half.operations = [_operation(half, node) for node in nodes]
    ended = perf_counter()
    before = _text(half, nodes, count(len(nodes), "operation"))
    compile.stage(FUSE, "schedule", lambda: {"body": before}, ended=ended, half=half.name)
    yield
    if call.error is None:
        ended = perf_counter()
        half.fusions = half.fusing.fused + _unfused_pairs(compile, half, scheduler, call.result)
        after = _text(half, call.result, count(len(call.result), "group"))
        compile.stage(FUSE, "fuse", lambda: {"body": after}, ended=ended, half=half.name)


def around_can_fuse(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is None or half.fusing is None:
        yield
        return
    fusing: Fusing = half.fusing
    first, second = call.args[1:3]
    key = first.get_name(), second.get_name()
    fusing.asking.append([])
    yield
    words = fusing.asking.pop()
    if call.result:
        fusing.allowed.add(key)
        fusing.refused.pop(key, None)
    elif call.error is None and first is not second:
        text = words[-1] if words else ""
        if text != "node1 must go before node2":  # it asks again in the other order
            fusing.refused[key] = text


def around_why(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is not None and half.fusing is not None:
        spoken, text, *arguments = call.args
        text = text % tuple(arguments) if arguments else text
        if half.fusing.asking:
            half.fusing.asking[-1].append(text)
        else:
            half.fusing.reasons[spoken.name1, spoken.name2] = text
    yield


def around_choice(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is not None and half.fusing is not None and len(call.args) > 3:
        first, second, score = call.args[1:4]
        half.fusing.scores[first.get_name(), second.get_name()] = float(score)
    yield


def around_pair(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is not None and half.fusing is not None:
        fusing: Fusing = half.fusing
        pair = StockPair(*call.args[:3])
        score = fusing.scores.get((pair.first.get_name(), pair.second.get_name()), 0.0)
        one, other = closest_pair(pair)
        fusing.fused.append(data.FusionData(half.named(one), half.named(other), True, made(relation(pair)), score))
    yield


def closest_pair(pair: StockPair) -> tuple[str, str]:
    """The two operations that a verdict on two groups is about: the first that touch one buffer."""
    for one in pair.first.get_nodes():
        names = one.used_buffer_names()
        for other in pair.second.get_nodes():
            if names & other.used_buffer_names():
                return one.get_name(), other.get_name()
    return first_of(pair)


def first_of(pair: StockPair) -> tuple[str, str]:
    return pair.first.get_first_name(), pair.second.get_first_name()


def _unfused_pairs(compile: Compile, half: Half, scheduler: object, nodes: list[Any]) -> list[data.FusionData]:
    """A verdict on every two groups that are left, those that touch one buffer first."""
    runs = [node for node in nodes if type(node).__name__ != "NopKernelSchedulerNode"]
    used = {node.get_name(): node.used_buffer_names() for node in runs}
    near: list[StockPair] = []
    far: list[StockPair] = []
    for first, second in combinations(runs, 2):
        touching = not used[first.get_name()].isdisjoint(used[second.get_name()])
        (near if touching else far).append(StockPair(scheduler, first, second))
    room = max(0, MOST_PAIRS - len(near))
    if len(far) > room:
        compile.left_out["FusionData"] += len(far) - room
    return [_unfused_pair(half, pair, closest_pair(pair), True) for pair in near] + [
        _unfused_pair(half, pair, first_of(pair), False) for pair in far[:room]
    ]


def _unfused_pair(half: Half, pair: StockPair, spoken: tuple[str, str], touching: bool) -> data.FusionData:
    verdict = _verdict(half.fusing, pair, touching)
    return data.FusionData(half.named(spoken[0]), half.named(spoken[1]), False, verdict)


def _verdict(fusing: Fusing, pair: StockPair, touching: bool) -> data.WhyData:
    if parts := [node for node in (pair.first, pair.second) if is_part(node)]:
        return made(NO_KERNEL, " and ".join(map(part_of, parts)))
    first, second = pair.first.get_name(), pair.second.get_name()
    for key in ((first, second), (second, first)):
        if key in fusing.reasons:
            return why(pair, fusing.reasons[key])
        if key in fusing.refused:
            return why(pair, fusing.refused[key])
    if pair.first.is_extern() or pair.second.is_extern():
        names = dict.fromkeys(called(node) for node in (pair.first, pair.second) if node.is_extern())
        return made(reasons.LIBRARY_CALL, " and ".join(names))
    if (devices := (pair.first.get_device(), pair.second.get_device()))[0] != devices[1]:
        return made(reasons.DEVICE, f"{devices[0]} and {devices[1]}")
    if not touching:
        return made(reasons.NOTHING_SHARED)
    if (first, second) in fusing.allowed or (second, first) in fusing.allowed:
        return why(pair, "will create cycle") if pair.vertical else made(PRIORITY)
    crowd = "stock tries each group with the next few that touch the same buffer"
    return made(reasons.FAR_APART, crowd) if pair.vertical else elsewhere(pair)


def _operation(half: Half, node: Any) -> data.OperationData:
    nop = type(node).__name__ == "NopKernelSchedulerNode" or is_part(node)
    extern = node.is_extern() and not nop
    work = getattr(node.node, "data", None)
    if extern or nop or work is None:
        target = operator_of(node.node) if node.node is not None else type(node).__name__
        target = "a part of a result" if is_part(node) else target
    else:
        target = str(
            getattr(work, "reduction_type", None) or ("scatter" if hasattr(work, "scatter_mode") else "pointwise")
        )
    origins = half.origins(node.node) if node.node is not None else ()
    reads = tuple(dict.fromkeys(half.buffer(dep.name) for dep in node.read_writes.reads))
    writes = tuple(dict.fromkeys(half.buffer(dep.name) for dep in node.read_writes.writes))
    kind = "extern" if extern else "nothing" if nop else "loop"
    return data.OperationData(
        half.named(node.get_name()), kind, target, reads, writes, origins[:1] if extern else origins
    )


def _text(half: Half, nodes: list[Any], heading: str) -> data.TextData:
    lines = [data.LineData(f"schedule {half.name}: {heading}")]
    for node in nodes:
        members = node.get_nodes()
        names = tuple(half.named(each.get_name()) for each in members)
        over = "" if node.is_extern() or not any(loops(node)) else f"  over {reasons.loops_text(*loops(node))}"
        lines.append(data.LineData(f"  {half.named(node.get_name())}: {type(node).__name__}{over}", "", names))
        for each, name in zip(members, names, strict=True):
            if len(members) > 1:
                lines.append(data.LineData(f"    {name}:", "", (name,)))
            if (body := getattr(each, "_body", None)) is not None:
                lines += half.fusing.bodies.lines(half, name, body)
            elif each.node is not None:
                lines.append(data.LineData(f"      {operator_of(each.node)}", "", (name,)))
    return data.TextData(tuple(lines), "python")


HOOK = Hook(
    "fusion",
    shows="the schedule before and after fusion, and a reason for every pair that was not fused",
    missing="kernels as they are, without a schedule or reasons",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch(FUSE, around_fuse),
        Patch("torch._inductor.scheduler:Scheduler.can_fuse", around_can_fuse),
        Patch("torch._inductor.scheduler:Scheduler.fuse_two_nodes", around_pair),
        Patch("torch._inductor.scheduler:WhyNoFuse.__call__", around_why),
        Patch("torch._inductor.choices:InductorChoices.can_fuse", around_choice),
    ),
)
