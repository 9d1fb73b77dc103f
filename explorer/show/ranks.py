"""Ranks: the records of all ranks of one job, and where they first differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from explorer.core.files import visible
from explorer.core.text import count
from explorer.records.data.ranks import RANKS_MIME, RankCompileData, RanksData
from explorer.records.logs.ranks import ranked
from explorer.records.logs.read import read
from explorer.show.record import Bundle, Record, Viewable, compared_bundle
from explorer.show.view import ranks as view
from explorer.show.view.size_limit import all_within, packed_size

RECORDS = (".json", ".json.gz")
"""File name suffixes of records; other files are logs."""


class Ranks(Viewable[RanksData]):
    """The records of one job by rank. Holds no live object: all of it is in `data`."""

    def __init__(self, data: RanksData) -> None:
        self.data = data

    @classmethod
    def of(cls, records: Sequence[Record], title: str = "ranks") -> Ranks:
        return cls(ranked(title, [record.data for record in records]))

    @classmethod
    def load(cls, *paths: str | os.PathLike[str]) -> Ranks:
        """Read what each process left: logs of TORCH_TRACE, folders of them (a log for each rank) or of
        TORCH_COMPILE_DEBUG, and saved records. Runs nothing. Raises LogError or RecordError naming what is neither,
        OSError where a path cannot be read."""
        found = [record for path in map(Path, paths) for record in _records(path)]
        return cls.of(found, " ".join(Path(path).name for path in paths))

    def __len__(self) -> int:
        return len(self.data.records)

    def __getitem__(self, index: int) -> Record:
        """The record at this index; ranks without a record are not counted."""
        return Record(self.data.records[index])

    def __iter__(self) -> Iterator[Record]:
        return map(Record, self.data.records)

    def text(self) -> str:
        return view.text(self.data)

    def __repr__(self) -> str:
        return visible(self.text())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The records and their differences as JSON, cut where a notebook is not to hold them, and as text."""
        return compared_bundle(RANKS_MIME, self._within, "print(ranks)", repr(self), view.html(self.data))

    def _within(self, room: int) -> RanksData:
        shown = _first(self.data, len(self.data.ranks), len(self.data.compiles))
        ranks, compiles = len(shown.ranks), len(shown.compiles)
        replace = msgspec.structs.replace
        while (left := room - packed_size(replace(shown, records=()))) < WORTH_KEEPING and (ranks, compiles) > (1, 0):
            ranks, compiles = (ranks // 2, compiles) if ranks > FEWEST else (ranks, compiles // 2)
            shown = _first(self.data, ranks, compiles)
        kept = max(left, 0) // WORTH_KEEPING
        while True:
            whole = replace(shown, records=all_within(shown.records[:kept], left))
            if not kept or packed_size(whole) <= room:
                return whole
            kept //= 2


FEWEST = 8
"""Ranks that an output shows before it leaves out compiles."""

WORTH_KEEPING = 3000
"""Bytes of an output, compressed, that a record in it has at least."""

MOST_MISSING = 1000
"""Ranks without a log that an output names."""


def _first(data: RanksData, ranks: int, compiles: int) -> RanksData:
    """So many of the ranks, those first that others are compared with and one of each kind, and so many compiles, those
    first that differ. The title tells of the others."""
    if (ranks, compiles) == (len(data.ranks), len(data.compiles)) and len(data.missing) <= MOST_MISSING:
        return data
    differing = set(map(id, sorted(data.compiles, key=lambda each: not each.divergences)[:compiles]))
    some = [each for each in data.compiles if id(each) in differing]
    firsts = [next(n for n, kind in enumerate(each.kinds) if kind) for each in some]
    kinds = {tuple(each.kinds[n] for each in some): n for n in reversed(range(len(data.ranks)))}
    in_turn = dict.fromkeys([*firsts, *sorted(kinds.values()), *range(len(data.ranks))])
    chosen = sorted(list(in_turn)[:ranks])
    at = {rank: n for n, rank in enumerate(chosen)}
    left = [f"{ranks} of {count(len(data.ranks), 'rank')}"] if ranks < len(data.ranks) else []
    left += [f"{compiles} of {count(len(data.compiles), 'compile')}"] if compiles < len(data.compiles) else []
    named = "; ".join([*left, "print(ranks) and ranks.to_html(path) have all"])
    return RanksData(
        data.version,
        f"{data.title[:LONGEST_TITLE]} ({named})",
        tuple(data.records[n] for n in chosen),
        tuple(data.ranks[n] for n in chosen),
        tuple(_of(each, chosen, at) for each in some),
        data.missing[:MOST_MISSING],
    )


LONGEST_TITLE = 500


def _of(compile: RankCompileData, chosen: Sequence[int], at: Mapping[int, int]) -> RankCompileData:
    kept = (msgspec.structs.replace(each, rank=at[each.rank]) for each in compile.divergences if each.rank in at)
    return RankCompileData(
        compile.title,
        tuple(compile.ids[n] for n in chosen),
        tuple(compile.seconds[n] for n in chosen),
        tuple(compile.kinds[n] for n in chosen),
        tuple(kept),
    )


def _records(path: Path) -> Iterator[Record]:
    if path.is_file() and path.name.endswith(RECORDS):
        yield Record.load(path)
    else:
        yield from map(Record, read(path))
