"""What is asked of a record beside its stages, in a few lines for the pane where it is asked."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath

from explorer.core.text import count, duration
from explorer.ir.record import AnswerData, CompileData, OperatorCheckData, RecordData
from explorer.records.data import dynamo
from explorer.show.view import caches, compile_time, distributed, inductor, memory, trace
from explorer.show.view.diagnosis import calls


def answers(record: RecordData) -> tuple[AnswerData, ...]:
    """Those that the record holds, each by the pane of the viewer that shows it."""
    short = _short(record)
    asked = ((pane, title, tuple(map(short, lines))) for pane, title, lines in _asked(record))
    return tuple(AnswerData(pane, title, lines) for pane, title, lines in asked if lines)


def _short(record: RecordData) -> Callable[[str], str]:
    """Writes "make.py:9" for a line of any folder's make.py, as the panes do, where no other file has that name."""
    names = {each.file: PurePath(each.file).name for each in record.sources}
    many = Counter(names.values())
    known = "|".join(re.escape(file) for file, name in names.items() if many[name] == 1)
    places = re.compile(rf"(?<![^\s(])(?:{known})(?=:\d)" if known else r"(?!)")
    return lambda line: places.sub(lambda found: names[found[0]], line)


def _asked(record: RecordData) -> Iterator[tuple[str, str, Iterable[str]]]:
    yield "guards", "What do guards cost a call?", guard_costs(record.compiles)
    functions = (line for compile in record.compiles for line in compile_time.lines(compile))
    yield "timeline", "Which functions cost the time?", functions
    yield "timeline", "Cache hits and misses", caches.lines(record.compiles)
    yield "memory", "What is in memory at the peak, and what is saved for the backward?", memory.lines(record)
    yield "timing", "Where does the time of one call go?", trace.gaps(record)
    yield "timing", "Is it replayed as a CUDA graph?", inductor.cudagraphs(record)
    yield "breaks", "What did calls of compiled functions take?", map(calls, record.calls)
    yield "schedule", "What could be faster, as PyTorch itself says?", inductor.hints(record)
    yield "code", "What did autotuning measure and choose?", inductor.autotuning(record)
    yield "code", "How was it built?", builds(record.compiles)
    yield "graphs", "Which collectives are called, and where does DDP split the graph?", distributed.lines(record)
    yield "graphs", "Do custom operators agree with their fake implementations?", operator_checks(record.operators)


def builds(compiles: Iterable[CompileData]) -> Iterator[str]:
    """What was built of each half, with commands that can be pasted."""
    for compile in compiles:
        for half in compile.halves:
            for each in half.builds:
                took = "found in the cache" if each.cached else f"in {duration(each.seconds)}"
                yield f"{compile.half_title(half.name)}: {each.version or each.tool}, {took}: {each.output}"
                yield from [f"  {shlex.join(each.command)}"] if each.command else []


def operator_checks(found: Sequence[OperatorCheckData]) -> list[str]:
    """Custom operators and how their fake implementations differ."""
    lines = []
    for each in found:
        calls = count(each.calls, "call")
        if not each.differs:
            lines.append(f"{each.operator}: the fake implementation agrees with the real one ({calls})")
        lines += [f"{each.operator}: {how} ({calls})" for how in each.differs]
    return lines


DEAREST = 10
"""Sources of guards whose cost is listed one by one."""


SHORTEST = 0.5e-9
"""Seconds; what takes less is not listed."""

ROOTS = {
    "": "torch's global state, and relations between values", "L": "finding arguments", "G": "finding globals",
    "S": "finding values on the stack",
}  # fmt: skip


def guard_costs(compiles: Sequence[CompileData]) -> list[str]:
    """What guards cost a call, beside its kernels, where that was timed: the dearest sources first."""
    lines = []
    for each in compiles:
        if not each.guard_costs or each.guard_seconds is None:
            continue
        timed = [kernel.seconds for half in each.halves for kernel in half.kernels if kernel.seconds is not None]
        timed += [seconds for half in each.halves for seconds in half.extern_seconds.values()]
        beside = f", its kernels and library calls {duration(sum(timed))}" if timed else ""
        whole = f"checking the guards takes {duration(each.guard_seconds)} a call{beside}"
        lines.append(f"{each.id}: {whole}; by kind of check:")
        found = [cost for cost in each.guard_costs if cost.seconds >= SHORTEST]
        for cost in found[:DEAREST]:
            below = " and what is read from it" if cost.whole else ""
            checks = f" ({count(cost.checks, 'check')})" if cost.checks else ""
            source = ROOTS.get(cost.source) or dynamo.names(cost.source)
            lines.append(f"  {duration(cost.seconds):>8}  {source}{below}{checks}")
        rest = found[DEAREST:]
        if rest:
            lines.append(f"  {duration(sum(cost.seconds for cost in rest)):>8}  {count(len(rest), 'other source')}")
    return lines
