"""Recompiles, errors, eager runs and calls as lines of text, for printing and for pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from explorer.core.recorder import GRAPH, PROCESS
from explorer.core.text import count, duration
from explorer.ir import record as data
from explorer.records.data import dynamo
from explorer.records.data.calls import ALL_TIMED
from explorer.records.diagnosis import TOLD_BEFORE

Names = Mapping[str, str]
"""What files are called, as `view.source.file_names` gives them."""

FEW = 4
"""With at least so many compiles, the text says where their time went."""

DEAREST = 3
"""Functions that are named for what compiling them took."""

FEW_CALLS = 10
"""With at least so many calls, the text gives their median."""

NAMED = 3
"""Errors of calls that are named."""

VALUES = 12
"""Values of a guard that a line shows."""


_NUMBERED = re.compile(r"_\d{1,9}\b|0x[0-9a-f]{1,16}")
"""What differs in the words for one break that is met twice."""


def break_places(compiles: Iterable[data.CompileData]) -> list[list[tuple[data.CompileData, data.BreakData]]]:
    """The graph breaks by their places in the program and reasons, each with the compiles that end there: one for each
    time that it is reached, and those of the frames that called the function it is in."""
    found: dict[object, list[tuple[data.CompileData, data.BreakData]]] = {}
    for compile in compiles:
        for each in compile.breaks:
            span = each.span
            at = (compile.engine, span.file, span.line, span.column) if span else (compile.id, each.instruction)
            place = (*at, each.why.code, _NUMBERED.sub("", each.why.detail))
            found.setdefault(place, []).append((compile, each))
    return list(found.values())


def place(span: data.SpanData | None, names: Names) -> str:
    return f" ({span.place(names)})" if span is not None else ""


def caused(each: data.FailedGuardData) -> str:
    """How many recompiles a guard caused, and in how many it failed beside the one that did."""
    alone, also = each.times - each.also, f"also failed in {count(each.also, 'recompile')}"
    return f"caused {count(alone, 'recompile')}" + f" and {also}" * bool(each.also) if alone else also


def recompile(each: data.FailedGuardData, names: Names) -> str:
    shown = ", ".join(each.values[:VALUES]) + (f" and {len(each.values) - VALUES} more" * (len(each.values) > VALUES))
    values = f"; values: {shown}" if shown else ""
    advice = f"\n  to avoid this: {each.stops}" if each.stops else ""
    at = place(each.span, names)
    guard = dynamo.names(each.words or each.expression)
    return f"{each.frame}: this guard {caused(each)}: {guard}{values}{at}{advice}"


def error(each: data.ErrorData, names: Names) -> str:
    what = "the program gets this error" if each.raises else "the frame runs eagerly instead"
    what += f", compiled by {each.engine}" * (bool(each.engine) and not each.compile)
    of = " ".join(filter(None, (each.compile, each.title)))
    message = f"{each.kind}: {each.message}" if each.message else each.kind
    return f"{f'{of}: ' * bool(of)}{what}{place(each.span, names)}\n{_indented(message)}"


def eager(each: data.EagerData, names: Names) -> str:
    return f"{each.what}{place(each.span, names)}: {each.why}{took(each)}"


def took(each: data.EagerData) -> str:
    """How long it ran, and with how many ATen calls, or why nobody knows."""
    if each.seconds is None or not each.measured:
        return f"; not timed: {each.measured}" if each.measured else ""
    calls = "" if each.calls is None else f" and {count(each.calls, 'ATen call')}"
    return f"; {duration(each.seconds)}{calls} in {each.measured}"


def calls(each: data.CallsData) -> str:
    """What the calls of one function took, and where."""
    parts = [f"{duration(each.compiling)} compiling"] if each.compiling else []
    if each.graphs is not None:
        about = "about " if each.count > ALL_TIMED else ""
        parts.append(f"{about}{duration(each.graphs)} in compiled graphs" if each.graphs else "no compiled graph ran")
        outside = max(each.seconds - each.compiling - each.graphs, 0.0)
        parts.append(f"{about}{duration(outside)} outside (guards, Python, eager frames)")
    elif ran := {id: None for served in each.served for id in served}:
        parts.append(f"in graphs compiled in other calls ({', '.join(ran)}), with which they are timed")
    else:
        parts.append("nothing compiled: its code is older than the watch, or runs eagerly")
    middle = ""
    if each.samples and each.count > 1:  # of few calls, most of which compiled, a median tells nothing
        few = each.count < FEW_CALLS
        middle = (
            f"fastest {duration(min(each.samples))}, "
            if few
            else f"median {duration(median(settled(each).values()))}, "
        )
    times = f"{count(each.count, 'call')} ({each.engine})"
    raised = Counter(one.text for one in each.raised)
    parts += [f"{count(number, 'call')} raised {message}" for message, number in raised.most_common(NAMED)]
    return f"{each.function}: {times}, {middle}{duration(each.seconds)} in all: {', '.join(parts)}"


def settled(each: data.CallsData) -> dict[int, float]:
    """By number, seconds of those of the first calls in which nothing was compiled or measured; of all where there are
    none."""
    every = dict(enumerate(each.samples, 1))
    whole = {number: seconds for number, seconds in every.items() if number not in each.compiled}
    return {number: seconds for number, seconds in whole.items() if number != each.measured} or whole or every


def no_graph_ran(each: data.CallsData, compiles: Iterable[data.CompileData]) -> bool:
    """In any of these, where what its calls had compiled is all that there is: each run of that was in another."""
    known = {compile.id: compile for compile in compiles}
    noted = Counter(id for served in each.served for id in served)
    first = known.get(next(iter(noted), ""))
    graphs = {id for id in noted if id in known and known[id].runs}
    ran = (each.served[number - 1] for number in settled(each) if number <= len(each.served))
    only = first is not None and not first.recompiles and all(known[id].runs <= noted[id] for id in graphs)
    return only and all(graphs.isdisjoint(served) for served in ran)


def costs(record: data.RecordData) -> Iterator[str]:
    """Of each engine, where the time of its compiles went, and what to change first: the guard whose recompiles took
    longest."""
    none = {*frames_of_graphs(record.compiles), PROCESS}
    compiles = [each for each in record.compiles if each.stages and each.id not in none]
    engines = dict.fromkeys(each.engine for each in compiles)
    for engine in engines:
        own = [each for each in compiles if each.engine == engine]
        spent = {each.id: each.seconds for each in own}
        by_title: dict[str, list[float]] = {}
        for compile in own:
            by_title.setdefault(compile.name, []).append(compile.seconds)
        if len(spent) < FEW or not sum(spent.values()):
            continue
        dearest = sorted(by_title.items(), key=lambda each: -sum(each[1]))[:DEAREST]
        shown = ", ".join(f"{title} {duration(sum(took))} ({count(len(took), 'compile')})" for title, took in dearest)
        took = f"{duration(sum(spent.values()))} in {count(len(spent), 'compile')}"
        whose = f" ({engine})" * (len(engines) > 1)
        yield f"compiling{whose}: {took}; most of it in {shown}"
        taken = {each: sum(spent.get(id, 0.0) for id in each.compiles) for each in record.recompiles}
        if taken and taken[first := max(taken, key=lambda each: taken[each])]:
            how = f"\n  to avoid this: {first.stops}" if first.stops else ""
            yield (
                f"what to change first: the guard of {first.frame} that {caused(first)} "
                f"({duration(taken[first])}): {dynamo.names(first.words or first.expression)}{how}"
            )


def frames_of_graphs(compiles: Sequence[data.CompileData]) -> dict[str, data.CompileData]:
    """Of the graphs that stock's Dynamo captured and our backend compiled, by id: the compile of the frame that each
    is of, and part of."""
    frames = [each for each in compiles if each.engine == "stock"]
    found = {}
    for each in compiles:
        ended = each.started + each.seconds
        around = (f for f in frames if f.started <= each.started and ended <= f.started + f.seconds)
        is_graph = each.id.partition("#")[0] == GRAPH
        if is_graph and (frame := next(around, None)) is not None:
            found[each.id] = frame
    return found


MOST_GUARDS = 8
"""Guards that failed, of which a summary tells: those that failed most often."""


def summary(record: data.RecordData, names: Names) -> list[str]:
    """All of it, as a summary of a record shows it."""
    lines = [*costs(record), *(f"calls: {calls(each)}" for each in record.calls)]
    lines += [recompile(each, names) for each in record.recompiles[:MOST_GUARDS]]
    if (more := len(record.recompiles) - MOST_GUARDS) > 0:
        lines.append(f"{count(more, 'other guard')} caused recompiles (record.recompiles)")
    lines += [f"error: {error(each, names)}" for each in record.errors]
    if record.eager:
        shown = [each for each in record.eager if _says_more(each) or not _is_covered(each, record)]
        engines = {each.id: each.engine for each in record.compiles}
        several = len(set(engines.values())) > 1
        whose = (f" ({engines[each.compile]})" if several and each.compile in engines else "" for each in shown)
        lines += [f"outside graphs{of}: {eager(each, names)}" for of, each in zip(whose, shown, strict=True)]
    else:
        lines += [f"outside graphs: {name}" for name in record.coverage.python]
    return [line for each in lines for line in each.split("\n")]


def _says_more(each: data.EagerData) -> bool:
    """Than the lines of its compile: what it took, or why nobody knows."""
    return each.seconds is not None or each.measured not in ("", TOLD_BEFORE)


def _is_covered(each: data.EagerData, record: data.RecordData) -> bool:
    """Whether the lines of its compile say it: the Python at a break, and a frame that runs eagerly."""
    of = next((compile for compile in record.compiles if compile.id == each.compile), None)
    if of is None:
        return False
    return each.what in (of.title, of.name) and of.fallback is not None or each.span in [b.span for b in of.breaks]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())
