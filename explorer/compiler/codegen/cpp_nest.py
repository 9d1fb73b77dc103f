"""Loop nests in C++: loops, threads, vector loops, and what is computed before the loops that it does not change in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import sympy

from explorer.compiler.codegen.cpp_scalar import CPP_TYPES
from explorer.compiler.codegen.cpp_values import Parameters, Values
from explorer.compiler.codegen.exprs import PRODUCT
from explorer.compiler.codegen.kernel import Body, Reduced, Write, flops
from explorer.core.origin import origin
from explorer.core.text import LineWriter
from explorer.ir.index import hint, points, step
from explorer.ir.loops import Apply, Axis, Buffer, Check, Const, Expr, Load, evaluated, walk
from explorer.ir.program import LoopKind, TiledLoop
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


@dataclass(frozen=True)
class For:
    """One loop line, over the points of `axis`; with `tile`, over the starts of tiles; with `within`, over the points
    of a tile. `start` and `stop` are texts. `collapsed`: into the loop around it, so that nothing may stand between."""

    axis: Axis
    start: str
    stop: str
    tile: int = 0
    within: int = 0
    kind: LoopKind = "serial"
    clauses: tuple[str, ...] = ()
    collapsed: bool = False

    @property
    def lines(self) -> list[str]:
        variable = f"{self.axis.symbol}_start" if self.tile else self.axis.symbol.name
        step = f"{variable} += {self.tile}" if self.tile > 1 else f"++{variable}"
        head = f"for (long {variable} = {self.start}; {variable} < {self.stop}; {step}) {{"
        if self.kind == "serial" or self.collapsed:
            return [head]
        return [" ".join((_PRAGMAS[self.kind], *self.clauses)), head]


class Nest:
    """Writes the loops of one kernel into `writer`; a subclass for each arrangement has `write`."""

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
        self.loops: list[TiledLoop] = []
        self.depth = 0

    def write(self) -> None:
        raise NotImplementedError

    def line(self, text: str) -> None:
        """A line that every loop of the kernel causes."""
        with origin(*self.body.kernel.ids):
            self.writer.line(text)

    def declare(self, value: Expr, type_name: str, name: str) -> None:
        with origin(*self.values.causes(value)):
            self.writer.line(f"{type_name} {name};")

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

    def loop(self, axis: Axis) -> For:
        return For(axis, "0", self.size(axis))

    def blocks(self, axis: Axis, width: int) -> For:
        """The loop over the starts of blocks of an axis."""
        return For(axis, "0", self.size(axis), width)

    def chunks(self, count: str) -> For:
        """The loop over parts of the reduced points that threads share, or over their results."""
        return For(Axis(sympy.Symbol("chunk"), sympy.sympify(count)), "0", count)

    def position(self) -> str:
        """The linear position of a point among the inner ones."""
        position = sympy.S.Zero
        for axis in self.inner:
            position = position * axis.size + axis.symbol
        return self.values.index(sympy.expand(position), within=PRODUCT)

    def in_block(self, axis: Axis, width: int) -> For:
        """The loop over one block."""
        start = f"{axis.symbol}_start"
        stop = f"{start} + {width}"
        if not (axis.size.is_Integer and axis.size % width == 0):
            stop = f"index_min({stop}, {self.size(axis)})"
        return For(axis, start, stop, within=width)

    def nest(
        self,
        loops: list[For],
        bound: frozenset[sympy.Symbol],
        level: int,
        roots: Iterable[Expr],
        inside: Callable[[], None],
    ) -> None:
        """Open `loops` around what `inside` writes; in each, first compute those values under `roots` that do not
        change in the loops below it. `bound` are the axes of the loops around, `level` the passes that are over."""
        if not loops:
            inside()
            return
        first, *rest = loops
        if not first.tile:
            bound |= {first.axis.symbol}
        for line in first.lines:
            self.line(line)
        size = sympy.Integer(first.within) if first.within else first.axis.size
        self.loops.append(TiledLoop(first.axis.symbol.name, first.kind, size, first.tile, self.depth))
        self.depth += 1
        with self.writer.indented(), self.values.scope():
            if rest and not rest[0].collapsed:
                self.hoist(roots, bound, level)
            self.nest(rest, bound, level, roots, inside)
        self.depth -= 1
        self.line("}")

    def hoist(self, roots: Iterable[Expr], bound: frozenset[sympy.Symbol], level: int) -> None:
        """Compute the values that depend on the axes of the open loops alone."""
        for value in walk(*roots, below=evaluated):
            known = self.body.level[value] <= level and not isinstance(value, (Const, Reduced))
            if known and (self.body.symbols[value] & self.axes) <= bound:
                self.values.value(value)

    # Threads and vectors.

    def parallel(self, shared: Iterable[Axis]) -> bool:
        """Whether threads share loops over these axes: not for little work, nor where two might write one element."""
        total = points((*self.outer, *self.inner))
        enough = not total.is_Integer or total >= self._least
        return enough and all(apart(write, axis) for write in self.writes for axis in shared)

    @cached_property
    def _least(self) -> int:
        """Points of the kernel from which on threads pay."""
        return PARALLEL_WORK // max(1, sum(2 if isinstance(v, Load) else flops(v) for v in self.all) // 2)

    def share(self, loops: list[For], axes: Iterable[Axis]) -> list[For]:
        """The loops, collapsed and shared by threads where that pays."""
        if not loops or not self.parallel(axes):
            return loops
        clauses = [f"collapse({len(loops)})"] if len(loops) > 1 else []
        total = points((*self.outer, *self.inner))
        if not total.is_Integer:
            clauses.append(f"if ({self.values.index(total, within=PRODUCT)} > {self._least})")
        clauses += ["reduction(|:bad)"] * self.can_fail
        collapsed = [replace(loop, kind="parallel", collapsed=True) for loop in loops[1:]]
        return [replace(loops[0], kind="parallel", clauses=tuple(clauses)), *collapsed]

    def simd(self, loop: For, writes: Iterable[Write] = (), clauses: Iterable[str] = ()) -> For:
        """The loop with vector lanes; as it is where neighbours may meet in one element."""
        if any(not apart(write, loop.axis) for write in writes):
            return loop
        failing = ["reduction(|:bad)"] * self._fails_along(loop.axis)
        return replace(loop, kind="vector", clauses=(*clauses, *failing))

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
