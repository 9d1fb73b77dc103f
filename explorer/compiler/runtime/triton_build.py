"""Compile Triton kernels ahead of time, for a GPU that need not be here; Triton's own cache of them, whose files are
checked before Triton reads them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.cache import FileCacheManager

from explorer.compiler.runtime.cache import TRITON, confirm, in_some_folder, intact, put, remove, trim
from explorer.compiler.runtime.child import Child, Ended
from explorer.compiler.runtime.reasons import NO_TOOL, TRITON_FAILED
from explorer.compiler.runtime.triton_call import ALIGNMENT, assembler, load, marked, profiler
from explorer.compiler.runtime.triton_texts import (
    ThreadBlock,
    at_calls,
    facts,
    of_amdgcn,
    of_ptxas,
    steady_locations,
    texts,
)
from explorer.core.reasons import Unsupported, Why
from explorer.ir.program import BuildStep, Generated, Lowered, Program, Target, TritonKernel


class CheckedFiles(FileCacheManager):  # type: ignore[misc]
    """Triton's files, each with its checksum beside: a damaged one is as good as none, and is made again."""

    def has_file(self, filename: str) -> bool:
        return intact(Path(self._make_path(filename)))

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        path = Path(self._make_path(filename))
        if path.is_dir():
            remove(path)
        made: str = super().put(data, filename, binary)
        confirm(path)
        return made

    def get_group(self, filename: str) -> dict[str, str] | None:
        group: dict[str, str] | None = super().get_group(filename)  # without those that are gone
        if group is None or not all(Path(path).parent == Path(self.cache_dir) for path in group.values()):
            return None
        whole = json.loads(Path(self._make_path(f"__grp__{filename}")).read_text())["child_paths"]
        return group if all(map(self.has_file, whole)) else None


TOOL_BYTES, TOOL_SECONDS = 64 * 2**20, 120.0
"""Bounds on what an assembler or disassembler prints, and on its time."""


def build_triton(generated: Generated) -> Program:
    """Compile the kernels, and make the callable where the GPU is here. Raises Unsupported with the tool's message."""
    target = Target.parse(generated.target)
    folder, built = in_some_folder(
        generated.options.cache_dir, lambda folder: (folder, compile_kernels(generated, folder))
    )
    kernels = {name: one.compiled for name, one in built.items()}
    steps = tuple(one.step for one in built.values())

    def lowered() -> dict[str, Lowered]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # the tools that are waited for are processes of their own
            return dict(zip(built, pool.map(Built.lowered, built.values()), strict=True))

    if not target.is_here:
        return Program(generated, None, steps, lowered)

    def compile_unaligned() -> dict[str, Any]:
        return {name: one.compiled for name, one in compile_kernels(generated, folder, aligned=False).items()}

    call, release = load(generated, kernels, compile_unaligned)
    run = marked(generated, kernels)
    return Program(generated, call, steps, lowered, profiler(run), release=release, marked=run)


@dataclass(frozen=True)
class Built:
    """A compiled function: its module's file, the number of lines above the kernel, and Triton's result."""

    kernel: TritonKernel
    path: Path
    above: int
    compiled: Any
    step: BuildStep

    def lowered(self) -> Lowered:
        """The compiler's levels by kind, "ttir" to "sass", and what the code takes of the GPU."""
        asm, metadata, used = dict(self.compiled.asm), self.compiled.metadata, None
        if "cubin" in asm:
            asm["sass"], output = disassemble(asm["ptx"], metadata.target.arch)
            used = of_ptxas(output)
        elif "amdgcn" in asm:
            used = of_amdgcn(asm["amdgcn"])
        ids = {number: line.id for number, line in enumerate(self.kernel.source.lines, self.above + 1)}
        made = texts(asm, lambda file, line: ids.get(line) if file == str(self.path) else None)
        if used is None:
            return Lowered(made)
        block = ThreadBlock(metadata.num_warps, metadata.target.warp_size, metadata.shared)
        return Lowered(made, facts=facts(used, block, metadata.target.arch))


def compile_kernels(generated: Generated, folder: Path, *, aligned: bool = True) -> dict[str, Built]:
    """Compile each distinct function of `generated` for its target, by name. `aligned` says that all pointers are
    multiples of 16 bytes, which lets loads be wide. Raises Unsupported with the tool's message."""
    target = gpu_target(Target.parse(generated.target))
    distinct = {kernel.function: kernel for kernel in generated.of(TritonKernel)}

    def compile_one(kernel: TritonKernel) -> Built:
        return compile_kernel(kernel, str(generated.prelude), folder, target, aligned=aligned)

    with knobs.cache.scope():
        knobs.cache.dir = str(folder / TRITON)
        knobs.cache.manager_class = CheckedFiles
        built = {name: compile_one(kernel) for name, kernel in distinct.items()}
    if not all(one.step.cached for one in built.values()):
        trim(folder, generated.options.cache_bytes)
    return built


