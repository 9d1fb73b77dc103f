"""Training on several processes: the collectives that compiled code calls, what runs until each is waited for, and
where DDPOptimizer split a graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from explorer.core.text import amount, count, duration
from explorer.ir.record import CompileData, GraphData, HalfData, NodeData, RecordData
from explorer.records.data.dynamo import collective
from explorer.records.data.provenance import file_names

NUMBER = re.compile("[0-9]{1,15}")
SHOWN = 6
"""Parameters, and kernels and library calls, that are named."""

LAST = ("after post-grad passes", "forward", "backward", "inference")
"""Stages of an imported log whose graphs the code is generated from; the later ones are only in logs of AOTAutograd."""


@dataclass(frozen=True)
class Collective:
    """`operation` with its arguments that are no tensors; `meanwhile` is what runs before the result is waited for,
    None where it is not waited for in the same graph."""

    half: str
    operation: str
    type: str
    bytes: int
    group: str
    place: str
    meanwhile: tuple[str, ...] | None

    @property
    def same(self) -> str:
        """What has to be equal on all processes of the group."""
        return f"{self.operation} {self.type}"


def collectives(compile: CompileData, names: Mapping[str, str]) -> Iterator[Collective]:
    """In the order in which the graphs of the compile call them."""
    asked = {e.fields["node"]: e.fields for e in compile.events if e.kind == "Collective" and "node" in e.fields}
    for half, graph, lines in _graphs(compile):
        nodes = {node.id: node for node in graph.nodes}
        for node in graph.nodes:
            if not (name := collective(node.target)):
                continue
            facts = next((asked[id] for id in (node.id, *node.origins) if id in asked), {})
            place, colon, line = (facts.get("at") or (node.origins[0] if node.origins else "")).rpartition(":")
            ranks = facts.get("ranks", "")
            group = (
                f"{count(len(ranks.split(', ')), 'process', 'processes')}, backend {facts['backend']}" if ranks else ""
            )
            yield Collective(
                half, _call(name, node, nodes, lines.get(node.id, "")), node.type, node.bytes, group,
                f"{names.get(place, place)}:{line}" if colon and line.isdigit() else "",
                _meanwhile(compile, half, graph, node),
            )  # fmt: skip


def _graphs(compile: CompileData) -> Iterator[tuple[str, GraphData, dict[str, str]]]:
    """The last graph of each half; before there are any, the last of all."""
    found = [stage for stage in compile.stages if stage.graph is not None]
    last = {stage.half: stage for stage in found if stage.half}
    chosen = list(last.values())
    for name in LAST:
        chosen = chosen or [stage for stage in found if stage.name == name]
    parted = next((stage.halves for stage in reversed(compile.stages) if stage.halves), ())
    if not chosen and parted:
        yield from ((graph.name, graph, {}) for graph in parted)
        return
    for stage in chosen or found[-1:]:
        assert stage.graph is not None
        lines = stage.body.lines if stage.body is not None else ()
        yield stage.half, stage.graph, {line.id: line.text for line in lines if line.id}


def _call(name: str, node: NodeData, nodes: Mapping[str, NodeData], line: str) -> str:
    """The call with its arguments apart from tensors, where the graph's text has them."""
    _, opening, rest = line.partition(node.target + "(")
    tensors = {nodes[id].name for id in node.inputs if id in nodes}
    given = [each.strip(" '\"") for each in rest.partition(")")[0].split(",")] if opening else []
    arguments = [each for each in given if each and each.strip("[]") not in tensors]
    if arguments and "_c10d_functional" in node.target:
        arguments[-1] = f"group {arguments[-1]}"
    return f"{name}({', '.join(arguments)})" if arguments else name


def _meanwhile(compile: CompileData, half: str, graph: GraphData, node: NodeData) -> tuple[str, ...] | None:
    """By the schedule, where there is one, and else by the graph: between the call and its wait."""
    planned = next((each for each in compile.halves if each.name == half and each.schedule is not None), None)
    if planned is not None:
        return _scheduled(planned, node)
    places = {each.id: n for n, each in enumerate(graph.nodes)}
    waits = [n for n, each in enumerate(graph.nodes) if "wait_tensor" in each.target and node.id in each.inputs]
    if not waits:
        return None
    between = graph.nodes[places[node.id] + 1 : waits[0]]
    return tuple(each.name for each in between if not _communicates(each.target))


def _scheduled(half: HalfData, node: NodeData) -> tuple[str, ...] | None:
    assert half.schedule is not None
    operations = {each.id: each for each in half.operations}
    kernels = {each.id: each for each in half.kernels}
    made: set[str] = set()
    found: list[str] = []
    for item in half.schedule.items:
        calls = [operations[id] for id in item.operations if id in operations]
        targets = " ".join(each.target for each in calls)
        if made and "wait_tensor" in targets and made & {name for each in calls for name in each.reads}:
            return tuple(found)
        if any(collective(each.target) and node.id in each.origins for each in calls):
            made = {name for each in calls for name in each.writes}
            found = []
        elif made and not _communicates(targets):
            kernel = kernels.get(item.id)
            seconds = kernel.seconds if kernel is not None else half.extern_seconds.get(item.id)
            found.append(item.id + (f" ({duration(seconds)})" if seconds is not None else ""))
    return None


