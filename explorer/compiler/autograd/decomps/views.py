"""Views, every one a single-result operator, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from explorer.compiler.autograd.decomps.table import DECOMPOSITIONS
from explorer.compiler.autograd.layouts import in_layout_of, to

aten = torch.ops.aten


@DECOMPOSITIONS.rule(aten.split.Tensor)
def split(x: Tensor, size: Any, dim: int = 0) -> list[Tensor]:
    """split(x, n) -> [slice(x, 0, n), slice(x, n, 2n), ...]"""
    extent = x.shape[dim]
    count = 1 if extent == 0 or size == 0 else int((extent + size - 1) // size)
    ends = [*(n * size for n in range(1, count)), extent]
    return [aten.slice.Tensor(x, dim, n * size, end) for n, end in enumerate(ends)]


@DECOMPOSITIONS.rule(aten.split_with_sizes.default)
def split_with_sizes(x: Tensor, sizes: Sequence[Any], dim: int = 0) -> list[Tensor]:
    """split(x, sizes) -> [slice(x, 0, sizes[0]), ...]"""
    parts, at = [], 0
    for size in sizes:
        parts.append(aten.slice.Tensor(x, dim, at, at + size))
        at = at + size
    return parts


@DECOMPOSITIONS.rule(aten.unsafe_split.Tensor)
def unsafe_split(x: Tensor, size: Any, dim: int = 0) -> list[Tensor]:
    """unsafe_split(x, n) -> split(x, n)"""
    return split(x, size, dim)


@DECOMPOSITIONS.rule(aten.unsafe_split_with_sizes.default)
def unsafe_split_with_sizes(x: Tensor, sizes: Sequence[Any], dim: int = 0) -> list[Tensor]:
    """unsafe_split_with_sizes(x, sizes) -> split(x, sizes)"""
    return split_with_sizes(x, sizes, dim)


@DECOMPOSITIONS.rule(aten.unbind.int)
def unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    """unbind(x) -> [select(x, 0), select(x, 1), ...]"""
    return [aten.select.int(x, dim, position) for position in range(int(x.shape[dim]))]


@DECOMPOSITIONS.rule(aten.squeeze.default)
def squeeze(x: Tensor) -> Tensor:
    """squeeze(x) -> squeeze(x, dimensions of size 1)"""
    return aten.squeeze.dims(x, [d for d in range(x.dim()) if x.shape[d] == 1])


@DECOMPOSITIONS.rule(aten.squeeze.dim)
def squeeze_dim(x: Tensor, dim: int) -> Tensor:
    """squeeze(x, dim) -> squeeze(x, [dim])"""
    return aten.squeeze.dims(x, [dim])


@DECOMPOSITIONS.rule(aten._unsafe_view.default)
def unsafe_view(x: Tensor, size: Sequence[Any]) -> Tensor:
    """_unsafe_view(x, size) -> view(x, size)"""
    return aten.view.default(x, size)


@DECOMPOSITIONS.rule(aten.repeat.default)
def repeat(x: Tensor, repeats: Sequence[Any]) -> Tensor:
    """repeat(x, [2, 3]) -> view(clone(expand(view(x, [1, a, 1, b]), [2, a, 3, b])), [2a, 3b])"""
    shape = [1] * (len(repeats) - x.dim()) + list(x.shape)
    apart = [part for n in shape for part in (1, n)]
    spread = [part for times, n in zip(repeats, shape, strict=True) for part in (times, n)]
    joined = [times * n for times, n in zip(repeats, shape, strict=True)]
    return x.reshape(apart).expand(spread).reshape(joined)


@DECOMPOSITIONS.rule(aten.lift_fresh.default)
def lift_fresh(x: Tensor) -> Tensor:
    """lift_fresh(x) -> lift_fresh_copy(x): x is a constant of the graph, and each call makes a tensor of its own"""
    return aten.lift_fresh_copy.default(x)


@DECOMPOSITIONS.rule(aten.copy.default)
def copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Any:
    """copy(target, source) -> source, cast and expanded to target's dtype and shape, in target's layout"""
    if target.device != source.device:
        return NotImplemented
    cast = to(source, target.dtype)
    return in_layout_of(target, cast if list(cast.shape) == list(target.shape) else cast.expand(target.shape))
