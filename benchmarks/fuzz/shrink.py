"""A smaller program that still differs."""

from __future__ import annotations

import ast
import copy
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.fuzz.program import Program

Holds = Callable[[Program], bool]


def shrunk(program: Program, holds: Holds, seconds: float) -> Program:
    """The smallest program found in the time given for which `holds` is true, as it is for `program`."""
    deadline = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for smaller in _smaller(program):
            if time.monotonic() > deadline:
                return program
            if holds(smaller):
                program, again = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with something less, those with much less first."""
    for at in reversed(range(1, len(program.steps))):
        yield replace(program, steps=program.steps[:at])
    for at in range(1, len(program.steps) - 1):
        yield replace(program, steps=(*program.steps[:at], *program.steps[at + 1 :]))
    if len(program.steps) > 1:
        joined = f"{program.steps[0]}\n{program.steps[1]}"
        yield replace(program, steps=(joined, *program.steps[2:]))
    if program.dynamic is not None:
        yield replace(program, dynamic=None)
    for source in _less(program.source):
        yield replace(program, source=source)
    for at, step in enumerate(program.steps):
        for less in _less(step):
            yield replace(program, steps=(*program.steps[:at], less, *program.steps[at + 1 :]))


def _less(source: str) -> Iterator[str]:
    """The source with one thing less: a statement, a level of nesting, an operation."""
    tree = ast.parse(source)
    for edit in (_without_statement, _unnested, _plainer):
        seen = {source}
        count = sum(1 for _ in ast.walk(tree))
        for at in range(count):
            text = edit(copy.deepcopy(tree), at)
            if text is not None and text not in seen:
                seen.add(text)
                yield text


def _nth(tree: ast.AST, at: int) -> ast.AST | None:
    return next((node for place, node in enumerate(ast.walk(tree)) if place == at), None)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield body


def _without_statement(tree: ast.AST, at: int) -> str | None:
    wanted = _nth(tree, at)
    if not isinstance(wanted, ast.stmt) or isinstance(wanted, ast.FunctionDef) and wanted.name == "f":
        return None
    for node in ast.walk(tree):
        for body in _bodies(node):
            if wanted in body:
                place = body.index(wanted)
                if len(body) > 1 or (body is not getattr(node, "body", None) and not isinstance(node, ast.Try)):
                    del body[place]
                elif isinstance(wanted, ast.Pass):
                    return None
                else:
                    body[place] = ast.Pass()
                return _text(tree)
    return None


def _unnested(tree: ast.AST, at: int) -> str | None:
    """Some compound statement replaced by its body."""
    wanted = _nth(tree, at)
    if not isinstance(wanted, ast.If | ast.For | ast.While | ast.With | ast.Try):
        return None
    for node in ast.walk(tree):
        for body in _bodies(node):
            if wanted in body:
                place = body.index(wanted)
                body[place : place + 1] = wanted.body
                return _text(tree)
    return None


def _plainer(tree: ast.AST, at: int) -> str | None:
    """An expression replaced by one that is in it, or by 1."""
    wanted = _nth(tree, at)
    if not isinstance(wanted, ast.BinOp | ast.Call | ast.Subscript | ast.IfExp | ast.UnaryOp | ast.BoolOp | ast.Tuple
                      | ast.List | ast.ListComp | ast.NamedExpr):  # fmt: skip
        return None
    parts = [each for each in ast.iter_child_nodes(wanted) if isinstance(each, ast.expr)]
    if isinstance(wanted, ast.Call):
        inner = wanted.func.value if isinstance(wanted.func, ast.Attribute) else None
        parts = [*wanted.args, *([inner] if inner is not None else [])]
        parts = [each for each in parts if not (isinstance(each, ast.Name) and each.id in ("torch", "F", "nn", "np"))]
    if isinstance(wanted, ast.Tuple | ast.List) and len(parts) > 1:
        if isinstance(wanted.ctx, ast.Store):
            return None
        wanted.elts = wanted.elts[:-1] if not isinstance(wanted.elts[-1], ast.Name) else wanted.elts[1:]
        return _text(tree)
    if not parts:
        return None

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return parts[0] if node is wanted else self.generic_visit(node)

    return _text(Replace().visit(tree))


def _text(tree: ast.AST) -> str | None:
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        with warnings.catch_warnings(action="ignore"):
            compile(text, "<smaller>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, AttributeError):
        return None
    return text
