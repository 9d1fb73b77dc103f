"""The puzzles of a notebook checked, as a grader does: points for each, in part for the steps that were passed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from explorer.core.files import regular
from explorer.course.check import CheckResult
from explorer.course.lessons import PUZZLES
from explorer.course.process import check
from explorer.course.puzzle import STEPS

POINTS = 10


class Graded(msgspec.Struct, frozen=True):
    """One puzzle of a notebook."""

    puzzle: str
    ok: bool
    points: float
    of: int
    step: str
    message: str = msgspec.field(name="said")
    figures: dict[str, float]


MOST = 100_000_000
"""Bytes of a notebook that are read."""


class _Cell(msgspec.Struct):
    cell_type: str
    source: str | list[str] = ""


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


class NotANotebook(ValueError):
    """The file is not a notebook, or holds no puzzle."""


def answers(notebook: Path) -> Iterator[tuple[str, str]]:
    """The puzzles of a notebook, each with the code of its cell. Raises NotANotebook."""
    try:
        with regular(notebook) as file:
            cells = msgspec.json.decode(file.read(MOST), type=_Notebook).cells
        code = ["".join(cell.source) for cell in cells if cell.cell_type == "code"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotANotebook(f"{notebook} is not a notebook") from error
    found = [cell.partition("\n") for cell in code if cell.startswith("%%puzzle")]
    if not found:
        raise NotANotebook(f"{notebook} has no cell that begins with %%puzzle")
    for first, _, source in found:
        id = first.removeprefix("%%puzzle").strip()
        if id not in PUZZLES:
            raise NotANotebook(f"{notebook}: there is no puzzle {id!r}")
        yield id, source


def graded(notebook: Path, seed: int | None = None) -> tuple[Graded, ...]:
    """Raises NotANotebook, and OSError for a file that cannot be read."""
    return tuple(_graded(check(id, source, seed)) for id, source in answers(notebook))


def _graded(verdict: CheckResult) -> Graded:
    passed = len(STEPS) if verdict.ok else STEPS.index(verdict.step)
    points = round(POINTS * passed / len(STEPS), 1)
    return Graded(verdict.puzzle, verdict.ok, points, POINTS, verdict.step, verdict.message, verdict.figures)
