"""Loop nests in C++: loops, threads, vector loops, and what is computed before the loops that it does not change in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

import sympy

from explorer.compiler.codegen.cpp_scalar import CPP_TYPES
from explorer.compiler.codegen.cpp_values import Parameters, Values
from explorer.compiler.codegen.exprs import PRODUCT
from explorer.compiler.codegen.kernel import Body, Part, Reduced, Write, flops
from explorer.core.origin import origin
from explorer.core.text import LineWriter
from explorer.ir.index import hint, points, step
from explorer.ir.loops import Apply, Axis, Buffer, Check, Const, Expr, Load, evaluated, walk
from explorer.ir.program import TiledLoop
from explorer.ir.scalar import DIVIDES

PARALLEL_WORK = 32768
"""Scalar operations below which starting threads costs more than it brings."""
PARALLEL_POINTS = 16
"""Points of the outer loops from which on threads share these rather than something inside."""


_PRAGMAS = {
    "parallel": "#pragma omp parallel for num_threads(threads)",
    "vector": "#pragma omp simd",
    "parallel vector": "#pragma omp parallel for simd num_threads(threads)",
}


class Nest:
    """Arranges the loops of one kernel, and writes them into `writer`; a subclass for each arrangement has `tree`."""

    def __init__(self, body: Body, buffers: Mapping[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> None:
        kernel = body.kernel
        self.body = body
        self.buffers = buffers
        self.hints = hints
        self.outer, self.inner = kernel.outer, kernel.inner
        self.axes = frozenset(axis.symbol for axis in (*kernel.outer, *kernel.inner))
        self.writer = LineWriter(kernel.id, "cpp")
        written = frozenset(step.loop.buffer.name for step in kernel.steps)
        self.values = Values(body, dict(buffers), self.writer, Parameters(written), self.axes)
        self.roots = tuple(root for p in body.passes for root in p.roots)
        self.all = list(walk(*self.roots))
        self.writes = body.writes
        self.can_fail = any(map(can_fail, self.all))
        self.bound: frozenset[sympy.Symbol] = frozenset()
        """The axes of the open loops."""
        self.clauses: list[str] = []
        """Of the next vector loops: the reductions that they take part in."""

    def tree(self) -> tuple[Part, ...]:
        """Decide on the loops; nothing is written before all of them are known."""
        raise NotImplementedError

    @property
    def why(self) -> str:
        """Why these loops, in a person's words."""
        raise NotImplementedError

    def line(self, text: str) -> None:
        """A line that every loop of the kernel causes."""
        with origin(*self.body.kernel.ids):
            self.writer.line(text)

    def caused(self, value: Expr, *lines: str) -> None:
        """Lines that `value` causes."""
        with origin(*self.values.causes(value)):
            for line in lines:
                self.writer.line(line)

    # Sizes.

    def hint(self, axes: Iterable[Axis]) -> int:
        """The number of points, by the example values of the size symbols."""
        return hint(points(axes), self.hints)

    def size(self, axis: Axis, within: int = 0) -> str:
        return self.values.index(axis.size, within=within)

    # Loops.

    @contextmanager
    def opened(self, loop: TiledLoop, around: TiledLoop | None) -> Iterator[None]:
        """A loop whose parent is parallel as well is collapsed into it, so that nothing may stand between."""
        variable, start, stop = loop.axis.symbol.name, "0", self.size(loop.axis)
        if loop.shared:
            start, stop = "chunk_start", "chunk_stop"
        if loop.within:
            start, end = f"{variable}_start", f"{variable}_start + {loop.within}"
            whole = loop.axis.size.is_Integer and loop.axis.size % loop.within == 0 and not loop.shared
            stop = end if whole else f"index_min({end}, {stop})"
        if loop.tile:
            variable += "_start"
        step = f"{variable} += {loop.tile}" if loop.tile > 1 else f"++{variable}"
        if loop.kind != "serial" and not _collapsed(loop, around):
            self.line(" ".join((_PRAGMAS[loop.kind], *self._clauses(loop))))
        self.line(f"for (long {variable} = {start}; {variable} < {stop}; {step}) {{")
        bound = self.bound
        if not loop.tile:
            self.bound |= {loop.axis.symbol}
        with self.writer.indented(), self.values.scope():
            yield
        self.bound = bound
        self.line("}")

    def _clauses(self, loop: TiledLoop) -> list[str]:
        """What the pragma before a loop says besides its kind."""
        if loop.kind == "vector":
            return [*self.clauses, *["reduction(|:bad)"] * self._fails_along(loop.axis)]
        collapsed, inside = 1, loop
        while isinstance(each := inside.body[0], TiledLoop) and _collapsed(each, inside):
            collapsed, inside = collapsed + 1, each
        clauses = [f"collapse({collapsed})"] if collapsed > 1 else []
        total = points((*self.outer, *self.inner))
        if not total.is_Integer:
            clauses.append(f"if ({self.values.index(total, within=PRODUCT)} > {self._least})")
        return clauses + ["reduction(|:bad)"] * self.can_fail

    def nest(
        self, loops: Sequence[TiledLoop], roots: Iterable[Expr], body: Iterable[Part], level: int = 0
    ) -> tuple[Part, ...]:
        """`loops` around `body`; in each, first those values under `roots` are computed that do not change in the loops
        below it. `level` are the passes that are over."""
        if not loops:
            return tuple(body)
        first, *rest = loops
        inside = self.nest(rest, roots, body, level)
        if rest and not _collapsed(rest[0], first):
            inside = (partial(self.hoist, roots, level), *inside)
        return (first.around(*inside),)

    def is_known(self, value: Expr, bound: frozenset[sympy.Symbol], level: int) -> bool:
        """Whether `value` depends on the axes `bound`, and on the passes that are over, alone."""
        known = self.body.level[value] <= level and not isinstance(value, (Const, Reduced))
        return known and (self.body.symbols[value] & self.axes) <= bound

    def hoist(self, roots: Iterable[Expr], level: int = 0) -> None:
        """Compute the values that depend on the axes of the open loops alone."""
        for value in walk(*roots, below=evaluated):
            if self.is_known(value, self.bound, level):
                self.values.value(value)

    # Threads and vectors.

    def parallel(self, shared: Iterable[Axis]) -> bool:
        """Whether threads share loops over these axes: not for little work, nor where two might write one element."""
        total = points((*self.outer, *self.inner))
        enough = not total.is_Integer or total >= self._least
        return enough and all(apart(write, axis) for write in self.writes for axis in shared)

    @property
    def few(self) -> str:
        """Why threads share nothing, where they would do too little."""
        total = points((*self.outer, *self.inner))
        small = bool(total.is_Integer and total < self._least)
        return f"one thread, as {total} points are fewer than the {self._least} from which threads pay" if small else ""

    @cached_property
    def _least(self) -> int:
        """Points of the kernel from which on threads pay."""
        return PARALLEL_WORK // max(1, sum(2 if isinstance(v, Load) else flops(v) for v in self.all) // 2)

    def share(self, loops: Sequence[TiledLoop], axes: Iterable[Axis]) -> list[TiledLoop]:
        """The loops, shared by threads where that pays."""
        return [replace(loop, kind="parallel") for loop in loops] if self.parallel(axes) else list(loops)

    def simd(self, loop: TiledLoop, writes: Iterable[Write] = ()) -> TiledLoop:
        """The loop with vector lanes; as it is where neighbours may meet in one element."""
        return replace(loop, kind="vector") if all(apart(write, loop.axis) for write in writes) else loop

    def _fails_along(self, axis: Axis) -> bool:
        """Whether a value that may fail is computed in the innermost loop, over `axis`, rather than before it."""
        if not self.can_fail:
            return False
        level, symbols = self.body.level, self.body.symbols
        before = {v for v in walk(*self.roots, below=evaluated) if level[v] == 0 and axis.symbol not in symbols[v]}
        return any(can_fail(value) and value not in before for value in self.all)

    # Stores.

    def store(self, writes: Iterable[Write]) -> None:
        """Compute every value first and store then: a store may overwrite what another value reads."""
        writes = list(writes)
        for write in writes:
            for _, index in write.indirect:
                self.values.value(index)
        texts = [self.values.value(write.value) for write in writes]
        for write, text in zip(writes, texts, strict=True):
            self.values.write(write, text)

    def type_name(self, value: Expr) -> str:
        return CPP_TYPES[value.dtype]


