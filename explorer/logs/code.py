"""The file that stock Inductor writes for a graph: kernels as strings, and the code that calls them."""

from __future__ import annotations

import ast

from explorer.ir.record import HalfData, KernelData, LineData, TextData

UNTOLD = ("synthetic:the log does not say what caused this line",)
LANGUAGES = {"cpp_pybinding": "cpp", "cpp": "cpp", "triton": "python", "pallas": "python", "cutedsl": "python"}


def half(compile: str, name: str, text: str) -> HalfData:
    """Kernels and wrapper of a file. A kernel is an assignment `NAME = async_compile.KIND(..., '''SOURCE''')`."""
    kernels = []
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statements = []
    for statement in statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found = _kernel(statement.value)
            if found is not None:
                kernels.append(_data(compile, name, statement.targets[0].id, *found))
    target = "cuda" if any(each.language == "python" for each in kernels) else "cpu"
    prefix = f"{compile}.{name}.wrapper"
    lines = tuple(LineData(line, f"{prefix}:{n}", UNTOLD) for n, line in enumerate(text.splitlines(), 1))
    return HalfData(name, target, kernels=tuple(kernels), wrapper=TextData(lines, "python"), runs=False)


def _kernel(value: ast.expr) -> tuple[str, str] | None:
    """(language, source) of a call of async_compile."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
        return None
    if ast.unparse(value.func.value) != "async_compile" or value.func.attr not in LANGUAGES:
        return None
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    sources = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return (LANGUAGES[value.func.attr], max(sources, key=len)) if sources else None


def _data(compile: str, half: str, function: str, language: str, source: str) -> KernelData:
    id = f"{compile}.{half}.{function}"
    lines = tuple(LineData(line, f"{id}:{n}", (id,)) for n, line in enumerate(source.strip("\n").splitlines(), 1))
    return KernelData(id, function, language, TextData(lines, language), UNTOLD, 0, 0)
