"""The table of situations: what users of torch.compile ask, and the lines of a record that answer it."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path

import benchmarks.programs  # noqa: F401, makes the tests' programs importable
from benchmarks.report import Aim, Report, Selection
from situations import SITUATIONS, Situation

HOST, TORCH = "https://github.com/", "pytorch/pytorch"
DOCUMENT = Path(__file__).parent.parent / "docs" / "situations.md"
LONGEST = 600

HEAD = """# What users ask of torch.compile, answered by a record

Made by `python -m benchmarks situations`. Each row is a small program of `tests/situations.py`; the answer is the lines
of what is printed of its record that answer the question. `tests/test_situations.py` compares the compiles, recompiles
with their reasons, and graph breaks of each record with torch's own counters and metrics of the program. "Thread" is an
issue of pytorch/pytorch, or of the repository that it names. A fix that was tried has compiles of its own,
`record.attempts` (`fix0s0`). Not covered: CUDA graph recording (needs a GPU), and how long ranks wait for each other
(needs several).

| question | thread | printed by | answer |
| --- | --- | --- | --- |
"""


def run(selection: Selection) -> Report:
    rows, missed = [], []
    logging.disable(logging.WARNING)
    for name, situation in SITUATIONS.items():
        if not selection.of(name):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = situation.text(situation.record())
        missed += [f"{name}: {said}" for said in situation.says if said not in text]
        repository, _, number = situation.thread.rpartition("#")
        thread = f"[{repository}#{number}]({HOST}{repository or TORCH}/issues/{number})" if number else ""
        rows.append((situation.asks, thread, f"print(record{_of(situation)})", answer(text, situation)))
    logging.disable(logging.NOTSET)
    if len(rows) == len(SITUATIONS):
        cells = ((cell.replace("|", "\\|") for cell in row) for row in rows)
        DOCUMENT.write_text(HEAD + "".join(f"| {' | '.join(row)} |\n" for row in cells))
    aims = (Aim("each is answered", "; ".join(missed) or f"all {len(rows)}", not missed),)
    return Report("Situations", ("question", "thread", "printed by", "answer"), tuple(rows), aims)


def _of(situation: Situation) -> str:
    return f".{situation.listing}" if situation.listing else ""


def answer(text: str, situation: Situation) -> str:
    """For each part of the answer the first line with it and the most of the others, without folders."""
    lines = text.splitlines()
    best = sorted(lines, key=lambda line: -sum(said in line for said in situation.says))
    chosen = {next((line for line in best if said in line), best[0]) for said in situation.says}
    return "<br>".join(_shown(line) for line in dict.fromkeys(lines) if line in chosen)


def _shown(line: str) -> str:
    plain = re.sub(r"(?:/[\w.-]+)+/([\w.-]+\.py)", r"\1", " ".join(line.split()))
    plain = re.sub(r"\b(?:\d{12,}|0x[0-9a-f]+)\b", "...", plain)
    ended = plain if len(plain) <= LONGEST else f"{plain[:LONGEST].rpartition(' ')[0]} …"
    return f"`` {ended} ``" if "`" in ended else f"`{ended}`"
