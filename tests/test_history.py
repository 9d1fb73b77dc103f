"""Which compile served which call, and what made a function compile again."""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import torch

import explorer
from explorer.ir.record import ServedData
from explorer.records.diagnosis import FEW_VALUES
from explorer.show.record import Record
from explorer.show.view.history import lines
from records import empty


def watched(fn: Callable[..., object], *calls: tuple[object, ...]) -> Record:
    compiled = explorer.compile(fn, backend="aot_eager")
    with explorer.watch(live=False) as log:
        for each in calls:
            compiled(*each)
    return log.record


def scaled(x: torch.Tensor, k: object) -> torch.Tensor:
    return x * k  # type: ignore[operator]


def chosen(x: torch.Tensor, mode: object) -> torch.Tensor:
    return x + 1 if mode == "a" else x - 1


A, B = torch.ones(4), torch.ones(5)

CHANGES: dict[str, tuple[tuple[tuple[object, ...], ...], str, str, str]] = {
    "size": (((A, 2), (B, 2)), "x.size(0) is 5, expected 4", "4", "5"),
    "number": (((A, 2), (A, 3)), "k is 3, expected 2", "2", "3"),
    "type": (((A, 2.5), (A, 2)), "k is 2, expected 2.5", "2.5", "2"),
    "dtype": (((A, 2), (A.double(), 2)), "x.dtype is float64, expected float32", "float32", "float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_reported_with_its_values_and_what_stops_it(name: str) -> None:
    calls, said, was, now = CHANGES[name]
    first, second = watched(scaled, *calls).data.history
    assert (first.first, first.made, first.changes) == (1, ("f0",), ())
    assert second.made == ("f0.1",)
    [change] = second.changes
    assert (change.failure, change.was, change.now) == (said, was, now)
    assert change.of == "f0" and change.stops


def test_calls_in_a_row_that_one_compile_serves_are_one_row() -> None:
    record = watched(chosen, (A, "a"), (A, "a"), (A, "a"), (A, "b"), (A, "a"), (A, "a"))
    shown = [(row.first, row.last, row.compiles, bool(row.made)) for row in record.data.history]
    assert shown == [
        (1, 1, ("f0",), True), (2, 3, ("f0",), False), (4, 4, ("f0.1",), True), (5, 6, ("f0",), False),
    ]  # fmt: skip
    told = lines(record.data, {})
    assert told[0] == "calls of chosen, each with the compile that it used:"
    assert told[2].split() == ["calls", "2", "to", "3", "f0", "reused"]


def test_what_was_compiled_once_has_no_history() -> None:
    assert watched(scaled, (A, 2), (A, 2)).data.history == ()


def test_without_counted_calls_the_compiles_stand_alone() -> None:
    record = watched(scaled, (A, 2), (A, 3))
    alone = Record(msgspec.structs.replace(record.data, calls=()))
    assert [(row.first, row.compiles, row.made) for row in alone.data.history] == [
        (0, ("f0",), ("f0",)), (0, ("f0.1",), ("f0.1",)),
    ]  # fmt: skip
    assert all(isinstance(row, ServedData) for row in alone.data.history)


def test_a_compile_that_served_no_call_is_reported() -> None:
    record = watched(scaled, (A, 2), (B, 2), (A.double(), 2))
    [calls] = record.data.calls
    served = (calls.served[0], calls.served[2])
    called, again, third = record.data.compiles
    compiles = (called, msgspec.structs.replace(again, runs=0), third)
    some = msgspec.structs.replace(record.data, calls=(msgspec.structs.replace(calls, served=served),))
    assert Record(some).data.history[-1].note == "", "its graph ran, in a call after those that are kept one by one"
    some = Record(msgspec.structs.replace(some, compiles=compiles))
    assert [(row.first, row.compiles, row.note) for row in some.data.history] == [
        (1, ("f0",), ""), (2, ("f0.2",), ""), (0, ("f0.1",), "no call reached it"),
    ]  # fmt: skip
    assert "no call reached it; compiled again: x.size(0) is 5, expected 4" in lines(some.data, {})[-1]


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_calls_that_raise_and_compiles_without_a_graph_are_reported_where_they_were(engine: str) -> None:
    def step(x: torch.Tensor, k: int) -> torch.Tensor:
        if k == 3:
            raise ValueError("of the program")
        torch._dynamo.graph_break()
        return x.sin() + k

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="eager") if engine == "stock" else explorer.compile(step)
    with explorer.watch(live=False) as log:
        for k in (0, 1, 1, 3, 3):
            try:
                raise KeyError("what is handled leaves no call")
            except KeyError:
                with suppress(ValueError):
                    compiled(A, k)
    record, own = log.record, engine[0].replace("e", "f")
    made = {row.first: (row.compiles, row.note) for row in record.data.history if row.made}
    assert made[1][0] == (f"{own}0", f"{own}1") and made[2][0][:1] == (f"{own}0.1",)
    assert made[4] == ((f"{own}0.2",), "raised ValueError: of the program")
    assert [each.call for each in record.data.calls[0].raised] == [4, 5]
    shown = repr(record)
    assert "2 calls raised ValueError: of the program" in shown and "no call reached it" not in shown
    assert "(one without a graph: where it was made)" in shown


def test_code_that_a_reset_dropped_is_compiled_again_and_fails_no_guard() -> None:
    compiled = torch.compile(lambda x: x.sin(), backend="eager")
    torch.compiler.reset()
    with explorer.watch(live=False) as log:
        for x in (A, A, B):
            compiled(x)
            torch.compiler.reset()
        for x in (A, B):
            compiled(x)
    said = [(row.first, [each.failure for each in row.changes]) for row in log.record.data.history]
    dropped = "the code of earlier calls was dropped, as torch.compiler.reset() does"
    assert said == [(1, []), (2, [dropped]), (3, [dropped]), (4, [dropped]), (5, ["x.size(0) is 5, expected 4"])]
    assert "<lambda> was recompiled once: x.size(0) is 5, expected 4\n" in repr(log)


def test_none_where_a_flag_was_and_a_call_that_is_left_to_python() -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda x, flag=None: x * 2 if flag else x, backend="eager")
    with explorer.watch(live=False) as log:
        for flag in (True, None):
            compiled(A, flag)
    assert "guards of <lambda> failed (once it was left to Python): flag is None, expected True\n" in repr(log)
    (failed,) = log.record.data.recompiles
    assert failed.stops == "pass None always or never, or use one compiled function for each case"


