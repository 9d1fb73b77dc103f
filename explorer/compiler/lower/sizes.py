"""Sizes and indices as numbers in loop bodies, and what is known of the symbols."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy import functions as sym

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering
from explorer.compiler.lower.dtypes import cast, constant
from explorer.core.origin import origins
from explorer.core.reasons import Unsupported, Why
from explorer.ir.loops import Cast, Const, Expr, IndexValue, Size, apply
from explorer.ir.scalar import OPS


def number(lower: Lowering, value: object, dtype: torch.dtype) -> Expr:
    """A Python number or a size expression as an element of `dtype`."""
    if isinstance(value, sympy.Basic):
        scalar = expression(lower, value)
        return cast(scalar, scalar.dtype, dtype)
    return constant(value, dtype)


def index_value(lower: Lowering, index: Size) -> Expr:
    """An index or size as an int64 value."""
    if index.is_Integer:
        return Const(torch.int64, origins(), int(index))
    if lower.indirect and not lower.indirect.keys().isdisjoint(index.free_symbols):
        return expression(lower, index)
    return IndexValue(torch.int64, origins(), index)


def expression(lower: Lowering, value: Any) -> Expr:
    """A sympy expression as scalar operations: int64 where it is an integer, float64 else."""
    if value.is_Integer:
        return Const(torch.int64, origins(), int(value))
    if value.is_Number or value.is_NumberSymbol:
        return Const(torch.float64, origins(), float(value))
    if value.is_Symbol and (value.is_integer or value in lower.indirect):
        return lower.indirect.get(value) or IndexValue(torch.int64, origins(), value)
    if value.is_integer and not (value.free_symbols & lower.indirect.keys()):
        return IndexValue(torch.int64, origins(), value)
    args = [expression(lower, arg) for arg in value.args]
    name = next((_SCALAR[kind] for kind in type(value).__mro__ if kind in _SCALAR), None)
    if name is None:
        raise Unsupported(Why(reasons.DATA_DEPENDENT, f"the number {value}"))
    if isinstance(value, sym.ModularIndexing):
        return apply("mod", apply("floordiv", *_alike(args[:2])), args[2])
    if name == "float":
        return _to(args[0], torch.float64)
    if name in ("floor", "ceil", "trunc"):
        return _to(apply(name, args[0]), torch.int64)
    if isinstance(value, (sym.IntTrueDiv, sym.FloatTrueDiv, sym.FloatPow)) or OPS[name].arity == 1:
        args = [_to(arg, torch.float64) for arg in args]
    if OPS[name].arity == 1:
        return apply(name, *args)
    args = _alike(args)
    total = args[0]
    for arg in args[1:]:
        total = apply(name, total, arg)
    return total


def _alike(args: list[Expr]) -> list[Expr]:
    dtype = torch.float64 if any(arg.dtype == torch.float64 for arg in args) else torch.int64
    return [_to(arg, dtype) for arg in args]


def _to(value: Expr, dtype: torch.dtype) -> Expr:
    return value if value.dtype == dtype else Cast(dtype, origins(), value, dtype)


_SCALAR: dict[Any, str] = {
    sympy.Add: "add", sympy.Mul: "mul", sympy.Pow: "pow", sym.Max: "maximum", sym.Min: "minimum",
    sym.FloorDiv: "floordiv", sym.Mod: "mod", sym.PythonMod: "mod", sym.ModularIndexing: "mod", sym.IntTrueDiv: "div",
    sym.FloatTrueDiv: "div", sym.FloatPow: "pow", sym.PowByNatural: "pow", sym.ToFloat: "float",
    sym.FloorToInt: "floor", sym.CeilToInt: "ceil", sym.TruncToInt: "trunc",
    **{getattr(sym, f"OpaqueUnaryFn_{name}"): name for name in (
        "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log", "log2",
    )},
}  # fmt: skip
