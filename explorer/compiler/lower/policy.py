"""Which values go to memory and which are computed inside each reader.

Storing is not final: the fusion stage may put a loop and its readers into one kernel, and then the value never reaches
memory. Inductor: ir.py (StorageBox.mark_reuse, should_realize_on_reuse), by counts of bytes where that has thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering
from explorer.compiler.lower.tensors import Tensor
from explorer.ir.index import ZERO, Point
from explorer.ir.loops import Apply, Load, walk
from explorer.ir.scalar import OPS

HEAVY = 16
"""Operations for one element from which computing it twice costs more than storing it."""

HEAVY_BROADCAST = 8
"""The same for a value that is read at many points for one of its own (the reciprocal deviation of a row)."""

MOST_LOADS = 24
MOST_OPERATIONS = 160


@dataclass(frozen=True)
class Cost:
    """Of one element: operations, and loads that are not shared by many elements."""

    operations: int
    loads: int
    all_loads: int


def cost(lower: Lowering, tensor: Tensor) -> Cost:
    """What computing one element takes."""
    point = tuple(lower.indexing.axis("i", place, n).symbol if n != 1 else ZERO for place, n in enumerate(tensor.size))
    operations, loads, all_loads = 0, set(), 0
    elements = lower.weight(tensor.numel)
    for expr in walk(tensor.at(point)):
        if isinstance(expr, Apply):
            operations += OPS[expr.op].flops
        elif isinstance(expr, Load):
            all_loads += 1
            if 2 * lower.weight(lower.buffers[expr.buffer].layout.numel) >= elements:
                loads.add((expr.buffer, expr.index))
    return Cost(operations, len(loads), all_loads)


def realize(lower: Lowering, tensor: Tensor, readers: int) -> None:
    """Store a computed value where its `readers` would pay more for computing it themselves."""
    if tensor.base is not None or (readers < 2 and tensor.weight < MOST_LOADS) or tensor.in_memory():
        return
    found = cost(lower, tensor)
    if found.all_loads > MOST_LOADS or found.operations > MOST_OPERATIONS:
        lower.realize(tensor, reasons.LARGE, f"{found.operations} operations, {found.all_loads} loads")
    elif readers >= 2 and found.operations >= HEAVY:
        lower.realize(tensor, reasons.HEAVY_AND_REUSED, f"{found.operations} operations, {readers} readers")
    elif readers >= 2 and readers * found.loads > found.loads + 1 + readers:
        lower.realize(tensor, reasons.MANY_READERS, f"{found.loads} loads, {readers} readers")
    else:
        tensor.weight = max(1, found.all_loads)


def realize_broadcast(lower: Lowering, tensor: Tensor, size: Point) -> None:
    """Store a value that is costly and would be computed again for each element it is broadcast to."""
    if tensor.in_memory() or lower.weight(sympy.Mul(*size)) < 2 * lower.weight(tensor.numel):
        return
    found = cost(lower, tensor)
    if found.operations >= HEAVY_BROADCAST:
        lower.memory(tensor, reasons.HEAVY_AND_REUSED)


def realize_gathered(lower: Lowering, tensor: Tensor, size: Point) -> None:
    """Store a value that is costly and is read at as many positions from data as it has, or more."""
    if tensor.in_memory() or lower.weight(sympy.Mul(*size)) < lower.weight(tensor.numel):
        return
    if cost(lower, tensor).operations >= HEAVY:
        lower.memory(tensor, reasons.GATHERED)
