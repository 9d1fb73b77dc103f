"""The course's lessons, cell by cell: how long a person waits for each cell, and for each check.

Each solved notebook runs from the top in a kernel of its own. A cell has two times: that of a clock, and that of the
processors in its kernel and in all that the kernel started. The smaller of the two is an upper bound for a machine that
has nothing else to do, and what the figures are about: others may be using this one. `-k 03` is lesson 3 alone.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.classroom import LOADED, PATIENCE, Learner, family, learner
from benchmarks.report import Aim, Report, Selection
from explorer.course.build import notebook, sources

CELL, CHECK, ALL = 5.0, 10.0, 720.0
"""Seconds that a cell, a check and all lessons together may take."""
TICKS = os.sysconf("SC_CLK_TCK")


class Took(NamedTuple):
    """Seconds of one cell."""

    place: str
    clock: float
    processor: float
    said: str

    @property
    def least(self) -> float:
        return min(self.clock, self.processor)

    def __str__(self) -> str:
        return f"{self.clock:.1f} s, {self.processor:.1f} s: {self.place}"


def processor(of: Learner) -> float:
    """Seconds of processor time of a kernel, all its children, and those of them that have ended."""
    total = 0
    for process in family([of.process]):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def timed(source: Path, folder: str) -> list[Took]:
    """The code cells of a solved lesson."""
    cells = [cell["source"] for cell in notebook(source, "solved")["cells"] if cell["cell_type"] == "code"]
    found = []
    with learner(len(os.listdir(folder)), folder) as person:
        person.client.wait_for_ready(timeout=PATIENCE)
        for number, code in enumerate(cells):
            started, before = time.perf_counter(), processor(person)
            person.run(str(number), code)
            seconds, used = time.perf_counter() - started, processor(person) - before
            line = next((line for line in code.splitlines() if line and not line.startswith("#")), "")
            found.append(Took(f"{source.stem[:2]}, `{line[:40]}`", seconds, used, person.said[str(number)]))
            if number == 0:  # what checks is loaded while a person reads
                person.run("loaded", LOADED)
    return found


def run(selection: Selection) -> Report:
    rows, cells, checks = [], list[Took](), list[Took]()
    with tempfile.TemporaryDirectory() as folder:
        for source in sources():
            if not selection.of(source.stem):
                continue
            made = timed(source, folder)
            asked = [each for each in made if "%%puzzle" in each.place]
            cells += (others := [each for each in made if each not in asked])
            checks += asked
            rows.append((
                source.stem, str(len(made)), f"{sum(each.clock for each in made):.0f} s",
                f"{sum(each.processor for each in made):.0f} s", str(max(others, key=lambda each: each.least)),
                str(max(asked, key=lambda each: each.least, default="")),
            ))  # fmt: skip
    cell, most = CELL * selection.margin, CHECK * selection.margin
    wrong = [each.place for each in checks if "right" not in each.said]
    slow = [str(each) for limit, those in ((cell, cells), (most, checks)) for each in those if each.least > limit]
    whole = sum(each.least for each in (*cells, *checks))
    aims = (
        Aim(f"each cell within {cell:g} s", _slowest(cells), all(each.least <= cell for each in cells)),
        Aim(f"each check within {most:g} s, and right", f"{_slowest(checks)}; {len(wrong)} not right",
            all(each.least <= most for each in checks) and not wrong),
        Aim(f"all lessons within {ALL / 60:g} minutes", f"{whole:.0f} s", whole <= ALL),
    )  # fmt: skip
    head = ("lesson", "cells", "clock", "processor", "slowest cell: clock, processor", "slowest check")
    load = f"{os.cpu_count()} cores; load of the last minute at the end: {os.getloadavg()[0]:.1f}"
    return Report("The lessons, cell by cell", head, tuple(rows), aims, (load, *slow, *wrong))


def _slowest(those: list[Took]) -> str:
    return str(max(those, key=lambda each: each.least, default="none"))
