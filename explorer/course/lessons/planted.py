"""Planted bugs: rules of which all but one do what the built-in ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from explorer.compiler.autograd.decompositions import decompositions
from explorer.compiler.workbench import workbench
from explorer.core.rules import Rules

aten = torch.ops.aten
RIGHT_DECOMPOSITIONS: tuple[OpOverload, ...] = (
    aten.silu.default, aten.softplus.default, aten.hardswish.default, aten.elu.default, aten.mish.default,
    aten.mse_loss.default, aten.smooth_l1_loss.default, aten.logaddexp.default, aten.hardsigmoid.default,
)  # fmt: skip


BUILT_IN = decompositions()


def as_built_in(operator: OpOverload) -> Callable[..., Any]:
    def rule(*args: Any, **kwargs: Any) -> Any:
        return BUILT_IN[operator](*args, **kwargs)

    return rule


def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def maximum(dtype: torch.dtype, a: str, b: str) -> str:
    return f"{a} > {b} ? {a} : {b}"


def minimum(dtype: torch.dtype, a: str, b: str) -> str:
    return f"{a} != {a} || {a} < {b} ? {a} : {b}"


def relu(dtype: torch.dtype, x: str) -> str:
    return f"{x} < 0 ? 0 : {x}"


def negative_twice(graph: fx.Graph) -> None:
    """-(-x) is x."""
    for node in graph.nodes:
        inner = node.args[0] if node.target is aten.neg.default else None
        if isinstance(inner, fx.Node) and inner.target is aten.neg.default:
            node.replace_all_uses_with(inner.args[0])


def scale_once(graph: fx.Graph) -> None:
    """(x * a) * b is x * (a * b); but here the first product has other readers too."""
    for node in graph.nodes:
        inner = node.args[0] if node.target is aten.mul.Tensor else None
        if isinstance(inner, fx.Node) and inner.target is aten.mul.Tensor:
            first, second = inner.args[1], node.args[1]
            if isinstance(first, int | float) and isinstance(second, int | float):
                inner.args = (inner.args[0], first * second)
                node.replace_all_uses_with(inner)


@contextmanager
def planted(letter: str) -> Iterator[Rules]:
    """Inside the block, one of fourteen rules is wrong: another one for each of "a", "b" and "c"."""
    right = {operator: as_built_in(operator) for operator in RIGHT_DECOMPOSITIONS}
    printers: dict[str, Callable[..., str]] = {"minimum": minimum, "relu": relu}
    passes: list[Callable[..., Any]] = [negative_twice]
    right[aten.gelu.default] = gelu if letter == "a" else as_built_in(aten.gelu.default)
    if letter == "b":
        printers["maximum"] = maximum
    if letter == "c":
        passes.append(scale_once)
    with workbench(decompositions=right, printers={"cpp": printers}, passes=passes) as rules:
        yield rules
