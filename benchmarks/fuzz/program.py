"""A random program: the source of a function, and the calls made of it."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from textwrap import indent
from typing import Any, ClassVar

import torch

from benchmarks.fuzz.grammar import ARGUMENTS, CALLED, CHANGES, RETURNS, Grower, Scope
from benchmarks.fuzz.themes import themed

WORLD = Path(__file__).with_name("world.py")
FILE = "<random program>"
IMPORT = "from benchmarks.fuzz.world import *"
REPAIRS = 30
EAGER_SECONDS = 1.0
MODULE = "random_program"
GLOBALS = {"T": ["GT"], "I": ["GI"], "B": ["GB"], "L": ["GL"], "D": ["GD"], "K": ["GK"]}


@dataclass(frozen=True)
class Program:
    """`source` defines `f`; `steps` are statements, each run in the namespace of all before it, and compared after."""

    name: str
    source: str
    steps: tuple[str, ...]
    dynamic: bool | None = None

    @property
    def text(self) -> str:
        calls = "\n".join(f"# step {number}\n{step}" for number, step in enumerate(self.steps))
        return f"{IMPORT}\n\n{self.source}\n\n# f = compile(f, dynamic={self.dynamic})\n{calls}"


def grow(seed: str, index: int, grown: Callable[[Random, str], Program] | None = None) -> Program:
    """Program number `index` of a seed: made at random, then cleared of most statements that raise in eager."""
    random = Random(f"{seed}/{index}")
    while True:
        program = (grown or _grown)(random, f"{seed}/{index}")
        if _parses(program.source):  # a text in a text of the same quotes is none before 3.12
            with quiet():
                program = repaired(program, random)
            if _parses(program.source) and "def f(" in program.source:  # its definition may have been what raises
                return program


def _parses(source: str) -> bool:
    try:
        compile(source, FILE, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _grown(random: Random, name: str) -> Program:
    grower = themed(random)
    kinds = ["T"] + random.choices("TTTTINBSLLDDOOMKGAUJZ", k=random.randint(0, 3))
    source = function(grower, kinds, random.randint(2, 7))
    names = [f"x{place}" for place in range(len(kinds))]
    outside = around(kinds, names)
    setup = [f"{called} = {random.choice(ARGUMENTS[kind])}" for kind, called in zip(kinds, names, strict=True)]
    steps = ["\n".join([*setup, grower.fill(random.choice(CALLED), outside, args=", ".join(names))])]
    for _ in range(random.randint(1, 4)):
        steps.append("\n".join(_later(grower, kinds, names, outside)))
    dynamic = random.choice((None, None, None, None, True, False))
    return Program(name, source, tuple(steps), dynamic)


def function(grower: Grower, kinds: list[str], count: int, first: tuple[str, ...] = ()) -> str:
    """The source of `f`, which takes arguments of these kinds; `first` are its first statements."""
    random = grower.random
    parameters = [f"a{place}" for place in range(len(kinds))]
    scope = Scope()
    for kind, parameter in zip(kinds, parameters, strict=True):
        scope.add(kind, parameter)
    statements = [*first, *(grower.statement(scope, 0) for _ in range(count))]
    if random.random() < 0.2:
        statements.insert(len(first), grower.fill("<T+> = <T>", scope))
    statements.append("return " + grower.fill(grower.chosen(RETURNS, scope), scope))
    defaults = len(kinds) > 1 and random.random() < 0.15
    signature = ", ".join(parameters[:-1] + [f"{parameters[-1]}={ARGUMENTS[kinds[-1]][0]}"] if defaults else parameters)
    return f"def f({signature}):\n" + indent("\n".join(statements), "    ")


def around(kinds: list[str], names: list[str]) -> Scope:
    """What the calls of `f` can name: the globals, and its arguments."""
    outside = Scope({kind: list(found) for kind, found in GLOBALS.items()})
    for kind, called in zip(kinds, names, strict=True):
        outside.add(kind, called)
    return outside


def _later(grower: Grower, kinds: list[str], names: list[str], outside: Scope) -> list[str]:
    """Lines of a further call: some arguments made anew or changed, two of them the same object, the world changed."""
    random = grower.random
    lines, given = [], list(names)
    for kind, called in zip(kinds, names, strict=True):
        if random.random() < 0.45:
            lines.append(f"{called} = {random.choice(ARGUMENTS[kind])}")
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        lines.append(grower.fill(grower.chosen(CHANGES, outside), outside))
    same = [place for place, kind in enumerate(kinds) if kinds.count(kind) > 1]
    if same and random.random() < 0.4:
        place = random.choice(same)
        given[place] = random.choice([name for name, kind in zip(names, kinds, strict=True) if kind == kinds[place]])
    if random.random() < 0.1:
        given[0] = f"{given[0]}<$view>".replace("<$view>", random.choice(("[:1]", "[0]", ".detach()", ".view(-1)")))
    if len(given) > 1 and random.random() < 0.1:
        given[-1] = f"a{len(given) - 1}={given[-1]}"
    lines.append(grower.fill(random.choice(CALLED), outside, args=", ".join(given)))
    return lines


# ------------------------------------------------------------------------------------------------------------- running


@functools.cache
def _world() -> types.CodeType:
    return compile(WORLD.read_text(), str(WORLD), "exec", dont_inherit=True)


def world() -> dict[str, Any]:
    """A fresh namespace with what programs use. Its code objects are its own: compiled code is kept with them."""
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    exec(_copied(_world()), vars(module))
    return vars(module)


def _copied(code: types.CodeType) -> types.CodeType:
    inner = tuple(_copied(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=inner)


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Nothing of a program goes out, and what it switches is put back."""
    out = io.StringIO()
    default = torch.get_default_dtype()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        try:
            yield out
        finally:
            torch.set_default_dtype(default)


