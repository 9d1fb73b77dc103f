"""What a compile knows of its size symbols, and what it came to rely on: the door for stages after CAPTURE.

A size is asked for as a weight, which may be any number, or for a fact, which becomes a guard where nothing proves it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.singleton_int import SingletonInt
from torch.utils._sympy.value_ranges import bound_sympy

from explorer.core.origin import Origins, origins
from explorer.ir.index import UNKNOWN, hint

Operation = Callable[..., Any]


def _modular(base: Any, divisor: Any, modulus: Any) -> Any:
    return base // divisor % modulus


OPERATIONS: dict[str, Operation] = {
    "Add": operator.add, "Mul": operator.mul, "Pow": operator.pow, "PowByNatural": operator.pow,
    "FloatPow": operator.pow, "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod, "ModularIndexing": _modular, "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv, "Max": torch.sym_max, "Min": torch.sym_min, "Abs": operator.abs,
    "ToFloat": torch.sym_float, "floor": math.floor, "FloorToInt": math.floor, "ceiling": math.ceil,
    "CeilToInt": math.ceil, "TruncToInt": math.trunc, "RoundToInt": round, "RoundDecimal": round,
    "BitwiseFn_bitwise_and": operator.and_, "BitwiseFn_bitwise_or": operator.or_,
    "BitwiseFn_bitwise_xor": operator.xor, "LShift": operator.lshift, "RShift": operator.rshift,
    "Equality": operator.eq, "Unequality": operator.ne, "StrictLessThan": operator.lt, "LessThan": operator.le,
    "StrictGreaterThan": operator.gt, "GreaterThan": operator.ge, "And": operator.and_, "Or": operator.or_,
    "Not": torch.sym_not, "Where": torch.sym_ite,
    **{f"OpaqueUnaryFn_{name}": getattr(torch, f"_sym_{name}") for name in (
        "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2",
    ) if hasattr(torch, f"_sym_{name}")},
}  # fmt: skip
"""By the name of the sympy class, torch's own included: what Python does for it, on numbers and on SymInts alike."""

WHOLE = frozenset(
    "Add Mul Pow PowByNatural FloorDiv CleanDiv Mod PythonMod ModularIndexing Max Min "
    "BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor".split()
)
"""Those that make integers of integers."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A relation between sizes that a compile relies on, and the element that was being compiled when it came to."""

    relation: sympy.Basic
    origins: Origins


def computed(
    size: object, symbol: Callable[[object], object], call: Callable[[Operation, Sequence[object]], object]
) -> Any:
    """A size expression computed by Python's operations. `symbol` gives a symbol's value, `call` what a function makes
    of its arguments. Raises KeyError for what has no operation."""
    if not isinstance(size, sympy.Basic):
        return size
    if isinstance(size, sympy.Symbol):
        return symbol(size)
    if not size.free_symbols:
        return plain(size)
    function = OPERATIONS[type(size).__name__]
    args = [computed(arg, symbol, call) for arg in size.args]
    if len(args) > 2 and function in _TWO:
        return functools.reduce(lambda a, b: call(function, (a, b)), args)
    return call(function, args)


_TWO = (operator.add, operator.mul, torch.sym_max, torch.sym_min, operator.and_, operator.or_)


def is_whole(size: sympy.Basic) -> bool:
    """Whether a size is made of integers all through."""
    parts = sympy.preorder_traversal(size)
    return all(part.is_integer and (not part.args or type(part).__name__ in WHOLE) for part in parts)


def plain(number: sympy.Basic) -> int | float | bool:
    """A number of sympy's as one of Python's."""
    if number.is_Boolean:
        return bool(number)
    return int(number) if number.is_Integer else float(number)


class Relations(list[Any]):
    """The guards of a ShapeEnv, in order, with the ambient origin at which each was added. `values` are those of its
    symbols: what was asked of the ragged size of nested tensors is no guard, for it depends on no number."""

    def __init__(self, values: Mapping[sympy.Symbol, object] | None = None) -> None:
        super().__init__()
        self.causes: list[Origins] = []
        self._values = {} if values is None else values

    def append(self, guard: Any) -> None:
        if any(isinstance(self._values.get(symbol), SingletonInt) for symbol in guard.expr.free_symbols):
            return
        self.causes.append(origins())
        super().append(guard)

    def since(self, known: int) -> tuple[Assumed, ...]:
        """The relations after the first `known`."""
        return tuple(Assumed(guard.expr, cause) for guard, cause in zip(self[known:], self.causes[known:], strict=True))


class SizeEnv(ShapeEnv):
    """A ShapeEnv that divides no equation by what may be 0: of i*n == i*m it would conclude n == m."""

    def _maybe_guard_rel(self, expr: sympy.Basic) -> None:  # type: ignore[override]
        if not isinstance(expr, sympy.Eq) or not any(map(self._may_be_zero, expr.atoms(sympy.Mul))):
            super()._maybe_guard_rel(expr)

    def _may_be_zero(self, product: sympy.Mul) -> bool:
        factors = [each for each in product.args if each.free_symbols]
        return len(factors) > 1 and 0 in bound_sympy(product, self.var_to_range)


def relations(env: ShapeEnv | None) -> Relations:
    """The relations of a ShapeEnv of ours; none where another frontend installs the guards."""
    return env.guards if env is not None and isinstance(env.guards, Relations) else Relations()


class Sizes:
    """Answers about the sizes of one graph."""

    def __init__(self, env: ShapeEnv | None) -> None:
        self._env = env
        known = {} if env is None else example_values(env)
        # By a size of 0 no stride would tell the order of dimensions: the program runs with other sizes too.
        self.hints = {symbol: int(value) or UNKNOWN for symbol, value in known.items() if value.is_Integer}
        self._renamed: dict[sympy.Symbol, sympy.Basic] = {}
        self._proven: set[sympy.Basic] = set()

    def rename(self, size: sympy.Basic, symbol: sympy.Symbol) -> None:
        """From here on `symbol` is the symbol of `size`."""
        self._renamed[symbol] = size
        if size.free_symbols <= self.hints.keys():
            self.hints[symbol] = self.weight(size)

    def weight(self, size: object) -> int:
        """A number to compare costs by: the size for the example values. It decides nothing that results depend on."""
        return hint(size, self.hints)

    def holds(self, relation: sympy.Basic | bool) -> bool:
        """Whether a relation holds. Where the guards so far do not say it, it is decided by the example, and guarded.

        Raises GuardOnDataDependentSymNode where there is no example.
        """
        if relation in (True, False, sympy.true, sympy.false):
            return bool(relation)
        assert self._env is not None and isinstance(relation, sympy.Basic)
        return bool(self._env.evaluate_expr(relation.xreplace(self._renamed)))

    def proven(self, relation: sympy.Basic | bool) -> bool:
        """Whether the guards so far prove a relation. Nothing is assumed."""
        if relation in (True, False, sympy.true, sympy.false):
            return bool(relation)
        if self._env is None or not isinstance(relation, sympy.Basic):
            return False
        if relation not in self._proven:
            asked = relation.xreplace(self._renamed)
            if not asked.free_symbols <= self._env.var_to_range.keys():
                return False
            found = self._env._maybe_evaluate_static(asked)
            if found is None or not bool(found):
                return False
            self._proven.add(relation)
        return True


def example_values(env: ShapeEnv) -> Mapping[sympy.Symbol, sympy.Expr]:
    """What each size symbol was when traced."""
    known: Mapping[sympy.Symbol, sympy.Expr] = (
        env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    )
    return known
