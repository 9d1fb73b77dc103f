"""Twenty programs, each with a graph break of another kind on stock torch.compile.

The line at which the graph has to break bears the comment `# breaks`. What stock can trace changes from version to
version: a program that no longer breaks is a reason to look for a harder one of its kind.
"""

from __future__ import annotations

import copy
import inspect
import io
import logging
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

MARK = "# breaks"
log = logging.getLogger("a third party")
PROGRAMS: dict[str, BreakProgram] = {}


@dataclass(frozen=True)
class BreakProgram:
    """`lines` are the numbers of the marked lines in this file; `inputs` makes fresh arguments."""

    name: str
    fn: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    lines: tuple[int, ...]


def program(
    inputs: Callable[[], tuple[Any, ...]] = lambda: (torch.ones(4),), also: tuple[Callable[..., Any], ...] = ()
) -> Callable[[Any], Any]:
    """Register a function; the marked lines are its own and those of the functions `also`."""

    def register(fn: Any) -> Any:
        lines = []
        for each in (fn, *also):
            text, first = inspect.getsourcelines(each)
            lines += [number for number, line in enumerate(text, first) if MARK in line]
        PROGRAMS[fn.__name__] = BreakProgram(fn.__name__, fn, inputs, tuple(lines))
        return fn

    return register


@program()
def branch_on_data(x: Tensor) -> Tensor:
    y = x * 2
    if y.sum() > 0:  # breaks
        return y.sin()
    return y.cos()


@program()
def item(x: Tensor) -> Tensor:
    y = x.exp()
    scale = y.sum().item()  # breaks
    return y * scale


@program()
def print_values(x: Tensor) -> Tensor:
    y = x * 2
    print(y)  # breaks
    return y.sin()


@program()
def numpy_call(x: Tensor) -> Tensor:
    y = x * 2
    order = np.random.default_rng(0)  # breaks
    return y * len(str(type(order)))


@program()
def unsupported_builtin(x: Tensor) -> Tensor:
    y = x * 2
    names = dir(y)  # breaks
    return y + len(names)


@program()
def c_extension(x: Tensor) -> Tensor:
    y = x + 1
    salt = zlib.crc32(b"key") % 7  # breaks
    return y * salt


def endless() -> Iterator[float]:
    while True:
        yield 0.5


steps = endless()


@program()
def generator(x: Tensor) -> Tensor:
    y = x * 2
    step = next(steps)  # breaks
    return y + step


guard = threading.RLock()


@program()
def context_manager(x: Tensor) -> Tensor:
    y = x * 2
    with guard:  # breaks
        y = y + 1
    return y.sin()


@program()
def try_except(x: Tensor) -> Tensor:
    y = x * 2
    try:
        shift = zlib.adler32(b"x")  # breaks
    except ValueError:
        shift = 0
    return y + shift


@program()
def tensor_keys(x: Tensor) -> Tensor:
    y = x * 2
    weights = {y: 3, x: 4}
    return y * weights[max(weights, key=hash)]  # breaks


@program()
def torch_save(x: Tensor) -> Tensor:
    y = x * 2
    torch.save(y, io.BytesIO())  # breaks
    return y.sin()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.seed = zlib.crc32(b"forward")  # breaks
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 2


@program(lambda: (torch.ones(4, requires_grad=True),), also=(Doubled.forward,))
def autograd_function(x: Tensor) -> Tensor:
    y = x + 1
    z = Doubled.apply(y)
    return z.sin()


@program(lambda: (torch.ones(4, requires_grad=True),))
def hook_on_value(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(print)  # breaks
    return y.sin()


@program()
def deep_copy(x: Tensor) -> Tensor:
    y = x * 2
    z = copy.deepcopy(y)  # breaks
    return y + z


class Settings:
    def __getattr__(self, name: str) -> Any:
        return zlib.crc32(name.encode()) % 5  # breaks


settings = Settings()


@program(also=(Settings.__getattr__,))
def dynamic_attribute(x: Tensor) -> Tensor:
    y = x * 2
    scale = settings.scale
    return y * scale


@program()
def third_party_logging(x: Tensor) -> Tensor:
    y = x * 2
    log.warning("shape %s", y.shape)  # breaks
    return y.sin()


@program()
def exception_raised(x: Tensor) -> Tensor:
    y = x * 2
    try:
        raise ValueError(str(y))  # breaks
    except ValueError as error:
        return y + len(error.args)


layer = torch.jit.script(torch.nn.ReLU())


@program()
def isinstance_of_scripted(x: Tensor) -> Tensor:
    y = x * 2
    z = layer(y) if isinstance(layer, torch.jit.ScriptModule) else y  # breaks
    return z + 1


@program()
def random_state(x: Tensor) -> Tensor:
    y = x * 2
    state = torch.get_rng_state()  # breaks
    noise = torch.rand(4)
    torch.set_rng_state(state)  # breaks
    return y + noise


@program()
def threads(x: Tensor) -> Tensor:
    y = x * 2
    thread = threading.Thread(target=random.random)  # breaks
    thread.start()  # breaks
    thread.join()  # breaks
    return y.sin()
