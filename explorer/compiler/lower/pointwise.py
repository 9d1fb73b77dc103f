"""Elementwise operators: each element of the result from the elements of the operands at the same point."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.dtypes import cast, promoted, rounded
from explorer.compiler.lower.policy import realize_broadcast
from explorer.compiler.lower.sizes import number
from explorer.compiler.lower.table import LOWERINGS
from explorer.compiler.lower.tensors import Element, Tensor
from explorer.core.origin import origins
from explorer.ir.index import ZERO, Point
from explorer.ir.loops import Const, Expr, apply
from explorer.ir.scalar import OPS, computing_dtype

aten, prims = torch.ops.aten, torch.ops.prims

Operand: TypeAlias = Any
"""A Tensor, a Python number, or a size expression."""


def pointwise(
    lower: Lowering,
    out: torch.Tensor,
    operation: Callable[..., Expr],
    *operands: Operand,
    dtype: torch.dtype | None = None,
    exact: bool = False,
    wide: bool = False,
) -> Tensor:
    """operation(*elements), each element converted to `dtype` (by default the operands' promoted dtype, or that of the
    result where it is a float and they are not), the result to that of `out`.

    Where `out` is a 16-bit float: `exact` says that the result needs no rounding (it is one of the operands, perhaps
    with another sign), `wide` that ATen takes numbers and 0-d operands without rounding them first (products and
    quotients do, sums do not).
    """
    common = dtype or common_dtype(out, *operands)
    size = shape(out)
    elements = [broadcast(lower, operand, size, common, wide) for operand in operands]

    def element(point: Point) -> Expr:
        value = operation(*(each(point) for each in elements))
        return value if exact and common == out.dtype else rounded(value, out.dtype)

    return lower.computed(out, element, *(operand for operand in operands if isinstance(operand, Tensor)))


def common_dtype(out: torch.Tensor, *operands: Operand) -> torch.dtype:
    """The dtype that ATen converts the operands to: promoted, and to float for an operator with float results."""
    common = promoted(*(
        (operand.dtype, not operand.size) if isinstance(operand, Tensor) else (_python_type(operand), True)
        for operand in operands
    ))  # fmt: skip
    return out.dtype if out.dtype.is_floating_point and not common.is_floating_point else common


def _python_type(value: Any) -> type:
    return type(value) if isinstance(value, (bool, int, float)) else int if value.is_integer else float


def broadcast(lower: Lowering, operand: Operand, size: Point, dtype: torch.dtype, wide: bool = False) -> Element:
    """The operand's element at a point of `size`, converted to `dtype`."""
    if not isinstance(operand, Tensor):
        return lambda point: number(lower, operand, computing_dtype(dtype) if wide else dtype)
    if wide and not operand.size:
        dtype = computing_dtype(dtype)
    if operand.size == size:
        return lambda point: cast(operand.at(point), operand.dtype, dtype)
    realize_broadcast(lower, operand, size)
    skipped = len(size) - len(operand.size)
    fixed = tuple(have == 1 != want for have, want in zip(operand.size, size[skipped:], strict=True))

    def element(point: Point) -> Expr:
        of_operand = tuple(ZERO if one else i for i, one in zip(point[skipped:], fixed, strict=True))
        return cast(operand.at(of_operand), operand.dtype, dtype)

    return element


# One scalar operation each.

