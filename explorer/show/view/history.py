"""Which compile served which call, and what made a function compile again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from explorer.core.text import count
from explorer.ir.record import CallsData, ChangeData, CompileData, RecompileData, RecordData, ServedData
from explorer.records.data.dynamo import names
from explorer.records.diagnosis import causes, frame_of, guard_of, guarded_values, stops
from explorer.show.view.diagnosis import Names, place

MOST = 1000
"""Rows that a record holds."""

WHICH_RAISED = ", which raised an error"
UNCALLED = "no call reached it"
NAMED = 3
"""Changes that a line of text names."""
DROPPED = "the code of earlier calls was dropped, as torch.compiler.reset() does"
"""Why a frame that failed no guard is compiled again."""


def history(record: RecordData) -> tuple[ServedData, ...]:
    """Of each function that was compiled more than once: its calls, those in a row together that the same compiles
    served; then compiles that served none, which are all where nobody counted calls."""
    known = _made_by(record.compiles)
    heading = headings(record)
    again = {frame_of(id) for id, changes in known.items() if changes}
    rows: list[ServedData] = []
    for calls in record.calls:
        found = list(_rows(calls, known, heading(calls.function, calls.engine)))
        if any(again & {frame_of(id) for id in row.compiles} for row in found):
            rows += found
    shown = {id for row in rows for id in row.made}
    functions = {frame_of(id): row.function for row in rows for id in row.made}
    for compile in record.compiles:
        if (frame := frame_of(compile.id)) in again and compile.id not in shown:
            only, changes = (compile.id,), known[compile.id]
            note = UNCALLED if frame in functions and compile.operations and not compile.runs else ""
            function = functions.get(frame) or heading(compile.name, compile.engine)
            rows.append(ServedData(function, 0, 0, only, only, changes, note))
    order = list(dict.fromkeys(row.function for row in rows))
    return tuple(sorted(rows, key=lambda row: order.index(row.function))[:MOST])


def headings(record: RecordData) -> Callable[[str, str], str]:
    """What a function of an engine is called: with the engine where another compiled one of that name too."""
    both = {(each.function, each.engine) for each in record.calls} | {(c.name, c.engine) for c in record.compiles}
    engines = Counter(name for name, _ in both)
    return lambda name, engine: f"{name} ({engine})" if engines[name] > 1 else name


def lines(record: RecordData, files: Names) -> list[str]:
    """The history as a terminal shows it."""
    found = []
    idle = {each.id for each in record.compiles if not (each.operations or each.error or each.fallback)}
    hows = {compile.id: _how(compile) for compile in record.compiles}
    for function, rows in groupby(record.history, key=lambda row: row.function):
        these = list(rows)
        partly = any(id in idle for row in these for id in row.compiles)
        which = " (one without a graph: where it was made)" if partly else ""
        found.append(f"calls of {function}, each with the compile that it used{which}:")
        first = next((row for row in these if row.made), None)
        eager = "ran eagerly" + ", or in code compiled before the watch" * (first is not None and bool(first.changes))
        found += ["  " + _line(row, files, hows, eager) for row in these]
    return found


def _how(compile: CompileData) -> tuple[str, str]:
    """What was done, in a word and after it."""
    if compile.fallback:
        return "not compiled", ", and runs eagerly"
    if compile.raises:
        return ("compiled" if compile.guards else "not compiled"), WHICH_RAISED
    return ("captured", ", code loaded from a cache") if compile.caches else ("compiled", "")


def _line(row: ServedData, files: Names, hows: Mapping[str, tuple[str, str]], eager: str) -> str:
    calls = f"call {row.first}" if row.first == row.last else f"calls {row.first} to {row.last}"
    shown = f"{calls if row.first else 'compile':<14} {', '.join(row.compiles) or 'no graph':<10} "
    if not row.made:
        return shown + "; ".join(filter(None, ("reused" if row.compiles else eager, row.note)))
    shown += f"{row.note}; " if row.note else ""
    ways = {hows[id] for id in row.made if id in hows}
    how, more = ways.pop() if len(ways) == 1 else ("compiled", "")
    more *= not (row.note and more == WHICH_RAISED)
    if not row.changes:
        why = "the first call" if row.first <= 1 else "reached for the first time"
        return f"{shown}{how}{more}: {why}"
    whys = [f"{'also ' * each.also}{each.failure}{place(each.span, files)}" for each in row.changes[:NAMED]]
    unnamed = len(row.changes) - NAMED
    whys += [count(unnamed, "more change")] if unnamed > 0 else []
    return f"{shown}{how} again{more}: {'; '.join(whys)}"


def _rows(calls: CallsData, known: Mapping[str, tuple[ChangeData, ...]], function: str) -> Iterator[ServedData]:
    """The rows of one function. A call that compiles has one of its own."""
    seen: set[str] = set()
    first = 1
    raised = {one.call: f"raised {one.text}" for one in calls.raised}
    for number, served in enumerate(calls.served, 1):
        note = raised.get(number, "")
        made = tuple(id for id in dict.fromkeys(served) if id not in seen and id in known)
        seen.update(served)
        after = calls.served[number] if number < len(calls.served) else None
        if made:
            changes = tuple(change for id in made for change in known[id])
            yield ServedData(function, number, number, tuple(dict.fromkeys(served)), made, changes, note)
            first = number + 1
        elif after != served or note != raised.get(number + 1, ""):
            yield ServedData(function, first, number, tuple(dict.fromkeys(served)), note=note)
            first = number + 1


def _changes(compile: CompileData, known: Mapping[str, CompileData]) -> tuple[ChangeData, ...]:
    return tuple(_change(each, compile, known, also=n > 0) for n, each in enumerate(causes(compile, known)))


def _made_by(compiles: Sequence[CompileData]) -> dict[str, tuple[ChangeData, ...]]:
    """Why each was compiled although its frame had code: guards that failed, or that this code was gone."""
    known = {compile.id: compile for compile in compiles}
    found, had_code = {}, set[str]()
    for compile in compiles:
        again = compile.id != (frame := frame_of(compile.id)) and frame in had_code
        found[compile.id] = _changes(compile, known) or (ChangeData(DROPPED),) * again
        if compile.guards and not (compile.error or compile.fallback):
            had_code.add(frame)
    return found


def _change(each: RecompileData, made: CompileData, known: Mapping[str, CompileData], *, also: bool) -> ChangeData:
    guard = guard_of(each, known)
    values = guarded_values(each, known)
    was, now = values if len(values) == 2 else ("", "")
    why = names(each.why.replace("builtins.", ""))
    if guard is not None and guard.shape is not None:
        why = f"{names(each.expression)} fails {why}"
    elif guard is not None:
        of_tensor = guard.tensor is not None and not why.startswith("is ")
        why = f"{names(guard.source)}{'.' if of_tensor else ' '}{why}".strip()
    text = each.words or why or each.expression
    span = guard.span if guard is not None else None
    return ChangeData(text, was, now, each.of, each.guard, span, stops(each, known, made), also)
