"""What of a cell is explored, read off its statements before it runs, and the function that is made of it."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FUNCTION = "cell"
"""What the function is called that stands for the explored statements."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
COMPUTES_NOTHING = {
    ast.Import: "an import", ast.ImportFrom: "an import", ast.Pass: "pass", ast.Delete: "del",
    ast.Global: "a declaration", ast.Nonlocal: "a declaration",
}  # fmt: skip
BY_REFERENCE = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
"""What a name of the notebook may stand for without being data: it stays a global of the explored function."""


@dataclass(frozen=True)
class Names:
    """The names of the notebook that statements read, and those that they bind, in order of first mention."""

    read: tuple[str, ...]
    bound: tuple[str, ...]
    awaits: bool


def names(statements: Sequence[ast.stmt]) -> Names:
    """Scopes are Python's own: the statements are compiled. Raises SyntaxError for what cannot be."""
    allowed = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(ast.Module(list(statements), []), "<cell>", "exec", allowed, dont_inherit=True)
    read: dict[str, None] = {}
    bound: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_NAME":
            read[instruction.argval] = None
        elif instruction.opname in ("STORE_NAME", "DELETE_NAME"):
            bound[instruction.argval] = None
        elif isinstance(instruction.argval, types.CodeType):
            read |= dict.fromkeys(globals_of(instruction.argval))
    return Names(tuple(read), tuple(bound), bool(code.co_flags & inspect.CO_COROUTINE))


def globals_of(code: types.CodeType) -> list[str]:
    """The globals that a code object or one nested in it reads or writes."""
    found = [i.argval for i in dis.get_instructions(code) if i.opname in GLOBAL_OPS]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += globals_of(constant)
    return list(dict.fromkeys(found))


GLOBAL_OPS = frozenset("LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS".split())


LONGEST_TITLE = 200


@dataclass(frozen=True)
class Plan:
    """What of a cell's statements is explored: `body[start:end]`, where `start` is one of `starts`.

    With `backward`, that is the expression whose gradients the cell asks for; the explored statements then begin with
    the first of `starts` that gives a value with a gradient. `earlier` is a name that the cell only calls `.backward()`
    on: where that is a tensor, it was computed in an earlier cell. `why_not` says why nothing is explored, and what to
    do.
    """

    body: tuple[ast.stmt, ...]
    starts: tuple[int, ...] = ()
    end: int = 0
    backward: ast.expr | None = None
    earlier: str = ""
    why_not: str = ""
    note: str = ""

    @property
    def title(self) -> str:
        first = ast.unparse(self.body[self.end - 1]).partition("\n")[0]
        return first if len(first) <= LONGEST_TITLE else f"{first[:LONGEST_TITLE]}..."


def plan(body: Sequence[ast.stmt]) -> Plan:
    """Chooses: the last call of `.backward()` with what leads to it, else the last statement. A bare name at the end
    stands for the statement of the cell that bound it; expressions after a `.backward()` ran and are left out."""
    kept = tuple(body)
    if not kept:
        return Plan(kept, why_not="the cell is empty: write the statement to explore below %%explore.")
    end = len(kept)
    while end > 1 and isinstance(kept[end - 1], ast.Expr) and _backward(kept[end - 1]) is None:
        if not any(_backward(statement) is not None for statement in kept[: end - 1]):
            break
        end -= 1
    asked = _backward(kept[end - 1])
    if asked is not None:
        note = f"What follows {ast.unparse(kept[end - 1])} ran, but is not explored."
        return _with_gradients(kept, end, asked, note if end < len(kept) else "")
    return _last(kept)


