"""THE page: which stage makes which artifact.

A stage is a pure function from one typed artifact to the next; calling it times it, verifies what it made and records it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from explorer.autograd import CLEANUP, PARTITION, REJOIN, TRACE, user_pass
from explorer.capture import CAPTURE, DECODE, LINK
from explorer.codegen import GENERATE
from explorer.config import Config
from explorer.core.reasons import Unsupported, Why, reason
from explorer.core.text import Line, Text
from explorer.ir.capture import CaptureInput, Frame, GuardedCode, Linking
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Halves
from explorer.ir.program import Compiled, Generation, Program
from explorer.lower import LOWER
from explorer.runtime import BUILD
from explorer.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY

COMPILER_BUG = reason(
    "pipeline.compiler_bug",
    "a bug in this compiler",
    "The compiler raised an error of its own. The program runs eagerly, so its results are right.",
    "Save the record and attach it to a bug report.",
)
TARGET_ABSENT = reason(
    "pipeline.target_absent",
    "the target is not on this machine",
    "Code was generated and compiled for the named target and never run; the program itself ran eagerly.",
    "Run on a machine that has the target, or leave out target=.",
)


def compile_frame(frame: Frame, config: Config) -> GuardedCode:
    code = DECODE(frame)
    capture = CAPTURE(CaptureInput(code, frame, config))
    compiled = None if capture.graph is None else compile_or_run_eagerly(capture.graph, config)
    return LINK(Linking(capture, compiled))


def compile_graph(graph: Graph, config: Config) -> Compiled:
    for each in config.passes:
        graph = user_pass(each)(graph)
    traced = TRACE(graph)
    for clean in CLEANUP:
        traced = clean(traced)
    if traced.is_inference:
        return REJOIN(Halves(traced, compile_half(traced.forward, config), None))
    parts = PARTITION(traced)
    forward = compile_half(parts.forward, config)
    return REJOIN(Halves(parts, forward, compile_half(parts.backward, config)))


def compile_half(graph: Graph, config: Config) -> Program:
    schedule = ORDER(FUSE(DEPENDENCIES(LOWER(graph))))
    return BUILD(GENERATE(Generation(schedule, PLAN_MEMORY(schedule), config.target)))
