"""The answer at a glance: what came of a record, in one sentence for each thing that people ask first."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import PurePath
from types import MappingProxyType

import msgspec

from explorer.core.text import amount, count, duration, headline
from explorer.ir import record as data
from explorer.records.data.dynamo import HARMLESS
from explorer.records.data.provenance import file_names
from explorer.records.diagnosis import CodePlace, code_place, frame_of
from explorer.show.view.answers import answers
from explorer.show.view.diagnosis import Names, break_places, frames_of_graphs, no_graph_ran, settled
from explorer.show.view.history import headings, history

FIRST = ("wrong", "attention")
"""States that come before the others."""

MOST_ENGINES = 4
"""Two exist; a record that names more was made to."""

NAMED = 2
"""Graph breaks, and causes of recompiles, that are named."""

AWAITED = (
    ("speed", "timing", "speed compared with eager not measured yet"),
    ("accuracy", "timing", "results not compared with eager yet"),
    ("operations", "graphs", "no operations captured yet"),
    ("breaks", "breaks", "no graph breaks yet"),
    ("recompiles", "recompiles", "no recompiles yet"),
    ("guards", "guards", "no guards yet (on the program's values and on torch's state)"),
    ("memory", "memory", "peak memory not measured yet"),
    ("compile", "timeline", "compile time: still compiling"),
)
"""Each part while it is not known, about as long as it will be: the strip takes its room at once, and does not jump."""

MORE_MEMORY, MORE_BYTES = 1.1, 1e5
"""How many times eager's peak, and how many bytes more, a peak is that is pointed out."""


_GOT = re.compile(r"""\bgot (\w{1,80}\((['"]).{1,400}?\2\))""")
"""What an operator raised for the fake tensors of a graph, as stock's error quotes it."""
_CONTINUATION = re.compile(r"\btorch_dynamo_resume_in_(<?\w{1,200}?>?)_at_(\d{1,9})\b")
_OUR_CONTINUATION = re.compile(r"\A(?:\w{1,200}\.)?resume_in_(<?\w{1,200}?>?)_at_\d\w{0,200}\Z")
_CAUSE = re.compile(r"(?<=\n)caused by [^\n]{1,400}")
_DEFINED_IN = re.compile(r"\b[\w.<>]{1,400}<locals>\.")
"""What comes before the name of a function inside another."""
_FOLDER = re.compile(r"\([^()]*[/\\](?=[^()/\\]*:\d{1,9}\)$)")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]{0,60}")
_PLACE = re.compile(r":(\d{1,9}) in (.*)$")
"""Of a frame, as a break's stack names it."""


def with_glance(record: data.RecordData, *, whole: bool = True) -> data.RecordData:
    """The record with its answer, and with names for its compiles and for the calls of its functions."""
    compiles = named(record.compiles, file_names(record))
    names = {compile.id: compile.name for compile in compiles}
    calls = _named_calls(record.calls, compiles)
    heading = headings(msgspec.structs.replace(record, compiles=compiles, calls=calls))
    frames = {compile.id: heading(compile.name, compile.engine) for compile in compiles}
    recompiles = tuple(
        msgspec.structs.replace(each, frame=frames.get(next(iter(each.compiles), each.of), each.frame))
        for each in record.recompiles
    )
    errors = tuple(msgspec.structs.replace(each, title=names.get(each.compile, each.title)) for each in record.errors)
    whole_frames = {(compile.id, compile.title): compile.name for compile in compiles}
    eager = tuple(
        msgspec.structs.replace(
            each,
            what=whole_frames.get((each.compile, each.what)) or _own(each.what),
            measured=_DEFINED_IN.sub("", each.measured),
        )  # fmt: skip
        for each in record.eager
    )
    found = msgspec.structs.replace(
        record, compiles=compiles, recompiles=recompiles, calls=calls, errors=errors, eager=eager
    )
    found = msgspec.structs.replace(found, glance=glance(found, whole=whole), history=history(found))
    found = msgspec.structs.replace(found, answers=answers(found) if whole else ())
    return record if found == record else found


