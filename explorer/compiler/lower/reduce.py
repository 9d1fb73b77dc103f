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

aten = torch.ops.aten


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


def _rule(combine: Combine, about: str, *, of_bools: bool = False, position: bool = False) -> Any:
    """A rule for reductions that take dims and keepdim. They compute in the dtype of the result: `of_bools`, in bool
    (any of uint8 is uint8); for a `position`, in that of the elements."""

    def lower_reduction(
        lower: Lowering, out: torch.Tensor, x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: object = None
    ) -> Tensor:
        value = torch.bool if of_bools else x.dtype if position else out.dtype
        result = torch.int64 if position else value
        over, stride = reduced_dims(x, dims), strides(out)
        found = reduction(lower, x, over, combine, keepdim, value=value, result=result, stride=stride)
        return found if out.dtype == result else convert(lower, out, found)

    lower_reduction.__doc__ = about
    return lower_reduction


_TRUE = "Whether {} of the elements along some dimensions are not 0."
_FIRST = "The first position of the extreme along a dimension ({})."
LOWERINGS.rule(aten.sum.dim_IntList)(_rule("sum", "The sum over some dimensions."))
LOWERINGS.rule(aten.amax.default)(_rule("max", "The max over some dimensions."))
LOWERINGS.rule(aten.amin.default)(_rule("min", "The min over some dimensions."))
LOWERINGS.rule(aten.prod.default, aten.prod.dim_int)(_rule("prod", "The product over some dimensions, or all."))
LOWERINGS.rule(aten.any.default, aten.any.dim, aten.any.dims)(_rule("any", _TRUE.format("any"), of_bools=True))
LOWERINGS.rule(aten.all.default, aten.all.dim, aten.all.dims)(_rule("all", _TRUE.format("all"), of_bools=True))
LOWERINGS.rule(aten.argmax.default)(_rule("argmax", _FIRST.format("argmax"), position=True))
LOWERINGS.rule(aten.argmin.default)(_rule("argmin", _FIRST.format("argmin"), position=True))
