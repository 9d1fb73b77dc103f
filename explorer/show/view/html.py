"""The record as HTML without scripts: the summary, the graph breaks and the generated code, as a whole page or as a
fragment for notebooks. Everything shown is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from explorer.core.text import count, duration
from explorer.ir.record import RecordData, SamplesData
from explorer.show.view import text
from explorer.show.view.size_limit import lines_on_disk, on_disk

# Several records side by side: the columns that the terminal's table and the page's share.


COLUMNS = (
    "program", "speed", "speed of stock torch.compile", "accuracy", "compiled", "graph breaks", "guards",
    "ATen calls that run eagerly", "compile time", "compile time of stock", "a call in eager", "a call, compiled",
    "a call, compiled by stock",
)  # fmt: skip


@dataclass(frozen=True)
class IndexRow:
    """A record and where its page lies, relative to the comparison."""

    record: RecordData
    page: str


def cells(entry: IndexRow) -> tuple[str, ...]:
    """One row, a text for each of COLUMNS; what was not measured is empty."""
    record = entry.record
    texts = {(part.what, part.engine): part.text for part in record.glance}
    timed = {each.name: each for each in record.timing.contestants} if record.timing else {}
    return (
        record.title,
        *(texts.get(("speed", engine), "") for engine in ("explorer", "stock")),
        *(texts.get((what, "explorer"), "") for what in ("accuracy", "operations")),
        str(sum(len(compile.breaks) for compile in record.compiles)),
        str(sum(len(compile.guards) for compile in record.compiles)),
        str(record.coverage.fallback),
        _compile(timed.get("explorer")),
        _compile(timed.get("stock")),
        *(_median(timed.get(name)) for name in ("eager", "explorer", "stock")),
    )


def _compile(of: SamplesData | None) -> str:
    if of is None or of.compile_seconds is None:
        return ""
    return duration(of.compile_seconds) + (f" ({of.note})" if of.note else "")


def _median(of: SamplesData | None) -> str:
    return "" if of is None else f"{duration(of.median)}{text.quartiles(of)}"


MOST = 40_000
"""Bytes of what is shown without scripts, about; the record holds all."""


def page(record: RecordData, note: str = "") -> str:
    """A complete document; `note` stands below its title."""
    message = f"<p>{escape(note)}</p>" if note else ""
    return document(record.title, f"<main><h1>{escape(record.title)}</h1>{message}{fragment(record)}</main>")


def index(title: str, entries: Sequence[IndexRow], note: str = "") -> str:
    """A page that compares several records side by side and leads to the page of each."""
    rows = []
    for entry in entries:
        first, *rest = map(escape, cells(entry))
        rows.append((f"<a href='{escape(entry.page)}'>{first}</a>", *rest))
    message = f"<p>{escape(note)}</p>" if note else ""
    records = [entry.record for entry in entries]
    made = [(each.engine, each.target, each.created, *map(" ".join, each.environment.items())) for each in records[:1]]
    chips = "".join(f"<span>{escape(chip)}</span>" for each in made for chip in each if chip)
    head = f"<h1>{escape(title)}</h1><p class=chips>{chips}</p>{message}"
    return document(title, f"<main>{head}{table(map(escape, COLUMNS), rows)}</main>")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th scope=col>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def fragment(record: RecordData, most: int = MOST) -> str:
    """What came of it, each graph break and the generated code: as many lines as a notebook's file holds in `most`
    bytes, about."""
    parts, omitted = [], 0
    for heading, shown in _shown(record):
        lines = shown.splitlines()
        around = on_disk(escape(heading))
        kept = lines_on_disk([escape(line, quote=False) for line in lines], most - around)
        omitted += len(lines) - kept
        if kept:
            made = f"<pre>{escape(chr(10).join(lines[:kept]), quote=False)}</pre>"
            made = f"<details><summary>{escape(heading)}</summary>{made}</details>" if heading else made
            parts.append(made)
            most -= on_disk(made)
    if omitted:
        parts.append(f"<p>{count(omitted, 'more line')} of what was compiled, and its code, are in the record.</p>")
    return "\n".join(parts)


def _shown(record: RecordData) -> Iterator[tuple[str, str]]:
    """Texts, and the headings under which they are folded."""
    yield "", text.summary(record)
    for each in text.breaks(record):
        yield "", each
    for compile in record.compiles:
        for half in compile.halves:
            for kernel in half.kernels:
                yield f"{compile.half_title(half.name)} {kernel.id}", str(kernel.source)


def document(title: str, body: str) -> str:
    """A page. No script runs in it, whatever else went wrong: its policy allows none."""
    style = files("explorer.show.view").joinpath("page.css").read_text("utf-8")
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'"
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv=Content-Security-Policy content="{policy}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}</body></html>"
    )
