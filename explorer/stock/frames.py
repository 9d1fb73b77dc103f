"""The frames that Dynamo compiles: bytecode before and after, resume functions, why one is left to Python."""

from __future__ import annotations

import types
from collections.abc import Iterator

from msgspec.structs import replace

from explorer.ir import record as data
from explorer.stock.codes import code_data, listing
from explorer.stock.hook import Call, Hook, Watch
from explorer.stock.observation import Observation
from explorer.stock.unsupported import reason_of


def around_frame(seen: Observation, call: Call) -> Iterator[None]:
    code: types.CodeType = call.args[0]
    compile = seen.begin(call.kwargs["compile_id"], code.co_qualname, code)
    original = compile.adopt(code, "original")
    made = code_data(code, original, "original")
    compile.codes.append(made)
    compile.stage("bytecode", body=listing(made))
    compile.continues = seen.continuations.get(code, "")
    compile.running = True
    yield
    compile.running = False
    compile.seconds += call.seconds
    compile.codes += [code_data(each, id, role) for each, (id, role) in compile.adopted.items() if each is not code]
    compile.evaluation = None
    if call.error is not None:
        compile.error = f"{type(call.error).__name__}: {str(call.error).partition(chr(10))[0]}"
        compile.fallback = reason_of(call.error)
        compile.skipped = True
        return
    guarded = getattr(call.result, "guarded_code", None)
    if guarded is None:
        said = getattr(call.result, "skip_reason", None) or "Dynamo left the frame to Python"
        compile.fallback = data.WhyData("stock.skipped", "Dynamo skipped the frame", said)
        compile.skipped = True
        return
    compile.guard_managers.append(guarded.guard_manager)
    rewritten = code_data(guarded.code, f"{compile.id}.rewritten", "rewritten")
    compile.codes.insert(1, rewritten)
    compile.stage("rewritten bytecode", ended=call.started + call.seconds, body=listing(rewritten))


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
    watches=(
        Watch("torch._dynamo.convert_frame:_compile", around_frame),
        Watch("torch._dynamo.resume_execution:ContinueExecutionCache.lookup", around_resume),
    ),
)
