"""Reductions and the norms made of them: sums and extrema, in the precision that eager accumulates in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from explorer.compiler.autograd.decomps.table import DECOMPOSITIONS, Dims
from explorer.compiler.autograd.layouts import computing_dtype, in_layout_of, to

aten = torch.ops.aten


@DECOMPOSITIONS.rule(aten.sum.default)
def sum_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """sum(x) -> sum(x, all dimensions)"""
    return aten.sum.dim_IntList(x, list(range(x.dim())), False, dtype=dtype)


@DECOMPOSITIONS.rule(aten.mean.default, aten.mean.dim)
def mean(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """mean(x) -> sum(x) / count"""
    if x.is_complex():
        return NotImplemented
    result = dtype or x.dtype
    compute = computing_dtype(result)
    dims = reduced_dims(x, dim)
    total = aten.sum.dim_IntList(to(x, compute), dims, keepdim)
    return to(total / count_of(x, dims), result)


@DECOMPOSITIONS.rule(aten.var_mean.correction)
def var_mean(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    """var_mean(x) -> (sum((x - mean)^2) / (count - correction), mean), in two passes as the deviation is small"""
    if x.is_complex():
        return NotImplemented
    dims = reduced_dims(x, dim)
    squares, average = moments(to(x, computing_dtype(x.dtype)), dims)
    count = count_of(x, dims)
    degrees = count - (1 if correction is None else correction) if count else 0
    found = [to(squares / at_least_zero(degrees), x.dtype), to(average, x.dtype)]
    return tuple(each if keepdim else aten.squeeze.dims(each, dims) for each in found)


LONG = 1 << 18
"""Elements from which the moments over several dimensions are taken in steps."""


def moments(x: Tensor, dims: list[int]) -> tuple[Tensor, Tensor]:
    """(sum((x - mean)^2), mean), with the dimensions kept.

    Both passes over many elements would read them from memory. Row by row the second finds them at hand: then the sum
    is that of the rows' own sums, and of the squared deviations of their means, times the length of a row.
    """
    last = x.dim() - 1
    count = count_of(x, dims)
    if len(dims) > 1 and last in dims and type(count) is int and count >= LONG and x.shape[last] >= 256:
        rest = [dim for dim in dims if dim != last]
        of_rows, means = moments(x, [last])
        between, average = moments(means, rest)
        return aten.sum.dim_IntList(of_rows, rest, True) + between * x.shape[last], average
    average = aten.sum.dim_IntList(x, dims, True) / count
    deviation = x - average
    return aten.sum.dim_IntList(deviation * deviation, dims, True), average


@DECOMPOSITIONS.rule(aten.var.correction)
def var(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    """var(x) -> var_mean(x)[0]"""
    if x.is_complex():
        return NotImplemented
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@DECOMPOSITIONS.rule(aten.native_group_norm.default)
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: Any, channels: Any, area: Any, groups: int, eps: float
) -> Any:
    """native_group_norm(x, w, b) -> ((x - mean) * rsqrt(var + eps) * w + b, mean, rstd), group by group"""
    if x.numel() == 0 or not (x.is_contiguous() or x.is_contiguous(memory_format=suggest_memory_format(x))):
        return NotImplemented  # eager refuses the latter
    compute = computing_dtype(x.dtype)
    grouped = to(x, compute).reshape(batch, groups, -1)
    spread, average = var_mean(grouped, [2], correction=0, keepdim=True)
    rstd = torch.rsqrt(spread + eps)
    made = ((grouped - average) * rstd).view(x.shape)
    per_channel = [1, channels] + [1] * (x.dim() - 2)
    if weight is not None:
        made = made * to(weight, compute).view(per_channel)
    if bias is not None:
        made = made + to(bias, compute).view(per_channel)
    kept = x.dtype if weight is None else weight.dtype
    return in_layout_of(x, to(made, x.dtype)), to(average.squeeze(2), kept), to(rstd.squeeze(2), kept)


@DECOMPOSITIONS.rule(aten.max.dim)
def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """max(x, dim) -> (amax(x, dim), argmax(x, dim))"""
    return extreme(aten.amax.default, aten.argmax.default, x, dim, keepdim)


@DECOMPOSITIONS.rule(aten.min.dim)
def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """min(x, dim) -> (amin(x, dim), argmin(x, dim))"""
    return extreme(aten.amin.default, aten.argmin.default, x, dim, keepdim)


def extreme(value: Any, position: Any, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), aten.full.default([], 0, dtype=torch.int64, device=x.device, pin_memory=False)
    return value(x, [dim], keepdim), position(comparable(x), dim, keepdim)


@DECOMPOSITIONS.rule(aten.max.default)
def max_all(x: Tensor) -> Tensor:
    """max(x) -> amax(x, all dimensions)"""
    return aten.amax.default(x, list(range(x.dim())))


@DECOMPOSITIONS.rule(aten.min.default)
def min_all(x: Tensor) -> Tensor:
    """min(x) -> amin(x, all dimensions)"""
    return aten.amin.default(x, list(range(x.dim())))


def comparable(x: Tensor) -> Tensor:
    """argmax and argmin take no booleans."""
    return to(x, torch.uint8) if x.dtype is torch.bool else x


def reduced_dims(x: Tensor, dim: Dims) -> list[int]:
    """The dimensions that `dim` means, non-negative: none given means all."""
    if not dim:
        return list(range(x.dim()))
    return sorted(d % max(x.dim(), 1) for d in dim) if x.dim() else []


def count_of(x: Tensor, dims: Sequence[int]) -> Any:
    return math.prod(x.shape[d] for d in dims)


def at_least_zero(count: Any) -> Any:
    """max(count, 0): a correction above the count divides by zero, as in eager."""
    if isinstance(count, (torch.SymInt, torch.SymFloat)):
        return torch.sym_max(count, 0)
    return max(count, 0)
