"""Several records side by side: the columns that the terminal's table and the page's share."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.record import RecordData, SamplesData
from explorer.show.view import text

COLUMNS = (
    "program",
    "graphs",
    "breaks",
    "guards",
    "kernels",
    "ATen calls: kernel + library + view",
    "fallback",
    "compile",
    "stock compiles",
    "eager",
    "explorer",
    "stock",
    "largest error",
)


@dataclass(frozen=True)
class IndexRow:
    """A record and where its page lies, relative to the comparison."""

    record: RecordData
    page: str


def cells(entry: IndexRow) -> tuple[str, ...]:
    """One row, a text for each of COLUMNS; what was not measured is empty."""
    record = entry.record
    compiles = [compile for compile in record.compiles if compile.stages]
    cover = record.coverage
    timed = {c.name: c for c in record.timing.contestants} if record.timing else {}
    accuracy = record.timing.accuracy if record.timing else None
    error = "" if accuracy is None else f"{accuracy.largest_absolute:.1e}" + (
        f" (first mismatch: {accuracy.first_mismatch})" if accuracy.first_mismatch else ""
    )  # fmt: skip
    return (
        record.title,
        str(sum(1 for compile in compiles if compile.halves)),
        str(sum(len(compile.breaks) for compile in compiles)),
        str(sum(len(compile.guards) for compile in compiles)),
        str(sum(len(half.kernels) for compile in compiles for half in compile.halves)),
        f"{cover.kernel} + {cover.extern} + {cover.view}",
        str(cover.fallback),
        _compile(timed.get("explorer")),
        _compile(timed.get("stock")),
        *(_median(timed.get(name)) for name in ("eager", "explorer", "stock")),
        error,
    )


def _compile(of: SamplesData | None) -> str:
    if of is None or of.compile_seconds is None:
        return ""
    return text.duration(of.compile_seconds) + (f" ({of.note})" if of.note else "")


def _median(of: SamplesData | None) -> str:
    return "" if of is None else f"{text.duration(of.median)}{text.quartiles(of)}"
