"""What torch prints into a log, read back and never run: graphs, the guard tree, and the file that Inductor writes."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from explorer.ir.record import (
    ConstantData,
    GraphData,
    GuardData,
    HalfData,
    KernelData,
    LineData,
    NodeData,
    SpanData,
    TextData,
)
from explorer.records.data.dynamo import in_words, is_torchs_own

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
    for statement in _statements(text):
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
    wrapper = tuple(LineData(each, f"{prefix}:{n}", origins(n, each)) for n, each in enumerate(lines, 1))
    return HalfData(name, target, kernels=tuple(kernels), wrapper=TextData(wrapper, "python"), runs=False)


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


FILE = re.compile(r"\s*# File: (.+?):(\d{1,9}) in .*?(?:, code: (.*))?$")


def graph(name: str, prefix: str, text: str) -> tuple[TextData, GraphData | None, dict[tuple[str, int], str]]:
    """The text with a link from each line to its node, the nodes (None where the text is no graph), and the source
    lines that its comments quote. Ids begin with `prefix`."""
    lines = text.splitlines()
    quoted: dict[tuple[str, int], str] = {}
    causes: list[tuple[str, ...]] = []
    current: tuple[str, ...] = ()
    for line in lines:
        if found := FILE.match(line):
            current = (f"{found[1]}:{found[2]}",)
            if found[3]:
                quoted[found[1], int(found[2])] = found[3]
        causes.append(current)
    nodes, outputs, by_line = _nodes(prefix, text, causes)
    shown = []
    for number, line in enumerate(lines, 1):
        id = by_line.get(number, "")
        shown.append(LineData(line, id, causes[number - 1] if id else ()))
    made = GraphData(name, tuple(nodes), outputs) if nodes else None
    return TextData(tuple(shown), "python"), made, quoted


def _nodes(
    prefix: str, text: str, causes: list[tuple[str, ...]]
) -> tuple[list[NodeData], tuple[str, ...], dict[int, str]]:
    function = _forward(text)
    if function is None:
        return [], (), {}
    nodes: dict[str, NodeData] = {}
    by_line: dict[int, str] = {}
    outputs: tuple[str, ...] = ()

    def add(name: str, op: str, target: str, type: str, inputs: tuple[str, ...], line: int) -> None:
        id = f"{prefix}.{name}"
        origins = () if op == "placeholder" else causes[line - 1]
        nodes.setdefault(name, NodeData(id, name, op, target, type, inputs, origins))
        by_line[line] = id

    for argument in function.args.args[1:]:
        add(argument.arg, "placeholder", argument.arg, _annotation(argument.annotation), (), argument.lineno)
    for statement in function.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, value, type = statement.target.id, statement.value, _annotation(statement.annotation)
            if value is None:
                add(name, "placeholder", name, type, (), statement.lineno)
                continue
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value, type = statement.targets[0].id, statement.value, ""
            if isinstance(value, ast.Constant) and value.value is None:
                continue  # `x = None`: torch prints where a value is let go of
        elif isinstance(statement, ast.Return) and statement.value is not None:
            outputs = _used(statement.value, nodes)
            continue
        else:
            continue
        called = _operator(value)
        target = called or ast.unparse(value)
        add(name, "call_function" if called else "expression", target, type, _used(value, nodes), statement.lineno)
    return list(nodes.values()), outputs, by_line


INFIX = {
    "mult": "mul", "div": "truediv", "matmult": "matmul", "gte": "ge", "lte": "le", "noteq": "ne", "usub": "neg",
    "uadd": "pos", "bitand": "and_", "bitor": "or_", "bitxor": "xor",
}  # fmt: skip
"""Operators whose names in `ast`, in small letters, are not those in `operator`."""


def _operator(value: ast.expr) -> str:
    """What an expression calls; torch prints functions of `operator` as signs. "" for a name or a constant."""
    match value:
        case ast.Call(func=called):
            return ast.unparse(called)
        case ast.Subscript():
            return "operator.getitem"
        case ast.BinOp(op=sign) | ast.UnaryOp(op=sign) | ast.Compare(ops=[sign]):
            name = type(sign).__name__.lower()
            return f"operator.{INFIX.get(name, name)}"
    return ""


def _statements(text: str) -> list[ast.stmt]:
    """Those of a Python file; none where it cannot be read. No warnings: they are about another's program."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []


def _forward(text: str) -> ast.FunctionDef | None:
    statements = _statements(text.replace("class <lambda>(", "class Lambda("))  # what a graph without a name is called
    nodes = (node for statement in statements for node in ast.walk(statement))
    return next((each for each in nodes if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)


def _annotation(written: ast.expr | None) -> str:
    return str(written.value) if isinstance(written, ast.Constant) else ""


def _used(value: ast.expr, nodes: dict[str, NodeData]) -> tuple[str, ...]:
    names = [each.id for each in ast.walk(value) if isinstance(each, ast.Name)]
    return tuple(dict.fromkeys(nodes[name].id for name in names if name in nodes))


LEAF = re.compile(r"[| ]*\+- ([A-Z][A-Z_0-9]*)(?:: (.*))?$")
MANAGER = re.compile(r"[| ]*\+- \w*GuardManager: source=(.*?), accessed_by=")
LITERAL = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{0,15})?|True|False|'[^'\\]{0,80}'")
PLACE = re.compile(r"(\S+):(\d{1,9}) in \S+")


def guards(compile: str, text: str) -> tuple[GuardData, ...]:
    """The leaves of the tree in order. torch cuts the file names in it to their ends, so a span's `file` may be one."""
    found: list[GuardData] = []
    source = ""
    for line in text.splitlines():
        if manager := MANAGER.match(line):
            source = manager[1]
        elif leaf := LEAF.match(line):
            found.append(_guard(f"{compile}.guard{len(found)}", source, leaf[1], leaf[2] or leaf[1]))
    return tuple(found)


def _guard(id: str, source: str, kind: str, rest: str) -> GuardData:
    """A leaf reads "EXPRESSION  # LINE OF THE PROGRAM  # FILE:LINE in FUNCTION", or lacks one or both comments."""
    expression, *comments = (part.strip() for part in rest.split(" # "))
    span = None
    if len(comments) > 1 and (place := PLACE.fullmatch(comments[-1])):
        span = SpanData(place[1], int(place[2]), int(place[2]))
        del comments[-1]
    why = " # ".join(comments)
    why = f"needed by `{why}`" if span else why
    why = why or "the log gives no cause"
    words, of_torch = in_words(expression), is_torchs_own(kind, source, expression)
    value = _literal(expression.rpartition(" == ")[2]) if kind in ("EQUALS_MATCH", "LENGTH_CHECK") else None
    asked: dict[str, Any] = {"property": kind, "relation": "", "value": ""}
    if kind == "LENGTH_CHECK" and value is not None and value.type == "int":
        asked = {"property": "length", "relation": "is", "value": value.text, "length": int(value.text)}
    if kind == "EQUALS_MATCH" and value is not None:
        asked = {"property": "constant", "relation": "equals", "value": value.text, "constant": value}
    return GuardData(id, source, expression=expression, why=why, span=span, words=words, of_torch=of_torch, **asked)


def _literal(text: str) -> ConstantData | None:
    """A number, a bool or a short text as Python writes it."""
    if not LITERAL.fullmatch(text):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return ConstantData(type(value).__name__, repr(value), value)
