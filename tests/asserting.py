"""Functions with assertions; in a module of their own, since pytest rewrites those of test files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def assert_plain(x: Any) -> Any:
    assert x.sum() > 0
    return x + 1


def assert_message(x: Any) -> Any:
    assert x.sum() > 0, f"not for {tuple(x.shape)}"
    return x + 1


def assert_function(x: Any) -> Any:
    torch._assert(x.sum() > 0, "negative")
    return x + 1


def assert_between_effects(x: Any, log: list[int]) -> Any:
    log.append(1)
    assert x.sum() > 0
    log.append(2)
    return x + 1


def handled(x: Any) -> Any:
    try:
        assert x.sum() > 0
    except AssertionError:
        return x - 1
    return x + 3


def assert_then(x: Any, then: Callable[[], Any]) -> Any:
    assert x.sum() > 0
    return then()
