"""Equal scalar values of one loop body become one value that names all its causes (local value numbering).

Inductor: virtualized.py and codegen/common.py (CSE), which do it when code is made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.core.origin import Origins, union
from explorer.ir.loops import Apply, Cast, Check, Const, Expr, IndexValue, Load, Masked, children, walk

Key = tuple[Any, ...]


def merged(*roots: Expr) -> list[Expr]:
    """The roots over shared operands: values that are computed alike from the same operands are one object."""
    number: dict[Expr, int] = {}
    numbers: dict[Key, int] = {}
    first: list[Expr] = []
    causes: list[Origins] = []
    for expr in walk(*roots):
        operands = tuple(number[child] for child in children(expr))
        found = number[expr] = numbers.setdefault(key(expr, operands), len(first))
        if found == len(first):
            first.append(expr)
            causes.append(expr.origins)
        elif expr.origins != causes[found]:
            causes[found] = union(causes[found], expr.origins)
    made: list[Expr] = []
    for expr, cause in zip(first, causes, strict=True):
        made.append(_rebuilt(expr, cause, [made[number[child]] for child in children(expr)]))
    return [made[number[root]] for root in roots]


def key(expr: Expr, operands: tuple[int, ...]) -> Key:
    """What is the same for expressions that are computed alike from operands of these numbers."""
    match expr:
        case Const(value=value):
            # Two constants of a program stay two, so that each is shown where it comes from.
            return "const", expr.dtype, repr(value), expr.origins
        case IndexValue(index=index):
            return "index", expr.dtype, index
        case Load(buffer=buffer, index=index, indirect=indirect):
            return "load", buffer, index, tuple(symbol for symbol, _ in indirect), operands
        case Cast(to=to):
            return "cast", to, operands
        case Apply(op=op):
            return op, operands
        case Masked():
            return "masked", operands
        case Check(size=size, what=what, wrap=wrap):
            return "check", size, what, wrap, operands
    raise AssertionError(f"unknown expression {type(expr).__name__}")


def _rebuilt(expr: Expr, origins: Origins, operands: list[Expr]) -> Expr:
    """`expr` with these origins and operands; itself where nothing changes."""
    if origins == expr.origins and all(new is old for new, old in zip(operands, children(expr), strict=True)):
        return expr
    match expr:
        case Load(indirect=indirect):
            pairs = tuple((symbol, value) for (symbol, _), value in zip(indirect, operands, strict=True))
            return replace(expr, origins=origins, indirect=pairs)
        case Apply():
            return replace(expr, origins=origins, args=tuple(operands))
        case Masked():
            condition, value, other = operands
            return replace(expr, origins=origins, condition=condition, value=value, other=other)
        case Cast() | Check():
            return replace(expr, origins=origins, value=operands[0])
    return replace(expr, origins=origins)
