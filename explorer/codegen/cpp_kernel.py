"""One fused kernel as one C++ function: which loop is vectorised, which run in parallel, and the loops themselves.

points   no reduction: a loop nest over the outer axes
rows     the innermost reduced axis is contiguous: threads share the outer points, vector lanes share a row
columns  an outer axis is contiguous: vector lanes are neighbouring outer points, each with its own running value
split    few outer points and many inner ones: threads share the inner points in chunks of a fixed size, whose results
         join in order, so that the result does not depend on the number of threads

Inductor: codegen/cpp.py, CppKernel, CppVecKernel and LoopNest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import sympy

from explorer.codegen.cpp_reduce import BLOCK, Accumulator
from explorer.codegen.cpp_scalar import CPP_TYPES, DIVIDES
from explorer.codegen.cpp_values import Parameters, Values, always_evaluated
from explorer.codegen.exprs import PRODUCT
from explorer.codegen.kernel import Body, Pass, Reduced, Write, flops, kept_between_passes
from explorer.core.origin import origin
from explorer.core.text import LineWriter, Text
from explorer.ir.loops import Apply, Axis, Buffer, Check, Const, Expr, Load, Size, children, walk

Mode = Literal["points", "rows", "columns", "split"]

PARALLEL_WORK = 32768
"""Scalar operations below which starting threads costs more than it brings."""
PARALLEL_POINTS = 16
"""Outer points from which on threads share them rather than something inside."""
CHUNK = 8192
"""Elements of a chunk that threads share; at least, where there would be more than CHUNKS."""
CHUNKS = 256
COLUMNS = 128
"""Neighbouring outer points whose running values are kept together."""
KEPT_ELEMENTS = 8192
"""Longest row that is kept on the stack between passes."""
KEEP_COST = 6
"""Scalar operations from which on a value is kept for the next pass rather than computed again."""


@dataclass(frozen=True)
class Function:
    """A generated function. `text` has KERNEL for its name; the parameters are pointers to `buffers`, the values of
    `sizes`, and the number of threads. `errors[i]` is what bit i of the result means; without any it returns void."""

    text: Text
    buffers: tuple[tuple[str, bool], ...]
    sizes: tuple[sympy.Symbol, ...]
    errors: tuple[tuple[type[Exception], str], ...]
    mode: Mode


def kernel_function(body: Body, buffers: Mapping[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> Function:
    """Generate the function of one kernel. Raises Unsupported for a dtype, operation or index without a C++ form."""
    return _CppKernel(body, dict(buffers), hints).function()


@dataclass(frozen=True)
class _For:
    """One loop line. `axes` are the symbols it gives values to; `start` and `stop` are texts."""

    variable: str
    start: str
    stop: str
    step: int = 1
    axes: frozenset[sympy.Symbol] = frozenset()
    pragma: str = ""
    joined: bool = False
    """Collapsed with the next loop, so nothing may stand between."""


class _CppKernel:
    def __init__(self, body: Body, buffers: dict[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> None:
        kernel = body.kernel
        self.body = body
        self.buffers = buffers
        self.hints = hints
        self.outer, self.inner = kernel.outer, kernel.inner
        self.axes = frozenset(axis.symbol for axis in (*kernel.outer, *kernel.inner))
        self.writer = LineWriter(kernel.id, "cpp")
        written = frozenset(step.loop.buffer.name for step in kernel.steps)
        self.values = Values(body, buffers, self.writer, Parameters(written), self.axes)
        roots = [root for p in body.passes for root in (*p.once_roots, *p.sweep_roots)]
        self.all = list(walk(*roots))
        self.can_fail = any(
            isinstance(v, Check) or (isinstance(v, Apply) and v.op in DIVIDES and not v.args[0].dtype.is_floating_point)
            for v in self.all
        )
        self.writes = [write for p in body.passes for write in (*p.once, *p.writes)]
        self.vector = self._vector_axis()
        self.mode = self._mode()
        self.kept: dict[Expr, str] = {}
        self.lanes: dict[Expr, str] = {}

    # Choices.

    def _vector_axis(self) -> Axis | None:
        """The axis that runs through contiguous memory: the last of the outer or of the inner axes."""
        if not self.inner:
            return self.outer[-1] if self.outer else None
        if not self.outer:
            return self.inner[-1]
        across, along = self.outer[-1], self.inner[-1]
        better = self._contiguous_bytes(across) > self._contiguous_bytes(along)
        return across if better else along

    def _contiguous_bytes(self, axis: Axis) -> int:
        """Bytes at one point that are next to those of the axis's next point."""
        reads = {(v.buffer, v.index) for v in self.all if isinstance(v, Load)}
        writes = [(w.loop.buffer.name, w.loop.index) for p in self.body.passes for w in p.writes]
        return sum(
            self.buffers[buffer].layout.dtype.itemsize
            for buffer, index in (*reads, *writes)
            if step(index, axis.symbol) == 1
        )

    def _mode(self) -> Mode:
        if not self.inner:
            return "points"
        if self.vector in self.outer:
            return "columns"
        points, inside = self._hint(self.outer), self._hint(self.inner)
        return "split" if points < PARALLEL_POINTS and points * inside > 4 * PARALLEL_WORK else "rows"

    def _hint(self, axes: Iterable[Axis]) -> int:
        return int(sympy.Mul(*(axis.size for axis in axes)).xreplace(dict(self.hints)))

    def _parallel(self, shared: Iterable[Axis], extra: str = "") -> str:
        """The pragma of a parallel loop over `shared`, or "" where there is too little work to share or where two
        threads might write one element."""
        if not all(apart(write, axis) for write in self.writes for axis in shared):
            return ""
        every = (*self.outer, *self.inner)
        per_point = max(1, sum(2 if isinstance(v, Load) else flops(v) for v in self.all) // 2)
        points = sympy.Mul(*(axis.size for axis in every))
        least = PARALLEL_WORK // per_point
        if points.is_Integer and points < least:
            return ""
        clause = "" if points.is_Integer else f" if ({self.values.index(points)} > {least})"
        failing = " reduction(|:bad)" if self.can_fail else ""
        return f"#pragma omp parallel for num_threads(threads){extra}{clause}{failing}"

    # The function.

    def function(self) -> Function:
        with origin(*self.body.kernel.ids):
            self.writer.line("{")
        with self.writer.indented():
            if self.can_fail:
                self._line("int bad = 0;")
            if all(axis.size != 0 for axis in self.outer):
                getattr(self, f"_{self.mode}")()
            if self.can_fail:
                self._line("return bad;")
        self._line("}")
        parameters = self.values.parameters
        declared = ", ".join((*parameters.declarations(), "int threads"))
        lines = self.writer.finish().lines
        final = LineWriter(self.body.kernel.id, "cpp")
        with origin(*lines[0].origins):
            final.line(f'extern "C" {"int" if self.can_fail else "void"} KERNEL({declared}) {{')
        for line in lines[1:]:
            with origin(*line.origins):
                final.line(line.text)
        order = sorted(parameters.names.items(), key=lambda item: (item[1][0], int(item[1].strip("inout"))))
        return Function(
            final.finish(),
            tuple((buffer, buffer in parameters.written) for buffer, _ in order),
            tuple(sorted(parameters.sizes, key=str)),
            tuple(self.values.errors),
            self.mode,
        )

    def _line(self, text: str) -> None:
        with origin(*self.body.kernel.ids):
            self.writer.line(text)

    # Loops.

    def _for(self, axis: Axis, pragma: str = "", joined: bool = False) -> _For:
        size = self.values.index(axis.size)
        return _For(axis.symbol.name, "0", size, 1, frozenset((axis.symbol,)), pragma, joined)

    def _blocks(self, axis: Axis, width: int, pragma: str = "", joined: bool = False) -> _For:
        return _For(f"{axis.symbol}_start", "0", self.values.index(axis.size), width, frozenset(), pragma, joined)

    def _in_block(self, axis: Axis, width: int, pragma: str = "") -> _For:
        start = f"{axis.symbol}_start"
        size = self.values.index(axis.size)
        whole = axis.size.is_Integer and axis.size % width == 0
        stop = f"{start} + {width}" if whole else f"index_min({start} + {width}, {size})"
        return _For(axis.symbol.name, start, stop, 1, frozenset((axis.symbol,)), pragma)

    def _nest(
        self,
        loops: list[_For],
        bound: frozenset[sympy.Symbol],
        level: int,
        roots: Iterable[Expr],
        inside: Callable[[], None],
    ) -> None:
        """Open `loops`; inside each, first compute what does not change in the loops below it."""
        if not loops:
            inside()
            return
        first, *rest = loops
        bound |= first.axes
        if first.pragma:
            self._line(first.pragma)
        with origin(*self.body.kernel.ids):
            step_text = f"++{first.variable}" if first.step == 1 else f"{first.variable} += {first.step}"
            head = f"for (long {first.variable} = {first.start}; {first.variable} < {first.stop}; {step_text}) {{"
            self.writer.line(head)
        with self.writer.indented(), self.values.scope():
            if rest and not first.joined:
                self._hoist(roots, bound, level)
            self._nest(rest, bound, level, roots, inside)
        self._line("}")

    def _hoist(self, roots: Iterable[Expr], bound: frozenset[sympy.Symbol], level: int) -> None:
        """Compute the values that depend on the axes of the open loops alone."""
        for value in always_evaluated(roots):
            known = self.body.level[value] <= level and not isinstance(value, (Const, Reduced))
            if known and (self.body.symbols[value] & self.axes) <= bound:
                self.values.value(value)

    def _simd(self, accumulators: Iterable[Accumulator] = (), writes: Iterable[Write] = ()) -> str:
        """The pragma of the vector loop; none where neighbours may meet in one element or order matters."""
        accumulators = list(accumulators)
        if any(a.positional for a in accumulators):
            return ""
        assert self.vector is not None
        if any(not apart(write, self.vector) for write in writes):
            return ""
        clauses = [clause for a in accumulators for clause in a.clauses]
        if self.can_fail:
            clauses.append("reduction(|:bad)")
        return " ".join(["#pragma omp simd", *clauses])

    # points

    def _points(self) -> None:
        (only,) = self.body.passes or (Pass((), (), ()),)
        roots = only.once_roots
        vector = self.vector
        if vector is None:
            self._store(only.once)
            return
        safe = [axis for axis in self.outer if all(apart(write, axis) for write in only.once)]
        shared = [axis for axis in self.outer if axis in safe and axis is not vector]
        ordered = [axis for axis in self.outer if axis not in safe and axis is not vector]
        simd = self._simd(writes=only.once)
        if not shared and not ordered and vector in safe:
            parallel = self._parallel([vector])
            pragma = parallel.replace("parallel for", "parallel for simd") if parallel else simd
            loops = [self._for(vector, pragma)]
        elif vector in safe and self._hint(shared) < PARALLEL_POINTS and self._parallel([vector]):
            chunk = CHUNK if not ordered else max(64, -(-self._hint([vector]) // PARALLEL_POINTS // 16) * 16)
            loops = [self._for(axis, joined=True) for axis in shared] + [self._blocks(vector, chunk)]
            loops[0] = self._shared(loops[0], [*shared, vector], len(loops))
            loops += [*map(self._for, ordered), self._in_block(vector, chunk, simd)]
        else:
            loops = [self._for(axis, joined=axis is not shared[-1]) for axis in shared]
            if loops and (pragma := self._parallel(shared)):
                loops[0] = self._shared(loops[0], shared, len(loops))
            else:
                loops = [self._for(axis) for axis in shared]
            loops += [*map(self._for, ordered), self._for(vector, simd)]
        self._hoist(roots, frozenset(), 0)
        self._nest(loops, frozenset(), 0, roots, lambda: self._store(only.once))

    def _shared(self, loop: _For, axes: list[Axis], count: int) -> _For:
        pragma = self._parallel(axes, f" collapse({count})" if count > 1 else "")
        return _For(loop.variable, loop.start, loop.stop, loop.step, loop.axes, pragma, loop.joined)

    def _store(self, writes: Iterable[Write]) -> None:
        """Compute every value first and store then: a store may overwrite what another value reads."""
        texts = [self._rooted(write) for write in writes]
        for write, text in zip(writes, texts, strict=True):
            self.values.write(write, text)

    def _rooted(self, write: Write) -> str:
        for _, index in write.indirect:
            self.values.value(index)
        return self.values.value(write.value)

    # rows

    def _rows(self) -> None:
        loops = [self._for(axis, joined=axis is not self.outer[-1]) for axis in self.outer]
        if loops and self._parallel(self.outer):
            loops[0] = self._shared(loops[0], list(self.outer), len(loops))
        else:
            loops = [self._for(axis) for axis in self.outer]
        roots = [root for p in self.body.passes for root in (*p.once_roots, *p.sweep_roots)]
        self._hoist(roots, frozenset(), 0)
        self._nest(loops, frozenset(), 0, roots, self._row)

    def _row(self) -> None:
        bound = frozenset(axis.symbol for axis in self.outer)
        self._keep_rows()
        for number, current in enumerate(self.body.passes):
            self._hoist((*current.once_roots, *current.sweep_roots), bound, number)
            self._store(current.once)
            if current.reductions or current.writes:
                self._sweep(number, current, bound)

    def _keep_rows(self) -> None:
        """Declare arrays for values that more than one pass needs."""
        size = sympy.Mul(*(axis.size for axis in self.inner))
        if not size.is_Integer or size > KEPT_ELEMENTS:
            return
        for value in kept_between_passes(self.body, KEEP_COST):
            name = self.values.fresh("row")
            self.kept[value] = name
            with origin(*self.values.causes(value)):
                self.writer.line(f"{CPP_TYPES[value.dtype]} {name}[{size}];")

    def _sweep(self, number: int, current: Pass, bound: frozenset[sympy.Symbol], chunk: str = "") -> list[Accumulator]:
        """One pass over the inner axes; `chunk` names the variables of a part of it that a thread runs."""
        vector = self.inner[-1]
        length = vector.size
        single = len(self.inner) == 1 and not chunk and length.is_Integer and length <= BLOCK
        accumulators = [
            Accumulator(reduce, self.values.fresh("acc"), wide=not single) for reduce in current.reductions
        ]
        for a in accumulators:
            self._declare(a)
        runs = any(a.in_runs for a in accumulators)
        loops = [self._for(axis) for axis in self.inner[:-1]]
        if chunk:
            loops.append(_For(f"{vector.symbol}_start", f"{chunk}_start", f"{chunk}_stop", BLOCK))
            stop = f"index_min({vector.symbol}_start + {BLOCK}, {chunk}_stop)"
            last = _For(vector.symbol.name, f"{vector.symbol}_start", stop, 1, frozenset((vector.symbol,)))
        elif runs and not (length.is_Integer and length <= BLOCK):
            loops.append(self._blocks(vector, BLOCK))
            last = self._in_block(vector, BLOCK)
        else:
            last = self._for(vector)
        last = _For(last.variable, last.start, last.stop, 1, last.axes, self._simd(accumulators, current.writes))

        def inside() -> None:
            self._reload(number)
            for a in accumulators:
                text = self.values.value(a.reduce.value)
                with origin(*self.values.causes(a.reduce.result)):
                    for line in a.step(text, self._position()):
                        self.writer.line(line)
            self._save(number, current)
            self._store(current.writes)

        def run() -> None:
            for a in accumulators:
                if a.in_runs:
                    self._declare(a, run=True)
            self._nest([last], bound | {axis.symbol for axis in self.inner[:-1]}, number, current.sweep_roots, inside)
            for a in accumulators:
                if a.in_runs:
                    with origin(*self.values.causes(a.reduce.result)):
                        sign = "+" if a.combine == "sum" else "*"
                        self.writer.line(f"{a.name} {sign}= {a.run_name};")

        self._nest(loops, bound, number, current.sweep_roots, run)
        if not chunk:
            for a in accumulators:
                self.values.define(a.reduce.result, a.result())
        return accumulators

    def _declare(self, a: Accumulator, run: bool = False) -> None:
        with origin(*self.values.causes(a.reduce.result)):
            for type_name, name, start in a.variables(run):
                self.writer.line(f"{type_name} {name} = {start};")

    def _position(self) -> str:
        """The linear position of a point in the sweep."""
        position = sympy.S.Zero
        for axis in self.inner:
            position = position * axis.size + axis.symbol
        return self.values.index(sympy.expand(position))

    def _reload(self, number: int) -> None:
        for value, name in self.kept.items():
            needed = set(walk(*self.body.passes[number].sweep_roots))
            if value in needed and self._first_pass(value) < number:
                self.values.define(value, f"{name}[{self._position()}]")

    def _save(self, number: int, current: Pass) -> None:
        for value, name in self.kept.items():
            if self._first_pass(value) == number:
                text = self.values.value(value)
                with origin(*self.values.causes(value)):
                    self.writer.line(f"{name}[{self._position()}] = {text};")

    def _first_pass(self, value: Expr) -> int:
        return next(n for n, p in enumerate(self.body.passes) if value in set(walk(*p.sweep_roots)))

    # split

    def _split(self) -> None:
        roots = [root for p in self.body.passes for root in (*p.once_roots, *p.sweep_roots)]
        self._hoist(roots, frozenset(), 0)
        self._nest([self._for(axis) for axis in self.outer], frozenset(), 0, roots, self._split_point)

    def _split_point(self) -> None:
        bound = frozenset(axis.symbol for axis in self.outer)
        vector = self.inner[-1]
        size = self.values.index(vector.size, within=PRODUCT)
        for number, current in enumerate(self.body.passes):
            self._hoist((*current.once_roots, *current.sweep_roots), bound, number)
            self._store(current.once)
            if not (current.reductions or current.writes):
                continue
            self._split_sweep(number, current, bound, vector, size)

    def _split_sweep(
        self, number: int, current: Pass, bound: frozenset[sympy.Symbol], vector: Axis, size: str
    ) -> None:
        chunks, width = self._chunks(vector)
        joined = [Accumulator(reduce, self.values.fresh("total"), wide=True) for reduce in current.reductions]
        for a in joined:
            self._declare(a)
            with origin(*self.values.causes(a.reduce.result)):
                for type_name, name, _ in a.variables():
                    self.writer.line(f"{type_name} {name}_of[{CHUNKS}];")
        self._line(self._parallel(self.inner) or "// too little work for threads")
        self._line(f"for (long chunk = 0; chunk < {chunks}; ++chunk) {{")
        with self.writer.indented(), self.values.scope():
            self._line(f"long chunk_start = chunk * {width};")
            self._line(f"long chunk_stop = index_min(chunk_start + {width}, {size});")
            parts = self._sweep(number, current, bound, "chunk")
            for a, part in zip(joined, parts, strict=True):
                with origin(*self.values.causes(a.reduce.result)):
                    for (_, name, _), (_, mine, _) in zip(a.variables(), part.variables(), strict=True):
                        self.writer.line(f"{name}_of[chunk] = {mine};")
        self._line("}")
        if joined:
            self._line(f"for (long chunk = 0; chunk < {chunks}; ++chunk) {{")
            with self.writer.indented():
                for a in joined:
                    with origin(*self.values.causes(a.reduce.result)):
                        for line in a.join(f"{a.name}_of[chunk]"):
                            self.writer.line(line)
            self._line("}")
        for a in joined:
            self.values.define(a.reduce.result, a.result())

    def _chunks(self, axis: Axis) -> tuple[str, str]:
        """The number of chunks and their width, as texts: CHUNK elements, more where there would be over CHUNKS."""
        around = self._hint(self.inner[:-1])
        least = max(1, CHUNK // max(1, around))
        if axis.size.is_Integer:
            width = max(least, -(-int(axis.size) // CHUNKS))
            return str(-(-int(axis.size) // width)), str(width)
        size = self.values.index(axis.size, within=PRODUCT)
        self._line(f"long width = index_max({least}, ({size} + {CHUNKS - 1}) / {CHUNKS});")
        self._line(f"long chunks = ({size} + width - 1) / width;")
        return "chunks", "width"

    # columns

    def _columns(self) -> None:
        vector = self.outer[-1]
        others = list(self.outer[:-1])
        loops = [self._for(axis, joined=True) for axis in others] + [self._blocks(vector, COLUMNS)]
        if self._parallel(self.outer):
            loops[0] = self._shared(loops[0], list(self.outer), len(loops))
        else:
            loops = [*map(self._for, others), self._blocks(vector, COLUMNS)]
        roots = [root for p in self.body.passes for root in (*p.once_roots, *p.sweep_roots)]
        self._hoist(roots, frozenset(), 0)
        self._nest(loops, frozenset(), 0, roots, self._column_block)

    def _column_block(self) -> None:
        bound = frozenset(axis.symbol for axis in self.outer[:-1])
        self._hoist([root for p in self.body.passes for root in (*p.once_roots, *p.sweep_roots)], bound, 0)
        for number, current in enumerate(self.body.passes):
            self._column_once(number, current, bound)
            if current.reductions or current.writes:
                self._column_sweep(current, bound)

    @property
    def _lane(self) -> str:
        return f"[{self.outer[-1].symbol} - {self.outer[-1].symbol}_start]"

    def _column_once(self, number: int, current: Pass, bound: frozenset[sympy.Symbol]) -> None:
        """Store what is known at each outer point, and put what the sweep takes from there in arrays."""
        edges = {child: None for value in self.body.in_sweep(number) for child in children(value)}
        edges |= {root: None for root in current.sweep_roots}
        arrays = {value: self.values.fresh("col") for value in edges if self._worth_array(value)}
        for value, name in arrays.items():
            self._array(value, CPP_TYPES[value.dtype], name)
        if not (arrays or current.once):
            return

        def inside() -> None:
            self.values.names |= self.lanes
            for value, name in arrays.items():
                text = self.values.value(value)
                with origin(*self.values.causes(value)):
                    self.writer.line(f"{name}{self._lane} = {text};")
            self._store(current.once)

        loop = self._in_block(self.outer[-1], COLUMNS, self._simd(writes=current.once))
        self._nest([loop], bound, 0, (*current.once_roots, *arrays), inside)
        self.lanes |= {value: name + self._lane for value, name in arrays.items()}

    def _worth_array(self, value: Expr) -> bool:
        """Whether a sweep should take a value that is the same at all its points from an array."""
        if self.body.varies_inside(value) or value in self.lanes or value in self.values.names:
            return False
        return self.body.level[value] > 0 or sum(map(flops, walk(value))) > 1

    def _array(self, value: Expr, type_name: str, name: str) -> None:
        with origin(*self.values.causes(value)):
            self.writer.line(f"{type_name} {name}[{COLUMNS}];")

    def _column_sweep(self, current: Pass, bound: frozenset[sympy.Symbol]) -> None:
        accumulators = [Accumulator(reduce, self.values.fresh("acc")) for reduce in current.reductions]
        for a in accumulators:
            for type_name, name, start in a.variables():
                self._array(a.reduce.result, type_name, name)
                with origin(*self.values.causes(a.reduce.result)):
                    self.writer.line(f"for (int lane = 0; lane < {COLUMNS}; ++lane) {name}[lane] = {start};")

        def inside() -> None:
            self.values.names |= self.lanes
            for a in accumulators:
                text = self.values.value(a.reduce.value)
                with origin(*self.values.causes(a.reduce.result)):
                    for line in a.step(text, self._position(), self._lane):
                        self.writer.line(line)
            self._store(current.writes)

        simd = self._simd(writes=current.writes)
        loops = [*map(self._for, self.inner), self._in_block(self.outer[-1], COLUMNS, simd)]
        self._nest(loops, bound, 0, current.sweep_roots, inside)
        for a in accumulators:
            result = a.result(self._lane)
            self.lanes[a.reduce.result] = f"({result})" if a.marks_nan else result


def step(index: Size, symbol: sympy.Symbol) -> Size | None:
    """How far an index moves when `symbol` grows by one; None where that is not the same everywhere."""
    if symbol not in index.free_symbols:
        return sympy.S.Zero
    moved = sympy.S.Zero
    for term in sympy.Add.make_args(index):
        if symbol in term.free_symbols:
            factor = term / symbol
            if symbol in factor.free_symbols:
                return None
            moved += factor
    return moved


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
