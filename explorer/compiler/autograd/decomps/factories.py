"""Factories: one fill, one range, one uninitialised allocation, each contiguous and then permuted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions

from explorer.compiler.autograd.decomps.table import DECOMPOSITIONS, Decomposition
from explorer.compiler.autograd.layouts import inverse, stride_order

aten = torch.ops.aten
CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


@DECOMPOSITIONS.rule(aten.full_like.default)
def full_like(x: Tensor, value: Any, **facts: Any) -> Any:
    """full_like(x, v) -> full(x.shape, v), in x's layout"""
    return fill_in_layout(x, value, **facts)


@DECOMPOSITIONS.rule(aten.zeros_like.default)
def zeros_like(x: Tensor, **facts: Any) -> Any:
    """zeros_like(x) -> full(x.shape, 0), in x's layout"""
    return fill_in_layout(x, 0, **facts)


@DECOMPOSITIONS.rule(aten.ones_like.default)
def ones_like(x: Tensor, **facts: Any) -> Any:
    """ones_like(x) -> full(x.shape, 1), in x's layout"""
    return fill_in_layout(x, 1, **facts)


@DECOMPOSITIONS.rule(aten.empty_like.default)
def empty_like(x: Tensor, **facts: Any) -> Any:
    """empty_like(x) -> empty(x.shape), in x's layout"""
    return fill_in_layout(x, None, **facts)


@DECOMPOSITIONS.rule(aten.zero.default)
def zero(x: Tensor) -> Any:
    """zero(x) -> full(x.shape, 0), in x's layout"""
    return fill_in_layout(x, 0)


def fill_in_layout(
    x: Tensor,
    value: Any,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> Any:
    """A tensor of x's shape, strided as eager's `*_like` strides it; `value` None leaves it uninitialised."""
    if layout not in (None, torch.strided) or pin_memory:
        return NotImplemented
    order = list(range(x.dim()))
    if memory_format in (None, torch.preserve_format):
        order = stride_order(x)
    elif memory_format in CHANNELS_LAST:
        order = [0, *order[2:], 1]
    return filled(x.shape, order, value, dtype or x.dtype, device or x.device)


def filled(shape: Sequence[Any], order: list[int], value: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Allocate `shape` with its dimensions laid out in `order`, slowest first."""
    ordered = [shape[d] for d in order]
    if value is None:
        made = aten.empty.memory_format(ordered, dtype=dtype, device=device)
    else:
        typed = value if isinstance(value, (torch.SymInt, torch.SymFloat)) else number_of(value, dtype)
        made = aten.full.default(ordered, typed, dtype=dtype, device=device, pin_memory=False)
    return made if order == sorted(order) else made.permute(inverse(order))


def number_of(value: Any, dtype: torch.dtype) -> Any:
    """`value` as a Python number of the kind that `dtype` holds."""
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    return complex(value) if dtype.is_complex else int(value)


@DECOMPOSITIONS.rule(aten.zeros.default)
def zeros(size: Sequence[Any], **facts: Any) -> Any:
    """zeros(size) -> full(size, 0)"""
    return contiguous_fill(size, 0, **facts)


@DECOMPOSITIONS.rule(aten.ones.default)
def ones(size: Sequence[Any], **facts: Any) -> Any:
    """ones(size) -> full(size, 1)"""
    return contiguous_fill(size, 1, **facts)


@DECOMPOSITIONS.rule(aten.scalar_tensor.default)
def scalar_tensor(value: Any, **facts: Any) -> Any:
    """scalar_tensor(v) -> full([], v)"""
    return contiguous_fill([], value, **facts)


@DECOMPOSITIONS.rule(aten.new_zeros.default)
def new_zeros(x: Tensor, size: Sequence[Any], **facts: Any) -> Any:
    """x.new_zeros(size) -> full(size, 0)"""
    return contiguous_fill(size, 0, like=x, **facts)


@DECOMPOSITIONS.rule(aten.new_ones.default)
def new_ones(x: Tensor, size: Sequence[Any], **facts: Any) -> Any:
    """x.new_ones(size) -> full(size, 1)"""
    return contiguous_fill(size, 1, like=x, **facts)


@DECOMPOSITIONS.rule(aten.new_full.default)
def new_full(x: Tensor, size: Sequence[Any], value: Any, **facts: Any) -> Any:
    """x.new_full(size, v) -> full(size, v)"""
    return contiguous_fill(size, value, like=x, **facts)


@DECOMPOSITIONS.rule(aten.new_empty.default)
def new_empty(x: Tensor, size: Sequence[Any], **facts: Any) -> Any:
    """x.new_empty(size) -> empty(size)"""
    return contiguous_fill(size, None, like=x, **facts)


@DECOMPOSITIONS.rule(aten.new_empty_strided.default)
def new_empty_strided(x: Tensor, size: Sequence[Any], stride: Sequence[Any], **facts: Any) -> Any:
    """x.new_empty_strided(size, stride) -> empty(size), permuted"""
    return strided_empty(size, stride, like=x, **facts)


@DECOMPOSITIONS.rule(aten.empty_strided.default)
def empty_strided(size: Sequence[Any], stride: Sequence[Any], **facts: Any) -> Any:
    """empty_strided(size, stride) -> empty(size), permuted"""
    return strided_empty(size, stride, **facts)


def contiguous_fill(size: Sequence[Any], value: Any, **facts: Any) -> Any:
    plain = plain_facts(**facts)
    return plain if plain is NotImplemented else filled(size, list(range(len(size))), value, *plain)


def strided_empty(size: Sequence[Any], stride: Sequence[Any], **facts: Any) -> Any:
    plain = plain_facts(**facts)
    if plain is NotImplemented:
        return plain
    made = filled(size, sorted(range(len(size)), key=lambda d: (-stride[d], -size[d])), None, *plain)
    reached = all(n == 1 or s == t for n, s, t in zip(size, stride, made.stride(), strict=True))
    return made if reached else NotImplemented


def plain_facts(
    *, like: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    """(dtype, device) of a plain strided tensor with these options, or NotImplemented for another kind."""
    if layout not in (None, torch.strided) or pin_memory:
        return NotImplemented
    if like is not None:
        return dtype or like.dtype, device or like.device
    return dtype or torch.get_default_dtype(), device or torch.device("cpu")


@DECOMPOSITIONS.rule(aten.arange.default)
def arange_to(end: Any, **facts: Any) -> Tensor:
    """arange(end) -> arange(0, end, 1)"""
    return aten.arange.start_step(0, end, 1, **facts)


@DECOMPOSITIONS.rule(aten.arange.start)
def arange_between(start: Any, end: Any, **facts: Any) -> Tensor:
    """arange(start, end) -> arange(start, end, 1)"""
    return aten.arange.start_step(start, end, 1, **facts)


def of_fractions(decomposition: Decomposition) -> Decomposition:
    def spaced(*args: Any, dtype: torch.dtype | None = None, **facts: Any) -> Any:
        """linspace(a, b, n) -> a + step * position; how eager rounds to integers depends on the processor's vectors"""
        whole = dtype is not None and not dtype.is_floating_point
        return NotImplemented if whole else decomposition(*args, dtype=dtype, **facts)

    return spaced


for _overload, _decomposition in get_decompositions([aten.linspace, aten.logspace]).items():
    DECOMPOSITIONS.rule(_overload)(of_fractions(_decomposition))  # type: ignore[arg-type]
