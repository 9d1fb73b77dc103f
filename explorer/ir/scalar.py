"""Every scalar operation of the loop IR: what it means, its cost, and how C++ and Triton write it.

A form is a template over the operands {0}, {1}, {2}. C++ forms also name {T}, the C++ type of the operands, {f}, the
suffix of the C library's float functions, and {zero}, the bit of `bad` that a division by zero sets; Triton's name
{bits}, the width of the operands. Triton sees `tl`, `libdevice` and `ops` (explorer.compiler.runtime.triton_ops), C++
the helpers of `cpp_prelude`. Inductor: codegen/cpp.py (CppOverrides) and codegen/triton.py (TritonOverrides).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch

HALVES = (torch.float16, torch.bfloat16)

Forms: TypeAlias = Mapping[str, str]
"""Templates by the operands that they are for: "float32", "float", "bool", "unsigned" (bool too), "int" (all integers
and bool), "any"."""


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values of `dtype` are computed: float32 for the 16-bit floats, itself for others."""
    return torch.float32 if dtype in HALVES else dtype


class Written(NamedTuple):
    """A dtype's names in C++, in triton.language and in the signature of a Triton kernel."""

    cpp: str
    triton: str
    short: str


TYPES: dict[torch.dtype, Written] = {
    torch.float32: Written("float", "float32", "fp32"),
    torch.float64: Written("double", "float64", "fp64"),
    torch.float16: Written("fp16", "float16", "fp16"),
    torch.bfloat16: Written("bf16", "bfloat16", "bf16"),
    torch.int64: Written("long", "int64", "i64"),
    torch.int32: Written("int", "int32", "i32"),
    torch.int16: Written("short", "int16", "i16"),
    torch.int8: Written("signed char", "int8", "i8"),
    torch.uint8: Written("unsigned char", "uint8", "u8"),
    torch.uint16: Written("unsigned short", "uint16", "u16"),
    torch.uint32: Written("unsigned", "uint32", "u32"),
    torch.uint64: Written("unsigned long", "uint64", "u64"),
    torch.bool: Written("bool", "int1", "i1"),
}


def neutral(combine: str, dtype: torch.dtype) -> int | float | bool:
    """What a reduction, or an update of memory, starts from: it changes no value of `dtype`."""
    if combine in ("max", "argmax", "min", "argmin"):
        is_lowest = combine in ("max", "argmax")
        if dtype == torch.bool:
            return not is_lowest
        if dtype.is_floating_point:
            return -math.inf if is_lowest else math.inf
        return torch.iinfo(dtype).min if is_lowest else torch.iinfo(dtype).max
    return int(combine in ("prod", "all"))


def _kinds(dtype: torch.dtype) -> tuple[str, ...]:
    """The keys of `Forms` that are for `dtype`, the most special first."""
    if dtype.is_floating_point:
        return ("float32", "float", "any") if dtype == torch.float32 else ("float", "any")
    if dtype == torch.bool:
        return ("bool", "unsigned", "int", "any")
    return ("int", "any") if dtype.is_signed else ("unsigned", "int", "any")


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """`reference` computes it on tensors. `flops`: the cost counted for one evaluation. `is_test`: the result is bool,
    else it has the dtype of the operands (for `where`, of the last two)."""

    name: str
    arity: int
    flops: int
    reference: Callable[..., torch.Tensor]
    cpp: Forms
    triton: Forms
    is_test: bool

    def form(self, forms: Forms, dtype: torch.dtype) -> str | None:
        """Its form on operands of `dtype`; None where it has no meaning there."""
        return next((forms[kind] for kind in _kinds(dtype) if kind in forms), None)


OPS: dict[str, ScalarOp] = {}


def _op(
    name: str, arity: int, flops: int, reference: Callable[..., torch.Tensor], cpp: str | Forms, triton: str | Forms,
    is_test: bool = False,
) -> None:  # fmt: skip
    of_cpp, of_triton = ({"any": forms} if isinstance(forms, str) else forms for forms in (cpp, triton))
    OPS[name] = ScalarOp(name, arity, flops, reference, of_cpp, of_triton, is_test)


# Operators that both languages write with one sign between the operands.
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
for _name, _sign in INFIX.items():
    _infix = f"{{0}} {_sign} {{1}}"
    _op(_name, 2, 1, getattr(torch, _name), _infix, _infix, is_test=_sign[0] in "=!<>")
