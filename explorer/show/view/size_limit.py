"""Shortens records that are too large for a notebook, which is slow to save and to open with them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from explorer.ir import record as data

Shown = TypeVar("Shown", bound=data.Data)

MOST_BYTES = 10_000_000
"""Limit for one record's JSON in an output."""

LONGEST = 20_000
"""The first limit tried for the lines of a text."""


def within_size_limit(record: data.RecordData, most: int = MOST_BYTES) -> data.RecordData:
    """The record, with its texts truncated if it is too large; each says how many lines are omitted, and a note says
    why. If that is not enough, the evaluator's steps, bytecode, guards and events are omitted too."""
    if size(record) <= most:
        return record
    said = f"The record has {size(record) / 1e6:.1f} MB, too much for a notebook's output"
    lines = LONGEST
    while lines >= 10:
        cut = _noted(
            _cut(record, lines), f"{said}: texts are truncated to {lines} lines here. Record.save writes all of it."
        )
        if size(cut) <= most:
            return cut
        lines //= 2
    emptied = tuple(
        msgspec.structs.replace(c, steps=(), activations=(), events=(), codes=(), guards=())
        for c in _cut(record, lines).compiles
    )
    left = "steps, bytecode, guards and events are omitted, and texts truncated"
    return _noted(
        msgspec.structs.replace(record, compiles=emptied), f"{said}: {left} here. Record.save writes all of it."
    )


def truncated(shown: Shown, most: int = MOST_BYTES) -> Shown:
    """The data, with its texts truncated if it is too large; each says how many lines are omitted."""
    lines, cut = LONGEST, shown
    while size(cut) > most and lines >= 10:
        cut = _cut(shown, lines)
        lines //= 2
    return cut


def size(shown: data.Data) -> int:
    return len(msgspec.json.encode(shown))


def _noted(record: data.RecordData, note: str) -> data.RecordData:
    return msgspec.structs.replace(record, notes=(*record.notes, note), cut=True)


def _cut(value: Any, lines: int) -> Any:
    """The same data with every text truncated."""
    if isinstance(value, data.TextData):
        if len(value.lines) <= lines:
            return value
        left = data.LineData(f"... {len(value.lines) - lines} lines omitted", "", ("synthetic:omitted",))
        return msgspec.structs.replace(value, lines=(*value.lines[:lines], left))
    if isinstance(value, tuple):
        return tuple(_cut(item, lines) for item in value)
    if isinstance(value, dict):
        return {key: _cut(item, lines) for key, item in value.items()}
    if isinstance(value, data.Data) and not isinstance(value, LEAVES):
        changed = {name: _cut(getattr(value, name), lines) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    return value


LEAVES = (data.GraphData, data.GuardData, data.CodeData, data.EventData, data.ScheduleData, data.TimingData)
"""Kinds of data that hold no text."""