def glance(record: data.RecordData, *, whole: bool = True) -> tuple[data.PartData, ...]:
    """The parts of the strip: of one engine with what is wrong first, of two in the same order for both. Of a record
    that is not `whole` yet, what is known by now."""
    timed = [each.name for each in record.timing.contestants] if record.timing is not None else []
    awaited = [] if whole or not record.engine else record.engine.split(" and ")
    named = dict.fromkeys([*awaited, *(compile.engine for compile in record.compiles), *timed])
    engines = [each for each in named if each != "eager"][:MOST_ENGINES]
    parts = _counted(_failures(record))
    for engine in engines:
        compiles = [compile for compile in record.compiles if compile.engine == engine]
        lead = next((each.id for each in compiles if each.halves), "") if len(engines) > 1 else ""
        parts += _compiled(record, engine, compiles, lead) if whole else _so_far(engine, compiles)
    if not engines and whole and not parts:
        why = "" if record.engine else ", as no call of a compiled function was seen"
        parts.append(data.PartData("operations", f"nothing was compiled{why}", "attention", "source"))
    if len(engines) > 1:
        return tuple(parts)
    order = {state: place for place, state in enumerate(FIRST)}
    return tuple(sorted(parts, key=lambda part: order.get(part.state, len(order))))


def lines(record: data.RecordData) -> list[str]:
    """The parts as a terminal shows them: each that needs attention on a line of its own, then the others."""
    parts = record.glance
    several = len({part.engine for part in parts if part.engine}) > 1
    found = []
    for engine in dict.fromkeys(part.engine for part in parts):
        named = f"{engine}: " if several and engine else ""
        row = [part for part in parts if part.engine == engine]
        found += [f"! {named}{part.text}" for part in row if part.state in FIRST]
        calm = "; ".join(part.text for part in row if part.state not in FIRST)
        found += [named + calm] if calm else []
    return found


def _counted(parts: Iterable[data.PartData]) -> list[data.PartData]:
    """Each sentence once, with a count where several compiles have it."""
    times: dict[tuple[str, str], list[data.PartData]] = {}
    for part in parts:
        times.setdefault((part.engine, part.text), []).append(part)
    return [
        msgspec.structs.replace(same[0], text=f"{same[0].text} ({len(same)} times)") if len(same) > 1 else same[0]
        for same in times.values()
    ]


def _failures(record: data.RecordData) -> Iterator[data.PartData]:
    names = file_names(record)
    for each in sorted(record.errors, key=lambda error: not error.raises):
        got = _GOT.search(each.message)
        by = f", {headline(cause[0])}" if (cause := _CAUSE.search(each.message)) is not None else ""
        text = got[1] if got is not None else headline(each.message) + by
        raised = f"{each.kind}{_at(each.span, names)}" + (f": {text}" if text else "")
        if each.raises:
            whose = each.engine if " and " in record.engine else ""
            yield data.PartData("error", f"the program raises {raised}", "wrong", "source", each.compile, whose)
        else:
            what = "compiling it" if each.compile else "its graph"
            text = f"{_name(each.title)} runs eagerly, because {what} raised {raised}"
            yield data.PartData("error", text, "wrong", "source", each.compile)
    for operator in record.operators:
        if operator.differs:
            more = f" ({len(operator.differs) - 1} more)" if len(operator.differs) > 1 else ""
            text = f"{operator.operator}: {operator.differs[0]}{more}"
            yield data.PartData("operator", text, "attention", "graphs")
    if record.error and not any(each.raises for each in record.errors):
        yield data.PartData("error", f"failed: {headline(record.error)}", "wrong", "source")


def _so_far(engine: str, compiles: list[data.CompileData]) -> Iterator[data.PartData]:
    operations = sum(each.operations for each in compiles)
    for what, pane, text in AWAITED:
        if what == "operations" and operations:
            text = f"captured {count(operations, 'operation')}"
        yield data.PartData(what, text, "unknown", pane, "", engine)


