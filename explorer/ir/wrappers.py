"""Wrapper tensors, flattened and rebuilt so that gradients pass between a wrapper and its inner tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor, get_tensor_symint


def part_of(wrapper: object, name: str) -> torch.Tensor:
    """A tensor inside of a wrapper; its gradient is one of the wrapper."""
    with torch.enable_grad():
        part: torch.Tensor = _WrapperPart.apply(wrapper, name)  # type: ignore[no-untyped-call]
        return part


def joined(cls: object, names: Sequence[str], context: object, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The wrapper around these tensors, which its gradient's parts reach."""
    with torch.enable_grad():
        wrapper: torch.Tensor = _Joined.apply(cls, names, context, *parts)  # type: ignore[no-untyped-call]
        return wrapper


def differentiable(wrapper: Any) -> list[str]:
    """The names of what gradients reach inside: the first tensor, and others that hold numbers. Nested tensors keep
    lengths as the sizes of tensors without elements."""
    names, _ = wrapper.__tensor_flatten__()
    return [name for name in names if _is_reached(getattr(wrapper, name), is_first=name == names[0])]


def _is_reached(part: torch.Tensor, is_first: bool) -> bool:
    is_held = is_first or not any(isinstance(size, int) and size == 0 for size in part.shape[1:])
    return is_held and (part.is_floating_point() or part.is_complex())


def unflattened(cls: Any, names: Sequence[str], context: Any, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The wrapper, as its class makes it of what is inside."""
    inside = dict(zip(names, parts, strict=True))
    size: Any = parts[0].shape
    if cls is NestedTensor:  # of which the ragged size alone is asked for
        size = {context["ragged_idx"]: get_tensor_symint(inside.get("_lengths", inside["_offsets"]))}
    made: torch.Tensor = cls.__tensor_unflatten__(inside, context, size, parts[0].stride())
    return made


def _without_gradient(part: torch.Tensor, is_reached: bool) -> torch.Tensor:
    """Without its gradient. What none reaches stays the object that it is: offsets tell nested tensors apart."""
    return part.detach() if is_reached else part


class _WrapperPart(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wrapper: Any, name: str) -> torch.Tensor:
        names, context = wrapper.__tensor_flatten__()
        ctx.made, ctx.name, ctx.reached = (type(wrapper), names, context), name, differentiable(wrapper)
        ctx.parts = {each: _without_gradient(getattr(wrapper, each), each in ctx.reached) for each in names}
        return _without_gradient(ctx.parts[name], name in ctx.reached)  # what ctx keeps must not keep ctx

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        parts = ctx.parts | {name: torch.zeros_like(ctx.parts[name]) for name in ctx.reached if name != ctx.name}
        alone = len(ctx.reached) == 1  # else it is laid out like the others
        parts[ctx.name] = gradient if alone else torch.zeros_like(ctx.parts[ctx.name]) + gradient
        cls, names, context = ctx.made
        return unflattened(cls, names, context, list(parts.values())), None


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cls: type, names: Any, context: Any, *parts: torch.Tensor) -> torch.Tensor:
        ctx.cls, ctx.names = cls, names
        ctx.reached = [_is_reached(each, is_first=each is parts[0]) for each in parts]
        apart = [_without_gradient(each, is_reached) for each, is_reached in zip(parts, ctx.reached, strict=True)]
        return unflattened(cls, names, context, apart)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        if type(gradient) is not ctx.cls:
            raise TypeError(f"the gradient of a {ctx.cls.__name__} is a {type(gradient).__name__}")
        reached = zip(ctx.names, ctx.reached, strict=True)
        return None, None, None, *(getattr(gradient, name) if is_reached else None for name, is_reached in reached)
