"""Scalar operations, constants and casts as Triton expressions.

Generated code sees `tl` (triton.language), `libdevice`, and `ops` (explorer.compiler.runtime.triton_ops).
Inductor: codegen/triton.py, TritonOverrides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from explorer.compiler.codegen.reasons import DTYPE
from explorer.core.reasons import Unsupported, Why
from explorer.core.rules import RuleTable
from explorer.ir.loops import OPS

TYPES = {
    torch.bool: "int1",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
"""Names in triton.language."""

POINTERS = {
    torch.bool: "*i1",
    torch.uint8: "*u8",
    torch.int8: "*i8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.uint16: "*u16",
    torch.uint32: "*u32",
    torch.uint64: "*u64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}
"""Pointer types as kernel signatures spell them."""


def type_name(dtype: torch.dtype) -> str:
    """ "tl.float32". Raises Unsupported for a dtype that Triton lacks."""
    if dtype not in TYPES:
        raise Unsupported(Why(DTYPE, str(dtype)))
    return f"tl.{TYPES[dtype]}"


def pointer_type(dtype: torch.dtype) -> str:
    """ "*fp32". Raises Unsupported for a dtype that Triton lacks."""
    if dtype not in POINTERS:
        raise Unsupported(Why(DTYPE, str(dtype)))
    return POINTERS[dtype]


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


def lowest(dtype: torch.dtype) -> int | float | bool:
    """What no value of `dtype` is below: where a maximum starts."""
    if dtype == torch.bool:
        return False
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> int | float | bool:
    """What no value of `dtype` is above: where a minimum starts."""
    if dtype == torch.bool:
        return True
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


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

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
"""Operations that Python's operators mean; one operand may be a literal."""


def _function(module: str, name: str) -> Callable[..., str]:
    return lambda dtype, *operands: f"{module}.{name}({', '.join(operands)})"


for _name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "copysign",
    "atan2", "hypot", "nextafter",
):  # fmt: skip
    APPLY.rule(_name)(_function("libdevice", _name))
for _name in ("sign", "sigmoid", "digamma", "shl", "shr"):
    APPLY.rule(_name)(_function("ops", _name))


def _infix(sign: str) -> Callable[..., str]:
    return lambda dtype, a, b: f"{a} {sign} {b}"


for _name, _sign in INFIX.items():
    APPLY.rule(_name)(_infix(_sign))


@APPLY.rule("rsqrt")
def _rsqrt(dtype: torch.dtype, a: str) -> str:
    return f"ops.rsqrt({a})" if dtype == torch.float32 else f"libdevice.rsqrt({a})"


@APPLY.rule("neg")
def _neg(dtype: torch.dtype, a: str) -> str:
    return f"-{a}"


@APPLY.rule("abs")
def _abs(dtype: torch.dtype, a: str) -> str:
    return f"tl.abs({a})"


@APPLY.rule("floor")
def _floor(dtype: torch.dtype, a: str) -> str:
    return f"tl.floor({a})" if dtype.is_floating_point else a


@APPLY.rule("ceil")
def _ceil(dtype: torch.dtype, a: str) -> str:
    return f"tl.ceil({a})" if dtype.is_floating_point else a


@APPLY.rule("trunc")
def _trunc(dtype: torch.dtype, a: str) -> str:
    return f"libdevice.trunc({a})" if dtype.is_floating_point else a


@APPLY.rule("round")
def _round(dtype: torch.dtype, a: str) -> str:
    return f"libdevice.rint({a})" if dtype.is_floating_point else a


@APPLY.rule("reciprocal")
def _reciprocal(dtype: torch.dtype, a: str) -> str:
    return f"tl.div_rn({typed(1, dtype)}, {a})" if dtype == torch.float32 else f"1.0 / {a}"


@APPLY.rule("relu")
def _relu(dtype: torch.dtype, a: str) -> str:
    return f"tl.where({a} < 0, {literal(0, dtype)}, {a})"


@APPLY.rule("bitwise_not")
def _bitwise_not(dtype: torch.dtype, a: str) -> str:
    return f"~{a}"


