"""Calls a program on the GPU: launches go straight to the compiled kernels' launchers; and where the supported
versions of Triton (3.6 and later) differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import triton
from triton.backends.nvidia.compiler import get_ptxas

from explorer.compiler.runtime.stepwise import execute, release_pools
from explorer.compiler.runtime.timing import occupy_gpu
from explorer.ir.program import Around, Generated


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

        def with_signature(programs: int, stream: int, *arguments: object) -> None:
            launch(
                programs, 1, 1, stream, function, cooperative, dependent, packed, None, None, None, None, None,
                notes, signature, (*arguments, *constants),
            )  # fmt: skip

        return with_signature
    if triton.__version__.startswith("3.6"):

        def with_compiled(programs: int, stream: int, *arguments: object) -> None:
            launch(
                programs, 1, 1, stream, function, cooperative, dependent, None, None, packed, None, None, None,
                *arguments, *constants,
            )  # fmt: skip

        return with_compiled
    return _through_run(run, function, packed, constants)


def _through_run(
    run: Any, function: Callable[..., object], packed: object, constants: tuple[object, ...]
) -> Callable[..., None]:
    def launch(programs: int, stream: int, *arguments: object) -> None:
        run(programs, 1, 1, stream, function, packed, None, None, None, *arguments, *constants)

    return launch


Call = Callable[[Iterable[Any]], tuple[Any, ...]]
Kernels = Mapping[str, Any]
"""Compiled kernels by function name."""

ALIGNMENT = 16
"""Bytes: what kernels expect pointers to be multiples of, and the widest load."""


def load(
    generated: Generated, aligned: Kernels, compile_unaligned: Callable[[], Kernels]
) -> tuple[Call, Callable[[], None]]:
    """The program's `call`, and what frees its idle pools. Kernels for pointers of any alignment are compiled when an
    input first needs them."""
    index = device_index(generated)

    @functools.cache
    def unaligned() -> Call:
        return _run(generated, _launchers(compile_unaligned(), index), index, 0, None)

    launchers = _launchers(aligned, index)
    call = _run(generated, launchers, index, ALIGNMENT - 1, lambda inputs: unaligned()(inputs))

    def on_gpu(inputs: Iterable[object]) -> tuple[object, ...]:
        if torch.cuda.current_device() == index:
            return call(inputs)
        with torch.cuda.device(index):
            return call(inputs)

    def release() -> None:
        release_pools(call)
        if unaligned.cache_info().currsize:
            release_pools(unaligned())

    return on_gpu, release


def device_index(generated: Generated) -> int:
    """The index of the GPU that the program's tensors are on; the current one where it does not say."""
    device = generated.constants["device"]
    index = device.index if isinstance(device, torch.device) else None
    return torch.cuda.current_device() if index is None else int(index)


def _launchers(kernels: Kernels, index: int) -> dict[str, Callable[..., None]]:
    """Loads the kernels onto the GPU."""
    with torch.cuda.device(index):
        return {name: launcher(compiled) for name, compiled in kernels.items()}


def marked(generated: Generated, kernels: Kernels) -> Callable[[Sequence[object], Around], tuple[object, ...]]:
    """A function that runs the program once, each kernel and library call inside a context of its id."""
    contexts: list[Around] = []
    launched: list[Iterator[str]] = [iter(())]
    called: list[Iterator[str]] = [iter(())]

    def within(function: Callable[..., object], order: list[Iterator[str]]) -> Callable[..., Any]:
        def run(*args: object, **kwargs: object) -> object:
            with contexts[0](next(order[0])):
                return function(*args, **kwargs)

        return run

    @functools.cache
    def call() -> Call:
        index = device_index(generated)
        names = {name: within(launch, launched) for name, launch in _launchers(kernels, index).items()}
        externs = {name: generated.constants[name] for _, name in generated.externs}
        names |= {name: within(function, called) for name, function in externs.items() if callable(function)}
        return _run(generated, names, index, 0, None)

    def run(inputs: Sequence[object], around: Around) -> tuple[object, ...]:
        contexts[:] = [around]
        launched[0] = iter([kernel.id for kernel in generated.kernels])
        called[0] = iter([id for id, _ in generated.externs])
        with torch.cuda.device(device_index(generated)):
            made = call()(inputs)
            torch.cuda.synchronize()
        return made

    return run


def profiler(
    run: Callable[[Sequence[object], Around], tuple[object, ...]],
) -> Callable[[Sequence[object]], Mapping[str, float]]:
    """A function that runs the program once and returns the GPU's seconds by id of kernel or library call."""

    def profile(inputs: Sequence[object]) -> Mapping[str, float]:
        events: dict[str, tuple[torch.cuda.Event, torch.cuda.Event]] = {}

        @contextmanager
        def timed(id: str) -> Iterator[None]:
            start, end = events[id] = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            occupy_gpu()
            start.record()
            yield
            end.record()

        run(inputs, timed)
        return {id: start.elapsed_time(end) / 1000 for id, (start, end) in events.items()}

    return profile


def _run(
    generated: Generated, launchers: Mapping[str, Callable[..., None]], index: int, mask: int, unaligned: Call | None
) -> Call:
    short_cuts: Any = torch._C._dynamo.guards  # torch's own allocation for generated code, which skips the dispatcher
    names: dict[str, object] = {
        **generated.constants,
        **launchers,
        "device": torch.device("cuda", index),
        "current_stream": functools.partial(torch._C._cuda_getCurrentRawStream, index),
        "empty_strided": short_cuts._empty_strided_cuda,
        "UNALIGNED": mask,
        "unaligned": unaligned,
    }
    return execute(generated.wrapper, generated.name, names)
