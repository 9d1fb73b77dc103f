"""What a zoo program is, and the table that holds them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from zoo.leaves import tensors

P = ParamSpec("P")
R = TypeVar("R")
Inputs = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]

SEED = 0

TAGS = frozenset(
    # what it computes
    "pointwise reduction view index gather scatter cat pad matmul conv pool attention norm activation softmax loss "
    "embedding scan sort interpolate einsum random factory "
    # what its values and layouts are like
    "float64 bfloat16 float16 int bool complex promotion nan broadcast zero_size zero_dim noncontiguous channels_last "
    # what it does to memory
    "mutation inplace alias multi_output "
    # what Python it uses
    "control_flow loop closure container comprehension generator context_manager kwargs dataclass namedtuple "
    "dict_output isinstance fstring exception nested_function class global constant_output stdlib effects "
    # how it is run
    "module hooks buffers tied_weights no_grad autocast training dynamic break print autograd_function".split()
)


@dataclass(frozen=True)
class Program:
    """One small program, its inputs, and what is true of it.

    `build()` gives the callable to run: `fn` itself, or what `fn` makes when it is a factory (a module class, or a
    function that resets its state and returns a closure). Each call of `build`, `inputs`, an entry of `other_inputs`
    or `large` starts from the same seed and shares nothing with the last.
    """

    name: str
    fn: Callable[..., Any]
    inputs: Inputs
    tags: frozenset[str]
    grad: bool = False  # differentiable in every floating input that is not frozen, and in every parameter
    breaks: int = 0  # source positions at which a call with `inputs` has to leave the graph
    other_inputs: tuple[Inputs, ...] = ()  # other shapes, dtypes, flags: what recompiles or makes a size dynamic
    large: Inputs | None = None  # for benchmarks
    rtol: float = 2e-5
    atol: float = 1e-5
    is_factory: bool = False
    frozen: tuple[int | str, ...] = ()  # positions and keywords of floating inputs that never require grad
    state: Callable[[Any], Any] | None = field(default=None, repr=False)  # what a call leaves behind, besides buffers

    def build(self) -> Callable[..., Any]:
        return seeded(self.fn)() if self.is_factory else self.fn

    def loss(self, output: Any) -> Tensor:
        return weighted_sum(output)


def call(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def seeded(factory: Callable[P, R]) -> Callable[P, R]:
    """`factory`, drawing from a generator at SEED and leaving the ambient generator as it was."""

    def make(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            return factory(*args, **kwargs)

    return make


def weighted_sum(output: Any) -> Tensor:
    """A scalar that weighs each element of each differentiable output differently.

    A plain sum would hide errors: the gradient of softmax(x).sum() is zero whatever the kernel does.
    """
    total = torch.zeros((), dtype=torch.float64)
    for value in tensors(output).values():
        if value.requires_grad:
            steps = torch.arange(value.numel(), dtype=torch.float64, device=value.device).reshape(value.shape)
            real = torch.view_as_real(value).sum(-1) if value.is_complex() else value
            total = total + (real.to(torch.float64) * torch.cos(steps * math.sqrt(2.0))).sum()
    return total


REGISTERED: dict[str, Program] = {}


def program(
    tags: str,
    *,
    inputs: Inputs,
    other_inputs: tuple[Inputs, ...] = (),
    large: Inputs | None = None,
    factory: bool = False,
    **facts: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function, module class or (factory=True) maker of a function under its own name."""
    wanted = frozenset(tags.split())
    if unknown := wanted - TAGS:
        raise ValueError(f"unknown tags {sorted(unknown)}; add them to TAGS")

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = fn.__name__
        if name in REGISTERED:
            raise ValueError(f"two programs are called {name}")
        is_module = isinstance(fn, type) and issubclass(fn, nn.Module)
        REGISTERED[name] = Program(
            name=name,
            fn=fn,
            inputs=seeded(inputs),
            tags=wanted | {"module"} if is_module else wanted,
            other_inputs=tuple(map(seeded, other_inputs)),
            large=seeded(large) if large else None,
            is_factory=factory or is_module,
            **facts,
        )
        return fn

    return register
