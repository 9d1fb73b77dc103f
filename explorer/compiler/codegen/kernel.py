"""A fused kernel as passes: what every code generator walks.

A generator decides on all loops first, as a tree with the kind and tile of each (`TiledLoop`); between the loops are
functions that write statements. `write_loops` writes the code of the tree, with what a language supplies for a loop.

Steps read one another's values, so their expressions join into one graph in which a reduction's result is a leaf.
A pass is one sweep over the inner axes; a value that needs a reduction's result belongs to a pass after it.
Inductor: codegen/simd.py, SIMDKernel, and the nodes' order from SIMDScheduling.generate_node_schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from explorer.core.origin import Origins, union
from explorer.ir.loops import Apply, Cast, Expr, IndexValue, Load, Loop, Size, children, rewrite, value_key, walk
from explorer.ir.program import TiledLoop
from explorer.ir.scalar import HALVES, OPS, computing_dtype
from explorer.ir.schedule import FusedKernel


@dataclass(frozen=True, slots=True, eq=False)
class Reduced(Expr):
    """The result of the kernel's reduction `loop`, known once its pass is over."""

    loop: str


@dataclass(frozen=True, slots=True)
class Reduce:
    """`value` is joined over a pass into `result`."""

    loop: Loop
    value: Expr
    result: Reduced


@dataclass(frozen=True, slots=True)
class Write:
    """`value` goes to the loop's buffer at each point: of the sweep, or once for each outer point."""

    loop: Loop
    value: Expr
    indirect: tuple[tuple[sympy.Symbol, Expr], ...]

    @property
    def roots(self) -> tuple[Expr, ...]:
        return (self.value, *(value for _, value in self.indirect))


@dataclass(frozen=True, slots=True)
class Pass:
    """`once` is written at each outer point before the sweep, `reductions` and `writes` take part in it.

    A pass with nothing in its sweep is the end of the kernel.
    """

    once: tuple[Write, ...]
    reductions: tuple[Reduce, ...]
    writes: tuple[Write, ...]

    @property
    def sweep_roots(self) -> tuple[Expr, ...]:
        return (*(r.value for r in self.reductions), *(root for write in self.writes for root in write.roots))

    @property
    def once_roots(self) -> tuple[Expr, ...]:
        return tuple(root for write in self.once for root in write.roots)

    @property
    def roots(self) -> tuple[Expr, ...]:
        return (*self.once_roots, *self.sweep_roots)


@dataclass(frozen=True)
class KernelBody:
    """The passes of a kernel. Equal values are one object; `origins` has the union over the equal ones.

    `symbols[value]` are the axes that a value depends on itself, not through a reduction's result; `level[value]` is
    the first pass in which it can be computed.
    """

    kernel: FusedKernel
    passes: tuple[Pass, ...]
    origins: Mapping[Expr, Origins]
    symbols: Mapping[Expr, frozenset[sympy.Symbol]]
    level: Mapping[Expr, int]

    def varies_inside(self, value: Expr) -> bool:
        """Whether the value differs between points of a sweep."""
        return not self.symbols[value].isdisjoint(axis.symbol for axis in self.kernel.inner)

    @property
    def values(self) -> Iterator[Expr]:
        """All values, operands first."""
        return walk(*(root for current in self.passes for root in current.roots))

    @property
    def writes(self) -> list[Write]:
        return [write for current in self.passes for write in (*current.once, *current.writes)]

    def in_sweep(self, current: Pass) -> list[Expr]:
        """The values that a sweep needs and that differ between its points, operands first."""
        return [value for value in walk(*current.sweep_roots) if self.varies_inside(value)]


def body(kernel: FusedKernel, storage: Callable[[str], str] = lambda buffer: buffer) -> KernelBody:
    """Arrange a kernel's steps into passes. `storage` names the memory that a buffer lives in: a store into memory that
    the kernel also reads (in-place reuse, a mutated input) is held back to the last pass that reads it."""
    values = _Values()
    steps: list[tuple[Loop, bool, Expr, tuple[tuple[sympy.Symbol, Expr], ...]]] = []
    for step in kernel.steps:
        loop = step.loop
        value = values.join(loop.value)
        indirect = tuple((symbol, values.join(index)) for symbol, index in loop.indirect)
        if loop.combine:
            value = values.reduced(loop, value)
        steps.append((loop, step.inner and not loop.combine, value, indirect))
        if loop.store == "set" and not loop.indirect:
            values.written(loop, value)

    reductions = [values.reductions[step.loop.id] for step in kernel.steps if step.loop.combine]
    writes = [
        (Write(loop, value, indirect), inner)
        for loop, inner, value, indirect in steps
        if loop.buffer.name not in kernel.internal
    ]
    last = max((values.level[r.result] for r in reductions), default=0)
    last = max(last, *(values.level[root] for write, _ in writes for root in write.roots), 0)
    readers = _last_reads(values, reductions, writes, storage)

    once: list[list[Write]] = [[] for _ in range(last + 2)]
    inside: list[list[Write]] = [[] for _ in range(last + 1)]
    for write, inner in writes:
        at = max(values.level[root] for root in write.roots)
        sweep, glue = readers.get(storage(write.loop.buffer.name), (-1, -1))
        if inner:
            inside[max(at, sweep, glue)].append(write)
        else:
            once[max(at, sweep + 1, glue)].append(write)
    passes = []
    for number in range(last + 2):
        here = tuple(r for r in reductions if values.level[r.result] == number + 1)
        sweep_writes = tuple(inside[number]) if number <= last else ()
        passes.append(Pass(tuple(once[number]), here, sweep_writes))
    while passes and not (passes[-1].once or passes[-1].reductions or passes[-1].writes):
        passes.pop()
    return KernelBody(kernel, tuple(passes), values.origins, values.symbols, values.level)


