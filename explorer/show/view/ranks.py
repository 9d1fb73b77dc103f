"""The ranks of one job beside each other, as text and as HTML without scripts."""

from __future__ import annotations

from html import escape
from itertools import zip_longest

from explorer.core.text import count, duration
from explorer.records.data.provenance import stretches
from explorer.records.data.ranks import RankCompileData, RankData, RanksData
from explorer.show.view.distributed import collectives

NO_COMPILE = "–"
MOST_RANKS, MOST_COMPILES = 32, 200
"""That are listed one by one in a text, whose length is otherwise one times the other."""
LEGEND = (
    "Ranks with the same letter compiled the same, except for what differs between processes: addresses, the number of "
    f"the GPU, paths of files. {NO_COMPILE}: that rank has no such compile."
)


def result(compile: RankCompileData, rank: int) -> str:
    """What one rank has of a compile: "A 1.23 s"."""
    spent = compile.seconds[rank]
    return NO_COMPILE if spent is None else f"{compile.kinds[rank]} {duration(spent)}"


def absent(data: RanksData, compile: RankCompileData) -> str:
    """Which ranks do not have a compile that others have; "" where all do."""
    without = [rank.name for rank, kind in zip(data.ranks, compile.kinds, strict=True) if not kind]
    return f"not compiled on {', '.join(_first(without, MOST_RANKS))}{_why(data, compile)}" if without else ""


def _why(data: RanksData, compile: RankCompileData) -> str:
    """Why the first rank that has a compile compiled again, where that is known."""
    rank = next(n for n, kind in enumerate(compile.kinds) if kind)
    found = next((each for each in data.records[rank].compiles if each.id == compile.ids[rank]), None)
    if found is None or not found.recompiles:
        return ""
    return f"; {data.ranks[rank].name} recompiled, because a guard failed: {found.recompiles[0].why}"


def missing(data: RanksData) -> str:
    """Which ranks left nothing; "" where all are there."""
    if not data.missing:
        return ""
    named = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in stretches(data.missing, gap=1))
    return f"rank {named} left no log here" if len(data.missing) == 1 else f"ranks {named} left no logs here"


def text(data: RanksData) -> str:
    """Each rank in numbers, then what differs, for a terminal."""
    return "\n".join([f"{data.title}: {count(len(data.ranks), 'rank')}", *map(_numbers, data.ranks), differences(data)])


def differences(data: RanksData) -> str:
    """Each compile on all ranks, and where they part."""
    lines = [f"  {missing(data)}"] if data.missing else []
    for compile in data.compiles[:MOST_COMPILES]:
        shown = [f"{rank.name}: {result(compile, n)}" for n, rank in enumerate(data.ranks)]
        lines += ["", compile.title, f"  {'   '.join(_first(shown, MOST_RANKS))}"]
        lines += [f"  {note}"] if (note := absent(data, compile)) else []
        first = data.ranks[next(n for n, kind in enumerate(compile.kinds) if kind)].name
        for each in compile.divergences:
            lines.append(f"  {data.ranks[each.rank].name} first differs from {first} in {each.what}, line {each.line}:")
            lines += [f"    - {each.before.strip()}", f"    + {each.after.strip()}"]
            lines += [f"    and in {', '.join(each.also)}"] if each.also else []
    if (more := len(data.compiles) - MOST_COMPILES) > 0:
        lines += ["", f"and {count(more, 'more compile')}"]
    return "\n".join([*lines, "", *_first(parity(data), MOST_RANKS), LEGEND])


def _first(texts: list[str], most: int) -> list[str]:
    """The first of these texts, and how many more there are."""
    return texts if len(texts) <= most else [*texts[:most], f"and {len(texts) - most:,} more"]


def parity(data: RanksData) -> list[str]:
    """Whether all ranks call the same collectives in the same order: one that others do not call waits for them."""
    called = [[each.same for c in record.compiles for each in collectives(c, {})] for record in data.records]
    if not any(called):
        return []
    found = []
    first = data.ranks[0].name
    for rank, other in zip(data.ranks[1:], called[1:], strict=True):
        pairs = enumerate(zip_longest(called[0], other, fillvalue="nothing"), 1)
        differ = next(((n, ours, theirs) for n, (ours, theirs) in pairs if ours != theirs), None)
        if differ is not None:
            n, ours, theirs = differ
            found.append(f"collective {n} of the compiled code is {ours} on {first} and {theirs} on {rank.name}")
    same = f"all ranks have the same collectives in their compiled code: {len(called[0])}"
    return found or ([same] if len(called) > 1 else [])


def _numbers(rank: RankData) -> str:
    again = f"{rank.recompiles} of them again"
    counts = ((rank.graphs, "graph"), (rank.breaks, "break"), (rank.guards, "guard"))
    line = ", ".join((count(rank.compiles, "compile"), again, *(count(*each) for each in counts)))
    damage = f"; {rank.error}" if rank.error else ""
    return f"  {rank.name}: {line}, {compiling(rank)}{damage}"


def compiling(rank: RankData) -> str:
    """What its compiles took; a folder of TORCH_COMPILE_DEBUG does not say."""
    return duration(rank.seconds) if rank.seconds else "time not recorded"


def html(data: RanksData) -> str:
    """A fragment for a notebook's output."""
    return f"<pre>{escape(text(data))}</pre>"
