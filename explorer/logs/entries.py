"""The lines of a TORCH_TRACE log (stock: torch/_logging, "structured trace"): a JSON object each, some with a payload.

A line begins like glog's ("V1121 18:29:14.686000 28753 file.py:12] "); the payload's lines follow, each after a tab.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

HEAD = re.compile(r"[VIWE](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,6}) \d+ (\S+?):(\d+)\] (\{.*)")
ABOUT = frozenset(("frame_id", "frame_compile_id", "attempt", "has_payload", "rank", "compiled_autograd_id", "stack"))
"""Fields that every kind of entry may have."""


@dataclass(frozen=True)
class Entry:
    """One line with its payload. `kind` is the field that says what it is, `name` an artifact's own; `compile` is
    torch's compile id ("3/1"), "" outside one. `seconds` counts from the log's first line."""

    line: int
    seconds: float
    kind: str
    name: str
    compile: str
    rank: int | None
    fields: Any
    payload: str


@dataclass(frozen=True)
class Damage:
    """Something in a log that could not be read."""

    line: int
    what: str


def entries(lines: Iterable[str]) -> Iterator[Entry | Damage]:
    """The entries of a log in order. What cannot be read comes as Damage, and reading goes on behind it."""
    head: tuple[int, str] | None = None
    payload: list[str] = []
    first: list[datetime] = []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        if line.startswith("\t"):
            if head is None:
                yield Damage(number, "a payload without the line it belongs to")
            payload.append(line[1:])
            continue
        if head is not None:
            yield _entry(*head, payload, first)
        payload = []
        head = (number, line) if line else None
    if head is not None:
        yield _entry(*head, payload, first)


def _entry(number: int, head: str, payload: list[str], first: list[datetime]) -> Entry | Damage:
    found = HEAD.fullmatch(head)
    if found is None:
        return Damage(number, f"not a line of a structured trace: {head[:80]!r}")
    try:
        fields = json.loads(found[9])
    except (json.JSONDecodeError, RecursionError) as error:
        return Damage(number, f"broken JSON: {error}")
    wanted = fields.get("has_payload")
    text = "\n".join(payload)
    if wanted is not None and hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() != wanted:
        return Damage(number, f"the payload of {_kind(fields)} is cut off or changed (its checksum differs)")
    at = _time(found)
    if at is None:
        return Damage(number, f"no such time: {head[:22]!r}")
    first = first or first.append(at) or first  # type: ignore[func-returns-value]
    kind = _kind(fields)
    inner = fields.get(kind)
    name = str(inner.get("name", "")) if kind == "artifact" and isinstance(inner, dict) else ""
    rank = fields.get("rank")
    seconds = (at - first[0]).total_seconds()
    return Entry(number, seconds, kind, name, _compile(fields), rank if isinstance(rank, int) else None, inner, text)


def _time(found: re.Match[str]) -> datetime | None:
    """A log names no year; a leap year allows every date."""
    month, day, hour, minute, second = (int(found[i]) for i in range(1, 6))
    try:
        return datetime(2000, month, day, hour, minute, second, int(found[6].ljust(6, "0")))
    except ValueError:
        return None


def _kind(fields: Any) -> str:
    return next((str(name) for name in fields if name not in ABOUT), "stack" if "stack" in fields else "empty")


def _compile(fields: Any) -> str:
    frame, again = fields.get("frame_id"), fields.get("frame_compile_id")
    return f"{frame}/{again}" if isinstance(frame, int) and isinstance(again, int) else ""