def _backward(statement: ast.stmt) -> ast.expr | None:
    """What `.backward()` is called on, if that is what the statement is."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(asked, "backward"))):
            return asked
    return None


def _with_gradients(body: tuple[ast.stmt, ...], end: int, asked: ast.expr, note: str) -> Plan:
    if why := _unfit(body[end - 1]):
        return Plan(body, why_not=why)
    needed = set(names([_like(ast.Expr(asked), asked)]).read)
    leading: list[int] = []
    for index in reversed(range(end - 1)):
        statement = body[index]
        found = names([statement])
        if needed.intersection(found.bound) and not isinstance(statement, (ast.Import, ast.ImportFrom, *DEFINITIONS)):
            leading.insert(0, index)
            needed.update(found.read)
    if not isinstance(asked, ast.Name):
        leading.append(end - 1)
    if isinstance(asked, ast.Name) and not leading:
        return Plan(body, (end - 1,), end, earlier=asked.id, note=note)
    if any(names([statement]).awaits for statement in body[leading[0] : end]):
        return Plan(body, why_not=AWAITS)
    return Plan(body, tuple(leading), end, asked, note=note)


def elsewhere(name: str) -> str:
    return (
        f"`{name}` was computed in an earlier cell, so its forward cannot be traced. Put both in one "
        f"cell:\n    %%explore\n    {name} = ...\n    {name}.backward()"
    )


AWAITS = (
    "the statement uses await, and coroutines cannot be captured. Await on an earlier line, and compute on the last:\n"
    "    %%explore\n    x = await source()\n    y = f(x)"
)


def _last(body: tuple[ast.stmt, ...]) -> Plan:
    end = len(body)
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Name):
        name = last.value.id
        binds = [i for i, s in enumerate(body[:-1]) if isinstance(s, ASSIGNMENTS) and name in names([s]).bound]
        if not binds:
            return Plan(body, why_not=f"the cell ends with the name `{name}`, which no statement in it computes.")
        end = binds[-1] + 1
    if why := _unfit(body[end - 1]):
        return Plan(body, why_not=why)
    return Plan(body, (end - 1,), end)


def _unfit(statement: ast.stmt) -> str:
    """Why a statement is nothing to explore; "" where it is."""
    if isinstance(statement, DEFINITIONS):
        called = f"{statement.name}(...)"
        return f"the cell ends with the definition of `{statement.name}`: add a line that uses it, such as y = {called}"
    if what := COMPUTES_NOTHING.get(type(statement)):
        return f"the cell ends with {what}, which computes nothing: end it with the statement to explore."
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return "the cell ends with a constant: end it with the statement to explore."
    found = names([statement])
    if "get_ipython" in found.read:
        return "the cell ends with a magic or a shell command: end it with a statement of Python."
    return AWAITS if found.awaits else ""


# ------------------------------------------------------------------------------------------- the function made of it


def parameters(plan: Plan, start: int, namespace: Mapping[str, object]) -> tuple[str, ...]:
    """The names that the explored statements take from the notebook as it is in `namespace`: data, and whatever they
    bind anew. Modules, classes and functions stay globals."""
    taken: dict[str, None] = {}
    settled: set[str] = set()
    for statement in (*plan.body[start : plan.end - 1], _final(plan)):
        found = names([statement])
        simple = isinstance(statement, (ast.Expr, *ASSIGNMENTS))
        for name in (*found.read, *(() if simple else found.bound)):
            if name not in settled:
                taken[name] = None
        if simple:
            settled.update(found.bound)
    every = set(names([*plan.body[start : plan.end - 1], _final(plan)]).bound)
    return tuple(n for n in taken if n in namespace and (n in every or not isinstance(namespace[n], BY_REFERENCE)))


def _final(plan: Plan) -> ast.stmt:
    """The last explored statement; of a call of `.backward()`, what it is called on."""
    return plan.body[plan.end - 1] if plan.backward is None else _like(ast.Expr(plan.backward), plan.backward)


RESULT = "result"


def function(
    plan: Plan, start: int, taken: Sequence[str], namespace: dict[str, object], file: str
) -> Callable[..., Any]:
    """The explored statements as a function of the names `taken`, with `namespace` (of the notebook, after the cell
    ran) as its globals and the lines of the cell as its own. It returns the value of an expression, what an assignment
    assigns, and of other statements the names that they left bound. Raises SyntaxError for what cannot be in a
    function."""
    final = _final(plan)
    before = plan.body[start : plan.end - 1]
    ending: list[ast.stmt]
    if isinstance(final, ast.Expr):
        ending = [_like(ast.Return(final.value), final)]
    else:
        bound = [name for name in names([*before, final]).bound if name in namespace]
        if isinstance(final, ast.Assign) and not all(isinstance(target, ast.Name) for target in final.targets):
            kept = _like(ast.Name(_free(RESULT, [*taken, *bound]), ast.Store()), final)
            final = _like(ast.Assign([kept, *final.targets], final.value), final)
            bound = [kept.id]
        values: list[ast.expr] = [_like(ast.Name(name, ast.Load()), final) for name in bound]
        result = values[0] if len(values) == 1 else _like(ast.Tuple(values, ast.Load()), final)
        ending = [final, _like(ast.Return(result), final)]
    [made] = ast.parse(f"def {FUNCTION}(): pass").body
    assert isinstance(made, ast.FunctionDef)
    made.args.args = [_like(ast.arg(name), final) for name in taken]
    made.body = [*before, *ending]
    module = ast.fix_missing_locations(ast.Module([_like(made, plan.body[start])], []))
    code = compile(module, file, "exec", dont_inherit=True)
    body = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == FUNCTION)
    return types.FunctionType(body, namespace, FUNCTION)


def _like(made: Any, place: ast.AST) -> Any:
    return ast.copy_location(made, place)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken or hasattr(builtins, name):
        name += "_"
    return name
