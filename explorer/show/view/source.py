"""The source lines that a compile names."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.ir.record import CompileData, RecordData


def used_lines(compile: CompileData, *, graphs_only: bool = False) -> dict[str, set[int]]:
    """The source lines that a compile names, by file: those of its graphs' nodes, and of the bytecode evaluated."""
    used: dict[str, set[int]] = {}
    spans = [node.span for stage in compile.stages if stage.graph for node in stage.graph.nodes]
    if not graphs_only:
        spans += [i.span for each in compile.codes for i in each.instructions]
    for span in spans:
        if span is not None:
            used.setdefault(span.file, set()).update((span.line, span.end_line))
    for each in () if graphs_only else compile.codes:
        used.setdefault(each.file, set()).add(each.line)
    return used


def file_names(record: RecordData) -> dict[str, str]:
    """What a person calls a file whose path says little, by path: "In[3]" for a notebook's cell."""
    return {source.file: source.name for source in record.sources if source.name}


def stretches(numbers: Iterable[int], gap: int = 6) -> list[tuple[int, int]]:
    """Runs of line numbers, (first, last), joined where at most `gap` lines lie between."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number - found[-1][1] <= gap:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
