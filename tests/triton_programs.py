"""Zoo programs through our backend with another BUILD, for the tests of Triton code. Stock's frontend captures them,
so that these tests are about kernels alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from explorer.compiler.autograd import CLEANUP, PARTITION, REJOIN, TRACE
from explorer.compiler.capture.import_fx_graph import import_fx_graph
from explorer.compiler.codegen import GENERATE
from explorer.compiler.lower import LOWER
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.core.reasons import Unsupported
from explorer.ir.graph import Graph
from explorer.ir.joint import Compiled, Halves
from explorer.ir.program import BuildOptions, Generated, Generation, Program, Target

Build = Callable[[Generated], Program]


def compile_graph(graph: Graph, target: Target, folder: Path, build: Build) -> Compiled:
    """As pipeline.compile_graph, with `build` for BUILD."""

    def half(part: Graph) -> Program:
        schedule = ORDER(FUSE(DEPENDENCIES(LOWER(part))))
        options = BuildOptions(cache_dir=folder)
        return build(GENERATE(Generation(schedule, PLAN_MEMORY(schedule), target, options)))

    traced = TRACE(graph)
    for clean in CLEANUP:
        traced = clean(traced)
    if traced.is_inference:
        return REJOIN(Halves(traced, half(traced.forward), None))
    parts = PARTITION(traced)
    return REJOIN(Halves(parts, half(parts.forward), half(parts.backward)))


def through(target: Target, folder: Path, build: Build) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A compiler of functions: torch.compile with our backend. Where the program cannot run, eager runs instead."""

    def backend(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            compiled = compile_graph(import_fx_graph(module, example_inputs), target, folder, build)
        except Unsupported as refusal:
            if refusal.why.code.startswith(("codegen.", "runtime.")):
                raise
            return module.forward
        runs = all(program.call is not None for program in compiled.halves)
        return compiled.call if runs else module.forward

    return lambda fn: torch.compile(fn, backend=backend)


@contextlib.contextmanager
def fresh_dynamo() -> Iterator[None]:
    """Stock's caches empty before and after, and its errors raised."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()
