"""Kernels whose contiguous axis is an outer one: vector lanes are neighbouring outer points, each with its own running
value, in arrays of COLUMNS elements.

Where there are few of them and many inner points, threads share the inner points in chunks of a fixed size.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import sympy

from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS, For, Nest
from explorer.compiler.codegen.cpp_reduce import Accumulator
from explorer.compiler.codegen.exprs import PRODUCT
from explorer.compiler.codegen.kernel import Pass, flops
from explorer.ir.loops import Axis, Expr, children, evaluated, walk

COLUMNS = 128
"""Neighbouring outer points whose running values are kept together."""
RUN = 256
"""Steps that one run sums."""
CHUNKS = 32
"""Parts of the inner points that threads share."""
CHUNK_WORK = 16384
"""Elements of a part, at least."""


class Columns(Nest):
    """One block of neighbouring outer points at a time, pass by pass."""

    def write(self) -> None:
        self.lanes: dict[Expr, str] = {}
        self.hoist(self.roots, frozenset(), 0)
        loops = [*map(self.loop, self.others), self.blocks(self.vector, COLUMNS)]
        if not self.splits:
            loops = self.share(loops, self.outer)
        self.nest(loops, frozenset(), 0, self.roots, self._block)

    @property
    def vector(self) -> Axis:
        return self.outer[-1]

    @property
    def others(self) -> tuple[Axis, ...]:
        return self.outer[:-1]

    @property
    def bound(self) -> frozenset[sympy.Symbol]:
        return frozenset(axis.symbol for axis in self.others)

    @property
    def lane(self) -> str:
        return f"[{self.vector.symbol} - {self.vector.symbol}_start]"

    @cached_property
    def splits(self) -> bool:
        """Whether threads share the inner points."""
        blocks = self.hint(self.others) * -(-self.hint([self.vector]) // COLUMNS)
        enough = self.hint(self.outer) * self.hint(self.inner) > 4 * CHUNK_WORK
        return blocks < PARALLEL_POINTS // 2 and enough and self.parallel((*self.outer, *self.inner))

    def _block(self) -> None:
        self.hoist(self.roots, self.bound, 0)
        for number, current in enumerate(self.body.passes):
            self._once(number, current)
            if current.reductions or current.writes:
                if self.splits:
                    self._shared_sweep(current)
                else:
                    self._finish(self._sweep(current))

    def _once(self, number: int, current: Pass) -> None:
        """Store what is known at each outer point, and put what the sweep takes from there in arrays."""
        edges = {child: None for value in self.body.in_sweep(number) for child in children(value)}
        edges |= {root: None for root in current.sweep_roots}
        always = set(walk(*current.sweep_roots, below=evaluated))
        arrays = {value: self.values.fresh("col") for value in edges if value in always and self._worth_array(value)}
        for value, name in arrays.items():
            self.declare(value, self.type_name(value), f"{name}[{COLUMNS}]")
        if not (arrays or current.once):
            return

        def inside() -> None:
            self.values.names |= self.lanes
            for value, name in arrays.items():
                self.caused(value, f"{name}{self.lane} = {self.values.value(value)};")
            self.store(current.once)

        loop = self.simd(self.in_block(self.vector, COLUMNS), current.once)
        self.nest([loop], self.bound, 0, (*current.once_roots, *arrays), inside)
        self.lanes |= {value: name + self.lane for value, name in arrays.items()}

    def _worth_array(self, value: Expr) -> bool:
        """Whether a sweep should take a value that is the same at all its points from an array."""
        if self.body.varies_inside(value) or value in self.lanes or value in self.values.names:
            return False
        return self.body.level[value] > 0 or sum(map(flops, walk(value))) > 1

    # Sweeps.

    def _sweep(self, current: Pass, chunk: str = "") -> list[Accumulator]:
        """One pass over the inner axes, or with `chunk` over the part of the first one from `chunk`_start to
        `chunk`_stop; returns the running variables."""
        around, within = self._runs(chunk)
        accumulators = [Accumulator.of(r, self.values.fresh("acc"), bool(around)) for r in current.reductions]
        if not any(a.in_runs for a in accumulators):
            around, within = [], self._loops(chunk)
        for a in accumulators:
            for v in a.variables:
                self._clear(a, v.type_name, v.name, v.start)
        def step() -> None:
            self.values.names |= self.lanes
            for a in accumulators:
                text = self.values.value(a.reduce.value)
                if a.positional:
                    self.caused(a.reduce.result, *a.step_with_position(text, self.position(), self.lane))
                else:
                    self.caused(a.reduce.result, *a.step(text, self.lane))
            self.store(current.writes)

        def run() -> None:
            runs = [a for a in accumulators if a.in_runs]
            for a in runs:
                self._clear(a, a.run.type_name, a.run.name, a.run.start)
            bound = self.bound | {loop.axis.symbol for loop in around if not loop.tile}
            self.hoist(current.sweep_roots, bound, 0)
            loops = [*within, self.simd(self.in_block(self.vector, COLUMNS), current.writes)]
            self.nest(loops, bound, 0, current.sweep_roots, step)
            for a in runs:
                self._each_lane(a, a.end_run("[lane]"))

        self.nest(around, self.bound, 0, current.sweep_roots, run)
        return accumulators

    def _runs(self, chunk: str) -> tuple[list[For], list[For]]:
        """The inner loops, cut in those around a run of steps and those of one: at most RUN steps."""
        inner, loops = self.inner, self._loops(chunk)
        steps = 1
        for place in reversed(range(len(inner))):
            size = inner[place].size
            if size.is_Integer and steps * size <= RUN and not (chunk and place == 0):
                steps *= int(size)
                continue
            width = max(1, RUN // steps)
            symbol = inner[place].symbol
            starts = replace(loops[place], tile=width)
            stop = f"{symbol}_start + {width}"
            if not size.is_Integer or size % width or (chunk and place == 0):
                stop = f"index_min({stop}, {loops[place].stop})"
            block = For(inner[place], f"{symbol}_start", stop, within=width)
            return [*loops[:place], starts], [block, *loops[place + 1 :]]
        return [], loops

    def _loops(self, chunk: str) -> list[For]:
        """The inner loops, the first one over the part that `chunk` names."""
        first, *rest = map(self.loop, self.inner)
        return [replace(first, start=f"{chunk}_start", stop=f"{chunk}_stop") if chunk else first, *rest]

    def _clear(self, a: Accumulator, type_name: str, name: str, start: str) -> None:
        self.declare(a.reduce.result, type_name, f"{name}[{COLUMNS}]")
        self._each_lane(a, f"{name}[lane] = {start};")

    def _each_lane(self, a: Accumulator, *lines: str) -> None:
        head = f"for (int lane = 0; lane < {COLUMNS}; ++lane)"
        if len(lines) == 1:
            self.caused(a.reduce.result, f"{head} {lines[0]}")
            return
        self.caused(a.reduce.result, f"{head} {{", *(f"    {line}" for line in lines), "}")

    def _finish(self, accumulators: list[Accumulator]) -> None:
        for a in accumulators:
            name, result = a.name, a.result("[lane]")
            if a.positional:
                name = f"{a.name}_at"
            elif a.value.type_name != self.type_name(a.reduce.result):
                name = self.values.fresh("col")
                self.declare(a.reduce.result, self.type_name(a.reduce.result), f"{name}[{COLUMNS}]")
            if result != f"{name}[lane]":
                self._each_lane(a, f"{name}[lane] = {result};")
            self.lanes[a.reduce.result] = name + self.lane

    def _shared_sweep(self, current: Pass) -> None:
        """Threads share the first inner axis; their results join in order."""
        first = self.inner[0]
        size = self.size(first, PRODUCT)
        around = self.hint((*self.inner[1:], self.vector))
        least = max(1, CHUNK_WORK // max(1, around))
        totals = [Accumulator.of(r, self.values.fresh("total"), True) for r in current.reductions]
        for a in totals:
            for v in a.variables:
                self._clear(a, v.type_name, v.name, v.start)
                self.declare(a.reduce.result, v.type_name, f"{v.name}_of[{CHUNKS}][{COLUMNS}]")
        width, chunks = f"{first.symbol}_width", f"{first.symbol}_chunks"
        self.line("{")
        with self.writer.indented():
            self.line(f"long {width} = index_max({least}, ({size} + {CHUNKS - 1}) / {CHUNKS});")
            self.line(f"long {chunks} = ({size} + {width} - 1) / {width};")

            def part() -> None:
                self.line(f"long chunk_start = chunk * {width};")
                self.line(f"long chunk_stop = index_min(chunk_start + {width}, {size});")
                for a, mine in zip(totals, self._sweep(current, "chunk"), strict=True):
                    pairs = zip(a.variables, mine.variables, strict=True)
                    self._each_lane(a, *(f"{v.name}_of[chunk][lane] = {own.name}[lane];" for v, own in pairs))

            def join() -> None:
                for a in totals:
                    self._each_lane(a, *a.join("{}_of[chunk][lane]", "[lane]"))

            each = self.chunks(chunks)
            self.nest(self.share([each], self.inner), self.bound, 0, (), part)
            if totals:
                self.nest([each], self.bound, 0, (), join)
        self.line("}")
        self._finish(totals)
