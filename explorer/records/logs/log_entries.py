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
MOST_COUNTED = 1 << 31
"""What numbers that count frames, attempts and ranks are below; a greater one was not written by torch."""

MOST_ENTRIES = 500_000
"""A hundred megabytes of a real log hold a tenth of them."""

MOST_PAYLOAD = 1 << 25
"""Characters of one payload."""

TOO_LARGE = f"a payload of over {MOST_PAYLOAD >> 20} MiB is left out"

ABOUT = frozenset(("frame_id", "frame_compile_id", "attempt", "has_payload", "rank", "compiled_autograd_id", "stack"))
"""Fields that every kind of entry may have."""


@dataclass(frozen=True)
class LogEntry:
    """One line with its payload. `kind` is the field that says what it is, `name` an artifact's own; `compile` is
    torch's compile id ("3/1", "!0/3/1" under compiled autograd), "" outside one; `attempt` counts how often torch began
    it over. `seconds` counts from the log's first line."""

    line: int
    seconds: float
    kind: str
    name: str
    compile: str
    rank: int | None
    fields: Any
    payload: str
    attempt: int = 0


@dataclass(frozen=True)
class Damage:
    """Something in a log that could not be read."""

    line: int
    what: str


def entries(lines: Iterable[str]) -> Iterator[LogEntry | Damage]:
    """The entries of a log in order. What cannot be read comes as Damage, and reading goes on behind it."""
    head: tuple[int, str] | None = None
    payload: list[str] = []
    size = taken = 0
    first: list[datetime] = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\n")
        if line.startswith("\t"):
            if head is None:
                yield Damage(number, "a payload without the line it belongs to")
            elif (size := size + len(line)) <= MOST_PAYLOAD:
                payload.append(line[1:])
            continue
        if head is not None:
            yield _entry(*head, payload, first) if size <= MOST_PAYLOAD else Damage(head[0], TOO_LARGE)
            if (taken := taken + 1) == MOST_ENTRIES:
                yield Damage(number, f"the log is cut here: it holds over {MOST_ENTRIES} entries")
                return
        payload, size = [], 0
        head = (number, line) if line.strip() else None
    if head is not None:
        yield _entry(*head, payload, first) if size <= MOST_PAYLOAD else Damage(head[0], TOO_LARGE)


def _entry(number: int, head: str, payload: list[str], first: list[datetime]) -> LogEntry | Damage:
    found = HEAD.fullmatch(head.rstrip())
    if found is None:
        return Damage(number, f"not a line of a structured trace: {head[:80]!r}")
    try:
        fields = _parsed(found[9])
    except (ValueError, RecursionError) as error:
        return Damage(number, f"broken JSON: {error}")
    wanted = fields.get("has_payload")
    text = _payload(payload, wanted)
    if text is None:
        return Damage(number, f"the payload of {_kind(fields)} is cut off or changed (its checksum differs)")
    at = _time(found)
    if at is None:
        return Damage(number, f"no such time: {head[:22]!r}")
    if not first:
        first.append(at)
    seconds = (at - first[0]).total_seconds()
    if seconds < -HALF_A_YEAR:  # a log names no year, and this one goes over the end of it
        seconds += 2 * HALF_A_YEAR
    kind = _kind(fields)
    inner = fields.get(kind)
    name = str(inner.get("name", "")) if kind == "artifact" and isinstance(inner, dict) else ""
    rank, attempt = counted(fields.get("rank")), counted(fields.get("attempt"))
    return LogEntry(number, seconds, kind, name, _compile(fields), rank, inner, text, attempt or 0)


def _parsed(text: str) -> Any:
    """JSON, with NaN, which torch may write. Raises ValueError, for halves of characters too: no file can hold them."""
    fields = json.loads(text)
    json.dumps(fields, ensure_ascii=False).encode()
    return fields


HALF_A_YEAR = 183 * 86400.0


def _payload(lines: list[str], wanted: object) -> str | None:
    """The payload's text, None where its checksum is not the one wanted. A log that came through Windows has a carriage
    return at the end of each line, which torch did not write."""
    text = "\n".join(lines)
    if wanted is None or _checksum(text) == wanted:
        return text
    text = "\n".join(line.removesuffix("\r") for line in lines)
    return text if _checksum(text) == wanted else None


def _checksum(text: str) -> str:
    return hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()


def _time(found: re.Match[str]) -> datetime | None:
    """A log names no year; a leap year allows every date."""
    month, day, hour, minute, second = (int(found[i]) for i in range(1, 6))
    try:
        return datetime(2000, month, day, hour, minute, second, int(found[6].ljust(6, "0")))
    except ValueError:
        return None


def _kind(fields: Any) -> str:
    return next((str(name) for name in fields if name not in ABOUT), "stack" if "stack" in fields else "empty")


def counted(value: object) -> int | None:
    """A number that torch counted; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNTED else None


def _compile(fields: Any) -> str:
    outer, frame, again = (counted(fields.get(n)) for n in ("compiled_autograd_id", "frame_id", "frame_compile_id"))
    inner = f"{frame}/{again}" if frame is not None and again is not None else ""
    return inner if outer is None else f"!{outer}/{inner}".rstrip("/")
