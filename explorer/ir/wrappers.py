"""Tensors around other tensors, taken apart and put together so that gradients pass between them and what is inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def part_of(wrapper: Any, name: str) -> torch.Tensor:
    """A tensor inside of a wrapper; its gradient is one of the wrapper."""
    with torch.enable_grad():
        part: torch.Tensor = _Part.apply(wrapper, name)  # type: ignore[no-untyped-call]
        return part


def joined(cls: Any, names: Sequence[str], context: Any, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The wrapper around these tensors, which its gradient's parts reach."""
    with torch.enable_grad():
        wrapper: torch.Tensor = _Joined.apply(cls, names, context, *parts)  # type: ignore[no-untyped-call]
        return wrapper


def is_differentiable(part: Any) -> bool:
    return isinstance(part, torch.Tensor) and (part.is_floating_point() or part.is_complex())


def unflattened(cls: Any, names: Sequence[str], context: Any, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The wrapper, as its class makes it of what is inside."""
    inside = dict(zip(names, parts, strict=True))
    made: torch.Tensor = cls.__tensor_unflatten__(inside, context, parts[0].shape, parts[0].stride())
    return made


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wrapper: Any, name: str) -> torch.Tensor:
        names, context = wrapper.__tensor_flatten__()
        parts = [getattr(wrapper, each).detach() for each in names]
        ctx.made, ctx.parts, ctx.place = (type(wrapper), names, context), parts, names.index(name)
        part: torch.Tensor = parts[ctx.place]
        return part

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        parts = [torch.zeros_like(each) if is_differentiable(each) else each for each in ctx.parts]
        parts[ctx.place] = gradient if len(parts) == 1 else parts[ctx.place] + gradient  # laid out like the others
        cls, names, context = ctx.made
        return unflattened(cls, names, context, parts), None


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cls: Any, names: Any, context: Any, *parts: torch.Tensor) -> torch.Tensor:
        ctx.cls, ctx.names, ctx.reached = cls, names, [is_differentiable(each) for each in parts]
        return unflattened(cls, names, context, [each.detach() for each in parts])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        if type(gradient) is not ctx.cls:
            raise TypeError(f"the gradient of a {ctx.cls.__name__} is a {type(gradient).__name__}")
        reached = zip(ctx.names, ctx.reached, strict=True)
        return None, None, None, *(getattr(gradient, name) if is_reached else None for name, is_reached in reached)
