"""Views: another shape and other strides over the same elements, free until somebody reads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.extern import library
from explorer.compiler.lower.policy import realize_broadcast
from explorer.compiler.lower.table import LOWERINGS, VIEWS
from explorer.compiler.lower.tensors import Tensor
from explorer.core.reasons import Unsupported, Why
from explorer.ir.index import ONE, ZERO, Point, contiguous, equal, integer, integers
from explorer.ir.loops import Expr, Layout, Size, View, apply

aten = torch.ops.aten


def moved(lower: Lowering, x: Tensor, size: Point, sources: Sequence[int | None]) -> Tensor:
    """A view whose dimension d is dimension sources[d] of `x`, or new (size 1 or broadcast) where that is None.
    Dimensions of `x` that are not named are read at 0."""
    back = {source: d for d, source in enumerate(sources) if source is not None}

    def reindex(point: Point) -> Point:
        return tuple(point[back[d]] if d in back else ZERO for d in range(len(x.size)))

    def restride(layout: Layout) -> Layout:
        stride = tuple(ZERO if source is None else layout.stride[source] for source in sources)
        return Layout(layout.dtype, layout.device, size, stride, layout.offset)

    return lower.view(x, size, reindex, restride)


@VIEWS.rule(aten.permute.default)
def permute(lower: Lowering, out: torch.Tensor, x: Tensor, dims: Sequence[int]) -> Tensor:
    """The dimensions in another order."""
    return moved(lower, x, shape(out), [d % len(x.size) for d in dims])


@VIEWS.rule(aten.alias.default, aten.detach.default)
def alias(lower: Lowering, out: torch.Tensor, x: Tensor) -> Tensor:
    """The tensor itself."""
    return moved(lower, x, x.size, range(len(x.size)))


@VIEWS.rule(aten._neg_view.default)
def negative(lower: Lowering, out: torch.Tensor, x: Tensor) -> Tensor:
    """The tensor with the other sign: torch keeps the sign as a bit, here it is computed."""
    made = lower.view(x, x.size, lambda point: point, None)
    made.element = lambda point: apply("neg", x.at(point))
    return made


@VIEWS.rule(aten.expand.default)
def expand(lower: Lowering, out: torch.Tensor, x: Tensor, size: object, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 read at 0 for every index, and new leading dimensions."""
    made = shape(out)
    realize_broadcast(lower, x, made)
    skipped = len(made) - len(x.size)
    sources = [None if d < skipped or x.size[d - skipped] == 1 != n else d - skipped for d, n in enumerate(made)]
    return moved(lower, x, made, sources)


