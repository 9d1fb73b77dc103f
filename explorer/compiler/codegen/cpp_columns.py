"""Kernels whose contiguous axis is an outer one: vector lanes are neighboring outer points, each with its own running
value, in arrays of COLUMNS elements.

Where there are few of them and many inner points, threads share the inner points in chunks of a fixed size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS
from explorer.compiler.codegen.cpp_reduce import Accumulator, Sweeps, Variable
from explorer.compiler.codegen.kernel import Part, Pass, flops
from explorer.ir.loops import Axis, Expr, children, evaluated, walk
from explorer.ir.program import TiledLoop

COLUMNS = 128
"""Neighboring outer points whose running values are kept together."""
RUN = 256
"""Steps that one run sums."""
CHUNKS = 32
"""Parts of the inner points that threads share."""
CHUNK_WORK = 16384
"""Elements of a part, at least."""


class Columns(Sweeps):
    """One block of neighboring outer points at a time, pass by pass."""

    at, extent = "[lane]", f"[{COLUMNS}]"

    def tree(self) -> tuple[Part, ...]:
        self.lanes: dict[Expr, str] = {}
        loops = [*map(TiledLoop, self.others), TiledLoop(self.vector, tile=COLUMNS)]
        if not self.splits:
            loops = self.share(loops, self.outer)
        return self.nest(loops, self.roots, self._block())

    @property
    def vector(self) -> Axis:
        return self.outer[-1]

    @property
    def others(self) -> tuple[Axis, ...]:
        return self.outer[:-1]

    @property
    def lane(self) -> str:
        return f"[{self.vector.symbol} - {self.vector.symbol}_start]"

    @property
    def why(self) -> str:
        chunks = f"; threads share {self.inner[0].symbol} in chunks, as there are few blocks of {COLUMNS}"
        more = f"along which more memory is contiguous than along {self.inner[-1].symbol}"
        return f"vector lanes are points of {self.vector.symbol}, {more}{chunks if self.splits else ''}"

    @property
    def chunked(self) -> tuple[Axis, int, int]:
        around = self.hint((*self.inner[1:], self.vector))
        return self.inner[0], max(1, CHUNK_WORK // max(1, around)), CHUNKS

    @cached_property
    def splits(self) -> bool:
        """Whether threads share the inner points."""
        blocks = self.hint(self.others) * -(-self.hint([self.vector]) // COLUMNS)
        enough = self.hint(self.outer) * self.hint(self.inner) > 4 * CHUNK_WORK
        return blocks < PARALLEL_POINTS // 2 and enough and self.parallel((*self.outer, *self.inner))

    def _block(self) -> Iterator[Part]:
        yield partial(self.hoist, self.roots)
        in_lanes: set[Expr] = set()
        yield self.declare_chunks
        for number, current in enumerate(self.body.passes):
            arrays = self._arrays(current, in_lanes)
            if arrays or current.once:
                yield from self._once(current, arrays)
            if current.reductions or current.writes:
                yield from self.swept(number)
            in_lanes |= {*arrays, *(reduction.result for reduction in current.reductions)}

    def _arrays(self, current: Pass, in_lanes: set[Expr]) -> list[Expr]:
        """The values that are the same at all points of a sweep, and that it takes from arrays."""
        edges = {child: None for value in self.body.in_sweep(current) for child in children(value)}
        edges |= {root: None for root in current.sweep_roots}
        always = set(walk(*current.sweep_roots, below=evaluated)) - in_lanes
        return [value for value in edges if value in always and self._worth_array(value)]

    def _worth_array(self, value: Expr) -> bool:
        if self.body.varies_inside(value) or self.is_known(value, frozenset(axis.symbol for axis in self.others), 0):
            return False
        return self.body.level[value] > 0 or sum(map(flops, walk(value))) > 1

    def _once(self, current: Pass, arrays: list[Expr]) -> Iterator[Part]:
        """Store what is known at each outer point, and put what the sweep takes from there in arrays."""
        names: dict[Expr, str] = {}

        def begin() -> None:
            names.update((value, self.values.fresh("col")) for value in arrays)
            for value, name in names.items():
                self.caused(value, f"{self.type_name(value)} {name}[{COLUMNS}];")

        def inside() -> None:
            self.values.names |= self.lanes
            for value, name in names.items():
                self.caused(value, f"{name}{self.lane} = {self.values.value(value)};")
            self.store(current.once)

        def end() -> None:
            self.lanes |= {value: name + self.lane for value, name in names.items()}

        yield begin
        yield self.simd(TiledLoop(self.vector, within=COLUMNS), current.once).around(inside)
        yield end

    # Sweeps.

    def sweep(self, number: int) -> tuple[list[Accumulator], tuple[Part, ...]]:
        current = self.body.passes[number]
        around, within = self._runs()
        accumulators = [Accumulator(r, "acc", bool(around)) for r in current.reductions]
        runs = [a for a in accumulators if a.in_runs]
        if not runs:
            around, within = [], self._loops()

        def begin_run() -> None:
            for a in runs:
                self.start(a, a.run)
            self.hoist(current.sweep_roots)

        def inside() -> None:
            self.values.names |= self.lanes
            for a in accumulators:
                text = self.values.value(a.reduce.value)
                if a.positional:
                    self.caused(a.reduce.result, *a.step_with_position(text, self.position(), self.lane))
                else:
                    self.caused(a.reduce.result, *a.step(text, self.lane))
            self.store(current.writes)

        def end_run() -> None:
            for a in runs:
                self.each(a, a.end_run("[lane]"))

        loops = [*within, self.simd(TiledLoop(self.vector, within=COLUMNS), current.writes)]
        run = [begin_run, *self.nest(loops, current.sweep_roots, [inside]), end_run]
        return accumulators, (partial(self.begin, accumulators), *self.nest(around, current.sweep_roots, run))

    def _runs(self) -> tuple[list[TiledLoop], list[TiledLoop]]:
        """The inner loops, cut in those around a run of steps and those of one: at most RUN steps."""
        loops, steps = self._loops(), 1
        for place, loop in reversed(list(enumerate(loops))):
            size = loop.axis.size
            if not (size.is_Integer and steps * size <= RUN) or loop.shared:
                width = max(1, RUN // steps)
                return [*loops[:place], replace(loop, tile=width)], [replace(loop, within=width), *loops[place + 1 :]]
            steps *= int(size)
        return [], loops

    def _loops(self) -> list[TiledLoop]:
        """The inner loops, the first one over the part that falls to one thread where it is shared."""
        return [TiledLoop(axis, shared=self.splits and axis is self.inner[0]) for axis in self.inner]

    def start(self, a: Accumulator, variable: Variable) -> None:
        self.caused(a.reduce.result, f"{variable.type_name} {variable.name}[{COLUMNS}];")
        self.each(a, f"{variable.name}[lane] = {variable.start};")

    def each(self, a: Accumulator, *lines: str) -> None:
        head = f"for (int lane = 0; lane < {COLUMNS}; ++lane)"
        if len(lines) == 1:
            self.caused(a.reduce.result, f"{head} {lines[0]}")
            return
        self.caused(a.reduce.result, f"{head} {{", *(f"    {line}" for line in lines), "}")

    def finish(self, accumulators: list[Accumulator]) -> None:
        for a in accumulators:
            name, result = a.name, a.result("[lane]")
            if a.positional:
                name = f"{a.name}_at"
            elif a.value.type_name != self.type_name(a.reduce.result):
                name = self.values.fresh("col")
                self.caused(a.reduce.result, f"{self.type_name(a.reduce.result)} {name}[{COLUMNS}];")
            if result != f"{name}[lane]":
                self.each(a, f"{name}[lane] = {result};")
            self.lanes[a.reduce.result] = name + self.lane
