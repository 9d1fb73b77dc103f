"""Puzzles that ask for a number for each of some programs, before a record says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from explorer.course.puzzle import Answer, Score
from explorer.records.session import Record

Found = tuple[int, str, Record, str]
"""The number, the words that say it, the record that shows it, and at which of its addresses."""


@dataclass(frozen=True)
class Prediction:
    """`name` is a dict with a number for each key of `right`; `find` says what it is for one key, in this run."""

    name: str
    right: Mapping[str, int]
    find: Callable[[Answer, str], Found]

    def code(self, **changed: int) -> str:
        return f"{self.name} = {json.dumps({**self.right, **changed})}\n"

    def starter(self) -> str:
        return f"{self.name} = {json.dumps(dict.fromkeys(self.right)).replace('null', '...')}\n"

    def check(self, answer: Answer) -> tuple[Score, ...]:
        said = answer[self.name]
        with answer.at("defined"):
            if not isinstance(said, dict):
                answer.fail(f"`{self.name}` is a dict with a number for each of {', '.join(self.right)}")
            if missing := [key for key in self.right if key not in said]:
                answer.fail(f"`{self.name}` has no number for {', '.join(missing)}")
            if more := [key for key in said if key not in self.right]:
                answer.fail(f"`{self.name}` has {more[0]!r}, which is none of {', '.join(self.right)}")
            if strange := [key for key, number in said.items() if not _is_whole(number)]:
                answer.fail(f"`{strange[0]}`: {said[strange[0]]!r} is not a whole number")
        wrong: list[tuple[str, Found]] = []
        for key in self.right:
            with answer.at("right", key):
                found = self.find(answer, key)
                if said[key] != found[0]:
                    wrong.append((key, found))
        with answer.at("right"):
            if wrong:
                key, (_, words, record, at) = wrong[0]
                also = "".join(f"\n`{other}` is wrong too" for other, _ in wrong[1:])
                answer.fail(f"`{key}`: you said {said[key]}, {words}{also}", record, at)
        return ()


def _is_whole(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and float(number).is_integer()
