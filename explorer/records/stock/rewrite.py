"""Rewrites a branch on a tensor: both sides are computed, and `torch.where` selects.

Only equivalent rewrites are made: an `if` or a conditional expression whose sides assign names or return, and call
only functions without side effects. Anything else is refused with a reason. Line numbers stay those of the source.
"""

from __future__ import annotations

import ast
import copy
import difflib
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.overrides

from explorer.ir.graph import mentions_random, seeded

TAKEN = "__taken__"
_PURE = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple,
    ast.Call, ast.keyword, ast.IfExp, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_NOT_COMPUTED = frozenset("backward retain_grad item tolist numpy requires_grad".split())
_MADE = frozenset((torch.tensor, torch.zeros, torch.ones, torch.full, torch.arange, torch.eye))
_WRITING = frozenset(("out", "inplace", "generator"))
"""Arguments by which a function of torch does more than yield a value."""


class NotRewritable(Exception):
    """Why a branch cannot be rewritten."""


@dataclass
class RewrittenFunction:
    """`code` is what `function` runs instead; `probed` is its own, which also tells `taken` each time that one of the
    branches is taken, and how. `text` is the function's changed source, `diff` that beside the source as it is; `lines`
    are those of the branches that were rewritten, `refused` reasons by the line of those that were not."""

    function: types.FunctionType
    code: types.CodeType
    probed: types.CodeType
    taken: list[tuple[int, bool]]
    text: str
    diff: tuple[str, ...]
    lines: tuple[int, ...]
    refused: dict[int, str] = field(default_factory=dict)

    @contextmanager
    def instead(self, code: types.CodeType) -> Iterator[None]:
        """Inside, calls of the function run `code`, whoever makes them."""
        own, space = self.function.__code__, self.function.__globals__
        self.function.__code__ = code
        space[TAKEN] = self._tell
        try:
            yield
        finally:
            self.function.__code__ = own
            del space[TAKEN]

    def _tell(self, line: int, test: object) -> bool:
        self.taken.append((line, bool(test)))
        return self.taken[-1][1]


def rewritten(function: types.FunctionType, lines: Collection[int], owner: object = None) -> RewrittenFunction:
    """The function with the branches at these lines of its file rewritten. `owner` is what its first argument is, where
    it is a module's method. Raises Refused where there is none to rewrite."""
    source = linecache.getlines(function.__code__.co_filename)
    definition = _definition(function, source)
    scope = _Scope(function, owner, definition.args.args[0].arg if owner is not None and definition.args.args else "")
    made, probed = copy.deepcopy(definition), copy.deepcopy(definition)
    refused: dict[int, str] = {}
    done: list[int] = []
    replaced: list[Replaced] = []
    for line in sorted(lines, reverse=True):  # a later branch may be what an earlier one goes on with
        try:
            replaced.append(_branch(made, line, scope))
        except NotRewritable as why:
            refused[line] = str(why)
            continue
        _Probe(line).visit(probed)
        done.append(line)
    if not done:
        raise NotRewritable("; ".join(dict.fromkeys(refused.values())))
    before, after = _texts(definition, made, source, replaced)
    texts = before.splitlines(), after.splitlines()
    diff = tuple(difflib.unified_diff(*texts, "as it is", "with torch.where", n=len(texts[0]), lineterm=""))
    codes = _compiled(made, function), _compiled(probed, function)
    return RewrittenFunction(function, *codes, [], after, diff, tuple(sorted(done)), refused)


Replaced = tuple[int, int, Sequence[ast.stmt]]
"""Statements from a line to a line, and what takes their place."""


def _texts(
    definition: ast.FunctionDef, made: ast.FunctionDef, source: Sequence[str], replaced: Sequence[Replaced]
) -> tuple[str, str]:
    """The function's source before and after; where a branch shares its lines with others, both as Python prints a
    syntax tree."""
    first, last = definition.lineno - 1, definition.end_lineno or 0
    lines = list(source[:last])
    for start, end, new in sorted(replaced, key=lambda each: each[0], reverse=True):
        if not any(a < start and end <= b for a, b, _ in replaced):
            indent = source[start - 1][: -len(source[start - 1].lstrip())]
            lines[start - 1 : end] = [textwrap.indent(ast.unparse(each), indent) + "\n" for each in new]
    before, after = (textwrap.dedent("".join(each)) for each in (source[first:last], lines[first:]))
    try:
        same = ast.dump(ast.parse(after)) == ast.dump(ast.parse(ast.unparse(made)))
    except SyntaxError:
        same = False
    return (before, after) if same else (ast.unparse(definition), ast.unparse(made))


