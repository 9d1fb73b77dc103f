# ruff: noqa: F401
"""What random programs find around them: a fresh copy for each run, since programs change it."""

from __future__ import annotations

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import operator
import random
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map, tree_map_only
from torch.utils.checkpoint import checkpoint


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


class Point(typing.NamedTuple):
    w: Any
    n: Any = 2

    @property
    def p(self) -> Any:
        return self.w * self.n

    def go(self, q: Any) -> Any:
        return q + self.w


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    n: Any = 1
    total: Any = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.w.sum())

    def go(self, q: Any) -> Any:
        return q * self.n + self.total


@dataclasses.dataclass(order=True, slots=True)
class Ordered:
    n: Any
    w: Any = dataclasses.field(compare=False)
    names: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, compare=False)

    def go(self, q: Any) -> Any:
        self.names["n"] = self.n
        return q - self.w


class Checked:
    """A descriptor that counts, and keeps its value beside the attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, held: Any, owner: type) -> Any:
        if held is None:
            return self
        held.__dict__["reads"] = held.__dict__.get("reads", 0) + 1
        return getattr(held, self.name)

    def __set__(self, held: Any, value: Any) -> None:
        if value is None:
            raise Oops(self.name)
        setattr(held, self.name, value)

    def __delete__(self, held: Any) -> None:
        delattr(held, self.name)


class Named(abc.ABC):
    registry: dict[str, Any] = {}

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__()
        cls.registry[cls.__name__] = words

    @abc.abstractmethod
    def go(self, q: Any) -> Any: ...

    def twice(self, q: Any) -> Any:
        return self.go(self.go(q))


class Held(Named, by=2):
    w, n = Checked(), Checked()

    def __init__(self, w: Any, n: Any = 1) -> None:
        self.w, self.n = w, n

    def go(self, q: Any) -> Any:
        return q * self.n

    def __contains__(self, value: Any) -> bool:
        return value is self.w

    def __lt__(self, other: Any) -> Any:
        return self.n < other.n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)

    def __format__(self, spec: str) -> str:
        return f"held{self.n:{spec}}"

    def __index__(self) -> int:
        return int(self.n)

    def __matmul__(self, q: Any) -> Any:
        return self.w * q

    def __radd__(self, q: Any) -> Any:
        return q + self.w

    def __neg__(self) -> Any:
        return Held(-self.w, self.n)

    def __enter__(self) -> Any:
        return self.w

    def __exit__(self, *why: Any) -> None:
        self.n = self.n + 1


class Missing(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        self[key] = t(3) * len(self)
        return self[key]


class Several(list[Any]):
    def total(self) -> Any:
        return sum(self)

    def append(self, value: Any) -> None:
        super().append(value * 2)


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def half(self) -> float:
        return self.value / 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Metered(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        SEEN.append(cls.__name__)
        return super().__call__(*args, **kwargs)

    @property
    def size(cls) -> int:
        return len(cls.__name__)


class Made(metaclass=Metered):
    def __new__(cls, w: Any, n: Any = 1) -> Any:
        made = super().__new__(cls)
        made.w = w
        return made

    def __init__(self, w: Any, n: Any = 1) -> None:
        self.n = n

    def __getattribute__(self, name: str) -> Any:
        return 4 if name == "four" else super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value if name != "n" else value * 2)

    def __delattr__(self, name: str) -> None:
        SEEN.append(name)
        super().__delattr__(name)

    def go(self, q: Any) -> Any:
        return q + self.n


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


class Pairs(Tensor):
    """Two tensors that are computed alike: a wrapper that can be traced."""

    @staticmethod
    def __new__(cls, first: Tensor, second: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(
            cls, first.shape, strides=first.stride(), storage_offset=first.storage_offset(), dtype=first.dtype,
            device=first.device, requires_grad=first.requires_grad,
        )  # fmt: skip

    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.first, self.second = first, second

    @classmethod
    def of(cls, q: Tensor) -> Tensor:
        return q if isinstance(q, Pairs) else cls(q, q * 2)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["first", "second"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], told: Any, size: Any, stride: Any) -> Tensor:
        return Pairs(inner["first"], inner["second"])

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"Pairs{tuple(self.shape)}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, classes: Any, args: Any = (), kwargs: Any = None) -> Any:
        one, two = (
            func(*tree_map_only(Pairs, lambda q, name=name: getattr(q, name), args), **(kwargs or {}))
            for name in ("first", "second")
        )
        made = tree_map(lambda p, q: cls(p, q) if isinstance(p, Tensor) else p, one, two)
        return return_and_correct_aliasing(func, args, kwargs or {}, made)


class Plain(Tensor):
    """Has a method and attributes, and leaves operators as they are."""

    @classmethod
    def of(cls, q: Tensor) -> Tensor:
        return q.as_subclass(cls)

    def doubled(self) -> Tensor:
        return self * 2


class Counted(Plain):
    """Sees every operator; its results are of its class where they are tensors."""

    @classmethod
    def __torch_function__(cls, func: Any, classes: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.sin, Tensor.__mul__, Tensor.mul):
            SEEN.append(func.__name__)
        return super().__torch_function__(func, classes, args, kwargs or {})

    @property
    def half(self) -> Tensor:
        return self / 2


class Calls(TorchFunctionMode):
    def __torch_function__(self, func: Any, classes: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append("call")
        return func(*args, **(kwargs or {}))


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


class Both(contextlib.ContextDecorator):
    """A context manager that is a decorator too."""

    def __enter__(self) -> None:
        SEEN.append("both")

    def __exit__(self, *why: Any) -> bool:
        SEEN.append(why[0] is None)
        return isinstance(why[1], Oops)


class Split(torch.autograd.Function):
    """Two results, one without a gradient; the backward asks which inputs need one."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, q)
        signs = p.sign()
        ctx.mark_non_differentiable(signs)
        return p * q, signs

    @staticmethod
    def backward(ctx: Any, g: Tensor, unused: Tensor) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[override]
        p, q = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (g * q if needs[0] else None), ((g * p * 2).sum_to_size(q.shape) if needs[1] else None)


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor) -> Tensor:
        q.mul_(2)
        ctx.mark_dirty(q)
        return q

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return g * 2


