"""All kernels of one half as C++: functions shared by kernels with equal texts, and the entries Python calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sympy

from explorer.compiler.codegen.cpp_kernel import Function, kernel_function
from explorer.compiler.codegen.cpp_scalar import cpp_type
from explorer.compiler.codegen.kernel import Body, body, flops
from explorer.compiler.codegen.wrapper import Storage
from explorer.core.origin import origin
from explorer.core.text import LineWriter, Text
from explorer.ir.index import points
from explorer.ir.loops import Buffer, Load, Size
from explorer.ir.program import Argument, CppKernel, EntryPoint
from explorer.ir.schedule import FusedKernel


@dataclass
class CppSources:
    """Collects the kernels of one half."""

    buffers: Mapping[str, Buffer]
    storage: Storage
    hints: Mapping[sympy.Symbol, int]
    kernels: list[CppKernel] = field(default_factory=list)
    entries: list[EntryPoint] = field(default_factory=list)
    errors: dict[str, tuple[tuple[type[Exception], str], ...]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, kernel: FusedKernel) -> CppKernel:
        """Generate one kernel; the function is an earlier one where the texts are equal."""
        passes = body(kernel, self.storage.root)
        made = kernel_function(passes, self.buffers, self.hints)
        name = self.named.setdefault(str(made.text), f"{kernel.id}_{_subject(kernel)}")
        self.errors[kernel.id] = made.errors
        self.ids[kernel.id] = kernel.ids
        moved, computed = work(passes, self.buffers)
        arguments = (
            *(self._pointer(n, buffer, written) for n, (buffer, written) in enumerate(made.buffers)),
            *(Argument(str(symbol), size=symbol) for symbol in made.sizes),
        )
        finished = CppKernel(
            kernel.id,
            name,
            _named(made, name),
            arguments,
            moved,
            computed,
            kernel.origins,
            made.loops,
            made.tiled,
            len(made.errors),
        )
        self.kernels.append(finished)
        return finished

    def join(self, kernels: Iterable[CppKernel]) -> EntryPoint:
        """The entry that runs consecutive kernels."""
        kernels = tuple(kernels)
        name = f"run{len(self.entries)}"
        bases: dict[str, None] = {}
        sizes: dict[sympy.Symbol, None] = {}
        for kernel in kernels:
            for argument in kernel.arguments:
                if argument.base is not None:
                    bases[argument.base] = None
                else:
                    sizes[argument.size] = None
        writer = LineWriter(name, "cpp")
        errors: list[tuple[type[Exception], str]] = []
        every = tuple(id for kernel in kernels for id in self.ids[kernel.id])
        with origin(*every):
            writer.line(f"static long {name}(char* const* p, const long* n, int threads) {{")
        with writer.indented():
            for kernel in kernels:
                with origin(*self.ids[kernel.id]):
                    call = f"{kernel.function}({', '.join(self._passed(kernel, list(bases), list(sizes)))})"
                    if self.errors[kernel.id]:
                        writer.line(f"if (int bad = {call}) return {1 + len(errors)} + __builtin_ctz(bad);")
                        errors += self.errors[kernel.id]
                    else:
                        writer.line(f"{call};")
            with origin(*every):
                writer.line("return 0;")
        with origin(*every):
            writer.line("}")
            writer.line(f"PYTHON_ENTRY({name}, {len(bases)}, {len(sizes)})")
        entry = EntryPoint(
            name, writer.finish(), tuple(k.id for k in kernels), tuple(bases), tuple(sizes), tuple(errors)
        )
        self.entries.append(entry)
        return entry

    def _pointer(self, number: int, buffer: str, written: bool) -> Argument:
        base, offset = self.storage.base(buffer), self.storage.offset(buffer)
        return Argument(f"arg{number}", buffer, written=written, base=base, offset=offset)

    def _passed(self, kernel: CppKernel, bases: list[str], sizes: list[Size]) -> list[str]:
        texts = []
        for argument in kernel.arguments:
            if argument.buffer is None:
                texts.append(f"n[{sizes.index(argument.size)}]")
                continue
            const = "" if argument.written else "const "
            place = f"p[{bases.index(str(argument.base))}]"
            if argument.offset:
                place = f"({place} + {argument.offset})"
            texts.append(f"({const}{cpp_type(self.buffers[argument.buffer].layout.dtype)}*){place}")
        return [*texts, "threads"]


def _named(made: Function, name: str) -> Text:
    writer = LineWriter(made.text.lines[0].id.partition(":")[0], "cpp")
    for line in made.text.lines:
        with origin(*line.origins):
            writer.line(line.text.replace(" KERNEL(", f" {name}("))
    return writer.finish()


def _subject(kernel: FusedKernel) -> str:
    """What a kernel computes, in a few names of operators: its origins without their numbers."""
    names = (re.sub(r"_\d+$", "", id.rpartition(".")[2]) for id in kernel.origins)
    distinct = [name for name in dict.fromkeys(re.sub(r"\W", "_", name).strip("_") for name in names) if name]
    return "_".join(distinct[-4:]) or "loop"


def work(passes: Body, buffers: Mapping[str, Buffer]) -> tuple[Size, Size]:
    """What one call of the kernel moves at least, in bytes, and computes, in operations."""
    sizes = {axis.symbol: axis.size for axis in (*passes.kernel.outer, *passes.kernel.inner)}
    outer, inner = points(passes.kernel.outer), points(passes.kernel.inner)

    def touched(buffer: str, free: frozenset[sympy.Symbol]) -> Size:
        layout = buffers[buffer].layout
        reached = sympy.Mul(*(sizes[symbol] for symbol in free & sizes.keys()))
        whole = layout.numel
        if reached.is_Integer and whole.is_Integer:
            reached = min(reached, whole)
        return reached * layout.dtype.itemsize

    touches: dict[tuple[str, Size], Size] = {}
    computed = sympy.S.Zero
    for value in passes.values:
        if isinstance(value, Load):
            touches[value.buffer, value.index] = touched(value.buffer, passes.symbols[value])
        computed += flops(value) * outer * (inner if passes.varies_inside(value) else 1)
    computed += sum(len(p.reductions) for p in passes.passes) * outer * inner
    for loop in (write.loop for write in passes.writes):
        touches[loop.buffer.name, loop.index] = touched(loop.buffer.name, loop.index.free_symbols)
    return sympy.Add(*touches.values()), computed
