"""Compiled bytecode as Python: a text is only there where it does the same, and it runs as the bytecode does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from explorer.compiler.bytecode.decode import decode
from explorer.records.to_record import python as text_of
from explorer.records.to_record.python import python
from programs import NAMED

calls: list[object] = []


def seen(*values: object, **named: object) -> object:
    calls.append((values, named))
    return values[0] if values else None


def straight(a, b, *rest, key=3, **more):
    c = a + b * 2 - (not b)
    c += seen(c, key=-key, end="")
    held = [c, (a, 1), {"k": b, 2: c}, {a, b}]
    held[0] = held[1:]
    held[2]["new"], first = c, held[1]
    del held[3]
    return held, first, a < b, a is not b, 1 in rest, more


def branches(a, b):
    if a > b:
        if not b:
            raise ValueError(a)
        return seen(a)
    a = a if a is None else seen(a, b)
    return (a, b) if b else [a.real, seen()]


def reads_twice(x):
    y = seen(x).real
    return seen(y, seen(y), x)


@pytest.mark.parametrize(
    "fn", [straight, branches, reads_twice, lambda a, b=(1, (2.5, "s"), None): a[b:], lambda: seen(seen(1), k=seen(2))]
)
def test_the_text_does_what_the_bytecode_does(fn) -> None:
    text = python(decode(fn.__code__))
    name = fn.__name__ if fn.__name__.isidentifier() else "function"
    assert text
    made: dict[str, Any] = {"seen": seen}
    exec(text, made)
    made[name].__defaults__, made[name].__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    for args in ((3, 2), (2, 3), (1, 0), (0, 1), (5,), ()):
        first, second = (outcome(function, args) for function in (fn, made[name]))
        assert first == second


def outcome(function, args: tuple[int, ...]) -> object:
    """What comes of a call, and what it called on the way."""
    calls.clear()
    try:
        return function(*args), [*calls]
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), [*calls]


@pytest.mark.parametrize("fn", [
    lambda xs: [x for x in xs], lambda x: (yield x), lambda f, a: f(*a, **a), lambda x: lambda: x,
])  # fmt: skip
def test_what_is_not_known_has_no_text(fn) -> None:
    assert python(decode(fn.__code__)) == ""


def test_a_text_that_does_something_else_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(a, b):
        return seen(a, 1), seen(b, 2.0), a - b

    right = python(decode(swapped.__code__))
    for old, new in (
        ("seen(a, 1)", "seen(b, 1)"),
        ("2.0", "2"),
        ("a - b", "b - a"),
        ("1), ", "True), "),
        ("seen(b", "a.b(b"),
    ):
        assert old in right
        monkeypatch.setattr(text_of.ast, "unparse", lambda tree, old=old, new=new: right.replace(old, new, 1))
        assert python(decode(swapped.__code__)) == ""


def broken(x: Tensor, n: int = 3) -> Any:
    y = x * 2
    print("shape", tuple(y.shape))
    if y.sum() > 0:
        return y.sin() + n
    return [y, (y, y.cos())]


def test_rewritten_code_and_continuations_read_as_python() -> None:
    record = explorer.explore(broken, time=False)(torch.ones(3))
    first = record.data.compiles[0]
    texts = {code.role: code.python for code in first.codes}
    assert "y, = compiled_graph(x)" in texts["rewritten"] and "print('shape', (3,))" in texts["rewritten"]
    assert (
        "# Where compiled_graph raises an error, this is done instead:\ndef broken_raised(error, x, n):"
        in texts["rewritten"]
    )
    assert "if y.sum() > 0:\n        return y.sin() + n\n    return [y, (y, y.cos())]" in texts["continuation"]
    assert not texts["original"]


@pytest.mark.parametrize(
    "name", ["add_mul", "branch_on_data", "prints", "outputs_alias_inputs", "generators", "sets_attributes"]
)
def test_rewritten_code_has_a_text(name: str) -> None:
    program = NAMED[name]
    args, kwargs = program.inputs()
    record = explorer.explore(program.build(), time=False)(*args, **kwargs)
    assert all(code.python for compile in record.data.compiles for code in compile.codes if code.role == "rewritten")


def test_a_text_that_a_break_reads_is_made_of_the_numbers_of_the_graph() -> None:
    def length(x: torch.Tensor) -> Any:
        text = f"{x.sum().item():.2f}"
        return x * 2, len(text), text

    def in_an_error(x: torch.Tensor) -> Any:
        text = f"{x.sum().item():.2f}"
        try:
            raise LookupError(text, len(text))
        except LookupError as error:
            return x * 2, error.args

    for function in (length, in_an_error):
        compiled = explorer.compile(function)
        for x in (torch.ones(3), torch.ones(30)):
            assert str(compiled(x)) == str(function(x))
