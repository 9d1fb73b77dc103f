"""What a compile knows of its size symbols, and what it came to rely on: the door for stages after CAPTURE.

A size is asked for as a weight, which may be any number, or for a fact, which becomes a guard where nothing proves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from explorer.core.origin import Origins, origins

UNKNOWN = 4096
"""The weight of a symbol that has no example value."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A relation between sizes that a compile relies on, and the element that was being compiled when it came to."""

    relation: sympy.Basic
    origins: Origins


class Relations(list[Any]):
    """The guards of a ShapeEnv, in order, with the ambient origin at which each was added."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: list[Origins] = []

    def append(self, guard: Any) -> None:
        self.causes.append(origins())
        super().append(guard)

    def since(self, known: int) -> tuple[Assumed, ...]:
        """The relations after the first `known`."""
        return tuple(
            Assumed(guard.expr, cause) for guard, cause in zip(self[known:], self.causes[known:], strict=True)
        )


def relations(env: ShapeEnv | None) -> Relations:
    """The relations of a ShapeEnv of ours; none where another front end installs the guards."""
    return env.guards if env is not None and isinstance(env.guards, Relations) else Relations()


class Sizes:
    """Answers about the sizes of one graph."""

    def __init__(self, env: ShapeEnv | None) -> None:
        self._env = env
        self.hints: dict[sympy.Symbol, int] = _hints(env)
        self._renamed: dict[sympy.Symbol, sympy.Basic] = {}
        self._proven: set[sympy.Basic] = set()

    def rename(self, size: sympy.Basic, symbol: sympy.Symbol) -> None:
        """From here on `symbol` stands for `size`."""
        self._renamed[symbol] = size
        if size.free_symbols <= self.hints.keys():
            self.hints[symbol] = self.weight(size)

    def weight(self, size: Any) -> int:
        """A number to compare costs by: the size for the example values. It decides nothing that results depend on."""
        if size.is_Integer:
            return int(size)
        values = {symbol: sympy.Integer(self.hints.get(symbol, UNKNOWN)) for symbol in size.free_symbols}
        return int(size.xreplace(values))

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
            found = self._env._maybe_evaluate_static(relation.xreplace(self._renamed))
            if found is None or not bool(found):
                return False
            self._proven.add(relation)
        return True


def _hints(env: ShapeEnv | None) -> dict[sympy.Symbol, int]:
    if env is None:
        return {}
    known: Mapping[sympy.Symbol, Any] = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    return {symbol: int(value) for symbol, value in known.items() if value.is_Integer}
