"""Kernels whose innermost reduced axis is contiguous: vector lanes share a row.

Rows     threads share the outer points
Split    few outer points and many inner ones: threads share the inner points in chunks of a size that does not depend
         on the number of threads; the chunks' results join in order, so the result does not depend on it either
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import sympy

from explorer.compiler.codegen.cpp_nest import For, Nest
from explorer.compiler.codegen.cpp_reduce import Accumulator
from explorer.compiler.codegen.exprs import PRODUCT
from explorer.compiler.codegen.kernel import Pass, cost, kept_between_passes
from explorer.ir.index import points
from explorer.ir.loops import Axis, Expr, evaluated, walk

RUN = 4096
"""Elements that one run of vector lanes sums."""
CHUNK = 8192
"""Elements of a chunk that threads share; at least, where there would be more than CHUNKS."""
CHUNKS = 256
KEPT_BYTES = 128 << 10
"""What is kept of a row on the stack between passes, at most."""
KEEP_COST = 6
"""Scalar operations from which on a value is kept for the next pass rather than computed again."""


class Rows(Nest):
    """One row at a time, pass by pass."""

    def write(self) -> None:
        self.hoist(self.roots, frozenset(), 0)
        loops = self.share([*map(self.loop, self.outer)], self.outer)
        self.nest(loops, frozenset(), 0, self.roots, self._row)

    @property
    def bound(self) -> frozenset[sympy.Symbol]:
        return frozenset(axis.symbol for axis in self.outer)

    @property
    def vector(self) -> Axis:
        return self.inner[-1]

    def _row(self) -> None:
        for value, name in self.kept.items():
            self.declare(value, self.type_name(value), f"{name}[{points(self.inner)}]")
        for number, current in enumerate(self.body.passes):
            self.hoist((*current.once_roots, *current.sweep_roots), self.bound, number)
            self.store(current.once)
            if current.reductions or current.writes:
                self.sweep(number, current)

    @cached_property
    def kept(self) -> dict[Expr, str]:
        """Arrays for values that more than one pass needs, as many as there is room for, the costliest first."""
        size = points(self.inner)
        if not size.is_Integer:
            return {}
        always = [set(walk(*p.sweep_roots, below=evaluated)) for p in self.body.passes]
        shared = kept_between_passes(self.body, KEEP_COST)
        wanted = [value for value, number in shared.items() if value in always[number]]
        wanted.sort(key=lambda value: -cost(value, self.body))
        room = KEPT_BYTES
        found: dict[Expr, str] = {}
        for value in wanted:
            need = int(size) * value.dtype.itemsize
            if need <= room:
                room -= need
                found[value] = self.values.fresh("row")
        return found

    @cached_property
    def _needs(self) -> list[set[Expr]]:
        """The values that each pass's sweep takes part in computing."""
        return [set(walk(*p.sweep_roots)) for p in self.body.passes]

    def sweep(self, number: int, current: Pass, chunk: str = "") -> list[Accumulator]:
        """One pass over the inner axes, or with `chunk` over the part of it from `chunk`_start to `chunk`_stop, whose
        running variables are then returned rather than finished."""
        length = self.vector.size
        single = len(self.inner) == 1 and not chunk and length.is_Integer and length <= RUN
        accumulators = [Accumulator.of(r, self.values.fresh("acc"), not single) for r in current.reductions]
        for a in accumulators:
            self.caused(a.reduce.result, *(f"{v.type_name} {v.name} = {v.start};" for v in a.variables))
        loops, last = self._sweep_loops(any(a.in_runs for a in accumulators), chunk)
        clauses = [clause for a in accumulators for clause in a.clauses]
        plain, last = last, self.simd(last, current.writes, clauses)
        between = self.bound | {axis.symbol for axis in self.inner[:-1]}

        def inside() -> None:
            self._take_kept(number)
            for a in accumulators:
                self.caused(a.reduce.result, *a.step(self.values.value(a.reduce.value)))
            self._keep(number)
            self.store(current.writes)

        def run() -> None:
            self.hoist(current.sweep_roots, between, number)
            runs = [a for a in accumulators if a.in_runs]
            for a in runs:
                self.caused(a.reduce.result, f"{a.run.type_name} {a.run.name} = {a.run.start};")
            self.nest([last], between, number, current.sweep_roots, inside)
            for a in runs:
                self.caused(a.reduce.result, a.end_run())

        self.nest(loops, self.bound, number, current.sweep_roots, run)
        self._find([a for a in accumulators if a.positional], number, loops, plain)
        if not chunk:
            for a in accumulators:
                self.values.define(a.reduce.result, a.result())
        return accumulators

    def _sweep_loops(self, runs: bool, chunk: str) -> tuple[list[For], For]:
        """The loops around the vector loop, and the vector loop."""
        vector, length = self.vector, self.vector.size
        loops = [*map(self.loop, self.inner[:-1])]
        if chunk:
            loops.append(For(vector, f"{chunk}_start", f"{chunk}_stop", RUN))
            stop = f"index_min({vector.symbol}_start + {RUN}, {chunk}_stop)"
            return loops, replace(self.in_block(vector, RUN), stop=stop)
        if runs and not (length.is_Integer and length <= RUN):
            return [*loops, self.blocks(vector, RUN)], self.in_block(vector, RUN)
        return loops, self.loop(vector)

    def _find(self, positional: list[Accumulator], number: int, loops: list[For], last: For) -> None:
        """A second sweep for positions: which point holds the extreme that the first one found."""
        if not positional:
            return
        total = points(self.inner)
        end, type_name = self.values.index(total), "int" if total.is_Integer and total < 2**31 else "long"
        found = {a: f"{a.name}_found" for a in positional}
        for a, name in found.items():
            self.caused(a.reduce.result, f"{type_name} {name} = {end};")
            if a.marks_nan:
                self.caused(a.reduce.result, f"{a.name} = {a.name}_nan ? NAN : {a.name};")
        clauses = [f"reduction(min:{name})" for name in found.values()]
        loop = self.simd(last, (), clauses)
        roots = [a.reduce.value for a in positional]

        def inside() -> None:
            self._take_kept(number, also=True)
            self.caused(positional[0].reduce.result, f"{type_name} position = {self.position()};")
            for a, name in found.items():
                self.caused(a.reduce.result, *a.find(self.values.value(a.reduce.value), name, type_name, end))

        self.nest([*loops, loop], self.bound, number, roots, inside)
        for a, name in found.items():
            self.caused(a.reduce.result, f"{a.name}_at = {name};")

    def _take_kept(self, number: int, also: bool = False) -> None:
        """Name the values that an earlier sweep kept; `also` those that this one did."""
        for value, name in self.kept.items():
            if value in self._needs[number] and self._first(value) < number + also:
                self.values.define(value, f"{name}[{self.position()}]")

    def _keep(self, number: int) -> None:
        for value, name in self.kept.items():
            if self._first(value) == number:
                self.caused(value, f"{name}[{self.position()}] = {self.values.value(value)};")

    def _first(self, value: Expr) -> int:
        return next(number for number, needed in enumerate(self._needs) if value in needed)


