"""Shortens records that are too large for a notebook, which is slow to save and to open with them.

What a record consists of is listed by its worth to a reader who has only the notebook: part by part is kept as long as
there is room, and a note names the rest.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from explorer.ir import record as data

Shown = TypeVar("Shown", bound=data.Data)

MOST_BYTES = 10_000_000
"""Limit for one record's JSON in an output that is not compressed."""

MOST_PACKED = 5_000_000
"""Limit for one record that a kernel sends to a page, compressed and in base64."""

MOST_ON_DISK = 40_000
"""Limit for the output of a cell in a notebook's file: the record and what hosts without the viewer show."""

LONGEST = 20_000
"""The first limit tried for the lines of a text."""

LEAST = 10
"""The fewest lines to which a text is truncated; one of which there is no room for so many is omitted."""

INDENTED = 10
"""Characters that nbformat adds to each line of a text: it is an item of a list."""

WORTH: tuple[tuple[str, dict[type[data.Data], tuple[str, ...]]], ...] = (
    ("source", {data.RecordData: ("sources",)}),
    ("breaks", {data.CompileData: ("breaks", "effects", "recompiles", "symbols")}),
    ("generated code", {data.KernelData: ("source",)}),
    ("origins of kernels", {data.KernelData: ("origins",)}),
    ("graphs", {data.StageData: ("graph", "halves")}),
    ("schedules", {data.HalfData: ("schedule", "buffers", "operations", "nodes"), data.KernelData: ("loops",)}),
    ("guards", {data.CompileData: ("guards", "inputs")}),
    ("memory", {data.HalfData: ("memory",), data.CompileData: ("saved", "activations")}),
    ("reasons", {data.RecordData: ("reasons", "answers", "history", "meanings", "operators", "calls")}),
    ("wrappers", {data.HalfData: ("wrapper",)}),
    ("stage texts", {data.StageData: ("body",)}),
    ("evaluator's steps", {data.CompileData: ("steps", "values", "made")}),
    ("bytecode", {data.CompileData: ("codes",)}),
    ("times of single runs", {data.SamplesData: ("samples",)}),
    ("times within one call", {data.SamplesData: ("call",)}),
    ("machine code", {data.KernelData: ("lowered", "remarks", "arguments", "facts", "vectorized")}),
    ("graphs between the first and the last", {}),
    ("stage texts between the first and the last", {}),
    ("explanations of the panes", {data.RecordData: ("panes", "mnemonics")}),
    ("rewrites", {data.CompileData: ("rewrites",)}),
    ("costs", {data.CompileData: ("guard_costs", "functions", "cache_keys", "eager_backward")}),
    ("attempted fixes", {data.RecordData: ("attempts",)}),
    ("events", {data.CompileData: ("events",), data.HalfData: ("builds", "written")}),
)  # fmt: skip
"""Parts of a record, most worth first, by the fields that hold them."""

RANKS = {(kind, name): rank for rank, (_, kinds) in enumerate(WORTH) for kind in kinds for name in kinds[kind]}
BETWEEN = {"graph": "graphs between the first and the last", "body": "stage texts between the first and the last"}


@dataclass(eq=False)
class Room:
    """Bytes that are left for parts of a record; where they are packed, compressed together and in base64."""

    most: int
    packed: bool
    _stream: Any = field(default_factory=lambda: zlib.compressobj(9))
    _used: int = 0

    def take(self, part: bytes) -> bool:
        """Whether there is room for one more part; then it is taken."""
        if not self.packed:
            self._used += len(part) * (fits := self._used + len(part) <= self.most)
            return fits
        left = self.most * 3 // 4 - self._used
        if len(part) > max(left, 0) * DENSEST:
            return False
        tried = self._stream.copy()
        needed = len(tried.compress(part)) + len(tried.flush(zlib.Z_SYNC_FLUSH))
        if fits := needed <= left:
            self._stream, self._used = tried, self._used + needed
        return fits


EVERY = 1 << 62
APART = ((EVERY, EVERY), (4000, EVERY), (1000, EVERY), (1000, 200), (250, 50))
"""The limits tried for what is in no part, until it leaves room for parts: characters of a text, items of a list."""

DENSEST = 100
"""Bytes of a record's JSON that fit into one byte, compressed, at most: no more are tried."""


