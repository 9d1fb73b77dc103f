"""One check of an answer: its steps in order, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from explorer.course.puzzle import FAILS, Answer, Failure, Puzzle, Show, explained


class CheckResult(msgspec.Struct, frozen=True):
    """What came of a check. `step` is the first that failed, "" where none did; `record` is the file of a record that
    shows it, to be opened `at` a pane, or at an address of Record.link."""

    puzzle: str
    ok: bool
    message: str
    step: str = ""
    scores: tuple[str, ...] = ()
    figures: dict[str, float] = {}
    seconds: float = 0.0
    printed: str = ""
    record: str = ""
    at: str = ""

    def __str__(self) -> str:
        if self.ok:
            return "\n  ".join((f"✓ {self.puzzle}: {self.message}", *self.scores))
        return f"✗ {self.puzzle} {FAILS[self.step]}: {self.message}"


def checked(
    puzzle: Puzzle, source: str, seed: int = 0, reached: Callable[[str, str], None] | None = None, keep: str = ""
) -> CheckResult:
    """The verdict on `source`. `keep` is a folder for the record that shows a failure."""
    started = time.perf_counter()
    answer = Answer({}, seed, reached or (lambda step, at: None))
    try:
        answer.reached("defined", "")
        answer.names = puzzle.define(source)
        scores = puzzle.check(answer) or puzzle.length(source)
    except Failure as failed:
        verdict = CheckResult(puzzle.id, False, failed.message, failed.step)
    except Exception as error:
        message = f"{type(error).__name__}: {explained(error, answer.names)}"
        verdict = CheckResult(puzzle.id, False, message, answer.step)
    else:
        figures = {score.name: float(score.yours) for score in scores}
        verdict = CheckResult(puzzle.id, True, "right", scores=tuple(map(str, scores)), figures=figures)
    if not verdict.ok and keep and answer.show is not None:
        verdict = _opened(verdict, answer.show, Path(keep) / f"{puzzle.id}.explore.json.gz")
    return msgspec.structs.replace(verdict, seconds=time.perf_counter() - started)


def _opened(verdict: CheckResult, show: Show, place: Path) -> CheckResult:
    """The verdict with the record that shows the failure."""
    try:
        record, at = show()
    except Exception as error:  # what is recorded is the answer's, and may raise
        message = next(iter(str(error).splitlines()), "")
        why = f"{verdict.message}\n(no record can be shown: {type(error).__name__}: {message})"
        return msgspec.structs.replace(verdict, message=why)
    return msgspec.structs.replace(verdict, record=str(record.save(place)), at=at)
