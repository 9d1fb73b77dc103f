"""Everything that a caller can see of one run, and whether two runs look the same."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from zoo.leaves import leaves, tensors
from zoo.program import SEED, Inputs


class Subject(Protocol):
    """What Program and Model have in common."""

    @property
    def inputs(self) -> Inputs: ...
    @property
    def frozen(self) -> tuple[int | str, ...]: ...
    @property
    def state(self) -> Callable[[Any], Any] | None: ...
    def build(self) -> Callable[..., Any]: ...
    def loss(self, output: Any) -> Tensor: ...


@dataclass(frozen=True)
class Run:
    """One call as seen from outside: `values` holds output, inputs and state after the call, by path."""

    values: dict[str, Any]
    grads: dict[str, Tensor | None]  # of inputs and parameters, after `loss(output).backward()`; empty in inference
    printed: str


def identity(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def observe(
    subject: Subject,
    compile: Callable[[Callable[..., Any]], Callable[..., Any]] = identity,
    *,
    inputs: Inputs | None = None,
    train: bool = False,
) -> Run:
    """Build the subject afresh, run `compile(built)` once from SEED, and note what can be seen of it.

    `train` makes floating inputs that are not frozen require grad and runs the backward; without it grad mode is off.
    """
    built = subject.build()
    args, kwargs = (inputs or subject.inputs)()
    if train:
        require_grad(subject, args, kwargs)
    printed = io.StringIO()
    with torch.set_grad_enabled(train), contextlib.redirect_stdout(printed):
        compiled = compile(built)
        torch.manual_seed(SEED)
        output = compiled(*args, **kwargs)
        grads = {}
        if train:
            loss = subject.loss(output)
            if loss.requires_grad:  # else every gradient stays None, which assert_same sees
                loss.backward()
            grads = {path: leaf.grad for path, leaf in differentiated(built, args, kwargs).items()}
    seen = {"output": output, "args": args, "kwargs": kwargs, "module": built if isinstance(built, nn.Module) else None}
    if subject.state is not None:
        seen["state"] = subject.state(built)
    values = dict(pair for name, value in seen.items() for pair in leaves(value, name))
    return Run(values, grads, printed.getvalue())


def require_grad(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for key, value in [*enumerate(args), *kwargs.items()]:
        if key not in subject.frozen:
            for leaf in tensors(value).values():
                if leaf.is_floating_point() or leaf.is_complex():
                    leaf.requires_grad_()


def differentiated(built: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
    found = {**tensors(args, "args"), **tensors(kwargs, "kwargs")}
    if isinstance(built, nn.Module):
        found |= tensors(built, "module")
    return {path: leaf for path, leaf in found.items() if leaf.requires_grad and leaf.is_leaf}


def assert_same(
    actual: Run, expected: Run, *, rtol: float = 0.0, atol: float = 0.0, strides: bool = True, grads: bool = True
) -> None:
    """Raise AssertionError at the first difference in structure, constants, printing, dtype, shape, stride, values,
    aliasing or gradients.

    Gradients are held to ten times the tolerances: they sum what each value rounded.
    """
    assert actual.printed == expected.printed, f"printed {actual.printed!r}, expected {expected.printed!r}"
    assert list(actual.values) == list(expected.values), difference(actual.values, expected.values)
    for path, right in expected.values.items():
        left = actual.values[path]
        if isinstance(right, Tensor):
            same_tensor(left, right, path, rtol, atol, strides)
        else:
            assert same_constant(left, right), f"{path} is {left!r}, expected {right!r}"
    assert aliases(actual.values) == aliases(expected.values), "outputs, inputs and state share memory differently"
    if grads:
        assert list(actual.grads) == list(expected.grads), difference(actual.grads, expected.grads)
        for path, gradient in expected.grads.items():
            if gradient is None:
                assert actual.grads[path] is None, f"{path} has a gradient where none was expected"
            else:
                same_tensor(actual.grads[path], gradient, f"gradient of {path}", 10 * rtol, 10 * atol, False)


def difference(actual: dict[str, Any], expected: dict[str, Any]) -> str:
    missing, surplus = expected.keys() - actual.keys(), actual.keys() - expected.keys()
    return f"missing {sorted(missing)}, surplus {sorted(surplus)}" if missing or surplus else "in another order"


def same_constant(actual: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(actual, expected, rel_tol=1e-6) or (math.isnan(actual) and math.isnan(expected))
    return type(actual) is type(expected) and bool(actual == expected)


def same_tensor(actual: Any, expected: Tensor, path: str, rtol: float, atol: float, strides: bool) -> None:
    assert type(actual) is type(expected), f"{path} is a {type(actual)}, expected a {type(expected)}"
    for fact in ("dtype", "shape", "device", "requires_grad"):
        left, right = getattr(actual, fact), getattr(expected, fact)
        assert left == right, f"{path}: {fact} is {left}, expected {right}"
    if strides:
        assert used_strides(actual) == used_strides(expected), (
            f"{path}: strides are {actual.stride()}, expected {expected.stride()} for shape {tuple(expected.shape)}"
        )
    torch.testing.assert_close(
        actual.detach(), expected.detach(), rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{path}: {m}"
    )


def used_strides(value: Tensor) -> list[int]:
    """Strides that say where an element is: those of sizes 0 and 1 do not."""
    if value.numel() == 0:
        return []
    return [stride for size, stride in zip(value.shape, value.stride(), strict=True) if size > 1]


def aliases(values: dict[str, Any]) -> list[list[tuple[str, int, bool]]]:
    """Groups of paths that share one storage: (path, bytes from the group's first, is the very same object)."""
    groups: dict[int, list[tuple[str, Tensor]]] = {}
    for path, value in values.items():
        if isinstance(value, Tensor) and value.numel() and value.device.type != "meta":
            groups.setdefault(value.untyped_storage().data_ptr(), []).append((path, value))
    return [
        [(path, value.data_ptr() - group[0][1].data_ptr(), value is group[0][1]) for path, value in group]
        for group in groups.values()
        if len(group) > 1
    ]
