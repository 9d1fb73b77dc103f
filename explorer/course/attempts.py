"""What a learner tried, one line of JSON each, in a file beside the notebook."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

FILE = ".explorer-course.jsonl"
RECORDS = ".explorer-course"
NAME = "EXPLORER_COURSE_NAME"
"""The environment variable by which a learner chooses to be named on a board."""


class Attempts:
    """The attempts in one folder. A learner is a random word, and has a name where EXPLORER_COURSE_NAME gives one."""

    def __init__(self, folder: Path | None = None) -> None:
        self.file = (folder or Path.cwd()) / FILE

    def read(self) -> list[dict[str, Any]]:
        if not self.file.exists():
            return []
        lines = self.file.read_text(errors="replace").splitlines()
        return [found for line in lines if isinstance(found := parsed(line), dict)]

    def add(self, what: str, puzzle: str, **facts: Any) -> None:
        """Append a line. A folder that cannot be written to loses the line, and no more."""
        who = next((each["who"] for each in self.read() if "who" in each), "") or secrets.token_hex(4)
        line = {"who": who, "at": round(time.time(), 1), "what": what, "puzzle": puzzle, **facts}
        if name := os.environ.get(NAME):
            line["name"] = name
        try:
            with self.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
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

    def count(self, what: str, puzzle: str) -> int:
        return sum(each.get("what") == what and each.get("puzzle") == puzzle for each in self.read())


def parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
