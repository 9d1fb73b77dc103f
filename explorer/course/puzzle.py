"""What a puzzle is, and how an answer to it is checked, one step after the other."""

from __future__ import annotations

import ast
import builtins
import linecache
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from explorer.show.record import Record

FAILS = {
    "defined": "is not complete",
    "compiles": "does not compile",
    "used": "is not used",
    "verified": "is not valid",
    "right": "is not right",
    "refuses": "is not safe",
    "score": "is not good enough",
}
"""The steps of a check in their order, with what is said where one fails; the first that fails is told.

defined: the names are there, within the puzzle's limits. compiles: it runs, and the compiler takes it. used: the record
shows that the rule made something. verified: the check after the stage accepts it. right: it agrees with eager.
refuses: it says no where it must. score: it reaches what the puzzle asks for.
"""
STEPS = tuple(FAILS)


Show = Callable[[], tuple[Record, str]]
"""Makes the record that shows a failure, and says where to open it: a pane, or an address that Record.link makes."""


class Failure(Exception):
    """A step of a check failed."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step, self.message = step, message


@dataclass(frozen=True)
class Score:
    """A figure of merit beside what a good answer reaches. Higher is better where `higher`."""

    name: str
    yours: float
    par: float
    higher: bool = False

    def __str__(self) -> str:
        reached = self.yours >= self.par if self.higher else self.yours <= self.par
        return f"{self.name}: {self.yours:g}, par {self.par:g}{'' if reached else ' (can be better)'}"


@dataclass(frozen=True)
class Wrong:
    """A wrong answer: the step that must refuse it, and words of what is said."""

    code: str
    step: str
    says: str


@dataclass
class Answer:
    """An answer under check: what the learner's cell defined. `reached` is told each step as it begins, and `show` is
    what shows a failure now: the last that a step was given."""

    names: Mapping[str, Any]
    seed: int
    reached: Callable[[str, str], None] = lambda step, at: None
    step: str = "defined"
    show: Show | None = None

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    @property
    def random(self) -> random.Random:
        return random.Random(self.seed)

    @contextmanager
    def at(self, step: str, what: str = "", show: Show | None = None) -> Iterator[None]:
        """Inside the block the check is at this step, on this input, and `show` shows a failure from here on. An error
        of the answer becomes a failure. Raises AssertionError for a step that comes before one that was reached."""
        assert STEPS.index(step) >= STEPS.index(self.step), f"{step} after {self.step}"
        self.step, self.show = step, show or self.show
        self.reached(step, what)
        try:
            yield
        except Failure:
            raise
        except Exception as error:
            at = f" on {what}" if what else ""
            raise Failure(step, f"{type(error).__name__}{at}: {explained(error, self.names)}") from error

    def fail(self, message: str, record: Record | None = None, at: str = "") -> NoReturn:
        """Raises Failed, of the current step, which the record shows at a pane or an address."""
        if record is not None:
            self.shown(record, at)
        raise Failure(self.step, message)

    def shown(self, record: Record, at: str) -> None:
        """The record shows a failure from here on."""
        self.show = lambda: (record, at)


def explained(error: BaseException, names: Mapping[str, object]) -> str:
    """The first line of what an error says; of an unknown name also which names there are."""
    message = next(iter(str(error).splitlines()), "")
    if isinstance(error, RecursionError):
        return f"{message}: what ends the recursion?"
    if not isinstance(error, NameError):
        return message
    known = ", ".join(sorted(name for name in names if not name.startswith("_")))
    return f"{message}. A puzzle's cell is checked by itself; beside Python's own names it has: {known}"


@dataclass(frozen=True)
class Puzzle:
    """A task, as a person reads it, 1 to 20 lines of code, and their check. `given` is the code that the notebook
    shows before it, and `starter` what the learner's cell holds at first. `names` are what an answer defines; it has at
    most `lines` lines and uses none of `forbidden`. `check` raises Failed, or returns scores."""

    id: str
    title: str
    task: str
    minutes: int
    names: tuple[str, ...]
    given: str
    starter: str
    solution: str
    wrong: tuple[Wrong, ...]
    hints: tuple[str, str, str]
    check: Callable[[Answer], tuple[Score, ...]]
    lines: int = 40
    forbidden: frozenset[str] = field(default=frozenset())

    def define(self, source: str) -> dict[str, Any]:
        """What the cell defines. Raises Failed, of the step "defined"."""
        source = f"# %%puzzle {self.id}\n{source}"  # so that lines count as the notebook's cell counts them
        tree = self._within_limits(source)
        namespace: dict[str, Any] = {"__name__": "puzzle", "torch": torch, "F": torch.nn.functional}
        run(self.given, f"<given of {self.id}>", namespace)
        before = {name: namespace.get(name) for name in self.names}
        try:
            run(source, f"<puzzle {self.id}>", namespace)
        except Exception as raised:
            text = f"the cell raises {type(raised).__name__}: {explained(raised, namespace)}"
            raise Failure("defined", text) from raised
        for name in self.names:
            if name not in namespace or (namespace[name] is before[name] and name not in _assigned(tree)):
                raise Failure("defined", f"the cell does not define `{name}`")
            if namespace[name] is ...:
                raise Failure("defined", f"`{name}` is still ..., the place for your answer")
        return namespace

    def length(self, source: str) -> tuple[Score, ...]:
        """The score of a function that is right or wrong and no more: its lines, beside the solution's. None for
        numbers and inputs."""
        return (Score("lines", lines(source), lines(self.solution)),) if "def " in self.solution else ()

    def _within_limits(self, source: str) -> ast.Module:
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            raise Failure("defined", f"line {error.lineno} is not Python: {error.msg}") from error
        if (count := lines(source)) > self.lines:
            raise Failure("defined", f"{count} lines; this puzzle takes at most {self.lines}")
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name in self.forbidden:
                line = getattr(node, "lineno", 0)
                without = ", ".join(sorted(self.forbidden))
                raise Failure("defined", f"line {line} uses `{name}`; this puzzle is to be solved without {without}")
            if isinstance(node, ast.Constant) and node.value is ... and not _is_annotation(tree, node):
                raise Failure("defined", f"line {node.lineno} is still ..., the place for your answer")
        return tree


def lines(source: str) -> int:
    """Without the empty ones and comments."""
    return sum(not line.strip().startswith("#") for line in source.splitlines() if line.strip())


def _is_annotation(tree: ast.Module, node: ast.AST) -> bool:
    """Whether ... stands in an index or an annotation, where it has a meaning."""
    owners = [each.slice for each in ast.walk(tree) if isinstance(each, ast.Subscript)]
    return any(node in ast.walk(owner) for owner in owners)


def _assigned(tree: ast.Module) -> set[str]:
    return {
        name
        for node in tree.body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        )
    }


def run(source: str, file: str, namespace: dict[str, Any]) -> None:
    """Run code whose lines tracebacks and records can show."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace.setdefault("__builtins__", builtins)
    exec(compile(source, file, "exec"), namespace)
