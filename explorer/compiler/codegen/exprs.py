"""Integer expressions and literals as text, in C++ and in Python (the wrapper and Triton).

Sizes and indices are sympy expressions with torch's integer functions (FloorDiv, ModularIndexing, ...), which torch
builds for symbolic sizes. Stock: torch/utils/_sympy/printers.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Literal

import sympy
from torch.utils._sympy import functions as sym

from explorer.compiler.codegen import reasons
from explorer.core.reasons import Unsupported, Why
from explorer.ir.loops import Size

Syntax = Literal["cpp", "python", "triton"]

_DIVISIONS = {"//": {"cpp": "floor_div", "triton": "ops.floordiv"}, "%": {"cpp": "floor_mod", "triton": "ops.mod"}}
"""Functions that divide as Python does, for operands that may be negative: there the operators truncate."""

SUM, PRODUCT, UNARY, ATOM = 1, 2, 3, 4
"""How tightly a printed expression binds."""


def index_text(index: Size, syntax: Syntax, names: Mapping[sympy.Symbol, str] | None = None, within: int = 0) -> str:
    """`index` as source text. `names` renames symbols (an index from data becomes a variable); `within` is how tightly
    the surroundings bind. Raises Unsupported for a function that is not an integer expression."""
    text, binds = _print(sympy.sympify(index), syntax, names or {})
    return f"({text})" if binds < within else text


def _print(index: Size, syntax: Syntax, names: Mapping[sympy.Symbol, str]) -> tuple[str, int]:
    def sub(part: Size, within: int = 0) -> str:
        text, binds = _print(part, syntax, names)
        return f"({text})" if binds < within else text

    if isinstance(index, sympy.Symbol):
        return names.get(index, index.name), ATOM
    if isinstance(index, sympy.Integer):
        return str(index), ATOM if index >= 0 else UNARY
    if isinstance(index, sympy.Add):
        return _sum(index, sub), SUM
    if isinstance(index, sympy.Mul):
        number, rest = index.as_coeff_Mul()
        if number == -1:
            return _minus(sub(rest, UNARY)), UNARY
        if number.is_Integer:
            parts = sorted(rest.args, key=str) if isinstance(rest, sympy.Mul) else [rest]
            factors = [part for part in (*parts, number) if part != 1]
            return " * ".join(sub(part, UNARY) for part in factors), PRODUCT
    if isinstance(index, sympy.Pow) and index.exp.is_Integer and index.exp > 0:
        return " * ".join([sub(index.base, UNARY)] * int(index.exp)), PRODUCT
    if isinstance(index, sympy.Float):
        return repr(float(index)), ATOM if index >= 0 else UNARY
    if isinstance(index, sympy.Mul) and syntax != "triton":
        return " * ".join(sub(factor, ATOM) for factor in index.args), PRODUCT
    form = _FUNCTIONS.get(type(index))
    if form is None:
        raise Unsupported(Why(reasons.INDEX, str(index)))
    return form(index, syntax, sub)


def _sum(index: Size, sub: Callable[[Size, int], str]) -> str:
    """Terms with the most symbols and the largest strides first, subtraction for negative ones."""
    text = ""
    for term in sorted(index.args, key=lambda t: (not t.free_symbols, -_magnitude(t), str(t))):
        negative = term.could_extract_minus_sign()
        if negative and not text:
            text = _minus(sub(-term, PRODUCT if (-term).is_Mul else UNARY))
        else:
            part = sub(-term if negative else term, PRODUCT)
            text += (" - " if negative else " + ") + part if text else part
    return text


def _minus(text: str) -> str:
    """The negative of a text that binds as tightly as a sign does: two signs would be a decrement in C++."""
    return f"-({text})" if text.startswith("-") else f"-{text}"


def _magnitude(term: Size) -> int:
    number = term.as_coeff_Mul()[0]
    return abs(int(number)) if number.is_Integer else 0


Form = Callable[[Size, Syntax, Callable[..., str]], tuple[str, int]]


def _division(sign: str) -> Form:
    return lambda index, syntax, sub: _divided(index.args[0], index.args[1], sign, syntax, sub)


def _divided(base: Size, divisor: Size, sign: str, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
    if syntax == "python" or (base.is_nonnegative and divisor.is_positive):
        shown = "/" if sign == "//" and syntax == "cpp" else sign
        return f"{sub(base, UNARY)} {shown} {sub(divisor, UNARY)}", PRODUCT
    return f"{_DIVISIONS[sign][syntax]}({sub(base)}, {sub(divisor)})", ATOM


def _modular(index: Size, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
    base, divisor, modulus = index.args
    if divisor == 1:
        return _divided(base, modulus, "%", syntax, sub)
    text, _ = _divided(base, divisor, "//", syntax, sub)
    if syntax == "python" or (base.is_nonnegative and divisor.is_positive and modulus.is_positive):
        return f"({text}) % {sub(modulus, UNARY)}", PRODUCT
    return f"{_DIVISIONS['%'][syntax]}({text}, {sub(modulus)})", ATOM


def _extreme(name: str) -> Form:
    def form(index: Size, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
        parts = sorted((sub(part) for part in index.args), key=lambda text: (len(text), text))
        if syntax == "python":
            return f"{name}({', '.join(parts)})", ATOM
        text = parts[0]
        for part in parts[1:]:
            text = f"tl.{name}imum({text}, {part})" if syntax == "triton" else f"index_{name}({text}, {part})"
        return text, ATOM

    return form


def _ceiling(index: Size, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
    """CeilToInt; of a true division, which is how torch writes a ceiling division, without floats."""
    (inside,) = index.args
    if not isinstance(inside, sym.IntTrueDiv):
        return _of_float("-int(-({}) // 1)", "(long)__builtin_ceil({})")(index, syntax, sub)
    base, divisor = inside.args
    text, _ = _divided(-base, divisor, "//", syntax, sub)
    return f"-({text})", UNARY


def _floor(index: Size, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
    (inside,) = index.args
    if not isinstance(inside, sym.IntTrueDiv):
        return _of_float("int(({}) // 1)", "(long)__builtin_floor({})")(index, syntax, sub)
    return _divided(inside.args[0], inside.args[1], "//", syntax, sub)


def _of_float(python: str, cpp: str) -> Form:
    """A function over floating-point numbers. Triton's kernels have none for sizes."""

    def form(index: Size, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
        if syntax == "triton":
            raise Unsupported(Why(reasons.INDEX, str(index)))
        return (python if syntax == "python" else cpp).format(*map(sub, index.args)), UNARY

    return form


def _bitwise(sign: str) -> Form:
    return lambda index, syntax, sub: (f"({f' {sign} '.join(sub(arg, ATOM) for arg in index.args)})", ATOM)


def _power(index: Size, syntax: Syntax, sub: Callable[..., str]) -> tuple[str, int]:
    base, exponent = index.args
    if not exponent.is_Integer or exponent < 1:
        raise Unsupported(Why(reasons.INDEX, str(index)))
    return " * ".join([sub(base, UNARY)] * int(exponent)), PRODUCT


_FUNCTIONS: dict[type, Form] = {
    sym.FloorDiv: _division("//"),
    sym.CleanDiv: _division("//"),
    sym.ModularIndexing: _modular,
    sym.Mod: _division("%"),
    sym.PythonMod: _division("%"),
    sympy.Min: _extreme("min"),
    sympy.Max: _extreme("max"),
    sym.Min: _extreme("min"),
    sym.Max: _extreme("max"),
    sym.Identity: lambda index, syntax, sub: (sub(index.args[0], ATOM), ATOM),
    sym.CeilToInt: _ceiling,
    sym.FloorToInt: _floor,
    sym.TruncToInt: _of_float("int({})", "(long)({})"),
    sym.RoundToInt: _of_float("round({})", "(long)__builtin_rint({})"),
    sym.ToFloat: _of_float("float({})", "(double)({})"),
    sym.IntTrueDiv: _of_float("(({}) / ({}))", "((double)({}) / (double)({}))"),
    sym.FloatTrueDiv: _of_float("(({}) / ({}))", "(({}) / ({}))"),
    sym.OpaqueUnaryFn_sqrt: _of_float("torch._sym_sqrt({})", "__builtin_sqrt({})"),
    sym.BitwiseFn_bitwise_and: _bitwise("&"),
    sym.BitwiseFn_bitwise_or: _bitwise("|"),
    sym.BitwiseFn_bitwise_xor: _bitwise("^"),
    sym.PowByNatural: _power,
}


def float32_text(value: float) -> str:
    """The shortest decimal that reads back as the float32 nearest to a finite `value`."""
    wanted = struct.pack("f", value) if abs(value) <= 3.4028234663852886e38 else b""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if wanted and struct.pack("f", float(text)) == wanted:
            return text if any(mark in text for mark in ".e") else text + ".0"
    return repr(value)
