"""Triton device functions that generated kernels call where the language has no one word for ATen's meaning.

Arguments are tensors of one dtype and of shapes that broadcast. Inductor: runtime/triton_helpers.py.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def maximum(a, b):
    """The larger; NaN where either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    """The smaller; NaN where either is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def add(a, b):
    """Joins the values of a sum."""
    return a + b


@triton.jit
def product(a, b):
    """Joins the values of a product."""
    return a * b


@triton.jit
def argmax(value, index, other, position):
    """Of (value, index) and (other, position) the larger; in a tie the first position; NaN is largest."""
    nan = value != value
    wins = (value > other) | (nan & (other == other))
    ties = (value == other) | (nan & (other != other))
    keep = wins | (ties & (index < position))
    return tl.where(keep, value, other), tl.where(keep, index, position)


@triton.jit
def argmin(value, index, other, position):
    """As argmax, for the smaller; NaN counts as smallest."""
    nan = value != value
    wins = (value < other) | (nan & (other == other))
    ties = (value == other) | (nan & (other != other))
    keep = wins | (ties & (index < position))
    return tl.where(keep, value, other), tl.where(keep, index, position)


@triton.jit
def atomic_update(base, offset, value, mask, combine: tl.constexpr, whole: tl.constexpr):
    """base[offset] = combine(base[offset], value) where `mask` holds, whole even if several points meet in one element.

    For what has no instruction of its own: compares and swaps until no other came between. `whole` is the integer dtype
    as wide as an element. Points that are done swap element 0 of `base` only if it is 0, for 0.
    """
    memory = base.to(tl.pointer_type(whole), bitcast=True)
    nothing = tl.zeros_like(offset).to(whole)
    old = tl.load(base + offset, mask, other=0)
    waiting = mask
    while tl.max(waiting.to(tl.int32)) > 0:
        new = combine(old.to(value.dtype), value).to(old.dtype)
        expected = tl.where(waiting, old.to(whole, bitcast=True), nothing)
        wanted = tl.where(waiting, new.to(whole, bitcast=True), nothing)
        seen = tl.atomic_cas(memory + tl.where(waiting, offset, tl.zeros_like(offset)), expected, wanted, sem="relaxed")
        old = tl.where(waiting, seen.to(old.dtype, bitcast=True), old)
        waiting = waiting & (seen != expected)


@triton.jit
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)) of floats."""
    return 1.0 / (1.0 + libdevice.exp(-x))


@triton.jit
def rsqrt(x):
    """1 / sqrt(x) of float32. libdevice's takes a subnormal number for 0, so that one is scaled up by 2**24 before."""
    small = tl.abs(x) < 1.1754943508222875e-38
    root = libdevice.rsqrt(tl.where(small, x * 16777216.0, x))
    return tl.where(small, root * 4096.0, root)


@triton.jit
def div(a, b):
    """a / b of floats, rounded to the nearest: `/` alone is an approximation in float32."""
    return tl.div_rn(a, b) if a.dtype == tl.float32 else a / b


@triton.jit
def floordiv(a, b):
    """Integer division rounded down."""
    quotient = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def mod(a, b):
    """Integer remainder with the divisor's sign."""
    remainder = a % b
    return tl.where((remainder != 0) & ((remainder < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def mod_float(a, b):
    """Float remainder with the divisor's sign."""
    remainder = libdevice.fmod(a, b)
    return tl.where((remainder != 0) & ((remainder < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def floordiv_float(a, b):
    """Float division rounded down as Python does it: from the remainder, so that a == b * quotient + remainder."""
    remainder = libdevice.fmod(a, b)
    quotient = div(a - remainder, b)
    quotient = tl.where((remainder != 0) & ((b < 0) != (remainder < 0)), quotient - 1.0, quotient)
    down = tl.floor(quotient)
    down = tl.where(quotient - down > 0.5, down + 1.0, down)
    ratio = div(a, b)
    down = tl.where(quotient == 0, libdevice.copysign(quotient * 0.0, ratio), down)
    return tl.where(b == 0, ratio, down)


@triton.jit
def shl(a, b):
    """a << b; 0 where b is negative or at least the width."""
    width: tl.constexpr = a.dtype.primitive_bitwidth
    fits = (b >= 0) & (b < width)
    return tl.where(fits, a << tl.where(fits, b, tl.zeros_like(b)), tl.zeros_like(a))


@triton.jit
def shr(a, b):
    """a >> b; only the sign is left where b is negative or at least the width."""
    width: tl.constexpr = a.dtype.primitive_bitwidth
    fits = (b >= 0) & (b < width)
    return a >> tl.where(fits, b, tl.full([1], width - 1, b.dtype))


@triton.jit
def pow_int(a, b):
    """Integer power by squaring; of a negative exponent the truncated reciprocal."""
    width: tl.constexpr = a.dtype.primitive_bitwidth
    result = tl.full([1], 1, a.dtype) + tl.zeros_like(a + b)
    base = a + tl.zeros_like(result)
    for bit in tl.static_range(width):
        result = tl.where((b >> bit) & 1 != 0, result * base, result)
        base = base * base
    odd = (b & 1) != 0
    unit = tl.where(a == 1, tl.full([1], 1, a.dtype), tl.zeros_like(result))
    unit = tl.where((a + 1) == 0, tl.where(odd, a, -a), unit)
    return tl.where(b < 0, unit, result)


@triton.jit
def digamma(x):
    """The logarithmic derivative of gamma: recurrence up to 10, then the asymptotic series; reflected below 0.

    As ATen: -inf at +0, inf at -0, NaN at negative integers.
    """
    pi: tl.constexpr = 3.141592653589793
    reflected = x < 0
    whole = reflected & (tl.floor(x) == x)
    y = tl.where(reflected, 1.0 - x, x)
    shift = tl.zeros_like(y)
    for _ in tl.static_range(10):
        small = y < 10.0
        shift = shift - tl.where(small, 1.0 / y, tl.zeros_like(y))
        y = tl.where(small, y + 1.0, y)
    z = 1.0 / (y * y)
    series = z * (
        8.33333333333333333333e-2
        - z * (8.33333333333333333333e-3 - z * (3.96825396825396825397e-3 - z * (4.16666666666666666667e-3
        - z * (7.57575757575757575758e-3 - z * (2.10927960927960927961e-2 - z * 8.33333333333333333333e-2)))))
    )  # fmt: skip
    result = libdevice.log(y) - 0.5 / y - series + shift
    turn = x - libdevice.trunc(x)
    result = tl.where(reflected, result - pi / libdevice.tan(turn * pi), result)
    result = tl.where(whole, tl.full([1], float("nan"), x.dtype), result)
    return tl.where(x == 0, libdevice.copysign(tl.full([1], float("inf"), x.dtype) + x, -x), result)
