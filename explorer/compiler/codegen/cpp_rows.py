"""Kernels whose innermost reduced axis is contiguous: vector lanes share a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS, PARALLEL_WORK
from explorer.compiler.codegen.cpp_reduce import Accumulator, Sweeps
from explorer.compiler.codegen.kernel import Part, cost, kept_between_passes
from explorer.ir.index import points
from explorer.ir.loops import Axis, Expr, evaluated, walk
from explorer.ir.program import TiledLoop

RUN = 4096
"""Elements that one run of vector lanes sums."""
CHUNK = 8192
"""Elements of a chunk that threads share; at least, where there would be more than CHUNKS."""
CHUNKS = 256
KEPT_BYTES = 128 << 10
"""What is kept of a row on the stack between passes, at most."""
KEEP_COST = 6
"""Scalar operations from which on a value is kept for the next pass rather than computed again."""


class Rows(Sweeps):
    """One row at a time, pass by pass. Threads share the outer points, or where these are few and the inner ones many,
    the innermost axis."""

    kept: dict[Expr, str]
    """Arrays for values that more than one pass needs."""

    def tree(self) -> tuple[Part, ...]:
        self.kept = {} if self.splits else self._worth_keeping()
        passes = [part for number in range(len(self.body.passes)) for part in self._pass(number)]
        loops = [*map(TiledLoop, self.outer)]
        if not self.splits:
            loops = self.share(loops, self.outer)
        return self.nest(loops, self.roots, [self.declare_chunks, self._declare_kept, *passes])

    @property
    def why(self) -> str:
        chunks = f"; threads share it in chunks, as there are fewer than {PARALLEL_POINTS} rows"
        return f"vector lanes share a row along {self.vector.symbol}{chunks if self.splits else ''}"

    @cached_property
    def splits(self) -> bool:
        rows, row = self.hint(self.outer), self.hint(self.inner)
        return rows < PARALLEL_POINTS and rows * row > 4 * PARALLEL_WORK

    @property
    def chunked(self) -> tuple[Axis, int, int]:
        return self.vector, max(1, CHUNK // max(1, self.hint(self.inner[:-1]))), CHUNKS

    @property
    def vector(self) -> Axis:
        return self.inner[-1]

    def _pass(self, number: int) -> Iterator[Part]:
        current = self.body.passes[number]
        yield partial(self.hoist, (*current.once_roots, *current.sweep_roots), number)
        yield partial(self.store, current.once)
        if current.reductions or current.writes:
            yield from self.swept(number)

    def _declare_kept(self) -> None:
        self.kept = {value: self.values.fresh("row") for value in self.kept}
        for value, name in self.kept.items():
            self.caused(value, f"{self.type_name(value)} {name}[{points(self.inner)}];")

    def _worth_keeping(self) -> dict[Expr, str]:
        """The values to keep, as many as there is room for, the costliest first."""
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
                found[value] = ""
        return found

    @cached_property
    def _needs(self) -> list[set[Expr]]:
        """The values that each pass's sweep takes part in computing."""
        return [set(walk(*p.sweep_roots)) for p in self.body.passes]

    def sweep(self, number: int) -> tuple[list[Accumulator], tuple[Part, ...]]:
        current = self.body.passes[number]
        length = self.vector.size
        single = len(self.inner) == 1 and not self.splits and length.is_Integer and length <= RUN
        accumulators = [Accumulator(r, "acc", not single) for r in current.reductions]
        runs = [a for a in accumulators if a.in_runs]
        loops, last = self._sweep_loops(bool(runs))

        def inside() -> None:
            self._take_kept(number)
            for a in accumulators:
                self.caused(a.reduce.result, *a.step(self.values.value(a.reduce.value)))
            self._keep(number)
            self.store(current.writes)

        def begin_run() -> None:
            self.hoist(current.sweep_roots, number)
            for a in runs:
                self.start(a, a.run)

        def end_run() -> None:
            for a in runs:
                self.caused(a.reduce.result, a.end_run())

        steps = self.simd(last, current.writes).around(inside)
        sweep = self.nest(loops, current.sweep_roots, [begin_run, steps, end_run], number)
        positional = [a for a in accumulators if a.positional]
        find = self._find(positional, number, [*loops, self.simd(last)]) if positional else ()
        return accumulators, (partial(self.begin, accumulators), *sweep, *find)

    def begin(self, accumulators: list[Accumulator]) -> None:
        super().begin(accumulators)
        self.clauses = [clause for a in accumulators for clause in a.clauses]

    def finish(self, accumulators: list[Accumulator]) -> None:
        for a in accumulators:
            self.values.define(a.reduce.result, a.result())

    def _sweep_loops(self, runs: bool) -> tuple[list[TiledLoop], TiledLoop]:
        """The loops around the vector loop, and the vector loop."""
        loop, loops = TiledLoop(self.vector, shared=self.splits), [*map(TiledLoop, self.inner[:-1])]
        length = self.vector.size
        if self.splits or runs and not (length.is_Integer and length <= RUN):
            return [*loops, replace(loop, tile=RUN)], replace(loop, within=RUN)
        return loops, loop

    def _find(self, positional: list[Accumulator], number: int, loops: list[TiledLoop]) -> tuple[Part, ...]:
        """A second sweep for positions: which point holds the extreme that the first one found."""
        total = points(self.inner)
        type_name = "int" if total.is_Integer and total < 2**31 else "long"

        def begin() -> None:
            end = self.values.index(total)
            for a in positional:
                self.caused(a.reduce.result, f"{type_name} {a.name}_found = {end};")
                if a.marks_nan:
                    self.caused(a.reduce.result, f"{a.name} = {a.name}_nan ? NAN : {a.name};")
            self.clauses = [f"reduction(min:{a.name}_found)" for a in positional]

        def inside() -> None:
            self._take_kept(number, also=True)
            end = self.values.index(total)
            self.caused(positional[0].reduce.result, f"{type_name} position = {self.position()};")
            for a in positional:
                found = a.find(self.values.value(a.reduce.value), f"{a.name}_found", type_name, end)
                self.caused(a.reduce.result, *found)

        def finish() -> None:
            for a in positional:
                self.caused(a.reduce.result, f"{a.name}_at = {a.name}_found;")

        roots = [a.reduce.value for a in positional]
        return (begin, *self.nest(loops, roots, [inside], number), finish)

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
