"""One fused kernel as one C++ function: which arrangement of loops it takes, its head, and the arrangement without a
reduction: a loop nest over the outer axes, in tiles where memory is read across the grain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import sympy

from explorer.compiler.codegen.cpp_columns import Columns
from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS, Nest
from explorer.compiler.codegen.cpp_rows import Rows
from explorer.compiler.codegen.cpp_scalar import CPP_TYPES
from explorer.compiler.codegen.kernel import Body, Part, Pass, write_loops
from explorer.core.origin import origin
from explorer.core.text import LineWriter, Text
from explorer.ir.index import step
from explorer.ir.loops import Axis, Buffer, Expr, Load, evaluated, walk
from explorer.ir.program import TiledLoop

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
        return max(self._crossing, key=lambda axis: sum(load_bytes(self, load) for load in self._crossing[axis]))

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


def load_bytes(nest: Nest, load: Load) -> int:
    """The bytes of one element that a load reads."""
    return nest.buffers[load.buffer].layout.dtype.itemsize


@dataclass(frozen=True)
class Function:
    """A generated function. `text` has KERNEL for its name; the parameters are pointers to `buffers` (each with
    whether it is written), the values of `sizes`, and the number of threads. `errors[i]` is what bit i of the result
    means; without any it returns void."""

    text: Text
    buffers: tuple[tuple[str, bool], ...]
    sizes: tuple[sympy.Symbol, ...]
    errors: tuple[tuple[type[Exception], str], ...]
    loops: tuple[TiledLoop, ...]
    tiled: str


def kernel_function(body: Body, buffers: Mapping[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> Function:
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
    return Function(
        final.finish(),
        tuple((buffer, buffer in parameters.written) for buffer in parameters.order()),
        tuple(sorted(parameters.sizes, key=str)),
        tuple(nest.values.errors),
        loops,
        "; ".join(filter(None, (nest.why, nest.few))),
    )


def arrangement(body: Body, buffers: Mapping[str, Buffer]) -> type[Nest]:
    """Points without a reduction; Columns where an outer axis runs through more contiguous memory than an inner one;
    else Rows."""
    outer, inner = body.kernel.outer, body.kernel.inner
    if not inner:
        return Points
    if outer and _contiguous_bytes(body, buffers, outer[-1]) > _contiguous_bytes(body, buffers, inner[-1]):
        return Columns
    return Rows


def _contiguous_bytes(body: Body, buffers: Mapping[str, Buffer], axis: Axis) -> int:
    """Bytes that each point of the sweeps touches anew and that are next to those of the axis's next point."""
    loads = (value for p in body.passes for value in walk(*p.sweep_roots) if isinstance(value, Load))
    touched = {(load.buffer, load.index) for load in loads if body.varies_inside(load)}
    touched |= {(write.loop.buffer.name, write.loop.index) for p in body.passes for write in p.writes}
    near = [buffers[buffer].layout.dtype.itemsize for buffer, index in touched if step(index, axis.symbol) == 1]
    return sum(near)
