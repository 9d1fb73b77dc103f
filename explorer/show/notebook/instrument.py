"""How `%%explore` looks into a cell that runs as it would without it.

IPython runs the cell: the first line becomes a call that reads the options, and before the explored statements stands
one that copies what they are about to read. Both are calls of the magics' instance, and return at once.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch

from explorer.records.check.isolate import NotIsolated, Objects, State, reached
from explorer.records.check.trial import check_memory
from explorer.show.notebook.cell import Plan, elsewhere, function, names, parameters, plan
from explorer.show.notebook.live import WhenCompiled
from explorer.show.notebook.output import Waiting
from explorer.show.watch import Watch

OWNER = "get_ipython().magics_manager.registry['ExplorerMagics']"
"""How the code of a cell reaches the magics."""

_FIRST_LINE = re.compile(r"%%explore(?:\s+(?P<options>.*?))?\s*$")
_MARK = f"{OWNER}.begin"


def mark(lines: list[str]) -> list[str]:
    """IPython's input transformation: a cell of `%%explore` becomes its own body, below a line that says so. A cell
    whose body is another cell magic is left to the magic, which refuses it."""
    found = _FIRST_LINE.match(lines[0]) if lines else None
    body = next((line for line in lines[1:] if line.strip()), "")
    if found is None or body.lstrip().startswith("%%"):
        return lines
    return [f"{_MARK}({found['options'] or ''!r})\n", *lines[1:]]


def marked(statement: ast.stmt) -> ast.Call | None:
    """The call in a line that `mark` made; None for any other statement."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(attr="begin") as called) as call) if ast.unparse(called) == _MARK:
            return call
    return None


class Instrument(ast.NodeTransformer):
    """IPython's AST transformation: puts the calls into a marked cell. `keep` takes the cell's plan and gives the
    number by which the calls name it."""

    def __init__(self, keep: Callable[[Plan], int]) -> None:
        self._keep = keep

    def visit(self, node: ast.AST) -> ast.AST:
        call = marked(node.body[0]) if isinstance(node, ast.Module) and node.body else None
        if call is None:
            return node
        assert isinstance(node, ast.Module)
        first, *body = node.body
        try:
            made = plan(body)
        except SyntaxError:  # IPython meets it too, and shows it
            return node
        number = self._keep(made)
        call.args.append(ast.Constant(number))
        for index in reversed(made.starts):
            [look] = ast.parse(f"{OWNER}.before({number}, {index})").body
            for inner in ast.walk(look):
                ast.copy_location(inner, body[index])
            body.insert(index, look)
        node.body = [first, *body]
        return ast.fix_missing_locations(node)


@dataclass
class StatementInputs:
    """What the explored statements were about to read: `state` are copies of it, or `why_not` says why there are none
    and the statements cannot be repeated. `values` are the notebook's own objects."""

    start: int
    values: Mapping[str, Any]
    state: State | None = None
    why_not: str = ""
    gradients: list[tuple[torch.Tensor, torch.Tensor | None, int]] = field(default_factory=list)
    earlier: tuple[str, ...] = ()
    """Arguments that an earlier cell computed from something with a gradient."""
    since: float = 0.0

    def ran_backward(self) -> bool:
        """Whether the statements, by now, changed a gradient."""
        return any(
            tensor.grad is not before or _version(before) != version for tensor, before, version in self.gradients
        )


def _version(tensor: torch.Tensor | None) -> int:
    return -1 if tensor is None else tensor._version


def look(made: Plan, start: int, namespace: MutableMapping[str, object], file: str) -> StatementInputs:
    """What `made.body[start:made.end]` is about to read, copied where it can be. Changes nothing."""
    taken = parameters(made, start, namespace)
    values = {name: namespace[name] for name in taken}
    earlier = tuple(n for n, v in values.items() if isinstance(v, torch.Tensor) and v.requires_grad and not v.is_leaf)
    seen = StatementInputs(start, values, earlier=earlier)
    try:
        state = reached(function(made, start, taken, dict_of(namespace), file), values)
        seen.gradients = [
            (t, t.grad, _version(t.grad)) for t in state.tensors.values() if t.requires_grad and t.is_leaf
        ]
        check_memory(state)
        seen.state = state.copied()
    except (NotIsolated, SyntaxError) as refusal:
        seen.why_not = str(refusal)
    except Exception as error:  # of the user's objects, whose attributes are read; the cell is to run all the same
        seen.why_not = f"reading its inputs raised {type(error).__name__}: {error}"
    seen.since = time.perf_counter()
    return seen


def dict_of(namespace: MutableMapping[str, object]) -> dict[str, Any]:
    assert isinstance(namespace, dict)  # what Python takes as globals
    return namespace


COMPILED = ("__explorer_engine__", "_torchdynamo_orig_callable", "_orig_mod")
"""Attributes of what was compiled by us, and by stock."""


@dataclass
class Watched:
    """A cell that runs under `%%explore`. `result` is IPython's, by which the end of the cell is known."""

    plan: Plan
    options: Any
    namespace: dict[str, Any]
    file: str
    result: Any = None
    seen: StatementInputs | None = None
    why_not: str = ""
    watch: Watch | None = None
    """Of what the cell compiles itself, where it may; `view` shows it."""
    view: WhenCompiled | None = None
    waiting: Waiting = field(default_factory=Waiting)
    called: int = 0
    """Calls of compiled functions before the explored statements."""

    def compiles(self) -> bool:
        """Whether the cell reads something compiled, or asks for it to be."""
        words = {getattr(node, "attr", getattr(node, "id", "")) for each in self.plan.body for node in ast.walk(each)}
        values = (self.namespace.get(name) for name in names(self.plan.body).read)
        return "compile" in words or any(hasattr(value, mark) for value in values for mark in COMPILED)

    def before(self, index: int) -> None:
        """Statement `index` is about to run, and may be where the explored ones start."""
        if self.plan.earlier and isinstance(self.namespace.get(self.plan.earlier), torch.Tensor):
            self.why_not = elsewhere(self.plan.earlier)
            return
        self.called = self.watch.calls if self.watch is not None else 0
        if self.seen is None or not self._settled():
            self.seen = None  # let go of its copies before others are made
            self.seen = look(self.plan, index, self.namespace, self.file)

    def _settled(self) -> bool:
        """Whether the statements that ran since `seen` are among those that compute what has the gradient."""
        assert self.seen is not None
        objects = Objects()
        try:
            for name in names([self.plan.body[self.seen.start]]).bound:
                objects.add(self.namespace.get(name), name)
        except Exception:  # as in `look`
            return False
        return any(tensor.requires_grad and not tensor.is_leaf for tensor in objects.tensors.values())
