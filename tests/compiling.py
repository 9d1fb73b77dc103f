"""From a function to a built program through our backend, for the tests of code generation and the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from explorer.compiler.codegen import GENERATE
from explorer.compiler.runtime import BUILD
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.ir.program import CPU, BuildOptions, Generation, Program, Target
from lowering import lowered


def program_of(
    fn: Callable[..., Any],
    *inputs: Any,
    dynamic: bool = False,
    target: Target = CPU,
    options: BuildOptions = BuildOptions(),  # noqa: B008
    decompose: bool = True,
) -> Program:
    """Lower, schedule, generate and build `fn` for these inputs."""
    loops, _ = lowered(fn, *inputs, dynamic=dynamic, decompose=decompose)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    return BUILD(GENERATE(Generation(schedule, PLAN_MEMORY(schedule), target, options)))


def compile_fx(fn: Callable[..., Any], *inputs: Any, **how: Any) -> Callable[..., tuple[Any, ...]]:
    """`fn` compiled for these inputs: takes the same ones and returns its outputs as a flat tuple."""
    program = program_of(fn, *inputs, **how)
    call = program.call
    assert call is not None

    def run(*args: Any) -> tuple[Any, ...]:
        return call(args)

    run.program = program  # type: ignore[attr-defined]
    return run


def flat(value: Any) -> tuple[Any, ...]:
    """A function's result as a compiled one returns it."""
    return tuple(tree_leaves(value))


def assert_like_eager(fn: Callable[..., Any], *inputs: Any, rtol: float = 2e-5, atol: float = 1e-5, **how: Any) -> None:
    """Values, dtypes, shapes and strides of the compiled function are eager's."""
    copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    with torch.no_grad():
        wanted = flat(fn(*copies))
    got = compile_fx(fn, *inputs, **how)(*inputs)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs
            continue
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.stride() == theirs.stride(), (mine.stride(), theirs.stride())
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol, equal_nan=True)
