"""Expressions of sizes: as Python functions, and as trees in record data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from explorer.ir.capture import Size, Source, Stride
from explorer.ir.record import ExpressionData

_OPERATORS = {
    "Add": "+", "Mul": "*", "Pow": "**", "PowByNatural": "**", "FloorDiv": "//", "Mod": "%", "PythonMod": "%",
    "CleanDiv": "//", "IntTrueDiv": "/", "FloatTrueDiv": "/", "Max": "max", "Min": "min", "Abs": "abs",
    "floor": "floor", "FloorToInt": "floor", "ceiling": "ceil", "CeilToInt": "ceil", "Equality": "==",
    "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=", "StrictGreaterThan": ">", "GreaterThan": ">=",
    "And": "and", "Or": "or", "Not": "not", "Where": "if",
}  # fmt: skip
"""Keyed by the name of the sympy class, torch's own classes included."""


def tree(expr: sympy.Basic, sources: Mapping[sympy.Symbol, Source]) -> ExpressionData:
    """`expr` over the sources of its symbols; "?" where a part of it has no operator in the record's grammar."""
    if isinstance(expr, sympy.Symbol):
        return _leaf(sources[expr])
    if isinstance(expr, sympy.Rational) and not isinstance(expr, sympy.Integer):
        return ExpressionData("/", (_number_data(expr.p), _number_data(expr.q)))
    if isinstance(expr, (sympy.Integer, sympy.Float)):
        return _number_data(expr)
    name = type(expr).__name__
    if name == "ToFloat":
        return tree(expr.args[0], sources)
    if name not in _OPERATORS:
        return ExpressionData("?", text=str(expr))
    return ExpressionData(_OPERATORS[name], tuple(tree(part, sources) for part in expr.args))


def _number_data(value: sympy.Number | int) -> ExpressionData:
    return ExpressionData("number", value=float(value) if isinstance(value, sympy.Float) else int(value))


def _leaf(source: Source) -> ExpressionData:
    match source:
        case Size(base, dim):
            return ExpressionData("size", value=dim, source=base.name)
        case Stride(base, dim):
            return ExpressionData("stride", value=dim, source=base.name)
    return ExpressionData("value", source=source.name)


class Printer(PythonPrinter):
    """Prints an expression over source names."""

    def __init__(self, names: dict[sympy.Symbol, str]) -> None:
        super().__init__()
        self.names = names

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return self.names[expr]

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))


def function_of(expr: sympy.Basic, symbols: Sequence[sympy.Symbol]) -> Callable[..., Any]:
    """An expression as a Python function of its symbols."""
    letters = {symbol: f"s{n}" for n, symbol in enumerate(symbols)}
    body = Printer(letters).doprint(expr)
    return eval(f"lambda {', '.join(letters.values())}: {body}", {"math": math, "torch": torch})  # type: ignore[no-any-return]
