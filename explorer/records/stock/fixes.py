"""Graph breaks in torch's own words (the entry in its registry, the explanation and the hints), and what to do about
each. A fix that is a Dynamo setting, or a rewrite of a branch, can be tried.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from traceback import FrameSummary
from types import CodeType
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import config

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.flow import reachable
from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data
from explorer.records.data.dynamo import NOTHING, OF_TORCH

ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
NO_ENTRY = reason(
    "stock.unsupported",
    "Dynamo does not support this",
    "The error has no entry in Dynamo's registry of graph breaks; its message follows.",
    "Move the operation out of the compiled function, or mark it with torch.compiler.disable.",
)
TORCH = f"{Path(torch.__file__).parent}/"
SKIPPED = reason(
    "stock.skipped",
    "Dynamo skipped the frame",
    "Dynamo decided not to compile this function, so Python runs it. Functions that it calls may still be compiled.",
)
FOR_GOOD = "later calls run eagerly as well, whatever their arguments"
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
    explanation, *hints = re.split(r"\n[ \t]*Hint: ", rest)
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
    found = _raised(found)
    if found.entry is None:
        return data.WhyData(NO_ENTRY, found.title or CATALOGUE[NO_ENTRY].title, found.explanation)
    code = f"stock.{found.entry.id}"
    if code not in CATALOGUE:
        hint = " ".join((*found.entry.hints, f"See {found.entry.link}."))
        reason(code, found.entry.title, found.entry.explanation or found.explanation, hint)
    return data.WhyData(code, found.entry.title, found.explanation)


def _raised(found: BreakMessage) -> BreakMessage:
    """With the exception that the program raised, which torch tells in the context alone."""
    _, is_raised, exception = found.context.partition("raised exception ")
    return replace(found, explanation=f"{exception}. {found.explanation}") if is_raised else found


def skipped(text: str, empty: CodeType | None = None) -> data.WhyData:
    """Why Dynamo makes no graph of a frame, and whether that matters; `empty` is its code where no break is why."""
    if empty is not None and empty.co_filename.startswith(TORCH):
        return data.WhyData(OF_TORCH, CATALOGUE[OF_TORCH].title, text)
    if empty is not None and _passes_on(empty):
        return data.WhyData(NOTHING, CATALOGUE[NOTHING].title, "")
    return data.WhyData(SKIPPED, CATALOGUE[SKIPPED].title, f"{text}; {FOR_GOOD}")


def _passes_on(code: CodeType) -> bool:
    """Whether all that its code can do is to pass on values."""
    decoded = decode(code)
    runs = reachable(decoded)
    return all(each.op in MOVES for each in decoded.instructions if each.id in runs)


MOVES = frozenset(
    "LOAD_CONST LOAD_FAST STORE_FAST LOAD_DEREF STORE_DEREF LOAD_CLOSURE MAKE_CELL POP_TOP PUSH_NULL COPY SWAP NOP "
    "JUMP BUILD_TUPLE RETURN_VALUE".split()
)
"""Instructions that move values, and run no code of their types."""


def reason_of(error: BaseException) -> data.WhyData:
    """Why a frame runs in Python, from the exception that ended its compile."""
    kind = type(error).__name__
    if kind == "SkipFrame":
        return skipped(str(error).rstrip("."))
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


UNTRIED = "Fix (not tried): "
TRIED = "Fix (tried): "
KNOWN = "Known to help: "


@dataclass(frozen=True)
class Fix:
    """`settings` are values for `torch._dynamo.config`; a set extends the current one. `rewrites`: a simple branch can
    be rewritten in the source. A fix with neither is up to the user. `known`: it was found to help in programs of its
    own."""

    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rewrites: bool = False
    known: bool = False

    @property
    def hint(self) -> str:
        return (KNOWN if self.known else UNTRIED) + self.words


LOGGING = frozenset(
    getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error", "critical", "exception", "log")
)

_CALLED = re.compile(r"module: (?P<module>[^,]*), qualname: (?P<name>[^,]*), skip reason: (?P<why>.*)", re.DOTALL)
_BUILTIN = re.compile(r"builtin (?P<name>\w+) ")
_SETTING = re.compile(r"torch\._dynamo\.(?:config\.)?(?P<name>\w+)`?\s*(?:=|to)\s*`?(?P<value>True|False)\b")

BRANCHING = "Data-dependent branching"
"""What stock calls a branch on a tensor's value."""

BRANCH = Fix(
    "compute both sides and select with torch.where; or use torch.cond if only one side may run", rewrites=True
)

ASSERTED = "give the assertion a text that is a constant, or none: it is then captured in the graph"

