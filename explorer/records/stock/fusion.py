"""Inductor's fusion: the pairs that it tried, its reasons, and a verdict on every pair that was not fused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from time import perf_counter
from typing import Any

from explorer.compiler.schedule import reasons
from explorer.ir import record as data
from explorer.records.stock.bodies import Bodies
from explorer.records.stock.fusereasons import (
    NO_KERNEL,
    Pair,
    called,
    elsewhere,
    is_part,
    loops,
    made,
    part_of,
    relation,
    why,
)
from explorer.records.stock.half import Half
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.lowering import called as operator_of
from explorer.records.stock.observation import Compile, Observation

MOST_PAIRS = 4000
"""The most verdicts kept for one half; further pairs that share no data are only counted."""


class Fusing:
    """The scheduler's messages about pairs so far, by the names of the two groups."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str], str] = {}
        self.allowed: set[tuple[str, str]] = set()
        self.said: dict[tuple[str, str], str] = {}
        self.scores: dict[tuple[str, str], float] = {}
        self.asking: list[list[str]] = []
        self.fused: list[data.FusionData] = []
        self.bodies = Bodies()


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
    compile.stage("schedule", ended=ended, half=half.name, body=_text(half, nodes, f"{len(nodes)} operations"))
    yield
    if call.error is None:
        ended = perf_counter()
        half.fusions = half.fusing.fused + _apart(compile, half, scheduler, call.result)
        compile.stage("fuse", ended=ended, half=half.name, body=_text(half, call.result, f"{len(call.result)} groups"))


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
        said = words[-1] if words else ""
        if said != "node1 must go before node2":  # it asks again in the other order
            fusing.refused[key] = said


def around_why(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is not None and half.fusing is not None:
        spoken, said, *arguments = call.args
        said = said % tuple(arguments) if arguments else said
        if half.fusing.asking:
            half.fusing.asking[-1].append(said)
        else:
            half.fusing.said[spoken.name1, spoken.name2] = said
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
        pair = Pair(*call.args[:3])
        score = fusing.scores.get((pair.first.get_name(), pair.second.get_name()), 0.0)
        one, other = spokesmen(pair)
        fusing.fused.append(data.FusionData(half.named(one), half.named(other), True, made(relation(pair)), score))
    yield


def spokesmen(pair: Pair) -> tuple[str, str]:
    """The two operations that a verdict on two groups is about: the first that touch one buffer."""
    for one in pair.first.get_nodes():
        names = one.used_buffer_names()
        for other in pair.second.get_nodes():
            if names & other.used_buffer_names():
                return one.get_name(), other.get_name()
    return first_of(pair)


def first_of(pair: Pair) -> tuple[str, str]:
    return pair.first.get_first_name(), pair.second.get_first_name()


def _apart(compile: Compile, half: Half, scheduler: Any, nodes: list[Any]) -> list[data.FusionData]:
    """A verdict on every two groups that are left, those that touch one buffer first."""
    runs = [node for node in nodes if type(node).__name__ != "NopKernelSchedulerNode"]
    used = {node.get_name(): node.used_buffer_names() for node in runs}
    near: list[Pair] = []
    far: list[Pair] = []
    for first, second in combinations(runs, 2):
        touching = not used[first.get_name()].isdisjoint(used[second.get_name()])
        (near if touching else far).append(Pair(scheduler, first, second))
    room = max(0, MOST_PAIRS - len(near))
    if len(far) > room:
        compile.left_out["FusionData"] += len(far) - room
    return [_kept_apart(half, pair, spokesmen(pair), True) for pair in near] + [
        _kept_apart(half, pair, first_of(pair), False) for pair in far[:room]
    ]


def _kept_apart(half: Half, pair: Pair, spoken: tuple[str, str], touching: bool) -> data.FusionData:
    verdict = _verdict(half.fusing, pair, touching)
    return data.FusionData(half.named(spoken[0]), half.named(spoken[1]), False, verdict)


def _verdict(fusing: Fusing, pair: Pair, touching: bool) -> data.WhyData:
    if parts := [node for node in (pair.first, pair.second) if is_part(node)]:
        return made(NO_KERNEL, " and ".join(map(part_of, parts)))
    first, second = pair.first.get_name(), pair.second.get_name()
    for key in ((first, second), (second, first)):
        if key in fusing.said:
            return why(pair, fusing.said[key])
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
        return why(pair, "will create cycle") if pair.vertical else made("stock.priority")
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
        Patch("torch._inductor.scheduler:Scheduler.fuse_nodes", around_fuse),
        Patch("torch._inductor.scheduler:Scheduler.can_fuse", around_can_fuse),
        Patch("torch._inductor.scheduler:Scheduler.fuse_two_nodes", around_pair),
        Patch("torch._inductor.scheduler:WhyNoFuse.__call__", around_why),
        Patch("torch._inductor.choices:InductorChoices.can_fuse", around_choice),
    ),
)
