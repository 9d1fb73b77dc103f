"""Triton kernels for a schedule, and the Python function that runs one half on a card: as the CPU's wrapper, but
kernels are launched on a stream.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import sympy
import torch

from explorer.compiler.codegen.cpp import work
from explorer.compiler.codegen.kernel import KernelBody, body
from explorer.compiler.codegen.triton_kernel import TritonFunction, Workspace, functions, needs_serial
from explorer.compiler.codegen.triton_tiling import tiling
from explorer.compiler.codegen.wrapper import POOL, Storage, Wrapper, variable
from explorer.core.origin import Origins, origin, synthetic, union
from explorer.core.text import LineWriter, Text
from explorer.ir.index import points
from explorer.ir.loops import Buffer, Extern, Load
from explorer.ir.program import Generated, Generation, Target, TritonKernel
from explorer.ir.schedule import FusedKernel, MemoryPlan, Schedule


@dataclass
class TritonWrapper(Wrapper):
    """Writes `call(inputs) -> tuple`."""

    pools: tuple[str, str] = ("POOLS[current_stream()]", "defaultdict(list)")
    pointers: dict[str, str] = field(default_factory=dict)
    """The variable that holds the address of an input."""

    def prepare(self, kernels: Iterable[TritonKernel]) -> None:
        """The stream, and the addresses of the inputs that kernels touch."""
        self.constants["defaultdict"] = defaultdict
        kernels = list(kernels)
        if not kernels:
            return
        touched = {a.buffer for kernel in kernels for a in kernel.pointers}
        roots = {self.storage.root(name) for name in touched if name in self.buffers}
        inputs = [e.name for e in self.loops.inputs if isinstance(e, Buffer) and e.name in roots]
        with origin(*(inputs or [a.buffer for a in kernels[0].arguments if a.buffer])):
            self.body.line("stream = current_stream()")
        for name in inputs:
            with origin(name):
                self.pointers[name] = f"{variable(name)}_at"
                self.body.line(f"{self.pointers[name]} = {variable(name)}.data_ptr()")
        if inputs:
            with origin(*inputs), self.body.indented(f"if ({' | '.join(self.pointers.values())}) & UNALIGNED:"):
                self.body.line(f"return unaligned([{', '.join(self.given)}])")

    def workspace(self, workspace: Workspace, ids: tuple[str, ...]) -> None:
        """Memory for the partial results of the next launches."""
        with origin(*ids):
            self.body.line(
                f"{workspace.name} = empty_strided(({self._text(workspace.numel)},), (1,), {workspace.dtype})"
            )

    def start(self, kernel: TritonKernel, ids: tuple[str, ...]) -> None:
        """Launch one kernel."""
        given = [self._text(kernel.programs), "stream"]
        by_address = kernel.pointers
        for argument in kernel.arguments:
            if argument.buffer is None:
                given.append(self._text(argument.size))
            elif argument in by_address:
                given.append(self._address(argument.buffer))
            else:
                given.append(f"{variable(self.storage.tensor(argument.buffer))}.item()")
        with origin(*ids):
            self.body.line(f"{kernel.function}({', '.join(given)})")

    def _address(self, buffer: str) -> str:
        if buffer not in self.buffers:
            return f"{buffer}.data_ptr()"
        base = self.storage.base(buffer)
        if base == POOL:
            offset = self.storage.offset(buffer)
            return f"pool + {offset}" if offset else "pool"
        self._allocate(base)
        return self.pointers.get(base, f"{variable(base)}.data_ptr()")


INT32 = 2**31 - 1


@dataclass(frozen=True)
class Launches:
    """The kernels of a schedule, the launches that each item takes, in order, and the workspaces they need."""

    kernels: tuple[TritonKernel, ...]
    of_item: Mapping[str, tuple[TritonKernel, ...]]
    workspaces: Mapping[str, tuple[Workspace, ...]]


def prelude() -> Text:
    """What stands before the kernels of a module."""
    writer = LineWriter("prelude", "python")
    with origin(synthetic("imports")):
        writer.line("import triton")
        writer.line("import triton.language as tl")
        writer.line("from triton.language.extra import libdevice")
        writer.line("from explorer.compiler.runtime import triton_ops as ops")
    return writer.finish()


def generate_triton(generation: Generation) -> Generated:
    """The kernels and the wrapper of one half. Raises Unsupported where an element has no form on the target."""
    schedule, plan = generation.schedule, generation.plan
    launches = triton_kernels(schedule, plan, generation.target)
    wrapper = TritonWrapper(schedule.loops, plan, Storage(schedule, plan))
    wrapper.constants["device"] = card(schedule.loops.buffers)
    wrapper.begin()
    wrapper.prepare(launches.kernels)
    for position, item in enumerate(schedule.items):
        wrapper.release(position - 1)
        if isinstance(item, Extern):
            wrapper.call(item)
            continue
        for workspace in launches.workspaces[item.id]:
            wrapper.workspace(workspace, item.ids)
        for kernel in launches.of_item[item.id]:
            wrapper.start(kernel, item.ids)
    return Generated(
        schedule.loops.name,
        str(generation.target),
        launches.kernels,
        wrapper.finish(),
        len(wrapper.given),
        len(schedule.loops.outputs),
        wrapper.constants,
        prelude(),
        externs=tuple(wrapper.externs),
        options=generation.options,
    )


def card(buffers: Mapping[str, Buffer]) -> torch.device | None:
    """The card that kernels run on; None where all tensors are on the CPU, and the target is elsewhere."""
    computed = [buffer for buffer in buffers.values() if buffer.kind == "loop"]
    devices = (buffer.layout.device for buffer in (*computed, *buffers.values()))
    return next((device for device in devices if device.type == "cuda"), None)


def triton_kernels(schedule: Schedule, plan: MemoryPlan, target: Target) -> Launches:
    """One or more functions for each fused kernel; equal ones are one. Raises Unsupported for what Triton lacks."""
    buffers = schedule.loops.buffers
    storage = Storage(schedule, plan)
    hosted = frozenset(name for name, buffer in buffers.items() if buffer.layout.device.type == "cpu")
    numbers = hosted if card(buffers) is not None else frozenset()
    made: list[tuple[FusedKernel, KernelBody, list[TritonFunction], list[Workspace]]] = []
    for item in schedule.items:
        if isinstance(item, FusedKernel):
            arranged = body(item, storage.root)
            cut = tiling(arranged, schedule.loops.hints, target, needs_serial(arranged))
            dtypes = {name: buffer.layout.dtype for name, buffer in buffers.items()}
            with origin(*item.ids):  # of what a person's own printers are asked
                made.append((item, arranged, *functions(arranged, cut, dtypes, wide(arranged, buffers), numbers)))
    names = _names(made)
    causes: dict[object, list[Origins]] = {}
    for _, _, parts, _ in made:
        for part in parts:
            key = part.key()
            mine = [line.origins for line in part.source]
            theirs = causes.setdefault(key, mine)
            causes[key] = [union(a, b) for a, b in zip(theirs, mine, strict=True)]
    of_item: dict[str, tuple[TritonKernel, ...]] = {}
    sources: dict[object, Text] = {}
    for item, arranged, parts, _ in made:
        kernels = []
        for number, part in enumerate(parts):
            key = part.key()
            id = item.id if len(parts) == 1 else f"{item.id}.{number}"
            if key not in sources:
                lines = [replace(line, origins=all) for line, all in zip(part.source, causes[key], strict=True)]
                sources[key] = replace(part, source=tuple(lines)).text(id, names[key])
            kernels.append(_kernel(id, names[key], sources[key], part, item, arranged, buffers))
        of_item[item.id] = tuple(kernels)
    workspaces = {item.id: tuple(spaces) for item, _, _, spaces in made}
    return Launches(tuple(k for kernels in of_item.values() for k in kernels), of_item, workspaces)


def wide(arranged: KernelBody, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a position may not fit in 32 bits; sizes that are symbolic may be anything."""
    touched = {write.loop.buffer.name for write in arranged.writes}
    touched |= {value.buffer for value in arranged.values if isinstance(value, Load)}
    reach = [buffers[name].layout.extent for name in touched]
    reach.append(points(arranged.kernel.outer + arranged.kernel.inner))
    return any(not sympy.sympify(size).is_Integer or int(size) > INT32 for size in reach)


