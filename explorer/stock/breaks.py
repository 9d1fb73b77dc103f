"""Graph breaks: torch's registry id, explanation and hints, and the user's stack."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir import record as data
from explorer.stock.hook import Call, Hook, Watch
from explorer.stock.observation import Compile, Observation
from explorer.stock.unsupported import span_of, told, why_of


def around_break(seen: Observation, call: Call) -> Iterator[None]:
    tracer, _, reason, error = call.args[:4] if len(call.args) > 3 else (*call.args, None, None, None)[:4]
    error = call.kwargs.get("exc", error)
    if error is None or getattr(error, "logged", False):
        yield
        return
    compile = seen.compile()
    found = told(error)
    user = list(found.stack)
    span = span_of(user[-1]) if user else None
    stack = tuple(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in user)
    instruction = compile.steps[-1].instruction if compile.steps and not compile.left_out["EvaluatorStep"] else ""
    hints = found.hints or (found.entry.hints if found.entry else ())
    compile.breaks.append(data.BreakData(why_of(found), instruction, span, stack, hints))
    link = found.entry.link if found.entry else "this torch's registry has no entry of this type"
    compile.event("GraphBreak", id=found.entry.id if found.entry else "", context=found.context, link=link)
    yield


def with_continuation(compile: Compile, names: str) -> None:
    """The last break goes on in the resume functions of these names."""
    if compile.breaks and not compile.breaks[-1].continuation:
        last = compile.breaks[-1]
        compile.breaks[-1] = data.BreakData(last.why, last.instruction, last.span, last.stack, last.hints, names)


HOOK = Hook(
    "breaks",
    shows="each graph break with torch's registry id, explanation, hints and the user's stack",
    missing="resume functions show that the graph was broken, without the reason",
    checked=("2.13",),
    watches=(Watch("torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break", around_break),),
)
