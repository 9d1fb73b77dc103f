"""Breaks inside except and finally blocks: what is handled is handled on, in the same function's continuations."""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from capturing import compiled


def caught(x: Tensor) -> Any:
    try:
        raise ValueError("a")
    except ValueError as error:
        y = x + 1
        print("caught", error, sys.exc_info()[1])
        z = y * 2
        print(traceback.format_exc().splitlines()[-1])
    return z - 1, sys.exc_info()[1]


def in_each_other(x: Tensor) -> Any:
    try:
        try:
            {}["k"]
        except KeyError as first:
            x = x + 1
            print("inner", first)
            try:
                raise TypeError("t")
            except TypeError as second:
                x = x * 2
                print("both", second, type(second.__context__))
                x = x + 3
            print("after", sys.exc_info()[1])
            raise RuntimeError("out") from first
    except RuntimeError as third:
        print("outer", third, type(third.__cause__), third.__suppress_context__)
        x = x - 1
    finally:
        print("finally", sys.exc_info()[1])
        x = x * 3
    return x


def raised_again(x: Tensor) -> Any:
    try:
        try:
            raise ValueError("b")
        except ValueError:
            x = x.sin()
            print("in")
            x = x.cos()
            raise
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return x, str(error), [frame.filename for frame in frames][-1:]


def in_a_loop(x: Tensor) -> Any:
    for i in range(20):
        try:
            x = x + 1
            if i % 2:
                raise IndexError(i)
        except IndexError as error:
            print("at", error, end=" ")
            x = x * 1.5
            continue
        else:
            x = x - 0.5
        finally:
            x = x / 1.25
            print("f", end=" ")
    return x


def leaves(x: Tensor) -> Any:
    try:
        raise ValueError("u")
    except ValueError:
        x = x + 1
        print("p")
        raise KeyError("v") from None


def from_data(x: Tensor) -> Any:
    try:
        if x.sum() > 0:
            raise OverflowError(float(x.max()))
        y = x
    except OverflowError as error:
        y = x / error.args[0]
    finally:
        print(x.shape)
    return y


def by_real_call(x: Tensor) -> Any:
    try:
        y = x * int("no number")
    except ValueError as error:
        y = x + len(str(error))
        print(error)
        y = y.relu()
    return y


def returned(x: Tensor) -> Any:
    try:
        raise LookupError("first")
    except LookupError as error:
        x = x * 2
        try:
            raise ArithmeticError("second")
        except ArithmeticError as other:
            return x, other, other.__context__ is error


def suppressed(x: Tensor) -> Any:
    with contextlib.suppress(KeyError):
        x = x + 1
        print("before")
        raise KeyError
    return x * 2


PROGRAMS = [
    caught, in_each_other, raised_again, in_a_loop, leaves, from_data, by_real_call, returned, suppressed,
]  # fmt: skip


def outcome(fn: Callable[[Tensor], Any], x: Tensor) -> tuple[Any, str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = fn(x)
        except Exception as error:
            result = type(error), error.args, type(error.__context__), error.__suppress_context__
    assert sys.exc_info() == (None, None, None)
    return result, printed.getvalue()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, BaseException):
        return type(one) is type(other) and one.args == other.args and same(one.__context__, other.__context__)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, Tensor) else one == other


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_like_eager(fn: Callable[[Tensor], Any]) -> None:
    run, captures = compiled(fn)
    for x in (torch.ones(2), torch.ones(2), torch.full((3,), -2.0)):
        (expected, out), (found, printed) = outcome(fn, x), outcome(run, x)
        assert same(found, expected) and printed == out
    assert captures.fallbacks == []


def test_the_break_is_named_and_the_rest_is_compiled() -> None:
    run, captures = compiled(raised_again)
    run(torch.ones(2))
    assert captures.breaks[0] == "break.print"
    assert captures.made[0].breaks[0].continuation.endswith("_handling_0")
    assert len(captures.graphs) == 2


def test_the_traceback_is_the_programs() -> None:
    def two_lines(x: Tensor) -> str:
        try:
            x.view(-1, 7)
        except RuntimeError:
            print(end="")
            print(end="")
            return traceback.format_exc()
        return ""

    run, _ = compiled(two_lines)
    eager, mine = two_lines(torch.ones(2)).splitlines(), run(torch.ones(2)).splitlines()
    assert mine[0] == eager[0] and mine[-1] == eager[-1]
    assert sum("x.view(-1, 7)" in line for line in mine) == 1


def raises(x: Tensor) -> Tensor:
    raise RuntimeError(f"bad {x.shape}")


class Reads:
    def __enter__(self) -> Reads:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.read = 0 if trace is None else len(traceback.extract_tb(trace))
        return True


def extracted(x: Tensor) -> Any:
    try:
        raises(x)
    except RuntimeError as error:
        return x * 2, len(traceback.extract_tb(error.__traceback__))


def formatted(x: Tensor) -> Any:
    try:
        raises(x)
    except RuntimeError:
        return x * 2, traceback.format_exc().count("File")


def of_the_system(x: Tensor) -> Any:
    try:
        raises(x)
    except RuntimeError:
        return x * 2, sys.exc_info()[2] is None, len(traceback.extract_tb(sys.exc_info()[2]))


def told_to_a_block(x: Tensor) -> Any:
    with Reads() as first:
        raises(x)
    with Reads() as second:
        x = x + 1
    return x, first.read, second.read


@pytest.mark.parametrize("fn", [extracted, formatted, of_the_system, told_to_a_block])
def test_a_traceback_names_the_functions_that_were_inlined(fn: Callable[[Tensor], Any]) -> None:
    run, _ = compiled(fn)
    (mine, *read), (eager, *expected) = run(torch.ones(2)), fn(torch.ones(2))
    assert torch.equal(mine, eager) and read == expected


def _broken_once(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        print(error)
    return x + 1


def _broken_before_too(x):
    held = x.sum().item()
    try:
        raise ValueError(str(held))
    except ValueError as error:
        print(error)
        print(held)
    return x + 1


def _broken_in_a_loop(x):
    for each in range(3):
        try:
            raise ValueError(each)
        except ValueError as error:
            if print(error):
                continue
    return x + 1


@pytest.mark.parametrize("backend", ["eager", "explorer"])
@pytest.mark.parametrize("program", [_broken_once, _broken_before_too, _broken_in_a_loop])
def test_what_a_handler_with_a_break_has_seen_is_freed_at_once(program, backend):
    """An exception in a local of a frame of its traceback would keep the frame and all it holds for the collector."""

    class Told(list):
        pass

    def holding(x, held):
        return program(x)

    held = Told()
    freed = weakref.ref(held)
    function = explorer.compile(holding, backend=backend)
    with contextlib.redirect_stdout(io.StringIO()):
        function(torch.ones(2), held)
        gc.collect()
        gc.disable()
        try:
            other = Told()
            again = weakref.ref(other)
            function(torch.ones(2), other)
            del held, other
            assert freed() is None and again() is None
        finally:
            gc.enable()
