"""Kernels without a reduction: a loop nest over the outer axes, in tiles where memory is read across the grain."""

from __future__ import annotations

from functools import cached_property

import sympy

from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS, For, Nest, step
from explorer.compiler.codegen.cpp_scalar import CPP_TYPES
from explorer.compiler.codegen.cpp_values import always_evaluated
from explorer.compiler.codegen.kernel import Pass
from explorer.ir.loops import Axis, Load

CHUNK = 8192
"""Elements of a vector loop that a thread takes at a time."""
TILE = 64
"""Rows and columns of a tile."""


class Points(Nest):
    """Axes that every store keeps apart are shared by threads or run in vector lanes; the others run in order."""

    def write(self) -> None:
        roots = self._only.once_roots
        self.hoist(roots, frozenset(), 0)
        if not self.outer:
            self.store(self._only.once)
        elif self._across is not None:
            self._tiles(self._across)
        else:
            self.nest(self._loops(), frozenset(), 0, roots, lambda: self.store(self._only.once))

    @property
    def _only(self) -> Pass:
        return self.body.passes[0] if self.body.passes else Pass((), (), ())

    def _loops(self) -> list[For]:
        vector = self.outer[-1]
        simd = self.simd(vector, self._only.once)
        shared = [axis for axis in self.outer[:-1] if self.parallel([axis])]
        ordered = [axis for axis in self.outer[:-1] if axis not in shared]
        many = self.hint(shared) >= PARALLEL_POINTS
        if many or not self.parallel([vector]):
            return [*self.share([*map(self.loop, shared)], shared), *map(self.loop, ordered), self.loop(vector, simd)]
        if not shared and not ordered:
            return [self.loop(vector, self.parallel([vector]).replace("parallel for", "parallel for simd"))]
        width = max(64, -(-self.hint([vector]) // PARALLEL_POINTS // 16) * 16) if ordered else CHUNK
        around = self.share([*map(self.loop, shared), self.blocks(vector, width)], [*shared, vector])
        return [*around, *map(self.loop, ordered), self.in_block(vector, width, simd)]

    # Tiles.

    @cached_property
    def _crossing(self) -> dict[Axis, list[Load]]:
        """Loads that are contiguous along another axis than the vector's, by that axis."""
        found: dict[Axis, list[Load]] = {}
        if not self.outer or any(write.indirect or write.loop.store != "set" for write in self.writes):
            return found
        vector = self.outer[-1]
        for value in always_evaluated(self._only.once_roots):
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

    def _tiles(self, across: Axis) -> None:
        """For each tile, first turn the crossing loads' parts into contiguous scratch."""
        vector = self.outer[-1]
        others = [axis for axis in self.outer[:-1] if axis is not across]
        starts = self.share([*map(self.loop, others), self.blocks(across, TILE), self.blocks(vector, TILE)], self.outer)
        bound = frozenset(axis.symbol for axis in others)
        self.nest(starts, frozenset(), 0, self._only.once_roots, lambda: self._tile(across, vector, bound))

    def _tile(self, across: Axis, vector: Axis, bound: frozenset[sympy.Symbol]) -> None:
        self.hoist(self._only.once_roots, bound, 0)
        corner = {axis.symbol: sympy.Symbol(f"{axis.symbol}_start") for axis in (across, vector)}
        counts = []
        for axis in (across, vector):
            name = f"{axis.symbol}_count"
            whole = axis.size % TILE == 0
            counts.append(str(TILE) if whole else name)
            if not whole:
                self.line(f"long {name} = index_min({TILE}, {axis.size} - {axis.symbol}_start);")
        lanes: dict[Load, str] = {}
        for value in self._crossing[across]:
            name = self.values.fresh("tile")
            buffer = self.buffers[value.buffer]
            type_name = CPP_TYPES[buffer.layout.dtype]
            pointer = self.values.parameters.pointer(value.buffer, buffer.layout.dtype)
            start = self.values.index(value.index.xreplace(corner), hidden=frozenset(corner.values()))
            along = self.values.index(step(value.index, vector.symbol))
            self.caused(
                value,
                f"{type_name} {name}[{TILE * TILE}];",
                f"transpose_tile({pointer} + {start}, {along}, {name}, {TILE}, {counts[1]}, {counts[0]});",
            )
            row, column = (f"{axis.symbol} - {axis.symbol}_start" for axis in (across, vector))
            lanes[value] = f"{name}[({row}) * {TILE} + {column}]"

        def inside() -> None:
            for value, element in lanes.items():
                self.values.define(value, self.values.loaded(element, value.buffer))
            self.store(self._only.once)

        loops = [self.in_block(across, TILE), self.in_block(vector, TILE, self.simd(vector, self._only.once))]
        held = frozenset(lanes)
        roots = [root for root in self._only.once_roots if root not in held]
        self.nest(loops, bound, 0, roots, inside)


def load_bytes(nest: Nest, load: Load) -> int:
    """The bytes of one element that a load reads."""
    return nest.buffers[load.buffer].layout.dtype.itemsize
