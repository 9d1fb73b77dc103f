"""Scalar operations, casts, loads and literals in C++, each as an expression that gcc can vectorize.

The functions named here and not in libm are in `cpp_prelude`. Inductor: codegen/cpp.py, CppVecOverrides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from explorer.compiler.codegen import reasons
from explorer.compiler.codegen.exprs import float32_text
from explorer.core.reasons import Unsupported, Why
from explorer.core.rules import RuleTable
from explorer.ir.scalar import OPS, TYPES

CPP_TYPES = {dtype: written.cpp for dtype, written in TYPES.items()}

FLOAT32_MAX = 3.4028234663852886e38


def cpp_type(dtype: torch.dtype) -> str:
    """The C++ type that elements of `dtype` have in memory. Raises Unsupported for complex and 8-bit floats."""
    if dtype not in CPP_TYPES:
        raise Unsupported(Why(reasons.DTYPE, str(dtype)))
    return CPP_TYPES[dtype]


def literal(value: int | float | bool, dtype: torch.dtype) -> str:
    """A constant as it is after conversion to `dtype`."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        whole = int(value)
        if dtype in (torch.int64, torch.uint64):
            if whole == -(2**63):
                return "(-9223372036854775807L - 1)"
            return f"{whole}{'UL' if dtype is torch.uint64 else 'L'}"
        return f"(-{2**31 - 1} - 1)" if whole == -(2**31) else str(whole)
    number = float(value)
    single = dtype is not torch.float64
    if math.isnan(number):
        return "NAN" if single else "(double)NAN"
    if math.isinf(number) or (single and abs(number) > FLOAT32_MAX):
        return f"{'' if number > 0 else '-'}{'' if single else '(double)'}INFINITY"
    return float32_text(number) + "f" if single else repr(number)


HALF_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def load(element: str, dtype: torch.dtype) -> str:
    """The computing value of a stored element."""
    return f"{HALF_NAMES[dtype]}_to_float({element})" if dtype in HALF_NAMES else element


def store(value: str, dtype: torch.dtype, rounded: bool = False) -> str:
    """The element to store for a computing value; `rounded` says that it was already rounded to a 16-bit float."""
    if dtype not in HALF_NAMES:
        return value
    name = HALF_NAMES[dtype]
    return f"{name}_bits({value if rounded else f'{name}_round({value})'})"


def cast(value: str, source: torch.dtype, to: torch.dtype) -> str:
    """As `Tensor.to`: floats to integers truncate, to bool compare with zero, to 16-bit floats round and go on."""
    if source == to:
        return value
    if to is torch.bool:
        return f"{value} != 0"
    if to in HALF_NAMES:
        single = value if source is torch.float32 else f"(float){value}"
        return f"{HALF_NAMES[to]}_round({single})"
    if source.is_floating_point and not to.is_floating_point:
        whole = "int" if to in (torch.int8, torch.int16, torch.int32) else "long"
        narrow = "" if cpp_type(to) == whole else f"({cpp_type(to)})"
        return f"{narrow}truncated<{whole}>({value})"
    return f"({cpp_type(to)}){value}"


PRINTERS: RuleTable[str, Callable[..., str]] = RuleTable("C++ operation", known=OPS.__contains__)
"""A person's own rules, as those of Triton: operation -> rule(dtype, *operands) -> text. The built-in ones follow."""


def apply_text(op: str, dtype: torch.dtype, args: list[str], zero: int = 0) -> str:
    """`op` on operands of computing dtype `dtype` (the operands', not the result's). `zero` is the bit of `bad` that an
    integer division by zero sets. Raises Unsupported where the operation has no meaning on the dtype."""
    if dtype not in CPP_TYPES:
        raise Unsupported(Why(reasons.DTYPE, str(dtype)))
    if own := PRINTERS.own(op):
        return f"({own(dtype, *args)})"
    form = OPS[op].form(OPS[op].cpp, dtype)
    if form is not None:
        operands = [f"({arg})" if arg.startswith("-") else arg for arg in args]
        return form.format(*operands, T=CPP_TYPES[dtype], f="f" if dtype is torch.float32 else "", zero=zero)
    raise Unsupported(Why(reasons.OPERATION, f"{op} on {dtype}"))
