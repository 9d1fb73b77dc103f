"""Writing to tensors that already have memory: updated inputs at the end of a functional graph.

Inductor: ir.py, MutationLayout.
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering
from explorer.compiler.lower.dtypes import cast
from explorer.compiler.lower.indexing import Point
from explorer.compiler.lower.tensors import Tensor
from explorer.core.reasons import Why
from explorer.ir.loops import Expr, Load, walk


def write_back(lower: Lowering, target: Tensor, source: Tensor, alive: Iterable[Tensor]) -> Tensor:
    """Overwrite `target`, which is in memory, with `source`. What is `alive` and not yet computed, but reads the
    memory that is overwritten, is computed before."""
    assert target.place is not None
    overwritten, layout = target.place.buffer, target.place.layout
    compute_before(lower, {overwritten}, (tensor for tensor in alive if tensor is not source))
    if overwritten in source.reads and not _at_own_point(lower, target, source):
        safe = Tensor(source.dtype, source.device, source.size, source.at, source.reads, stride=source.stride)
        lower.realize(safe, reasons.MUTATION, f"it reads {overwritten} elsewhere than it is written")
        source = safe
    skipped = len(target.size) - len(source.size)

    def body(outer: Point, _: Point) -> Expr:
        point = tuple(i if n != 1 else n - 1 for i, n in zip(outer[skipped:], source.size, strict=True))
        return cast(source.at(point), source.dtype, layout.dtype)

    why = Why(reasons.MUTATION, f"the new content of {overwritten}")
    lower.loop(layout, body, why, alias_of=lower.root(overwritten))
    return target


def compute_before(lower: Lowering, overwritten: set[str], alive: Iterable[Tensor]) -> None:
    """Put in memory what is not yet computed and reads a buffer that is about to be overwritten; of a view, the value
    that it is a view of. Where no input is overwritten but what a call made, that is all that is not yet computed: it
    may have come to read the buffer since."""
    made_here = any(lower.buffers[name].kind in ("loop", "extern") for name in overwritten)
    for tensor in alive:
        if not tensor.in_memory() and (made_here or overwritten & tensor.reads):
            if tensor.base is not None:
                compute_before(lower, overwritten, [tensor.base])
            if not tensor.in_memory():
                lower.realize(tensor, reasons.MUTATION, "before the tensor is overwritten")


def _at_own_point(lower: Lowering, target: Tensor, source: Tensor) -> bool:
    """Whether each element of the source reads of the target's memory only the element that it will overwrite."""
    assert target.place is not None
    if source.size != target.size:
        return False
    point = tuple(lower.indexing.axis("i", d, n).symbol if n != 1 else n - 1 for d, n in enumerate(target.size))
    layout = target.place.layout
    own = lower.indexing.linear(point, layout.stride, layout.offset)
    loads = [expr for expr in walk(source.at(point)) if isinstance(expr, Load) and expr.buffer == target.place.buffer]
    return all(load.index == own and not load.indirect for load in loads)
