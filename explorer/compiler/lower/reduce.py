"""Reductions: one loop each over the kept dimensions, with the reduced ones inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering
from explorer.compiler.lower.dtypes import cast
from explorer.compiler.lower.indexing import strides
from explorer.compiler.lower.pointwise import convert
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Tensor
from explorer.core.reasons import Why
from explorer.ir.index import ONE, Point
from explorer.ir.loops import Combine, Expr, Layout

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


def _direct(combine: Combine) -> Any:
    """A rule for reductions that take dims and keepdim and whose result has the dtype that they compute in."""

    def lower_reduction(
        lower: Lowering, out: torch.Tensor, x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Tensor:
        over = reduced_dims(x, dims)
        return reduction(lower, x, over, combine, keepdim, value=out.dtype, stride=strides(out))

    lower_reduction.__doc__ = f"The {combine} over some dimensions."
    return lower_reduction


LOWERINGS.rule(aten.sum.dim_IntList)(_direct("sum"))
LOWERINGS.rule(aten.amax.default)(_direct("max"))
LOWERINGS.rule(aten.amin.default)(_direct("min"))
LOWERINGS.rule(aten.prod.dim_int)(_direct("prod"))


@LOWERINGS.rule(aten.prod.default)
def prod(lower: Lowering, out: torch.Tensor, x: Tensor, *, dtype: Any = None) -> Tensor:
    """The product of all elements."""
    return reduction(lower, x, reduced_dims(x, None), "prod", False, value=out.dtype)


def _truth(combine: Combine) -> Any:
    """A rule for any and all: elements are taken as bools (the result of uint8 is uint8)."""

    def lower_truth(lower: Lowering, out: torch.Tensor, x: Tensor, dims: Any = None, keepdim: bool = False) -> Tensor:
        found = reduction(lower, x, reduced_dims(x, dims), combine, keepdim, value=torch.bool, stride=strides(out))
        return found if out.dtype == torch.bool else convert(lower, out, found)

    lower_truth.__doc__ = f"Whether {combine} of the elements along some dimensions are not 0."
    return lower_truth


LOWERINGS.rule(aten.any.default, aten.any.dim, aten.any.dims)(_truth("any"))
LOWERINGS.rule(aten.all.default, aten.all.dim, aten.all.dims)(_truth("all"))


def _position(combine: Combine) -> Any:
    """A rule for argmax and argmin: without a dimension, the position in the flattened tensor."""

    def lower_position(
        lower: Lowering, out: torch.Tensor, x: Tensor, dim: int | None = None, keepdim: bool = False
    ) -> Tensor:
        return reduction(
            lower, x, reduced_dims(x, dim), combine, keepdim, value=x.dtype, result=torch.int64, stride=strides(out)
        )

    lower_position.__doc__ = f"The first position of the extreme along a dimension ({combine})."
    return lower_position


LOWERINGS.rule(aten.argmax.default)(_position("argmax"))
LOWERINGS.rule(aten.argmin.default)(_position("argmin"))