def within_size_limit(record: data.RecordData, most: int = MOST_BYTES, *, packed: bool = False) -> data.RecordData:
    """The record, or where it is too large as much of it as fits: its parts by their worth, texts truncated, each of
    which says how many lines are omitted. A note names what is omitted. `packed`: it is measured compressed and in
    base64, as outputs hold it."""
    encoded = data.encoded(record)
    if _measured(encoded, packed) <= most:
        return record
    message = f"The record has {len(encoded) / 1e6:.1f} MB, more than a notebook is to hold"
    whole = record
    for longest, items in APART:
        record = _brief(whole, longest, items)
        parts = sorted(_parts(record), key=lambda part: part.rank)
        every = {(part.owner, part.field): _emptied(part.value) for part in parts}
        note = message if longest == EVERY else f"{message}; texts and lists in it are cut"
        least = data.encoded(_shortened(record, every, note, parts))
        if _measured(least, packed) <= most * 3 // 4:
            break
    room = Room(most, packed)
    room.take(least)
    instead, kept = dict(every), []
    for part in parts:
        for shorter in _shorter(part.value):
            if room.take(data.encoded(shorter)):
                instead[part.owner, part.field] = shorter
                kept.append(part)
                break

    def with_first(count: int) -> data.RecordData:
        here = {**instead, **{(part.owner, part.field): every[part.owner, part.field] for part in kept[count:]}}
        left = [part for part in parts if here[part.owner, part.field] is not part.value]
        return _shortened(record, here, note, left)

    def is_large(count: int) -> bool:
        return _measured(data.encoded(with_first(count)), packed) > most

    count = len(kept)
    if is_large(count):
        count = bisect.bisect_left(range(1, count), True, key=is_large)
    return with_first(count) if count else _few(with_first(0), most, packed)


