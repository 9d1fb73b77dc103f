"""The oracles: a graph run node by node, and lowered graphs with each loop as vectorized torch operations over its grid
of points, nothing clever."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import FloorDiv, Max, Min, ModularIndexing

from explorer.ir.graph import Graph
from explorer.ir.loops import (
    Apply,
    Buffer,
    Cast,
    Check,
    Const,
    Expr,
    Extern,
    IndexValue,
    Layout,
    Load,
    Loop,
    Loops,
    Masked,
    Size,
    View,
)
from explorer.ir.scalar import OPS
from explorer.records.check.search import arguments, call_node


def run_graph(graph: Graph, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run the graph node by node on real inputs (tensors and sizes); what its output node returns."""
    values: dict[fx.Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            values[node] = graph.constants[str(node.target)]
        elif node.op not in ("placeholder", "output"):
            values[node] = call_node(node, *arguments(node, values))
    return tuple(values[value] if isinstance(value, fx.Node) else value for value in graph.outputs)


def run_loops(loops: Loops, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run on real inputs, one for each placeholder; updated inputs are updated. Raises IndexError as `Check` says."""
    with torch.no_grad():
        return Run(loops, inputs).run()


@dataclass
class Memory:
    """A whole storage as a flat tensor, and where position 0 of the buffer is in it."""

    flat: torch.Tensor
    start: int = 0

    def view(self, size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
        return torch.as_strided(self.flat, size, stride, self.start + offset)


class Run:
    """One execution: the memory of each buffer, and the values of the size symbols."""

    def __init__(self, loops: Loops, inputs: Sequence[Any]) -> None:
        self.loops = loops
        self.sizes: dict[sympy.Symbol, Any] = {}
        self.memory: dict[str, Memory] = {}
        self.given: dict[str, torch.Tensor] = {}
        values = [*inputs, *loops.constants.values()]
        for entry, value in zip(loops.inputs, values, strict=True):
            if isinstance(entry, Buffer):
                self.given[entry.name] = value
                self.memory[entry.name] = storage_of(value)
                layout = (*entry.layout.size, *entry.layout.stride)
                for size, number in zip(layout, (*value.shape, *value.stride()), strict=True):
                    self._bind(size, number)
            else:
                self._bind(entry, value)

    def _bind(self, size: Size, value: Any) -> None:
        if size.is_Symbol:
            self.sizes[size] = value

    def run(self) -> tuple[Any, ...]:
        for operation in self.loops.operations:
            if isinstance(operation, Extern):
                self.call(operation)
            else:
                self._loop(operation)
        return tuple(self._output(value) for value in self.loops.outputs)

    def size(self, value: Size) -> int:
        return int(_evaluate(value, self.sizes))

    def tensor(self, view: View) -> torch.Tensor:
        given = self.given.get(view.buffer)
        size, stride, offset = self._numbers(view.layout)
        if given is not None and offset == 0 and tuple(given.shape) == size and given.stride() == stride:
            return given
        return self.memory[view.buffer].view(size, stride, offset)

    def _numbers(self, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        return tuple(map(self.size, layout.size)), tuple(map(self.size, layout.stride)), self.size(layout.offset)

    def _output(self, value: Any) -> Any:
        if isinstance(value, View):
            return self.tensor(value)
        return _number(_evaluate(value, self.sizes)) if isinstance(value, sympy.Basic) else value

    def allocate(self, buffer: Buffer) -> torch.Tensor:
        if buffer.alias_of is not None:
            self.memory[buffer.name] = self.memory[buffer.alias_of]
        else:
            size, stride, _ = self._numbers(buffer.layout)
            made = torch.empty_strided(size, stride, dtype=buffer.layout.dtype, device=buffer.layout.device)
            self.memory[buffer.name] = storage_of(made)
        return self.tensor(View(buffer.name, buffer.layout))

    # Library calls

    def call(self, call: Extern) -> None:
        args = tuple(self.argument(arg) for arg in call.args)
        kwargs = {name: self.argument(value) for name, value in call.kwargs}
        if call.out:
            (into,) = call.writes
            call.overload(*args, **kwargs, out=self.allocate(into))
            return
        made = call.target(*args, **kwargs)
        for buffer, result in zip(call.outputs, made if call.returns_tuple else (made,), strict=True):
            if buffer is None:
                continue
            size, stride, _ = self._numbers(buffer.layout)
            assert tuple(result.shape) == size, f"{call.target} made {tuple(result.shape)}, not {size}"
            assert result.dtype == buffer.layout.dtype, f"{call.target} made {result.dtype}, not {buffer.layout.dtype}"
            if result.stride() != stride:
                result = torch.empty_strided(size, stride, dtype=result.dtype, device=result.device).copy_(result)
            self.memory[buffer.name] = storage_of(result)

    def argument(self, value: Any) -> Any:
        if isinstance(value, View):
            return self.tensor(value)
        if isinstance(value, tuple):
            return [self.argument(item) for item in value]
        return _number(_evaluate(value, self.sizes)) if isinstance(value, sympy.Basic) else value

    # Loops

    def _loop(self, loop: Loop) -> None:
        self.allocate(loop.buffer)
        self.compute(Grid(self, loop))

    def compute(self, grid: Grid) -> None:
        """Compute and store the elements of a loop at the points of a grid."""
        loop = grid.loop
        outer, reduced = grid.shape[: len(loop.axes)], grid.shape[len(loop.axes) :]
        value = grid.value(loop.value, None).expand(grid.shape)
        if loop.combine is not None:
            value = _COMBINE[loop.combine](value.reshape(*outer, math.prod(reduced)))
        index = grid.index(loop.index, loop.indirect, None)
        index = index.expand((*outer, *(1 for _ in reduced))).reshape(outer)
        flat, start = self.memory[loop.id].flat, self.memory[loop.id].start
        position, new = (index + start).reshape(-1), value.to(flat.dtype).reshape(-1)
        if loop.store == "set":
            flat[position] = new
        else:
            flat.scatter_reduce_(0, position, new, _STORE[loop.store])


@dataclass
class Grid:
    """All points of a loop at once: each axis is a dimension. `window` narrows the first axis to a range of it."""

    run: Run
    loop: Loop
    window: slice | None = None
    shape: tuple[int, ...] = ()
    symbols: dict[sympy.Symbol, Any] = field(default_factory=dict)
    done: dict[tuple[Expr, int], torch.Tensor] = field(default_factory=dict)
    masks: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        axes = (*self.loop.axes, *self.loop.reduced)
        points = [torch.arange(self.run.size(axis.size)) for axis in axes]
        if axes:
            points[0] = points[0][self.window or slice(None)]
        self.shape = tuple(map(len, points))
        self.symbols = dict(self.run.sizes)
        for place, (axis, values) in enumerate(zip(axes, points, strict=True)):
            self.symbols[axis.symbol] = values.reshape([-1 if d == place else 1 for d in range(len(axes))])

    def index(
        self, index: Size, indirect: tuple[tuple[sympy.Symbol, Expr], ...], mask: torch.Tensor | None
    ) -> torch.Tensor:
        symbols = self.symbols | {symbol: self.value(value, mask) for symbol, value in indirect}
        return torch.as_tensor(_evaluate(index, symbols), dtype=torch.int64)

    def value(self, expr: Expr, mask: torch.Tensor | None) -> torch.Tensor:
        """The value at every point where the mask holds (anything elsewhere)."""
        key = (expr, id(mask))
        if key not in self.done:
            self.done[key] = self._value(expr, mask)
        return self.done[key]

    def _value(self, expr: Expr, mask: torch.Tensor | None) -> torch.Tensor:
        match expr:
            case Const(value=value):
                return torch.tensor(value, dtype=expr.dtype)
            case IndexValue(index=index):
                return self.index(index, (), mask).to(expr.dtype)
            case Load(buffer=name, index=index, indirect=indirect):
                memory = self.run.memory[name]
                position = self.index(index, indirect, mask) + memory.start
                if mask is not None:
                    position = torch.where(mask, position, 0)
                if position.numel() and not memory.flat.numel():
                    return torch.zeros(position.shape, dtype=expr.dtype)
                return memory.flat[position].to(expr.dtype)
            case Cast(value=value, to=to):
                return self.value(value, mask).to(to).to(expr.dtype)
            case Apply(op=op, args=args):
                made = OPS[op].reference(*(self.value(arg, mask) for arg in args))
                assert made.dtype == expr.dtype, f"{op} made {made.dtype}, not {expr.dtype}"
                return made
            case Masked(condition=condition, value=value, other=other):
                holds = self.value(condition, mask)
                inside = holds if mask is None else holds & mask
                self.masks.append(inside)
                return torch.where(holds, self.value(value, inside), self.value(other, mask))
            case Check(value=value, size=size, what=what, wrap=wrap):
                index, n = self.value(value, mask), self.run.size(size)
                wrong = (index < (-n if wrap else 0)) | (index >= n)
                if bool((wrong if mask is None else wrong & mask).expand(self.shape).any()):
                    raise IndexError(f"{what}: index out of range for size {n}")
                return torch.where(index < 0, index + n, index) if wrap else index
        raise AssertionError(f"unknown expression {type(expr).__name__}")


def storage_of(tensor: torch.Tensor) -> Memory:
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return Memory(torch.as_strided(tensor, (count,), (1,), 0), int(tensor.storage_offset()))


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _evaluate(value: Any, symbols: dict[sympy.Symbol, Any]) -> Any:
    """An index or size for these values of its symbols: numbers, or tensors of all points at once."""
    if not isinstance(value, sympy.Basic):
        return value
    if value.is_Integer:
        return int(value)
    if value.is_Symbol:
        return symbols[value]
    if value.is_number:
        return float(value)
    args = [_evaluate(arg, symbols) for arg in value.args]
    if value.is_Add:
        return reduce(lambda a, b: a + b, args)
    if value.is_Mul:
        return reduce(lambda a, b: a * b, args)
    if isinstance(value, FloorDiv):
        return args[0] // args[1]
    if isinstance(value, ModularIndexing):
        return args[0] // args[1] % args[2]
    if value.is_Pow:
        return args[0] ** args[1]
    if isinstance(value, (Max, Min)) and any(isinstance(arg, torch.Tensor) for arg in args):
        choose = torch.maximum if isinstance(value, Max) else torch.minimum
        return reduce(choose, map(torch.as_tensor, args))
    # What else sizes are made of (Max of sizes, powers, divisions of floats) has no axis in it.
    found = value.func(*map(_number, args))
    return int(found) if found.is_integer else float(found)


def _xor_sum(value: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(value.shape[:-1], dtype=value.dtype)
    for part in value.unbind(-1):
        total = total ^ part
    return total


_COMBINE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda value: value.sum(-1, dtype=value.dtype),
    "prod": lambda value: value.prod(-1, dtype=value.dtype),
    "max": lambda value: value.amax(-1),
    "min": lambda value: value.amin(-1),
    "any": lambda value: value.any(-1),
    "all": lambda value: value.all(-1),
    "argmax": lambda value: value.to(_ordered(value.dtype)).argmax(-1),
    "argmin": lambda value: value.to(_ordered(value.dtype)).argmin(-1),
    "xor_sum": _xor_sum,
}
_STORE = {"add": "sum", "max": "amax", "min": "amin", "prod": "prod"}


def _ordered(dtype: torch.dtype) -> torch.dtype:
    """A dtype that argmax takes (it takes no bool)."""
    return torch.uint8 if dtype == torch.bool else dtype
