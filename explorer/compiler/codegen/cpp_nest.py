"""Loop nests in C++: loops, threads, vector loops, and what is computed before the loops that it does not change in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import sympy

from explorer.compiler.codegen.cpp_scalar import CPP_TYPES
from explorer.compiler.codegen.cpp_values import Parameters, Values
from explorer.compiler.codegen.exprs import PRODUCT
from explorer.compiler.codegen.kernel import Body, Reduced, Write, flops
from explorer.core.origin import origin
from explorer.core.text import LineWriter
from explorer.ir.index import hint, points, step
from explorer.ir.loops import Apply, Axis, Buffer, Check, Const, Expr, Load, evaluated, walk
from explorer.ir.scalar import DIVIDES

PARALLEL_WORK = 32768
"""Scalar operations below which starting threads costs more than it brings."""
PARALLEL_POINTS = 16
"""Points of the outer loops from which on threads share these rather than something inside."""


@dataclass(frozen=True)
class For:
    """One loop line. `axes` are the symbols it gives values to; `start` and `stop` are texts. `joined`: collapsed with
    the next loop, so that nothing may stand between."""

    variable: str
    start: str
    stop: str
    step: int = 1
    axes: frozenset[sympy.Symbol] = frozenset()
    pragma: str = ""
    joined: bool = False

    @property
    def head(self) -> str:
        step = f"++{self.variable}" if self.step == 1 else f"{self.variable} += {self.step}"
        return f"for (long {self.variable} = {self.start}; {self.variable} < {self.stop}; {step}) {{"


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

    def loop(self, axis: Axis, pragma: str = "") -> For:
        return For(axis.symbol.name, "0", self.size(axis), 1, frozenset((axis.symbol,)), pragma)

    def blocks(self, axis: Axis, width: int) -> For:
        """The loop over the starts of blocks of an axis."""
        return For(f"{axis.symbol}_start", "0", self.size(axis), width)

    def in_block(self, axis: Axis, width: int, pragma: str = "") -> For:
        """The loop over one block."""
        start = f"{axis.symbol}_start"
        stop = f"{start} + {width}"
        if not (axis.size.is_Integer and axis.size % width == 0):
            stop = f"index_min({stop}, {self.size(axis)})"
        return For(axis.symbol.name, start, stop, 1, frozenset((axis.symbol,)), pragma)

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
        bound |= first.axes
        if first.pragma:
            self.line(first.pragma)
        self.line(first.head)
        with self.writer.indented(), self.values.scope():
            if rest and not first.joined:
                self.hoist(roots, bound, level)
            self.nest(rest, bound, level, roots, inside)
        self.line("}")

    def hoist(self, roots: Iterable[Expr], bound: frozenset[sympy.Symbol], level: int) -> None:
        """Compute the values that depend on the axes of the open loops alone."""
        for value in walk(*roots, below=evaluated):
            known = self.body.level[value] <= level and not isinstance(value, (Const, Reduced))
            if known and (self.body.symbols[value] & self.axes) <= bound:
                self.values.value(value)

    # Threads and vectors.

    def parallel(self, shared: Iterable[Axis], count: int = 1) -> str:
        """The pragma of `count` collapsed loops that threads share, or "" where there is too little work, or where two
        threads might write one element."""
        if not all(apart(write, axis) for write in self.writes for axis in shared):
            return ""
        per_point = max(1, sum(2 if isinstance(v, Load) else flops(v) for v in self.all) // 2)
        total = points((*self.outer, *self.inner))
        least = PARALLEL_WORK // per_point
        if total.is_Integer and total < least:
            return ""
        parts = ["#pragma omp parallel for num_threads(threads)"]
        if count > 1:
            parts.append(f"collapse({count})")
        if not total.is_Integer:
            parts.append(f"if ({self.values.index(total, within=PRODUCT)} > {least})")
        if self.can_fail:
            parts.append("reduction(|:bad)")
        return " ".join(parts)

    def share(self, loops: list[For], axes: Iterable[Axis]) -> list[For]:
        """The loops, collapsed and shared by threads where that pays."""
        pragma = self.parallel(axes, len(loops)) if loops else ""
        if not pragma:
            return loops
        joined = [replace(loop, joined=number < len(loops) - 1) for number, loop in enumerate(loops)]
        return [replace(joined[0], pragma=pragma), *joined[1:]]

    def simd(self, axis: Axis, writes: Iterable[Write] = (), clauses: Iterable[str] = ()) -> str:
        """The pragma of a vector loop over `axis`; none where neighbours may meet in one element."""
        if any(not apart(write, axis) for write in writes):
            return ""
        failing = ["reduction(|:bad)"] if self._fails_along(axis) else []
        return " ".join(["#pragma omp simd", *clauses, *failing])

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
