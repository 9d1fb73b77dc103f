"""Rule tables: one key, one rule, filled by a decorator that refuses mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
F = TypeVar("F", bound=Callable[..., object])


class RuleTable(Mapping[K, F], Generic[K, F]):
    """A read-only mapping from key to rule. `known` says which keys may be registered (None: any).

    Example:
        LOWERINGS = RuleTable("lowering")
        @LOWERINGS.rule(aten.add.Tensor, aten.add.Scalar)
        def lower_add(...): ...
    """

    def __init__(self, name: str, known: Callable[[K], bool] | None = None) -> None:
        self.name = name
        self._known = known
        self._rules: dict[K, F] = {}

    def rule(self, *keys: K) -> Callable[[F], F]:
        """Register the decorated function for `keys`. Raises ValueError for a duplicate or an unknown key."""

        def register(function: F) -> F:
            for key in keys:
                if key in self._rules:
                    raise ValueError(f"{self.name} rule for {key} is already {self._rules[key].__name__}")
                if self._known is not None and not self._known(key):
                    raise ValueError(f"{self.name} has no key {key}")
                self._rules[key] = function
            return function

        return register

    def __getitem__(self, key: K) -> F:
        return self._rules[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)
