"""The values of a kernel as C++ statements: one line for each scalar operation, written where it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sympy
import torch

from explorer.compiler.codegen.cpp_scalar import CPP_TYPES, PRINTERS, apply_text, cast, cpp_type, literal, load, store
from explorer.compiler.codegen.exprs import PRODUCT, index_text
from explorer.compiler.codegen.kernel import Body, Reduced, Write
from explorer.core.origin import Origins, origin, union
from explorer.core.text import LineWriter
from explorer.ir.loops import (
    Apply,
    Buffer,
    Cast,
    Check,
    Const,
    Expr,
    IndexValue,
    Load,
    Masked,
    Size,
    children,
)
from explorer.ir.scalar import DIVIDES

ZERO_DIVISION = "ZeroDivisionError"
"""What eager says, as a RuntimeError, on an integer division by zero."""


@dataclass
class Parameters:
    """The kernel's parameters in order of first use. Names do not depend on buffers, so that equal layers have equal
    texts; a kernel that touches a buffer in two ways takes it once."""

    written: frozenset[str]
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[sympy.Symbol, None] = field(default_factory=dict)

    def pointer(self, buffer: str, dtype: torch.dtype) -> str:
        if buffer not in self.names:
            prefix = "out" if buffer in self.written else "in"
            self.names[buffer] = f"{prefix}{sum(name.startswith(prefix) for name in self.names.values())}"
            self.dtypes[buffer] = dtype
        return self.names[buffer]

    def order(self) -> list[str]:
        """The buffers in the order of their parameters: inputs, then outputs."""
        return sorted(self.names, key=lambda buffer: (self.names[buffer][0], int(self.names[buffer].strip("inout"))))

    def declarations(self) -> list[str]:
        found = []
        for buffer in self.order():
            const = "" if buffer in self.written else "const "
            found.append(f"{const}{cpp_type(self.dtypes[buffer])}* {self.names[buffer]}")
        return found + [f"long {symbol}" for symbol in sorted(self.sizes, key=str)]


@dataclass
class Values:
    """Writes a value's line where it is first asked for and gives its name afterwards.

    `stored` are names that later scopes take a value from: an array element, a row kept from an earlier pass.
    """

    body: Body
    buffers: dict[str, Buffer]
    writer: LineWriter
    parameters: Parameters
    axes: frozenset[sympy.Symbol]
    names: dict[Expr, str] = field(default_factory=dict)
    counter: int = 0
    errors: dict[tuple[type[Exception], str], int] = field(default_factory=dict)
    variables: set[sympy.Symbol] = field(default_factory=set)
    """Symbols of sizes and indices that the function itself declares."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names made inside are gone afterwards, as the C++ block's variables are."""
        outside = dict(self.names)
        try:
            yield
        finally:
            self.names = outside

    def index(self, index: Size, indirect: tuple[tuple[sympy.Symbol, Expr], ...] = (), within: int = 0) -> str:
        """An index as text; size symbols in it become parameters of the kernel."""
        names = {symbol: self.value(value) for symbol, value in indirect}
        for symbol in index.free_symbols - self.axes - names.keys() - self.variables:
            self.parameters.sizes[symbol] = None
        return index_text(index, "cpp", names, within)

    def element(self, buffer: str, index: Size, indirect: tuple[tuple[sympy.Symbol, Expr], ...] = ()) -> str:
        pointer = self.parameters.pointer(buffer, self.buffers[buffer].layout.dtype)
        return f"{pointer}[{self.index(index, indirect)}]"

    def loaded(self, element: str, buffer: str) -> str:
        """The computing value of an element of `buffer` that was copied elsewhere."""
        return load(element, self.buffers[buffer].layout.dtype)

    def value(self, value: Expr) -> str:
        """The name (or literal) of a value, after writing the lines that it needs."""
        if value not in self.names:
            if isinstance(value, Const):
                return literal(value.value, value.dtype)
            if isinstance(value, Masked):
                return self._masked(value)
            self.define(value, self._text(value))
        return self.names[value]

    def define(self, value: Expr, text: str, name: str | None = None) -> str:
        """Write `type name = text;` under the value's origins and remember the name."""
        name = name or self.fresh()
        with origin(*self.causes(value)):
            self.writer.line(f"{CPP_TYPES[value.dtype]} {name} = {text};")
        self.names[value] = name
        return name

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter - 1}"

    def causes(self, value: Expr) -> Origins:
        """A value's origins, with those of constants that its line spells out."""
        spelled = (self.body.origins[child] for child in children(value) if isinstance(child, Const))
        return union(self.body.origins[value], *spelled) or self.body.kernel.ids

    def write(self, write: Write, text: str) -> None:
        """Store a value that has been computed."""
        loop = write.loop
        target = self.element(loop.buffer.name, loop.index, write.indirect)
        dtype = loop.buffer.layout.dtype
        stored = store(text, dtype, isinstance(write.value, Cast) and write.value.to == dtype)
        with origin(*(self.body.origins[write.value] or loop.origins or (loop.id,))):
            if loop.store == "set":
                self.writer.line(f"{target} = {stored};")
                return
            old = load(target, dtype)
            joined = {
                "add": f"{old} + {text}" if dtype is not torch.bool else f"{old} | {text}",
                "prod": f"{old} * {text}",
                "max": apply_text("maximum", write.value.dtype, ["old", text]),
                "min": apply_text("minimum", write.value.dtype, ["old", text]),
            }[loop.store]
            if loop.store in ("max", "min"):
                name = self.fresh("old")
                self.writer.line(f"{CPP_TYPES[write.value.dtype]} {name} = {old};")
                joined = joined.replace("old", name)
            self.writer.line(f"{target} = {store(joined, dtype)};")

    def error(self, kind: type[Exception], message: str) -> int:
        """The bit of `bad` that stands for an error; kinds after the 30th share one."""
        return self.errors.setdefault((kind, message), min(len(self.errors), 30))

    def _text(self, value: Expr) -> str:
        match value:
            case IndexValue(index=index):
                text = self.index(index)
                return text if value.dtype is torch.int64 else f"({CPP_TYPES[value.dtype]})({text})"
            case Load(buffer=buffer, index=index, indirect=indirect):
                return load(self.element(buffer, index, indirect), self.buffers[buffer].layout.dtype)
            case Cast(value=operand, to=to):
                return cast(self.value(operand), operand.dtype, to)
            case Apply(op="where", args=(condition, *_)) if (
                value.dtype.is_floating_point and self._is_fixed(condition) and not PRINTERS.own("where")
            ):
                return f"fixed_where({', '.join(map(self.value, value.args))})"
            case Apply(op=op, args=args):
                operands = [self.value(arg) for arg in args]
                dtype = args[-1].dtype
                zero = 0
                if op in DIVIDES and not dtype.is_floating_point:
                    zero = self.error(RuntimeError, ZERO_DIVISION)
                return apply_text(op, dtype, operands, zero)
            case Check(value=operand, size=size, what=what):
                return self._checked(value, self.value(operand), size, what)
            case Reduced(loop=loop):
                raise AssertionError(f"{loop} is used before its reduction is over")
        raise AssertionError(f"unknown expression {type(value).__name__}")

    def _is_fixed(self, condition: Expr) -> bool:
        """Whether it is the same for all points of the innermost loop."""
        kernel = self.body.kernel
        axes = kernel.inner or kernel.outer
        return bool(axes) and axes[-1].symbol not in self.body.symbols[condition]

    def _checked(self, check: Check, operand: str, size: Size, what: str) -> str:
        """Wrap a negative index where it may be; one out of range sets its bit of `bad` and becomes 0."""
        limit = self.index(size, within=PRODUCT)
        bit = self.error(IndexError, what)
        wrapped, outside = self.fresh(), self.fresh("outside")
        with origin(*self.causes(check)):
            position = f"{operand} < 0 ? {operand} + {limit} : {operand}" if check.wrap else operand
            self.writer.line(f"long {wrapped} = {position};")
            self.writer.line(f"bool {outside} = (unsigned long){wrapped} >= (unsigned long)({limit});")
            self.writer.line(f"bad |= {outside} << {bit};")
        return f"{outside} ? 0 : {wrapped}"

    def _masked(self, value: Masked) -> str:
        """The value is computed, and its loads made, inside an if."""
        condition, other = self.value(value.condition), self.value(value.other)
        name = self.define(value, other)
        with origin(*self.causes(value)), self.scope(), self.writer.indented(f"if ({condition}) {{", "}"):
            inner = self.value(value.value)
            with origin(*self.causes(value)):
                self.writer.line(f"{name} = {inner};")
        return name