def all_within(records: Sequence[data.RecordData], most: int) -> tuple[data.RecordData, ...]:
    """Several records in the room of one, compressed: what small ones leave is for the larger."""
    found: dict[int, data.RecordData] = {}
    smallest_first = sorted(range(len(records)), key=[packed_size(record) for record in records].__getitem__)
    for done, number in enumerate(smallest_first):
        found[number] = within_size_limit(records[number], max(most // (len(records) - done), 0), packed=True)
        most -= packed_size(found[number])
    return tuple(found[number] for number in range(len(records)))


def for_page(record: data.RecordData) -> data.RecordData:
    """The record as a kernel sends it to a page: whole, if it is not very large."""
    return within_size_limit(record, MOST_PACKED, packed=True)


def on_disk(text: str) -> int:
    """Bytes that a text takes in a notebook's file, which has an item for each of its lines."""
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) + INDENTED * (text.count("\n") + 1)


def lines_on_disk(lines: Sequence[str], most: int) -> int:
    """How many of the lines, from the first on, a notebook's file holds in so many bytes."""
    taken = itertools.accumulate(on_disk(line) for line in lines)
    return sum(1 for _ in itertools.takewhile(lambda bytes: bytes <= most, taken))


def truncated(shown: Shown, most: int) -> Shown:
    """The data, with its texts truncated if compressed it is too large; each says how many lines are omitted."""
    lines, cut = LONGEST, shown
    while packed_size(cut) > most and lines:
        lines //= 2
        cut = _mapped(shown, data.TextData, functools.partial(_cut, lines=lines))
    return cut


def size(shown: data.Data) -> int:
    return len(data.encoded(shown))


def packed_size(shown: data.Data) -> int:
    """Bytes that the data takes in an output."""
    return _measured(data.encoded(shown), True)


def _measured(encoded: bytes, packed: bool) -> int:
    return -(-len(zlib.compress(encoded, 9)) // 3) * 4 + GZIP if packed else len(encoded)


GZIP = 24
"""Characters that gzip's own head and end take more than those of zlib."""


@dataclass(frozen=True)
class _Part:
    """What one field of a structure of the record holds; `owner` is the structure's id."""

    rank: int
    name: str
    owner: int
    field: str
    value: Any


def _parts(value: object, between: frozenset[int] = frozenset()) -> Iterator[_Part]:
    """The parts of a record, in its order. `between` are the ids of stages that are not the first or last of their
    compile that have a graph."""
    if isinstance(value, tuple):
        for item in value:
            yield from _parts(item, between)
    if not isinstance(value, WITH_PARTS):
        return
    if isinstance(value, data.CompileData):
        between = frozenset(id(stage) for stage in [each for each in value.stages if each.graph is not None][1:-1])
    for name in value.__struct_fields__:
        held = getattr(value, name)
        rank = RANKS.get((type(value), name))
        if rank is None:
            yield from _parts(held, between)
        elif held:
            named = BETWEEN[name] if id(value) in between and name in BETWEEN else WORTH[rank][0]
            yield _Part(NAMED[named], named, id(value), name, held)


NAMED = {name: rank for rank, (name, _) in enumerate(WORTH)}
WITH_PARTS: tuple[type[data.Data], ...] = (data.TimingData, *{kind for kind, _ in RANKS})


def _emptied(value: object) -> object:
    """What a field holds whose content is omitted."""
    if isinstance(value, data.TextData):
        return _brief(_cut(value, 0), *APART[-1])
    return type(value)() if isinstance(value, (tuple, dict, str)) else None


def _shorter(value: object) -> Iterator[object]:
    """The value, and then shorter ones of its kind."""
    yield value
    if isinstance(value, data.TextData):
        lines = len(value.lines) // 2
        while lines >= LEAST:
            yield _cut(value, lines)
            lines //= 2


def _shortened(
    record: data.RecordData, instead: dict[tuple[int, str], object], message: str, left: list[_Part]
) -> data.RecordData:
    """The record with other values in some of its fields, and a note that names what is left out."""
    made: data.RecordData = _replaced(record, instead)
    names = " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:]))) if (found := _names(left)) else ""
    note = f"{message}: of its {names}, not all is here. Running the cell again shows all, and Record.save writes it."
    return msgspec.structs.replace(made, notes=(*made.notes, note), cut=True)


def _names(parts: list[_Part]) -> list[str]:
    return list(dict.fromkeys(part.name for part in sorted(parts, key=lambda part: part.rank)))


def _replaced(value: object, instead: dict[tuple[int, str], object]) -> Any:
    if isinstance(value, tuple):
        return tuple(_replaced(item, instead) for item in value)
    if not isinstance(value, WITH_PARTS):
        return value
    held = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {
        name: instead[id(value), name] if (id(value), name) in instead else _replaced(item, instead)
        for name, item in held.items()
    }
    return msgspec.structs.replace(value, **changed)


def _few(record: data.RecordData, most: int, packed: bool) -> data.RecordData:
    """A record of so many compiles that not even their names fit, with the first of them; and where none is left, with
    less and less of each text and list."""
    compiles, *notes, note = record.compiles, *record.notes
    (longest, items), cut = APART[-1], record
    while _measured(data.encoded(cut), packed) > most and longest:
        if not compiles:
            longest, items = longest // 4, items // 4
        compiles = compiles[: len(compiles) // 2]
        more = f"{note} Of {len(record.compiles)} compiles, the first {len(compiles)} are here."
        rest = msgspec.structs.replace(record, compiles=compiles, notes=tuple(notes))
        rest = rest if compiles else _brief(rest, longest, items)
        cut = msgspec.structs.replace(rest, notes=(*rest.notes, more))
    return cut


def _brief(value: object, longest: int, items: int) -> Any:
    """The same data with its texts and lists as short, but for those that are parts, and for the list of compiles."""
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}..."
    if isinstance(value, tuple):
        return tuple(_brief(item, longest, items) for item in value[:items])
    if isinstance(value, dict):
        kept = itertools.islice(value.items(), items)
        return {_brief(key, longest, items): _brief(item, longest, items) for key, item in kept}
    if not isinstance(value, data.Data | data.LineData):
        return value
    changed = {}
    for name in value.__struct_fields__:
        held = getattr(value, name)
        if name == "compiles" and isinstance(value, data.RecordData):
            changed[name] = tuple(_brief(item, longest, items) for item in held)
        elif (type(value), name) not in RANKS:
            changed[name] = _brief(held, longest, items)
    return msgspec.structs.replace(value, **changed)


def _cut(text: data.TextData, lines: int) -> data.TextData:
    if len(text.lines) <= lines:
        return text
    left = data.LineData(f"... {len(text.lines) - lines} lines omitted", "", ("synthetic:omitted",))
    return msgspec.structs.replace(text, lines=(*text.lines[:lines], left))


def _mapped(value: object, kind: type[data.Data], change: Callable[[object], data.Data]) -> Any:
    """The same data with everything of a kind changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(item, kind, change) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, kind, change) for key, item in value.items()}
    if isinstance(value, data.Data):
        changed = {name: _mapped(getattr(value, name), kind, change) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    return value
