"""What stock's compile time goes into, by torch's own timers, and what it spends on C++: probing the processor's
instruction sets, precompiled headers, and each kernel's build.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torch._inductor.cpu_vec_isa import valid_vec_isa_list

from explorer.ir import record as data
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation

PROBE = "g++ (probe of the processor's vector instructions)"
HEADER = "g++ (precompiled header)"
KERNEL = "g++"


def around_build(seen: Observation, call: Call) -> Iterator[None]:
    yield
    builder = call.args[0]
    output = str(builder.get_target_file_path())
    tool = PROBE if seen.probing else HEADER if output.endswith((".gch", ".pch")) else KERNEL
    if call.error is None:
        _add(seen, tool, tuple(builder.get_command_line().split()), output, call.seconds, cached=False)


def around_probe(seen: Observation, call: Call) -> Iterator[None]:
    seen.probing += 1
    try:
        yield
    finally:
        seen.probing -= 1
    seen.compile().event("Phase", name="probe of a vector instruction set", seconds=f"{call.seconds:.6f}")


def probe_vector_instructions() -> None:
    """Have Inductor find out which vector instructions the C++ compiler builds and this machine runs. That takes some
    20 s in a user's first compile on a machine, and nothing later: it keeps the answer in its own cache."""
    valid_vec_isa_list()


def around_load(seen: Observation, call: Call) -> Iterator[None]:
    yield
    path = str(call.args[1]) if len(call.args) > 1 else ""
    half = seen.compile().half
    if call.error is None and half is not None and not any(build.output == path for build in half.builds):
        _add(seen, KERNEL, (), path, 0.0, cached=True)


def around_submit(seen: Observation, call: Call) -> Iterator[None]:
    """Assigns a build on a pool thread to this thread's watcher."""
    owner, task = call.args[:2]
    call.args = (owner, partial(contextvars.copy_context().run, task), *call.args[2:])
    yield


def _add(seen: Observation, tool: str, command: tuple[str, ...], output: str, seconds: float, *, cached: bool) -> None:
    half = seen.building
    made = data.BuildData(tool, command, "", output, seconds, cached)
    if half is None:
        seen.compile().event("Build", tool=tool, output=Path(output).name, seconds=f"{seconds:.6f}")
    else:
        half.builds.append(made)


MODULE = "torch._inductor.graph:GraphLowering.compile_to_module"


def around_module(seen: Observation, call: Call) -> Iterator[None]:
    """From generated text to a module that can be called: what is built meanwhile belongs to the half."""
    compile = seen.compile()
    seen.building = compile.half
    yield
    seen.building = None
    half = compile.half
    if half is not None:
        body = _listing(half)
        compile.stage(MODULE, "build", lambda: {"body": body}, ended=call.started + call.seconds, half=half.name)
        half.module = call.result


def _listing(half: Any) -> data.TextData:
    lines = []
    for build in half.builds:
        spent = "from the cache" if build.cached else f"{build.seconds:.2f} s"
        lines.append(data.LineData(f"{build.tool}: {Path(build.output).name}  {spent}"))
    return data.TextData(tuple(lines) or (data.LineData("nothing was built"),))


BUILDS_HOOK = Hook(
    "builds",
    shows="each call of g++ with its command, its purpose and its time; what came from the cache",
    missing="the build as one stage, without what it did",
    checked=("2.11 CPU", "2.13 CPU"),
    patches=(
        Patch(MODULE, around_module),
        Patch("torch._inductor.cpp_builder:CppBuilder.build", around_build),
        Patch("torch._inductor.cpu_vec_isa:VecISA.check_build", around_probe),
        Patch("torch._inductor.codecache:CppCodeCache._load_library", around_load),
        Patch("torch._inductor.async_compile:AsyncCompile.submit", around_submit),
    ),
)


SHORTEST = 200_000
"""Nanoseconds; a phase that took less is counted, not shown."""


def before_end(seen: Observation, args: tuple[Any, ...]) -> None:
    logger, name, ended, _, began = args[:5]
    if not seen.compiling():  # a thread that builds a kernel, which is a build of its compile
        return
    compile = seen.compile()
    if ended - began < SHORTEST:
        compile.left_out["Phase"] += 1
    else:
        depth = len(logger.get_stack()) - 1
        compile.event("Phase", name="  " * max(depth, 0) + name, seconds=f"{(ended - began) / 1e9:.6f}")


PHASES_HOOK = Hook(
    "phases",
    shows="compile time by phase, as torch times it",
    missing="the times of the stages alone",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch("torch._dynamo.utils:ChromiumEventLogger.log_event_end", before=before_end),),
)
