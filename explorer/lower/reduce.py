"""Reductions: one loop each over the kept dimensions, with the reduced ones inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from explorer.core.reasons import Why
from explorer.ir.loops import Expr, Layout
from explorer.ir.ops import Combine
from explorer.lower import reasons
from explorer.lower.builder import Lowering
from explorer.lower.dtypes import cast
from explorer.lower.indexing import ONE, Point, integers
from explorer.lower.table import LOWERINGS
from explorer.lower.tensors import Tensor

aten, prims = torch.ops.aten, torch.ops.prims


def reduced_dims(x: Tensor, dims: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that a reduction's argument names, in order; None and () name all."""
    if isinstance(dims, int):
        dims = (dims,)
    if not dims:
        return tuple(range(len(x.size)))
    return tuple(sorted({d % max(1, len(x.size)) for d in dims} & set(range(len(x.size)))))


def reduction(
    lower: Lowering,
    x: Tensor,
    dims: tuple[int, ...],
    combine: Combine,
    keepdim: bool,
    *,
    value: torch.dtype,
    result: torch.dtype | None = None,
    stride: Point | None = None,
) -> Tensor:
    """Reduce `x`, converted to `value`, over `dims` into a tensor of dtype `result` (by default `value`)."""
    kept = [d for d in range(len(x.size)) if d not in dims]
    size = tuple(ONE if d in dims else n for d, n in enumerate(x.size)) if keepdim else tuple(x.size[d] for d in kept)

    def body(outer: Point, inner: Point) -> Expr:
        inside, outside = iter(inner), iter(outer if not keepdim else [outer[d] for d in kept])
        point = tuple(next(inside) if d in dims else next(outside) for d in range(len(x.size)))
        return cast(x.at(point), x.dtype, value)

    layout = Layout(result or value, x.device, size, lower.dense(size, stride))
    over = tuple(x.size[d] for d in dims)
    buffer = lower.loop(layout, body, Why(reasons.REDUCTION, combine), reduced=over, combine=combine)
    return lower.stored(buffer)


@LOWERINGS.rule(aten.sum.default, aten.sum.dim_IntList)
def sum_dims(
    lower: Lowering, out: torch.Tensor, x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The sum over some dimensions; integers and bools sum to int64."""
    return reduction(
        lower, x, reduced_dims(x, dims), "sum", keepdim, value=out.dtype, stride=integers(out.stride())
    )