def test_functions_that_torch_calls_from_the_same_code_are_told_apart() -> None:
    torch.compiler.reset()
    with explorer.watch(live=False) as log:
        for layer, shape in ((torch.nn.Linear(4, 2), (3, 4)), (torch.nn.LayerNorm(5), (3, 5))):
            torch.compile(layer, backend="eager")(torch.ones(shape))
    failed = log.record.data.recompiles
    assert {each.frame for each in failed} == {"LayerNorm"} and {each.of for each in failed} == {"s0"}
    assert all(each.stops.startswith("no change is needed: this is another function") for each in failed)


STOCKS = {
    "size": ((A, 2), (B, 2), "x.size(0) is 5, expected 4", "torch._dynamo.mark_dynamic(x, 0)"),
    "number": ((A, 2), (A, 3.0), "k is 3.0, expected 2", "torch.tensor(k)"),
    "stride": ((A.expand(3, 4), 2), (torch.ones(4, 3).t(), 2), "x.stride(0) is 1, expected 0", "contiguous"),
    "rank": ((A, 2), (A[None], 2), "x.dim() is 2, expected 1", "unsqueeze"),
}


@pytest.mark.parametrize("name", STOCKS)
def test_of_stock_it_is_reported_alike(name: str) -> None:
    first, second, said, stops = STOCKS[name]
    torch._dynamo.reset()
    step = torch.compile(lambda x, k: x * k, backend="eager")
    with explorer.watch(live=False) as log:
        step(*first)
        step(*second)
    [change] = log.record.data.history[1].changes
    assert change.failure == said and stops in change.stops


def square(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, torch.ones(4, 4))


def after_a_break(x: torch.Tensor) -> torch.Tensor:
    h = x + 1
    torch._dynamo.graph_break()
    return h.relu()


def branching(x: torch.Tensor, k: int) -> torch.Tensor:
    return x.sin() if k == 3 else x + k


