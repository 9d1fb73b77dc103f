"""Operators that make tensors from numbers."""

from __future__ import annotations

from typing import Any

import torch

from explorer.compiler.lower.builder import Lowering
from explorer.compiler.lower.dtypes import cast
from explorer.compiler.lower.indexing import Point, integer
from explorer.compiler.lower.sizes import index_value, number
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Tensor
from explorer.ir.loops import Expr, apply

aten = torch.ops.aten
prims = torch.ops.prims


def filled(lower: Lowering, out: torch.Tensor, value: Any) -> Tensor:
    return lower.computed(out, lambda point: number(lower, value, out.dtype))


@LOWERINGS.rule(aten.full.default)
def full(lower: Lowering, out: torch.Tensor, size: Any, value: Any, **facts: Any) -> Tensor:
    """One number everywhere."""
    return filled(lower, out, value)


@LOWERINGS.rule(aten.empty.memory_format, aten.empty_permuted.default)
def empty(lower: Lowering, out: torch.Tensor, *args: Any, **facts: Any) -> Tensor:
    """0 everywhere: the contents may be anything."""
    return filled(lower, out, 0)


@LOWERINGS.rule(aten.arange.start_step)
def arange(lower: Lowering, out: torch.Tensor, start: Any, end: Any, step: Any = 1, **facts: Any) -> Tensor | None:
    """start + step * position."""
    return _progression(lower, out, start, step)


@LOWERINGS.rule(prims.iota.default)
def iota(lower: Lowering, out: torch.Tensor, length: Any, *, start: Any, step: Any, **facts: Any) -> Tensor | None:
    """start + step * position"""
    return _progression(lower, out, start, step)


def _progression(lower: Lowering, out: torch.Tensor, start: Any, step: Any) -> Tensor:
    if not out.dtype.is_floating_point:
        start, step = (int(each) if isinstance(each, float) else each for each in (start, step))
    if isinstance(start, float) or isinstance(step, float):
        # ATen computes these in the accumulation type, float64 on the CPU.
        def of_float(point: Point) -> Expr:
            place = cast(index_value(lower, point[0]), torch.int64, torch.float64)
            steps = apply("mul", place, number(lower, step, torch.float64))
            return cast(apply("add", steps, number(lower, start, torch.float64)), torch.float64, out.dtype)

        return lower.computed(out, of_float)
    first, every = integer(start), integer(step)

    def element(point: Point) -> Expr:
        return cast(index_value(lower, first + point[0] * every), torch.int64, out.dtype)

    return lower.computed(out, element)
