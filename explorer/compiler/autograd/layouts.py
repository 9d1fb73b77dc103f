"""How tensors lie in memory, in which dtype they are computed with, and their sizes: as graph nodes while tracing, and
as Python functions of the inputs at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from explorer.compiler.autograd import reasons
from explorer.core.reasons import Unsupported, Why
from explorer.ir.graph import info, stamp
from explorer.ir.index import hint, span
from explorer.ir.sizes import Operation, computed, example_values

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
    if not all(type(n) is int for n in like.stride()) or is_non_overlapping_and_dense_or_false(like):
        value = in_layout_of(like, value)
        if fixed and value.stride() != like.stride():
            value = aten.as_strided.default(value, like.shape, like.stride())
        return value
    size = [1 if step == 0 else n for n, step in zip(like.shape, like.stride(), strict=True)]
    if value.stride() == like.stride() or span(size, like.stride()) is None:
        return value
    for dim, n in enumerate(size):
        value = value if n == value.shape[dim] else aten.slice.Tensor(value, dim, 0, 1)
    length = 1 + sum((n - 1) * step for n, step in zip(size, like.stride(), strict=True))
    memory = aten.empty.memory_format([length], dtype=value.dtype, device=value.device)
    filled = aten.as_strided_scatter.default(memory, value, size, like.stride(), 0)
    made: Tensor = aten.as_strided.default(filled, like.shape, like.stride(), 0)
    return made


def same_strides(a: Tensor, b: Tensor) -> bool:
    """Equal strides wherever they say where an element lies (sizes above 1)."""
    return all(n == 1 or s == t for n, s, t in zip(a.shape, a.stride(), b.stride(), strict=True))


def stride_order(x: Tensor) -> list[int]:
    """Dimensions from the slowest to the fastest, as empty_like lays them out, which becomes a guard for symbolic
    strides; the natural order where only the graph knows them. Stock: infer_dense_strides, in C++."""
    order = list(range(x.dim()))
    if x.is_contiguous():
        return order
    strides, sizes = x.stride(), x.shape
    if is_non_overlapping_and_dense_or_false(x):
        return sorted(order, key=lambda d: (-strides[d], -sizes[d]))
    if any(map(has_free_unbacked_symbols, (*strides, *sizes))):
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


Symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
Place = tuple[int, Any, int]
"""Where a symbol is read: an input, the operator that reads it there (None: the input is the number), a dimension."""

_READ: dict[Any, Callable[[Any, int], Any]] = {
    None: lambda value, _: value,
    torch.ops.aten.sym_size.int: lambda value, dimension: value.shape[dimension],
    torch.ops.aten.sym_stride.int: lambda value, dimension: value.stride(dimension),
    torch.ops.aten.sym_storage_offset.default: lambda value, _: value.storage_offset(),
}


def expression(value: object) -> Any:
    """`value` as a number where it is one, else its sympy expression."""
    if not isinstance(value, Symbolic):
        return value
    if isinstance(value, torch.SymInt):
        known = value.node.maybe_as_int()
        if known is not None:
            return known
    return value.node.expr


def size_weight(value: int | torch.SymInt) -> int:
    """A number to compare costs by: the size in the example. It decides nothing that results depend on."""
    if isinstance(value, torch.SymInt):
        return hint(value.node.expr, example_values(value.node.shape_env))
    return int(value)


def places(inputs: Sequence[Any]) -> dict[Any, Place]:
    """Where each size symbol of the inputs (fake tensors and SymInts) can be read, sizes passed as such first."""
    found: dict[Any, Place] = {}
    tensors = [(index, value) for index, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    for read, number in _READ.items():
        for index, value in enumerate(inputs) if read is None else tensors:
            once = read in (None, torch.ops.aten.sym_storage_offset.default)
            for dimension in range(1 if once else value.dim()):
                size = number(value, dimension)
                if isinstance(size, Symbolic) and isinstance(size.node.expr, sympy.Symbol):
                    found.setdefault(size.node.expr, (index, read, dimension))
    return found


class SizeNodes:
    """Size expressions as nodes of the graph under construction, each made once, where it is first needed."""

    def __init__(self, graph: fx.Graph, inputs: Sequence[fx.Node]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._places = places([info(node).value for node in inputs])
        self._nodes: dict[Any, fx.Node] = {}
        """By symbol, or by function and arguments."""

    def bind(self, symbol: object, node: fx.Node) -> None:
        """`node` yields the value of `symbol`."""
        self._nodes[symbol] = node

    def node(self, value: object) -> fx.Node | int | float | bool:
        """The node that computes `value`, or the number it is known to be."""
        wanted = expression(value)
        if not isinstance(wanted, sympy.Basic):
            number: int | float | bool = wanted
            return number
        try:
            made: fx.Node = computed(wanted, self._symbol, self._call)
            return made
        except KeyError as unknown:
            raise Unsupported(Why(reasons.DATA_DEPENDENT, f"{unknown} of {wanted}")) from unknown

    def _call(self, function: Operation, args: Sequence[Any]) -> Any:
        if not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        key = (function, *((type(arg), arg) for arg in args))
        if key not in self._nodes:
            made = self._graph.call_function(function, tuple(args))
            value = function(*(info(arg).value if isinstance(arg, fx.Node) else arg for arg in args))
            self._nodes[key] = stamp(made, f"aten.{made.name}", value)
        return self._nodes[key]

    def _symbol(self, symbol: object) -> fx.Node:
        if symbol in self._nodes:
            return self._nodes[symbol]
        if symbol not in self._places:
            raise Unsupported(Why(reasons.DATA_DEPENDENT, f"no input gives {symbol}"))
        index, read, dimension = self._places[symbol]
        made = of = self._inputs[index]
        if read is not None:
            many = read is not torch.ops.aten.sym_storage_offset.default
            made = self._graph.call_function(read, (of, dimension) if many else (of,))
            stamp(made, f"aten.{made.name}", _READ[read](info(of).value, dimension), about=str(symbol))
        self._nodes[symbol] = made
        return made


def evaluator(wanted: Sequence[object], symbols: Mapping[object, Place]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from the captured graph's inputs to the values of `wanted` (numbers and sympy expressions)."""
    if not any(isinstance(value, sympy.Basic) for value in wanted):
        constants = list(wanted)
        return lambda inputs: constants

    needed = set().union(*(value.free_symbols for value in wanted if isinstance(value, sympy.Basic)))
    if unknown := needed - symbols.keys():
        raise Unsupported(Why(reasons.DATA_DEPENDENT, f"no input gives {unknown.pop()}"))
    read_at = {symbol: symbols[symbol] for symbol in needed}

    def evaluate(inputs: Sequence[object]) -> list[Any]:
        known = {symbol: _READ[read](inputs[index], place) for symbol, (index, read, place) in read_at.items()}
        return [computed(value, known.__getitem__, lambda function, args: function(*args)) for value in wanted]

    return evaluate
