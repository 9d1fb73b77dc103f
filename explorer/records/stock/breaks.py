"""Graph breaks: torch's registry id, explanation and hints, and the user's stack."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from traceback import FrameSummary

from msgspec.structs import replace
from torch import fx

from explorer.core.files import OWN_FILES, STANDARD, folder_of_packages
from explorer.ir import record as data
from explorer.records.data.exploration import RECORDED
from explorer.records.stock import fixes
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation


def is_of_library(file: str) -> bool:
    """Whether the user did not write a file. Dynamo traces into such, so that a break may lie deep inside."""
    return file.startswith((fixes.TORCH, *STANDARD)) or bool(folder_of_packages(file))


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def place(nodes: Iterable[fx.Node]) -> str:
    """The first of the program's own lines, "FILE:LINE", that made one of the nodes; a library's calls them."""
    for node in nodes:
        frames: list[tuple[str, str]] = _FRAME.findall(node.meta.get("stack_trace") or "")
        own = [frame for frame in frames if not is_of_library(frame[0])]
        if frames:
            return ":".join((own or frames)[-1])
    return ""


GENERATED = ("<frozen", "<eval_with_key>")
"""How the names of files begin that are none of the program: of Python's own modules, and of graphs."""


def raised_at(error: BaseException) -> data.SpanData | None:
    """The innermost line of the program that an exception passed, in a graph that line which made the operation: a
    compiled frame has no lines of its own."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if isinstance(graph := frame.f_locals.get("self"), fx.GraphModule) and file.startswith(GENERATED):
            file, _, number = _made_by(graph, line).rpartition(":")
            line = int(number or 0)
        if file and not file.startswith((OWN_FILES, *GENERATED)) and not is_of_library(file):
            found = data.SpanData(file, line, line)
    return found


def _made_by(graph: fx.GraphModule, line: int) -> str:
    """The program's line, "FILE:LINE", that made the operation in a line of a graph's code."""
    number = getattr(graph, "_lineno_map", {}).get(line - getattr(graph, "_prologue_start", 0))
    return place(list(graph.graph.nodes)[number : number + 1]) if isinstance(number, int) else ""


MOST_CAUSES = 10


def whole_text(error: BaseException) -> str:
    """The type of an exception and its text; in lines of their own its notes, the exceptions that it is a group of, and
    those that led to it, each with the program's line."""
    lines = [_type_and_text(error), *(str(each) for each in getattr(error, "__notes__", ()) if each != RECORDED)]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"one of them is {_placed(each)}" for each in error.exceptions[:MOST_CAUSES]]
    before, seen = error, {id(error)}
    while len(seen) <= MOST_CAUSES:
        cause = before.__cause__ or (None if before.__suppress_context__ else before.__context__)
        if cause is None or id(cause) in seen:
            break
        how = "caused by" if before.__cause__ is cause else "while handling"
        lines.append(f"{how} {_placed(cause)}")
        before = cause
        seen.add(id(cause))
    return "\n".join(lines)


def _type_and_text(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception as raised:  # a class of the program has a text of its own
        message = f"its text cannot be made: {type(raised).__name__}"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _placed(error: BaseException) -> str:
    place = raised_at(error)
    return _type_and_text(error) + (f" ({place.file}:{place.line})" if place else "")


def around_break(seen: Observation, call: Call) -> Iterator[None]:
    error = call.kwargs["exc"] if "exc" in call.kwargs else call.args[3]
    if not getattr(error, "logged", False):
        add(seen.compile(), fixes.break_message(error))
    yield


def around_end(seen: Observation, call: Call) -> Iterator[None]:
    """The graph ends here. Its reason is the break, if Dynamo has logged none."""
    compile = seen.compile()
    reason = call.kwargs.get("reason") or call.args[2]
    if reason.graph_break and not compile.breaks:
        add(compile, fixes.parsed_message(reason.reason, tuple(reason.user_stack)))
    yield


def add(compile: Compile, message: fixes.BreakMessage) -> None:
    """Adds a break under its first cause: a break in a loop, say, leads to a skipped frame."""
    found = message.cause or message
    user = users_line(message.stack)
    span = fixes.span_of(user) if user is not None else None
    stack = tuple(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in message.stack)
    step = -1 if compile.left_out["EvaluatorStep"] else len(compile.steps) - 1
    instruction = compile.steps[step].instruction if step >= 0 else ""
    fix = fixes.fix_of(found, (user.line or "") if user is not None else "")
    more = found.hints or (found.entry.hints if found.entry else ())
    hints = (fix.hint, *(hint for hint in more if not any(setting in hint for setting in fix.settings)))
    why = fixes.why_of(found)
    if message is not found:
        why = replace(why, detail=f"{why.detail} This leads to: {message.title}. {message.explanation}")
        hints = (
            hints[0],
            *(fixes.KNOWN + fixes.AROUND[message.title] for _ in range(message.title in fixes.AROUND)),
            *hints[1:],
        )
    if message.stack and "graph_break()" in found.title and message.stack[-1].filename.startswith(fixes.TORCH):
        fix, hints = fixes.Fix(fixes.TORCHS_OWN), (fixes.TORCHS_OWN,)
        at = message.stack[-1]
        inside = f"{at.name}, {at.filename.removeprefix(fixes.TORCH)}:{at.lineno}"
        why = replace(why, title="torch breaks the graph here on purpose", detail=f"in torch's {inside}")
    made = data.BreakData(why, instruction, span, stack, hints, step=step)
    if any((known.why.code, known.span) == (made.why.code, made.span) for known in compile.breaks):
        return
    compile.breaks.append(made)
    compile.fixes.append(fix)
    link = found.entry.link if found.entry else "torch's registry has no entry for this break"
    compile.event("GraphBreak", id=found.entry.id if found.entry else "", context=found.context, link=link)


def users_line(stack: Sequence[FrameSummary]) -> FrameSummary | None:
    """The innermost frame of the user's own code, or else the innermost frame."""
    own = [frame for frame in stack if not is_of_library(frame.filename)]
    return own[-1] if own else stack[-1] if stack else None


HOOK = Hook(
    "breaks",
    shows="each graph break with torch's registry id, explanation, hints and the user's stack",
    missing="the reasons; resume functions still show that the graph broke",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break", around_break),
        Patch("torch._dynamo.output_graph:OutputGraph.compile_subgraph", around_end),
    ),
)
