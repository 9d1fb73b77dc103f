"""Scalar operations, casts, loads and literals in C++, each as an expression that gcc can vectorise.

The functions named here and not in libm are in `cpp_prelude`. Inductor: codegen/cpp.py, CppOverrides, CppVecOverrides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from explorer.compiler.codegen import reasons
from explorer.compiler.codegen.exprs import float32_text
from explorer.core.reasons import Unsupported, Why
from explorer.core.rules import RuleTable
from explorer.ir.loops import OPS

CPP_TYPES: dict[torch.dtype, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "long",
    torch.int32: "int",
    torch.int16: "short",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.uint16: "unsigned short",
    torch.uint32: "unsigned",
    torch.uint64: "unsigned long",
    torch.bool: "bool",
}

FLOAT32_MAX = 3.4028234663852886e38
UNSIGNED = (torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


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
    if math.isnan(number):
        return "NAN"
    single = dtype is not torch.float64
    if math.isinf(number) or (single and abs(number) > FLOAT32_MAX):
        return "INFINITY" if number > 0 else "-INFINITY"
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


_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BINARY = {"add": "+", "sub": "-", "mul": "*", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", **_COMPARE}
_LOGICAL = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}

_EITHER = {
    "minimum": "minimum<{T}>({0}, {1})",
    "maximum": "maximum<{T}>({0}, {1})",
    "relu": "({0} < 0 ? 0 : {0})",
    "logical_not": "{0} == 0",
    "where": "{0} ? {1} : {2}",
}

_FLOAT = {
    "neg": "-{0}",
    "sign": "{T}({0} > 0) - {T}({0} < 0)",
    "reciprocal": "1 / {0}",
    "rsqrt": "1 / __builtin_sqrt{f}({0})",
    "div": "{0} / {1}",
    "truncdiv": "__builtin_trunc{f}({0} / {1})",
    "sigmoid": "1 / (1 + exp{f}(-{0}))",
    "isnan": "{0} != {0}",
    "isinf": "__builtin_fabs{f}({0}) == INFINITY",
    "signbit": "__builtin_signbit({0}) != 0",
    "floordiv": "floor_div_float({0}, {1})",
    "mod": "floor_mod_float({0}, {1})",
    "erfinv": "erfinv_{T}({0})",
    "digamma": "digamma_{T}({0})",
    "lgamma": "lgamma_{T}({0})",
}

_FLOAT32 = {
    "exp": "exp_float({0})",
    "tanh": "tanh_float({0})",
    "erf": "erf_float({0})",
    "sigmoid": "1 / (1 + exp_float(-{0}))",
}
"""Inline forms of the prelude: quicker than a call, which would spill every vector register."""

_INLINED = {"abs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "sqrt": "sqrt"}
_INLINED |= {"copysign": "copysign"}

LIBM = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
    "pow atan2 hypot nextafter fmod".split()
)

_INTEGER = {
    "neg": "-{0}",
    "floor": "{0}",
    "ceil": "{0}",
    "trunc": "{0}",
    "round": "{0}",
    "bitwise_not": "~{0}",
    "isnan": "false",
    "isinf": "false",
    "truncdiv": "trunc_div<{T}>({0}, {1}, bad, {zero})",
    "div": "trunc_div<{T}>({0}, {1}, bad, {zero})",
    "floordiv": "checked_floor_div<{T}>({0}, {1}, bad, {zero})",
    "mod": "checked_floor_mod<{T}>({0}, {1}, bad, {zero})",
    "fmod": "trunc_mod<{T}>({0}, {1}, bad, {zero})",
    "pow": "int_pow<{T}>({0}, {1})",
    "shl": "shift_left<{T}>({0}, {1})",
    "shr": "shift_right<{T}>({0}, {1})",
}

DIVIDES = frozenset({"truncdiv", "div", "floordiv", "mod", "fmod"})
"""Operations that fail on an integer zero divisor."""


PRINTERS: RuleTable[str, Callable[..., str]] = RuleTable("C++ operation", known=OPS.__contains__)
"""A person's own rules, as those of Triton: operation -> rule(dtype, *operands) -> text. The built-in ones follow."""


def apply_text(op: str, dtype: torch.dtype, args: list[str], zero: int = 0) -> str:
    """`op` on operands of computing dtype `dtype` (the operands', not the result's). `zero` is the bit of `bad` that an
    integer division by zero sets. Raises Unsupported where the operation has no meaning on the dtype."""
    if dtype not in CPP_TYPES:
        raise Unsupported(Why(reasons.DTYPE, str(dtype)))
    if own := PRINTERS.own(op):
        return f"({own(dtype, *args)})"
    type_name, suffix = CPP_TYPES[dtype], "f" if dtype is torch.float32 else ""
    args = [f"({arg})" if arg.startswith("-") else arg for arg in args]
    if op in _BINARY:
        return f"{args[0]} {_BINARY[op]} {args[1]}"
    if op in _LOGICAL:
        if dtype is torch.bool:
            return f"{args[0]} {_LOGICAL[op]} {args[1]}"
        return f"({args[0]} != 0) {_LOGICAL[op]} ({args[1]} != 0)"
    if op in _EITHER:
        return _EITHER[op].format(*args, T=type_name)
    if dtype.is_floating_point:
        if dtype is torch.float32 and op in _FLOAT32:
            return _FLOAT32[op].format(*args)
        if op in _FLOAT:
            return _FLOAT[op].format(*args, T=type_name, f=suffix)
        if op in _INLINED:
            return f"__builtin_{_INLINED[op]}{suffix}({', '.join(args)})"
        if op in LIBM:
            return f"{op}{suffix}({', '.join(args)})"
    elif dtype is torch.bool and op == "bitwise_not":
        return f"!{args[0]}"
    elif op in _INTEGER:
        return _INTEGER[op].format(*args, T=type_name, zero=zero)
    elif op == "abs":
        return args[0] if dtype in UNSIGNED else f"({args[0]} < 0 ? -{args[0]} : {args[0]})"
    elif op == "sign":
        return f"({args[0]} > 0)" if dtype in UNSIGNED else f"({args[0]} > 0) - ({args[0]} < 0)"
    elif op == "signbit":
        return "false" if dtype in UNSIGNED else f"{args[0]} < 0"
    raise Unsupported(Why(reasons.OPERATION, f"{op} on {dtype}"))