def _collapsed(loop: TiledLoop, around: TiledLoop | None) -> bool:
    return around is not None and around.kind == loop.kind == "parallel"


def can_fail(value: Expr) -> bool:
    """Whether computing the value may end the program with an error."""
    if isinstance(value, Apply):
        return value.op in DIVIDES and not value.args[0].dtype.is_floating_point
    return isinstance(value, Check)


def apart(write: Write, axis: Axis) -> bool:
    """Whether different points of `axis` always write different elements: true of a plain store; of a scatter where
    every other term of the index moves by whole ranges of the axis, or stays within one of its steps."""
    if not write.indirect and write.loop.store == "set":
        return True
    index = write.loop.index
    reach = step(index, axis.symbol)
    if not reach or not reach.is_Integer or not axis.size.is_Integer:
        return False
    sizes = {other.symbol: other.size for other in write.loop.axes}
    own, span, within = abs(int(reach)), abs(int(reach)) * int(axis.size), 0
    for symbol in index.free_symbols - {axis.symbol}:
        other = step(index, symbol)
        if other is None or not other.is_Integer:
            return False
        if int(other) % span == 0:
            continue
        if symbol not in sizes or not sizes[symbol].is_Integer:
            return False
        within += abs(int(other)) * (int(sizes[symbol]) - 1)
    return within < own
