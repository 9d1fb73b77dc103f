"""What a benchmark hands back: a table, and the figures it must reach beside those it reached."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Aim:
    """A figure that must be reached, and what was measured."""

    what: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Report:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    aims: tuple[Aim, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selection:
    """Which programs of a benchmark to run: those whose name holds `part`; and whom to tell of each.

    Where programs are drawn: for how many minutes (None: all there are), from which seed (None: the date's), and how
    many sequences of calls (None: as many as the figure asks). `ops`, `dtypes`: only these operators and dtypes, where
    any are named. Of each, `samples` that it has and `variants` made from them, of those in `shard`, (number, of how
    many). `results`: the file for what is found; `again`: what is bad in it is run once more.
    `margin`: seconds may be so many times as many, on a machine that is slower than that of the figures.
    """

    part: str = ""
    tell: Callable[[str], None] = print
    minutes: float | None = None
    seed: int | None = None
    ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    samples: int = 3
    variants: int = 3
    shard: tuple[int, int] = (1, 1)
    results: Path | None = None
    again: bool = False
    sequences: int | None = None
    margin: float = 1.0

    def of(self, name: str) -> bool:
        if self.part not in name:
            return False
        self.tell(name)
        return True


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of positive ratios; NaN where there are none."""
    found = list(ratios)
    return statistics.geometric_mean(found) if found else float("nan")


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