_ROUNDED: dict[str, tuple[Any, ...]] = {
    **{name: (getattr(aten, name).default,) for name in (
        "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma",
        "digamma", "sigmoid", "signbit", "logical_not", "logical_and", "logical_or", "logical_xor", "atan2", "hypot",
        "bitwise_not",
    )},
    **{name: (getattr(aten, name).Tensor, getattr(aten, name).Scalar) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: (getattr(aten, name).Tensor, getattr(aten, name).Scalar, getattr(aten, name).Scalar_Tensor)
       for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "mod": (aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor),
    "fmod": (aten.fmod.Tensor, aten.fmod.Scalar),
    "shl": (aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar,
            aten.bitwise_left_shift.Scalar_Tensor, aten.__lshift__.Tensor, aten.__lshift__.Scalar),
    "shr": (aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar,
            aten.bitwise_right_shift.Scalar_Tensor, aten.__rshift__.Tensor, aten.__rshift__.Scalar),
    "pow": (aten.pow.Tensor_Tensor, aten.pow.Scalar),
}  # fmt: skip
_EXACT: dict[str, tuple[Any, ...]] = {
    "neg": (aten.neg.default,),
    "abs": (aten.abs.default,),
    "relu": (aten.relu.default,),
    "sign": (aten.sign.default,),
    "copysign": (aten.copysign.Tensor, aten.copysign.Scalar),
    "minimum": (aten.minimum.default,),
    "maximum": (aten.maximum.default,),
}


def _direct(name: str, exact: bool) -> Callable[..., Any]:
    def lower_directly(lower: Lowering, out: torch.Tensor, *operands: Operand) -> Tensor:
        return pointwise(lower, out, partial(apply, name), *operands, exact=exact)

    lower_directly.__doc__ = f"Elementwise {name}."
    return lower_directly


for _names, _is_exact in ((_ROUNDED, False), (_EXACT, True)):
    for _name, _keys in _names.items():
        LOWERINGS.rule(*_keys)(_direct(_name, _is_exact))


# Arithmetic with particulars.


@LOWERINGS.rule(aten.nextafter.default)
def nextafter(lower: Lowering, out: torch.Tensor, x: Operand, y: Operand) -> Tensor | None:
    """The next number after x towards y; the library computes it for 16-bit floats, as loops compute in 32 bits."""
    if out.dtype.itemsize < 4:
        return None
    return pointwise(lower, out, partial(apply, "nextafter"), x, y)


def _sum(name: str, of_bools: str, about: str) -> Callable[..., Any]:
    def lower_sum(lower: Lowering, out: torch.Tensor, x: Operand, y: Operand, alpha: object = 1) -> Tensor:
        if alpha == 1:
            return pointwise(lower, out, partial(apply, of_bools if out.dtype == torch.bool else name), x, y)
        return pointwise(lower, out, lambda a, b, c: apply(name, a, apply("mul", b, c)), x, y, alpha,
                         dtype=common_dtype(out, x, y))  # fmt: skip

    lower_sum.__name__, lower_sum.__doc__ = name, about
    return lower_sum


LOWERINGS.rule(aten.add.Tensor, aten.add.Scalar)(_sum("add", "bitwise_or", "x + alpha * y"))
LOWERINGS.rule(aten.sub.Tensor, aten.sub.Scalar)(_sum("sub", "sub", "x - alpha * y"))


@LOWERINGS.rule(aten.mul.Tensor, aten.mul.Scalar)
def mul(lower: Lowering, out: torch.Tensor, x: Operand, y: Operand) -> Tensor:
    """x * y"""
    name = "bitwise_and" if out.dtype == torch.bool else "mul"
    return pointwise(lower, out, partial(apply, name), x, y, wide=True)


_DIVISIONS = {None: "div", "trunc": "truncdiv", "floor": "floordiv"}


@LOWERINGS.rule(
    aten.div.Tensor, aten.div.Scalar, aten.div.Tensor_mode, aten.div.Scalar_mode,
)  # fmt: skip
def div(lower: Lowering, out: torch.Tensor, x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    """x / y, rounded to an integer where a mode says so."""
    return pointwise(lower, out, partial(apply, _DIVISIONS[rounding_mode]), x, y, wide=True)


@LOWERINGS.rule(aten.pow.Tensor_Scalar)
def pow_scalar(lower: Lowering, out: torch.Tensor, x: Tensor, exponent: Operand) -> Tensor | None:
    """x ** exponent; small fixed exponents as ATen computes them. Of integers it raises for a negative one."""
    if out.dtype is torch.bool or not out.dtype.is_floating_point and not (isinstance(exponent, int) and exponent >= 0):
        return None
    if out.dtype is torch.float16 and lower.device.type == "cpu" and exponent in (0.5, -0.5):
        return None  # eager takes pow, whose -0.0 and -inf are others than the root's, and so is what g++ makes of pow

    def operation(a: Expr) -> Expr:
        if isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
            if exponent == 2:
                return apply("mul", a, a)
            if out.dtype is torch.float16 and lower.device.type == "cpu":
                return apply("pow", a, number(lower, exponent, a.dtype))
            if exponent == 3:
                return apply("mul", apply("mul", a, a), a)
            if a.dtype.is_floating_point and exponent in _POWERS:
                return _POWERS[exponent](a)
        return apply("pow", a, number(lower, exponent, a.dtype))

    return pointwise(lower, out, operation, x, dtype=common_dtype(out, x, exponent))


_POWERS: dict[float, Callable[[Expr], Expr]] = {
    0.5: lambda a: apply("sqrt", a),
    -0.5: lambda a: apply("rsqrt", a),
    1: lambda a: a,
    -1: lambda a: apply("reciprocal", a),
    -2: lambda a: apply("reciprocal", apply("mul", a, a)),
}


def _of_floats(name: str, about: str) -> Callable[..., Any]:
    """Integers are whole already, and neither infinite nor NaN."""

    def lower_of_floats(lower: Lowering, out: torch.Tensor, x: Tensor) -> Tensor:
        def operation(a: Expr) -> Expr:
            if a.dtype.is_floating_point:
                return apply(name, a)
            return Const(torch.bool, origins(), False) if OPS[name].is_test else a

        return pointwise(lower, out, operation, x, exact=out.dtype not in (torch.bfloat16, torch.bool))

    lower_of_floats.__name__, lower_of_floats.__doc__ = name, about
    return lower_of_floats


LOWERINGS.rule(aten.floor.default)(_of_floats("floor", "The largest integer that is not larger."))
LOWERINGS.rule(aten.ceil.default)(_of_floats("ceil", "The smallest integer that is not smaller."))
LOWERINGS.rule(aten.trunc.default)(_of_floats("trunc", "The integer part."))
LOWERINGS.rule(aten.round.default)(_of_floats("round", "The nearest integer, the even one of two."))
LOWERINGS.rule(aten.isnan.default)(_of_floats("isnan", "Whether it is not a number; never so for integers."))
LOWERINGS.rule(aten.isinf.default)(_of_floats("isinf", "Whether it is an infinity; never so for integers."))


def _ignoring_nan(name: str, beyond: str, about: str) -> Callable[..., Any]:
    """`beyond` holds where the second operand is the one to take; of two zeros the first is."""

    def operation(a: Expr, b: Expr) -> Expr:
        if not a.dtype.is_floating_point:
            return apply(name, a, b)
        return apply("where", apply("logical_or", apply("isnan", a), apply(beyond, a, b)), b, a)

    def lower_ignoring_nan(lower: Lowering, out: torch.Tensor, x: Operand, y: Operand) -> Tensor:
        return pointwise(lower, out, operation, x, y, exact=True)

    lower_ignoring_nan.__doc__ = about
    return lower_ignoring_nan


LOWERINGS.rule(aten.fmin.default)(_ignoring_nan("minimum", "gt", "The smaller, or the one that is a number."))
LOWERINGS.rule(aten.fmax.default)(_ignoring_nan("maximum", "lt", "The larger, or the one that is a number."))


@LOWERINGS.rule(aten.clamp.default, aten.clamp.Tensor)
def clamp(lower: Lowering, out: torch.Tensor, x: Tensor, min: object = None, max: object = None) -> Tensor:
    """min(max(x, lower bound), upper bound); either may be absent."""

    def operation(a: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        for name, beyond, given in (("maximum", "lt", min), ("minimum", "gt", max)):
            if given is None:
                continue
            bound = rest.pop(0)
            plain = not isinstance(given, (int, float)) or given != given
            # Of two zeros the element, as far as the bound is a number.
            a = apply(name, a, bound) if plain else apply("where", apply(beyond, a, bound), bound, a)
        return a

    given = [bound for bound in (min, max) if bound is not None]
    return pointwise(lower, out, operation, x, *given, dtype=out.dtype, exact=True)


@LOWERINGS.rule(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(lower: Lowering, out: torch.Tensor, condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """x where the condition holds, else y."""
    size = shape(out)
    holds = broadcast(lower, condition, size, torch.bool)
    yes, no = (broadcast(lower, each, size, out.dtype) for each in (x, y))
    operands = [operand for operand in (condition, x, y) if isinstance(operand, Tensor)]
    return lower.computed(out, lambda point: apply("where", holds(point), yes(point), no(point)), *operands)


@LOWERINGS.rule(
    aten._to_copy.default, prims.convert_element_type.default, aten.clone.default, aten.lift_fresh_copy.default
)
def convert(lower: Lowering, out: torch.Tensor, x: Tensor, *unused: object, **facts: object) -> Tensor:
    """A copy, of another dtype perhaps."""
    return lower.computed(out, lambda point: cast(x.at(point), x.dtype, out.dtype), x)


@LOWERINGS.rule(aten.round.decimals)
def round_decimals(lower: Lowering, out: torch.Tensor, x: Tensor, *, decimals: int) -> Tensor:
    """The nearest number with so many decimals."""
    scale = 10.0 ** abs(decimals)

    def operation(a: Expr) -> Expr:
        if not a.dtype.is_floating_point:
            return a
        factor = number(lower, scale, a.dtype)
        there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
        return apply(back, apply("round", apply(there, a, factor)), factor)

    return pointwise(lower, out, operation, x)


@LOWERINGS.rule(aten.angle.default)
def angle(lower: Lowering, out: torch.Tensor, x: Tensor) -> Tensor:
    """Pi for negative numbers, 0 for others, nan for nan."""

    def operation(a: Expr) -> Expr:
        zero, pi = number(lower, 0, a.dtype), number(lower, math.pi, a.dtype)
        return apply("where", apply("isnan", a), a, apply("where", apply("lt", a, zero), pi, zero))

    return pointwise(lower, out, operation, x)
