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
from explorer.compiler.capture.values.overrides import is_wrapper
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Returned, Source

_WHY = "a tensor like this is made of what is inside, and taken for the same kind of wrapper"


def wrap_wrapper(t: Tracer, source: Source, given: torch.Tensor) -> TensorValue:
    """The wrapper that a frame was given, made again by a node."""
    if not is_wrapper(given):
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name} is a {type(given).__name__}")
    taken = given.__tensor_flatten__()  # type: ignore[attr-defined]
    t.guard(source, TypeIs(type(given)), _WHY)
    t.guard(Returned(source, "__tensor_flatten__"), same_value(taken), _WHY)
    t.guard(Attr(source, "requires_grad"), Equals(False), _WHY)
    parts = [t.wrap(Attr(source, name), getattr(given, name)) for name in taken[0]]
    if not isinstance(parts[0], TensorValue) or parts[0].fake.shape != given.shape:
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name}: what is first inside has other sizes")
    made = graph_call(t, "call_function", unflattening(type(given), *taken), parts, {})
    assert isinstance(made, TensorValue)
    made.source, made.given = source, given
    return made


def unflattening(cls: Any, names: Sequence[str], context: Any) -> Callable[..., torch.Tensor]:
    """A function of the tensors inside that makes the wrapper."""

    def unflatten(*parts: torch.Tensor) -> torch.Tensor:
        inside = dict(zip(names, parts, strict=True))
        made: torch.Tensor = cls.__tensor_unflatten__(inside, context, parts[0].shape, parts[0].stride())
        return made

    return _named(unflatten, cls)


@functools.cache
def making(cls: Any) -> Callable[..., torch.Tensor]:
    """A function that calls the class: FX cannot write one."""

    def make(args: Sequence[Any], kwargs: dict[str, Any]) -> torch.Tensor:
        made: torch.Tensor = cls(*args, **kwargs)
        return made

    return _named(make, cls)


def _named(function: Any, cls: type) -> Callable[..., torch.Tensor]:
    """The function as a node's target, of this module: FX writes what is of torch's as an attribute of torch. What it
    calls of the class is not compiled: that would call it again."""
    made: Any = hook.unwatched(function)
    made.__module__ = __name__
    made.__name__ = made.__qualname__ = f"{function.__name__}_{cls.__name__}"
    return made  # type: ignore[no-any-return]


def make_wrapper(t: Tracer, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return graph_call(t, "call_function", making(cls), [t.new_tuple(args), t.new_dict(kwargs)], {})
