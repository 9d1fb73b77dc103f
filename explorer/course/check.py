"""One check of an answer: its steps in order, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from explorer.course.puzzle import Answer, Failed, Puzzle, explained
from explorer.records.session import Record


class Verdict(msgspec.Struct, frozen=True):
    """What came of a check. `step` is the first that failed, "" where none did; `record` is the file of a record that
    shows it, to be opened `at` a pane, or at an address of Record.link."""

    puzzle: str
    ok: bool
    said: str
    step: str = ""
    scores: tuple[str, ...] = ()
    figures: dict[str, float] = {}
    seconds: float = 0.0
    printed: str = ""
    record: str = ""
    at: str = ""

    def __str__(self) -> str:
        if self.ok:
            return "\n  ".join((f"✓ {self.puzzle}: {self.said}", *self.scores))
        return f"✗ {self.puzzle}, {self.step}: {self.said}"


def checked(
    puzzle: Puzzle, source: str, seed: int = 0, reached: Callable[[str, str], None] | None = None, keep: str = ""
) -> Verdict:
    """The verdict on `source`. `keep` is a folder for the record that shows a failure."""
    started = time.perf_counter()
    answer = Answer({}, seed, reached or (lambda step, at: None))
    try:
        answer.reached("defined", "")
        answer.names = puzzle.define(source)
        scores = puzzle.check(answer)
    except Failed as failed:
        saved = _saved(failed.record, keep, puzzle.id)
        seconds = time.perf_counter() - started
        return Verdict(puzzle.id, False, failed.said, failed.step, seconds=seconds, record=saved, at=failed.at)
    except Exception as error:
        said = f"{type(error).__name__}: {explained(error, answer.names)}"
        return Verdict(puzzle.id, False, said, answer.step, seconds=time.perf_counter() - started)
    figures = {score.name: float(score.yours) for score in scores}
    seconds = time.perf_counter() - started
    return Verdict(puzzle.id, True, "right", scores=tuple(map(str, scores)), figures=figures, seconds=seconds)


def _saved(record: Record | None, folder: str, name: str) -> str:
    if record is None or not folder:
        return ""
    return str(record.save(Path(folder) / f"{name}.explore.json.gz"))