def _communicates(target: str) -> bool:
    return "wait_tensor" in target or bool(collective(target))


def summary(compile: CompileData, names: Mapping[str, str]) -> Iterator[str]:
    """What of it is worth a line among other things."""
    if split := next(splits(compile, names), ""):
        yield split.partition(": ")[2].partition(", ")[0].rstrip(":")
    called = Counter(each.operation.partition("(")[0] for each in collectives(compile, names))
    if called:
        yield f"calls {', '.join(f'{name} {number}x' for name, number in called.items())} (record.collectives)"


def lines(record: RecordData) -> Iterator[str]:
    names = file_names(record)
    for compile in record.compiles:
        yield from splits(compile, names)
        found = list(collectives(compile, names))
        if found:
            yield f"{compile.id} {compile.name}: {count(len(found), 'collective')}:"
        for each in found:
            size = f" ({amount(each.bytes, 'B')})" if each.bytes else ""
            group = f", among {each.group}" if each.group else ""
            place = f", {each.place}" if each.place else ""
            half = f"{each.half}: " if each.half else ""
            yield f"  {half}{each.operation} gives {each.type}{size}{group}{place}: {_overlap(each.meanwhile)}"


def _overlap(meanwhile: tuple[str, ...] | None) -> str:
    if meanwhile is None:
        return "the graph does not wait for it"
    if not meanwhile:
        return "nothing overlaps with it"
    more = len(meanwhile) - SHOWN
    return f"overlaps with {', '.join(meanwhile[:SHOWN])}{f' and {more} more' if more > 0 else ''}"


def splits(compile: CompileData, names: Mapping[str, str]) -> Iterator[str]:
    """Where DDPOptimizer split the graph: its parts in the order of the forward."""
    split = next((event.fields for event in compile.events if event.kind == "DDPSplit"), None)
    if split is None:
        yield from _logged(compile)
        return
    last_cap, cap = (_count_of(split.get(name)) for name in ("first_cap", "cap"))
    parts = _count_of(split.get("buckets"))
    text = f"split the graph into {parts} parts" if parts > 1 else "did not split the graph"
    yield (
        f"{compile.id} {compile.name}: DDPOptimizer {text}, one for each gradient bucket of DDP, whose all-reduce "
        "overlaps with the backward of the parts before it. Buckets are filled from the model's end: up to "
        f"{amount(last_cap, 'B')} in the last part, and bucket_cap_mb ({amount(cap, 'B')}) in each other"
    )
    for fields in (event.fields for event in compile.events if event.kind == "DDPBucket"):
        first, last = (_place_in_program(fields.get(name, ""), names) for name in ("first", "last"))
        called = [name for name in fields.get("parameters", "").split(", ") if name]
        sizes = zip_longest(called, fields.get("sizes", "").split(", ")[: len(called)], fillvalue="")
        parameters = [f"{name} {amount(_count_of(size), 'B')}" if size else name for name, size in sizes]
        size, limit = _count_of(fields.get("bytes")), last_cap if _count_of(fields.get("number")) == parts - 1 else cap
        full = f", over the limit of {amount(limit, 'B')}" if size >= limit > 0 else ""
        more = f" and {len(parameters) - SHOWN} more" if len(parameters) > SHOWN else ""
        where = f"{first} to {last}" if first != last else first
        extra = _count_of(fields.get("extended"))
        longer = f"; {count(extra, 'operation')} more were added, so that the part returns a value" if extra else ""
        yield (
            f"  part {fields.get('number')}: {count(_count_of(fields.get('operations')), 'operation')}, {where}; "
            f"{amount(size, 'B')} of gradients, of {count(len(parameters), 'parameter')}{full}"
            f"{': ' if parameters else ''}{', '.join(parameters[:SHOWN])}{more}{longer}"
        )


def _count_of(text: str | None) -> int:
    """Of an event's field; 0 for what is none, as a stranger's record may have."""
    return int(text) if text is not None and NUMBER.fullmatch(text) else 0


def _place_in_program(at: str, names: Mapping[str, str]) -> str:
    file, _, line = at.rpartition(":")
    return f"{names.get(file, file)}:{line}" if file else "no line of the program"


def _logged(compile: CompileData) -> Iterator[str]:
    """The parts as a log has them, which says nothing of the sizes that were asked for."""
    parts = [s.graph for s in compile.stages if s.name == "DDPOptimizer: a bucket" and s.graph is not None]
    if parts:
        yield f"{compile.id} {compile.name}: DDPOptimizer split the graph into {len(parts)} parts:"
    for number, graph in enumerate(parts):
        called = [node for node in graph.nodes if node.op.startswith("call")]
        given = sum("_parameters_" in node.name for node in graph.nodes if node.op == "placeholder")
        at = [node.origins[0] for node in called if node.origins]
        where = f", {at[0]} to {at[-1]}" if at else ""
        yield f"  part {number}: {count(len(called), 'operation')}{where}: {count(given, 'parameter')}"
