"""Whether the C++ compiler made vectors of each loop, and why not where it did not: its own remarks, loop by loop."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from explorer.compiler.runtime.compiler import Compiler
from explorer.core.text import Line, Text

GCC = ("-fopt-info-vec-optimized-missed",)
CLANG = (
    "-Rpass=loop-vectorize",
    "-Rpass-missed=loop-vectorize",
    "-Rpass-analysis=loop-vectorize",
    "-fno-caret-diagnostics",
)

_REMARK = re.compile(r"<stdin>:(\d+):\d+: (?:optimized|missed|remark): +(.*)")
_GCC_MADE = re.compile(r"loop vectorized using (\d+) byte vectors")
_CLANG_MADE = re.compile(r"vectorized (?:outer )?loop \(vectorization width: (.+?), interleaved count: (\d+)\)")
_REFUSED = re.compile(r"(?:loop )?not vectorized: (.*)")
_LOOP = re.compile(r"\s*for \(")

UNTOLD = "not vectorised; the compiler does not say why"
NOT_MADE = ("couldn't vectorize loop", "loop not vectorized")
SILENT = "no remark: unrolled, or left out"


def remarking(compiler: Compiler) -> tuple[str, ...]:
    """The options that make it remark on its loops. They change nothing of what it makes."""
    return GCC if compiler.vector_math else CLANG


def remarks(said: str, source: Text) -> dict[str, str]:
    """By the ids of the lines where loops of `source` begin, what the compiler `said` became of them: one sentence. A
    loop that holds others is left out where it is not vectorised because it does."""
    loops = list(_loops(source.lines))
    inner = _innermost(loops, source.lines)
    widths: dict[int, list[str]] = defaultdict(list)
    refused: dict[int, list[str]] = defaultdict(list)
    for line in said.splitlines():
        found = _REMARK.match(line)
        at = inner.get(int(found[1]) - 1) if found is not None else None
        if found is None or at is None:
            continue
        if made := _GCC_MADE.match(found[2]):
            widths[at].append(f"{made[1]} bytes at a time")
        elif made := _CLANG_MADE.match(found[2]):
            widths[at].append(f"{made[1]} elements at a time, {made[2]} such steps in one")
        elif why := _REFUSED.match(found[2]):
            refused[at].append(re.sub(r" \[-Rpass[^\]]*\]$", "", why[1]))
        elif found[2].startswith(NOT_MADE):
            refused[at].append("")
    return {source.lines[at].id: told for at, told in _told(loops, widths, refused) if source.lines[at].id}


def _told(
    loops: list[tuple[int, int]], widths: Mapping[int, list[str]], refused: Mapping[int, list[str]]
) -> Iterator[tuple[int, str]]:
    for first, last in loops:
        holds = any(first < other <= last for other, _ in loops)
        whys = list(dict.fromkeys(why for why in refused.get(first, ()) if why))
        if made := list(dict.fromkeys(widths.get(first, ()))):
            rest = f" (what is left over: {', '.join(made[1:])})" if len(made) > 1 else ""
            yield first, f"vectorised: {made[0]}{rest}"
        elif holds:
            continue
        elif whys:
            yield first, f"not vectorised: {'; '.join(whys)}"
        else:
            yield first, UNTOLD if first in refused else SILENT


def _loops(lines: tuple[Line, ...]) -> Iterator[tuple[int, int]]:
    """The first and last line of each loop, by indentation, as our generator writes it."""
    for at, line in enumerate(lines):
        if line.id and _LOOP.match(line.text):
            depth = len(line.text) - len(line.text.lstrip())
            last = at
            if line.text.endswith("{"):
                after = range(at + 1, len(lines))
                last = next((n for n in after if _depth(lines[n].text) <= depth), len(lines) - 1)
            yield at, last


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip()) if text.strip() else 1 << 30


def _innermost(loops: list[tuple[int, int]], lines: tuple[Line, ...]) -> dict[int, int]:
    """By line, the innermost loop that it is in; a pragma belongs to the loop that it stands before."""
    found: dict[int, int] = {}
    for first, last in loops:  # the inner come after the outer
        above = first - 1 if first and lines[first - 1].text.lstrip().startswith("#pragma") else first
        found.update(dict.fromkeys(range(above, last + 1), first))
    return found
