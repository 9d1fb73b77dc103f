"""What the ranks of one job compiled alike, and where they part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from explorer.ir.record import BreakData, CompileData, InputData, RecordData, TextData
from explorer.records.data.ranks import RANKS_VERSION, RankCompileData, RankData, RankDivergenceData, RanksData

NO_COMPILES = ("process", "log")
"""Ids of what a log holds outside of any compile."""

OWN = (
    (re.compile(r"\bcuda:\d+"), "cuda:N"),
    (re.compile(r"\bdevice=\d+"), "device=N"),
    (re.compile(r"\b(_DeviceGuard|set_device|get_raw_stream)\(\d+\)"), r"\1(N)"),
    (re.compile(r"\bstream\d+"), "streamN"),
    (re.compile(r"\b\d{10,}\b|\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"# kernel path: .*"), "# kernel path: PATH"),
)
"""What differs between processes that compiled the same: the number of the GPU, addresses, where files are kept."""

Texts = tuple[tuple[str, tuple[str, ...]], ...]


def ranked(title: str, records: Sequence[RecordData]) -> RanksData:
    """The records by rank, and what each compile is on each of them. A compile is the same on two ranks if it is of the
    same function and the same one in number; its texts are compared without what is a process's own."""
    ordered = sorted(records, key=lambda record: (rank_of(record) is None, rank_of(record) or 0))
    numbers = [rank_of(record) for record in ordered]
    known = {number for number in numbers if number is not None}
    tables = [dict(_numbered(record)) for record in ordered]
    keys = dict.fromkeys(key for table in tables for key in table)
    return RanksData(
        RANKS_VERSION,
        title,
        tuple(ordered),
        tuple(_rank(record, name) for record, name in zip(ordered, _names(ordered), strict=True)),
        tuple(_compile(key, [table.get(key) for table in tables]) for key in keys),
        tuple(number for number in range(max(known, default=0)) if number not in known),
    )


def rank_of(record: RecordData) -> int | None:
    """The rank that a record names; None where it names none, or what cannot be one."""
    found = record.environment.get("rank", "")
    return int(found) if re.fullmatch("[0-9]{1,6}", found) else None


def _names(records: Sequence[RecordData]) -> list[str]:
    """ "rank 3", or the title of a record that has none; made different where two have the same."""
    plain = [record.title if rank_of(record) is None else f"rank {rank_of(record)}" for record in records]
    seen: Counter[str] = Counter()
    found = []
    for name in plain:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def _compiles(record: RecordData) -> Iterator[CompileData]:
    return (each for each in record.compiles if each.id not in NO_COMPILES)


def _numbered(record: RecordData) -> Iterator[tuple[tuple[str, int], CompileData]]:
    seen: Counter[str] = Counter()
    for compile in _compiles(record):
        yield (compile.title, seen[compile.title]), compile
        seen[compile.title] += 1


def _rank(record: RecordData, name: str) -> RankData:
    compiles = list(_compiles(record))
    return RankData(
        name,
        rank_of(record),
        len(compiles),
        sum(bool(each.recompiles) for each in compiles),
        sum(stage.graph is not None for each in compiles for stage in each.stages),
        sum(len(each.breaks) for each in compiles),
        sum(len(each.guards) for each in compiles),
        sum(each.seconds for each in compiles),
        record.error,
    )


def _compile(key: tuple[str, int], found: Sequence[CompileData | None]) -> RankCompileData:
    title, again = key
    made = {n: CompileTexts.of(each) for n, each in enumerate(found) if each is not None}
    first = next(iter(made.values()))
    kinds: dict[Texts, str] = {}
    for each in made.values():
        kinds.setdefault(each.common, _letter(len(kinds)))
    divergences = (first.divergence(n, each) for n, each in made.items())
    return RankCompileData(
        f"{title} #{again + 1}" if again else title,
        tuple(None if each is None else each.id for each in found),
        tuple(None if each is None else each.seconds for each in found),
        tuple(kinds[made[n].common] if n in made else "" for n in range(len(found))),
        tuple(each for each in divergences if each is not None),
    )


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)


@dataclass(frozen=True)
class CompileTexts:
    """What a compile took and made: its texts by name, in the order in which one thing led to the next. `common` is
    without what is the process's own."""

    texts: Texts
    common: Texts

    @classmethod
    def of(cls, compile: CompileData) -> CompileTexts:
        texts = tuple(_distinct_names(_texts(compile)))
        return cls(texts, tuple((name, tuple(map(_without_own, lines))) for name, lines in texts))

    def divergence(self, rank: int, other: CompileTexts) -> RankDivergenceData | None:
        """The first line of the first text where `other` parts from this; None where it does not."""
        old, new = dict(self.common), dict(other.common)
        differing = [name for name in dict.fromkeys((*old, *new)) if old.get(name, ()) != new.get(name, ())]
        if not differing:
            return None
        what, *also = differing
        pairs = enumerate(zip_longest(old.get(what, ()), new.get(what, ())))
        line = next(number for number, (one, another) in pairs if one != another)
        return RankDivergenceData(rank, what, line + 1, self._line(what, line), other._line(what, line), tuple(also))

    def _line(self, name: str, line: int) -> str:
        lines = dict(self.texts).get(name, ())
        return lines[line] if line < len(lines) else ""


def _texts(compile: CompileData) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "inputs", tuple(map(_input, compile.inputs))
    yield "why it compiled again", tuple(f"{each.of}: {each.why}" for each in compile.recompiles)
    yield "breaks", tuple(map(_break, compile.breaks))
    for stage in compile.stages:
        if stage.graph is not None and stage.body is not None:
            yield f"graph {stage.name} {stage.half}".rstrip(), _lines(stage.body)
    yield "guards", tuple(each.expression for each in compile.guards)
    for half in compile.halves:
        if half.wrapper is not None:
            yield f"code {half.name}", _lines(half.wrapper)
    yield "error", tuple(compile.error.splitlines())


def _distinct_names(texts: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Forward and backward have graphs of the same name in a log: the second of a name is called so."""
    seen: Counter[str] = Counter()
    for name, lines in texts:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} #{seen[name]}", lines


def _lines(body: TextData) -> tuple[str, ...]:
    return tuple(line.text for line in body.lines)


def _input(each: InputData) -> str:
    if (tensor := each.tensor) is None:
        return f"{each.source}: {each.kind}"
    grad = " requires_grad" if tensor.requires_grad else ""
    return f"{each.source}: {tensor.dtype} {list(tensor.sizes)} {tensor.device}{grad}"


def _break(each: BreakData) -> str:
    place = f"{each.span.place()}: " if each.span else ""
    return place + each.why.title


def _without_own(line: str) -> str:
    for pattern, instead in OWN:
        line = pattern.sub(instead, line)
    return line