def _definition(function: types.FunctionType, source: Sequence[str]) -> ast.FunctionDef:
    code = function.__code__
    try:
        tree = ast.parse("".join(source))
    except SyntaxError as error:
        raise NotRewritable(f"the source of {code.co_name} cannot be read: {error.msg}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min((each.lineno for each in node.decorator_list), default=node.lineno)
            if code.co_firstlineno in (first, node.lineno):
                node.decorator_list = []
                if any(_is_private(each) for each in ast.walk(node)):
                    raise NotRewritable(f"{code.co_name} names something private to its class")
                return node
    raise NotRewritable(f"{code.co_name} has no definition with `def` in {code.co_filename}")


def _is_private(node: ast.AST) -> bool:
    """Whether Python writes the class's name before a name, which it would not outside of the class."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.startswith("__") and not name.endswith("__")


def _compiled(definition: ast.FunctionDef, function: types.FunctionType) -> types.CodeType:
    """The definition as code that can stand in the function. Raises Refused where it reads other cells."""
    free = function.__code__.co_freevars
    module = ast.parse(f"def outer({', '.join(free)}): pass")
    outer: Any = module.body[0]
    outer.body = [definition]
    ast.fix_missing_locations(module)
    constants = compile(module, function.__code__.co_filename, "exec", dont_inherit=True).co_consts
    within = next(each for each in constants if isinstance(each, types.CodeType))
    code = next(c for c in within.co_consts if isinstance(c, types.CodeType) and c.co_name == definition.name)
    if code.co_freevars != free:
        raise NotRewritable("the rewritten function reads other variables of the function around it")
    return code.replace(co_qualname=function.__code__.co_qualname)


class _Probe(ast.NodeTransformer):
    """Tells what each test at a line gave."""

    def __init__(self, line: int) -> None:
        self.line = line

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._test(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._test(node)

    def _test(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if node.lineno <= self.line <= (node.test.end_lineno or 0):
            call = ast.Call(ast.Name(TAKEN, ast.Load()), [ast.Constant(self.line), node.test], [])
            node.test = ast.copy_location(call, node.test)
        return node  # type: ignore[no-any-return]


@dataclass
class _Scope:
    """What names of the function stand for."""

    function: types.FunctionType
    owner: Any
    this: str

    def torch(self) -> str:
        """The name that the function knows torch by."""
        found = next((name for name, value in self.function.__globals__.items() if value is torch), None)
        if found is None:
            raise NotRewritable("the file of the function does not import torch")
        return found

    def value(self, node: ast.expr) -> Any:
        """The object that a dotted name stands for, as far as modules and the owner's attributes lead; None else."""
        if isinstance(node, ast.Name):
            if self.this and node.id == self.this:
                return self.owner
            code = self.function.__code__
            if node.id in code.co_varnames + code.co_cellvars:
                return None
            cells = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
            return cells[node.id].cell_contents if node.id in cells else self.function.__globals__.get(node.id)
        if isinstance(node, ast.Attribute):
            within = self.value(node.value)
            if isinstance(within, (types.ModuleType, torch.nn.Module)):
                return getattr(within, node.attr, None)
        return None

    def check(self, node: ast.expr) -> None:
        """Raises Refused where computing an expression may do more than yield a value."""
        for each in ast.walk(node):
            if not isinstance(each, _PURE):
                raise NotRewritable(f"a side holds {ast.unparse(each)}, which may do more than compute a value")
            if isinstance(each, ast.Call) and not self._is_pure(each):
                raise NotRewritable(f"a side calls {ast.unparse(each.func)}(), which may do more than compute a value")

    def _is_pure(self, call: ast.Call) -> bool:
        called = call.func
        value = self.value(called)
        if isinstance(value, torch.nn.Module):
            return all(_has_no_state(each) for each in value.modules())
        if any(keyword.arg is None or keyword.arg in _WRITING for keyword in call.keywords):
            return False
        if value is not None:
            known = callable(value) and value in _MADE | _functions()
            by_place = len(call.args) > 1 and _takes_inplace(value)
            return known and not (by_place or mentions_random(value)) and _computes(getattr(value, "__name__", ""))
        if isinstance(called, ast.Attribute) and not isinstance(self.value(called.value), types.ModuleType):
            return hasattr(torch.Tensor, called.attr) and _computes(called.attr)
        return False


@cache
def _functions() -> frozenset[Any]:
    """The functions of torch that take tensors and yield them."""
    return frozenset(torch.overrides.get_testing_overrides())


def _takes_inplace(function: Any) -> bool:
    try:
        return "inplace" in inspect.signature(function).parameters
    except ValueError:  # built in: it has no such argument
        return False


def _has_no_state(module: torch.nn.Module) -> bool:
    own = type(module).__module__.startswith("torch.nn.")
    draws = mentions_random(type(module).forward) and getattr(module, "dropout", 1) != 0
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return own and not (draws or hooks or list(module.buffers()) or getattr(module, "inplace", False))


def _computes(name: str) -> bool:
    changes = name.endswith("_") or name.startswith(("register", "set_")) or name in _NOT_COMPUTED
    return bool(name) and not changes and not seeded(name)


def _branch(definition: ast.FunctionDef, line: int, scope: _Scope) -> Replaced:
    """Rewrite the branch at a line in place."""
    for block in _blocks(definition):
        for at, statement in enumerate(block):
            if isinstance(statement, ast.If) and statement.lineno <= line <= (statement.test.end_lineno or 0):
                return _replace(block, at, *_if(statement, block[at + 1 :], _known(definition, statement), scope))
    found = [
        (block, at, each)
        for block in _blocks(definition)
        for at, statement in enumerate(block)
        if not isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef))
        for each in ast.walk(statement)
        if isinstance(each, ast.IfExp) and each.lineno <= line <= (each.end_lineno or 0)
    ]
    if len(found) != 1:
        kinds = "no if statement or conditional expression" if not found else "several conditional expressions"
        raise NotRewritable(f"{kinds} at line {line}")
    block, at, expression = found[0]
    for side in (expression.body, expression.orelse, expression.test):
        scope.check(side)
    made = _Swap(expression, _where(expression.test, expression.body, expression.orelse, scope))
    new: ast.stmt = made.visit(copy.deepcopy(block[at]))
    return _replace(block, at, [new], 1)