def _compiled(
    record: data.RecordData, engine: str, compiles: list[data.CompileData], lead: str
) -> Iterator[data.PartData]:
    """`lead` is the compile that a part leads to which is of all."""
    timing = record.timing
    names = file_names(record)
    timed = {each.name: each for each in timing.contestants} if timing is not None else {}
    ours, eager = timed.get(engine), timed.get("eager")
    exact = (timing.accuracy, timing.stock_accuracy) if timing is not None else ()

    def part(what: str, text: str, state: str, pane: str, compile: str = "") -> data.PartData:
        return data.PartData(what, text, state, pane, compile or lead, engine)

    watched = [each for each in record.calls if each.engine == engine and each.samples]
    if compiles and all(each.raises or each.error and not each.halves for each in compiles):
        if any(each.breaks for each in compiles):
            yield part("breaks", *_breaks(compiles, names))
        return  # an error says what came of it, and no other answer is known
    yield part("speed", *(_watched(watched, compiles) if ours is None and watched else _speed(ours, timing)), "timing")
    found = next((each for each in exact if each is not None and each.engine == engine), None)
    unasked = ("not compared with eager: a watched program is run only once", "unknown")
    yield part("accuracy", *(unasked if found is None and watched else _accuracy(found, names)), "timing")
    if not compiles and engine not in record.engine.split(" and "):
        return  # it was timed beside what is recorded; what it compiled is not in the record
    yield part("operations", *_made(compiles))
    aten = {each.compile: each.calls for each in record.eager if not each.at_break}
    for each in compiles:
        if each.fallback is not None and not each.error:
            why = " ".join(str(each.fallback).split())
            calls = aten.get(each.id)  # None where nobody counted them
            state = "ok" if calls == 0 or each.fallback.code in HARMLESS and not calls else "attention"
            yield part("fallback", f"{_name(each.name)} runs eagerly: {why}", state, "source", each.id)
    yield part("breaks", *_breaks(compiles, names))
    served = [row for row in history(record) if any(compile.id in row.made for compile in compiles)]
    yield part("recompiles", *_recompiles(served, compiles))
    if not any(each.operations for each in compiles):
        return
    guards = [guard for compile in compiles for guard in compile.guards]
    yield part("guards", counted_guards(guards), "ok", "guards")
    if ours is not None and ours.peak is not None:
        other = eager.peak if eager is not None else None
        more = other is not None and ours.peak > max(MORE_MEMORY * other, other + MORE_BYTES)
        beside = f" (eager {amount(other, 'B')})" if other is not None else ""
        text = f"peak memory {amount(ours.peak, 'B')} without inputs{beside}"
        yield part("memory", text, "attention" if more else "ok", "memory")
    first = ours.compile_seconds if ours is not None else None
    inside = [f"first call {duration(first)}"] if first is not None else []
    inside += [ours.note] if ours is not None and ours.note else []
    note = f" ({', '.join(inside)})" if inside else ""
    took = sum(compile.seconds for compile in compiles)
    yield part("compile", f"compiled in {duration(took)}{note}", "ok", "timeline")


def counted_guards(guards: Sequence[data.GuardData]) -> str:
    rest = sum(guard.of_torch for guard in guards)
    split = f" ({len(guards) - rest} on the program's values, {rest} on torch's state)" if rest else ""
    return count(len(guards), "guard") + split


def _speed(ours: data.SamplesData | None, timing: data.TimingData | None) -> tuple[str, str]:
    if ours is None or ours.speed is None:
        return "not timed", "unknown"
    text = ("graphs only: " if timing is not None and timing.graphs_alone else "") + ours.speed.text
    if ours.speed.times is None:
        return text, "unknown"
    return text, "attention" if ours.speed.high is not None and ours.speed.high < 1 else "ok"


def _watched(calls: list[data.CallsData], compiles: Sequence[data.CompileData]) -> tuple[str, str]:
    most = max(calls, key=lambda each: each.seconds)
    samples = settled(most)
    short = [_name(each.function) for each in calls]
    function = most.function if short.count(_name(most.function)) > 1 else _name(most.function)
    each = f"a call of {function} takes {duration(statistics.median(samples.values()))}"
    always = set(range(1, len(most.samples) + 1)) <= set(most.compiled)
    idle = no_graph_ran(most, compiles)
    did = ["compiled nothing"] * (len(samples) < len(most.samples)) + ["ran no compiled graph"] * idle
    some = f" that {' and '.join(did)}" if did else ""
    each_of = "each of " if len(samples) > 1 else ""
    apart = f", {each_of}which compiled something" if always else some
    of = f"median of {len(samples)} calls" if len(samples) > 1 else "one call"
    return f"{each} ({of}{apart}; eager was not timed)", "attention" if idle else "unknown"