FIXES: tuple[tuple[str, Fix], ...] = (
    ("Data-dependent branching on a size", Fix(
        "if one side is always taken, state the condition before the branch with torch._check; else use torch.cond, "
        "which captures both sides"
    )),
    (BRANCHING, BRANCH),
    ("Unsupported Tensor.item()", Fix(
        "keep the value a tensor; or set torch._dynamo.config.capture_scalar_outputs to capture the number as a symbol",
        {"capture_scalar_outputs": True},
    )),
    ("Dynamic shape operator", Fix(
        "use an operator whose result has a fixed size (such as torch.where with a mask); or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops to capture the size as a symbol",
        {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True},
    )),
    ("logging.Logger method", Fix(
        "log outside the compiled function; or add the method to torch._dynamo.config.ignore_logging_functions, so "
        "that compiled code skips it",
        {"ignore_logging_functions": LOGGING},
    )),
    ("numpy function", Fix(
        "use the equivalent torch function; or call NumPy before the compiled function and pass in the result"
    )),
    ("Observed exception", Fix(
        "catch the exception inside the compiled function, or move what raises it to before or after its call"
    )),
    ("Unsupported context manager", Fix("enter it around the call of the compiled function instead")),
    ("copy.deepcopy", Fix("copy tensors with clone(); copy other objects before the compiled function")),
    ("tp_iter", Fix("read the values, or make a list of them, before the compiled function, and pass them in")),
    ("torch.jit.script", Fix("compile the original module, without torch.jit.script")),
    ("Data-dependent assertion", Fix(ASSERTED, known=True)),
)  # fmt: skip
"""By a part of the break's title."""

_AFTER = "which calls it after the graph has run"
EFFECTS: Mapping[str, Fix] = {
    "print": Fix(
        "print after the compiled function; or add the function to "
        f"torch._dynamo.config.reorderable_logging_functions, {_AFTER}",
        {"reorderable_logging_functions": frozenset((print, warnings.warn))},
    ),
    "_warnings.warn": Fix(
        "warn before or after the compiled function; or add warnings.warn to "
        f"torch._dynamo.config.reorderable_logging_functions, {_AFTER}",
        {"reorderable_logging_functions": frozenset((print, warnings.warn))},
    ),
}
CLOCK = Fix(
    "read the clock before and after the compiled function: a graph does not run line by line, so there is no time "
    "between two lines"
)
OTHERWISE = Fix("move the line out of the compiled function, to before or after its call")
TORCHS_OWN = (
    "No change is needed: the line is in torch, which breaks the graph here on purpose. The code before and after it "
    "is compiled."
)

AROUND: Mapping[str, str] = {
    "graph break in loop": "move the body of the loop into its own function: Python then runs the loop, and Dynamo "
    "compiles the parts of that function before and after the break",
    "Graph break under GenericContextWrappingVariable": "move the body of the with statement into its own "
    "function, which Dynamo then compiles separately",
}
"""Fixes for a break that makes Dynamo skip the whole frame, by the title of the break that it leads to."""


def fix_of(found: BreakMessage, line: str = "") -> Fix:
    """What to do about a break in this line of the program."""
    own = _fix_of(found, _statement(line))
    if own.settings or own.rewrites:
        return own
    named = (match for hint in found.hints for match in _SETTING.finditer(hint))
    settings = {match["name"]: match["value"] == "True" for match in named if hasattr(config, match["name"])}
    if not settings:
        return own
    set_to = " and ".join(f"torch._dynamo.config.{name} = {value}" for name, value in settings.items())
    words = f"set {set_to}" if own is OTHERWISE else f"{own.words}; or set {set_to}"
    return replace(own, words=words, settings=settings)


def _statement(line: str) -> ast.stmt | None:
    try:
        (only,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    return only


def _fix_of(found: BreakMessage, statement: ast.stmt | None) -> Fix:
    if (builtin := _BUILTIN.match(found.context)) is not None:
        name = builtin["name"]
        return EFFECTS.get(name) or _outside(f"{name}()")
    if (called := _CALLED.match(found.context)) is not None:
        name = f"{called['module']}.{called['name']}".removeprefix("<unknown module>.")
        if name in EFFECTS:
            return EFFECTS[name]
        if called["module"] == "time" and called["name"] != "sleep":
            return CLOCK
        is_for_its_effect = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if "C extension" in called["why"] and not is_for_its_effect:
            return Fix(
                f"call {name}() before the compiled function and pass in the result; if it takes tensors, register it "
                "with torch.library.custom_op to capture the call in the graph"
            )
        return _outside(f"{name}()")
    if found.title.startswith(BRANCHING) and isinstance(statement, ast.Assert):
        return Fix(ASSERTED, known=True)
    title = f"{found.title} on a size" if "SymNodeVariable" in found.context else found.title
    return next((fix for part, fix in FIXES if part in title), OTHERWISE)


def _outside(name: str) -> Fix:
    return Fix(f"call {name} before or after the compiled function")