for _name, _sign in (("logical_and", "&"), ("logical_or", "|"), ("logical_xor", "^")):
    _forms: Forms = {"bool": f"{{0}} {_sign} {{1}}", "any": f"({{0}} != 0) {_sign} ({{1}} != 0)"}
    _op(_name, 2, 1, getattr(torch, _name), _forms, _forms, is_test=True)

# Functions of the C library and of libdevice, by their names in torch.
LIBM = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
UNDEFINED_PARTS = frozenset({"log", "log2", "log10", "log1p", "asin", "acos", "acosh", "atanh"})
"""Those whose vector variants compute each element again by itself where they are not defined for one of a vector."""
LIBM_BINARY = ("pow", "atan2", "hypot", "nextafter", "fmod")
for _name in LIBM:
    _forms = {"float": f"{_name}{{f}}({{0}})"}
    if _name in ("exp", "tanh", "erf") or _name in UNDEFINED_PARTS:  # the former inline: a call would spill registers
        _forms = {"float32": f"{_name}_float({{0}})", **_forms}
    _op(_name, 1, 16, getattr(torch, _name), _forms, f"libdevice.{_name}({{0}})")
for _name in ("atan2", "hypot", "nextafter"):
    _forms = {"float": f"{_name}{{f}}({{0}}, {{1}})"}
    _op(_name, 2, 32, getattr(torch, _name), _forms, f"libdevice.{_name}({{0}}, {{1}})")

# Rounding; integers are whole already.
for _name, _cpp, _triton in (
    ("floor", "floor", "tl.floor"), ("ceil", "ceil", "tl.ceil"),
    ("trunc", "trunc", "libdevice.trunc"), ("round", "rint", "libdevice.rint"),
):  # fmt: skip
    _forms = {"float": f"__builtin_{_cpp}{{f}}({{0}})", "int": "{0}"}
    _op(_name, 1, 1, getattr(torch, _name), _forms, {"float": f"{_triton}({{0}})", "int": "{0}"})

# One operand.
_op("neg", 1, 1, torch.neg, "-{0}", "-{0}")
_op(
    "abs", 1, 1, torch.abs,
    {"float": "__builtin_fabs{f}({0})", "unsigned": "{0}", "int": "({0} < 0 ? -{0} : {0})"},
    "tl.abs({0})",
)  # fmt: skip
_op(
    "sign", 1, 1, torch.sign,
    {"float": "{T}({0} > 0) - {T}({0} < 0)", "unsigned": "({0} > 0)", "int": "({0} > 0) - ({0} < 0)"},
    "ops.sign({0})",
)  # fmt: skip
_op(
    "reciprocal", 1, 1, torch.reciprocal, {"float": "1 / {0}"},
    {"float32": "tl.div_rn(tl.full([1], 1.0, tl.float32), {0})", "any": "1.0 / {0}"},
)  # fmt: skip
_op(
    "relu", 1, 1, torch.relu, "({0} < 0 ? 0 : {0})",
    {"float": "tl.where({0} < 0, 0.0, {0})", "int": "tl.where({0} < 0, 0, {0})"},
)  # fmt: skip
_op("bitwise_not", 1, 1, torch.bitwise_not, {"bool": "!{0}", "int": "~{0}"}, "~{0}")
_op(
    "sqrt", 1, 8, torch.sqrt, {"float": "__builtin_sqrt{f}({0})"}, {"float32": "tl.sqrt_rn({0})", "any": "tl.sqrt({0})"}
)
_op(
    "rsqrt", 1, 8, torch.rsqrt,
    {"float": "1 / __builtin_sqrt{f}({0})"}, {"float32": "ops.rsqrt({0})", "any": "libdevice.rsqrt({0})"},
)  # fmt: skip
_op(
    "sigmoid", 1, 16, torch.sigmoid,
    {"float32": "1 / (1 + exp_float(-{0}))", "float": "1 / (1 + exp{f}(-{0}))"}, "ops.sigmoid({0})",
)  # fmt: skip
_op("erfinv", 1, 16, torch.erfinv, {"float": "erfinv_{T}({0})"}, "libdevice.erfinv({0})")
_op("lgamma", 1, 16, torch.lgamma, {"float": "lgamma_{T}({0})"}, "libdevice.lgamma({0})")
_op("digamma", 1, 16, torch.digamma, {"float": "digamma_{T}({0})"}, "ops.digamma({0})")