def _accuracy(found: data.AccuracyData | None, names: dict[str, str]) -> tuple[str, str]:
    if found is None:
        return "not compared with eager", "unknown"
    if not found.compared and not found.first_mismatch:
        return "no tensors to compare with eager's", "unknown"
    if not found.first_mismatch:
        within = f"matches eager ({_error(found)})" if found.where else "equal to eager"
        if found.opaque:
            return f"{within}; not compared: {found.opaque}", "unknown"
        return (f"{within}, which gives NaN in {found.nan}", "attention") if found.nan else (within, "ok")
    divergence = found.divergence
    place = _at(divergence.span, names) if divergence is not None else ""
    value, is_value = found.first_mismatch, found.mismatch == "value"
    amount = f" by up to {found.largest_absolute:.2g}" if found.largest_absolute and not is_value else ""
    first = f" in {found.where}, first" if amount and found.where != value else ""
    text = f"differs from eager{amount}{first} in {value}{place}"
    if found.mismatch == "unpaired":  # which no rounding explains
        text = f"differs from eager: {value}{place}"
        return text, "wrong"
    if divergence is not None and not divergence.node:
        return f"{text}: {divergence.detail}", "attention"
    if found.own_error is not None and found.eager_error and found.own_error <= found.eager_error:
        return f"{text}, but float64 agrees no better with eager", "attention"
    if divergence is None and found.own_error is None and math.isfinite(found.largest_absolute):
        why = f"{'values' if is_value else 'rounding, or values'} that change in each run may explain it"
        return f"{text}; eager was not run again in float64, so {why}", "attention"
    return text, "wrong"


def _error(found: data.AccuracyData) -> str:
    """Where rounding is known, what it changes: a share of the tensor's size says little where it cancels out."""
    if found.own_error is None or found.eager_error is None:
        return f"relative error {found.largest_relative:.2g}"
    return f"{found.own_error:.2g} from a float64 run, eager itself {found.eager_error:.2g}"


def _made(compiles: list[data.CompileData]) -> tuple[str, str, str]:
    built = [compile for compile in compiles if compile.halves]
    if not built:
        if any(each.operations for each in compiles):
            cached = {cache for each in compiles for cache in each.caches}
            whence = f"their kernels came from the {' and the '.join(sorted(cached))}"
            eager = ", which run eagerly" if all(each.fallback for each in compiles if each.operations) else ""
            none = eager or " (this record holds no kernels)"
            text = f"captured {_operations(compiles)}" + (f" ({whence})" if cached else none)
            return text, "unknown", "graphs"
        if compiles and not any(each.error or each.fallback for each in compiles):
            return "no operations were captured", "attention", "source"
        return "nothing was compiled", "attention", "source"
    used = [compile for compile in built if compile.fallback is None]
    halves = [half for compile in used or built for half in compile.halves]
    kernels = sum(len(half.kernels) for half in halves)
    runs = [{each.id for each in half.operations if each.kind == "extern"} for half in halves]
    calls = sum(item.id in ids for half, ids in zip(halves, runs, strict=True) if half.schedule
                for item in half.schedule.items)  # fmt: skip
    became = [count(kernels, "kernel")] if kernels else []
    became += [count(calls, "library call")] if calls else []
    backward = ", backward included" if any(len(compile.halves) > 1 for compile in used or built) else ""
    made = f"became {' and '.join(became)}" if became else "needed no kernel" if used else "became 0 kernels"
    summed = " in all" if len(built) > 1 and any(compile.recompiles for compile in built) else ""
    text = f"{_operations(used or built)} {made}{summed}{backward}"
    return (text, "ok", "schedule") if used else (f"{text}, not run", "attention", "schedule")


def _operations(compiles: Sequence[data.CompileData]) -> str:
    """How many operations were captured, and in how many graphs; those of a function that was compiled again once."""
    compiles = [each for each in compiles if each.operations]
    numbers = [each.operations for each in compiles]
    if len(compiles) > 1 and any(compile.recompiles for compile in compiles):
        each = f"{count(numbers[0], 'operation')} in each of" if len(set(numbers)) == 1 else ""
        return f"{each or f'{sum(numbers)} operations in'} {count(len(numbers), 'compile')}"
    return count(sum(numbers), "operation") + (f" in {count(len(numbers), 'graph')}" if len(numbers) > 1 else "")


