"""Locals, cells and names of a frame that goes on after a graph break: those of eager."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

import explorer
from capturing import compiled


def test_break_keeps_stack_and_locals(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x, y):
        a = x + 1
        b = (a * 2, print("middle"), y - 1)
        return a, b[0] + b[2]

    fn, captures = compiled(f)
    x, y = torch.randn(3), torch.randn(3)
    for _ in range(2):
        for mine, theirs in zip(fn(x, y), f(x, y), strict=True):
            assert torch.equal(mine, theirs)
    assert captures.breaks == ["break.print"]
    assert capsys.readouterr().out == "middle\n" * 4
    assert len(captures.made) == 2


def test_closures_are_shared_across_a_break() -> None:
    def f(x):
        n = 1.0

        def bump():
            nonlocal n
            n += 1
            return x * n

        a = bump()
        print(end="")
        b = bump()
        return a, b, n

    fn, captures = compiled(f)
    x = torch.ones(2)
    a, b, n = fn(x)
    assert torch.equal(a, x * 2) and torch.equal(b, x * 3) and n == 3.0
    assert captures.fallbacks == []


def test_star_arguments_and_defaults_across_a_break() -> None:
    def f(x, *rest, scale=2.0, **named):
        y = x * scale
        print(end="")
        return y + sum(rest) + named["z"]

    fn, captures = compiled(f)
    x = torch.ones(2)
    assert torch.equal(fn(x, 1, 2, z=3), f(x, 1, 2, z=3))
    assert captures.fallbacks == []


def test_deleted_and_unbound_locals() -> None:
    def f(x, flag):
        y = x + 1
        del x
        print(end="")
        if flag:
            z = y
        return y if flag else z

    fn, _ = compiled(f)
    assert torch.equal(fn(torch.ones(2), True), torch.full((2,), 2.0))
    with pytest.raises(UnboundLocalError):
        fn(torch.ones(2), False)


def names_of_the_frame(x, flag):
    a = x + 1
    if flag:
        late = 1
    print(end="")
    before = sorted(locals()), sorted(vars()), dir()
    for _i in [1, 2]:
        print(end="")
    del a
    return before, sorted(locals())


def test_the_exception_that_a_break_handles_is_no_local() -> None:
    def f(x):
        try:
            raise ValueError("a")
        except ValueError:
            x = x + 1
            names = eval("sorted(locals())")
            try:
                raise KeyError("b")
            except KeyError:
                more = [x * 2, eval("sorted(locals())")]
                context = repr(sys.exception().__context__)
        return names, more[1], context

    assert explorer.compile(f)(torch.ones(2)) == f(torch.ones(2))


@pytest.mark.parametrize("asked", ["locals()", "vars()", "dir()", "eval('dir()')", "dir(*())"])
def test_all_locals_are_there_where_the_call_that_reads_them_is_left_to_python(asked: str) -> None:
    text = f"""
def f(x):
    with torch.inference_mode():
        first = x * 2
    second = x.sum().item() * x
    third = 3
    return sorted({asked})
