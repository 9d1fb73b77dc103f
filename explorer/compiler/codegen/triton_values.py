"""Values of a kernel as lines of Triton: the tile's indices and masks, and each scalar expression computed once.

Inductor: codegen/triton.py, TritonKernel (load, indexing, CSE).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import sympy
import torch

from explorer.compiler.codegen.exprs import ATOM, PRODUCT, index_text
from explorer.compiler.codegen.kernel import KernelBody, Reduced
from explorer.compiler.codegen.triton_exprs import apply_text, cast, literal, pointer_type, type_name, typed
from explorer.compiler.codegen.triton_tiling import Dim, Tiling, accesses
from explorer.core.origin import Origins, union
from explorer.ir.loops import Apply, Cast, Check, Const, Expr, IndexValue, Load, Masked, Size, children
from explorer.ir.program import Argument, LoopRole
from explorer.ir.scalar import HALVES, INFIX

Roles = frozenset[LoopRole]
"""Directions of the tile."""


@dataclass(frozen=True, slots=True)
class TileValue:
    """The text of a computed value and the dimensions of the tile along which it varies (it has size 1 in others)."""

    text: str
    dims: Roles = frozenset()
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class MaskCondition:
    """Where the value of a Masked is evaluated: the tile's dimensions that decide it, and the name of the condition
    around it ("" where there is none), which includes it."""

    dims: Roles
    around: str


NONE: Roles = frozenset()
ROWS: Roles = frozenset({"row"})
LITERAL = (torch.float32, torch.int32, torch.int64, torch.bool)
"""Dtypes whose constants keep their value and meaning as Python literals beside a tensor."""


@dataclass
class Pending:
    """A line whose origins may still grow."""

    depth: int
    text: str
    origins: Origins


@dataclass
class TritonValues:
    """Writes values at the current depth. A subclass supplies what a reduction's result is read from."""

    body: KernelBody
    tiling: Tiling
    dtypes: Mapping[str, torch.dtype]
    wide: bool
    numbers: frozenset[str] = frozenset()
    """Buffers on the host, whose one element is given as a number."""
    lines: list[Pending] = field(default_factory=list)
    depth: int = 1
    cause: Origins = ()
    scopes: list[dict[tuple[Expr, str], TileValue]] = field(default_factory=lambda: [{}])
    conditions: dict[str, MaskCondition] = field(default_factory=dict)
    pointers: dict[str, Argument] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, sympy.Symbol] = field(default_factory=dict)
    names: int = 0
    asserts: bool = False
    masks: dict[LoopRole, str] = field(default_factory=dict)
    """The mask of each dimension that needs one."""

    def __post_init__(self) -> None:
        self.cause = self.body.kernel.ids
        self.dims = {dim.role: dim for dim in self.tiling.dims}
        self.axes = frozenset(symbol for dim in self.tiling.dims for symbol in dim.symbols)
        used = [*accesses(self.body), *(value.index for value in self.body.values if isinstance(value, IndexValue))]
        self.flat = {index: self.flatten(index) for index in used}
        self.used_axes = frozenset[sympy.Symbol]().union(*(index.free_symbols for index in self.flat.values()))

    # Lines

    def line(self, text: str, causes: Origins = ()) -> None:
        self.lines.append(Pending(self.depth, text, causes or self.cause))

    def name(self, text: str, causes: Origins = ()) -> str:
        made = f"tmp{self.names}"
        self.names += 1
        self.line(f"{made} = {text}", causes)
        return made

    @contextmanager
    def indented(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self.depth += 1
        self.scopes.append({})
        before = dict(self.conditions)
        yield
        self.conditions = before
        self.scopes.pop()
        self.depth -= 1

    # The tile

    def dim(self, dim: Dim, index: str) -> None:
        """The indices along one dimension, its axes, and its mask where blocks do not divide it."""
        name = dim.name
        if self.wide and dim.role == "reduced":
            index += ".to(tl.int64)"
        if len(self.dims) == 2:
            place = "[:, None]" if dim.role == "row" else "[None, :]"
            head, plus, arange = index.rpartition(" + ")
            index = f"{head}{plus}{arange}{place}"
        self.line(f"{name}index = {index}")
        if not divides(dim.numel, dim.block):
            self.line(f"{name}mask = {name}index < {name}numel")
            self.masks[dim.role] = f"{name}mask"
        self.split_axes(dim)

    def split_axes(self, dim: Dim) -> None:
        below = sympy.S.One
        lines = []
        for position, axis in reversed(list(enumerate(dim.axes))):
            if axis.symbol in self.used_axes:
                text = f"{dim.name}index"
                if below != 1:
                    text = f"{text} // {self.size(below, PRODUCT + 1)}"
                if position > 0:
                    text = f"({text})" if below != 1 else text
                    text = f"{text} % {self.size(axis.size, PRODUCT + 1)}"
                lines.append(f"{axis.symbol} = {text}")
            below = below * axis.size
        for text in reversed(lines):
            self.line(text)

    def flatten(self, index: Size) -> Size:
        """`index` with the axes of a dimension replaced by its linear index where they move through memory as one."""
        for dim in self.tiling.dims:
            if not dim.axes or dim.axes[-1].symbol not in index.free_symbols:
                continue
            coefficient = sympy.expand(index).coeff(dim.axes[-1].symbol)
            rest, stride = sympy.expand(index), sympy.S.One
            for axis in reversed(dim.axes):
                rest -= coefficient * stride * axis.symbol
                stride = stride * axis.size
            rest = sympy.expand(rest)
            if not coefficient.free_symbols & self.axes and rest.free_symbols.isdisjoint(dim.symbols):
                index = rest + coefficient * dim.index
        return index

    def size(self, size: Size, within: int = 0) -> str:
        """A size expression; the symbols in it become arguments."""
        size = sympy.sympify(size)
        for symbol in size.free_symbols:
            self.sizes[symbol.name] = symbol
            self.types[symbol.name] = "i64"
        return index_text(size, "triton", None, within)

    def index(self, index: Size, indirect: Mapping[sympy.Symbol, TileValue], wide: bool = False) -> TileValue:
        """An index, with the dimensions along which it varies. `wide` computes it in 64 bits."""
        index = self.flat[index]
        dims = set[LoopRole]()
        names = {symbol: value.text for symbol, value in indirect.items()}
        for symbol in index.free_symbols:
            owners = [role for role, dim in self.dims.items() if symbol in dim.symbols or symbol == dim.index]
            if symbol in indirect:
                dims |= indirect[symbol].dims
            elif owners:
                dims.add(owners[0])
                if wide and not self.wide:
                    names[symbol] = f"{symbol}.to(tl.int64)"
            else:
                self.sizes[symbol.name] = symbol
                self.types[symbol.name] = "i64"
        return TileValue(index_text(index, "triton", names), frozenset(dims))

    def mask(self, dims: Roles, condition: str = "") -> str:
        parts = [self.masks[dim] for dim in self.dims if dim in dims and dim in self.masks]
        return " & ".join([*parts, *([condition] if condition else [])])

    def zeros(self, dims: Roles) -> str:
        """A block of index 0 with the tile's extent along `dims`."""
        return f"tl.full({self.shape(dims)}, 0, tl.int32)"

    def shape(self, dims: Roles) -> str:
        extents = [dim.parameter if role in dims else "1" for role, dim in self.dims.items()]
        return f"[{', '.join(extents)}]"

    def typed(self, value: int | float | bool, dtype: torch.dtype) -> str:
        return typed(value, dtype, len(self.dims))

    def pointer(self, buffer: str, dtype: torch.dtype, written: bool) -> str:
        if buffer not in self.pointers:
            kind = "out" if written else "in"
            name = f"{kind}{sum(argument.name.startswith(kind) for argument in self.pointers.values())}"
            self.pointers[buffer] = Argument(name, buffer=buffer, written=written)
            self.types[name] = pointer_type(dtype)
        elif written and not self.pointers[buffer].written:
            self.pointers[buffer] = replace(self.pointers[buffer], written=True)
        return self.pointers[buffer].name

    # Values

    def value(self, root: Expr, condition: str = "") -> TileValue:
        """Emit what `root` needs and is not there yet. `condition` names the mask under which it is evaluated."""
        stack = [root]
        while stack:
            expr = stack[-1]
            if self._known(expr, condition) is not None:
                stack.pop()
                continue
            needs = (expr.condition, expr.other) if isinstance(expr, Masked) else children(expr)
            missing = [child for child in needs if self._known(child, condition) is None]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            self.scopes[-1][expr, condition] = self._emit(expr, condition)
        found = self._known(root, condition)
        assert found is not None
        return found

    def causes(self, expr: Expr) -> Origins:
        """A value's origins, with those of the constants that its line spells out."""
        spelled = (self.body.origins[child] for child in children(expr) if isinstance(child, Const))
        return union(self.body.origins[expr], *spelled)

    def _known(self, expr: Expr, condition: str) -> TileValue | None:
        """The value of `expr` where it was computed already, under this condition or one that includes it."""
        while True:
            for scope in reversed(self.scopes):
                if (expr, condition) in scope:
                    return scope[expr, condition]
            if not condition:
                return None
            condition = self.conditions[condition].around

    def _get(self, expr: Expr, condition: str) -> TileValue:
        found = self._known(expr, condition)
        assert found is not None
        return found

    def _emit(self, expr: Expr, condition: str) -> TileValue:
        causes = self.causes(expr)
        below = [self._get(child, condition) for child in children(expr)] if not isinstance(expr, Masked) else []
        dims = NONE.union(*(value.dims for value in below))
        match expr:
            case Const(value=number):
                if expr.dtype in LITERAL:
                    return TileValue(literal(number, expr.dtype), NONE, is_literal=True)
                return TileValue(self.name(self.typed(number, expr.dtype), causes))
            case IndexValue(index=index):
                return self._index_value(index, expr.dtype, causes)
            case Load():
                return self._load(expr, condition, causes)
            case Cast(value=value, to=to):
                text = cast(self.operand(below[0], value), value.dtype, to)
                return below[0] if text == below[0].text else TileValue(self.name(text, causes), dims)
            case Apply(op=op, args=args):
                operands = tuple(self.operand(v, arg) for v, arg in zip(below, args, strict=True))
                if op in INFIX and sum(v.is_literal for v in below) == 1:
                    operands = tuple(v.text for v in below)
                if op == "where" and below[1].is_literal != below[2].is_literal:
                    operands = (operands[0], below[1].text, below[2].text)
                return TileValue(self.name(apply_text(op, args[-1].dtype, operands), causes), dims)
            case Check():
                return self._check(expr, below[0], condition, causes)
            case Masked(condition=test, value=value, other=other):
                return self._masked(expr, test, value, other, condition, causes)
            case Reduced():
                return self._join(expr)
        raise AssertionError(f"unknown expression {type(expr).__name__}")

    def _index_value(self, index: Size, dtype: torch.dtype, causes: Origins) -> TileValue:
        """An index as data: computed in 64 bits, since it need not be the position of anything in memory."""
        position = self.index(index, {}, wide=True)
        if not position.dims:
            return TileValue(self.name(f"tl.full({self.shape(NONE)}, {position.text}, {type_name(dtype)})", causes))
        text = position.text if dtype == torch.int64 else f"({position.text}).to({type_name(dtype)})"
        return TileValue(self.name(text, causes), position.dims)

    def operand(self, value: TileValue, expr: Expr) -> str:
        """A value as an operand that must carry its dtype."""
        return self.typed(expr.value, expr.dtype) if value.is_literal and isinstance(expr, Const) else value.text

    def _load(self, load: Load, condition: str, causes: Origins) -> TileValue:
        if load.buffer in self.numbers:
            text = f"tl.full({self.shape(NONE)}, {self._host_number(load)}, {type_name(load.dtype)})"
            return TileValue(self.name(text, causes))
        indirect = {symbol: self._get(value, condition) for symbol, value in load.indirect}
        position = self.index(load.index, indirect)
        dims = position.dims | (self.conditions[condition].dims if condition else NONE)
        stored = self.dtypes[load.buffer]
        pointer = self.pointer(load.buffer, stored, written=False)
        place = position.text
        if condition and dims != position.dims or condition and not dims:
            zeros = self.zeros(dims - position.dims)
            place = zeros if place == "0" else f"{place} + {zeros}"
        mask = self.mask(dims, condition)
        text = f"tl.load({pointer} + {f'({place})' if ' ' in place else place}{f', {mask}' if mask else ''})"
        if stored in HALVES:
            text += ".to(tl.float32)"
        return TileValue(self.name(text, causes), dims)

    def _host_number(self, load: Load) -> str:
        """The parameter that holds the element of a buffer on the host."""
        name = self.pointer(load.buffer, self.dtypes[load.buffer], written=False)
        self.types[name] = pointer_type(load.dtype).removeprefix("*")
        return name

    def _check(self, check: Check, value: TileValue, condition: str, causes: Origins) -> TileValue:
        """A position in range; outside it the card stops, as eager's own kernels do."""
        self.asserts = True
        text = self.operand(value, check.value)
        limit = self.size(check.size, ATOM)
        if check.wrap:
            text = self.name(f"tl.where({text} < 0, {text} + {limit}, {text})", causes)
        dims = value.dims | (self.conditions[condition].dims if condition else NONE)
        mask = self.mask(dims, condition)
        holds = f"(0 <= {text}) & ({text} < {limit})"
        if mask:
            holds = f"({holds}) | ~({mask})"
        what = check.what.replace('"', "'")
        self.line(f'tl.device_assert({holds}, "{what}: index out of bounds")', causes)
        return TileValue(text, value.dims)

    def _masked(self, expr: Masked, test: Expr, value: Expr, other: Expr, condition: str, causes: Origins) -> TileValue:
        holds = self._get(test, condition)
        otherwise = self._get(other, condition)
        inner = self.operand(holds, test)
        dims = holds.dims
        if condition:
            outer = self.conditions[condition]
            dims = dims | outer.dims
            inner = self.name(f"{inner} & {condition}", causes)
        self.conditions.setdefault(inner, MaskCondition(dims, condition))
        taken = self.value(value, inner)
        operands = [taken.text, otherwise.text]
        if taken.is_literal == otherwise.is_literal:
            operands = [self.operand(taken, value), self.operand(otherwise, other)]
        text = f"tl.where({holds.text}, {operands[0]}, {operands[1]})"
        return TileValue(self.name(text, causes), holds.dims | taken.dims | otherwise.dims)

    def _join(self, result: Reduced) -> TileValue:
        raise AssertionError(f"{result.loop} is read before its reduction is over")


def divides(numel: Size, block: int) -> bool:
    """Whether blocks cover a dimension exactly; not where there is nothing to cover."""
    numel = sympy.sympify(numel)
    return bool(numel.is_Integer and numel > 0 and int(numel) % block == 0)
