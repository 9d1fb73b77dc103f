"""Building, loading, calling and timing generated programs."""

from __future__ import annotations

import importlib

from explorer.compiler.runtime.cpp_build import build_cpp
from explorer.compiler.runtime.reasons import NO_TRITON
from explorer.core.reasons import Unsupported, Why
from explorer.core.stage import Stage
from explorer.ir.program import Generated, Program, Target


class NotBuilt(Unsupported):
    """No kernel can be built on this machine, whatever the program."""


def build(generated: Generated) -> Program:
    """Build for the target of `generated`. Triton is imported only for a GPU: it takes a while, and is not everywhere.

    Raises Unsupported where a tool is missing or refuses the code, NotBuilt where that is the C++ compiler."""
    if generated.target == "cpu":
        try:
            return build_cpp(generated)
        except Unsupported as refusal:
            raise NotBuilt(refusal.why) from refusal
    try:
        triton_build = importlib.import_module("explorer.compiler.runtime.triton_build")
    except ImportError as error:
        raise Unsupported(Why(NO_TRITON, str(error))) from error
    program: Program = triton_build.build_triton(generated)
    return program


def verify_built(program: Program) -> None:
    """Raise AssertionError unless it can be called, or names a machine that this one is not."""
    runs_here = Target.parse(program.generated.target).is_here
    assert callable(program.call) == runs_here, f"{program.generated.name} was built and cannot be called"
    tools = bool(program.steps) or not program.generated.kernels
    assert tools, f"{program.generated.name} has kernels that no tool built"


BUILD: Stage[Generated, Program] = Stage("build", build, verify_built)
