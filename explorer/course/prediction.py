"""Puzzles that ask for a number for each of some programs, before a record says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.ir.record import RecordData
from explorer.show.record import Record
from explorer.show.view.diagnosis import break_places

# Claims of a lesson's text, asserted on a live record, so that the text cannot become wrong unnoticed.


class ClaimFailed(AssertionError):
    """What a lesson says does not hold on this machine, with these versions."""


def claim(condition: bool, text: str) -> None:
    """Print `text` where the condition holds. Raises ClaimFailed where it does not: then the lesson is wrong, or out of
    date with the installed torch."""
    if not condition:
        raise ClaimFailed(f"this does not hold here: {text}")
    print(f"✓ {text}")


class Figure(NamedTuple):
    """A number that one can predict of a record, what it counts, and the part of the record that shows it."""

    number: int
    counts: str
    part: str


def figures(record: RecordData) -> dict[str, Figure]:
    halves = [half for compile in record.compiles for half in compile.halves]
    captured = [next((s.graph for s in compile.stages if s.graph is not None), None) for compile in record.compiles]
    calls = sum(len(graph.calls) for graph in captured if graph is not None)
    guards = [guard for compile in record.compiles for guard in compile.guards if not guard.of_torch]
    kernels = [kernel for half in halves for kernel in half.kernels]
    kinds = [operation.kind for half in halves for operation in half.operations]
    kept = [saved.bytes for compile in record.compiles for saved in compile.saved if saved.kind == "saved"]
    return {
        "breaks": Figure(len(break_places(record.compiles)), "graph breaks", "breaks"),
        "graphs": Figure(sum(graph is not None for graph in captured), "captured graphs", "graphs"),
        "nodes": Figure(calls, "operations in the captured graphs", "graphs"),
        "guards": Figure(len(guards), "guards on the program's values", "guards"),
        "kernels": Figure(len(kernels), "generated kernels", "kernels"),
        "loops": Figure(kinds.count("loop"), "loops before fusion", "schedule"),
        "libraries": Figure(kinds.count("extern"), "library calls", "schedule"),
        "bytes": Figure(sum(kernel.bytes for kernel in kernels), "bytes read and written by kernels", "schedule"),
        "compiles": Figure(len(record.compiles), "compiles", "stages"),
        "kept": Figure(sum(kept), "bytes kept for the backward", "graphs"),
    }


Found = tuple[int, str, Record, str]
"""The number, the words that say it, the record that shows it, and at which of its addresses."""


@dataclass(frozen=True)
class Prediction:
    """`name` is a dict with a number for each key of `right`; `find` says what it is for one key, in this run."""

    name: str
    right: Mapping[str, int]
    find: Callable[[Answer, str], Found]

    def puzzle(
        self, *, wrong: Mapping[str, int], says: Callable[[int], str], more: tuple[Wrong, ...] = (), **about: Any
    ) -> Puzzle:
        """Of what a puzzle is `about`. Wrong are answers with one of these numbers, and `more`; `says` is how `find`
        says a number."""
        found = (
            Wrong(self.code(**{key: number}), "right", f"`{key}`: you said {number}, {says(self.right[key])}")
            for key, number in wrong.items()
        )
        return Puzzle(
            names=(self.name,), starter=self.starter(), solution=self.code(), wrong=(*found, *more), check=self.check,
            **about,
        )  # fmt: skip

    def code(self, **changed: int) -> str:
        return f"{self.name} = {json.dumps({**self.right, **changed})}\n"

    def starter(self) -> str:
        return f"{self.name} = {json.dumps(dict.fromkeys(self.right)).replace('null', '...')}\n"

    def check(self, answer: Answer) -> tuple[Score, ...]:
        answered = answer[self.name]
        with answer.at("defined"):
            if not isinstance(answered, dict):
                answer.fail(f"`{self.name}` is a dict with a number for each of {', '.join(self.right)}")
            if missing := [key for key in self.right if key not in answered]:
                answer.fail(f"`{self.name}` has no number for {', '.join(missing)}")
            if more := [key for key in answered if key not in self.right]:
                answer.fail(f"`{self.name}` has {more[0]!r}, which is none of {', '.join(self.right)}")
            if strange := [key for key, number in answered.items() if not _is_whole(number)]:
                answer.fail(f"`{strange[0]}`: {answered[strange[0]]!r} is not a whole number")
        wrong: list[tuple[str, Found]] = []
        for key in self.right:
            with answer.at("right", key):
                found = self.find(answer, key)
                if answered[key] != found[0]:
                    wrong.append((key, found))
        with answer.at("right"):
            if wrong:
                key, (_, words, record, at) = wrong[0]
                also = "".join(f"\n`{other}` is wrong too" for other, _ in wrong[1:])
                answer.fail(f"`{key}`: you said {answered[key]}, {words}{also}", record, at)
        return ()


def _is_whole(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and float(number).is_integer()