S, R, C = torch.ones(4, 4), torch.ones(5, 4), torch.ones(6, 7)
ADVICE: dict[str, tuple[Callable[..., object], bool | None, tuple[tuple[object, ...], ...], str, str, str]] = {
    "duck sizing": (square, True, ((S,), (R,)), "duck sizing", "mark_dynamic(x, 0)", "dynamic=True"),
    "duck, after a break": (
        after_a_break,
        True,
        ((S,), (R,), (C,)),
        "duck sizing",
        "sizes that differ",
        "_dynamo",
    ),
    "another layout of a square": (lambda x: x * 2, True, ((S,), (S.t(),)), "contiguous", "", "duck"),
    "after a break": (after_a_break, None, ((A,), (B,)), "dynamic=True", "remove the graph break", "_dynamo"),
    "a branch": (branching, None, ((A, 0), (A, 1), (A, 3)), "each branch is compiled once", "", "mark_dynamic"),
    "one": (lambda x, y: x + y, True, ((A, A + 1), (A, B[:1])), "0 and 1 are always specialized", "", "duck"),
}


@pytest.mark.parametrize("engine", ["explorer", "stock"])
@pytest.mark.parametrize("name", ADVICE)
def test_advice_is_what_was_not_done_yet_and_helps(name: str, engine: str) -> None:
    fn, dynamic, calls, *said, never = ADVICE[name]
    torch._dynamo.reset()
    compile = torch.compile if engine == "stock" else explorer.compile
    step = compile(fn, backend="eager", dynamic=dynamic)  # type: ignore[operator]
    with explorer.watch(live=False) as log:
        for each in calls:
            step(*each)
    failed = log.record.data.recompiles[-1]
    assert all(part in failed.stops for part in said) and never not in failed.stops
    assert failed.values or "contiguous" in failed.stops


def test_a_size_that_a_library_asks_for_is_guarded_at_the_programs_line() -> None:
    torch._dynamo.reset()
    layer = torch.nn.Linear(4, 4)
    step = torch.compile(lambda x: layer(x), backend="eager")
    with explorer.watch(live=False) as log:
        step(S)
        step(R)
    [failed] = log.record.data.recompiles
    assert failed.span is not None and failed.span.file == __file__


class Scales:
    def __init__(self) -> None:
        self.by = {"a": 2.0}


def mixed(x: torch.Tensor, n: float, of: Scales) -> torch.Tensor:
    return x * n + of.by["a"]


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_all_that_changed_is_reported_and_which_guard_failed_first(engine: str) -> None:
    torch._dynamo.reset()
    compiled = (
        torch.compile(mixed, backend="eager") if engine == "stock" else explorer.compile(mixed, backend="aot_eager")
    )
    of = Scales()
    with explorer.watch(live=False) as log:
        compiled(A, 2, of)
        of.by["a"] = 3.0
        compiled(B, 3, of)
        compiled(B.double()[None], 3, of)
    record = log.record
    second, third = (row.changes for row in record.data.history[1:])
    assert {each.failure for each in second} == {
        "x.size(0) is 5, expected 4", "n is 3, expected 2", "of.by['a'] is 3.0, expected 2.0",
    }  # fmt: skip
    assert [each.also for each in second] == [False, True, True]
    assert sum(each.times - each.also for each in record.data.recompiles) == 2, "two recompiles in all"
    assert repr(record).count(": this guard caused 1 recompile: ") == 2
    assert repr(record).count(": this guard also failed in 1 recompile: ") == 3
    rank = "x.dim()" if engine == "stock" else "x.rank"
    assert [(each.failure, each.also) for each in third] == [
        ("x.dtype is float64, expected float32", False), (f"{rank} is 2, expected 1", True),
    ]  # fmt: skip
    part = next(each for each in record.data.glance if each.what == "recompiles")
    assert f"{second[0].failure} (2 more changes)" in part.text and f"(also {third[1].failure})" in part.text
    assert f"; also {second[1].failure} (" in lines(record.data, {})[2]