def _breaks(compiles: list[data.CompileData], names: dict[str, str]) -> tuple[str, str, str, str]:
    found = break_places(compiles)
    if not found:
        return "no graph breaks", "ok", "breaks", ""
    alike: dict[str, int] = {}
    for place in found:
        broke = place[0][1]
        reached = f" (in {len(place)} compiles)" if len(place) > 1 else ""
        each = f"{of_call(broke.why)}{_at(broke.span, names)}{reached}"
        alike[each] = alike.get(each, 0) + 1
    texts = [each + (f" ({times} of them)" if times > 1 else "") for each, times in list(alike.items())[:NAMED]]
    rest = sum(list(alike.values())[NAMED:])
    more = f" and {rest} more" if rest else ""
    return f"{count(len(found), 'graph break')}: {'; '.join(texts)}{more}", "attention", "breaks", found[0][-1][0].id


def of_call(why: data.WhyData) -> str:
    """A break's title, with the function that is called there."""
    named = _FUNCTION.fullmatch(why.detail) is not None and why.detail not in why.title
    return f"{why.title} ({why.detail})" if named else why.title


def _recompiles(served: list[data.ServedData], compiles: list[data.CompileData]) -> tuple[str, str, str, str]:
    again = [compile for compile in compiles if compile.recompiles]
    if not again:
        return "no recompiles", "ok", "recompiles", ""
    raised, left = (
        sum(each.raises for each in again),
        sum(each.fallback is not None and not each.halves for each in again),
    )
    kept = len(again) - raised - left
    also = " more" * bool(kept)
    rest = [f"{_times(left)}{also} it was left to Python"] * bool(left)
    rest += [f"{_times(raised)}{also} an error was raised"] * bool(raised)
    times = " ".join(filter(None, (_times(kept) if kept else "", f"({'; '.join(rest)})" if rest else "")))
    one = _name(again[0].name) if len({compile.name for compile in again}) == 1 else ""
    who = f"{one} was recompiled" if kept else f"guards of {one} failed"
    if not one:
        who = "recompiled" if kept else "guards failed"
    failed = (tuple(each for each in row.changes if each.of) for row in served)  # others failed no guard
    changes = list(dict.fromkeys(map(_with_others, filter(None, failed))))
    more = [f"and {count(len(changes) - NAMED, 'other cause')}"] if len(changes) > NAMED else []
    text = f"{who} {times}" + (f": {'; '.join(changes[:NAMED] + more)}" if changes else "")
    return text, "attention", "recompiles", again[0].id


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _with_others(changes: Sequence[data.ChangeData]) -> str:
    """At which guard the check stopped, and what else changed."""
    also = [each.failure for each in takewhile(lambda each: each.also, changes[1:])]
    if len(also) > 1:
        return f"{changes[0].failure} ({len(also)} more changes)"
    return changes[0].failure + (f" (also {also[0]})" if also else "")


def _name(title: str) -> str:
    """A function's own name, without what it is defined in, and its place, which titles of logs end with."""
    return _own(title).partition(" (")[0].rpartition(".")[2]


def _own(title: str) -> str:
    """A function's name, and its class's, without the functions that they are defined in; a continuation of stock's by
    the line that it goes on after, where the compile that it continues is not known; a place without its folder."""
    own = _CONTINUATION.sub(r"\1 after line \2", _FOLDER.sub("(", title.rpartition("<locals>.")[2]))
    return _OUR_CONTINUATION.sub(r"\1 after a graph break", own)


def goes_on_in(broke: data.BreakData, compile: data.CompileData) -> bool:
    """Whether a compile is of a break's continuation, by which ours tells the whole name, and stock the function's
    own."""
    return not {compile.title, _name(compile.title)}.isdisjoint(broke.continuation.split(", "))


def named(compiles: Sequence[data.CompileData], files: Names = MappingProxyType({})) -> tuple[data.CompileData, ...]:
    """What compiles are called where their title does not say it: a function inside another by its own name, and by its
    place beside another of that name; a continuation by its function, and the line after whose break it goes on, a
    graph by the frame that stock captured it from."""
    known = {}
    for compile in compiles:
        own = _own(compile.title)
        known[compile.id] = msgspec.structs.replace(compile, called=own if own != compile.title else "")
    for compile in compiles:
        parent = known.get(compile.continues)
        breaks = parent.breaks if parent is not None else ()
        ended = (each for each in breaks if goes_on_in(each, compile))
        if (broke := next(iter(ended), None)) is not None and broke.stack and (at := _PLACE.search(broke.stack[0])):
            root = parent
            for _ in known:  # a stranger's record may name compiles in a circle
                root = known.get(root.continues) if root is not None and root.continues else root
            function = _name(root.title) if root is not None else at[2]
            after = f"line {at[1]}" if not at.string.startswith("<call of ") else "its call"
            known[compile.id] = msgspec.structs.replace(compile, called=f"{function} after {after}")
    known |= _numbered(known.values())
    known |= _placed(known.values(), files)
    for id, frame in frames_of_graphs(compiles).items():
        known[id] = msgspec.structs.replace(known[id], called=f"graph of {known[frame.id].name}")
    return tuple(known.values())


