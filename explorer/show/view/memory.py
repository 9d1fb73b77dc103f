"""What a record tells of memory: the measured peaks, what is alive at the planned one, and what the backward keeps, by
line of the program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.core.text import amount, count, duration
from explorer.ir.record import BufferData, CompileData, HalfData, RecordData, SavedData
from explorer.records.data.provenance import file_names, operator_name

SHOWN = 8
"""Buffers, and lines of the program, that are named."""

UNKNOWN = "no line of the program"


@dataclass(frozen=True)
class Peak:
    """The step of a half's schedule at which most is alive, by the plan, and the buffers then, largest first. Inputs
    are the caller's, and do not count."""

    step: int
    bytes: int
    buffers: tuple[BufferData, ...]


def peak(half: HalfData) -> Peak | None:
    """By the sizes of the buffers; the plan's own figure rounds each up to what an allocator gives."""
    known = {each.name: each for each in half.buffers}
    held: dict[str, list[BufferData]] = defaultdict(list)
    for each in half.buffers:
        owner = each
        for _ in known:  # a stranger's record may have buffers in a circle
            if owner.where != "reuse" or owner.of not in known:
                break
            owner = known[owner.of]
        if owner.where in ("own", "pool", "library"):
            held[owner.name].append(each)
    spans = {name: (min(b.first for b in all), max(b.last for b in all)) for name, all in held.items()}
    change: Counter[int] = Counter()
    for name, (first, last) in spans.items():
        change[first] += known[name].bytes
        change[last + 1] -= known[name].bytes
    now = most = step = 0
    for at in sorted(change):
        now += change[at]
        if now > most:
            most, step = now, at
    if not most:
        return None
    alive = [name for name, (first, last) in spans.items() if first <= step <= last and known[name].bytes]
    shown = (max((b for b in held[name] if b.first <= step), key=lambda b: b.first) for name in alive)
    return Peak(step, most, tuple(sorted(shown, key=lambda each: -each.bytes)))


def lines(record: RecordData) -> Iterator[str]:
    names = file_names(record)
    timed = record.timing.contestants if record.timing is not None else ()
    if measured := [f"{each.name} {amount(each.peak, 'B')}" for each in timed if each.peak is not None]:
        yield f"measured peak memory of a call, without inputs, backward included: {', '.join(measured)}"
    yield from _kept_by_eager(record, names)
    for compile in record.compiles:
        places = _places(compile, names)
        for half in compile.halves:
            yield from _planned(half, compile.half_title(half.name), places)
        yield from _saved(compile, places)


def _saved(compile: CompileData, places: Mapping[str, str]) -> Iterator[str]:
    kept: dict[str, list[SavedData]] = defaultdict(list)
    for each in compile.saved:
        if each.kind == "saved":
            kept[places.get(each.id, UNKNOWN)].append(each)
    if not kept:
        return
    size = {place: sum(each.bytes for each in values) for place, values in kept.items()}
    whole = amount(sum(size.values()), "B")
    yield f"{compile.id}: {whole} saved for the backward (recomputing it would free that memory), by line, and what"
    yield "computing it again takes, each value operator by operator from inputs and the other saved ones:"
    for place in sorted(size, key=lambda each: -size[each])[:SHOWN]:
        times = [each.seconds for each in kept[place] if each.seconds is not None]
        missing = len(kept[place]) - len(times)
        took = [duration(sum(times))] * bool(times) + [f"{count(missing, 'value')} not measured"] * bool(missing)
        yield f"  {amount(size[place], 'B'):>8}  {place}: {', '.join(took)}"
    if len(kept) > SHOWN:
        yield f"  and {count(len(kept) - SHOWN, 'more line')}"


def _kept_by_eager(record: RecordData, names: Mapping[str, str]) -> Iterator[str]:
    """Beside what each engine's compiles keep in all."""
    kept = Counter[str]()
    for contestant in record.timing.contestants if record.timing is not None else ():
        for at, bytes in contestant.kept.items():
            file, _, line = at.rpartition(":")
            kept[f"{names.get(file, file)}:{line}" if file else UNKNOWN] += bytes
    if not kept:
        return
    beside = Counter[str]()
    for compile in record.compiles:
        beside[compile.engine] += sum(each.bytes for each in compile.saved if each.kind == "saved")
    others = "".join(f", {engine} {amount(bytes, 'B')}" for engine, bytes in beside.items())
    whole = amount(sum(kept.values()), "B")
    yield f"saved for the backward, without inputs and parameters: eager {whole}{others}; eager by line:"
    yield from (f"  {amount(bytes, 'B'):>8}  {place}" for place, bytes in kept.most_common(SHOWN))
    if len(kept) > SHOWN:
        yield f"  and {count(len(kept) - SHOWN, 'more line')}"


def _planned(half: HalfData, title: str, places: Mapping[str, str]) -> Iterator[str]:
    found = peak(half)
    if found is None:
        return
    items = half.schedule.items if half.schedule is not None else ()
    if half.memory is not None and half.memory.measured:
        yield f"{title}: measured peak of one run, without inputs: {amount(max(half.memory.measured), 'B')}"
    at = f" at {items[found.step].id}" if found.step < len(items) else " when it returns"
    yield f"{title}: planned peak, without inputs: {amount(found.bytes, 'B')}{at}:"
    for each in found.buffers[:SHOWN]:
        lines = dict.fromkeys(places[id] for id in each.origins if id in places)
        what = ", ".join(dict.fromkeys(operator_name(id) for id in each.origins if id in places)) or each.name
        yield f"  {amount(each.bytes, 'B'):>8}  {what} ({', '.join(lines) or UNKNOWN})"
    if len(found.buffers) > SHOWN:
        yield f"  and {count(len(found.buffers) - SHOWN, 'more buffer')}"


def _places(compile: CompileData, names: Mapping[str, str]) -> dict[str, str]:
    """Where each node of a compile's graphs is from: its line, and its module where it is in one."""
    found = {}
    for stage in compile.stages:
        for graph in (stage.graph, *stage.halves):
            for node in graph.nodes if graph is not None else ():
                if node.span is not None:
                    inside = f" in module {node.module}" if node.module else ""
                    found[node.id] = f"{names.get(node.span.file, node.span.file)}:{node.span.line}{inside}"
    return found
