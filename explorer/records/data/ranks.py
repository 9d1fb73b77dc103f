"""The records of all ranks of one job, and where they first differ: plain data, for the views."""

from __future__ import annotations

from typing import Annotated

import msgspec

from explorer.ir.record import Data, RecordData, Whole

RANKS_MIME = "application/vnd.explorer.ranks+json"
RANKS_VERSION = 1

Rank = Annotated[int, msgspec.Meta(ge=0, le=999_999)]
"""No job has more processes; a greater number is not a rank."""


class RankData(Data, frozen=True):
    """One process. `number` is its rank, None where its record does not say; `seconds` is what its compiles took."""

    name: str
    number: Rank | None
    compiles: Whole
    recompiles: Whole
    graphs: Whole
    breaks: Whole
    guards: Whole
    seconds: float
    error: str = ""


class RankDivergenceData(Data, frozen=True):
    """The first line in which a compile on `rank` (an index) differs from the same compile on the first rank that has
    it: `what` names the text, `line` counts from 1, `before` and `after` are both lines ("" past the end of a text).
    `also` names later texts that differ."""

    rank: Whole
    what: str
    line: Whole
    before: str
    after: str
    also: tuple[str, ...] = ()


class RankCompileData(Data, frozen=True):
    """One compile of a function on each rank: its id and its seconds, None on ranks without it. Ranks with equal
    `kinds` compiled the same."""

    title: str
    ids: tuple[str | None, ...]
    seconds: tuple[float | None, ...]
    kinds: tuple[str, ...]
    divergences: tuple[RankDivergenceData, ...] = msgspec.field(default=(), name="partings")


class RanksData(Data, frozen=True):
    """`missing` are ranks below the highest that left no record."""

    version: Whole
    title: str
    records: tuple[RecordData, ...]
    ranks: tuple[RankData, ...]
    compiles: tuple[RankCompileData, ...]
    missing: tuple[Rank, ...] = ()
