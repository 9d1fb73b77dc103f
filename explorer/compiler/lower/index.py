"""Elements read and written at positions that come from data: gather, embedding, advanced indexing, scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sympy
import torch

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.create import masked
from explorer.compiler.lower.dtypes import cast
from explorer.compiler.lower.indexing import strides
from explorer.compiler.lower.pointwise import broadcast, where
from explorer.compiler.lower.policy import realize_gathered
from explorer.compiler.lower.sizes import number
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Element, Tensor
from explorer.core.origin import origins
from explorer.core.reasons import Unsupported, Why
from explorer.ir.index import ONE, ZERO, Point, below, integer, integers, span
from explorer.ir.loops import Apply, Check, Const, Expr, IndexValue, Size, apply
from explorer.ir.scalar import neutral

aten = torch.ops.aten

Store = Literal["set", "add", "max", "min", "prod"]


@dataclass(frozen=True, slots=True)
class Positions:
    """The elements of an index tensor as indices into a dimension of `size`. What the elements are checked against is
    checked for `all` of them, whatever is read of the result. Raises Unsupported where none can be right."""

    lower: Lowering
    index: Tensor
    size: Size
    what: str
    wrap: bool = False
    all: bool = True

    def __post_init__(self) -> None:
        if self.size == 0 and self.index.numel != 0:
            raise Unsupported(Why(reasons.EMPTY_DIMENSION, self.what))
        if self.all:
            self.lower.check(self.index, self._value, self.what)

    def at(self, point: Point) -> Size:
        """Itself an index expression where it is computed from the axes (arange), else a symbol for the checked
        value."""
        value = self._value(point)
        return self.lower.behind(value, self.size) if isinstance(value, Check) else symbolic(value)

    def _value(self, point: Point) -> Expr:
        value = cast(self.index.at(point), self.index.dtype, torch.int64)
        known = symbolic(value)
        if known is not None and below(known, self.size, self.lower.indexing.ranges):
            return value
        return Check(torch.int64, origins(), value, self.size, self.what, self.wrap)


def symbolic(value: Expr) -> Size | None:
    """An int64 value as an index expression, where it is one."""
    match value:
        case Const(value=number):
            return sympy.Integer(int(number))
        case IndexValue(index=index):
            return index
        case Apply(op="add" | "sub" | "mul" as op, args=args):
            known = [symbolic(arg) for arg in args]
            if known[0] is None or known[1] is None:
                return None
            return {"add": known[0] + known[1], "sub": known[0] - known[1], "mul": known[0] * known[1]}[op]
    return None


@LOWERINGS.rule(aten.embedding.default)
def embedding(lower: Lowering, out: torch.Tensor, weight: Tensor, indices: Tensor, *unused: object) -> Tensor:
    """Rows of a table."""
    realize_gathered(lower, weight, shape(out))

    rows = Positions(lower, indices, weight.size[0], "embedding")

    def element(point: Point) -> Expr:
        return weight.at((rows.at(point[:-1]), point[-1]))

    return lower.computed(out, element, weight, indices)


@LOWERINGS.rule(aten.gather.default)
def gather(
    lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False
) -> Tensor | None:
    """Along one dimension, the elements that an index tensor of the result's shape names."""
    if not x.size or len(index.size) != len(x.size):  # an empty index may have any shape
        return None
    return _taken(lower, out, x, dim, index, "gather", of_slices=False)


@LOWERINGS.rule(aten.index_select.default)
def index_select(lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor) -> Tensor | None:
    """Some indices of one dimension. Of the index_* operators only index_fill takes negative ones."""
    if not x.size or not index.size:
        return None
    return _taken(lower, out, x, dim, index, "index_select", of_slices=True)


def _taken(
    lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, what: str, *, of_slices: bool
) -> Tensor:
    realize_gathered(lower, x, shape(out))
    place = along(lower, x, dim, index, what, of_slices=of_slices)
    return lower.computed(out, lambda point: x.at(place(point)), x, index)


def along(
    lower: Lowering, x: Tensor, dim: int, index: Tensor, what: str, *, of_slices: bool, wrap: bool = False
) -> Callable[[Point], Point]:
    """From a point to the one of `x` whose index along `dim` the index tensor gives there; `of_slices`: it gives one
    for each whole slice."""
    dim %= len(x.size)
    places = Positions(lower, index, x.size[dim], what, wrap)

    def place(point: Point) -> Point:
        at = ((point[dim],) if index.size else ()) if of_slices else point
        return (*point[:dim], places.at(at), *point[dim + 1 :])

    return place