def test_what_did_not_change_or_may_is_not_reported() -> None:
    """A size that the earlier compile takes as it is, zeros of both signs, and what reading it would run."""

    class Read:
        @property
        def by(self) -> float:
            reads.append(self)
            return 2.0 + len(reads)

    def called(x: torch.Tensor, n: object, zero: float, of: object) -> torch.Tensor:
        return x * n + zero  # type: ignore[operator]

    reads: list[object] = []
    torch._dynamo.reset()
    compiled = torch.compile(called, backend="eager", dynamic=True)
    with explorer.watch(live=False) as log:
        compiled(A, True, 0.0, Read())
        compiled(B, False, -0.0, Read())
    [change] = log.record.data.history[1].changes
    assert change.failure == "n is False, expected True" and not reads


def test_facts_of_one_tensor_that_change_together_are_reported_one_by_one() -> None:
    record = watched(scaled, (A, 2), (A.double().requires_grad_(), 2))
    _, second = record.data.history
    assert [(change.failure, change.was, change.now) for change in second.changes] == [
        ("x.dtype is float64, expected float32", "float32", "float64"),
        ("x.requires_grad is True, expected False", "False", "True"),
    ]
    assert {(each.words, each.values) for each in record.recompiles} == {
        ("x.dtype", ("float32", "float64")), ("x.requires_grad", ("False", "True")),
    }  # fmt: skip


def summed(xs: list[torch.Tensor]) -> torch.Tensor:
    return sum(xs) * 2  # type: ignore[operator]


def test_one_guard_with_several_values_is_named_without_one_and_later_calls_ran_eagerly() -> None:
    limit = torch._dynamo.config.recompile_limit
    record = watched(summed, *(([A] * n,) for n in range(1, limit + 3)))
    [failed] = record.recompiles
    assert failed.words == "the length of xs" and len(failed.values) == limit
    last = record.data.history[-1]
    assert (last.first, last.last, last.compiles) == (limit + 1, limit + 2, ())
    printed = repr(record.recompiles)
    assert "calls of summed, each with the compile that it used" in printed
    assert f"calls {limit + 1} to {limit + 2}" in printed
    assert printed.endswith("ran eagerly")


def test_an_attribute_that_an_object_gets_later_is_not_called_a_key() -> None:
    class Counting:
        steps = 0

    counting = Counting()

    def count(x: torch.Tensor) -> torch.Tensor:
        counting.steps += 1
        return x * 2

    compiled = torch.compile(count, backend="eager")
    with explorer.watch() as log:
        for _ in range(3):
            compiled(A)
    advised = [failed.stops for failed in log.record.recompiles if "of its own" in failed.words]
    assert advised and all("set them in __init__" in advice for advice in advised)


def test_a_call_that_used_code_older_than_the_watch_is_not_said_to_have_run_eagerly() -> None:
    for compile in (torch.compile, explorer.compile):
        compiled = compile(lambda x: x.sin(), dynamic=False)
        compiled(A)
        with explorer.watch() as log:
            compiled(A)
            compiled(torch.ones(len(A) + 1))
        assert "ran eagerly, or in code compiled before the watch" in repr(log)


def test_advice_for_a_number_that_became_a_symbol() -> None:
    [failed] = watched(scaled, (A, 2), (A, 3), (A, 4)).recompiles
    assert failed.stops.startswith("compile with dynamic=True")
    compiled = explorer.compile(scaled, backend="aot_eager", dynamic=True)
    with explorer.watch(live=False) as log:
        for k in (2, 3, 4):
            compiled(A, k)
    assert len(log.record.data.compiles) == 1


