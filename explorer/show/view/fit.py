"""Records that fit into a notebook: a file of many megabytes is slow to save and to open."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from explorer.ir import record as data

Shown = TypeVar("Shown", bound=data.Data)

MOST_BYTES = 10_000_000
"""Of one record's JSON in an output."""

LONGEST = 20_000
"""Lines of a text that is tried first."""


def fitted(record: data.RecordData, most: int = MOST_BYTES) -> data.RecordData:
    """The record, or one with texts cut to so few lines that it fits, each saying how many were left out, and a note
    that says so. Where even that is too much, the evaluator's steps and the events go too."""
    if size(record) <= most:
        return record
    said = f"The whole record has {size(record) / 1e6:.1f} MB, more than a notebook's output should hold"
    lines = LONGEST
    while lines >= 10:
        cut = _noted(
            _cut(record, lines), f"{said}: texts are cut after {lines} lines here. Record.save keeps all of it."
        )
        if size(cut) <= most:
            return cut
        lines //= 2
    emptied = tuple(
        msgspec.structs.replace(c, steps=(), activations=(), events=(), codes=(), guards=())
        for c in _cut(record, lines).compiles
    )
    left = "steps, bytecode, guards and events are left out, and texts cut"
    return _noted(
        msgspec.structs.replace(record, compiles=emptied), f"{said}: {left} here. Record.save keeps all of it."
    )


def cut_to_fit(shown: Shown, most: int = MOST_BYTES) -> Shown:
    """Other data with texts cut to so few lines that it fits, each saying how many were left out."""
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
    """The same data with every text cut."""
    if isinstance(value, data.TextData):
        if len(value.lines) <= lines:
            return value
        left = data.LineData(f"... {len(value.lines) - lines} lines are left out here", "", ("synthetic:left out",))
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
"""What holds no text."""
