"""All kernels of one half as C++: functions shared by kernels with equal texts, and the entries Python calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import sympy

from explorer.compiler.codegen.cpp_columns import Columns
from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS, Nest
from explorer.compiler.codegen.cpp_rows import Rows
from explorer.compiler.codegen.cpp_scalar import CPP_TYPES, cpp_type
from explorer.compiler.codegen.kernel import KernelBody, Part, Pass, body, flops, write_loops
from explorer.compiler.codegen.wrapper import Storage
from explorer.core.origin import origin
from explorer.core.text import LineWriter, Text
from explorer.ir.index import points, step
from explorer.ir.loops import Axis, Buffer, Expr, Load, Size, evaluated, walk
from explorer.ir.program import Argument, CppKernel, EntryPoint, TiledLoop
from explorer.ir.schedule import FusedKernel

# One fused kernel as one C++ function: which arrangement of loops it takes, its head, and the arrangement without a
# reduction: a loop nest over the outer axes, in tiles where memory is read across the grain.


CHUNK = 8192
"""Elements of a vector loop that a thread takes at a time."""
TILE = 64
"""Rows and columns of a tile."""


class Points(Nest):
    """Axes that every store keeps apart are shared by threads or run in vector lanes; the others run in order."""

    @property
    def why(self) -> str:
        if self._across is not None:
            vector = self.outer[-1].symbol
            return f"tiles of {TILE} by {TILE}, as a load is contiguous along {self._across.symbol}, not along {vector}"
        return f"vector lanes along {self.outer[-1].symbol}, the last axis" if self.outer else "a single point"

    def tree(self) -> tuple[Part, ...]:
        store = partial(self.store, self._only.once)
        if self._across is not None:
            return self._tiles(self._across)
        return self.nest(self._loops() if self.outer else [], self.roots, [store])

    @property
    def _only(self) -> Pass:
        return self.body.passes[0] if self.body.passes else Pass((), (), ())

    def _loops(self) -> list[TiledLoop]:
        vector, once = self.outer[-1], self._only.once
        shared = [axis for axis in self.outer[:-1] if self.parallel([axis])]
        ordered = [axis for axis in self.outer[:-1] if axis not in shared]
        many = self.hint(shared) >= PARALLEL_POINTS
        if many or not self.parallel([vector]):
            around = self.share([*map(TiledLoop, shared)], shared)
            return [*around, *map(TiledLoop, ordered), self.simd(TiledLoop(vector), once)]
        if not shared and not ordered:
            return [TiledLoop(vector, "parallel vector")]
        width = max(64, -(-self.hint([vector]) // PARALLEL_POINTS // 16) * 16) if ordered else CHUNK
        around = self.share([*map(TiledLoop, shared), TiledLoop(vector, tile=width)], [*shared, vector])
        return [*around, *map(TiledLoop, ordered), self.simd(TiledLoop(vector, within=width), once)]

    # Tiles.

    @cached_property
    def _crossing(self) -> dict[Axis, list[Load]]:
        """Loads that are contiguous along another axis than the vector's, by that axis."""
        found: dict[Axis, list[Load]] = {}
        if not self.outer or any(write.indirect or write.loop.store != "set" for write in self.writes):
            return found
        vector = self.outer[-1]
        for value in walk(*self._only.once_roots, below=evaluated):
            if not isinstance(value, Load) or value.indirect or not vector.size.is_Integer or vector.size < 16:
                continue
            along = step(value.index, vector.symbol)
            if not along or abs(along) == 1:
                continue
            for axis in self.outer[:-1]:
                if axis.size.is_Integer and axis.size >= 16 and step(value.index, axis.symbol) == 1:
                    found.setdefault(axis, []).append(value)
        return found

    @property
    def _across(self) -> Axis | None:
        """The axis to tile with the vector's."""
        if not self._crossing:
            return None
        dtypes = {name: buffer.layout.dtype for name, buffer in self.buffers.items()}
        return max(self._crossing, key=lambda axis: sum(dtypes[load.buffer].itemsize for load in self._crossing[axis]))

    def _tiles(self, across: Axis) -> tuple[Part, ...]:
        """For each tile, first turn the crossing loads' parts into contiguous scratch."""
        vector = self.outer[-1]
        others = [axis for axis in self.outer[:-1] if axis is not across]
        blocks = [TiledLoop(across, tile=TILE), TiledLoop(vector, tile=TILE)]
        lanes: dict[Expr, str] = {}

        def inside() -> None:
            for load, element in lanes.items():
                self.values.define(load, element)
            self.store(self._only.once)

        crossing = self._crossing[across]
        loops = [TiledLoop(across, within=TILE), self.simd(TiledLoop(vector, within=TILE), self._only.once)]
        tile = self.nest(loops, [root for root in self.roots if root not in crossing], [inside])
        parts = (partial(self.hoist, self.roots), partial(self._scratch, across, vector, lanes), *tile)
        return self.nest(self.share([*map(TiledLoop, others), *blocks], self.outer), self.roots, parts)

    def _scratch(self, across: Axis, vector: Axis, lanes: dict[Expr, str]) -> None:
        """Turn the crossing loads' parts of a tile; `lanes` gets the text of the element that each reads at a point."""
        corner = {axis.symbol: sympy.Symbol(f"{axis.symbol}_start") for axis in (across, vector)}
        self.values.variables.update(corner.values())
        counts = []
        for axis in (across, vector):
            name = f"{axis.symbol}_count"
            whole = axis.size % TILE == 0
            counts.append(str(TILE) if whole else name)
            if not whole:
                self.line(f"long {name} = index_min({TILE}, {axis.size} - {axis.symbol}_start);")
        for value in self._crossing[across]:
            name = self.values.fresh("tile")
            buffer = self.buffers[value.buffer]
            type_name = CPP_TYPES[buffer.layout.dtype]
            pointer = self.values.parameters.pointer(value.buffer, buffer.layout.dtype)
            start = self.values.index(value.index.xreplace(corner))
            along = self.values.index(step(value.index, vector.symbol))
            self.caused(
                value,
                f"{type_name} {name}[{TILE * TILE}];",
                f"transpose_tile({pointer} + {start}, {along}, {name}, {TILE}, {counts[1]}, {counts[0]});",
            )
            row, column = (f"{axis.symbol} - {axis.symbol}_start" for axis in (across, vector))
            lanes[value] = self.values.loaded(f"{name}[({row}) * {TILE} + {column}]", value.buffer)


