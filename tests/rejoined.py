"""What the tests of rejoined calls share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def inner(*shape: int) -> Tensor:
    """A tensor that requires grad and is no leaf, so that it may be written in place."""
    return leaf(*shape) * 1.0


def plain(*shape: int) -> Tensor:
    return torch.randn(*shape)


def seen(function: Callable[..., Any], inputs: Callable[[], list[Any]]) -> dict[str, Any]:
    """Everything visible of one call and of a backward through all that it made differentiable."""
    torch.manual_seed(1)
    given = inputs()
    leaves = [g for tensor in given for g in grad_leaves(tensor)]
    versions = [tensor._version for tensor in given]
    torch.manual_seed(2)
    output = function(*given)
    results = flatten(output)
    tensors = [value for value in [*results, *given] if isinstance(value, Tensor)]
    facts = {
        "results": [fact(value) for value in results],
        "inputs": [fact(value) for value in given],
        "written": [tensor._version != before for tensor, before in zip(given, versions, strict=True)],
        "shared": sharing(tensors),
        "values": [value.detach().clone() for value in tensors],
    }
    live = [value for value in [*results, *given] if isinstance(value, Tensor) and value.grad_fn is not None]
    torch.manual_seed(3)
    if live:
        torch.autograd.backward(live, [torch.randn_like(value) for value in live])
    facts["gradients"] = [x.grad for x in leaves]
    facts["gradient strides"] = [None if x.grad is None else x.grad.stride() for x in leaves]
    return facts


def grad_leaves(tensor: Any) -> list[Tensor]:
    if not isinstance(tensor, Tensor) or not tensor.requires_grad:
        return []
    if tensor.is_leaf:
        return [tensor]
    found, pending = [], [tensor.grad_fn]
    while pending:
        grad_fn = pending.pop()
        if hasattr(grad_fn, "variable"):
            found.append(grad_fn.variable)
        pending += [f for f, _ in grad_fn.next_functions if f is not None]
    return found


def flatten(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in flatten(each)]
    return [value]


def fact(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    strides = value.stride() if value.numel() else ()
    return value.dtype, tuple(value.shape), strides, value.requires_grad, value.is_leaf


def sharing(tensors: list[Tensor]) -> list[tuple[int, int, int, bool]]:
    """(i, j, distance in bytes, same object) for each pair in one storage."""
    return [
        (i, j, b.data_ptr() - a.data_ptr(), a is b)
        for i, a in enumerate(tensors)
        for j, b in enumerate(tensors)
        if i < j and a.numel() and b.numel() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    ]


def compare(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("results", "inputs", "written", "shared"):
        assert actual[name] == expected[name], name
    for name in ("values", "gradients"):
        for left, right in zip(actual[name], expected[name], strict=True):
            assert (left is None) == (right is None), name
            if right is not None:
                loose = right.dtype is torch.bfloat16
                torch.testing.assert_close(left, right, rtol=2e-2 if loose else 1e-5, atol=2e-2 if loose else 1e-5)
