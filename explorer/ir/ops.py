"""The vocabulary of loop bodies: every scalar operation that lowering may emit and every code generator must know.

Semantics are those of the ATen operation named in `meaning` on scalars of the computing type: floor division and
remainder follow Python's signs, `minimum` and `maximum` propagate NaN, comparisons yield bool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Yields = Literal["same", "bool"]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """`yields`: the dtype of the result, that of the operands or bool. `flops`: the cost counted for one evaluation."""

    name: str
    arity: int
    yields: Yields
    meaning: str
    flops: int = 1


OPS: dict[str, ScalarOp] = {}


def _define(arity: int, yields: Yields, flops: int, *names: str) -> None:
    for name in names:
        OPS[name] = ScalarOp(name, arity, yields, f"torch.{_TORCH.get(name, name)}", flops)


_TORCH = {
    "truncdiv": "div(rounding_mode='trunc')",
    "floordiv": "div(rounding_mode='floor')",
    "mod": "remainder",
    "shl": "bitwise_left_shift",
    "shr": "bitwise_right_shift",
    "exp2": "special.exp2",
}

_define(1, "same", 1, "neg", "abs", "floor", "ceil", "trunc", "round", "sign", "reciprocal", "relu", "bitwise_not")
_define(1, "same", 8, "sqrt", "rsqrt")
_define(
    1, "same", 16,
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid",
)  # fmt: skip
_define(1, "bool", 1, "isnan", "isinf", "signbit", "logical_not")
_define(2, "same", 1, "add", "sub", "mul", "minimum", "maximum", "copysign")
_define(2, "same", 4, "div", "truncdiv", "floordiv", "mod", "fmod")
_define(2, "same", 32, "pow", "atan2", "hypot", "nextafter")
_define(2, "same", 1, "bitwise_and", "bitwise_or", "bitwise_xor", "shl", "shr")
_define(2, "bool", 1, "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
_define(3, "same", 1, "where")

Combine = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "xor_sum"]
"""How a reduction joins values. max and min propagate NaN; argmax and argmin yield the first linear position."""