@pytest.mark.parametrize("engine", ["explorer", "stock"])
@pytest.mark.parametrize("first", ["grad mode", "autocast", "dtype is", "stride(", "a, expected b", "GLOBAL_STATE"])
def test_the_words_of_a_value_choose_no_advice(engine: str, first: str) -> None:
    def keyed(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x + len(mode)

    other = f"{first} is c, expected d"
    torch.compiler.reset()
    step = explorer.compile(keyed) if engine == "explorer" else torch.compile(keyed, backend="eager")
    with explorer.watch() as log:
        for mode in (first, other):
            step(torch.ones(3), mode)
    (failed,) = log.record.recompiles
    assert failed.values == (repr(first), repr(other)) and failed.stops == FEW_VALUES


def test_a_history_of_compiles_that_are_not_in_the_record_is_shown() -> None:
    row = ServedData("f", 1, 1, ("gone",), ("gone",))
    record = msgspec.structs.replace(empty(), history=(row,))
    assert any("the first call" in line for line in lines(record, {}))


def defined(file: str, line: int, body: str) -> Callable[..., torch.Tensor]:
    space: dict[str, Any] = {}
    exec(compile("\n" * (line - 1) + f"def f(x): return {body}", file, "exec"), space)
    return space["f"]


HELD = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
NAMED: dict[str, tuple[tuple[Callable[..., Any], ...], tuple[str, ...], tuple[str, ...]]] = {
    "files": ((defined("/a/one.py", 4, "x + 1"), defined("/a/two.py", 4, "x * 2")), ("f (one.py:4)", "f (two.py:4)"),
              ("f (one.py:4)", "f (two.py:4)")),
    "lines": ((defined("/a/one.py", 4, "x + 1"), defined("/a/one.py", 7, "x * 2")), ("f (one.py:4)", "f (one.py:7)"),
              ("f (one.py:4)", "f (one.py:7)")),
    "folders": ((defined("/a/one.py", 4, "x + 1"), defined("/b/one.py", 4, "x * 2")),
                ("f (/a/one.py:4)", "f (/b/one.py:4)"), ("f (/a/one.py:4)", "f (/b/one.py:4)")),
    "one place": ((HELD[0], HELD[1]), ("Linear (1)", "Linear (2)"), ("Linear.forward",)),
    "other names": ((scaled, defined("/a/one.py", 4, "x + 1")), ("f", "scaled"), ("f", "scaled")),
}  # fmt: skip


@pytest.mark.parametrize("differ", NAMED)
def test_functions_of_one_name_are_told_apart(differ: str) -> None:
    functions, calls, frames = NAMED[differ]
    compiled = [explorer.compile(each, backend="aot_eager") for each in functions]
    with explorer.watch(live=False) as log:
        for size in (2, 4):
            for function, each in zip(functions, compiled, strict=True):
                each(torch.ones(size, 3), *([2.0] if function is scaled else []))
    record = log.record
    assert tuple(sorted(each.function for each in record.data.calls)) == calls
    assert tuple(sorted({each.name for each in record.data.compiles})) == frames
    assert {each.function for each in record.data.history} == set(calls)
    printed = str(record)
    assert all(f"calls of {each}, each with the compile that it used" in printed for each in calls)
    costs = next(line for line in printed.splitlines() if "most of it in" in line)
    assert all(re.search(rf"\b{re.escape(each)} [0-9.]+ ", costs) for each in frames)


A_LINE = (lambda x, n: print(end="") or x * n), (lambda x, n: print(end="") or x + n)


def test_two_functions_of_one_line_and_both_engines_are_told_apart(fresh_dynamo: None) -> None:
    compilers = [explorer.compile, torch.compile]
    with explorer.watch(live=False) as log:
        made = [c(f, backend="eager", dynamic=False) for c in compilers for f in (*A_LINE, scaled)]
        for n in (2, 3, 4):
            for each in made:
                each(A, n)
    record = log.record
    assert [each.times for each in record.recompiles] == [2] * 6
    assert len({each.frame for each in record.recompiles}) == 6
    assert len({each.function for each in record.data.history}) == 6
    assert len({(each.function, each.engine) for each in record.calls}) == 6
    assert {each.function for each in record.calls if "column" in each.function} and "scaled (stock)" in repr(record)


@pytest.mark.parametrize("kind", (dict, OrderedDict, lambda: defaultdict(float)), ids=("dict", "ordered", "default"))
def test_the_length_of_a_dict_is_told_with_its_value(kind: Callable[[], Any], fresh_dynamo: None) -> None:
    """Its keys are read, so that torch counts them to look at them, and has no guard of its own for it."""
    compiled = torch.compile(lambda x, d: x + sum(d.values()) + len(d), backend="eager")
    with explorer.watch(live=False) as log:
        for size in range(4):
            given = kind()
            given.update((f"k{n}", float(n)) for n in range(size))
            compiled(A, given)
    [guard] = log.record.recompiles
    assert (guard.words, guard.values) == ("the length of d", ("0", "1", "2", "3"))
    assert "d length is 3, expected 2" in repr(log.record)
