"""Assembles the data of a record from its compiles."""

from __future__ import annotations

import datetime
import linecache
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType

import msgspec

from explorer.compiler.config import Config
from explorer.core.files import cell_name
from explorer.core.recorder import Recorder
from explorer.ir import record as data
from explorer.records import diagnosis, to_record
from explorer.records.data.calls import OutsideGraphs
from explorer.records.data.instructions import mnemonics
from explorer.records.data.provenance import stretches, used_lines
from explorer.records.environment import describe


def compiles_of(recorder: Recorder, seconds: Mapping[str, to_record.Seconds]) -> tuple[data.CompileData, ...]:
    """Data of all compiles of `recorder`. `seconds` are measured times of kernels, by compile."""
    return tuple(to_record.compile(run, seconds.get(run.id, {})) for run in recorder.compiles)


def settings_of(config: Config) -> dict[str, str]:
    return {field.name: str(getattr(config, field.name)) for field in fields(config)}


def assembled(
    name: str,
    engine: str,
    settings: Mapping[str, str],
    compiles: tuple[data.CompileData, ...],
    counted: Iterable[data.CompileData],
    timing: data.TimingData | None,
    *,
    failures: Iterable[data.ErrorData] = (),
    raised: tuple[str, data.SpanData | None] = ("", None),
    eager: Iterable[data.EagerData] = (),
    outside: tuple[OutsideGraphs, ...] = (),
    untimed: Mapping[str, str] = MappingProxyType({}),
    calls: tuple[data.CallsData, ...] = (),
    lines: Mapping[str, list[str]] = MappingProxyType({}),
    moment: datetime.datetime | None = None,
) -> data.RecordData:
    """Record data of `compiles`; `counted` are those whose ATen calls the coverage counts. `failures` are what calls
    raised, `raised` what a watched program ended with, and where, `eager` what ran outside graphs that no compile
    tells, `outside` what was measured of that, `untimed` by compile why it was not, `lines` are those of files that
    were read before, `moment` is when it was, by default now."""
    return data.RecordData(
        data.VERSION,
        name,
        engine,
        ", ".join(dict.fromkeys(half.target for compile in compiles for half in compile.halves if half.target)),
        (moment or datetime.datetime.now(datetime.UTC)).isoformat(timespec="seconds"),
        describe(),
        dict(settings),
        sources(compiles, lines),
        compiles,
        diagnosis.coverage(counted),
        timing,
        reasons=to_record.reasons(named_reasons(compiles)),
        meanings=to_record.meanings(compiles),
        mnemonics=mnemonics(_machine_lines(compiles)),
        recompiles=diagnosis.failed_guards(compiles),
        errors=diagnosis.with_raised(diagnosis.errors(compiles, failures), *raised),
        eager=diagnosis.untimed(
            timed_outside(diagnosis.eager(compiles, eager), compiles, outside, untimed),
            diagnosis.NOT_MEASURED if calls else "",
        ),
        calls=calls,
    )


def failure_of(text: str, place: data.SpanData | None, engine: str) -> data.ErrorData:
    """What a call raised that ran what `engine` compiled, or "" in eager."""
    error = diagnosis.error_of(text, "", "", True, engine=engine)
    return msgspec.structs.replace(error, span=place or error.span)


timed_outside, untimed_outside = diagnosis.timed, diagnosis.untimed


def _machine_lines(compiles: Iterable[data.CompileData]) -> Iterator[data.LineData]:
    for compile in compiles:
        for half in compile.halves:
            for kernel in half.kernels:
                if (asm := kernel.lowered.get("asm")) is not None:
                    yield from asm.lines


def sources(
    compiles: Iterable[data.CompileData], lines: Mapping[str, list[str]] = MappingProxyType({})
) -> tuple[data.SourceData, ...]:
    """The stretches of source that the compiles name: from the first to the last line used of each function."""
    used: dict[str, set[int]] = {}
    for compile in compiles:
        for file, numbers in used_lines(compile).items():
            used.setdefault(file, set()).update(numbers)
    return quoted(used, lines)


def quoted(
    used: Mapping[str, Iterable[int]], known: Mapping[str, list[str]] = MappingProxyType({})
) -> tuple[data.SourceData, ...]:
    """The stretches of source that hold these lines, by file; none of a file whose source is not known. Files that are
    not `known` are read now. Whatever is compiled from a text is named alike, and since Python 3.13 the text of `-c` is
    found by that name."""
    found = []
    for file, numbers in used.items():
        if file == "<string>":
            continue
        lines = [line.rstrip("\n") for line in known.get(file) or linecache.getlines(file)]
        for first, last in stretches(number for number in numbers if 0 < number <= len(lines)):
            found.append(data.SourceData(file, first, "\n".join(lines[first - 1 : last]), cell_name(file)))
    return tuple(found)


def named_reasons(compiles: Iterable[data.CompileData]) -> set[str]:
    """The catalogue codes that the compiles name."""
    found: set[str] = set()
    for compile in compiles:
        named = [b.why for b in compile.breaks] + [s.why for s in compile.saved]
        for half in compile.halves:
            if (schedule := half.schedule) is not None:
                whys = [f.why for f in schedule.fusions] + [i.why for i in schedule.items] + [schedule.otherwise]
                named += [why for why in whys if why is not None]
            named += [why for b in half.buffers for why in (b.why, b.where_why) if why is not None]
            named += [o.why for o in half.operations if o.why is not None]
        if compile.fallback is not None:
            named.append(compile.fallback)
        found.update(why.code for why in named)
    return found
