"""The record as HTML without scripts: the summary, the graph breaks and the generated code, as a whole page or as a
fragment for notebooks. Everything shown is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from explorer.ir.record import RecordData
from explorer.show.view import text
from explorer.show.view.summary import COLUMNS, IndexRow, cells

FRAGMENT_LINES = 400
"""Lines of generated code that are shown without scripts at most; the record holds all."""


def page(record: RecordData, note: str = "") -> str:
    """A complete document; `note` stands below its title."""
    said = f"<p>{escape(note)}</p>" if note else ""
    return document(record.title, f"<main><h1>{escape(record.title)}</h1>{said}{fragment(record)}</main>")


def index(title: str, entries: Sequence[IndexRow], note: str = "") -> str:
    """A page that compares several records side by side and leads to the page of each."""
    rows = []
    for entry in entries:
        first, *rest = map(escape, cells(entry))
        rows.append((f"<a href='{escape(entry.page)}'>{first}</a>", *rest))
    said = f"<p>{escape(note)}</p>" if note else ""
    records = [entry.record for entry in entries]
    made = [(each.engine, each.target, each.created, *map(" ".join, each.environment.items())) for each in records[:1]]
    chips = "".join(f"<span>{escape(chip)}</span>" for each in made for chip in each if chip)
    head = f"<h1>{escape(title)}</h1><p class=chips>{chips}</p>{said}"
    return document(title, f"<main>{head}{table(map(escape, COLUMNS), rows)}</main>")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th scope=col>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def fragment(record: RecordData) -> str:
    """What came of it, each graph break and the generated code, capped."""
    parts = [_pre(text.summary(record)), *map(_pre, text.breaks(record))]
    left = FRAGMENT_LINES
    for compile in record.compiles:
        for half in compile.halves:
            for kernel in half.kernels:
                shown = str(kernel.source).splitlines()[: max(left, 0)]
                left -= len(shown)
                if shown:
                    heading = escape(f"{compile.id} {half.name} {kernel.id}")
                    parts.append(f"<details><summary>{heading}</summary>{_pre(chr(10).join(shown))}</details>")
    if left <= 0:
        parts.append(f"<p>Code beyond {FRAGMENT_LINES} lines is left out here; the record holds all of it.</p>")
    return "\n".join(parts)


def _pre(shown: str) -> str:
    return f"<pre>{escape(shown)}</pre>"


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
