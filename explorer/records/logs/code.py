"""The file that stock Inductor writes for a graph: kernels as strings, and the code that calls them. Above each kernel
stand, as comments, the nodes that it was made for."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from explorer.ir.record import HalfData, KernelData, LineData, TextData

NODE = re.compile(r"#\s+%(\w+) : .*= call_(?:function|method|module)\[")
NAME = re.compile(r"[A-Za-z_]\w*")

UNTOLD = ("synthetic:the log does not say what caused this line",)
LANGUAGES = {"cpp_pybinding": "cpp", "cpp": "cpp", "triton": "python", "pallas": "python", "cutedsl": "python"}


def half(compile: str, name: str, text: str, nodes: Mapping[str, str]) -> HalfData:
    """Kernels and wrapper of a file. A kernel is an assignment `NAME = async_compile.KIND(..., '''SOURCE''')`. `nodes`
    are the ids of those of the half's last graph, by name: the origins of its kernels."""
    kernels: list[KernelData] = []
    lines = text.splitlines()
    within: dict[int, str] = {}
    """The kernel that each line is part of."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statements = []
    for statement in statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found = _kernel(statement.value)
            if found is not None:
                made_for = _nodes_above(lines, statement.lineno - 1, nodes)
                kernels.append(_data(compile, name, statement.targets[0].id, *found, made_for))
                last = statement.end_lineno or statement.lineno
                within.update((number, kernels[-1].id) for number in range(statement.lineno, last + 1))
    ids = {each.function: each.id for each in kernels}

    def origins(number: int, line: str) -> tuple[str, ...]:
        if number in within:
            return (within[number],)
        return tuple(dict.fromkeys(ids[each] for each in NAME.findall(line) if each in ids)) or UNTOLD

    target = "cuda" if any(each.language == "python" for each in kernels) else "cpu"
    prefix = f"{compile}.{name}.wrapper"
    wrapper = (LineData(line, f"{prefix}:{n}", origins(n, line)) for n, line in enumerate(lines, 1))
    return HalfData(name, target, kernels=tuple(kernels), wrapper=TextData(tuple(wrapper), "python"), runs=False)


def _nodes_above(lines: Sequence[str], end: int, nodes: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that the comments right above a line name."""
    found: list[str] = []
    while end > 0 and lines[end - 1].startswith("#"):
        end -= 1
        if (named := NODE.match(lines[end])) and named[1] in nodes:
            found.insert(0, nodes[named[1]])
    return tuple(dict.fromkeys(found)) or UNTOLD


def _kernel(value: ast.expr) -> tuple[str, str] | None:
    """(language, source) of a call of async_compile."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
        return None
    if ast.unparse(value.func.value) != "async_compile" or value.func.attr not in LANGUAGES:
        return None
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    sources = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return (LANGUAGES[value.func.attr], max(sources, key=len)) if sources else None


def _data(compile: str, half: str, function: str, language: str, source: str, made_for: tuple[str, ...]) -> KernelData:
    id = f"{compile}.{half}.{function}"
    lines = tuple(LineData(line, f"{id}:{n}", (id,)) for n, line in enumerate(source.strip("\n").splitlines(), 1))
    return KernelData(id, function, language, TextData(lines, language), made_for, 0, 0)
