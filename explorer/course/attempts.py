"""What a learner tried, one line of JSON each, in a file beside the notebook."""

from __future__ import annotations

import gzip
import os
import secrets
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec

from explorer.core.files import regular
from explorer.ir.record import encoded

FILE = ".explorer-course.jsonl"
RECORDS = ".explorer-course"
NAME = "EXPLORER_COURSE_NAME"
"""The environment variable by which a learner chooses to be named on a board."""


MOST = 20_000_000
"""Bytes of a file that are read: the lines are written by learners' machines, and read by a teacher's."""

Text = Annotated[str, msgspec.Meta(max_length=10_000)]


class AttemptLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a learner did at `at` (seconds since 1970): `what` is "check", "predict", "hint" or "solution". A check has
    the verdict: `place` is the end of an address, where its record shows what is wrong."""

    who: Text
    at: Annotated[float, msgspec.Meta(ge=0, le=1e11)]
    what: Text
    puzzle: Text
    name: Text = ""
    ok: bool = False
    step: Text = ""
    message: Text = msgspec.field(default="", name="said")
    seconds: float = 0.0
    scores: dict[Text, float] = {}
    hints: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] = 0
    record: Text = ""
    place: Text = ""


class Attempts:
    """The attempts in one folder. A learner is a random word, and has a name where EXPLORER_COURSE_NAME gives one."""

    def __init__(self, folder: Path | None = None) -> None:
        self.file = (folder or Path.cwd()) / FILE

    def read(self) -> list[AttemptLine]:
        """The lines that are of the right form."""
        try:
            with regular(self.file) as file:
                lines = file.read(MOST).split(b"\n")
        except OSError:
            return []
        return [found for line in lines if (found := parsed(line)) is not None]

    def add(self, what: str, puzzle: str, **facts: Any) -> None:
        """Append a line. A folder that cannot be written to loses the line, and no more."""
        who = next((each.who for each in self.read() if each.who), "") or secrets.token_hex(4)
        name = os.environ.get(NAME, "")
        line = AttemptLine(who, round(time.time(), 1), what, puzzle, name=name, **facts)
        try:
            with self.file.open("ab") as file:
                file.write(encoded(line) + b"\n")
        except OSError as error:
            print(f"(not written to {self.file}: {error.strerror})")

    def keep(self, puzzle: str, record: str) -> str:
        """Put the record of a failure beside the lines, without the name of the person's home folder, for the board of
        a class to open. Returns its name; "" where the folder cannot be written to."""
        text = gzip.decompress(Path(record).read_bytes()).replace(str(Path.home()).encode(), b"~")
        place = self.file.parent / RECORDS / f"{puzzle}.explore.json.gz"
        try:
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(gzip.compress(text))
        except OSError:
            return ""
        return place.name

    def tries(self, puzzle: str) -> int | None:
        """Which check of a puzzle was the first right one. A cell that was not complete is no try."""
        checks = (
            each for each in self.read() if each.what == "check" and each.puzzle == puzzle and each.step != "defined"
        )
        return next((number for number, each in enumerate(checks, 1) if each.ok), None)

    def count(self, what: str, puzzle: str) -> int:
        return sum(each.what == what and each.puzzle == puzzle for each in self.read())


def parsed(line: bytes) -> AttemptLine | None:
    try:
        return msgspec.json.decode(line, type=AttemptLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
