"""Tensors around other tensors, which traced code takes apart: the graph is given what is inside, and makes them.

Operators on one are its class's, and become those on what is inside when the graph is traced to ATen. What leaves the
graph is what is inside again. Stock counterpart: torch/_functorch/_aot_autograd/subclass_utils.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from explorer.compiler.capture import hook, reasons
from explorer.compiler.capture.guards import Equals, TypeIs, same_value
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.overrides import is_wrapper
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Inside, Returned, Source
from explorer.ir.wrappers import differentiable, joined, part_of, unflattened

_WHY = "a tensor like this is made of what is inside, and taken for the same kind of wrapper"


def wrap_wrapper(t: Tracer, source: Source, given: torch.Tensor) -> TensorValue:
    """The wrapper that a frame was given, made again by a node."""
    if not is_wrapper(given):
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name} is a {type(given).__name__}")
    names, context = taken = given.__tensor_flatten__()  # type: ignore[attr-defined]
    t.guard(source, TypeIs(type(given)), _WHY)
    t.guard(Returned(source, "__tensor_flatten__"), same_value(taken), _WHY)
    t.guard(Attr(source, "requires_grad"), Equals(given.requires_grad), _WHY)
    parts = [_part(t, source, given, name) for name in names]
    if not isinstance(parts[0], TensorValue) or not given.is_nested and parts[0].fake.shape != given.shape:
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name}: what is first inside has other sizes")
    made = graph_call(t, "call_function", unflattening(type(given), names, context, given.requires_grad), parts, {})
    assert isinstance(made, TensorValue)
    made.source, made.given = source, given
    return made


def _part(t: Tracer, source: Source, given: torch.Tensor, name: str) -> Value:
    """What is inside, as gradients reach it."""
    if not given.requires_grad or name not in differentiable(given):
        return t.wrap(Attr(source, name), getattr(given, name))
    return t.wrap_tensor(Inside(source, name), part_of(given, name))  # type: ignore[no-any-return]


def unflattening(cls: Any, names: Sequence[str], context: Any, differentiable: bool) -> Callable[..., torch.Tensor]:
    """A function of the tensors inside that makes the wrapper; with gradients from it to them, if that is wanted."""
    make = joined if differentiable else unflattened

    def unflatten(*parts: torch.Tensor) -> torch.Tensor:
        return make(cls, names, context, parts)

    return _named(unflatten, cls.__name__)


@functools.cache
def inside(name: str) -> Callable[[Any], torch.Tensor]:
    """A function of a wrapper that takes out a tensor, as gradients reach it."""

    def part(wrapper: Any) -> torch.Tensor:
        return part_of(wrapper, name)

    return _named(part, name)


def wrapped_again(t: Tracer, wrapper: TensorValue) -> tuple[Callable[..., torch.Tensor], list[Value]]:
    """What makes a wrapper for the program, and what is inside of it, as the graph returns it."""
    fake: Any = wrapper.fake
    names, context = fake.__tensor_flatten__()
    parts = [
        graph_call(t, "call_function", inside(name), [wrapper], {})
        if fake.requires_grad and name in differentiable(fake)
        else graph_call(t, "call_function", getattr, [wrapper, Constant(name)], {})
        for name in names
    ]  # fmt: skip
    return unflattening(wrapper.cls, names, context, fake.requires_grad), parts


@functools.cache
def making(cls: Any) -> Callable[..., torch.Tensor]:
    """A function that calls the class: FX cannot write one."""

    def make(args: Sequence[Any], kwargs: dict[str, Any]) -> torch.Tensor:
        made: torch.Tensor = cls(*args, **kwargs)
        return made

    return _named(make, cls.__name__)


def _named(function: Any, name: str) -> Callable[..., torch.Tensor]:
    """The function as a node's target, of this module: FX writes what is of torch's as an attribute of torch. What it
    calls of the class is not compiled: that would call it again."""
    made: Any = hook.unwatched(function)
    made.__module__ = __name__
    made.__name__ = made.__qualname__ = f"{function.__name__}_{name}"
    return made  # type: ignore[no-any-return]


def make_wrapper(t: Tracer, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return graph_call(t, "call_function", making(cls), [t.new_tuple(args), t.new_dict(kwargs)], {})