def _replace(block: list[ast.stmt], at: int, new: list[ast.stmt], count: int) -> Replaced:
    old = block[at : at + count]
    block[at : at + count] = [ast.fix_missing_locations(ast.copy_location(each, old[0])) for each in new]
    return old[0].lineno, old[-1].end_lineno or 0, block[at : at + len(new)]


class _Swap(ast.NodeTransformer):
    """One expression put in the place of another, which is known by where it stands."""

    def __init__(self, old: ast.IfExp, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if (node.lineno, node.col_offset) == (self.old.lineno, self.old.col_offset):
            return ast.copy_location(self.new, node)
        return self.generic_visit(node)


def _blocks(definition: ast.FunctionDef) -> list[list[ast.stmt]]:
    """The bodies of statements in a function, outermost first; not those of functions in it."""
    found = [definition.body]
    for block in found:
        for statement in block:
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                found += [inner for name in ("body", "orelse") if (inner := getattr(statement, name, None))]
    return found


def _known(definition: ast.FunctionDef, branch: ast.If) -> set[str]:
    """Names that surely have a value before a branch: arguments, and what statements of the body assign before it."""
    every = definition.args
    known = {each.arg for each in (*every.posonlyargs, *every.args, *every.kwonlyargs)}
    for statement in definition.body:
        if (statement.end_lineno or 0) < branch.lineno and isinstance(statement, ast.Assign):
            known.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return known


Sides = dict[str, ast.expr]


def _if(branch: ast.If, rest: Sequence[ast.stmt], known: Collection[str], scope: _Scope) -> tuple[list[ast.stmt], int]:
    """(the statements in the place of an `if`, how many of its block they replace)."""
    scope.check(branch.test)
    yes, no = _returned(branch.body), _returned(branch.orelse)
    if yes is not None and no is not None:
        return [_return(branch.test, yes, no, scope)], 1
    if yes is not None and not branch.orelse:
        if len(rest) != 1 or (no := _returned(rest)) is None:
            raise NotRewritable("one side returns, and the other continues with more than a return")
        return [_return(branch.test, yes, no, scope)], 2
    if yes is not None or no is not None:
        raise NotRewritable("one side returns, and the other continues")
    then, other = _assigned(branch.body, scope), _assigned(branch.orelse, scope)
    names = list(dict.fromkeys((*then, *other)))
    for name in names:
        if (name not in then or name not in other) and name not in known:
            raise NotRewritable(f"only one side assigns {name}, which has no value before")
    if len(names) > 1:
        for value in (*then.values(), *other.values(), branch.test):
            if {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}.intersection(names):
                raise NotRewritable("a side assigns several names and reads one of them")
    own = [
        ast.Assign(
            [ast.Name(name, ast.Store())],
            _where(branch.test, then.get(name, _load(name)), other.get(name, _load(name)), scope),
        )
        for name in names
    ]
    return list(own), 1


def _returned(block: Sequence[ast.stmt]) -> ast.expr | None:
    return block[0].value if len(block) == 1 and isinstance(block[0], ast.Return) else None


def _return(test: ast.expr, yes: ast.expr, no: ast.expr, scope: _Scope) -> ast.Return:
    scope.check(yes)
    scope.check(no)
    if isinstance(yes, ast.Tuple) and isinstance(no, ast.Tuple) and len(yes.elts) == len(no.elts):
        pairs = zip(yes.elts, no.elts, strict=True)
        return ast.Return(ast.Tuple([_where(test, a, b, scope) for a, b in pairs], ast.Load()))
    if isinstance(yes, ast.Tuple) or isinstance(no, ast.Tuple):
        raise NotRewritable("the sides do not return the same number of values")
    return ast.Return(_where(test, yes, no, scope))


def _assigned(block: Sequence[ast.stmt], scope: _Scope) -> Sides:
    """What a side assigns: each name once, and nothing else."""
    found: Sides = {}
    for statement in block:
        if isinstance(statement, ast.Pass):
            continue
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            raise NotRewritable(f"a side does more than assign names: {ast.unparse(statement).splitlines()[0]}")
        name = statement.targets[0].id
        if len(statement.targets) > 1 or name in found:
            raise NotRewritable(f"a side assigns {name} more than once, or several names at once")
        scope.check(statement.value)
        found[name] = statement.value
    return found


def _where(test: ast.expr, yes: ast.expr, no: ast.expr, scope: _Scope) -> ast.expr:
    """`torch.where(test, yes, no)`, with `test != 0` for what is no comparison and the sides swapped for `not test`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _where(test.operand, no, yes, scope)
    if not isinstance(test, ast.Compare):
        test = ast.Compare(test, [ast.NotEq()], [ast.Constant(0)])
    function = ast.Attribute(_load(scope.torch()), "where", ast.Load())
    made = ast.Call(function, [copy.deepcopy(test), copy.deepcopy(yes), copy.deepcopy(no)], [])
    return made


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def function_at(
    fn: Callable[..., object], file: str, line: int, given: Sequence[object] = ()
) -> tuple[types.FunctionType, Any] | None:
    """(the function that has this line, the module that it is a method of), where it is found by the names that `fn`
    reads, or by what it is `given`, as the function of a cell is what the notebook's names stand for."""
    for function, owner in _reachable(fn, file, given):
        code = function.__code__
        if code.co_filename == file and any(line == number for _, _, number in code.co_lines()):
            return function, owner
    return None


@dataclass(frozen=True)
class Suggestion:
    """What could be written in the place of a branch: the lines that change, with "-" and "+" in front, and the text
    of a cell with which the program does so; "" where a cell cannot change it."""

    diff: tuple[str, ...] = ()
    cell: str = ""


def suggested(fn: Callable[..., object], file: str, line: int, given: Sequence[object] = ()) -> Suggestion:
    """Of the branch at this line; empty where it cannot be rewritten, or its function is not found."""
    found = function_at(fn, file, line, given)
    if found is None:
        return Suggestion()
    try:
        made = rewritten(found[0], {line}, found[1])
    except NotRewritable:
        return Suggestion()
    return Suggestion(tuple(each for each in made.diff[3:] if not each.startswith(" ")), _cell(made))


def _cell(made: RewrittenFunction) -> str:
    function = made.function
    if function.__module__ != "__main__" or function.__code__.co_freevars or "<locals>" in function.__qualname__:
        return ""
    source = linecache.getlines(function.__code__.co_filename)
    first = function.__code__.co_firstlineno - 1  # of its decorators
    count = next(n for n, line in enumerate(source[first:]) if line.lstrip().startswith("def "))
    text = textwrap.dedent("".join(source[first : first + count])) + made.text.rstrip("\n")
    name, dot, method = function.__qualname__.rpartition(".")
    return f"{text}\n\n{name}.{method} = {method}" if dot else text


def _reachable(
    fn: Callable[..., object], file: str, given: Sequence[object]
) -> Iterator[tuple[types.FunctionType, Any]]:
    """Functions that a call of `fn` may run, each with the module that it is a method of: those that functions of this
    file name, and methods of the modules and classes found there."""
    seen: set[int] = set()
    found: list[Any] = [getattr(fn, "__func__", fn), getattr(fn, "__self__", None), *given]
    while found:
        value = found.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            yield value, None
            if value is fn or value.__code__.co_filename == file:
                read = inspect.getclosurevars(value)
                found += [*read.nonlocals.values(), *read.globals.values()]
        elif isinstance(value, torch.nn.Module):
            for module in value.modules():
                for kind in type(module).__mro__[: type(module).__mro__.index(torch.nn.Module)]:
                    yield from ((each, module) for each in vars(kind).values() if isinstance(each, types.FunctionType))
        elif isinstance(value, (list, tuple)):
            found += value
        else:
            kind = value if isinstance(value, type) else type(value)
            yield from ((each, None) for each in vars(kind).values() if isinstance(each, types.FunctionType))
