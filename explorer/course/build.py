"""Notebooks made of a lesson's one source, `lessons/NN_NAME.md`: the learner's, the solved one, and nbgrader's release.

`python -m explorer.course.build FOLDER` writes them all. In a source, a block of ```python is a cell, `<<ID>>` stands
for a puzzle, `<<NN_NAME: TITLE; TITLE>>` for sections of another lesson, and in the line of a `%%predict` a number in
brackets is what the solved notebook says: breaks=[1].
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from explorer.course.lessons import PUZZLES
from explorer.course.puzzle import Puzzle

Kind = Literal["learner", "solved", "nbgrader"]
SOURCES = Path(__file__).parent / "lessons"
FOLDERS: dict[Kind, str] = {"learner": "", "solved": "solved", "nbgrader": "nbgrader"}
PREDICTED = re.compile(r"=\[(\d+)\]")
TAKEN = re.compile(r"^<<(\d\d_\w+): (.+)>>$", re.M)


def sources() -> list[Path]:
    return sorted(SOURCES.glob("*.md"))


def lesson(source: Path) -> str:
    """The text of a lesson, with the sections that it takes from others one level below its own."""
    return TAKEN.sub(
        lambda found: "\n\n".join(f"#{section(found[1], title)}" for title in found[2].split("; ")), source.read_text()
    )


def section(name: str, title: str) -> str:
    """Raises ValueError where the lesson has no such section."""
    _, heading, rest = (SOURCES / f"{name}.md").read_text().partition(f"## {title}\n")
    if not heading:
        raise ValueError(f"{name}.md has no section {title!r}")
    return (heading + rest.partition("\n## ")[0]).strip()


def notebook(source: Path, kind: Kind) -> dict[str, Any]:
    """The notebook of a lesson, as nbformat 4.5 has it."""
    cells = [
        {**cell, "id": f"cell-{number}"} if "id" not in cell else cell
        for number, cell in enumerate(_cells(lesson(source), kind))
    ]
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": python}, "cells": cells}


def _cells(text: str, kind: Kind) -> Iterator[dict[str, Any]]:
    for part in re.split(r"^(```python\n.*?^```$|<<[a-z]+-\d+>>$)", text, flags=re.S | re.M):
        if part.startswith("```python"):
            code = part.removeprefix("```python\n").removesuffix("```").rstrip("\n")
            yield _code(PREDICTED.sub(r"=\1" if kind == "solved" else "=?", code))
        elif part.startswith("<<"):
            yield from _puzzle(PUZZLES[part.strip("<>")], kind)
        elif part.strip():
            yield _markdown(part.strip())


def _puzzle(puzzle: Puzzle, kind: Kind) -> Iterator[dict[str, Any]]:
    yield _markdown(f"### Puzzle `{puzzle.id}`: {puzzle.title}\n\n{puzzle.task} *About {puzzle.minutes} minutes.*")
    yield _code(puzzle.given.strip("\n"))
    answer = puzzle.solution if kind == "solved" else puzzle.starter
    yield _code(f"%%puzzle {puzzle.id}\n{answer.strip(chr(10))}", puzzle.id)
    if kind == "nbgrader":
        yield _code(f"%graded {puzzle.id}", f"{puzzle.id}-graded", {"nbgrader": LOCKED | {"grade_id": puzzle.id}})
    levels = "\n\n".join(
        f"<details><summary>Hint {level} of 3</summary>\n\n{hint}\n\n</details>"
        for level, hint in enumerate(puzzle.hints, 1)
    )
    yield _markdown(f"{levels}\n\n`%solution {puzzle.id}` in a cell of your own shows a solution, once you have tried.")


LOCKED = {"schema_version": 3, "task": False, "solution": False, "grade": True, "locked": True, "points": 10}
"""What nbgrader reads of the cell that asks for a right answer. The answer's own cell is not its business: one that is
said to hold a solution is emptied in a release, with the puzzle's name and what the learner begins with."""


def _code(source: str, id: str = "", metadata: dict[str, object] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": metadata or {}, "outputs": []}
    made["source"] = source
    return {**made, "id": id} if id else made


def _markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def text(source: Path, kind: Kind) -> str:
    return json.dumps(notebook(source, kind), indent=1, ensure_ascii=False) + "\n"


def write(folder: Path, kinds: tuple[Kind, ...] = ("learner", "solved", "nbgrader")) -> list[Path]:
    """Write the notebooks of all lessons, over what is there."""
    made = []
    for kind in kinds:
        place = folder / FOLDERS[kind]
        place.mkdir(parents=True, exist_ok=True)
        for source in sources():
            made.append(place / f"{source.stem}.ipynb")
            made[-1].write_text(text(source, kind))
    return made


def new(folder: Path) -> tuple[list[Path], list[Path]]:
    """The learner's notebooks in a folder: those written, and those that were there and stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    written, kept = [], []
    for source in sources():
        place = folder / f"{source.stem}.ipynb"
        if place.exists():
            kept.append(place)
        else:
            place.write_text(text(source, "learner"))
            written.append(place)
    return written, kept


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])), sep="\n")