def _numbered(compiles: Iterable[data.CompileData]) -> dict[str, data.CompileData]:
    """Continuations of both sides of a branch, which go on after one line, told apart by the line that each starts
    with, or by their order."""
    alike: dict[tuple[str, str], dict[str, list[data.CompileData]]] = {}
    for each in compiles:
        if each.continues:
            frames = alike.setdefault((each.engine, each.name), {})
            frames.setdefault(frame_of(each.id), []).append(each)
    found: dict[str, data.CompileData] = {}
    for (_, name), frames in alike.items():
        starts = [_starts(same[0]) for same in frames.values()]
        by_line = len(set(starts)) == len(starts) and None not in starts
        for number, (start, same) in enumerate(zip(starts, frames.values(), strict=True), 1):
            label = f"{name}, from line {start}" if by_line else f"{name} ({number})"
            if len(frames) > 1:
                found.update((each.id, msgspec.structs.replace(each, called=label)) for each in same)
    return found


def _placed(compiles: Iterable[data.CompileData], files: Names) -> dict[str, data.CompileData]:
    """Functions of one name, which are told apart by where they are defined."""
    alike: dict[tuple[str, str], dict[CodePlace, list[data.CompileData]]] = {}
    for each in compiles:
        if each.codes and not each.continues:
            places = alike.setdefault((each.engine, each.name), {})
            places.setdefault(code_place(each), []).append(each)
    found: dict[str, data.CompileData] = {}
    for (_, name), places in alike.items():
        short = [f"{files.get(file) or PurePath(file).name}:{line}" for file, line, _ in places]
        whole = [f"{file}:{line}" for file, line, _ in places]
        for (_, _, column), same, at, long in zip(places, places.values(), short, whole, strict=True):
            one_line = f"{at}, column {column + 1}" if whole.count(long) > 1 else long
            label = f"{name} ({at if short.count(at) == 1 else one_line})"
            if len(places) > 1:
                found.update((each.id, msgspec.structs.replace(each, called=label)) for each in same)
    return found


def _named_calls(calls: Sequence[data.CallsData], compiles: Sequence[data.CompileData]) -> tuple[data.CallsData, ...]:
    """Functions of one name are told apart as the compiles that served their calls are, else by their order."""
    known = {compile.id: compile.name.partition(" (") for compile in compiles}
    own = [(each.engine, _own(each.function)) for each in calls]
    placed = []
    for each, (engine, name) in zip(calls, own, strict=True):
        served = (known[id] for ids in each.served for id in ids if id in known)
        at = next((at for function, _, at in served if f"{function}.".startswith(f"{name}.")), "")
        placed.append((engine, f"{name} ({at}" if at and own.count((engine, name)) > 1 else name))
    found = []
    for number, (each, key) in enumerate(zip(calls, placed, strict=True)):
        label = f"{key[1]} ({placed[:number].count(key) + 1})" if placed.count(key) > 1 else key[1]
        found.append(msgspec.structs.replace(each, function=label))
    return tuple(found)


def _starts(compile: data.CompileData) -> int | None:
    """The line that a continuation, whose code is that of its whole function, jumps to first."""
    code = compile.codes[0].instructions if compile.codes else ()
    jump = next((each for each in code if each.op.startswith("JUMP") and each.target), None)
    first = next((each for each in code if jump is not None and each.id == jump.target), jump)
    return first.span.line if first is not None and first.span is not None else None


def _at(span: data.SpanData | None, names: dict[str, str]) -> str:
    if span is None:
        return ""
    return f" at {names.get(span.file) or span.file.rpartition('/')[2]}:{span.line}"
