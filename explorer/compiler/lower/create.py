"""Operators that make tensors: from numbers, from several tensors (concatenation, padding, a part replaced), and in
memory that is there already (updated inputs at the end of a functional graph).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import torch

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.dtypes import cast
from explorer.compiler.lower.indexing import strides
from explorer.compiler.lower.pointwise import broadcast
from explorer.compiler.lower.policy import HEAVY, cost
from explorer.compiler.lower.sizes import index_value, number
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Tensor
from explorer.compiler.lower.view import bounded, position
from explorer.core.origin import origins
from explorer.core.reasons import Why
from explorer.ir.index import ZERO, Point, integer, never_above, never_below
from explorer.ir.loops import Buffer, Expr, Layout, Load, Masked, Size, apply, walk

aten = torch.ops.aten
prims = torch.ops.prims


def filled(lower: Lowering, out: torch.Tensor, value: object) -> Tensor:
    return lower.computed(out, lambda point: number(lower, value, out.dtype))


@LOWERINGS.rule(aten.full.default)
def full(lower: Lowering, out: torch.Tensor, size: object, value: object, **facts: object) -> Tensor:
    """One number everywhere."""
    return filled(lower, out, value)


@LOWERINGS.rule(aten.empty.memory_format, aten.empty_permuted.default)
def empty(lower: Lowering, out: torch.Tensor, *args: object, **facts: object) -> Tensor:
    """0 everywhere: the contents may be anything."""
    return filled(lower, out, 0)


@LOWERINGS.rule(aten.arange.start_step)
def arange(
    lower: Lowering, out: torch.Tensor, start: object, end: object, step: object = 1, **facts: object
) -> Tensor | None:
    """start + step * position."""
    return _progression(lower, out, start, step)


@LOWERINGS.rule(prims.iota.default)
def iota(
    lower: Lowering, out: torch.Tensor, length: object, *, start: object, step: object, **facts: object
) -> Tensor | None:
    """start + step * position"""
    return _progression(lower, out, start, step)


def _progression(lower: Lowering, out: torch.Tensor, start: object, step: object) -> Tensor:
    if not out.dtype.is_floating_point:
        start, step = (int(each) if isinstance(each, float) else each for each in (start, step))
    if isinstance(start, float) or isinstance(step, float):
        # ATen computes these in the accumulation type, float64 on the CPU.
        def of_float(point: Point) -> Expr:
            place = cast(index_value(lower, point[0]), torch.int64, torch.float64)
            steps = apply("mul", place, number(lower, step, torch.float64))
            return cast(apply("add", steps, number(lower, start, torch.float64)), torch.float64, out.dtype)

        return lower.computed(out, of_float)
    first, every = integer(start), integer(step)

    def element(point: Point) -> Expr:
        return cast(index_value(lower, first + point[0] * every), torch.int64, out.dtype)

    return lower.computed(out, element)


MOST_PARTS = 4
"""Tensors that a concatenation joins as one loop, which asks at each point which of them it is in."""


def masked(conditions: Sequence[Expr], value: Expr, other: Expr) -> Expr:
    """`value`, evaluated only where all conditions hold, else `other`."""
    if not conditions:
        return value
    return Masked(value.dtype, origins(), reduce(lambda a, b: apply("logical_and", a, b), conditions), value, other)


def within(lower: Lowering, i: Size, start: Size, end: Size) -> list[Expr]:
    """The tests for start <= i < end that do not hold already for every i."""
    ranges = lower.indexing.ranges
    tests = []
    if not never_below(i, start, ranges):
        tests.append(apply("ge", index_value(lower, i), index_value(lower, start)))
    if not never_above(i, end - 1, ranges):
        tests.append(apply("lt", index_value(lower, i), index_value(lower, end)))
    return tests


@LOWERINGS.rule(aten.cat.default)
def cat(lower: Lowering, out: torch.Tensor, tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Tensors one after another along a dimension: as one value that tests where it is, where that is cheap; else
    each written to its own part of the result; by the library, where all are in memory."""
    parts = [tensor for tensor in tensors if not (len(tensor.size) == 1 and tensor.size[0] == 0)]
    if not parts:
        return None
    starts: list[Size] = [ZERO]
    for part in parts:
        starts.append(starts[-1] + part.size[dim % len(out.shape)])
    places = list(zip(parts, starts, strict=False))
    if len(parts) <= MOST_PARTS and all(part.in_memory() or cost(lower, part).operations < HEAVY for part in parts):
        return _cat_value(lower, out, places, dim % len(out.shape))
    if all(part.in_memory() for part in parts):
        return None
    return _cat_parts(lower, out, places, dim % len(out.shape))


