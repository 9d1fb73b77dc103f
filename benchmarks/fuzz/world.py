# ruff: noqa: F401
"""What random programs find around them: a fresh copy for each run, since programs change it."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def t(*shape: Any, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
    """Small quarters, so that sums and products are exact."""
    size = math.prod(shape) if shape != ((),) else 1
    values = ((torch.arange(size, dtype=torch.float64) * 7 + 3) % 11 - 5) / 4
    if not dtype.is_floating_point:
        values = (values * 4).abs() if dtype in (torch.uint8, torch.bool) else values * 4
    return values.to(dtype).reshape(shape if shape != ((),) else ()).requires_grad_(grad)


def marked(value: Tensor, dim: int) -> Tensor:
    torch._dynamo.mark_dynamic(value, dim)
    return value


def maybe_marked(value: Tensor, dim: int) -> Tensor:
    torch._dynamo.maybe_mark_dynamic(value, dim)
    return value


def static(value: Tensor) -> Tensor:
    torch._dynamo.mark_static(value)
    return value


class Oops(Exception):
    pass


class Worse(Oops, KeyError):
    def __init__(self, *args: Any) -> None:
        super().__init__("worse", *args)


class Thing:
    count = 1
    kinds: list[str] = []

    def __init__(self, w: Any, n: Any = 2) -> None:
        self.w = w
        self.n = n
        self.items = [w]

    @classmethod
    def of(cls, w: Any) -> Thing:
        return cls(w, cls.count)

    @staticmethod
    def twice(q: Any) -> Any:
        return q * 2

    @property
    def p(self) -> Any:
        return self.w * self.n

    @p.setter
    def p(self, value: Any) -> None:
        self.w = value
        self.n += 1

    def go(self, q: Any) -> Any:
        self.n += 1
        return q + self.w * self.count

    def __call__(self, q: Any) -> Any:
        return self.go(q) - 1

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Derived(Thing):
    count = 3

    def __init__(self, w: Any, n: Any = 1) -> None:
        super().__init__(w, n)
        self.extra = {"k": w}

    def go(self, q: Any) -> Any:
        return super().go(q) * 2

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return len(name)

    @functools.cached_property
    def cached(self) -> Any:
        SEEN.append("cached")
        return self.w + 1


class Slotted:
    __slots__ = ("w", "n", "items", "late")

    def __init__(self, w: Any, n: Any = 1) -> None:
        self.w, self.n, self.items = w, n, [w, w]

    @property
    def p(self) -> Any:
        return self.items[-1]

    def go(self, q: Any) -> Any:
        self.items.append(q)
        return q * self.n

    __call__ = go

    def __getitem__(self, key: int) -> Any:
        return self.items[key]

    def __setitem__(self, key: int, value: Any) -> None:
        self.items[key] = value

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return self.n != 1


@dataclasses.dataclass
class Record:
    w: Any
    n: Any = 1
    items: list[Any] = dataclasses.field(default_factory=list)

    @property
    def p(self) -> Any:
        return self.w + len(self.items)

    def go(self, q: Any) -> Any:
        self.items.append(self.n)
        return q - self.w


class Magic(dict[str, Any]):
    """A dict whose keys are attributes."""

    def __init__(self, w: Any, n: Any = 1) -> None:
        super().__init__(w=w, n=n, items_=[w])

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __add__(self, other: Any) -> Any:
        return self.w + other

    def __iadd__(self, other: Any) -> Magic:
        self.w = self.w + other
        return self

    def go(self, q: Any) -> Any:
        return q * self["n"]


Pair = collections.namedtuple("Pair", "w n")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(t(3))
        self.register_buffer("steps", torch.zeros(()))
        self.inner = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        self.calls = 0
        self.k = 2

    def forward(self, q: Tensor) -> Tensor:
        self.calls += 1
        if self.training:
            self.steps.add_(1)
            self.last = q.shape
        for each in self.inner:
            q = each(q)
        return q * self.weight * self.k + self.steps


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor) -> Tensor:
        return q * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return g * 3


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, by: Any) -> Tensor:
        ctx.save_for_backward(q)
        ctx.by = by
        return q * q * by

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (q,) = ctx.saved_tensors
        return g * q * ctx.by, None


class Scope:
    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> str:
        SEEN.append("in")
        return self.name

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        SEEN.append("out" if kind is None else kind.__name__)
        return kind is ValueError


@contextlib.contextmanager
def scope(q: Any) -> Iterator[Any]:
    SEEN.append("begin")
    try:
        yield q * 2
    finally:
        SEEN.append("end")


def stream(q: Any) -> Iterator[Any]:
    """Yields as often as it has rows, takes what is sent, tells when it is closed."""
    try:
        for row in q:
            got = yield row
            if got is not None:
                q = got
        return q
    finally:
        SEEN.append("closed")


def delegated(inner: Any) -> Iterator[Any]:
    value = yield from inner
    if value is not None:
        yield value


def zip_sum(values: Iterable[Any]) -> Iterator[Any]:
    for p, q in zip(values, values, strict=False):
        yield p + q


def yielded(inner: Any) -> Any:
    total = None
    for each in inner:
        total = each if total is None else total + each
    return total


def maker(w: Any) -> Callable[[Any], Any]:
    calls = 0

    def made(q: Any) -> Any:
        nonlocal calls
        calls += 1
        return q * w + calls

    return made


def scaled(q: Any, by: Any = 2) -> Any:
    return q * by


def bumped(q: Any) -> Any:
    q += 1
    return q


def several(*args: Any, k: Any = 1, **rest: Any) -> Any:
    return args[0] * k - args[-1]


def resized(q: Any) -> Any:
    """To what it holds already: what memory has beyond is not the same twice."""
    return q.resize_(2) if q.numel() > 1 else q.resize_(q.numel())


def raise_it(name: str) -> None:
    raise Oops(name, len(name))


def bump() -> None:
    global GI
    GI += 1


GT = t(3)
GI = 2
GB = True
GL = [t(3), t(2, 3)]
GD = {"a": t(3)}
GK = torch.neg
SEEN: list[Any] = []
state: dict[str, Any] = {"k": 1}
counter = itertools.count()


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in containers and in objects' attributes."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)


def backward(result: Any) -> None:
    losses = [each.float().sum() for each in tensors(result) if each.requires_grad and not each.is_complex()]
    if losses:
        torch.stack(losses).sum().backward()