class TooLong(BaseException):
    """The program runs for longer than it may."""

    in_torch: ClassVar[bool] = False
    """Whether code of torch was cut in this process. What it had begun to change, it may have left so."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: types.FrameType | None) -> None:
        while frame is not None:
            TooLong.in_torch |= frame.f_globals.get("__name__", "").startswith("torch.")
            frame = frame.f_back
        raise TooLong(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)  # again: Python drops what is raised in a destructor, say
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def repaired(program: Program, random: Random) -> Program:
    """Replace statements of `f` that raise in eager, so that most programs run to their end; a few may stay."""
    for _ in range(REPAIRS):
        failed = _failing_line(program)
        if failed is None or random.random() < 0.04:
            break
        mended = _without(program.source, failed)
        if mended is None:
            break
        program = replace(program, source=mended)
    return replace(program, source=ast.unparse(ast.parse(program.source)))


def _failing_line(program: Program) -> int | None:
    namespace = world()
    try:
        torch.manual_seed(0)
        with at_most(EAGER_SECONDS):
            exec(compile(program.source, FILE, "exec", dont_inherit=True), namespace)
            exec(compile(program.steps[0], "<step>", "exec", dont_inherit=True), namespace)
    except SyntaxError as error:
        return error.lineno
    except (Exception, TooLong) as error:
        lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == FILE]
        return lines[0] if lines else None
    return None


def _without(source: str, line: int) -> str | None:
    """The source without the innermost statement on a line, a plainer value in place of what it assigned."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    found: list[tuple[list[ast.stmt], int]] = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                found += [(body, at) for at, each in enumerate(body)
                          if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or 0)]  # fmt: skip
    if not found:
        return None
    body, at = min(found, key=lambda each: (each[0][each[1]].end_lineno or 0) - each[0][each[1]].lineno)
    statement = body[at]
    plain = ast.parse("a0 * 2", mode="eval").body
    if isinstance(statement, ast.Return):
        if ast.unparse(statement) == "return a0":
            return None
        body[at] = ast.Return(plain if ast.unparse(statement) != "return a0 * 2" else ast.Name("a0", ast.Load()))
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and statement.targets[
        0
    ].id.startswith("t") and ast.unparse(statement.value) != "a0 * 2":  # fmt: skip
        statement.value = plain
    elif len(body) > 1:
        del body[at]
    elif isinstance(statement, ast.Pass):
        return None
    else:
        body[at] = ast.Pass()
    return ast.unparse(ast.fix_missing_locations(tree))
