"""What a person changed to see the effect: the source of functions, passes left out, fusions forbidden.

A file is compiled with the changed text and as it was, and nothing of either is run: the code objects of one stand in
the place of those of the other. What Python runs to define a function therefore has to stay as it was.
"""

from __future__ import annotations

import ast
import textwrap
import types
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


class EditRefused(ValueError):
    """An edit that cannot be compiled; the message says why."""


DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class EditedSource:
    """`text` is the whole file as it is with the change."""

    file: str = ""
    text: str = ""
    _pairs: tuple[tuple[types.CodeType, types.CodeType], ...] = field(default=(), compare=False, repr=False)
    _heads: tuple[dict[int, str], ...] = field(default=(), compare=False, repr=False)
    _made: dict[int, tuple[types.CodeType, types.CodeType]] = field(default_factory=dict, compare=False, repr=False)
    functions: dict[int, types.FunctionType] = field(default_factory=dict, compare=False, repr=False)
    """Those whose changed code was taken, by id."""

    @property
    def lines(self) -> dict[str, list[str]]:
        """The lines of the edited file, by its name."""
        return {self.file: self.text.splitlines()} if self.file else {}

    def code(self, given: types.CodeType) -> types.CodeType:
        """The replacement of a code object. Raises EditRefused for one of the file that is not in it."""
        if given.co_filename != self.file or any(given is new for _, new in self._made.values()):
            return given
        if id(given) not in self._made:
            self._made[id(given)] = given, self._found(given)
        return self._made[id(given)][1]

    def _found(self, given: types.CodeType) -> types.CodeType:
        for old, new in self._pairs:
            if old.co_firstlineno == given.co_firstlineno and old == given.replace(co_qualname=old.co_qualname):
                was, now = (each.get(code.co_firstlineno) for each, code in zip(self._heads, (old, new), strict=True))
                if was != now:
                    raise EditRefused(f"parameters and decorators of {old.co_name} apply where it is defined; {RERUN}")
                if outer := sorted({*new.co_freevars} - {*given.co_freevars}):
                    message = f"{old.co_name} did not use {', '.join(outer)} of the function around it"
                    raise EditRefused(f"{message}; {RERUN}")
                return new.replace(co_qualname=given.co_qualname)
        raise EditRefused(f"{given.co_qualname} is not as in {self.file}, which changed since it was run")

    def code_of(self, function: types.FunctionType) -> types.CodeType:
        code = self.code(function.__code__)
        if code is not function.__code__:
            self.functions[id(function)] = function
        return code


@dataclass(frozen=True)
class ProgramEdit:
    """`without` names clean-up passes; `forbid` pairs of operations not to fuse, each after its graph's name."""

    source: EditedSource = EditedSource()
    without: tuple[str, ...] = ()
    forbid: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        parts = [f"source of {self.source.file}"] if self.source.file else []
        parts += [f"without {name}" for name in self.without]
        parts += [f"{first} is not fused with {second} in {graph}" for graph, first, second in self.forbid]
        return ", ".join(parts) or "none"

    def forbidden(self, graph: str) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(pair) for name, *pair in self.forbid if name == graph)


@dataclass(frozen=True)
class EditableFunction:
    """A function of a file, or all of a notebook's cell: its text from the line `first` on."""

    name: str
    file: str
    first: int
    text: str

    def changed_to(self, text: str, lines: Sequence[str]) -> str:
        """The whole file, of `lines`, with `text` in the place of this function, indented as it is."""
        margin = self.text[: len(self.text) - len(self.text.lstrip())]
        if not text.startswith(margin):
            text = textwrap.indent(text, margin)
        behind = lines[self.first - 1 + len(self.text.splitlines()) :]
        return "\n".join([*lines[: self.first - 1], *text.splitlines(), *behind])


