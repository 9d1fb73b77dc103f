"""No memory access without a proof: every index of every loop lies in its buffer, by the ranges of the axes, by what
the conditions around it say, and by the guards. What cannot be proven is refused. Index tensors are checked by the
loops that read through them.

Inductor: sizevars.py (statically_known_leq) and index_propagation.py, which prove indices from data alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions as sym
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import TensorReferenceAnalysis

from explorer.compiler.lower import reasons
from explorer.core.reasons import Unsupported, Why
from explorer.ir import loops as ir
from explorer.ir.index import ZERO, affine, below, never_below, rejoined
from explorer.ir.sizes import Sizes


def missing(checks: Iterable[ir.Loop], others: Iterable[ir.Loop]) -> set[str]:
    """Those loops among `checks` that check an element which no loop of `others` checks."""
    numbers: dict[object, int] = {}
    made = {number for loop in others for number in _checked(loop, numbers)}
    return {loop.id for loop in checks if not made.issuperset(_checked(loop, numbers))}


def _checked(loop: ir.Loop, numbers: dict[object, int]) -> Iterator[int]:
    """A number for each check that the loop makes at all its points: the same for checks of the same elements."""
    axes = loop.ranges
    number: dict[ir.Expr, int] = {}
    always = set(ir.walk(*loop.roots, below=ir.evaluated))
    for expr in ir.walk(*always):
        key = ir.value_key(expr, tuple(number[child] for child in ir.children(expr)))
        if isinstance(expr, (ir.Load, ir.IndexValue)):
            from_data = {symbol for symbol, _ in expr.indirect} if isinstance(expr, ir.Load) else set()
            key = tuple(_reached(each, axes, from_data) if each is expr.index else each for each in key)
        number[expr] = numbers.setdefault(key, len(numbers))
    yield from (number[expr] for expr in always if isinstance(expr, ir.Check))


def _reached(index: ir.Size, axes: dict[sympy.Symbol, ir.Size], from_data: set[sympy.Symbol]) -> object:
    """What positions an index takes: where it starts, and by which steps how often; what equals nothing else for an
    index that no steps describe."""
    parts = affine(index, axes)
    if parts.non_affine is not None or not from_data.isdisjoint(sympy.sympify(parts.offset).free_symbols):
        return object()
    steps = [(step, axes[axis]) for axis, step in parts.terms.items()]
    while joined := next(((a, b) for a in steps for b in steps if a is not b and b[0] == a[0] * a[1]), None):
        inner, outer = joined
        steps = [each for each in steps if each is not inner and each is not outer]
        steps.append((inner[0], inner[1] * outer[1]))
    return parts.offset, frozenset(steps)


MOST_POINTS = 1 << 22
"""Points of constant ranges that are tried one by one where bounds do not prove an index."""

Conditions = tuple[tuple[ir.Size, ir.Size], ...]
"""(index, bound) for each `index >= bound` that holds, with the constant part of the index taken over."""


class _AtPoints(TensorReferenceAnalysis):
    """The value of an index at many points at once."""

    @staticmethod
    def modular_indexing(base: Any, divisor: Any, modulus: Any) -> Any:
        return base // divisor % modulus


class BoundsProofs:
    """Proofs for the operations of one graph."""

    def __init__(self, buffers: Mapping[str, ir.Buffer], sizes: Sizes) -> None:
        self._buffers = buffers
        self._sizes = sizes
        self._last: dict[str, ir.Size] = {}
        self._proven: set[tuple[Any, ...]] = set()
        self._checked: dict[ir.Expr, sympy.Symbol] = {}
        """What conditions call an index that is read from memory."""

    def loop(self, loop: ir.Loop) -> None:
        """Raises Unsupported where an access may lie outside of its buffer."""
        if any(axis.size == 0 for axis in (*loop.axes, *loop.reduced)):
            return
        ranges = loop.ranges
        self._access(loop.id, loop.index, loop.indirect, ranges, ())
        seen: set[tuple[ir.Expr, Conditions]] = set()
        pending: list[tuple[ir.Expr, Conditions]] = [(root, ()) for root in loop.roots]
        while pending:
            expr, given = each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(expr, ir.Load):
                self._access(expr.buffer, expr.index, expr.indirect, ranges, given)
            if isinstance(expr, ir.Masked):
                comparisons = self._comparisons(expr.condition)
                pending += [(expr.condition, given), (expr.other, given), (expr.value, (*given, *comparisons))]
            else:
                pending += [(child, given) for child in ir.children(expr)]

    def view(self, view: ir.View) -> None:
        """Raises Unsupported where elements of a view may lie outside of its buffer."""
        layout = view.layout
        if ZERO in layout.size or layout == self._buffers[view.buffer].layout:
            return
        inside = self._holds(layout.offset) and self._holds(self._reach(view.buffer) - layout.extent + 1)
        if not inside:
            raise Unsupported(Why(reasons.UNPROVEN, f"{view}"))

    def _reach(self, name: str) -> ir.Size:
        """The last position of the memory that a buffer is in."""
        if name not in self._last:
            buffer = self._buffers[name]
            while buffer.alias_of is not None and buffer.kind == "loop":
                buffer = self._buffers[buffer.alias_of]
            self._last[name] = buffer.layout.extent - 1
        return self._last[name]

    def _access(
        self,
        name: str,
        index: ir.Size,
        indirect: Iterable[tuple[sympy.Symbol, ir.Expr]],
        ranges: Mapping[sympy.Symbol, ir.Size],
        given: Conditions,
    ) -> None:
        checked = {symbol: value.size for symbol, value in indirect if isinstance(value, ir.Check)}
        if self._checked and given:
            known = {self._checked[value]: symbol for symbol, value in indirect if value in self._checked}
            here = ((condition.xreplace(known), bound) for condition, bound in given)
            unknown = set(self._checked.values()) - known.keys()
            given = tuple(each for each in here if not each[0].free_symbols & unknown)
        within = {s: n for s, n in (*ranges.items(), *checked.items()) if s in index.free_symbols}
        key = (name, index, *within.items(), given)
        if key in self._proven:
            return
        reach = self._reach(name)
        if below(index, reach + 1, within):
            return
        proven = self._least(index, within, given) and self._least(reach - index, within, given)
        if not (proven or self._at_all_points(index, reach, {**ranges, **checked}, given)):
            assumption = f" where {' and '.join(f'{a} >= {b}' for a, b in given)}" if given else ""
            raise Unsupported(Why(reasons.UNPROVEN, f"{name}[{index}]{assumption}, which has {reach} + 1 elements"))
        self._proven.add(key)

    def _at_all_points(
        self, index: ir.Size, reach: ir.Size, ranges: Mapping[sympy.Symbol, ir.Size], given: Conditions
    ) -> bool:
        """Whether an index over constant ranges is inside at each point where the conditions hold: all are tried."""
        symbols = sorted(set().union(index.free_symbols, *(condition.free_symbols for condition, _ in given)), key=str)
        sizes = [ranges.get(symbol, sympy.oo) for symbol in symbols]
        if not all(n.is_Integer for n in (reach, *sizes)) or sympy.prod(sizes) > MOST_POINTS:
            return False
        count = len(symbols)
        points = {
            symbol: torch.arange(int(n)).reshape([-1 if axis == at else 1 for axis in range(count)])
            for at, (symbol, n) in enumerate(zip(symbols, sizes, strict=True))
        }

        def at(size: ir.Size) -> torch.Tensor:
            return torch.as_tensor(sympy_interp(_AtPoints, points, size))

        tried = torch.ones((), dtype=torch.bool)
        for condition, bound in given:
            tried = tried & (at(condition) >= at(bound))
        found = at(index)
        return bool((((found >= 0) & (found <= int(reach))) | ~tried).all())

    def _least(self, index: ir.Size, ranges: Mapping[sympy.Symbol, ir.Size], given: Conditions) -> bool:
        """Whether an index is 0 or more at all points where the conditions hold."""
        if never_below(index, ZERO, ranges, self._holds):
            return True
        index = rejoined(sympy.expand(index))
        if never_below(index, ZERO, ranges, self._holds):
            return True
        for condition, bound in given:
            for symbol in condition.free_symbols & ranges.keys():
                share, part = index.coeff(symbol), condition.coeff(symbol)
                if share == 0 or not part.is_Integer or part == 0:
                    continue
                factor = share / part
                rest = sympy.expand(index - factor * condition)
                if factor.is_integer and self._holds(factor) and rest.coeff(symbol) == 0:
                    others = tuple(each for each in given if each != (condition, bound))
                    if self._least(rest + factor * bound, ranges, others):
                        return True
        return False

    def _comparisons(self, condition: ir.Expr) -> Conditions:
        """What a condition over indices says, as far as it is a conjunction of comparisons."""
        found: list[tuple[ir.Size, ir.Size]] = []
        pending = [condition]
        while pending:
            test = pending.pop()
            if not isinstance(test, ir.Apply):
                continue
            if test.op == "logical_and":
                pending += test.args
                continue
            a, b = map(self._indexed, test.args) if len(test.args) == 2 else (None, None)
            if a is None or b is None:
                continue
            least = {"ge": [a - b], "gt": [a - b - 1], "le": [b - a], "lt": [b - a - 1], "eq": [a - b, b - a]}
            found += [(least_of, ZERO) for least_of in map(sympy.expand, least.get(test.op, []))]
        return tuple(found)

    def _indexed(self, value: ir.Expr) -> ir.Size | None:
        """An integer of a condition over the axes and over what is read from memory and checked."""
        if isinstance(value, ir.IndexValue):
            return value.index
        if isinstance(value, ir.Check):
            return self._checked.setdefault(value, sympy.Dummy("checked", integer=True))
        if isinstance(value, ir.Apply) and value.op in ("add", "sub", "mul") and value.dtype == torch.int64:
            a, b = map(self._indexed, value.args)
            if a is None or b is None:
                return None
            return a + b if value.op == "add" else a - b if value.op == "sub" else a * b
        constant = getattr(value, "value", None)
        return sympy.Integer(constant) if type(constant) is int else None

    def _holds(self, least: ir.Size) -> bool:
        if not least.is_Integer:
            least = sympy.expand(least)
        if least.is_Integer:
            return bool(least >= 0)
        if least.is_nonnegative or self._sizes.proven(sympy.Ge(least, 0)):
            return True
        choice = next(iter(least.atoms(sym.Max, sym.Min)), None)  # it is one of its arguments, whichever
        if choice is not None:
            return all(self._holds(least.xreplace({choice: arg})) for arg in choice.args)
        return any(self._holds_times(least, quotient) for quotient in least.atoms(sym.FloorDiv, sym.CeilToInt))

    def _holds_times(self, least: ir.Size, quotient: ir.Size) -> bool:
        """Whether `least` times the divisor of a quotient in it is 0 or more: a - b + 1 <= b * (a // b) <= a."""
        if isinstance(quotient, sym.FloorDiv):
            a, b = quotient.args
        elif isinstance(quotient.args[0], sym.IntTrueDiv):
            a, b = quotient.args[0].args[0] + quotient.args[0].args[1] - 1, quotient.args[0].args[1]
        else:
            return False
        share = least.coeff(quotient)
        rest = least - share * quotient
        if share == 0 or rest.has(quotient) or not self._holds(b - 1):
            return False
        if self._holds(-share):
            return self._holds(b * rest + share * a)
        return self._holds(share) and self._holds(b * rest + share * (a - b + 1))
