"""The records of the processes of one job beside each other, and where they part: plain data, for the views."""

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


class RankPartingData(Data, frozen=True):
    """The first line where a rank (an index) parts from the first one that made the same compile: in which text, at
    which of its lines (from 1), and both lines ("" where a text has ended). `also` names the later texts in which they
    differ."""

    rank: Whole
    what: str
    line: Whole
    before: str
    after: str
    also: tuple[str, ...] = ()


class RankCompileData(Data, frozen=True):
    """A compile of a function, on each rank: its id there and the seconds it took, None where that rank has it not.
    Ranks of the same `kinds` compiled the same."""

    title: str
    ids: tuple[str | None, ...]
    seconds: tuple[float | None, ...]
    kinds: tuple[str, ...]
    partings: tuple[RankPartingData, ...] = ()


class RanksData(Data, frozen=True):
    """`missing` are ranks below the highest that left no record."""

    version: Whole
    title: str
    records: tuple[RecordData, ...]
    ranks: tuple[RankData, ...]
    compiles: tuple[RankCompileData, ...]
    missing: tuple[Rank, ...] = ()
