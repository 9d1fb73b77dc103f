"""Index expressions as text: in C++ and in Python they compute what the expression does."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, ModularIndexing, PythonMod

from explorer.compiler.codegen.cpp_prelude import HELPERS
from explorer.compiler.codegen.exprs import index_text
from explorer.compiler.runtime.compiler import chosen_compiler

SIZES = sympy.symbols("s0 s1 s2", integer=True, positive=True)
NUMBER = sympy.Symbol("k0", integer=True)


def expression(choose: random.Random, depth: int) -> Any:
    if depth == 0:
        return choose.choice([*SIZES, NUMBER, sympy.Integer(choose.randint(-5, 5))])
    a, b = expression(choose, depth - 1), expression(choose, depth - 1)
    n = sympy.Integer(choose.choice([2, 3, 4, -2, -3]))
    kinds = {
        "add": lambda: a + b, "sub": lambda: a - b, "neg": lambda: -a, "mul": lambda: a * choose.choice([*SIZES, n]),
        "div": lambda: FloorDiv(a, n), "mod": lambda: PythonMod(a, n), "min": lambda: Min(a, b),
        "max": lambda: Max(a, b), "modular": lambda: ModularIndexing(a, abs(n), sympy.Integer(choose.randint(2, 4))),
    }  # fmt: skip
    return kinds[choose.choice(list(kinds))]()


def value(expr: Any, of: dict[Any, int]) -> int:
    if expr.is_Symbol:
        return of[expr]
    if expr.is_Integer:
        return int(expr)
    args = [value(arg, of) for arg in expr.args]
    match type(expr).__name__:
        case "FloorDiv":
            return args[0] // args[1]
        case "PythonMod" | "Mod":
            return args[0] % args[1]
        case "ModularIndexing":
            return args[0] // args[1] % args[2]
        case "Min":
            return min(args)
        case "Max":
            return max(args)
    return int(expr.func(*map(sympy.Integer, args)))


def test_texts_compute_what_expressions_do(tmp_path: Path) -> None:
    choose = random.Random(0)
    lines = ["#include <stdlib.h>", *(HELPERS[name] for name in ("floor_div", "floor_mod", "index_min", "index_max"))]
    lines += ["int main() {", "    int wrong = 0;"]
    for _ in range(400):
        expr = expression(choose, choose.randint(1, 3))
        of = {symbol: choose.randint(1, 20) for symbol in SIZES} | {NUMBER: choose.randint(-9, 9)}
        wanted = value(expr, of)
        names = {str(symbol): number for symbol, number in of.items()}
        assert eval(index_text(expr, "python"), dict(names)) == wanted, f"{expr} at {of}"
        if abs(wanted) < 2**40:
            given = " ".join(f'long {name} = atol("{number}");' for name, number in names.items())
            lines.append(f"    {{ {given} wrong += ({index_text(expr, 'cpp')}) != {wanted}L; }}")
    source = tmp_path / "texts.cpp"
    source.write_text("\n".join([*lines, "    return wrong > 0;", "}"]))
    subprocess.run([*chosen_compiler().words, "-w", "-O0", str(source), "-o", str(tmp_path / "texts")], check=True)
    subprocess.run([str(tmp_path / "texts")], check=True)