def functions(file: str, lines: Sequence[str], compiled: Collection[int]) -> Iterator[EditableFunction]:
    """The functions of a file that begin at one of the lines `compiled`, without those inside of such a one."""

    def inside(tree: ast.AST, within: str) -> Iterator[EditableFunction]:
        for node in ast.iter_child_nodes(tree):
            name = within + getattr(node, "name", "")
            if isinstance(node, DEFINITION) and (first := _first_line(node)) in compiled:
                yield EditableFunction(name, file, first, "\n".join(lines[first - 1 : node.end_lineno]))
            else:
                yield from inside(node, f"{name}." if isinstance(node, (DEFINITION, ast.ClassDef)) else within)

    try:
        yield from inside(ast.parse("\n".join(lines)), "")
    except SyntaxError:
        return


def _first_line(node: ast.AST) -> int:
    """As code objects have it: a decorator's, where there is one."""
    places: list[Any] = [node, *getattr(node, "decorator_list", [])]
    return min(int(each.lineno) for each in places)


def edited(file: str, before: str, after: str, explored: tuple[range, range] = (range(0), range(0))) -> EditedSource:
    """The source of a file changed from `before` to `after`. `explored` are the statements of both that are compiled
    themselves, where the file is a notebook's cell. Raises EditRefused."""
    trees = parsed(before, file), parsed(after, file)
    old, new = ([*_run(tree, skipped)] for tree, skipped in zip(trees, explored, strict=True))
    for was, now in zip(old, new, strict=False):
        if was[0] != now[0]:
            raise EditRefused(f"line {now[1]} runs where {now[2]} is defined, not where it is called; {RERUN}")
    if len(old) != len(new):
        raise EditRefused(f"a statement outside of the functions was added or removed; {RERUN}")
    codes = [compiled(tree, file) for tree in trees]
    return EditedSource(file, after, tuple(_paired(*codes)), tuple(map(_headers, trees)))


def _headers(tree: ast.Module) -> dict[int, str]:
    """What of functions is read where they are defined, by first line: decorators, parameters, defaults."""
    found: defaultdict[int, str] = defaultdict(str)
    for node in ast.walk(tree):
        if isinstance(node, (DEFINITION, ast.Lambda)):
            found[_first_line(node)] += "".join(map(ast.dump, [node.args, *getattr(node, "decorator_list", [])]))
    return found


RERUN = "change it in the cell or file, and run that again"


def parsed(text: str, file: str = "<edit>") -> ast.Module:
    """Raises EditRefused for what is not Python."""
    try:
        tree = ast.parse(text)
        compiled(tree, file)
        return tree
    except (SyntaxError, ValueError) as error:
        place = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        raise EditRefused(f"{place}{error.msg if isinstance(error, SyntaxError) else error}") from None


def compiled(tree: ast.Module, file: str) -> types.CodeType:
    code: types.CodeType = compile(tree, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def _run(tree: ast.AST, skipped: range = range(0), name: str = "the file") -> Iterator[tuple[str, int, str]]:
    """What runs where a file is run, without its functions: as text, with its line and what it defines."""
    for index, node in enumerate(getattr(tree, "body", [])):
        if index in skipped:
            continue
        if isinstance(node, DEFINITION):
            yield node.name, node.lineno, name
        elif isinstance(node, ast.ClassDef):
            head = [*node.bases, *node.keywords, *node.decorator_list]
            yield f"class {node.name} {[ast.dump(each) for each in head]}", node.lineno, node.name
            yield from _run(node, name=node.name)
        else:
            yield ast.dump(node), node.lineno, name


def _paired(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Code objects inside of both, by name, and which of several of that name."""
    found: defaultdict[str, list[types.CodeType]] = defaultdict(list)
    for each in new.co_consts:
        if isinstance(each, types.CodeType):
            found[each.co_name].append(each)
    for each in old.co_consts:
        if isinstance(each, types.CodeType) and found[each.co_name]:
            other = found[each.co_name].pop(0)
            yield each, other
            yield from _paired(each, other)