def _cat_value(lower: Lowering, out: torch.Tensor, places: list[tuple[Tensor, Size]], dim: int) -> Tensor:
    def element(point: Point) -> Expr:
        found: Expr = number(lower, 0, out.dtype)
        for part, start in reversed(places):
            i = point[dim]
            value = cast(part.at((*point[:dim], i - start, *point[dim + 1 :])), part.dtype, out.dtype)
            found = masked(within(lower, i, start, start + part.size[dim]), value, found)
        return found

    return lower.computed(out, element, *(part for part, _ in places))


def _cat_parts(lower: Lowering, out: torch.Tensor, places: list[tuple[Tensor, Size]], dim: int) -> Tensor:
    size = shape(out)
    layout = Layout(out.dtype, out.device, size, lower.dense(size, strides(out)))
    made: Buffer | None = None
    for number_of_part, (part, start) in enumerate(places):
        offset = start * layout.stride[dim]
        made = lower.loop(
            layout,
            lambda point, _, part=part: cast(part.at(point), part.dtype, out.dtype),  # type: ignore[misc]
            Why(reasons.PART, f"{number_of_part + 1} of {len(places)}"),
            over=part.size,
            index=lambda point, offset=offset: lower.indexing.linear(point, layout.stride, offset),  # type: ignore[misc]
            alias_of=None if made is None else lower.root(made.name),
        )
    assert made is not None
    return lower.stored(made)