@dataclass(frozen=True)
class CppFunction:
    """A generated function. `text` has KERNEL for its name; the parameters are pointers to `buffers` (each with
    whether it is written), the values of `sizes`, and the number of threads. `errors[i]` is what bit i of the result
    means; without any it returns void."""

    text: Text
    buffers: tuple[tuple[str, bool], ...]
    sizes: tuple[sympy.Symbol, ...]
    errors: tuple[tuple[type[Exception], str], ...]
    loops: tuple[TiledLoop, ...]
    tiled: str


def kernel_function(body: KernelBody, buffers: Mapping[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> CppFunction:
    """Generate the function of one kernel. Raises Unsupported for a dtype, operation or index without a C++ form."""
    nest = arrangement(body, buffers)(body, buffers, hints)
    writer = nest.writer
    with origin(*body.kernel.ids), writer.indented():
        if nest.can_fail:
            writer.line("int bad = 0;")
        loops: tuple[TiledLoop, ...] = ()
        if all(axis.size != 0 for axis in nest.outer):
            loops = write_loops((partial(nest.hoist, nest.roots), *nest.tree()), nest.opened)
        if nest.can_fail:
            writer.line("return bad;")
    parameters = nest.values.parameters
    declared = ", ".join((*parameters.declarations(), "int threads"))
    final = LineWriter(body.kernel.id, "cpp")
    with origin(*body.kernel.ids):
        final.line(f'extern "C" {"int" if nest.can_fail else "void"} KERNEL({declared}) {{')
    for line in writer.finish().lines:
        with origin(*line.origins):
            final.line(line.text)
    with origin(*body.kernel.ids):
        final.line("}")
    return CppFunction(
        final.finish(),
        tuple((buffer, buffer in parameters.written) for buffer in parameters.order()),
        tuple(sorted(parameters.sizes, key=str)),
        tuple(nest.values.errors),
        loops,
        "; ".join(filter(None, (nest.why, nest.few))),
    )


def arrangement(body: KernelBody, buffers: Mapping[str, Buffer]) -> type[Nest]:
    """Points without a reduction; Columns where an outer axis runs through more contiguous memory than an inner one;
    else Rows."""
    outer, inner = body.kernel.outer, body.kernel.inner
    if not inner:
        return Points
    if outer and _contiguous_bytes(body, buffers, outer[-1]) > _contiguous_bytes(body, buffers, inner[-1]):
        return Columns
    return Rows


def _contiguous_bytes(body: KernelBody, buffers: Mapping[str, Buffer], axis: Axis) -> int:
    """Bytes that each point of the sweeps touches anew and that are next to those of the axis's next point."""
    loads = (value for p in body.passes for value in walk(*p.sweep_roots) if isinstance(value, Load))
    touched = {(load.buffer, load.index) for load in loads if body.varies_inside(load)}
    touched |= {(write.loop.buffer.name, write.loop.index) for p in body.passes for write in p.writes}
    near = [buffers[buffer].layout.dtype.itemsize for buffer, index in touched if step(index, axis.symbol) == 1]
    return sum(near)


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


def _named(made: CppFunction, name: str) -> Text:
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


def work(passes: KernelBody, buffers: Mapping[str, Buffer]) -> tuple[Size, Size]:
    """What one call of the kernel moves at least, in bytes, and computes, in operations."""
    sizes = {axis.symbol: axis.size for axis in (*passes.kernel.outer, *passes.kernel.inner)}
    outer, inner = points(passes.kernel.outer), points(passes.kernel.inner)

    def moved(buffer: str, free: frozenset[sympy.Symbol]) -> Size:
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
            touches[value.buffer, value.index] = moved(value.buffer, passes.symbols[value])
        computed += flops(value) * outer * (inner if passes.varies_inside(value) else 1)
    computed += sum(len(p.reductions) for p in passes.passes) * outer * inner
    for loop in (write.loop for write in passes.writes):
        touches[loop.buffer.name, loop.index] = moved(loop.buffer.name, loop.index.free_symbols)
    return sympy.Add(*touches.values()), computed
