"""What Dynamo does not support, in torch's own words: the entry of its registry of graph breaks, explanation, hints."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from traceback import FrameSummary
from typing import Any

import torch._dynamo

from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data

ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
NO_ENTRY = reason(
    "stock.unsupported",
    "Dynamo does not support this",
    "What Dynamo raised has no entry in its registry of graph breaks; its own words follow.",
    "Move the operation out of the compiled function, or mark it with torch.compiler.disable.",
)
SKIPPED = reason(
    "stock.skipped",
    "Dynamo skipped the frame",
    "Dynamo decided not to compile this function, so that Python runs it. Functions that it calls may still be "
    "compiled.",
)
FAILED = reason(
    "stock.failed",
    "the compile failed",
    "An error ended the compile of this frame.",
    "Read the error; with backend='eager' or 'aot_eager' one sees which part of the compiler raised it.",
)


@dataclass(frozen=True)
class Entry:
    """One entry of torch's registry."""

    id: str
    title: str
    explanation: str
    hints: tuple[str, ...]

    @property
    def link(self) -> str:
        return SITE.format("gb" + self.id.removeprefix("GB"))


@cache
def registry() -> dict[str, Entry]:
    """torch's registry by the type of break; empty where this torch has none."""
    path = Path(torch._dynamo.__file__).parent / "graph_break_registry.json"
    if not path.exists():
        return {}
    found = {}
    for id, versions in json.loads(path.read_text()).items():
        for each in versions:
            hints = tuple(" ".join(hint.split()) for hint in each["Hints"])
            found[each["Gb_type"]] = Entry(id, each["Gb_type"], " ".join(each["Explanation"].split()), hints)
    return found


@dataclass(frozen=True)
class Told:
    """An exception of Dynamo's, taken apart. `context` is torch's developer context."""

    title: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    stack: tuple[FrameSummary, ...]
    entry: Entry | None
    cause: Told | None = None
    """The break that this one came of: of several that follow each other, the first."""


def told(error: BaseException) -> Told:
    """What an exception of Dynamo's says."""
    message = str(getattr(error, "msg", "") or error)
    return taken_apart(message, tuple(getattr(error, "real_stack", None) or ()), getattr(error, "gb_type", None) or "")


def taken_apart(message: str, stack: tuple[FrameSummary, ...], kind: str = "") -> Told:
    """A message of the form that `torch._dynamo.exc.format_graph_break_message` gives it, the last where several follow
    each other."""
    first, *others = message.split(ANOTHER)
    cause, last = (taken_apart(first, stack), others[-1]) if others else (None, first)
    head, _, rest = last.strip().partition("\n  Explanation: ")
    title = kind or head.strip().rpartition("\n")[2]
    rest, _, context = rest.partition("\n\n  Developer debug context:")
    explanation, *hints = re.split(r"\n\s*Hint: ", rest)
    return Told(
        title,
        " ".join(explanation.split()),
        tuple(" ".join(hint.split()) for hint in hints),
        " ".join(context.partition("\n\n For more details")[0].split()),
        stack,
        registry().get(title),
        cause,
    )


def why_of(found: Told) -> data.WhyData:
    """The reason under torch's own id of the break; its catalogue entry is made when first needed."""
    if found.entry is None:
        return data.WhyData(NO_ENTRY, found.title or CATALOGUE[NO_ENTRY].title, found.explanation)
    code = f"stock.{found.entry.id}"
    if code not in CATALOGUE:
        hint = " ".join((*found.entry.hints, f"See {found.entry.link}."))
        reason(code, found.entry.title, found.entry.explanation or found.explanation, hint)
    return data.WhyData(code, found.entry.title, found.explanation)


def reason_of(error: BaseException) -> data.WhyData:
    """Why a frame was left to Python, from the exception that ended its compile."""
    kind = type(error).__name__
    if kind == "SkipFrame":
        return data.WhyData(SKIPPED, CATALOGUE[SKIPPED].title, str(error))
    if getattr(error, "gb_type", None):
        return why_of(told(error))
    return data.WhyData(FAILED, CATALOGUE[FAILED].title, f"{kind}: {str(error).partition(chr(10))[0]}")


def span_of(frame: FrameSummary) -> data.SpanData:
    at: Any = frame
    column, end_column = getattr(at, "colno", None), getattr(at, "end_colno", None)
    line = frame.lineno or 0
    return data.SpanData(
        frame.filename, line, getattr(at, "end_lineno", None) or line,
        -1 if column is None else column, -1 if end_column is None else end_column,
    )  # fmt: skip
