"""The frames that Dynamo compiles: bytecode before and after, resume functions, and why a frame is skipped."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from functools import partial
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from explorer.core.package import OWN_FILES
from explorer.core.recorder import EVENT_CAP
from explorer.ir import record as data
from explorer.records.stock.breaks import LIBRARIES
from explorer.records.stock.codes import code_data, listing
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation
from explorer.records.stock.unsupported import reason_of

COMPILE = "torch._dynamo.convert_frame:_compile"

_EACH_TIME = re.compile(
    r"Dynamo decided to skip the frame while tracing: |`torch\.compile` will skip the frame and fall back to eager\. ?"
    r"|Frame info: .*$"
)
INLINED = "wrap_inline.<locals>.inner"
"""What torch calls the frame that it puts around a module, whose own class it does not trace into."""

MODULE_CALLS = ("__call__", "_call_impl", "_wrapped_call_impl", "forward")

CHECKS = 5
"""Of a frame's guards, to time them."""


def around_frame(seen: Observation, call: Call) -> Iterator[None]:
    code: types.CodeType = call.args[0]
    title = name_of(call.args[2].get("fn")) if code.co_qualname == INLINED else code.co_qualname
    compile = seen.begin(call.kwargs["compile_id"], title, code)
    original = compile.adopt(code, "original")
    compile.stage_later(COMPILE, "bytecode", partial(add_code, compile, code, original, "original"))
    compile.continues = seen.continuations.get(code, "")
    compile.running = True
    yield
    compile.running = False
    compile.seconds += call.seconds
    for each, (id, role) in compile.adopted.items():
        if each is not code:
            compile.later(COMPILE, partial(add_code, compile, each, id, role))
    compile.evaluation = None
    if seen.calls is not None:
        seen.calls.compiled(call.seconds, compile.id)
    if call.error is not None:
        compile.error = f"{type(call.error).__name__}: {call.error}"
        compile.fallback = reason_of(call.error)
        compile.skipped = True
        seen.failing = compile
        return
    guarded = getattr(call.result, "guarded_code", None)
    if guarded is None:
        said = why_skipped(getattr(call.result, "skip_reason", None) or "")
        compile.fallback = data.WhyData("stock.skipped", "Dynamo skipped the frame", said)
        compile.skipped = True
        return
    if seen.calls is None:
        compile.guard_managers.append(guarded.guard_manager)
    compile.guard_seconds = seconds_of(guarded.guard_manager, call.args[2])
    made = partial(add_code, compile, guarded.code, f"{compile.id}.rewritten", "rewritten")
    compile.stage_later(COMPILE, "rewritten bytecode", made, ended=call.started + call.seconds)


def add_code(compile: Compile, code: types.CodeType, id: str, role: str) -> dict[str, data.TextData]:
    """Show `code` under the compile; gives its listing as the body of a stage."""
    made = code_data(code, id, role)
    compile.codes.insert(1 if role == "rewritten" else len(compile.codes), made)
    return {"body": listing(made)}


def around_answer(seen: Observation, call: Call) -> Iterator[None]:
    """Dynamo's result for a frame; an error is raised in the program or suppressed."""
    seen.failing = None
    yield
    if call.error is not None:
        if seen.failing is not None:
            seen.failing.raises, seen.failing.fallback = True, None
        seen.raised = call.error if seen.calls is None else None
        return
    said = getattr(call.result, "skip_reason", None)
    code = call.args[1].f_code
    if said is None or call.result.guarded_code is not None or len(seen.left) >= EVENT_CAP:
        return
    own = code in seen.continuations or not code.co_filename.startswith((*LIBRARIES, OWN_FILES, "<"))
    if own and not any(compile.code is code for compile in seen.compiles):
        seen.left.setdefault(code, why_skipped(said))


def name_of(function: Any) -> str:
    """The name of a function, or of the module whose call it is."""
    if getattr(function, "__qualname__", "") == INLINED:
        function = function.__wrapped__
    inner = getattr(function, "__self__", None)
    if inner is not None and getattr(function, "__name__", "") in MODULE_CALLS:
        function = type(inner)
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def why_skipped(said: str) -> str:
    """Torch's reason for leaving a frame to Python, without the sentences that each has."""
    return _EACH_TIME.sub("", " ".join(said.split())).strip()


def seconds_of(manager: Any, local: Mapping[str, Any]) -> float | None:
    """The quickest of a few checks of all guards, which hold now."""
    taken = []
    for _ in range(CHECKS):
        started = perf_counter()
        holds = manager.check(local)
        taken.append(perf_counter() - started)
        if not holds:
            return None  # the compile has changed what they ask of
    return min(taken)


def around_resume(seen: Observation, call: Call) -> Iterator[None]:
    yield
    compile = seen.compile()
    if isinstance(call.result, types.CodeType):
        seen.continuations[call.result] = compile.id
        compile.adopt(call.result, "continuation")
        names = ", ".join(code.co_name for code, (_, role) in compile.adopted.items() if role == "continuation")
        compile.breaks[-1:] = [replace(each, continuation=names) for each in compile.breaks[-1:]]


HOOK = Hook(
    "frames",
    shows="bytecode of every frame, original and rewritten, resume functions, frames left to Python with why",
    missing="compiles under torch's own numbers, without bytecode, titles and what was left to Python",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._dynamo.convert_frame:CatchErrorsWrapper.__call__", around_answer),
        Patch(COMPILE, around_frame),
        Patch("torch._dynamo.resume_execution:ContinueExecutionCache.lookup", around_resume),
    ),
)
