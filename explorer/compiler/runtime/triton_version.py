"""Where the supported versions of Triton (3.6 and later) differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
from triton.backends.nvidia.compiler import get_ptxas


def assembler(arch: int) -> str:
    """The path of the ptxas that Triton uses for a compute capability."""
    return str(get_ptxas(arch).path)


def launcher(compiled: Any) -> Callable[..., None]:
    """launch(programs, stream, *arguments) of a compiled kernel, its constants bound, with as little on the way as this
    version allows. Pointers are given as addresses."""
    run = compiled.run
    function, packed = compiled.function, compiled.packed_metadata
    constants = tuple(compiled.src.constants[position] for position in sorted(compiled.src.constants))
    scratch = run.__dict__.get("global_scratch_size", 1) or run.__dict__.get("profile_scratch_size", 1)
    if scratch or not hasattr(run, "launch_cooperative_grid"):
        return _through_run(run, function, packed, constants)
    cooperative, dependent = run.launch_cooperative_grid, run.launch_pdl
    launch = run.launch
    if hasattr(run, "arg_annotations") and hasattr(run, "kernel_signature"):
        notes, signature = run.arg_annotations, run.kernel_signature

        def with_signature(programs: int, stream: int, *arguments: Any) -> None:
            launch(
                programs, 1, 1, stream, function, cooperative, dependent, packed, None, None, None, None, None,
                notes, signature, (*arguments, *constants),
            )  # fmt: skip

        return with_signature
    if triton.__version__.startswith("3.6"):

        def with_compiled(programs: int, stream: int, *arguments: Any) -> None:
            launch(
                programs, 1, 1, stream, function, cooperative, dependent, None, None, packed, None, None, None,
                *arguments, *constants,
            )  # fmt: skip

        return with_compiled
    return _through_run(run, function, packed, constants)


def _through_run(run: Any, function: Any, packed: Any, constants: tuple[Any, ...]) -> Callable[..., None]:
    def launch(programs: int, stream: int, *arguments: Any) -> None:
        run(programs, 1, 1, stream, function, packed, None, None, None, *arguments, *constants)

    return launch
