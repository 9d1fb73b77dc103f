"""Graph breaks in torch's own words: the entry in its registry, the explanation and the hints."""

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
    "The error has no entry in Dynamo's registry of graph breaks; its message follows.",
    "Move the operation out of the compiled function, or mark it with torch.compiler.disable.",
)
SKIPPED = reason(
    "stock.skipped",
    "Dynamo skipped the frame",
    "Dynamo decided not to compile this function, so Python runs it. Functions that it calls may still be compiled.",
)
FAILED = reason(
    "stock.failed",
    "the compile failed",
    "An error ended the compile of this frame.",
    "Read the error. Compile with backend='eager' and then 'aot_eager' to see which part of the compiler raises it.",
)


@dataclass(frozen=True)
class RegistryEntry:
    """One entry of torch's registry."""

    id: str
    title: str
    explanation: str
    hints: tuple[str, ...]

    @property
    def link(self) -> str:
        return SITE.format("gb" + self.id.removeprefix("GB"))


@cache
def registry() -> dict[str, RegistryEntry]:
    """torch's registry by the type of break; empty if this version of torch has none."""
    path = Path(torch._dynamo.__file__).parent / "graph_break_registry.json"
    if not path.exists():
        return {}
    found = {}
    for id, versions in json.loads(path.read_text()).items():
        for each in versions:
            hints = tuple(" ".join(hint.split()) for hint in each["Hints"])
            found[each["Gb_type"]] = RegistryEntry(id, each["Gb_type"], " ".join(each["Explanation"].split()), hints)
    return found


@dataclass(frozen=True)
class BreakMessage:
    """The parts of a Dynamo error message. `context` is torch's developer context."""

    title: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    stack: tuple[FrameSummary, ...]
    entry: RegistryEntry | None
    cause: BreakMessage | None = None
    """The first of several breaks that led to each other."""


def break_message(error: BaseException) -> BreakMessage:
    """The parsed message of a Dynamo exception."""
    message = str(getattr(error, "msg", "") or error)
    stack = tuple(getattr(error, "real_stack", None) or ())
    return parsed_message(message, stack, getattr(error, "gb_type", None) or "")


def parsed_message(message: str, stack: tuple[FrameSummary, ...], kind: str = "") -> BreakMessage:
    """Parses a message of `torch._dynamo.exc.format_graph_break_message`; if it has several breaks, the last."""
    first, *others = message.split(ANOTHER)
    cause, last = (parsed_message(first, stack), others[-1]) if others else (None, first)
    head, _, rest = last.strip().partition("\n  Explanation: ")
    title = kind or head.strip().rpartition("\n")[2]
    rest, _, context = rest.partition("\n\n  Developer debug context:")
    explanation, *hints = re.split(r"\n\s*Hint: ", rest)
    return BreakMessage(
        title,
        " ".join(explanation.split()),
        tuple(" ".join(hint.split()) for hint in hints),
        " ".join(context.partition("\n\n For more details")[0].split()),
        stack,
        registry().get(title),
        cause,
    )


def why_of(found: BreakMessage) -> data.WhyData:
    """The reason under torch's id of the break; adds it to the catalogue on first use."""
    if found.entry is None:
        return data.WhyData(NO_ENTRY, found.title or CATALOGUE[NO_ENTRY].title, found.explanation)
    code = f"stock.{found.entry.id}"
    if code not in CATALOGUE:
        hint = " ".join((*found.entry.hints, f"See {found.entry.link}."))
        reason(code, found.entry.title, found.entry.explanation or found.explanation, hint)
    return data.WhyData(code, found.entry.title, found.explanation)


def reason_of(error: BaseException) -> data.WhyData:
    """Why a frame runs in Python, from the exception that ended its compile."""
    kind = type(error).__name__
    if kind == "SkipFrame":
        return data.WhyData(SKIPPED, CATALOGUE[SKIPPED].title, str(error))
    if getattr(error, "gb_type", None):
        return why_of(break_message(error))
    return data.WhyData(FAILED, CATALOGUE[FAILED].title, f"{kind}: {str(error).partition(chr(10))[0]}")


def span_of(frame: FrameSummary) -> data.SpanData:
    at: Any = frame
    column, end_column = getattr(at, "colno", None), getattr(at, "end_colno", None)
    line = frame.lineno or 0
    return data.SpanData(
        frame.filename, line, getattr(at, "end_lineno", None) or line,
        -1 if column is None else column, -1 if end_column is None else end_column,
    )  # fmt: skip