def gpu_target(target: Target) -> GPUTarget:
    """Triton's name for a target. AMD's data-center GPUs (gfx9) run 64 threads in step, others 32."""
    if target.kind == "cuda":
        return GPUTarget("cuda", int(target.arch), 32)
    return GPUTarget("hip", target.arch, 64 if target.arch.startswith("gfx9") else 32)


def compile_kernel(kernel: TritonKernel, prelude: str, folder: Path, target: GPUTarget, *, aligned: bool) -> Built:
    """Compile one function. The product of mul and add is rounded as eager rounds it: no contraction to fma."""
    above = f"{prelude}\n\n\n"
    path = write_module(f"{above}{kernel.source}\n", kernel.function, folder)
    signature, constants, attributes = specialized(kernel, aligned=aligned)
    options: dict[str, Any] = {"num_warps": kernel.warps, "enable_fp_fusion": False}
    if kernel.asserts:
        options |= {"debug": True, "sanitize_overflow": False}
    started, began = time.perf_counter(), time.time()
    try:
        source = ASTSource(getattr(module(path), kernel.function), signature, constants, attributes)
        compiled = triton.compile(source, target=target, options=options)
    except OSError:
        raise
    except Exception as error:
        raise Unsupported(Why(TRITON_FAILED, f"{kernel.function}: {compiler_message(error)}")) from error
    seconds = time.perf_counter() - started
    output = next(iter(compiled.metadata_group.values()))
    shown = [f"{name}={value}" for name, value in {**constants, **options}.items()]
    command = ("triton.compile", f"{path.name}:{kernel.function}", f"{target.backend}:{target.arch}", *shown)
    step = BuildStep("triton", command, triton.__version__, output, seconds, Path(output).stat().st_mtime < began)
    return Built(kernel, path, above.count("\n"), compiled, step)


def specialized(kernel: TritonKernel, *, aligned: bool) -> tuple[dict[str, str], dict[str, Any], dict[Any, Any]]:
    """Triton's signature, constants and attributes of a kernel's parameters."""
    signature = {argument.name: type for argument, type in zip(kernel.arguments, kernel.types, strict=True)}
    signature |= dict.fromkeys(kernel.constants, "constexpr")
    whole = [
        position
        for position, argument in enumerate(kernel.arguments)
        if kernel.types[position].startswith("*") and argument.name not in kernel.unaligned
    ]
    attributes = {(position,): [["tt.divisibility", ALIGNMENT]] for position in whole} if aligned else {}
    return signature, kernel.constants, attributes


def compiler_message(error: BaseException) -> str:
    """The place and the words of a compiler's message, without the whole source between them."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return "\n".join(lines if len(lines) < 7 else [lines[0], *lines[-4:]])


def write_module(text: str, name: str, folder: Path) -> Path:
    """The file of a generated module, named by its content."""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return put(folder / f"{name}_{key}.py", text.encode())


def module(path: Path) -> ModuleType:
    """The module in a file of `write_module`, imported once."""
    name = f"explorer_kernels.{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        sys.modules[name] = made
    return sys.modules[name]


def disassemble(ptx: str, arch: int) -> tuple[str, str]:
    """SASS with source lines: the PTX assembled again, its positions steadied (`steady_locations`) and those of calls
    (`at_calls`), and disassembled; and what the assembler says of the registers it used. Raises Unsupported where a
    tool is missing."""
    gpu = f"sm_{arch}{'a' if arch >= 90 else ''}"
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(at_calls(steady_locations(ptx)))
        made = "-o", str(binary)
        output = tool(assembler(arch), "-v", "-lineinfo", "--fmad=false", f"--gpu-name={gpu}", str(source), *made)
        return tool(knobs.nvidia.nvdisasm.path, "-gi", "-c", str(binary)).output, f"{output.output}\n{output.complaint}"


def tool(*command: str) -> Ended:
    """What a tool prints. Raises Unsupported with its message where it fails."""
    try:
        ended = Child(command, output_bytes=TOOL_BYTES).wait(TOOL_SECONDS)
    except OSError as error:
        raise Unsupported(Why(NO_TOOL, str(error))) from error
    if not ended.ok:
        raise Unsupported(Why(TRITON_FAILED, f"{Path(command[0]).name}: {str(ended)[:500]}"))
    return ended
