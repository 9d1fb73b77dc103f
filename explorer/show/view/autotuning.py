"""What stock's autotuning measured: the candidates for each operation, their times, and the one that was taken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from explorer.core.text import count
from explorer.ir.record import CompileData, RecordData
from explorer.show.view.amounts import duration
from explorer.show.view.provenance import file_names, provenance

SHOWN = 10
"""Candidates of one operation that are told one by one."""

_CANDIDATE = re.compile(r"([-+.\w]{1,20}) (\S+) ?(.*)")


def lines(record: RecordData) -> Iterator[str]:
    names = file_names(record)
    for compile in record.compiles:
        for fields in (event.fields for event in compile.events if event.kind == "Autotuned"):
            yield from _operation(compile, fields, names)


def _operation(compile: CompileData, fields: Mapping[str, str], names: Mapping[str, str]) -> Iterator[str]:
    at = [fields["at"]] if fields.get("at") else _lines(compile, fields.get("node", ""))
    places = [f"{names.get(file, file)}:{line}" for file, _, line in (each.rpartition(":") for each in at)]
    place = f" ({', '.join(places)})" if places else ""
    number, took = fields.get("count", ""), _seconds(fields.get("seconds", ""))
    said = count(int(number), "candidate") if re.fullmatch("[0-9]{1,9}", number) else "candidates"
    said += f", measured in {duration(took)}" if took is not None else ", measured before"
    yield f"{compile.id} {fields.get('operation', '')} of {fields.get('inputs', '')}{place}: {said}:"
    found = [match for each in fields.get("candidates", "").splitlines() if (match := _CANDIDATE.fullmatch(each))]
    best = _seconds(found[0][1]) if found else None
    chosen = fields.get("chosen", "")
    for each in found[:SHOWN]:
        seconds, about = _seconds(each[1]), f"  {each[3]}" if each[3] else ""
        times = f" {seconds / best:6.2f}x" if seconds is not None and best else ""
        time = f"{duration(seconds):>8}{times}" if seconds is not None else "  failed"
        yield f"  {time}  {each[2]}{'  <- taken' if each[2] == chosen else ''}{about}"
    if len(found) > SHOWN:
        yield f"  and {count(len(found) - SHOWN, 'slower one')}"
    if chosen and chosen not in [each[2] for each in found[:SHOWN]]:
        yield f"  taken: {chosen}"
    if fields.get("fastest"):
        yield "  the log names the fastest alone"
    elif not chosen:
        yield "  which one is taken is decided when it is known what can be fused into each"


def _lines(compile: CompileData, name: str) -> list[str]:
    """The lines that led to a node which a pass made."""
    graphs = (stage.graph for stage in reversed(compile.stages) if stage.graph is not None)
    found = next((node for graph in graphs for node in graph.nodes if node.name == name), None)
    return sorted(provenance(compile).source_lines(found.id))[:SHOWN] if found is not None else []


def _seconds(text: str) -> float | None:
    """None for what is no finite time, as that of a candidate that failed."""
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?(?:e[-+]\d{1,2})?", text) else None
