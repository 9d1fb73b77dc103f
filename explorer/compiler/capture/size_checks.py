"""Sizes and positions that a kernel refuses and that its rule for fake tensors takes, of any size: some rules check
nothing, and the kernel runs too late, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

aten = torch.ops.aten


def _put(x: Tensor, index: Sequence[Tensor | None], values: Tensor, *_: Any) -> None:
    if any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in index):
        return  # how many elements a mask has, only the graph knows
    place = aten.index.Tensor(x, index)
    if not _known_late(values, place):
        values.expand(place.shape)


def _scatters(view: Callable[..., Tensor]) -> Callable[..., None]:
    """The check of an operator that writes its second argument into a view of the first."""

    def check(x: Tensor, src: Tensor, *place: Any, **named: Any) -> None:
        wanted = view(x, *place, **named)
        if not _known_late(src, wanted):
            _equal("src", src.shape, wanted.shape)

    return check


def _like_first(x: Tensor, other: Tensor, *_: Any) -> None:
    if not _known_late(x, other):
        other.expand(x.shape)


def _vectors(x: Tensor, *given: Any) -> None:
    """Weights, biases and statistics, of a number for each channel."""
    for each in given:
        if isinstance(each, Tensor) and each.dim() > 1:
            raise RuntimeError(f"expected a vector in place of {list(each.shape)}")


def _select(x: Tensor, dim: int, index: Any) -> None:
    """Of a position that only the graph knows, TRACE finds out."""
    if type(index) is int and x.dim() and not _known_late(x) and not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}")


def _vector(x: Tensor, dim: int, index: Tensor, *_: Any) -> None:
    if index.dim() > 1:
        raise IndexError(f"an index of {index.dim()} dimensions where one is meant")


def _copied(x: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    _vector(x, dim, index)
    if x.dim() and source.dim() and index.dim() and not _known_late(x, index, source):
        places = [*x.shape]
        places[dim] = index.shape[0]
        _equal("source", source.shape, places)


def _equal(what: str, size: Sequence[Any], wanted: Sequence[Any]) -> None:
    if len(size) != len(wanted) or any(n != m for n, m in zip(size, wanted, strict=True)):
        raise RuntimeError(f"{what} has the size {list(size)} in place of {list(wanted)}")


def _known_late(*tensors: Tensor) -> bool:
    """Whether a size is one that only the graph knows."""
    return any(free_unbacked_symbols(each) for each in tensors)


CHECKS: dict[Any, Callable[..., None]] = {
    aten.index_put.default: _put,
    aten.index_put_.default: _put,
    aten._index_put_impl_.default: _put,
    aten._unsafe_index_put.default: _put,
    aten.select_scatter.default: _scatters(aten.select.int),
    aten.slice_scatter.default: _scatters(aten.slice.Tensor),
    aten.diagonal_scatter.default: _scatters(aten.diagonal.default),
    aten.select.int: _select,
    aten.index_select.default: _vector,
    aten.index_fill.int_Scalar: _vector,
    aten.index_fill.int_Tensor: _vector,
    aten.index_copy.default: _copied,
    aten.index_copy_.default: _copied,
    aten.soft_margin_loss.default: _like_first,
    aten.native_group_norm.default: _vectors,
    aten.native_batch_norm.default: _vectors,
    aten._native_batch_norm_legit.default: _vectors,
    aten._batch_norm_with_update.default: _vectors,
    aten._native_batch_norm_legit_no_training.default: _vectors,
}