@VIEWS.rule(aten.unsqueeze.default)
def unsqueeze(lower: Lowering, out: torch.Tensor, x: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1."""
    place = dim % (len(x.size) + 1)
    sources: list[int | None] = list(range(len(x.size)))
    sources.insert(place, None)
    made = moved(lower, x, shape(out), sources)
    # torch gives the new dimension the stride that would continue the layout; it matters to nobody but is_contiguous.
    step = integer(out.stride(place))
    inner = made.restride
    assert inner is not None

    def restride(layout: Layout) -> Layout:
        plain = inner(layout)
        assert plain is not None
        stride = (*plain.stride[:place], step, *plain.stride[place + 1 :])
        return Layout(plain.dtype, plain.device, plain.size, stride, plain.offset)

    made.restride = restride
    return made


@VIEWS.rule(aten.squeeze.dims)
def squeeze(lower: Lowering, out: torch.Tensor, x: Tensor, dims: int | Sequence[int] | None = None) -> Tensor:
    """Without dimensions of size 1."""
    if dims is None:
        named = set(range(len(x.size)))
    else:
        named = {d % max(1, len(x.size)) for d in ([dims] if isinstance(dims, int) else dims)}
    kept = [d for d, n in enumerate(x.size) if not (d in named and n == 1)]
    return moved(lower, x, shape(out), kept)


@VIEWS.rule(aten.select.int)
def select(lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: object) -> Tensor:
    """One index of a dimension, without the dimension."""
    dim %= len(x.size)
    place = position(lower, index, x.size[dim])

    def restride(layout: Layout) -> Layout:
        stride = layout.stride[:dim] + layout.stride[dim + 1 :]
        return Layout(layout.dtype, layout.device, shape(out), stride, layout.offset + place * layout.stride[dim])

    return lower.view(x, shape(out), lambda point: (*point[:dim], place, *point[dim:]), restride)


@VIEWS.rule(aten.slice.Tensor)
def slice_tensor(
    lower: Lowering,
    out: torch.Tensor,
    x: Tensor,
    dim: int = 0,
    start: object = None,
    end: object = None,
    step: object = 1,
) -> Tensor:
    """Each `step`th index of a dimension from `start` on."""
    dim %= len(x.size)
    first, every = bounded(lower, 0 if start is None else start, x.size[dim]), integer(step)

    def reindex(point: Point) -> Point:
        return (*point[:dim], point[dim] * every + first, *point[dim + 1 :])

    def restride(layout: Layout) -> Layout:
        stride = (*layout.stride[:dim], layout.stride[dim] * every, *layout.stride[dim + 1 :])
        return Layout(layout.dtype, layout.device, shape(out), stride, layout.offset + first * layout.stride[dim])

    return lower.view(x, shape(out), reindex, restride)


def position(lower: Lowering, index: object, size: Size) -> Size:
    """An index as Python takes it: from the end where negative. Raises Unsupported where there is no such element."""
    place = from_start(lower, integer(index), size)
    if not (lower.sizes.holds(place >= 0) and lower.sizes.holds(place < size)):
        raise Unsupported(Why(reasons.OUT_OF_RANGE, f"{index} into {size} elements"))
    return place


def from_start(lower: Lowering, index: Size, size: Size) -> Size:
    return index + size if lower.sizes.holds(index < 0) else index


def bounded(lower: Lowering, bound: object, size: Size) -> Size:
    """A slice bound as Python takes it: from the end where negative, kept within the size."""
    place = from_start(lower, integer(bound), size)
    if lower.sizes.holds(place < 0):
        return ZERO
    if place.is_Integer and place >= sys.maxsize:
        return size
    return size if lower.sizes.holds(place > size) else place


@VIEWS.rule(aten.view.default, aten.reshape.default)
def view(lower: Lowering, out: torch.Tensor, x: Tensor, size: object) -> Tensor:
    """The same elements in the same order under another shape."""
    made = shape(out)
    if made == x.size:
        return moved(lower, x, made, range(len(made)))
    groups = matching_groups(x.size, made)
    indexing = lower.indexing

    def reindex(point: Point) -> Point:
        if ZERO in x.size:
            return (ZERO,) * len(x.size)
        found: list[Size] = []
        for old, new in groups:
            part = point[new.start : new.stop]
            if [n for n in made[new] if n != 1] == [n for n in x.size[old] if n != 1]:
                left = iter([i for i, n in zip(part, made[new], strict=True) if n != 1])
                found += [ZERO if n == 1 else next(left) for n in x.size[old]]
            else:
                found += indexing.unravel(indexing.linear(part, contiguous(made[new])), x.size[old])
        return tuple(found)

    return lower.view(x, made, reindex, lambda layout: viewed(layout, made, groups))


def matching_groups(old: Point, new: Point) -> list[tuple[slice, slice]]:
    """Runs of dimensions of the two shapes that hold the same number of elements, as short as possible."""
    groups: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first_i, first_j = i, j
        left, right = ONE, ONE
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while not equal(left, right):
            if i < len(old) and (j == len(new) or _fewer(left, right)):
                left, i = left * old[i], i + 1
            elif j < len(new):
                right, j = right * new[j], j + 1
            else:
                return [(slice(0, len(old)), slice(0, len(new)))]
        groups.append((slice(first_i, i), slice(first_j, j)))
    return groups


def _fewer(a: Size, b: Size) -> bool:
    if a.is_Integer and b.is_Integer:
        return bool(a < b)
    return len(a.free_symbols) < len(b.free_symbols) or bool((b - a).is_positive)


def viewed(layout: Layout, size: Point, groups: list[tuple[slice, slice]]) -> Layout | None:
    """The layout of a view to `size`, None where no strides give it. ATen: TensorUtils.cpp, computeStride."""
    if any(n == 0 for n in size):
        return Layout(layout.dtype, layout.device, size, contiguous(size), layout.offset)
    strides: list[Size] = []
    for old, new in groups:
        run = [(n, s) for n, s in zip(layout.size[old], layout.stride[old], strict=True) if n != 1]
        if any(not equal(s, m * inner) for (_, s), (m, inner) in zip(run, run[1:], strict=False)):
            split = _aligned(run, size[new])
            if split is None:
                return None
            strides += split
        else:
            last = run[-1][1] if run else ONE
            strides += [step * last for step in contiguous(size[new])]
    return Layout(layout.dtype, layout.device, size, tuple(strides), layout.offset)


def _aligned(run: list[tuple[Size, Size]], size: Point) -> list[Size] | None:
    """Strides for a run whose dimensions do not follow one another: each piece that does must split as a whole."""
    strides: list[Size] = []
    remaining = list(size)
    pieces: list[tuple[Size, Size]] = []
    for n, stride in run:
        if pieces and equal(pieces[-1][1], n * stride):
            pieces[-1] = (pieces[-1][0] * n, stride)
        else:
            pieces.append((n, stride))
    for n, stride in pieces:
        taken: list[Size] = []
        count: Size = ONE
        while remaining and not (equal(count, n) and remaining[0] != 1):
            taken.append(remaining.pop(0))
            count = count * taken[-1]
        if not equal(count, n):
            return None
        strides += [step * stride for step in contiguous(taken)]
    return strides if not remaining else None


@VIEWS.rule(aten.as_strided.default)
def as_strided(
    lower: Lowering, out: torch.Tensor, x: Tensor, size: object, stride: Any, storage_offset: object = None
) -> Tensor:
    """Any strides over the memory of what `x` is a view of. Where in its storage an input begins, and how much of it
    there is, is known when the program runs: that call is eager's, with eager's checks. Raises Unsupported where the
    elements of another tensor may be left."""
    place = lower.memory(x, reasons.LIBRARY_ARGUMENT, exact=True)
    if lower.is_given(place.buffer):
        made = library(lower, aten.as_strided.default, out, (x, size, stride, storage_offset), {}, Why(reasons.STORAGE))
        assert isinstance(made, Tensor)
        return made
    start = place.layout.offset if storage_offset is None else integer(storage_offset)
    layout, memory = Layout(x.dtype, x.device, shape(out), integers(stride), start), lower.buffers[place.buffer].layout
    if not (lower.sizes.proven(start >= 0) and lower.sizes.proven(memory.extent >= layout.extent)):
        raise Unsupported(Why(reasons.PAST_ELEMENTS, f"{layout} of {place.buffer}: {memory}"))
    view = Tensor(x.dtype, x.device, layout.size, x.element, base=x)
    view.put(View(place.buffer, layout), lower.load)
    return view


@VIEWS.rule(aten.diagonal.default)
def diagonal(lower: Lowering, out: torch.Tensor, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements whose indices along two dimensions differ by `offset`, along a new last dimension."""
    a, b = dim1 % len(x.size), dim2 % len(x.size)
    down, right = integer(max(-offset, 0)), integer(max(offset, 0))
    kept = [d for d in range(len(x.size)) if d not in (a, b)]

    def reindex(point: Point) -> Point:
        rest = iter(point)
        return tuple(point[-1] + (down if d == a else right) if d in (a, b) else next(rest) for d in range(len(x.size)))

    def restride(layout: Layout) -> Layout:
        stride = (*(layout.stride[d] for d in kept), layout.stride[a] + layout.stride[b])
        first = layout.offset + down * layout.stride[a] + right * layout.stride[b]
        return Layout(layout.dtype, layout.device, shape(out), stride, first)

    return lower.view(x, shape(out), reindex, restride)


@VIEWS.rule(aten.unfold.default)
def unfold(lower: Lowering, out: torch.Tensor, x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` along a dimension, every `step`, the places in a window as a new last dimension."""
    if not x.size:
        return moved(lower, x, shape(out), [None])
    d = dimension % len(x.size)
    every = integer(step)
    realize_broadcast(lower, x, shape(out))

    def restride(layout: Layout) -> Layout:
        stride = (*layout.stride[:d], layout.stride[d] * every, *layout.stride[d + 1 :], layout.stride[d])
        return Layout(layout.dtype, layout.device, shape(out), stride, layout.offset)

    return lower.view(
        x, shape(out), lambda point: (*point[:d], point[d] * every + point[-1], *point[d + 1 : -1]), restride
    )


# Elements moved about in ways that no strides can describe.


@LOWERINGS.rule(aten.flip.default)
def flip(lower: Lowering, out: torch.Tensor, x: Tensor, dims: Sequence[int]) -> Tensor:
    """Some dimensions backwards."""
    turned = {d % len(x.size) for d in dims} if x.size else set()

    def element(point: Point) -> Expr:
        return x.at(tuple(x.size[d] - 1 - i if d in turned else i for d, i in enumerate(point)))

    return lower.computed(out, element, x)
