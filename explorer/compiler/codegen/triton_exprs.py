"""Scalar operations, constants and casts as Triton expressions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from explorer.compiler.codegen.reasons import DTYPE, OPERATION
from explorer.core.reasons import Unsupported, Why
from explorer.core.rules import RuleTable
from explorer.ir.scalar import OPS, TYPES, ScalarOp, Written


def type_name(dtype: torch.dtype) -> str:
    """ "tl.float32". Raises Unsupported for a dtype that Triton lacks."""
    return f"tl.{_written(dtype).triton}"


def pointer_type(dtype: torch.dtype) -> str:
    """ "*fp32". Raises Unsupported for a dtype that Triton lacks."""
    return f"*{_written(dtype).short}"


def _written(dtype: torch.dtype) -> Written:
    if dtype not in TYPES:
        raise Unsupported(Why(DTYPE, str(dtype)))
    return TYPES[dtype]


def literal(value: int | float | bool, dtype: torch.dtype) -> str:
    """A Python literal, which takes the dtype of the tensor it meets."""
    if dtype == torch.bool:
        return str(bool(value))
    if dtype.is_floating_point:
        number = float(value)
        return repr(number) if math.isfinite(number) else f'float("{number}")'
    return str(int(value))


def typed(value: int | float | bool, dtype: torch.dtype, rank: int = 1) -> str:
    """A constant that carries its dtype: a block of size 1 in each of `rank` dimensions."""
    return f"tl.full([{', '.join('1' * rank)}], {literal(value, dtype)}, {type_name(dtype)})"


def cast(value: str, source: torch.dtype, to: torch.dtype) -> str:
    """`value` converted as Tensor.to does; a 16-bit float is rounded to and widened again, since it is computed in
    float32."""
    if to == torch.bool:
        return value if source == torch.bool else f"({value} != 0)"
    if to in (torch.float16, torch.bfloat16):
        narrow = "" if source == torch.float32 else ".to(tl.float32)"
        return f"{value}{narrow}.to({type_name(to)}).to(tl.float32)"
    if source.is_floating_point and to in (torch.uint8, torch.int8, torch.int16, torch.uint16):
        return f"{value}.to(tl.int32).to({type_name(to)})"
    return value if source == to else f"{value}.to({type_name(to)})"


APPLY: RuleTable[str, Callable[..., str]] = RuleTable("Triton operation", known=OPS.__contains__)
"""Operation -> rule(dtype, *operands) -> text. `dtype` is that of the operands, which are names of tensors."""


def _rule(op: ScalarOp) -> Callable[..., str]:
    def text(dtype: torch.dtype, *operands: str) -> str:
        form = op.form(op.triton, dtype)
        if form is None:
            raise Unsupported(Why(OPERATION, f"{op.name} on {dtype}"))
        return form.format(*operands, bits=dtype.itemsize * 8)

    return text


for _op in OPS.values():
    APPLY.rule(_op.name)(_rule(_op))


def apply_text(op: str, dtype: torch.dtype, operands: tuple[str, ...]) -> str:
    """One scalar operation on named operands of `dtype` (for `where`: of its last two)."""
    if dtype == torch.bool and op in ("lt", "le", "gt", "ge"):
        operands = tuple(f"{operand}.to(tl.int32)" for operand in operands)  # True is -1 as a signed 1-bit integer
    return APPLY[op](dtype, *operands)
