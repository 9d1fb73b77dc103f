"""The magics of the course: `%%predict`, `%%puzzle`, `%hint`, `%solution`."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import Code, display

from explorer.course.attempts import Attempts
from explorer.course.check import CheckResult
from explorer.course.lessons import PUZZLES
from explorer.course.prediction import claim, figures
from explorer.course.process import check, warm
from explorer.course.puzzle import Puzzle
from explorer.ir.record import MIME
from explorer.show.record import Record


class NotYet(UsageError):
    """A puzzle's answer is not right yet: one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@magics_class
class CourseMagics(Magics):
    """What a lesson's notebook uses."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.attempts = Attempts()
        self.right: set[str] = set()

    @cell_magic
    def predict(self, line: str, cell: str) -> None:
        """Store your numbers, run the cell, and compare: `%%predict breaks=2 kernels=1`. The cell ends in a record."""
        made = dict(part.partition("=")[::2] for part in line.replace(",", " ").split())
        if not made:
            raise UsageError("%%predict takes numbers, such as breaks=2")
        guesses: dict[str, int | None] = {}
        for name, value in made.items():
            if value != "?" and not value.isdigit():
                raise UsageError(f"{name}={value}: write a whole number, or leave the ? until you have one")
            guesses[name] = None if value == "?" else int(value)
        self.attempts.add("predict", line)
        cell = f"# %%predict {line}\n{cell}"  # so that a record's lines are those of the cell that one sees
        if missing := [name for name, guess in guesses.items() if guess is None]:
            self.shell.run_cell(cell, silent=True).raise_error()  # what comes after it needs its names
            print(f"? {', '.join(missing)}: write your number in place of ?, and run the cell again to see the record")
            return
        result = self.shell.run_cell(cell)
        result.raise_error()
        record = result.result
        if not isinstance(record, Record):
            raise UsageError("a cell of %%predict ends in a record, such as explorer.explore(f)(x)")
        found = figures(record.data)
        if unknown := sorted(set(guesses) - set(found)):
            raise UsageError(f"no figure {', '.join(unknown)}; there are: {', '.join(found)}")
        for name, guess in guesses.items():
            number, counts, part = found[name]
            if guess == number:
                print(f"✓ {counts}: {number}, as you said")
            else:
                print(f"✗ {counts}: you said {guess}, the record has {number}; print(record.{part}) shows them")

    @cell_magic
    def puzzle(self, line: str, cell: str) -> None:
        """Check the cell as an answer: `%%puzzle breaks-2`. It runs in a process of its own; where it is right, what it
        defines is yours here too."""
        puzzle = self._puzzle(line)
        verdict = check(puzzle.id, cell)
        first = verdict.record and not self.attempts.count("check", puzzle.id)
        self.attempts.add(
            "check", puzzle.id, ok=verdict.ok, step=verdict.step, message=verdict.message[:10_000],
            seconds=round(verdict.seconds, 2), scores=verdict.figures, hints=self.attempts.count("hint", puzzle.id),
            record=self.attempts.keep(puzzle.id, verdict.record) if first else "", place=verdict.at,
        )  # fmt: skip
        if verdict.printed:
            print(verdict.printed, end="" if verdict.printed.endswith("\n") else "\n", file=sys.stderr)
        if verdict.ok:
            tries = self.attempts.tries(puzzle.id)
            print(verdict if verdict.scores or tries is None else f"{verdict}, at try {tries}")
            self.right.add(puzzle.id)
            self.shell.run_cell(cell, store_history=False)
            return
        self.right.discard(puzzle.id)
        show(verdict)
        more = "\n" if "\n" in verdict.message else "   "
        raise NotYet(f"{verdict}{more}(%hint {puzzle.id} helps)")

    @line_magic
    def hint(self, line: str) -> None:
        """The next of three hints: `%hint breaks-2`."""
        puzzle = self._puzzle(line, "hint")
        level = min(self.attempts.count("hint", puzzle.id), 2)
        self.attempts.add("hint", puzzle.id)
        last = f"\n(the last hint; `%solution {puzzle.id}` shows a solution)" if level == 2 else ""
        print(f"Hint {level + 1} of 3: {puzzle.hints[level]}{last}")

    @line_magic
    def solution(self, line: str) -> None:
        """A solution, once you have tried: `%solution breaks-2`."""
        puzzle = self._puzzle(line, "solution")
        if not self.attempts.count("check", puzzle.id):
            raise UsageError(f"try {puzzle.id} once first, with any answer")
        self.attempts.add("solution", puzzle.id)
        display(Code(puzzle.solution, language="python"))

    @line_magic
    def graded(self, line: str) -> None:
        """Fail unless the last answer to the puzzle was right: what a locked cell of nbgrader runs."""
        puzzle = self._puzzle(line)
        if puzzle.id not in self.right:
            raise NotYet(f"{puzzle.id} has no right answer yet")

    def _puzzle(self, line: str, magic: str = "") -> Puzzle:
        if magic and not line.strip():
            raise UsageError(f"name a puzzle, as in %{magic} {next(iter(PUZZLES))}; there are: {', '.join(PUZZLES)}")
        if line.strip() not in PUZZLES:
            raise UsageError(f"there is no puzzle {line.strip()!r}; there are: {', '.join(PUZZLES)}")
        return PUZZLES[line.strip()]


def show(verdict: CheckResult) -> None:
    """The record that shows a failure, opened where it is."""
    if verdict.record:
        bundle, metadata = Record.load(verdict.record)._repr_mimebundle_()
        panes = {**metadata.get(MIME, {}), **({"panes": [verdict.at]} if verdict.at else {})}
        display(bundle, raw=True, metadata={**metadata, MIME: panes})


def load(shell: Any) -> None:
    shell.register_magics(CourseMagics)
    shell.user_ns["claim"] = claim

    def ended(result: Any) -> None:
        shell.events.unregister("post_run_cell", ended)
        warm()

    shell.events.register("post_run_cell", ended)  # while a person reads, not while the first cell runs