class Split(Rows):
    """Outer points one after the other, the inner axis in chunks."""

    kept: dict[Expr, str] = {}  # noqa: RUF012  (nothing is kept: a row is shared)

    def write(self) -> None:
        self.hoist(self.roots, frozenset(), 0)
        self.nest([*map(self.loop, self.outer)], frozenset(), 0, self.roots, self._point)

    def _point(self) -> None:
        chunks, width = self._chunks()
        for number, current in enumerate(self.body.passes):
            self.hoist((*current.once_roots, *current.sweep_roots), self.bound, number)
            self.store(current.once)
            if current.reductions or current.writes:
                self._shared_sweep(number, current, chunks, width)

    def _shared_sweep(self, number: int, current: Pass, chunks: str, width: str) -> None:
        totals = [Accumulator.of(r, self.values.fresh("total"), True) for r in current.reductions]
        for a in totals:
            for v in a.variables:
                self.caused(a.reduce.result, f"{v.type_name} {v.name} = {v.start}, {v.name}_of[{CHUNKS}];")
        each = self.chunks(chunks)

        def part() -> None:
            self.line(f"long chunk_start = chunk * {width};")
            self.line(f"long chunk_stop = index_min(chunk_start + {width}, {self.size(self.vector, PRODUCT)});")
            parts = self.sweep(number, current, "chunk")
            for a, mine in zip(totals, parts, strict=True):
                pairs = zip(a.variables, mine.variables, strict=True)
                self.caused(a.reduce.result, *(f"{v.name}_of[chunk] = {own.name};" for v, own in pairs))

        def join() -> None:
            for a in totals:
                self.caused(a.reduce.result, *a.join("{}_of[chunk]"))

        self.nest(self.share([each], self.inner), self.bound, number, current.sweep_roots, part)
        if totals:
            self.nest([each], self.bound, number, (), join)
        for a in totals:
            self.values.define(a.reduce.result, a.result())

    def _chunks(self) -> tuple[str, str]:
        """The number of chunks and their width, as texts: CHUNK elements, more where there would be over CHUNKS."""
        least = max(1, CHUNK // max(1, self.hint(self.inner[:-1])))
        size = self.vector.size
        if size.is_Integer:
            width = max(least, -(-int(size) // CHUNKS))
            return str(-(-int(size) // width)), str(width)
        text = self.size(self.vector, PRODUCT)
        self.line(f"long width = index_max({least}, ({text} + {CHUNKS - 1}) / {CHUNKS});")
        self.line(f"long chunks = ({text} + width - 1) / width;")
        return "chunks", "width"