class Indices:
    """The index tensors of x[i, :, j]: their common shape, and which points of `x` those of the result come from."""

    def __init__(self, lower: Lowering, x: Tensor, given: Sequence[Tensor | None], what: str, all: bool = True) -> None:
        self.given = [*given, *[None] * (len(x.size) - len(given))]
        self.tensors = [index for index in given if index is not None]
        self.positions = [
            None if index is None else Positions(lower, index, n, what, wrap=True, all=all)
            for index, n in zip(self.given, x.size, strict=True)
        ]
        self.common = common_size([index.size for index in self.tensors])
        places = [d for d, index in enumerate(self.given) if index is not None]
        self.first = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
        rest = [n for n, index in zip(x.size, self.given, strict=True) if index is None]
        self.size: Point = (*rest[: self.first], *self.common, *rest[self.first :])

    def source(self, point: Point) -> Point:
        """The point of `x` for a point of the result."""
        end = self.first + len(self.common)
        shared, rest = point[self.first : end], iter((*point[: self.first], *point[end:]))
        found: list[Size] = []
        for positions in self.positions:
            if positions is None:
                found.append(next(rest))
            else:
                size = positions.index.size
                own = shared[len(shared) - len(size) :]
                found.append(positions.at(tuple(ZERO if m == 1 else i for i, m in zip(own, size, strict=True))))
        return tuple(found)


def common_size(sizes: Sequence[Point]) -> Point:
    """The shape that these broadcast to."""
    rank = max(map(len, sizes))
    padded = [(ONE,) * (rank - len(size)) + size for size in sizes]
    return tuple(next((n for n in of_dim if n != 1), ONE) for of_dim in zip(*padded, strict=True))


@LOWERINGS.rule(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(lower: Lowering, out: torch.Tensor, x: Tensor, given: Sequence[Tensor | None]) -> Tensor | None:
    """Advanced indexing with integer tensors."""
    if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in given):
        return None
    realize_gathered(lower, x, shape(out))
    indices = Indices(lower, x, given, "index")
    return lower.computed(out, lambda point: x.at(indices.source(point)), x, *indices.tensors)


# Writing


def scatter_into(
    lower: Lowering,
    out: torch.Tensor,
    x: Tensor,
    over: Point,
    place: Callable[[Point], Point],
    value: Element,
    store: Store,
    detail: str,
) -> Tensor:
    """A copy of `x` in which the element at place(point) takes value(point), for each point of `over`."""
    copy = Tensor(x.dtype, x.device, x.size, x.at, x.reads, x.weight, strides(out))
    initial = lower.realize(copy, reasons.SCATTER, "the values before")
    layout = initial.layout
    made = lower.loop(
        layout,
        lambda point, _: value(point),
        Why(reasons.SCATTER, detail),
        over=over,
        index=lambda point: lower.indexing.linear(place(point), layout.stride, layout.offset),
        store=store,
        alias_of=initial.buffer,
    )
    return lower.stored(made)


@LOWERINGS.rule(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    lower: Lowering, out: torch.Tensor, x: Tensor, given: Sequence[Tensor | None], values: Tensor,
    accumulate: bool = False,
) -> Tensor | None:  # fmt: skip
    """Values written (or added) at positions that index tensors give; with one mask and one value, a `where`."""
    masks = [index for index in given if index is not None and index.dtype in (torch.bool, torch.uint8)]
    if masks:
        (mask, *others) = masks
        if others or len(given) > 1 or values.numel != 1 or accumulate or len(mask.size) != len(x.size):
            return None
        one = lower.value(values.dtype, values.device, (), lambda _: values.at((ZERO,) * len(values.size)), values)
        chosen: Tensor = where(lower, out, mask, one, x)
        return chosen
    if accumulate and x.dtype == torch.bool:
        return None
    indices = Indices(lower, x, given, "index_put")
    value = broadcast(lower, values, indices.size, x.dtype)
    return scatter_into(lower, out, x, indices.size, indices.source, value, "add" if accumulate else "set", "index_put")


@LOWERINGS.rule(aten.as_strided_scatter.default)
def as_strided_scatter(
    lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, size: Any, stride: Any, storage_offset: Any = None
) -> Tensor | None:
    """Values written at fixed steps through a one-dimensional tensor that is still to be computed."""
    over, steps, offset = integers(size), integers(stride), integer(storage_offset or 0)
    if len(x.size) != 1 or x.base or x.in_memory() or not is_disjoint_and_inside(over, steps, offset, x.size[0]):
        return None
    value = broadcast(lower, source, over, x.dtype)

    def place(point: Point) -> Point:
        return (lower.indexing.linear(point, steps, offset),)

    return scatter_into(lower, out, x, over, place, value, "set", "as_strided_scatter")


def is_disjoint_and_inside(size: Point, stride: Point, offset: Size, length: Size) -> bool:
    """Whether elements at these steps lie in places of their own, among the `length` first."""
    if not all(each.is_Integer for each in (*size, *stride, offset, length)) or ZERO in size or offset < 0:
        return False
    reach = span(size, stride)
    return reach is not None and bool(offset + reach < length)


def _scatter(
    lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor | int | float | Element,
    store: Store, what: str, slices: Point | None = None, wrap: bool = False,
) -> Tensor | None:  # fmt: skip
    """Elements of `source` stored at the positions along `dim` that the index tensor gives: for each of its own points,
    or for whole slices of a tensor of the shape `slices`."""
    over = index.size if slices is None else slices
    if not x.size or len(over) != len(x.size) or (x.dtype == torch.bool and store != "set"):
        return None
    place = along(lower, x, dim, index, what, of_slices=slices is not None, wrap=wrap)
    if isinstance(source, Tensor):
        value: Element = lambda point: cast(source.at(point), source.dtype, x.dtype)  # noqa: E731
    else:
        value = source if callable(source) else broadcast(lower, source, over, x.dtype)
    return scatter_into(lower, out, x, over, place, value, store, what)


