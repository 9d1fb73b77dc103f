"""What every part of a record is written with: texts, places, reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from explorer.core.reasons import CATALOGUE, Why
from explorer.core.text import Text
from explorer.ir import record as data
from explorer.ir.bytecode import Span


def text(made: Text) -> data.TextData:
    return data.TextData(tuple(data.LineData(line.text, line.id, line.origins) for line in made.lines), made.language)


def span(at: Span | None) -> data.SpanData | None:
    return None if at is None else data.SpanData(at.file, at.line, at.end_line, at.column, at.end_column)


def why(reason: Why | None) -> data.WhyData | None:
    return None if reason is None else data.WhyData(reason.code, CATALOGUE[reason.code].title, reason.detail)


def reasons(codes: Iterable[str]) -> tuple[data.ReasonData, ...]:
    """The catalogue entries of `codes`, each once, sorted."""
    entries = (CATALOGUE[code] for code in sorted(set(codes)))
    return tuple(data.ReasonData(r.code, r.title, r.meaning, r.hint) for r in entries)


def shown(value: Any) -> str:
    """A field of an artifact or event as text: the same for the same program."""
    if isinstance(value, Span):
        return value.id
    if isinstance(value, (tuple, list)):
        return ", ".join(filter(None, map(shown, value)))
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return str(kind.__name__)  # its address says nothing
    return str(value)


def error(raised: BaseException | None) -> str:
    return "" if raised is None else f"{type(raised).__name__}: {raised}"
