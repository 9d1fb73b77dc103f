"""Which index tensors the loops that read through them check in full, so that no loop of its own has to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sympy

from explorer.compiler.lower.merge import key
from explorer.ir.loops import Check, Expr, IndexValue, Load, Loop, Masked, Size, children, walk


def missing(checks: Iterable[Loop], others: Iterable[Loop]) -> set[str]:
    """Those loops among `checks` that check an element which no loop of `others` checks."""
    numbers: dict[Any, int] = {}
    made = {number for loop in others for number in _checked(loop, numbers)}
    return {loop.id for loop in checks if not made.issuperset(_checked(loop, numbers))}


def _checked(loop: Loop, numbers: dict[Any, int]) -> Iterator[int]:
    """A number for each check that the loop makes at all its points: the same for checks of the same elements."""
    axes = {axis.symbol: axis.size for axis in (*loop.axes, *loop.reduced)}
    roots = list(_always(loop.value, *(value for _, value in loop.indirect)))
    number: dict[Expr, int] = {}
    for expr in walk(*roots):
        kind = key(expr, tuple(number[child] for child in children(expr)))
        if isinstance(expr, (Load, IndexValue)):
            kind = (type(expr), expr.dtype, _reached(expr.index, axes), *kind[3:], getattr(expr, "buffer", ""))
        number[expr] = numbers.setdefault(kind, len(numbers))
    yield from (number[expr] for expr in roots if isinstance(expr, Check))


def _always(*roots: Expr) -> Iterator[Expr]:
    """The expressions under `roots` that are evaluated at each point of their loop."""
    seen: set[Expr] = set()
    pending = list(roots)
    while pending:
        expr = pending.pop()
        if expr not in seen:
            seen.add(expr)
            yield expr
            pending += (expr.condition,) if isinstance(expr, Masked) else children(expr)


def _reached(index: Size, axes: dict[sympy.Symbol, Size]) -> Any:
    """What positions an index takes: where it starts, and by which steps how often; what equals nothing else for an
    index that no steps describe."""
    steps: list[tuple[Size, Size]] = []
    start: Size = sympy.S.Zero
    for term in sympy.Add.make_args(index):
        inside = [symbol for symbol in term.free_symbols if symbol in axes]
        step = term.coeff(inside[0]) if len(inside) == 1 else None
        if not inside and not any(symbol.name.startswith("at") for symbol in term.free_symbols):
            start += term
        elif step and step * inside[0] == term:
            steps.append((step, axes[inside[0]]))
        else:
            return object()
    while joined := next(((a, b) for a in steps for b in steps if a is not b and b[0] == a[0] * a[1]), None):
        inner, outer = joined
        steps = [each for each in steps if each is not inner and each is not outer]
        steps.append((inner[0], inner[1] * outer[1]))
    return start, frozenset(steps)
