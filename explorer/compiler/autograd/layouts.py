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
        copied: Tensor = aten.clone.default(value, memory_format=torch.contiguous_format)
        return copied
    dense: Tensor = aten.clone.default(value.permute(order), memory_format=torch.contiguous_format)
    return dense.permute(inverse(order))


def laid_out_as(like: Tensor, value: Tensor) -> Tensor:
    """`value` with exactly the strides of `like` (same shape): those of dimensions of size 1 too, gaps and repeats."""
    fixed = all(type(n) is int for n in (*like.shape, *like.stride(), *value.stride()))
    if not fixed or is_non_overlapping_and_dense_or_false(like):
        value = in_layout_of(like, value)
        if fixed and value.stride() != like.stride():
            value = aten.as_strided.default(value, like.shape, like.stride())
        return value
    size = [1 if step == 0 else n for n, step in zip(like.shape, like.stride(), strict=True)]
    if value.stride() == like.stride() or not is_apart(size, like.stride()):
        return value
    for dim, n in enumerate(size):
        value = value if n == value.shape[dim] else aten.slice.Tensor(value, dim, 0, 1)
    length = 1 + sum((n - 1) * step for n, step in zip(size, like.stride(), strict=True))
    memory = aten.empty.memory_format([length], dtype=value.dtype, device=value.device)
    filled = aten.as_strided_scatter.default(memory, value, size, like.stride(), 0)
    made: Tensor = aten.as_strided.default(filled, like.shape, like.stride(), 0)
    return made


def is_apart(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether no two elements lie in one place, as far as comparing strides in order shows."""
    reach = 0
    for step, n in sorted((step, n) for step, n in zip(stride, size, strict=True) if n != 1):
        if step <= reach:
            return False
        reach += step * (n - 1)
    return True


def same_strides(a: Tensor, b: Tensor) -> bool:
    """Equal strides wherever they say where an element lies (sizes above 1)."""
    return all(n == 1 or s == t for n, s, t in zip(a.shape, a.stride(), b.stride(), strict=True))


def stride_order(x: Tensor) -> list[int]:
    """Dimensions from the slowest to the fastest, as empty_like lays them out; the natural order where strides that are
    no plain numbers leave it open. Stock: infer_dense_strides, in C++."""
    order = list(range(x.dim()))
    if x.is_contiguous():
        return order
    strides, sizes = x.stride(), x.shape
    if is_non_overlapping_and_dense_or_false(x):
        return sorted(order, key=lambda d: (-strides[d], -sizes[d]))
    if any(type(n) is not int for n in (*strides, *sizes)):
        return order
    for end in range(x.dim() - 2, -1, -1):  # an insertion sort: a stride of 0 stays beside whatever it is beside
        at = end
        for next in range(end + 1, x.dim()):
            a, b = order[at], order[next]
            if 0 in (strides[a], strides[b]):
                continue
            if (strides[a], sizes[a]) >= (strides[b], sizes[b]):
                break
            order[at], order[next] = b, a
            at = next
    return order


def inverse(order: Sequence[int]) -> list[int]:
    return [order.index(position) for position in range(len(order))]


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that eager's CPU and GPU kernels accumulate `dtype` in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def to(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else aten._to_copy.default(x, dtype=dtype)
