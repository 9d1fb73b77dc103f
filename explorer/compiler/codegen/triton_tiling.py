"""How a kernel is cut into blocks: which program computes what, in tiles of which shape, with how many warps.

Inductor: codegen/simd.py (select_tiling) and runtime/triton_heuristics.py (pointwise, reduction, persistent_reduction).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import sympy

from explorer.compiler.codegen.kernel import KernelBody
from explorer.core.text import count
from explorer.ir.index import hint, points, step
from explorer.ir.loops import Axis, Load, Size, walk
from explorer.ir.program import BlockSize, LoopRole, Target

Kind = Literal["pointwise", "persistent", "looped", "split", "serial"]

PERSISTENT = 4096
"""The longest row that one program holds in registers, whatever the kernel does with it."""

REGISTERS = 65536
"""Elements of rows that a program of 16 warps can hold. A row that a kernel sweeps more than once is held up to there:
one softmax took 0.5 to 0.8 of the time of one that reads its row again (H200, rows of 16,384 to 50,257)."""

SPLIT_ROW = 8192
"""The shortest row worth cutting among several programs."""

WARP = 32
"""The smallest block: with fewer points than a warp has threads, several threads would share one."""

SERIAL = "one program does every point in turn, as there is no atomic instruction for the update"

_PROCESSORS = {("cuda", "80"): 108, ("cuda", "90"): 132, ("hip", "gfx942"): 304}


@dataclass(frozen=True)
class Dim:
    """One direction of a tile: the linear index "<name>index" over `axes`, in blocks of "<NAME>BLOCK"."""

    name: Literal["x", "y", "r"]
    role: LoopRole
    axes: tuple[Axis, ...]
    block: int

    @property
    def numel(self) -> Size:
        return points(self.axes)

    @cached_property
    def index(self) -> sympy.Symbol:
        return sympy.Symbol(f"{self.name}index", integer=True, nonnegative=True)

    @property
    def parameter(self) -> str:
        return f"{self.name.upper()}BLOCK"

    @property
    def symbols(self) -> frozenset[sympy.Symbol]:
        return frozenset(axis.symbol for axis in self.axes)


@dataclass(frozen=True)
class Tiling:
    """`kind`:
    "pointwise"   each program computes one tile;
    "persistent"  each program holds whole rows, x by r, and reduces them in registers;
    "looped"      each program walks its rows in steps of RBLOCK, once for each pass of the kernel;
    "split"       rows are cut among `splits` programs; each pass is a kernel of its own that leaves partial results;
    "serial"      one program does every point in turn (an update that has no atomic instruction).

    `why` is in a person's words, with the sizes that decided.
    """

    kind: Kind
    dims: tuple[Dim, ...]
    warps: int
    why: str
    splits: int = 1

    @property
    def blocks(self) -> tuple[BlockSize, ...]:
        tile = (BlockSize(dim.parameter, dim.block, dim.role) for dim in self.dims)
        return (*tile, BlockSize("SPLITS", self.splits, "split"))


def tiling(body: KernelBody, hints: Mapping[sympy.Symbol, int], target: Target, serial: bool) -> Tiling:
    """Choose by sizes (size hints where they are symbolic) and by the axis along which memory is contiguous."""
    processors = _PROCESSORS.get((target.kind, target.arch), 108)
    kernel = body.kernel
    sweeps = any(current.reductions or current.writes for current in body.passes)
    per_row = any(current.once for current in body.passes) or any(current.reductions for current in body.passes)
    if not sweeps or not per_row:
        axes = kernel.outer + kernel.inner if sweeps else kernel.outer
        if serial:
            return Tiling("serial", (Dim("x", "row", axes, 1),), 1, SERIAL)
        return _pointwise(body, axes, hints, processors)
    rows, length = (hint(points(axes), hints) for axes in (kernel.outer, kernel.inner))
    if serial:
        return Tiling("serial", (Dim("x", "row", kernel.outer, 1), Dim("r", "reduced", kernel.inner, 1024)), 4, SERIAL)
    across = _contiguous_across(body)
    known = all(axis.size == int(axis.size) if sympy.sympify(axis.size).is_number else False for axis in kernel.inner)
    if known and (length <= 256 if across else _is_persistent(body, rows, length, processors)):
        r = power(length)
        x = min(power(rows), max(1, (32 if across else 8), 1024 // r) if across else max(1, 1024 // r))
        if not across:
            while x > 1 and rows < x * processors:
                x //= 2
        warps = _warps(x * r, per_warp=512)
        why = f"a program holds {count(x, 'whole row')} of {length} in registers, and reads each once"
        return Tiling(
            "persistent", (Dim("x", "row", kernel.outer, x), Dim("r", "reduced", kernel.inner, r)), warps, why
        )
    x = min(power(rows), 32 if across else 1)
    r = min(power(length), 64 if across else 2048)
    programs = -(-rows // x)
    splits = 1
    if length >= SPLIT_ROW or (across and length >= 512):
        while programs * splits < 2 * processors and length // (2 * splits) >= 2 * r and splits < 1024:
            splits *= 2
    dims = (Dim("x", "row", kernel.outer, x), Dim("r", "reduced", kernel.inner, r))
    warps = _warps(x * r, per_warp=256 if across else 128)
    long = str(length) if known else "any length"
    why = f"a program goes over {count(x, 'row')} in steps of {r}, as one of {long} is not held in registers"
    if splits > 1:
        why += f"; {splits} programs share it, as {programs} are fewer than two for each of {processors} processors"
    return Tiling("split" if splits > 1 else "looped", dims, warps, why, splits)


def _is_persistent(body: KernelBody, rows: int, length: int, processors: int) -> bool:
    """Whether a program holds whole rows of this length. Long ones keep a processor to themselves, so there must be
    rows for all, and most of the tile must be in use."""
    if length <= PERSISTENT or rows * length <= 4 * PERSISTENT:
        return True
    sweeps = [current.sweep_roots for current in body.passes if current.reductions or current.writes]
    if len(sweeps) < 2 or rows < processors or (length > 4 * PERSISTENT and 2 * power(length) > 3 * length):
        return False
    values = walk(*(root for roots in sweeps for root in roots))
    loads = sum(isinstance(value, Load) and body.varies_inside(value) for value in values)
    return power(length) * loads <= REGISTERS


def power(n: int) -> int:
    """The least power of two that is not below `n`, at least 1."""
    return 1 << max(0, n - 1).bit_length()


def _pointwise(body: KernelBody, axes: tuple[Axis, ...], hints: Mapping[sympy.Symbol, int], processors: int) -> Tiling:
    if (cut := _cut(body, axes, hints)) is not None:
        why = "tiles of 32 by 32, as an access is contiguous along another axis than the last"
        return Tiling("pointwise", (Dim("y", "row", axes[:cut], 32), Dim("x", "column", axes[cut:], 32)), 4, why)
    numel = hint(points(axes), hints)
    block = 1024
    while block > 128 and numel < block * processors:
        block //= 2
    block = min(block, max(WARP, power(numel)))
    why = f"{count(numel, 'point')} in blocks of {block}: 1024, or down to 128 where {processors} processors would not "
    why += f"each have one, and no more than all points need, down to {WARP}"
    return Tiling("pointwise", (Dim("x", "row", axes, block),), _warps(block, per_warp=256), why)


def _cut(body: KernelBody, axes: tuple[Axis, ...], hints: Mapping[sympy.Symbol, int]) -> int | None:
    """Where to cut `axes` in two because an access is contiguous along an earlier axis than the last one."""
    if len(axes) < 2 or hint(axes[-1].size, hints) < 16:
        return None
    for index in accesses(body):
        if step(index, axes[-1].symbol) in (0, 1):
            continue
        for position, axis in enumerate(axes[:-1]):
            if step(index, axis.symbol) == 1 and hint(axis.size, hints) >= 16:
                return position + 1
    return None


def _contiguous_across(body: KernelBody) -> bool:
    """Whether neighbors in memory are neighboring rows, not neighbors in a row, for most accesses that vary in both
    directions (the others are small)."""
    outer, inner = body.kernel.outer, body.kernel.inner
    if not outer:
        return False
    votes = 0
    for index in accesses(body):
        along, across = step(index, inner[-1].symbol), step(index, outer[-1].symbol)
        if along != 0 and across != 0:
            votes += (across == 1) - (along == 1)
    return votes > 0


def accesses(body: KernelBody) -> Iterator[Size]:
    """The index of every load and store of a kernel."""
    yield from (value.index for value in body.values if isinstance(value, Load))
    yield from (write.loop.index for write in body.writes)


def _warps(elements: int, per_warp: int) -> int:
    return min(16, max(1, power(elements // per_warp)))