@LOWERINGS.rule(aten.scatter.src, aten.scatter.value)
def scatter(lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, source: Any) -> Tensor | None:
    """Along one dimension, values written at the positions that an index tensor gives."""
    return _scatter(lower, out, x, dim, index, source, "set", "scatter")


@LOWERINGS.rule(aten.scatter_add.default)
def scatter_add(
    lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor
) -> Tensor | None:
    """Along one dimension, values added at the positions that an index tensor gives."""
    return _scatter(lower, out, x, dim, index, source, "add", "scatter_add")


@LOWERINGS.rule(aten.index_copy.default)
def index_copy(lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor | None:
    """Slices of one dimension written at the positions that an index tensor gives."""
    return _scatter(lower, out, x, dim, index, source, "set", "index_copy", source.size)


@LOWERINGS.rule(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, value: object) -> Tensor | None:
    """Slices of one dimension set to one value at the positions that an index tensor gives."""
    if not x.size:
        return None
    dim %= len(x.size)
    over = (*x.size[:dim], index.numel, *x.size[dim + 1 :])
    filled = broadcast(lower, value, over, x.dtype)
    return _scatter(lower, out, x, dim, index, filled, "set", "index_fill", over, wrap=True)


@LOWERINGS.rule(aten.index_add.default)
def index_add(
    lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: object = 1
) -> Tensor | None:
    """Slices of one dimension, times alpha, added at the positions that an index tensor gives."""
    if alpha != 1 and x.dtype.itemsize == 2:
        return None
    factor = number(lower, alpha, x.dtype)
    value: Element = source.at if alpha == 1 else lambda point: apply("mul", source.at(point), factor)
    return _scatter(lower, out, x, dim, index, value, "add", "index_add", source.size)


_STORES: dict[str, Store] = {"sum": "add", "prod": "prod", "amax": "max", "amin": "min"}


@LOWERINGS.rule(aten.scatter_reduce.two)
def scatter_reduce(
    lower: Lowering, out: torch.Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor | None:  # fmt: skip
    """Along one dimension, values joined with what is at the positions that an index tensor gives."""
    if reduce not in _STORES:
        return None
    if not include_self:
        start = neutral(_STORES[reduce], x.dtype)
        x = _scatter(lower, out, x, dim, index, start, "set", "scatter_reduce") or x
    return _scatter(lower, out, x, dim, index, source, _STORES[reduce], "scatter_reduce")


# With a mask: what the backward of padding and of resampling use.


@LOWERINGS.rule(aten._unsafe_masked_index.default)
def masked_index(
    lower: Lowering, out: torch.Tensor, x: Tensor, mask: Tensor, given: Sequence[Tensor | None], fill: object
) -> Tensor:
    """Advanced indexing where the mask holds, a number elsewhere; indices are valid where it holds."""
    realize_gathered(lower, x, shape(out))
    indices = Indices(lower, x, given, "index", all=False)
    holds = broadcast(lower, mask, shape(out), torch.bool)
    return lower.computed(
        out, lambda point: masked([holds(point)], x.at(indices.source(point)), number(lower, fill, x.dtype)),
        x, mask, *indices.tensors,
    )  # fmt: skip


@LOWERINGS.rule(aten._unsafe_masked_index_put_accumulate.default)
def masked_index_put(
    lower: Lowering, out: torch.Tensor, x: Tensor, mask: Tensor, given: Sequence[Tensor | None], values: Tensor
) -> Tensor | None:
    """Values added at positions that index tensors give, where the mask holds."""
    plain = Indices(lower, x, given, "index_put", all=False)
    rank, shared = len(plain.size), range(plain.first, plain.first + len(plain.common))
    of_mask = (ONE,) * (rank - len(mask.size)) + mask.size
    if x.dtype == torch.bool or any(n != 1 for d, n in enumerate(of_mask) if d not in shared):
        return None
    holds = broadcast(lower, mask, plain.size, torch.bool)

    def inside(index: Tensor) -> Tensor:
        """The index where the mask holds, 0 elsewhere: the place is computed at every point."""
        place, zero = broadcast(lower, index, plain.common, torch.int64), Const(torch.int64, origins(), 0)

        def element(point: Point) -> Expr:
            rest = (ZERO,) * (rank - plain.first - len(plain.common))
            return apply("where", holds((ZERO,) * plain.first + point + rest), place(point), zero)

        return lower.value(torch.int64, index.device, plain.common, element, index, mask)

    indices = Indices(lower, x, [index if index is None else inside(index) for index in given], "index_put")
    value = broadcast(lower, values, indices.size, x.dtype)

    def added(point: Point) -> Expr:
        return masked([holds(point)], value(point), number(lower, 0, x.dtype))

    return scatter_into(lower, out, x, indices.size, indices.source, added, "add", "index_put")
