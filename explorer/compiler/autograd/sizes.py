"""Size expressions: as graph nodes while tracing, and as Python functions of the inputs at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from explorer.compiler.autograd.reasons import DATA_DEPENDENT
from explorer.core.reasons import Unsupported, Why
from explorer.ir.graph import info, stamp
from explorer.ir.sizes import Operation, computed

Symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
Place = tuple[int, Any, int]
"""Where a symbol is read: an input, the operator that reads it there (None: the input is the number), a dimension."""

_READ: dict[Any, Callable[[Any, int], Any]] = {
    None: lambda value, _: value,
    torch.ops.aten.sym_size.int: lambda value, dimension: value.shape[dimension],
    torch.ops.aten.sym_stride.int: lambda value, dimension: value.stride(dimension),
    torch.ops.aten.sym_storage_offset.default: lambda value, _: value.storage_offset(),
}


def expression(value: Any) -> Any:
    """`value` as a number where it is one, else its sympy expression."""
    if not isinstance(value, Symbolic):
        return value
    if isinstance(value, torch.SymInt):
        known = value.node.maybe_as_int()
        if known is not None:
            return known
    return value.node.expr


def size_weight(value: Any) -> int:
    """A number to compare costs by: the size in the example. It decides nothing that results depend on."""
    if isinstance(value, torch.SymInt):
        return int(value.node.hint) if value.node.has_hint() else 64
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

    def node(self, value: Any) -> fx.Node | int | float | bool:
        """The node that computes `value`, or the number it is known to be."""
        wanted = expression(value)
        if not isinstance(wanted, sympy.Basic):
            number: int | float | bool = wanted
            return number
        try:
            made: fx.Node = computed(wanted, self._symbol, self._call)
            return made
        except KeyError as unknown:
            raise Unsupported(Why(DATA_DEPENDENT, f"{unknown} of {wanted}")) from unknown

    def _call(self, function: Operation, args: Sequence[Any]) -> Any:
        if not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        key = (function, *((type(arg), arg) for arg in args))
        if key not in self._nodes:
            made = self._graph.call_function(function, tuple(args))
            value = function(*(info(arg).value if isinstance(arg, fx.Node) else arg for arg in args))
            self._nodes[key] = stamp(made, f"aten.{made.name}", value)
        return self._nodes[key]

    def _symbol(self, symbol: Any) -> fx.Node:
        if symbol in self._nodes:
            return self._nodes[symbol]
        if symbol not in self._places:
            raise Unsupported(Why(DATA_DEPENDENT, f"{symbol} is the size of no input"))
        index, read, dimension = self._places[symbol]
        made = of = self._inputs[index]
        if read is not None:
            many = read is not torch.ops.aten.sym_storage_offset.default
            made = self._graph.call_function(read, (of, dimension) if many else (of,))
            stamp(made, f"aten.{made.name}", _READ[read](info(of).value, dimension), about=str(symbol))
        self._nodes[symbol] = made
        return made


def evaluator(wanted: Sequence[Any], symbols: Mapping[Any, Place]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from the captured graph's inputs to the values of `wanted` (numbers and sympy expressions)."""
    if not any(isinstance(value, sympy.Basic) for value in wanted):
        constants = list(wanted)
        return lambda inputs: constants

    needed = set().union(*(value.free_symbols for value in wanted if isinstance(value, sympy.Basic)))
    if unknown := needed - symbols.keys():
        raise Unsupported(Why(DATA_DEPENDENT, f"{unknown.pop()} is the size of no input"))
    read_at = {symbol: symbols[symbol] for symbol in needed}

    def evaluate(inputs: Sequence[Any]) -> list[Any]:
        known = {symbol: _READ[read](inputs[index], place) for symbol, (index, read, place) in read_at.items()}
        return [computed(value, known.__getitem__, lambda function, args: function(*args)) for value in wanted]

    return evaluate