def _kernel(
    id: str, name: str, source: Text, part: TritonFunction, item: FusedKernel, arranged: KernelBody,
    buffers: Mapping[str, Buffer],
) -> TritonKernel:  # fmt: skip
    moved, computed = work(arranged, buffers)
    unaligned = tuple(
        argument.name
        for argument in part.arguments
        if (buffer := buffers.get(argument.buffer or "")) is not None
        and buffer.kind == "extern"
        and buffer.alias_of is not None  # a view that a library call made may start anywhere in its storage
    )
    return TritonKernel(
        id, name, source, part.arguments, moved, computed, item.origins, part.loops, part.tiled,
        part.types, part.blocks, part.programs, part.warps, part.asserts, unaligned,
    )  # fmt: skip


def _names(made: Iterable[tuple[FusedKernel, KernelBody, list[TritonFunction], list[Workspace]]]) -> dict[object, str]:
    """A name for each distinct function: the first kernel that it serves, and what that computes."""
    names: dict[object, str] = {}
    for item, _, parts, _ in made:
        for number, part in enumerate(parts):
            words = [re.sub(r"_\d+$", "", cause.rpartition(".")[2]) for cause in item.origins]
            words = [re.sub(r"\W", "_", word) for word in dict.fromkeys(words) if word and ":" not in word]
            suffix = f"_part{number}" if len(parts) > 1 else ""
            names.setdefault(part.key(), "_".join([item.id, *words[:4]]) + suffix)
    return names
