"""Regular expressions take time in proportion to the text: logs and records come from strangers."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import explorer

ROOT = Path(explorer.__file__).parent
LENGTH, SUSPECT = 2000, 0.001
CALLS = ("match", "search", "fullmatch", "sub", "subn", "findall", "finditer", "split")


def flags(call: ast.Call) -> int:
    named = [node.attr for given in (*call.args[1:], *(k.value for k in call.keywords)) for node in ast.walk(given)
             if isinstance(node, ast.Attribute)]  # fmt: skip
    return sum({int(getattr(re, name)) for name in named if isinstance(getattr(re, name, None), re.RegexFlag)})


def used() -> Iterator[tuple[str, int, str, str]]:
    """(expression, flags, what is done with it, file), of each expression that is written out."""
    for path in sorted(ROOT.rglob("*.py")):
        tree, compiled = ast.parse(path.read_text()), dict[str, tuple[str, int]]()
        nodes = list(ast.walk(tree))
        for node in nodes:
            if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
                continue
            match node.value:
                case ast.Call(ast.Attribute(ast.Name("re"), "compile"), [ast.Constant(str(text)), *_]):
                    compiled[ast.unparse(node.targets[0])] = text, flags(node.value)
        for node in nodes:
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), done), [ast.Constant(str(text)), *_]) if done in CALLS:
                    yield text, flags(node), done, path.name
                case ast.Attribute(ast.Name(name), done) if name in compiled and done in CALLS:
                    yield *compiled[name], done, path.name


def attacks(expression: str) -> Iterator[Callable[[int], str]]:
    """Texts that make a search go back: characters of the expression repeated, which fail at the end."""
    own = re.sub(r"[\^$*+?{}|\\]", "", re.sub(r"\\[a-zA-Z]|\(\?P<\w+>", "", expression))
    chars = list(dict.fromkeys("a0 _.-[(\"',\\\n#" + own))
    for one in chars:
        yield lambda length, one=one: f"!{one * length}!"
        for other in chars:
            yield lambda length, one=one, other=other: (one + other) * (length // 2)
            yield lambda length, one=one, other=other: one * (length // 2) + other * (length // 2) + "!"


def slowed(expression: str, flag: int, done: str) -> str:
    """The attack under which four times the text takes more than eight times as long, each time it is measured:
    a busy machine slows one measurement, an expression slows all."""
    compiled = re.compile(expression, flag)
    call = getattr(compiled, done)

    def seconds(text: str) -> float:
        start = time.thread_time()
        result = call("", text) if done in ("sub", "subn") else call(text)
        if done == "finditer":
            list(result)
        return time.thread_time() - start

    def grows(attack: Callable[[int], str]) -> bool:
        short, long = (min(seconds(attack(length)) for _ in range(3)) for length in (LENGTH, 4 * LENGTH))
        return long > 8 * max(short, SUSPECT / 2)

    for attack in attacks(expression):
        if (
            seconds(attack(LENGTH // 4)) > SUSPECT / 16
            and seconds(attack(LENGTH)) > SUSPECT
            and all(grows(attack) for _ in range(5))
        ):
            return attack(20)
    return ""


@pytest.mark.parametrize(
    "expression, done",
    [(r"([^,()\s]+\[.*)$", "search"), (r" # (.+):(\d+):\d+$", "search"), (r"\n\s*Hint: ", "split"), (r"\s+$", "sub")],
)
def test_a_search_that_goes_back_is_found(expression: str, done: str) -> None:
    assert slowed(expression, 0, done)


def test_no_regular_expression_takes_more_than_time_in_proportion() -> None:
    found = set(used())
    assert len(found) > 60
    slow = [
        (file, expression, told) for expression, flag, done, file in found if (told := slowed(expression, flag, done))
    ]
    assert slow == []