@LOWERINGS.rule(aten.constant_pad_nd.default)
def constant_pad_nd(lower: Lowering, out: torch.Tensor, x: Tensor, pad: Sequence[object], value: object = 0) -> Tensor:
    """A border of one number round the tensor; negative widths cut."""
    before = [ZERO] * len(x.size)
    for place in range(len(pad) // 2):
        before[len(x.size) - 1 - place] = integer(pad[2 * place])

    def element(point: Point) -> Expr:
        of_x = tuple(i - width for i, width in zip(point, before, strict=True))
        inside = [test for i, n in zip(of_x, x.size, strict=True) for test in within(lower, i, ZERO, n)]
        return masked(inside, x.at(of_x), number(lower, value, x.dtype))

    return lower.computed(out, element, x)


@LOWERINGS.rule(aten.slice_scatter.default)
def slice_scatter(
    lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, dim: int = 0, start: object = None,
    end: object = None, step: object = 1,
) -> Tensor:  # fmt: skip
    """A tensor with a slice replaced."""
    dim %= len(x.size)
    first, every = bounded(lower, 0 if start is None else start, x.size[dim]), integer(step)
    last = x.size[dim] if end is None else bounded(lower, end, x.size[dim])
    empty = lower.sizes.holds(last <= first)
    length = ZERO if empty else lower.indexing.floordiv(last - first + every - 1, every)
    put = broadcast(lower, source, (*x.size[:dim], length, *x.size[dim + 1 :]), out.dtype)

    def element(point: Point) -> Expr:
        place = point[dim] - first
        inside = within(lower, place, ZERO, length * every)
        if every != 1:
            rest = lower.indexing.modulo(place, every)
            inside.append(apply("eq", index_value(lower, rest), index_value(lower, ZERO)))
        at_source = (*point[:dim], lower.indexing.floordiv(place, every), *point[dim + 1 :])
        return masked(inside, put(at_source), x.at(point)) if length != 0 else x.at(point)

    return lower.computed(out, element, x, source)


@LOWERINGS.rule(aten.select_scatter.default)
def select_scatter(lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, dim: int, index: object) -> Tensor:
    """A tensor with one index of a dimension replaced."""
    dim %= len(x.size)
    place = position(lower, index, x.size[dim])
    put = broadcast(lower, source, (*x.size[:dim], *x.size[dim + 1 :]), out.dtype)

    def element(point: Point) -> Expr:
        here = apply("eq", index_value(lower, point[dim]), index_value(lower, place))
        return masked([here], put((*point[:dim], *point[dim + 1 :])), x.at(point))

    return lower.computed(out, element, x, source)


@LOWERINGS.rule(aten.diagonal_scatter.default)
def diagonal_scatter(
    lower: Lowering, out: torch.Tensor, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A tensor with a diagonal replaced."""
    a, b = dim1 % len(x.size), dim2 % len(x.size)

    def element(point: Point) -> Expr:
        here = apply("eq", index_value(lower, point[b]), index_value(lower, point[a] + offset))
        rest = tuple(i for d, i in enumerate(point) if d not in (a, b))
        along = point[a] if offset >= 0 else point[b]
        return masked([here], cast(source.at((*rest, along)), source.dtype, out.dtype), x.at(point))

    return lower.computed(out, element, x, source)


def write_back(lower: Lowering, target: Tensor, source: Tensor, alive: Iterable[Tensor]) -> Tensor:
    """Overwrite `target`, which is in memory, with `source`. What is `alive` afterwards and not yet computed, but reads
    the memory that is overwritten, is computed before: `source` too, where it is read again."""
    assert target.place is not None
    overwritten, layout = target.place.buffer, target.place.layout
    compute_before(lower, {overwritten}, alive)
    if overwritten in source.reads and not _at_own_point(lower, target, source):
        safe = Tensor(source.dtype, source.device, source.size, source.at, source.reads, stride=source.stride)
        lower.realize(safe, reasons.MUTATION, f"it reads {overwritten} elsewhere than it is written")
        source = safe
    skipped = len(target.size) - len(source.size)

    def body(outer: Point, _: Point) -> Expr:
        point = tuple(i if n != 1 else n - 1 for i, n in zip(outer[skipped:], source.size, strict=True))
        return cast(source.at(point), source.dtype, layout.dtype)

    why = Why(reasons.MUTATION, f"the new content of {overwritten}")
    lower.loop(layout, body, why, alias_of=lower.root(overwritten))
    return target


def compute_before(lower: Lowering, overwritten: set[str], alive: Iterable[Tensor]) -> None:
    """Put in memory what is not yet computed and reads a buffer that is about to be overwritten; of a view, the value
    that it is a view of. Where no input is overwritten but what a call made, that is all that is not yet computed: it
    may have come to read the buffer since."""
    made_here = any(lower.buffers[name].kind in ("loop", "extern") for name in overwritten)
    for tensor in alive:
        if not tensor.in_memory() and (made_here or overwritten & tensor.reads):
            if tensor.base is not None:
                compute_before(lower, overwritten, [tensor.base])
            if not tensor.in_memory():
                lower.realize(tensor, reasons.MUTATION, "before the tensor is overwritten")


def _at_own_point(lower: Lowering, target: Tensor, source: Tensor) -> bool:
    """Whether each element of the source reads of the target's memory only the element that it will overwrite."""
    assert target.place is not None
    if source.size != target.size:
        return False
    point = tuple(lower.indexing.axis("i", d, n).symbol if n != 1 else n - 1 for d, n in enumerate(target.size))
    layout = target.place.layout
    own = lower.indexing.linear(point, layout.stride, layout.offset)
    loads = [expr for expr in walk(source.at(point)) if isinstance(expr, Load) and expr.buffer == target.place.buffer]
    return all(load.index == own and not load.indirect for load in loads)