def echo(q: Any) -> Generator[Any, Any, Any]:
    """Answers what is sent, and what is thrown; its result is what it came to."""
    while True:
        try:
            got = yield q
        except ValueError as error:
            q = q + len(error.args)
        except Oops:
            return q
        else:
            if got is not None:
                q = q * got


def drained(inner: Any) -> Generator[Any, Any, Any]:
    result = yield from inner
    SEEN.append(result is None)
    return result


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        called.calls += 1  # type: ignore[attr-defined]
        return function(*args, **kwargs)

    called.calls = 0  # type: ignore[attr-defined]
    return called


@functools.singledispatch
def kind(q: Any) -> Any:
    return q


@kind.register
def _(q: int) -> Any:
    return q + 1


@kind.register
def _(q: Tensor) -> Any:
    return q * 2


@functools.lru_cache(maxsize=4)
def remembered(n: Any) -> Any:
    SEEN.append(n)
    return n * 2


@torch.no_grad()
def frozen(q: Any) -> Any:
    return q * 2


@torch.enable_grad()
def learned(q: Any) -> Any:
    return q * 2


@torch.inference_mode()
def inferred(q: Any) -> Any:
    return q + 1


def nested(q: Any, depth: Any) -> Any:
    return q if depth <= 0 else nested(q + depth, depth - 1) * 2


def placed(p: Any, /, q: Any = 2, *rest: Any, k: Any = 1, **words: Any) -> Any:
    return p * q + len(rest) * k + len(words)


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
