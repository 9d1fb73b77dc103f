"""The table of situations: what users of torch.compile ask, and the lines of a record that answer it."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path

import benchmarks.programs  # noqa: F401, makes the tests' programs importable
from benchmarks.report import Aim, Report, Selection
from situations import SITUATIONS, Situation

DOCUMENT = Path(__file__).parent.parent / "docs" / "situations.md"
LONGEST = 220

HEAD = """# What users ask of torch.compile, answered by a record

Made by `python -m benchmarks situations`. Each row is a small program of `tests/situations.py`; the answer is a line of
what is printed of its record. "Thread" is an issue number of pytorch/pytorch. Not covered:
CUDA graph recording (needs a GPU), and DDPOptimizer buckets and ranks that wait for each other (need several GPUs).

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
        rows.append((situation.asks, situation.thread, f"print(record{_of(situation)})", answer(text, situation)))
    logging.disable(logging.NOTSET)
    if len(rows) == len(SITUATIONS):
        cells = ((cell.replace("|", "\\|") for cell in row) for row in rows)
        DOCUMENT.write_text(HEAD + "".join(f"| {' | '.join(row)} |\n" for row in cells))
    aims = (Aim("each is answered", "; ".join(missed) or f"all {len(rows)}", not missed),)
    return Report("Situations", ("question", "thread", "printed by", "answer"), tuple(rows), aims)


def _of(situation: Situation) -> str:
    return f".{situation.listing}" if situation.listing else ""


def answer(text: str, situation: Situation) -> str:
    """The first line that says the most of what is wanted, without folders."""
    best = max(text.splitlines(), key=lambda line: sum(said in line for said in situation.says))
    plain = re.sub(r"(?:/[\w.-]+)+/([\w.-]+\.py)", r"\1", " ".join(best.split()))
    plain = re.sub(r"\b\d{12,}\b", "...", plain)
    return f"`{plain[:LONGEST]}{'…' if len(plain) > LONGEST else ''}`"
