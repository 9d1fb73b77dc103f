"""Functions with assertions; in a module of their own, since pytest rewrites those of test files."""

from __future__ import annotations

import random
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


class Counter:
    count = 0
    last: Any = None


def asserts_before_a_write(x: Any, y: Any, held: Counter) -> Any:
    assert x.sum() > 0, "negative"
    y.add_(1)
    return x * 2


def asserts_between_draws(x: Any, y: Any, held: Counter) -> Any:
    scale = torch.rand(3)
    assert (x > 0).all(), f"{x.sum()} of {tuple(x.shape)}"
    return scale * torch.rand(3), random.random()


def asserts_between_effects(x: Any, y: Any, held: Counter) -> Any:
    held.count += 1
    y.mul_(2)
    assert x.sum() > 0
    held.count += 10
    held.last = x


def asserts_where_it_handles(x: Any, y: Any, held: Counter) -> Any:
    try:
        with torch.no_grad():
            held.count += 1
            assert x.sum() > 0, "negative"
            return y.mul_(3)
    except AssertionError as error:
        return y.sub_(1), str(error)


def asserts_in_a_loop(x: Any, y: Any, held: Counter) -> Any:
    for part in x:
        assert part > 0, "one of them"
        y += part
    return y


BEFORE_EFFECTS = (
    asserts_before_a_write, asserts_between_draws, asserts_between_effects, asserts_where_it_handles, asserts_in_a_loop,
)  # fmt: skip


def then_writes_the_condition(x: Any) -> Any:
    positive = (x > 0).all()
    assert positive, "negative"
    positive.logical_not_()
    return x, positive
