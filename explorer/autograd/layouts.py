"""How tensors lie in memory, and in which dtype they are computed with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._prims_common import is_non_overlapping_and_dense_or_false

aten = torch.ops.aten


def in_layout_of(like: Tensor, value: Tensor) -> Tensor:
    """`value` with the strides of `like` (same shape), copied only where they differ."""
    if same_strides(like, value):
        return value
    order = stride_order(like)
    if order == sorted(order):
        return aten.clone.default(value, memory_format=torch.contiguous_format)
    dense = aten.clone.default(value.permute(order), memory_format=torch.contiguous_format)
    return dense.permute(inverse(order))


def same_strides(a: Tensor, b: Tensor) -> bool:
    """Equal strides wherever they say where an element lies (sizes above 1)."""
    return all(n == 1 or s == t for n, s, t in zip(a.shape, a.stride(), b.stride(), strict=True))


def stride_order(x: Tensor) -> list[int]:
    """Dimensions from the slowest to the fastest where x is dense; the natural order where it overlaps or has gaps."""
    natural = list(range(x.dim()))
    if x.is_contiguous() or not is_non_overlapping_and_dense_or_false(x):
        return natural
    strides, sizes = x.stride(), x.shape
    return sorted(natural, key=lambda d: (-strides[d], -sizes[d]))


def inverse(order: Sequence[int]) -> list[int]:
    return [order.index(position) for position in range(len(order))]


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that eager's CPU and GPU kernels accumulate `dtype` in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def to(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else aten._to_copy.default(x, dtype=dtype)
