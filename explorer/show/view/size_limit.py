"""Shortens records that are too large for a notebook, which is slow to save and to open with them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from explorer.ir import record as data

Shown = TypeVar("Shown", bound=data.Data)

MOST_BYTES = 10_000_000
"""Limit for one record's JSON in an output that is not compressed."""

MOST_PACKED = 5_000_000
"""Limit for one record in an output, compressed and in base64."""

SAFE = 0.8
"""Of the limit, what is aimed at: how well a shortened record compresses is not known before."""

LONGEST = 20_000
"""The first limit tried for the lines of a text."""


def within_size_limit(record: data.RecordData, most: int = MOST_BYTES) -> data.RecordData:
    """The record, with its texts truncated if it is too large; each says how many lines are omitted, and a note says
    why. If that is not enough, the evaluator's steps, bytecode, guards and events are omitted too."""
    if size(record) <= most:
        return record
    said = f"The record has {size(record) / 1e6:.1f} MB, too much for a notebook's output"
    bare = _mapped(record, data.KernelData, lambda kernel: msgspec.structs.replace(kernel, lowered={}))
    cut = _noted(bare, f"{said}: the kernels' machine code is omitted here. Record.save writes all of it.")
    lines = LONGEST
    while size(cut) > most and lines >= 10:
        left = f"machine code is omitted, and texts are truncated to {lines} lines here"
        cut = _noted(_cut(bare, lines), f"{said}: {left}. Record.save writes all of it.")
        lines //= 2
    if size(cut) <= most:
        return cut
    emptied = tuple(
        msgspec.structs.replace(c, steps=(), activations=(), values=(), made={}, events=(), codes=(), guards=())
        for c in _cut(bare, lines).compiles
    )
    left = "steps, bytecode, guards and events are omitted, and texts truncated"
    return _noted(
        msgspec.structs.replace(record, compiles=emptied), f"{said}: {left} here. Record.save writes all of it."
    )


def for_output(record: data.RecordData, most: int = MOST_PACKED) -> data.RecordData:
    """The record as an output holds it, compressed: whole, if it is not very large."""
    encoded = data.encoded(record)
    if len(encoded) <= most:
        return record
    packed = len(gzip.compress(encoded)) * 4 // 3
    return record if packed <= most else within_size_limit(record, int(SAFE * most * len(encoded) / packed))


def truncated(shown: Shown, most: int = MOST_BYTES) -> Shown:
    """The data, with its texts truncated if it is too large; each says how many lines are omitted."""
    lines, cut = LONGEST, shown
    while size(cut) > most and lines >= 10:
        cut = _cut(shown, lines)
        lines //= 2
    return cut


def size(shown: data.Data) -> int:
    return len(data.encoded(shown))


def _noted(record: data.RecordData, note: str) -> data.RecordData:
    return msgspec.structs.replace(record, notes=(*record.notes, note), cut=True)


def _cut(shown: Shown, lines: int) -> Shown:
    """The same data with every text truncated."""

    def shorter(text: data.TextData) -> data.TextData:
        if len(text.lines) <= lines:
            return text
        left = data.LineData(f"... {len(text.lines) - lines} lines omitted", "", ("synthetic:omitted",))
        return msgspec.structs.replace(text, lines=(*text.lines[:lines], left))

    made: Shown = _mapped(shown, data.TextData, shorter)
    return made


def _mapped(value: Any, kind: type[data.Data], change: Callable[[Any], data.Data]) -> Any:
    """The same data with everything of a kind changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(item, kind, change) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, kind, change) for key, item in value.items()}
    if isinstance(value, data.Data) and not isinstance(value, LEAVES):
        changed = {name: _mapped(getattr(value, name), kind, change) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    return value


LEAVES = (data.GraphData, data.GuardData, data.CodeData, data.EventData, data.ScheduleData, data.TimingData)
"""Kinds of data that hold no text."""