# Tests of one operand.
_op("isnan", 1, 1, torch.isnan, {"float": "{0} != {0}", "int": "false"}, "{0} != {0}", is_test=True)
_op(
    "isinf", 1, 1, torch.isinf,
    {"float": "__builtin_fabs{f}({0}) == INFINITY", "int": "false"}, 'tl.abs({0}) == float("inf")', is_test=True,
)  # fmt: skip
_op(
    "signbit", 1, 1, torch.signbit,
    {"float": "__builtin_signbit({0}) != 0", "unsigned": "false", "int": "{0} < 0"},
    {"float": "{0}.to(tl.int{bits}, bitcast=True) < 0", "int": "{0} < 0"}, is_test=True,
)  # fmt: skip
_op("logical_not", 1, 1, torch.logical_not, "{0} == 0", {"bool": "~{0}", "any": "{0} == 0"}, is_test=True)

# Two operands.
for _name, _sign in (("minimum", "&"), ("maximum", "|")):
    _call = f"{_name}({{0}}, {{1}})"
    _forms = {"float": f"ops.{_call}", "bool": f"{{0}} {_sign} {{1}}", "int": f"tl.{_call}"}
    _op(_name, 2, 1, getattr(torch, _name), f"{_name}<{{T}}>({{0}}, {{1}})", _forms)
_op("copysign", 2, 1, torch.copysign, {"float": "__builtin_copysign{f}({0}, {1})"}, "libdevice.copysign({0}, {1})")
_op(
    "div", 2, 4, torch.div,
    {"float": "{0} / {1}", "int": "trunc_div<{T}>({0}, {1}, bad, {zero})"},
    {"float32": "tl.div_rn({0}, {1})", "any": "{0} / {1}"},
)  # fmt: skip
_op(
    "truncdiv", 2, 4, lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    {"float": "__builtin_trunc{f}({0} / {1})", "int": "trunc_div<{T}>({0}, {1}, bad, {zero})"},
    {"float32": "libdevice.trunc(tl.div_rn({0}, {1}))", "float": "libdevice.trunc({0} / {1})", "int": "{0} // {1}"},
)  # fmt: skip
_op(
    "floordiv", 2, 4, lambda a, b: torch.div(a, b, rounding_mode="floor"),
    {"float": "floor_div_float({0}, {1})", "int": "checked_floor_div<{T}>({0}, {1}, bad, {zero})"},
    {"float": "ops.floordiv_float({0}, {1})", "unsigned": "{0} // {1}", "int": "ops.floordiv({0}, {1})"},
)  # fmt: skip
_op(
    "mod", 2, 4, torch.remainder,
    {"float": "floor_mod_float({0}, {1})", "int": "checked_floor_mod<{T}>({0}, {1}, bad, {zero})"},
    {"float": "ops.mod_float({0}, {1})", "unsigned": "{0} % {1}", "int": "ops.mod({0}, {1})"},
)  # fmt: skip
_op(
    "fmod", 2, 4, torch.fmod,
    {"float": "fmod{f}({0}, {1})", "int": "trunc_mod<{T}>({0}, {1}, bad, {zero})"},
    {"float": "libdevice.fmod({0}, {1})", "int": "{0} % {1}"},
)  # fmt: skip
_op(
    "pow", 2, 32, torch.pow,
    {"float": "pow{f}({0}, {1})", "int": "int_pow<{T}>({0}, {1})"},
    {"float": "libdevice.pow({0}, {1})", "int": "ops.pow_int({0}, {1})"},
)  # fmt: skip
_op("shl", 2, 1, torch.bitwise_left_shift, {"int": "shift_left<{T}>({0}, {1})"}, "ops.shl({0}, {1})")
_op("shr", 2, 1, torch.bitwise_right_shift, {"int": "shift_right<{T}>({0}, {1})"}, "ops.shr({0}, {1})")

# Three.
_op("where", 3, 1, torch.where, "{0} ? {1} : {2}", "tl.where({0}, {1}, {2})")

DIVIDES = frozenset(op.name for op in OPS.values() if "{zero}" in op.cpp.get("int", ""))
"""Operations that fail on an integer zero divisor."""
