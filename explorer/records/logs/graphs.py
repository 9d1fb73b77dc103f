"""Graphs as torch prints them (`GraphModule.print_readable`), read back into nodes. Parsed, never run."""

from __future__ import annotations

import ast
import re

from explorer.ir.record import GraphData, LineData, NodeData, TextData

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
        called = isinstance(value, ast.Call)
        target = ast.unparse(value.func) if isinstance(value, ast.Call) else ast.unparse(value)
        add(name, "call_function" if called else "expression", target, type, _used(value, nodes), statement.lineno)
    return list(nodes.values()), outputs, by_line


def _forward(text: str) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(text.replace("class <lambda>(", "class Lambda("))  # what a graph without a name is called
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == "forward")
    return next(found, None)


def _annotation(written: ast.expr | None) -> str:
    return str(written.value) if isinstance(written, ast.Constant) else ""


def _used(value: ast.expr, nodes: dict[str, NodeData]) -> tuple[str, ...]:
    names = [each.id for each in ast.walk(value) if isinstance(each, ast.Name)]
    return tuple(dict.fromkeys(nodes[name].id for name in names if name in nodes))
