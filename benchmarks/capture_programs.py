"""Twelve programs on which capture methods part: the table of the documentation and the course."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Program:
    """`make` gives the function or module and the arguments of the call that is captured. `others` as in `compare`."""

    name: str
    about: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    others: Callable[[], dict[str, tuple[Any, ...]]] = field(default=lambda: {})


def pointwise(x, y):  # type: ignore[no-untyped-def]
    return torch.sigmoid(x) * y + 1


def branch(x):  # type: ignore[no-untyped-def]
    if x.sum() > 0:
        return torch.relu(x)
    return x * 2


def repeated(x, times):  # type: ignore[no-untyped-def]
    for _ in range(times):
        x = torch.sin(x) + x
    return x


def until(x):  # type: ignore[no-untyped-def]
    while x.abs().max() > 1:
        x = x / 2
    return x


def sized(x):  # type: ignore[no-untyped-def]
    rows = x.shape[0]
    return x.sum(0) / rows + torch.arange(rows).sum()


def container(inputs):  # type: ignore[no-untyped-def]
    return {"sum": inputs["a"] + inputs["b"], "parts": [inputs["a"].mean(), inputs["b"].amax(-1)]}


def accumulate(total, x):  # type: ignore[no-untyped-def]
    total.add_(x)
    return total.mean()


SCALE = 2.0


def outside(x):  # type: ignore[no-untyped-def]
    return torch.tanh(x) * SCALE


def converted(x):  # type: ignore[no-untyped-def]
    return x * float(x.max())


def through_numpy(x):  # type: ignore[no-untyped-def]
    return torch.from_numpy(x.numpy() * 2) + x


def normalized(x):  # type: ignore[no-untyped-def]
    try:
        return torch.layer_norm(x, x.shape[-1:])
    finally:
        SEEN.append(tuple(x.shape))


SEEN: list[tuple[int, ...]] = []


class Block(nn.Module):
    """Attention and a feed-forward part, with a flag that a user may flip."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.inner = nn.Linear(16, 32)
        self.outer = nn.Linear(32, 16)
        self.residual = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        scores = torch.softmax(torch.bmm(y, y.transpose(1, 2)) / 4.0, -1)
        y = self.outer(torch.nn.functional.gelu(self.inner(torch.bmm(scores, y))))
        return x + y if self.residual else y


def _values(*shape: int) -> torch.Tensor:
    """Positive values without randomness: a branch on their sum goes one way, and the other when negated."""
    count = torch.arange(torch.Size(shape).numel(), dtype=torch.float32)
    return (torch.sin(count) + 1.5).reshape(shape)


def _block() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Block().eval(), (_values(2, 6, 16),)


PROGRAMS = (
    Program("pointwise", "tensor operations and nothing else", lambda: (pointwise, (_values(4, 8), _values(8)))),
    Program("branch", "an if on a tensor's values", lambda: (branch, (_values(4, 8),))),
    Program("loop over a number", "a for loop whose length is an argument", lambda: (repeated, (_values(4, 8), 3))),
    Program("loop over values", "a while loop that ends when values allow", lambda: (until, (_values(4, 8),)),
            lambda: {"larger values": (_values(4, 8) * 100,)}),
    Program("sizes in Python", "a size read into Python and used as a number", lambda: (sized, (_values(4, 8),))),
    Program("containers", "a dict in, a dict with a list out",
            lambda: (container, ({"a": _values(4, 8), "b": _values(4, 8)},))),
    Program("mutation", "an argument changed in place", lambda: (accumulate, (_values(4, 8), _values(4, 8)))),
    Program("global", "a number from outside", lambda: (outside, (_values(4, 8),))),
    Program("value as number", "a tensor's value as a Python number", lambda: (converted, (_values(4, 8),))),
    Program("NumPy", "a detour through another library", lambda: (through_numpy, (_values(4, 8),))),
    Program("side effect", "try and finally, and a list outside that grows", lambda: (normalized, (_values(4, 8),))),
    Program("module", "an attention block with a flag", _block),
)  # fmt: skip
