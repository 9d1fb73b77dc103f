"""What the tests of side effects share."""

from __future__ import annotations

import functools
from typing import Any

MADE: list[Any] = []


class Key:
    @functools.lru_cache  # noqa: B019 - what programs do
    def scale(self, n: int) -> int:
        MADE.append(n)
        return n + 1


@functools.lru_cache
def noted(key: Key) -> float:
    MADE.append("noted")
    return 2.0


@functools.cache
def kept(n: int) -> list[int]:
    return [n]
