"""Ranks: the records of all ranks of one job, and where they first differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from explorer.core.untrusted import visible
from explorer.ir.ranks import RANKS_MIME, RanksData
from explorer.records.logs.ranks import ranked
from explorer.records.logs.read import read
from explorer.records.session import Bundle, Record, compared_bundle, write_whole
from explorer.show.view import ranks as view
from explorer.show.view import report
from explorer.show.view.size_limit import all_within, packed_size

RECORDS = (".json", ".json.gz")
"""File name suffixes of records; other files are logs."""


class Ranks:
    """The records of one job by rank. Holds no live object: what it shows is in `data`."""

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

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page with the viewer, which needs no network. Raises OSError naming the path."""
        target = Path(path)
        write_whole(target, report.page(self.data))
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        """The records and their differences as JSON, cut where a notebook is not to hold them, and as text."""
        return compared_bundle(RANKS_MIME, self._within, "print(ranks)", repr(self), view.html(self.data))

    def _within(self, room: int) -> RanksData:
        left = room - packed_size(msgspec.structs.replace(self.data, records=()))
        return msgspec.structs.replace(self.data, records=all_within(self.data.records, left))


def _records(path: Path) -> Iterator[Record]:
    if path.is_file() and path.name.endswith(RECORDS):
        yield Record.load(path)
    else:
        yield from map(Record, read(path))
