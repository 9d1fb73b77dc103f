"""Loop nests in C++: loops, threads, vector loops, and what is computed before the loops that it does not change in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import sympy
import torch

from explorer.compiler.codegen.cpp_scalar import CPP_TYPES, PRINTERS, apply_text, cast, cpp_type, literal, load, store
from explorer.compiler.codegen.exprs import PRODUCT, index_text
from explorer.compiler.codegen.kernel import KernelBody, Part, Reduced, Write, flops
from explorer.core.origin import Origins, origin, union
from explorer.core.text import LineWriter
from explorer.ir import loops as ir
from explorer.ir.index import hint, points, step
from explorer.ir.program import TiledLoop
from explorer.ir.scalar import DIVIDES

# The values of a kernel as C++ statements: one line for each scalar operation, written where it is first asked for.


ZERO_DIVISION = "ZeroDivisionError"
"""What eager says, as a RuntimeError, on an integer division by zero."""


@dataclass
class Parameters:
    """The kernel's parameters in order of first use. Names do not depend on buffers, so that equal layers have equal
    texts; a kernel that touches a buffer in two ways takes it once."""

    written: frozenset[str]
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[sympy.Symbol, None] = field(default_factory=dict)

    def pointer(self, buffer: str, dtype: torch.dtype) -> str:
        if buffer not in self.names:
            prefix = "out" if buffer in self.written else "in"
            self.names[buffer] = f"{prefix}{sum(name.startswith(prefix) for name in self.names.values())}"
            self.dtypes[buffer] = dtype
        return self.names[buffer]

    def order(self) -> list[str]:
        """The buffers in the order of their parameters: inputs, then outputs."""
        return sorted(self.names, key=lambda buffer: (self.names[buffer][0], int(self.names[buffer].strip("inout"))))

    def declarations(self) -> list[str]:
        found = []
        for buffer in self.order():
            const = "" if buffer in self.written else "const "
            found.append(f"{const}{cpp_type(self.dtypes[buffer])}* {self.names[buffer]}")
        return found + [f"long {symbol}" for symbol in sorted(self.sizes, key=str)]


@dataclass
class CppValues:
    """Writes a value's line where it is first asked for and gives its name afterwards.

    `stored` are names that later scopes take a value from: an array element, a row kept from an earlier pass.
    """

    body: KernelBody
    buffers: dict[str, ir.Buffer]
    writer: LineWriter
    parameters: Parameters
    axes: frozenset[sympy.Symbol]
    names: dict[ir.Expr, str] = field(default_factory=dict)
    counter: int = 0
    errors: dict[tuple[type[Exception], str], int] = field(default_factory=dict)
    variables: set[sympy.Symbol] = field(default_factory=set)
    """Symbols of sizes and indices that the function itself declares."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names made inside are gone afterwards, as the C++ block's variables are."""
        outside = dict(self.names)
        try:
            yield
        finally:
            self.names = outside

    def index(self, index: ir.Size, indirect: tuple[tuple[sympy.Symbol, ir.Expr], ...] = (), within: int = 0) -> str:
        """An index as text; size symbols in it become parameters of the kernel."""
        names = {symbol: self.value(value) for symbol, value in indirect}
        for symbol in index.free_symbols - self.axes - names.keys() - self.variables:
            self.parameters.sizes[symbol] = None
        return index_text(index, "cpp", names, within)

    def element(self, buffer: str, index: ir.Size, indirect: tuple[tuple[sympy.Symbol, ir.Expr], ...] = ()) -> str:
        pointer = self.parameters.pointer(buffer, self.buffers[buffer].layout.dtype)
        return f"{pointer}[{self.index(index, indirect)}]"

    def loaded(self, element: str, buffer: str) -> str:
        """The computing value of an element of `buffer` that was copied elsewhere."""
        return load(element, self.buffers[buffer].layout.dtype)

    def value(self, value: ir.Expr) -> str:
        """The name (or literal) of a value, after writing the lines that it needs."""
        if value not in self.names:
            if isinstance(value, ir.Const):
                return literal(value.value, value.dtype)
            if isinstance(value, ir.Masked):
                return self._masked(value)
            self.define(value, self._text(value))
        return self.names[value]

    def define(self, value: ir.Expr, text: str, name: str | None = None) -> str:
        """Write `type name = text;` under the value's origins and remember the name."""
        name = name or self.fresh()
        with origin(*self.causes(value)):
            self.writer.line(f"{CPP_TYPES[value.dtype]} {name} = {text};")
        self.names[value] = name
        return name

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter - 1}"

    def causes(self, value: ir.Expr) -> Origins:
        """A value's origins, with those of constants that its line spells out."""
        spelled = (self.body.origins[child] for child in ir.children(value) if isinstance(child, ir.Const))
        return union(self.body.origins[value], *spelled) or self.body.kernel.ids

    def write(self, write: Write, text: str) -> None:
        """Store a value that has been computed."""
        loop = write.loop
        target = self.element(loop.buffer.name, loop.index, write.indirect)
        dtype = loop.buffer.layout.dtype
        stored = store(text, dtype, isinstance(write.value, ir.Cast) and write.value.to == dtype)
        with origin(*(self.body.origins[write.value] or loop.origins or (loop.id,))):
            if loop.store == "set":
                self.writer.line(f"{target} = {stored};")
                return
            old = load(target, dtype)
            joined = {
                "add": f"{old} + {text}" if dtype is not torch.bool else f"{old} | {text}",
                "prod": f"{old} * {text}",
                "max": apply_text("maximum", write.value.dtype, ["old", text]),
                "min": apply_text("minimum", write.value.dtype, ["old", text]),
            }[loop.store]
            if loop.store in ("max", "min"):
                name = self.fresh("old")
                self.writer.line(f"{CPP_TYPES[write.value.dtype]} {name} = {old};")
                joined = joined.replace("old", name)
            self.writer.line(f"{target} = {store(joined, dtype)};")

    def error(self, kind: type[Exception], message: str) -> int:
        """The bit of `bad` that stands for an error; kinds after the 30th share one."""
        return self.errors.setdefault((kind, message), min(len(self.errors), 30))

    def _text(self, value: ir.Expr) -> str:
        match value:
            case ir.IndexValue(index=index):
                text = self.index(index)
                return text if value.dtype is torch.int64 else f"({CPP_TYPES[value.dtype]})({text})"
            case ir.Load(buffer=buffer, index=index, indirect=indirect):
                return load(self.element(buffer, index, indirect), self.buffers[buffer].layout.dtype)
            case ir.Cast(value=operand, to=to):
                return cast(self.value(operand), operand.dtype, to)
            case ir.Apply(op="where", args=(condition, *_)) if (
                value.dtype.is_floating_point and self._is_fixed(condition) and not PRINTERS.own("where")
            ):
                return f"fixed_where({', '.join(map(self.value, value.args))})"
            case ir.Apply(op=op, args=args):
                operands = [self.value(arg) for arg in args]
                dtype = args[-1].dtype
                zero = 0
                if op in DIVIDES and not dtype.is_floating_point:
                    zero = self.error(RuntimeError, ZERO_DIVISION)
                return apply_text(op, dtype, operands, zero)
            case ir.Check(value=operand, size=size, what=what):
                return self._checked(value, self.value(operand), size, what)
            case Reduced(loop=loop):
                raise AssertionError(f"{loop} is used before its reduction is over")
        raise AssertionError(f"unknown expression {type(value).__name__}")

    def _is_fixed(self, condition: ir.Expr) -> bool:
        """Whether it is the same for all points of the innermost loop."""
        kernel = self.body.kernel
        axes = kernel.inner or kernel.outer
        return bool(axes) and axes[-1].symbol not in self.body.symbols[condition]

    def _checked(self, check: ir.Check, operand: str, size: ir.Size, what: str) -> str:
        """Wrap a negative index where it may be; one out of range sets its bit of `bad` and becomes 0."""
        limit = self.index(size, within=PRODUCT)
        bit = self.error(IndexError, what)
        wrapped, outside = self.fresh(), self.fresh("outside")
        with origin(*self.causes(check)):
            position = f"{operand} < 0 ? {operand} + {limit} : {operand}" if check.wrap else operand
            self.writer.line(f"long {wrapped} = {position};")
            self.writer.line(f"bool {outside} = (unsigned long){wrapped} >= (unsigned long)({limit});")
            self.writer.line(f"bad |= {outside} << {bit};")
        return f"{outside} ? 0 : {wrapped}"

    def _masked(self, value: ir.Masked) -> str:
        """The value is computed, and its loads made, inside an if."""
        condition, other = self.value(value.condition), self.value(value.other)
        name = self.define(value, other)
        with origin(*self.causes(value)), self.scope(), self.writer.indented(f"if ({condition}) {{", "}"):
            inner = self.value(value.value)
            with origin(*self.causes(value)):
                self.writer.line(f"{name} = {inner};")
        return name


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

    def __init__(self, body: KernelBody, buffers: Mapping[str, ir.Buffer], hints: Mapping[sympy.Symbol, int]) -> None:
        kernel = body.kernel
        self.body = body
        self.buffers = buffers
        self.hints = hints
        self.outer, self.inner = kernel.outer, kernel.inner
        self.axes = frozenset(axis.symbol for axis in (*kernel.outer, *kernel.inner))
        self.writer = LineWriter(kernel.id, "cpp")
        written = frozenset(step.loop.buffer.name for step in kernel.steps)
        self.values = CppValues(body, dict(buffers), self.writer, Parameters(written), self.axes)
        self.roots = tuple(root for p in body.passes for root in p.roots)
        self.all = list(ir.walk(*self.roots))
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

    def caused(self, value: ir.Expr, *lines: str) -> None:
        """Lines that `value` causes."""
        with origin(*self.values.causes(value)):
            for line in lines:
                self.writer.line(line)

    # Sizes.

    def hint(self, axes: Iterable[ir.Axis]) -> int:
        """The number of points, by the example values of the size symbols."""
        return hint(points(axes), self.hints)

    def size(self, axis: ir.Axis, within: int = 0) -> str:
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
        self, loops: Sequence[TiledLoop], roots: Iterable[ir.Expr], body: Iterable[Part], level: int = 0
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

    def is_known(self, value: ir.Expr, bound: frozenset[sympy.Symbol], level: int) -> bool:
        """Whether `value` depends on the axes `bound`, and on the passes that are over, alone."""
        known = self.body.level[value] <= level and not isinstance(value, (ir.Const, Reduced))
        return known and (self.body.symbols[value] & self.axes) <= bound

    def hoist(self, roots: Iterable[ir.Expr], level: int = 0) -> None:
        """Compute the values that depend on the axes of the open loops alone."""
        for value in ir.walk(*roots, below=ir.evaluated):
            if self.is_known(value, self.bound, level):
                self.values.value(value)

    # Threads and vectors.

    def parallel(self, shared: Iterable[ir.Axis]) -> bool:
        """Whether threads share loops over these axes: not for little work, nor where two might write one element."""
        total = points((*self.outer, *self.inner))
        enough = not total.is_Integer or total >= self._least
        return enough and all(writes_disjoint(write, axis) for write in self.writes for axis in shared)

    @property
    def few(self) -> str:
        """Why threads share nothing, where they would do too little."""
        total = points((*self.outer, *self.inner))
        small = bool(total.is_Integer and total < self._least)
        return f"one thread: threads pay off from {self._least} points, and there are {total}" if small else ""

    @cached_property
    def _least(self) -> int:
        """Points of the kernel from which on threads pay."""
        return PARALLEL_WORK // max(1, sum(2 if isinstance(v, ir.Load) else flops(v) for v in self.all) // 2)

    def share(self, loops: Sequence[TiledLoop], axes: Iterable[ir.Axis]) -> list[TiledLoop]:
        """The loops, shared by threads where that pays."""
        return [replace(loop, kind="parallel") for loop in loops] if self.parallel(axes) else list(loops)

    def simd(self, loop: TiledLoop, writes: Iterable[Write] = ()) -> TiledLoop:
        """The loop with vector lanes; as it is where neighbors may meet in one element."""
        return replace(loop, kind="vector") if all(writes_disjoint(write, loop.axis) for write in writes) else loop

    def _fails_along(self, axis: ir.Axis) -> bool:
        """Whether a value that may fail is computed in the innermost loop, over `axis`, rather than before it."""
        if not self.can_fail:
            return False
        level, symbols = self.body.level, self.body.symbols
        before = {
            v for v in ir.walk(*self.roots, below=ir.evaluated) if level[v] == 0 and axis.symbol not in symbols[v]
        }
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

    def type_name(self, value: ir.Expr) -> str:
        return CPP_TYPES[value.dtype]


def _collapsed(loop: TiledLoop, around: TiledLoop | None) -> bool:
    return around is not None and around.kind == loop.kind == "parallel"


def can_fail(value: ir.Expr) -> bool:
    """Whether computing the value may end the program with an error."""
    if isinstance(value, ir.Apply):
        return value.op in DIVIDES and not value.args[0].dtype.is_floating_point
    return isinstance(value, ir.Check)


def writes_disjoint(write: Write, axis: ir.Axis) -> bool:
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
