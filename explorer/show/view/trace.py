"""The compile, and one call, on a time axis: a trace in the format of Chrome's trace viewer, which Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from explorer.core.text import count, duration
from explorer.ir.record import CallData, CompileData, HalfData, NodeData, RecordData
from explorer.records.data.provenance import file_names

COMPILE, CALL = 1, 2
"""The two groups of rows."""

END_TO_END = "kernels and library calls, each by its median time, end to end: gaps between them are not measured"
AS_IT_RAN = "kernels and library calls of one call, as they ran"


def chrome_trace(record: RecordData) -> str:
    """JSON text. Times are microseconds; the first compile begins at 0, and so does the call."""
    return json.dumps({"traceEvents": [*_compiling(record), *_calling(record)], "displayTimeUnit": "ms"})


def _row(group: int, name: str, thread: int, row: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": group, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_name", "pid": group, "tid": thread, "args": {"name": row}}


def _slice(group: int, thread: int, name: str, start: float, seconds: float, **arguments: object) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "pid": group, "tid": thread, "ts": start * 1e6, "dur": max(0.0, seconds) * 1e6,
        "args": {key: value for key, value in arguments.items() if value not in (None, "", [])},
    }  # fmt: skip


def _compiling(record: RecordData) -> Iterator[dict[str, Any]]:
    """Measured: each compile with its stages."""
    ran = [each for each in record.compiles if each.stages]
    begun = min((each.started for each in ran), default=0.0)
    engines = list(dict.fromkeys(each.engine for each in ran))
    for thread, engine in enumerate(engines):
        yield from _row(COMPILE, "compile", thread, engine)
        for compile in (each for each in ran if each.engine == engine):
            why = [each.words or each.why for each in compile.recompiles]
            start = compile.started - begun
            yield _slice(COMPILE, thread, f"{compile.id} {compile.name}", start, compile.seconds, recompiled=why)
            for stage in compile.stages:
                name, start = f"{stage.name} {compile.half_title(stage.half)}", stage.started - begun
                yield _slice(COMPILE, thread, name, start, stage.seconds, id=stage.id, error=stage.error)


def _calling(record: RecordData) -> Iterator[dict[str, Any]]:
    """One call of each engine: the whole as measured, and what it is known to be made of."""
    timing = record.timing
    for number, contestant in enumerate(timing.contestants if timing is not None else ()):
        whole, parts = 2 * number, 2 * number + 1
        yield from _row(CALL, "one call", whole, contestant.name)
        if (call := contestant.call) is not None:
            yield from _measured(record, contestant.name, call, whole, parts)
            continue
        yield _slice(CALL, whole, f"a call of {contestant.name} (median)", 0.0, contestant.median)
        at = 0.0
        made = [each for each in record.compiles if each.engine == contestant.name]
        for compile in made:
            for half in compile.halves:
                for name, seconds, arguments in _launches(record, compile, half):
                    if not at:
                        yield from _row(CALL, "one call", parts, f"{contestant.name}: {END_TO_END}")
                    yield _slice(CALL, parts, name, at, seconds, **arguments)
                    at += seconds


def _measured(record: RecordData, engine: str, call: CallData, whole: int, parts: int) -> Iterator[dict[str, Any]]:
    """A call with its gaps."""
    yield _slice(CALL, whole, f"a call of {engine} (one, measured)", 0.0, call.seconds)
    yield from _row(CALL, "one call", parts, f"{engine}: {AS_IT_RAN}")
    known = {
        (compile.id, half.name, each["id"]): (name, each)
        for compile in record.compiles for half in compile.halves for name, _, each in _launches(record, compile, half)
    }  # fmt: skip
    for each in call.launches:
        found = [known.get((each.compile, each.half, id), (id, {"id": id})) for id in each.ids.split(", ")]
        lines = list(dict.fromkeys(line for _, arguments in found for line in arguments.get("lines", ())))
        bytes = sum(arguments.get("bytes") or 0 for _, arguments in found)
        arguments = {"id": each.ids, "half": each.half, "lines": lines, "bytes": bytes or None}
        yield _slice(CALL, parts, ", ".join(name for name, _ in found), each.start, each.seconds, **arguments)


LARGEST = 5
"""Gaps that are listed one by one."""


def gaps(record: RecordData) -> Iterator[str]:
    """Where the time of one call goes: in launches, and before, between and after them."""
    titles = {(of.id, half.name): of.half_title(half.name) for of in record.compiles for half in of.halves}
    for contestant in record.timing.contestants if record.timing is not None else ():
        call = contestant.call
        if call is None or not call.launches:
            continue
        within = sum(each.seconds for each in call.launches)
        share = 100 * within / call.seconds if call.seconds > 0 else 0.0
        yield (
            f"{contestant.name}: one call took {duration(call.seconds)}: {duration(within)} ({share:.0f} %) in "
            f"{count(len(call.launches), 'kernel or library call', 'kernels and library calls')}; longest gaps:"
        )
        ends, name, found = 0.0, "", []
        for each in call.launches:
            own = f"{titles.get((each.compile, each.half), each.half)} {each.ids}"
            found.append((each.start - ends, f"between {name} and {own}" if name else f"before the first, {own}"))
            ends, name = each.start + each.seconds, own
        found.append((call.seconds - ends, f"after the last, {name}"))
        for gap, where in sorted(found, key=lambda each: -each[0])[:LARGEST]:
            yield f"  {duration(max(0.0, gap)):>8}  {where}"


def _launches(record: RecordData, compile: CompileData, half: HalfData) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """What a half launches, in order, with the lines of the program that it is for."""
    files = file_names(record)
    nodes: dict[str, NodeData] = {}
    for stage in compile.stages:
        nodes.update((node.id, node) for node in (stage.graph.nodes if stage.graph is not None else ()))
    kernels = {each.id: each for each in half.kernels}
    operations = {each.id: each for each in half.operations}
    for item in half.schedule.items if half.schedule is not None else ():
        kernel, operation = kernels.get(item.id), operations.get(item.id)
        seconds = kernel.seconds if kernel is not None else half.extern_seconds.get(item.id)
        if seconds is None:
            continue
        origins = kernel.origins if kernel is not None else operation.origins if operation is not None else ()
        spans = [span for id in origins if id in nodes and (span := nodes[id].span) is not None]
        lines = list(dict.fromkeys(f"{files.get(span.file, span.file)}:{span.line}" for span in spans))
        name = kernel.function if kernel is not None else operation.target if operation is not None else item.id
        arguments = {
            "id": item.id,
            "half": half.name,
            "lines": lines,
            "bytes": kernel.bytes if kernel is not None else None,
        }
        yield f"{item.id} {name}", seconds, arguments