def _last_reads(
    values: _Values, reductions: Iterable[Reduce], writes: Iterable[tuple[Write, bool]], storage: Callable[[str], str]
) -> dict[str, tuple[int, int]]:
    """For each storage the last sweep, and the last point before a sweep, that reads it."""
    found: dict[str, tuple[int, int]] = {}

    def reads(root: Expr, sweep: int, glue: int) -> None:
        for value in walk(root):
            if isinstance(value, Load):
                memory = storage(value.buffer)
                old = found.get(memory, (-1, -1))
                found[memory] = (max(old[0], sweep), max(old[1], glue))

    for reduction in reductions:
        reads(reduction.value, values.level[reduction.result] - 1, -1)
    for write, inner in writes:
        at = max(values.level[root] for root in write.roots)
        for root in write.roots:
            reads(root, *((at, -1) if inner else (-1, at)))
    return found


Part = TiledLoop | Callable[[], None]
"""Of a kernel's code: a loop, or what writes statements."""


Printer = Callable[[TiledLoop, TiledLoop | None], AbstractContextManager[None]]
"""Of a language: writes the head of a loop that is directly inside another one, if any, and its end when left."""


def write_loops(parts: Iterable[Part], printer: Printer, around: TiledLoop | None = None) -> tuple[TiledLoop, ...]:
    """Write the code of a loop tree, and return the tree without what writes statements."""
    loops = []
    for part in parts:
        if isinstance(part, TiledLoop):
            with printer(part, around):
                loops.append(part.around(*write_loops(part.body, printer, part)))
        else:
            part()
    return tuple(loops)


def kept_between_passes(body: KernelBody, threshold: int) -> dict[Expr, int]:
    """Values that several sweeps need and that cost at least `threshold` to compute again, with the pass that computes
    each first: what a generator keeps a row of. A Reduced leaf costs nothing, a load 2."""
    kept: dict[Expr, int] = {}
    first: dict[Expr, int] = {}

    def below(value: Expr) -> tuple[Expr, ...]:
        return () if value in first and cost(value, body) >= threshold else children(value)

    for number, current in enumerate(body.passes):
        for value in walk(*current.sweep_roots, below=below):
            if value in first and body.varies_inside(value) and cost(value, body) >= threshold:
                kept[value] = first[value]
        for value in walk(*current.sweep_roots):
            if body.varies_inside(value):
                first.setdefault(value, number)
    return kept


def cost(root: Expr, body: KernelBody) -> int:
    """What computing a value inside a sweep costs, in scalar operations; what does not vary there is free."""
    total = 0
    for value in walk(root):
        if body.varies_inside(value):
            total += 2 if isinstance(value, Load) else flops(value)
    return total


def flops(value: Expr) -> int:
    """The floating-point operations counted for one evaluation of `value`, without its operands."""
    return OPS[value.op].flops if isinstance(value, Apply) else 0


def read_back(value: Expr, stored: torch.dtype) -> Expr:
    """`value` as a reader of a buffer of dtype `stored` sees it: rounded where the buffer holds a 16-bit float."""
    if isinstance(value, Cast) and value.to == stored:
        return value
    if stored in HALVES or computing_dtype(stored) != value.dtype:
        return Cast(computing_dtype(stored), value.origins, value, stored)
    return value


@dataclass
class _Values:
    """Joins the steps' expressions into one graph in which equal values are one object."""

    table: dict[tuple[Any, ...], Expr] = field(default_factory=dict)
    origins: dict[Expr, Origins] = field(default_factory=dict)
    symbols: dict[Expr, frozenset[sympy.Symbol]] = field(default_factory=dict)
    level: dict[Expr, int] = field(default_factory=dict)
    reductions: dict[str, Reduce] = field(default_factory=dict)
    buffers: dict[str, tuple[Size, Expr]] = field(default_factory=dict)

    def join(self, root: Expr) -> Expr:
        """`root` with reads of what this kernel wrote replaced by the values themselves."""
        return rewrite((root,), self._take)[0]

    def reduced(self, loop: Loop, value: Expr) -> Expr:
        dtype = torch.int64 if loop.combine in ("argmax", "argmin") else value.dtype
        result = Reduced(dtype, loop.origins, loop.id)
        self._enter(result, ("reduced", loop.id))
        self.level[result] = self.level[value] + 1
        self.reductions[loop.id] = Reduce(loop, value, result)
        return result

    def written(self, loop: Loop, value: Expr) -> None:
        seen = read_back(value, loop.buffer.layout.dtype)
        self.buffers[loop.buffer.name] = (loop.index, seen if seen is value else self._take(seen))

    def _take(self, value: Expr) -> Expr:
        if isinstance(value, Reduced):
            return value
        if isinstance(value, Load) and value.buffer in self.buffers and not value.indirect:
            index, written = self.buffers[value.buffer]
            assert index == value.index, f"{value.buffer} is read at {value.index} but written at {index}"
            return written
        return self._enter(value, value_key(value, tuple(map(id, children(value)))))

    def _enter(self, value: Expr, key: tuple[object, ...]) -> Expr:
        known = self.table.setdefault(key, value)
        self.origins[known] = union(self.origins.get(known, ()), value.origins)
        if known is value:
            below = children(value)
            indirect = {symbol for symbol, _ in value.indirect} if isinstance(value, Load) else set()
            index = value.index if isinstance(value, (Load, IndexValue)) else sympy.S.Zero
            own = frozenset(index.free_symbols - indirect)
            self.symbols[value] = own.union(*(self.symbols[child] for child in below))
            self.level[value] = max((self.level[child] for child in below), default=0)
        return known