@APPLY.rule("sqrt")
def _sqrt(dtype: torch.dtype, a: str) -> str:
    return f"tl.sqrt_rn({a})" if dtype == torch.float32 else f"tl.sqrt({a})"


@APPLY.rule("isnan")
def _isnan(dtype: torch.dtype, a: str) -> str:
    return f"{a} != {a}"


@APPLY.rule("isinf")
def _isinf(dtype: torch.dtype, a: str) -> str:
    return f'tl.abs({a}) == float("inf")'


@APPLY.rule("signbit")
def _signbit(dtype: torch.dtype, a: str) -> str:
    if not dtype.is_floating_point:
        return f"{a} < 0"
    return f"{a}.to(tl.int{dtype.itemsize * 8}, bitcast=True) < 0"


@APPLY.rule("logical_not")
def _logical_not(dtype: torch.dtype, a: str) -> str:
    return f"~{a}" if dtype == torch.bool else f"{a} == 0"


def _extreme(name: str, of_bools: str) -> Callable[..., str]:
    def text(dtype: torch.dtype, a: str, b: str) -> str:
        if dtype == torch.bool:
            return f"{a} {of_bools} {b}"
        return f"{'ops' if dtype.is_floating_point else 'tl'}.{name}({a}, {b})"

    return text


APPLY.rule("minimum")(_extreme("minimum", "&"))
APPLY.rule("maximum")(_extreme("maximum", "|"))


@APPLY.rule("div")
def _div(dtype: torch.dtype, a: str, b: str) -> str:
    return f"tl.div_rn({a}, {b})" if dtype == torch.float32 else f"{a} / {b}"


@APPLY.rule("truncdiv")
def _truncdiv(dtype: torch.dtype, a: str, b: str) -> str:
    return f"libdevice.trunc({_div(dtype, a, b)})" if dtype.is_floating_point else f"{a} // {b}"


@APPLY.rule("floordiv")
def _floordiv(dtype: torch.dtype, a: str, b: str) -> str:
    if dtype.is_floating_point:
        return f"ops.floordiv_float({a}, {b})"
    return f"ops.floordiv({a}, {b})" if dtype.is_signed else f"{a} // {b}"


@APPLY.rule("mod")
def _mod(dtype: torch.dtype, a: str, b: str) -> str:
    if dtype.is_floating_point:
        return f"ops.mod_float({a}, {b})"
    return f"ops.mod({a}, {b})" if dtype.is_signed else f"{a} % {b}"


@APPLY.rule("fmod")
def _fmod(dtype: torch.dtype, a: str, b: str) -> str:
    return f"libdevice.fmod({a}, {b})" if dtype.is_floating_point else f"{a} % {b}"


@APPLY.rule("pow")
def _pow(dtype: torch.dtype, a: str, b: str) -> str:
    return f"libdevice.pow({a}, {b})" if dtype.is_floating_point else f"ops.pow_int({a}, {b})"


def _logical(sign: str) -> Callable[..., str]:
    def text(dtype: torch.dtype, a: str, b: str) -> str:
        return f"{a} {sign} {b}" if dtype == torch.bool else f"({a} != 0) {sign} ({b} != 0)"

    return text


APPLY.rule("logical_and")(_logical("&"))
APPLY.rule("logical_or")(_logical("|"))
APPLY.rule("logical_xor")(_logical("^"))


@APPLY.rule("where")
def _where(dtype: torch.dtype, condition: str, a: str, b: str) -> str:
    return f"tl.where({condition}, {a}, {b})"


def apply_text(op: str, dtype: torch.dtype, operands: tuple[str, ...]) -> str:
    """One scalar operation on named operands of `dtype` (for `where`: of its last two)."""
    if dtype == torch.bool and op in ("lt", "le", "gt", "ge"):
        operands = tuple(f"{operand}.to(tl.int32)" for operand in operands)  # True is -1 as a signed 1-bit integer
    return APPLY[op](dtype, *operands)
