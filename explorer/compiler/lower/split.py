"""Splitting an axis where a view takes its index apart: [0, 768) read as i // 64 and i % 64 becomes [0, 12) x [0, 64).

Inductor: codegen/simd.py (SIMDKernel.split_and_set_ranges), which does it when it makes code.
"""

from __future__ import annotations

from collections.abc import Iterable

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from explorer.compiler.lower.indexing import Indexing
from explorer.ir.loops import Axis, Expr, IndexValue, Load, Size, walk


def split_axes(axes: Iterable[Axis], value: Expr, indexing: Indexing) -> dict[sympy.Symbol, tuple[Axis, ...]]:
    """The axes to take in place of an axis (outermost first), for each that the indices in `value` take apart.

    Only where all its parts fit together: boundaries 8 and 64 do, boundaries 8 and 12 do not.
    """
    cuts: dict[sympy.Symbol, set[int]] = {}
    for expr in walk(value):
        if isinstance(expr, (Load, IndexValue)):
            _find_cuts(expr.index, cuts)
    if not cuts:
        return {}
    found: dict[sympy.Symbol, tuple[Axis, ...]] = {}
    for axis in axes:
        if axis.symbol in cuts and axis.size.is_Integer:
            sizes = _parts(int(axis.size), cuts[axis.symbol])
            if len(sizes) > 1:
                found[axis.symbol] = tuple(
                    indexing.axis(axis.symbol.name[0], (axis.symbol, place), sympy.Integer(n))
                    for place, n in enumerate(sizes)
                )
    return found


def joined(parts: tuple[Axis, ...]) -> Size:
    """The index of the axis that was split into `parts`."""
    total: Size = sympy.S.Zero
    for part in parts:
        total = total * part.size + part.symbol
    return sympy.expand(total)


def _find_cuts(index: Size, cuts: dict[sympy.Symbol, set[int]]) -> None:
    for part in index.atoms(FloorDiv, ModularIndexing):
        base, divisor = part.args[:2]
        if base.is_Symbol and all(number.is_Integer for number in part.args[1:]):
            of_base = cuts.setdefault(base, set())
            of_base.add(int(divisor))
            if isinstance(part, ModularIndexing):
                of_base.add(int(divisor) * int(part.args[2]))


def _parts(size: int, cuts: set[int]) -> list[int]:
    """Sizes of the parts of an axis of `size` cut at strides `cuts`, outermost first; [size] where they do not fit."""
    strides = [1, *sorted(cut for cut in cuts if 1 < cut < size), size]
    if any(outer % inner for inner, outer in zip(strides, strides[1:], strict=False)):
        return [size]
    return [outer // inner for inner, outer in zip(strides, strides[1:], strict=False)][::-1]
