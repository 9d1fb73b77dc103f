"""Dtypes of scalar values: which ones loops compute in, promotion, and conversion of expressions."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from explorer.core.origin import origins
from explorer.ir.loops import Cast, Const, Expr
from explorer.ir.scalar import HALVES, computing_dtype

LOOP_DTYPES = frozenset({
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
})  # fmt: skip


def cast(value: Expr, source: torch.dtype, to: torch.dtype) -> Expr:
    """Convert an element of a tensor of dtype `source` to an element of dtype `to` (rounded, where that is 16-bit)."""
    if source == to:
        return value
    computing = computing_dtype(to)
    if isinstance(value, Const) and (to.is_floating_point or to is torch.bool or abs(value.value) < 2**31):
        return constant(value.value, to)
    if to not in HALVES and value.dtype == computing:
        return value
    return Cast(computing, origins(), value, to)


def rounded(value: Expr, to: torch.dtype) -> Expr:
    """A computed value as an element of dtype `to`: 16-bit floats are rounded, others have that dtype already."""
    return cast(value, value.dtype, to)


def constant(value: Any, dtype: torch.dtype) -> Const:
    """The number as an element of dtype `dtype`, converted as `torch.full` does."""
    computing = computing_dtype(dtype)
    if dtype in HALVES:
        value = torch.tensor(value, dtype=torch.float64).to(dtype).item()
    elif dtype == torch.bool:
        value = bool(value)
    elif dtype.is_floating_point:
        value = float(value)
    else:
        value = torch.tensor(int(value)).to(dtype).item()
    return Const(computing, origins(), value)


@cache
def promoted(*kinds: tuple[torch.dtype | type, bool]) -> torch.dtype:
    """The common dtype of operands under torch's promotion; each is (dtype, whether 0-d) or (Python type, True)."""
    wide = [dtype for dtype, zero in kinds if isinstance(dtype, torch.dtype) and not zero]
    zero = [dtype for dtype, zero in kinds if isinstance(dtype, torch.dtype) and zero]
    numbers = [number for number, _ in kinds if isinstance(number, type)]
    result: torch.dtype | None = None
    for group in (wide, zero):
        dtype = None
        for other in group:
            dtype = other if dtype is None else torch.promote_types(dtype, other)
        result = dtype if result is None else result if dtype is None else _by_category(result, dtype)
    for number in numbers:
        of_number = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}[number]
        result = of_number if result is None else _by_category(result, of_number)
    assert result is not None, "promotion of no operands"
    return result


def _by_category(strong: torch.dtype, weak: torch.dtype) -> torch.dtype:
    """A weaker operand (0-d tensor, Python number) changes the dtype only where its category is higher."""
    return torch.promote_types(strong, weak) if _category(weak) > _category(strong) else strong


def _category(dtype: torch.dtype) -> int:
    return 0 if dtype == torch.bool else 2 if dtype.is_floating_point else 1
