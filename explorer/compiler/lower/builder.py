"""What rules write to: it makes buffers, loops and library calls, and puts values in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from explorer.compiler.lower import reasons
from explorer.compiler.lower.dtypes import LOOP_DTYPES, constant
from explorer.compiler.lower.indexing import Indexing, split_axes, strides
from explorer.compiler.lower.tensors import Element, Restride, Tensor
from explorer.core.origin import Origins, origin, origins, union
from explorer.core.reasons import Unsupported, Why
from explorer.ir import loops as ir
from explorer.ir.index import ONE, ZERO, Point, contiguous, equal, integer, row_major
from explorer.ir.scalar import computing_dtype
from explorer.ir.sizes import Sizes

Body = Callable[[Point, Point], ir.Expr]
"""The value at a point of the outer and a point of the reduced axes."""


class Lowering:
    """What one graph has been lowered to so far. `sizes` answers questions about size symbols, `taken` are names in
    use, `mark` is what new names begin with, `device` where loops run."""

    def __init__(
        self,
        sizes: Sizes,
        taken: Iterable[str] = (),
        mark: str = "",
        device: torch.device = torch.device("cpu"),  # noqa: B008
    ) -> None:
        self.indexing = Indexing()
        self.sizes = sizes
        self.weight = sizes.weight
        self.device = device
        self.operations: list[ir.Operation] = []
        self.buffers: dict[str, ir.Buffer] = {}
        self.indirect: dict[sympy.Symbol, ir.Expr] = {}
        self.checks: set[str] = set()
        """The loops that do nothing but check index tensors."""
        self._symbols: dict[ir.Expr, sympy.Symbol] = {}
        self._taken = set(taken)
        self._mark = mark
        self._numbers: dict[str, int] = {}

    def name(self, prefix: str) -> str:
        """A name that nothing in this graph has: "buf3"."""
        while True:
            number = self._numbers.get(prefix, 0)
            self._numbers[prefix] = number + 1
            if (made := f"{self._mark}{prefix}{number}") not in self._taken:
                return made

    # Tensors

    def computed(self, like: torch.Tensor, element: Element, *operands: Tensor) -> Tensor:
        """A tensor with the dtype, shape and strides of the fake tensor `like`, computed from `operands`."""
        return self.value(like.dtype, like.device, shape(like), element, *operands, stride=strides(like))

    def value(
        self,
        dtype: torch.dtype,
        device: torch.device,
        size: Point,
        element: Element,
        *operands: Tensor,
        stride: Point | None = None,
    ) -> Tensor:
        """A tensor that is computed from `operands`, element by element."""
        reads = operands[0].reads if len(operands) == 1 else frozenset().union(*(t.reads for t in operands))
        return Tensor(dtype, device, size, element, reads, 1 + sum(t.weight for t in operands), stride)

    def view(self, of: Tensor, size: Point, reindex: Callable[[Point], Point], restride: Restride | None) -> Tensor:
        """A view: `reindex` maps its points to those of `of`, `restride` the layout of `of` to its own."""
        return Tensor(
            of.dtype, of.device, size, lambda point: of.at(reindex(point)), of.reads, of.weight,
            base=of, restride=restride,
        )  # fmt: skip

    def stored(self, buffer: ir.Buffer) -> Tensor:
        """A tensor that is all of `buffer`."""
        self.buffers[buffer.name] = buffer
        layout = buffer.layout
        tensor = Tensor(layout.dtype, layout.device, layout.size, _no_element, stride=layout.stride)
        tensor.put(ir.View(buffer.name, layout), self.load)
        return tensor

    def root(self, buffer: str) -> str:
        """The buffer whose memory this one is in."""
        while (of := self.buffers[buffer].alias_of) is not None:
            buffer = of
        return buffer

    def is_given(self, buffer: str) -> bool:
        """Whether its memory is the caller's, or a captured tensor's."""
        return self.buffers[self.root(buffer)].kind in ("input", "constant")

    def load(self, place: ir.View, point: Point) -> ir.Expr:
        """The element of a tensor in memory."""
        index = self.indexing.linear(point, place.layout.stride, place.layout.offset)
        return ir.Load(computing_dtype(place.layout.dtype), origins(), place.buffer, index, self.values_behind(index))

    def values_behind(self, index: ir.Size) -> tuple[tuple[sympy.Symbol, ir.Expr], ...]:
        """(symbol, value) for each symbol of the index that is computed from data, in the order of their making."""
        if not self.indirect:
            return ()
        used = index.free_symbols
        return tuple((symbol, value) for symbol, value in self.indirect.items() if symbol in used)

    def behind(self, value: ir.Expr, size: ir.Size) -> sympy.Symbol:
        """A symbol for an index into `size` that is computed from data; the same for the same value."""
        if value not in self._symbols:
            self._symbols[value] = symbol = self.indexing.symbol("at", size)
            self.indirect[symbol] = value
        return self._symbols[value]

    # Memory

    def realize(self, tensor: Tensor, why: str, detail: str = "", *, exact: bool = False) -> ir.View:
        """Put the tensor in memory, with the strides it has in eager where those are dense, or are wanted exactly."""
        if not tensor.in_memory():
            apart = exact and tensor.stride is not None and self.are_disjoint(tensor.size, tensor.stride)
            stride = tensor.stride if apart else self.dense(tensor.size, tensor.stride)
            assert stride is not None
            layout = ir.Layout(tensor.dtype, tensor.device, tensor.size, stride)
            if tensor.device == self.device:
                made = self.loop(layout, lambda outer, _: tensor.at(outer), Why(why, detail), cause=tensor.origins)
            else:
                made = self._elsewhere(tensor, layout)
            tensor.put(ir.View(made.name, layout), self.load)
        assert tensor.place is not None
        return tensor.place

    def _elsewhere(self, tensor: Tensor, layout: ir.Layout) -> ir.Buffer:
        """A number as a tensor on a device that no loop runs on. Raises Unsupported for what needs computing."""
        value = tensor.at(tensor.size) if not tensor.size else None
        if not isinstance(value, ir.Const):
            raise Unsupported(Why(reasons.OTHER_DEVICE, f"{layout} on {tensor.device}"))
        with origin(*tensor.origins):
            facts = (("dtype", tensor.dtype), ("device", tensor.device))
            why = Why(reasons.OTHER_DEVICE, str(tensor.device))
            return self.made(layout, why, torch.ops.aten.full.default, ((), value.value), facts)

    def dense(self, size: Point, wanted: Point | None) -> Point:
        """The wanted strides where no other elements are between those of the tensor; else those of a tensor with its
        dimensions in the same order, which operators lay their results out by, or contiguous ones where dimensions are
        expanded."""
        if wanted is None:
            return contiguous(size)
        if any(n == 0 for n in size):
            return wanted
        of = dict(enumerate(wanted))
        if any(size[d] != 1 and stride == 0 for d, stride in of.items()):
            return contiguous(size)
        expected: ir.Size = integer(1)
        for place in sorted(of, key=lambda d: (self.weight(wanted[d]), self.weight(size[d]), -d)):
            if size[place] != 1:
                of[place] = wanted[place] if equal(wanted[place], expected) else expected
                expected = expected * size[place]
        return tuple(of.values())

    def are_disjoint(self, size: Point, stride: Point) -> bool:
        """Whether no two elements share a place, as far as the sizes tell."""
        reach = ZERO
        for place in sorted(range(len(size)), key=lambda d: self.weight(stride[d])):
            if size[place] != 1:
                if not self.sizes.proven(sympy.expand(stride[place] - reach) > 0):
                    return False
                reach = reach + stride[place] * (size[place] - 1)
        return ZERO not in size

    def memory(self, tensor: Tensor, why: str, *, exact: bool = False) -> ir.View:
        """Where the tensor is in memory, putting it there first. A view of a computed value is taken of the value's
        memory, unless the view is much smaller. `exact`: with eager's strides, and with gaps between the elements where
        eager has them and `why` asks for them."""
        gaps = exact and why in (reasons.OUTPUT, reasons.LIBRARY_VIEW)
        if not tensor.in_memory():
            base = tensor.base
            if base is not None and tensor.restride is not None:
                if exact or 2 * self.weight(tensor.numel) > self.weight(base.numel):
                    self.memory(base, why, exact=exact)
            if not tensor.in_memory():
                copied = base is not None and tensor.restride is None
                self.realize(tensor, reasons.LAYOUT if copied else why, exact=gaps)
        assert tensor.place is not None
        stride = tensor.place.layout.stride
        if not exact or tensor.stride is None:
            return tensor.place
        if same_strides(tensor.size, stride, tensor.stride):  # those of dimensions of size 1 place no element
            return replace(tensor.place, layout=replace(tensor.place.layout, stride=tensor.stride))
        if not gaps and same_strides(tensor.size, stride, self.dense(tensor.size, tensor.stride)):
            return tensor.place
        if tensor.dtype not in LOOP_DTYPES:
            made = self._copied(tensor.place, self.dense(tensor.size, tensor.stride))
        else:
            copy = Tensor(tensor.dtype, tensor.device, tensor.size, tensor.at, tensor.reads, stride=tensor.stride)
            made = self.realize(copy, reasons.LAYOUT, "eager's strides", exact=gaps)
        if why == reasons.LIBRARY_VIEW and not same_strides(tensor.size, made.layout.stride, tensor.stride):
            raise Unsupported(Why(reasons.PAST_ELEMENTS, f"a view of strides {tensor.stride} by {tensor.size}"))
        return made

    def _copied(self, place: ir.View, stride: Point) -> ir.View:
        """A copy with these strides, which are dense, made by the library."""
        layout = place.layout
        order = sorted(range(len(stride)), key=lambda d: -self.weight(stride[d]))
        size, turned = ([each[d] for d in order] for each in (layout.size, layout.stride))
        given = ir.View(place.buffer, replace(layout, size=tuple(size), stride=tuple(turned)))
        why = Why(reasons.LAYOUT, "eager's strides")
        to = replace(given.layout, stride=contiguous(size), offset=ZERO)
        kwargs = (("memory_format", torch.contiguous_format),)
        made = self.made(to, why, torch.ops.aten.clone.default, (given,), kwargs)
        return ir.View(made.name, replace(to, size=layout.size, stride=stride))

    # Operations

    def loop(
        self,
        layout: ir.Layout,
        body: Body,
        why: Why,
        *,
        over: Point | None = None,
        reduced: Point = (),
        combine: ir.Combine | None = None,
        index: Callable[[Point], ir.Size] | None = None,
        store: Literal["set", "add", "max", "min", "prod"] = "set",
        alias_of: str | None = None,
        cause: Origins = (),
        names: tuple[str, str] = ("buf", "r"),
    ) -> ir.Buffer:
        """Write a loop over the points of `over` (the buffer's own, unless it scatters) and return its new buffer.

        Axes go from the largest stride to the smallest, without those of size 1, split where a view takes them apart.
        """
        over = layout.size if over is None else over
        order = range(len(over))
        if index is None:
            order = sorted(order, key=lambda d: -self.weight(layout.stride[d]))  # type: ignore[assignment]
        outer = {d: self.indexing.axis("i", d, over[d]) for d in order if over[d] != 1}
        inner = {d: self.indexing.axis(names[1], d, n) for d, n in enumerate(reduced) if n != 1}
        point = tuple(outer[d].symbol if d in outer else ZERO for d in range(len(over)))
        within = tuple(inner[d].symbol if d in inner else ZERO for d in range(len(reduced)))
        axes, reduced_axes = tuple(outer.values()), tuple(inner.values())
        with origin(*(cause or origins())):
            value = body(point, within)
            if parts := split_axes((*axes, *reduced_axes), value, self.indexing):
                join = {symbol: row_major(split).expr() for symbol, split in parts.items()}
                point, within = (tuple(join.get(i, i) for i in each) for each in (point, within))
                axes, reduced_axes = (
                    tuple(part for axis in each for part in parts.get(axis.symbol, (axis,)))
                    for each in (axes, reduced_axes)
                )
                value = body(point, within)
            if ZERO in reduced:  # else what no axis changes would be read before the loop, from a tensor without it
                value = constant(0, value.dtype)
            where = self.indexing.linear(point, layout.stride, layout.offset) if index is None else index(point)
            places = self.values_behind(where)
            value, *behind = ir.merged((value, *(place for _, place in places)))
            indirect = tuple((symbol, place) for (symbol, _), place in zip(places, behind, strict=True))
            causes = union(origins(), ir.all_origins(value, *behind))
            buffer = ir.Buffer(self.name(names[0]), layout, "loop", origins(), alias_of, why)
        self.buffers[buffer.name] = buffer
        self.operations.append(
            ir.Loop(buffer, axes, value, where, reduced_axes, combine, store, indirect, causes)
        )  # fmt: skip
        return buffer

    def check(self, index: Tensor, element: Element, what: str) -> None:
        """A loop that makes the checks in `element` for every element of an index tensor. What reads the result of
        indexing may drop some: those of rows that a slice leaves out, or all of a constant's."""
        point = tuple(self.indexing.axis("c", d, n).symbol for d, n in enumerate(index.size))
        if isinstance(element(point), ir.Check):
            layout, why = ir.Layout(torch.int64, index.device, (), ()), Why(reasons.CHECK, what)
            made = self.loop(
                layout, lambda _, at: element(at), why, reduced=index.size, combine="max", names=("check", "c")
            )
            self.checks.add(made.name)

    def made(
        self, layout: ir.Layout, why: Why, target: Callable[..., object], args: tuple[object, ...],
        kwargs: tuple[tuple[str, object], ...] = (),
    ) -> ir.Buffer:  # fmt: skip
        """A buffer that a library call makes."""
        made = ir.Buffer(self.name("buf"), layout, "extern", origins(), None, why)
        self.buffers[made.name] = made
        self.extern(target, args, kwargs, (made,), why, returns_tuple=False)
        return made

    def extern(
        self,
        target: Callable[..., Any],
        args: tuple[object, ...],
        kwargs: tuple[tuple[str, Any], ...],
        outputs: tuple[ir.Buffer | None, ...],
        why: Why,
        **facts: Any,
    ) -> ir.Extern:
        """Write a library call; the args hold Views."""
        made = ir.Extern(self.name("call"), target, args, kwargs, outputs, why=why, origins=origins(), **facts)
        self.operations.append(made)
        return made


def shape(like: torch.Tensor) -> Point:
    """The sizes of a fake tensor. One that a guard says is 1, as `s0 - (s0 + 1)//2` may be, is the number 1: operators
    drop or expand such dimensions."""
    return tuple(ONE if _is_one(n) else integer(n) for n in like.shape)


def _is_one(size: int | torch.SymInt) -> bool:
    """For expressions over symbols: torch puts the number for a symbol that is 1."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_Symbol and statically_known_true(size == 1)


def same_strides(size: Point, one: Point, other: Point) -> bool:
    """Whether two strides place the elements of `size` equally."""
    if any(n == 0 for n in size):
        return True
    return all(n == 1 or equal(a, b) for n, a, b in zip(size, one, other, strict=True))


def _no_element(point: Point) -> ir.Expr:
    raise AssertionError("a tensor in memory is loaded")
