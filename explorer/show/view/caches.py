"""What caches answered in each compile: stock's of compiled graphs, with the part of a key that differed, and those of
built kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from explorer.core.text import duration
from explorer.ir.record import CacheKeyData, CompileData, RecordData

SHOWN = 8
"""Parts of a key that are named."""

FIRST_KEY = (
    "this is the first key of this cache here; save the record, and `explorer diff` compares it with another run's"
)
NO_PARTS = "torch does not report the parts of this key"


def lines(compiles: Sequence[CompileData]) -> Iterator[str]:
    known = {key.id: key.key for each in compiles for key in each.cache_keys}
    for each in compiles:
        for event in each.events:
            if event.kind == "Cache":
                yield f"{each.id} {each.name}: {event.fields.get('cache', '')}: {event.fields.get('state', '')}"
        missed = {e.fields.get("cache") for e in each.events if e.fields.get("state", "").startswith("miss")}
        for key in each.cache_keys:
            if key.cache in missed:
                yield from (f"  {line}" for line in differs(key, known))
        for half in each.halves:
            for build in half.builds:
                came = "found in the cache" if build.cached else f"built by {build.tool} in {duration(build.seconds)}"
                yield f"{each.half_title(half.name)}: {PurePath(build.output).name}: {came}"


def differs(key: CacheKeyData, known: Mapping[str, str]) -> Iterator[str]:
    """The parts of a key that the most similar earlier one lacks; `known` are the keys of the record by their ids."""
    if not key.like:
        yield f"{key.cache}: {FIRST_KEY if key.parts else NO_PARTS}"
    elif not key.parts and not key.lacks:
        same = known.get(key.like) == key.key
        yield f"{key.cache}: {f'the key is that of {key.like}, whose entry was not kept' if same else NO_PARTS}"
    else:
        yield f"{key.cache}: the key differs from the most similar earlier one ({key.like}) in:"
        for name, value in list(key.parts.items())[:SHOWN]:
            yield f"  {name}: now {' '.join(value.partition(' ')[2].split())}"
        yield from (f"  {name}: no longer there" for name in key.lacks[:SHOWN])
        if (more := len(key.parts) + len(key.lacks) - 2 * SHOWN) > 0:
            yield f"  ... and {more} more"


def whole_keys(record: RecordData) -> dict[tuple[str, str], Mapping[str, str]]:
    """All parts of each key, by its id and cache; those of a key whose nearest is not in the record are left out."""
    keys = {key.id: key for compile in record.compiles for key in compile.cache_keys}
    made: dict[str, Mapping[str, str]] = {}
    for id, key in keys.items():
        if not key.like:
            made[id] = key.parts
        elif key.like in made:
            kept = {name: value for name, value in made[key.like].items() if name not in key.lacks}
            made[id] = {**kept, **key.parts}
    return {(id, keys[id].cache): parts for id, parts in made.items()}
