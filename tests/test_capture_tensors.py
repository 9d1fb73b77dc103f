"""Frames under a break that touch no tensor are left to Python; those that may are compiled."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explorer
from capturing import compiled
from explorer.compiler.capture.entry import may_use_tensors

WEIGHT = torch.ones(2)
LAYER = nn.Linear(2, 2)


@dataclass
class Options:
    inner: Any


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


Pair = namedtuple("Pair", "a b")


def plain(*given: Any) -> int:
    return len(given)


def uses_torch(n: int) -> Tensor:
    return torch.ones(n)


def uses_torch_inside(n: int) -> Callable[[], Tensor]:
    return lambda: torch.ones(n)


def uses_global() -> Any:
    return WEIGHT


def uses_module() -> Any:
    return LAYER


X = torch.ones(1)
GIVEN = {
    "numbers": ((1, 2.0, "a", None, torch.float32), False),
    "containers of numbers": (([1, {"a": (2,)}], {3}), False),
    "functions": ((plain, len, int, functools), False),
    "object": ((Options({"a": Options(1)}),), False),
    "namedtuple": ((Pair(1, 2),), False),
    "tensor": ((X,), True),
    "parameter": ((nn.Parameter(X),), True),
    "module": ((LAYER,), True),
    "in a list": (([1, [X]],), True),
    "in a dictionary": (({"a": {"b": X}},), True),
    "in an object": ((Options(Options(X)),), True),
    "in a namedtuple": ((Pair(1, X),), True),
    "in slots": ((Slotted(1),), True),
    "in a closure": ((lambda: X, 1), False),  # a global of this module: the lambda's own frame is asked
    "bound method": ((Options(X).__eq__,), True),
    "partial": ((functools.partial(plain, X),), True),
    "iterator": ((iter([X]),), True),
    "many numbers": ((list(range(1000)),), True),
}


@pytest.mark.parametrize(("given", "expected"), GIVEN.values(), ids=GIVEN)
def test_what_a_frame_is_given(given: tuple[Any, ...], expected: bool) -> None:
    assert may_use_tensors(plain.__code__, {"given": given}, globals()) is expected


def test_a_closure_over_a_tensor() -> None:
    held = torch.ones(1)
    assert may_use_tensors(plain.__code__, {"given": (lambda: held,)}, {})


@pytest.mark.parametrize("fn", [uses_torch, uses_torch_inside, uses_global, uses_module])
def test_what_a_frame_names(fn: Callable[..., Any]) -> None:
    assert may_use_tensors(fn.__code__, {"n": 1}, globals())
    assert not may_use_tensors(plain.__code__, {"n": 1}, globals())


def count(n: int, options: Options) -> int:
    return sum(range(n)) + options.inner


def scaled(x: Tensor, n: int) -> Tensor:
    return x * n


def test_only_frames_with_tensors_are_compiled() -> None:
    def calls(x: Tensor) -> Tensor:
        n = eval("count(3, Options(2))", globals())
        return eval("scaled(x, n)", globals(), {"x": x, "n": n}) + 1

    fn, captures = compiled(calls)
    x = torch.ones(2)
    assert torch.equal(fn(x), calls(x)) and torch.equal(fn(x), calls(x))
    names = [capture.code.name for capture in captures.made]
    assert "scaled" in names and "count" not in names
    record = explorer.explore(calls, time=False)(x)
    assert "count (a function that uses no tensor)" in record.coverage.python


def test_the_function_itself_is_compiled_whatever_it_gets() -> None:
    fn, captures = compiled(count)
    assert fn(4, Options(1)) == 7 and len(captures.made) == 1
