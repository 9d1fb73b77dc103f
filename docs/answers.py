"""The examples of docs/how_do_i.md, run: `python docs/answers.py` writes what they print below each.

An answer is what the record itself says, so that the page cannot say anything else.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from explorer.course.puzzle import run
from explorer.show.record import Record

PAGE = Path(__file__).parent / "how_do_i.md"
CODE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
VARYING = (
    (re.compile(r"\b\d[\d.]* (ns|us|ms|s)\b"), "TIME"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x..."),
    (re.compile(r"(?:/[\w.-]+)+/([\w.-]+\.py)"), r"\1"),
)


@dataclass(frozen=True)
class Answer:
    """What one example printed, and the last record that it made."""

    question: str
    printed: str
    record: Record


def questions(text: str) -> Iterator[tuple[str, str, str]]:
    """Each question of the page with its code and the answer that stands there."""
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        found = CODE.search(section)
        assert found, section
        yield section.partition("\n")[0], found[1], found[2] or ""


def answer(question: str, code: str, prelude: str) -> Answer:
    """Run an example behind the page's first block, in a folder of its own."""
    names: dict[str, Any] = {"__name__": "program"}
    torch.manual_seed(0)
    torch.compiler.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # it is guarded, and generated code differs
    printed = io.StringIO()
    run(prelude, "prelude.py", names)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            with contextlib.redirect_stdout(printed):
                run(code, "program.py", names)
        finally:
            logging.disable(logging.NOTSET)
            torch.set_num_threads(threads)
            torch.compiler.reset()
    watched = getattr(names.get("log"), "record", None)
    record = names.get("record") or watched or names.get("fixed")
    assert isinstance(record, Record), question
    return Answer(question, shown(printed.getvalue()), record)


def shown(printed: str) -> str:
    """What was printed, without spaces at the ends of lines and folders of this machine."""
    plain = VARYING[2][0].sub(VARYING[2][1], printed)
    return "\n".join(line.rstrip() for line in plain.strip("\n").splitlines()) + "\n"


def steady(printed: str) -> str:
    """What must not differ between two runs: everything but times and addresses."""
    for pattern, instead in VARYING:
        printed = pattern.sub(instead, printed)
    return re.sub(r" {2,}", " ", printed)


def prelude(text: str) -> str:
    found = CODE.search(text)
    assert found
    return found[1]


def written(text: str) -> str:
    """The page with the answers of now; one that differs in its times alone stays."""
    first, *sections = re.split(r"^(?=## )", text, flags=re.M)
    made = [first]
    for section, (question, code, before) in zip(sections, questions(text), strict=True):
        printed = answer(question, code, prelude(text)).printed
        printed = before if steady(printed) == steady(before) else printed
        blocks = f"```python\n{code}```\n\n```text\n{printed}```\n"
        made.append(CODE.sub(lambda found, blocks=blocks: blocks, section))
        print(question, file=sys.stderr)
    return "".join(made)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