"""
    found: list[dict[str, Any]] = [{"torch": torch}, {"torch": torch}]
    for namespace in found:
        exec(text, namespace)
    x = torch.ones(3, requires_grad=True)
    assert explorer.compile(found[0]["f"], backend="eager")(x) == found[1]["f"](x)


def names_shared_with_closures(x, flag):
    shared = 1
    read = [lambda: shared]
    print(end="")
    return sorted(locals()), read[0]()


def names_deleted(x, flag):
    held = iter([1, 2])
    next(held)
    print(end="")
    del held
    try:
        return held
    except NameError as error:
        return type(error), str(error), list(locals())


def name_of_a_cell_deleted(x, flag):
    read = [lambda: x]  # noqa: F821
    del x
    try:
        return x, read
    except NameError as error:
        return type(error), str(error)


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize(
    "program", [names_of_the_frame, names_shared_with_closures, names_deleted, name_of_a_cell_deleted]
)
def test_a_frame_after_a_break_has_the_names_of_the_program(program, flag) -> None:
    fn, _ = compiled(program)
    assert fn(torch.ones(2), flag) == program(torch.ones(2), flag)


def test_code_whose_constants_have_no_hash() -> None:
    def plain(x):
        return x * 2 + 1

    odd = types.FunctionType(plain.__code__.replace(co_consts=(*plain.__code__.co_consts, [7])), globals())
    with pytest.raises(TypeError, match="unhashable"):
        hash(odd.__code__)

    def calls(x):
        y = odd(x)
        print("between")
        return odd(y) + odd(x)

    fn, captures = compiled(calls)
    x = torch.ones(2)
    assert torch.equal(fn(x), calls(x))
    fn, captures = compiled(odd, fullgraph=True)
    assert torch.equal(fn(x), odd(x)) and captures.fallbacks == []


def deleted_at_once(a):
    del a
    made = torch.ones(2)
    return a + made  # noqa: F821


def deleted_and_caught(a):
    b = a + 1
    del a
    try:
        print(a, end="")  # noqa: F821
    except UnboundLocalError:
        print(end="")
    return b


def deleted_in_a_loop(a):
    b = a
    for times in range(2):
        del b
        print(end="")
        b = a * times
    del b
    print(end="")
    return b  # noqa: F821


def taken_by_a_handler(a):
    try:
        raise ValueError(1)
    except ValueError as a:  # noqa: F841
        print(end="")
    print(end="")
    return a  # noqa: F821


def empty_cell_read(a):
    b = bool(a.sum() > 9) and a
    if b is not False:
        c = b
    later = lambda: c  # noqa: E731
    print(end="")
    return a, c, later


def empty_cell_caught(a):
    if a.sum() > 9:
        c = a
    later = lambda: c  # noqa: E731
    found = []
    for turn in range(3):
        print(end="")
        try:
            with torch.no_grad():
                found.append(a.numpy().sum().item() + c)
        except NameError as error:
            found.append(f"{type(error).__name__} {error} {error.__context__!r} {sorted(locals())}")
            if turn:
                c = turn
    return found, later()


def empty_cell_deleted(a):
    c = a
    later = lambda: c  # noqa: E731
    try:
        raise ValueError(1)
    except ValueError:
        print(end="")
        del c
        try:
            del c  # noqa: F821
        except NameError as error:
            print(end="")
            found = type(error), str(error), str(error.__context__)
    try:
        later()
    except NameError as error:
        return found, type(error), str(error)


@pytest.mark.parametrize(
    "program",
    [
        deleted_at_once, deleted_and_caught, deleted_in_a_loop, taken_by_a_handler,
        empty_cell_read, empty_cell_caught, empty_cell_deleted,
    ],
)  # fmt: skip
def test_names_that_are_deleted_stay_deleted_after_a_break(program):
    def outcome(function):
        try:
            return str(function(torch.ones(2)))
        except Exception as error:
            return type(error), str(error)

    assert outcome(explorer.compile(program, backend="eager")) == outcome(program)


def check(x, limit):
    if x.sum().item() > limit:
        raise KeyError(limit)
    return x * 2


BREAKS_IN_COMPREHENSIONS = (
    "[x.sum().item() for x in xs]",
    "{{x.sum().item() for x in xs if check(x, {limit}).sum().item() > 0}}",
    "{{n: check(x, {limit}).sum().item() for n, x in enumerate(xs)}}",
    "[[check(x, {limit}).sum().item() + n for n in range(2)] for x in xs]",
    "[[x.item() for x in check(x, {limit})] for x in xs]",
    "[x + n for x in xs for n in range(int(check(x, {limit}).sum().item()))]",
    "[z for x in xs if (z := check(x, {limit}).sum().item()) > 2]",
    "max([check(x, {limit}).sum().item() for x in xs], key=lambda v: -v)",
    "[sum(check(y, {limit}).item() * n for y in x) + x.sum().item() for n, x in enumerate(xs)]",
    "[f() for f in [lambda: check(x, {limit}).sum().item() for x in xs]]",
    "[(x.sum().item(), [(lambda: x)() for x in check(x, {limit})], x) for x in xs]",
)

COMPREHENSION_WITH_A_BREAK = """
def f(xs):
    {before}
    first = xs[0] * 2
    try:
        out = {comprehension}
    except KeyError as error:
        out = error.args
    try:
        out = [out, x]
    except UnboundLocalError as error:
        out = [out, str(error)]
    {after}
    return first + xs[1], out
"""


@pytest.mark.parametrize("before", ["x = xs[1].sin()", "x = 1; del x", "if xs is None: x = 1"])
@pytest.mark.parametrize("number", range(len(BREAKS_IN_COMPREHENSIONS)))
def test_breaks_in_comprehensions(number: int, before: str) -> None:
    """Since Python 3.12 a comprehension is part of the function that it stands in: that is split there, not given up.
    The variable of its name comes back, in cells too."""
    for after, limit in (("", 5), ("get = lambda: x; x = first; out = [out, get()]", 100)):
        comprehension = BREAKS_IN_COMPREHENSIONS[number].format(limit=limit)
        made: dict[str, Any] = {}
        source = COMPREHENSION_WITH_A_BREAK.format(before=before, comprehension=comprehension, after=after)
        exec(source, globals(), made)
        fn, captures = compiled(made["f"])
        xs = [torch.ones(2), torch.ones(2) * 2, torch.ones(2) * 3]
        for _ in range(2):
            assert str(fn(xs)) == str(made["f"](xs))
        assert captures.fallbacks == [] and captures.graphs


def test_a_variable_that_a_function_made_elsewhere_deletes_is_deleted() -> None:
    def made() -> Any:
        shared = torch.ones(2)

        def drop() -> None:
            nonlocal shared
            del shared

        return drop, lambda: shared

    drop, get = made()

    def f(a):
        drop()
        return a + 1

    explorer.compile(f, backend="eager")(torch.ones(2))
    with pytest.raises(NameError, match="shared"):
        get()
