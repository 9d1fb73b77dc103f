"""Programs watched as they are: what torch's own counters and logs tell is in the record, and nothing runs twice."""

import contextlib
import gc
import linecache
import logging
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters

import explorer
from explorer.records.data.calls import CallLog
from explorer.records.stock import observation
from explorer.show.record import Record
from explorer.show.view.diagnosis import eager, frames_of_graphs, settled

X = torch.ones(4, 8)


class Holder:
    def __init__(self) -> None:
        self.step = 0
        self.items = {"a": 1}
        self.function = torch.sin


HOLDER = Holder()
RATE = 1.0


def attribute(x, n):
    return x * HOLDER.step


def argument(x, n):
    return x * n


def length(x, n):
    return sum([x] * 1) + len(n)


def keys(x, n):
    return x + len(n) + ("b" in n)


def break_inside(x, n):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() * n


def branch(x, n):
    return x.sin() if x.sum() > 0 else x.cos()


def loop_break(x, n):
    for _ in range(2):
        x = x + 1
        torch._dynamo.graph_break()
    return x


def global_rate(x, n):
    return x * RATE


def kind(x, n):
    return x + 1 if n is None else x + 2


def function_called(x, n):
    return n(x)


def set_step(value):
    def before() -> None:
        HOLDER.step = value

    return before


def set_rate(value):
    def before() -> None:
        global RATE
        RATE = value

    return before


def nothing() -> None:
    pass


CASES: dict[str, tuple[Callable[..., Any], list[tuple[Callable[[], None], Any, Any]], str]] = {
    # name: (function, calls as (what happens before, x, n), a value that a failed guard saw)
    "attribute": (attribute, [(set_step(i), X, None) for i in range(4)], "3"),
    "int argument": (argument, [(nothing, X, n) for n in (2, 3, 4, 5)], "3"),
    "float argument": (argument, [(nothing, X, n) for n in (0.5, 1.5, 2.5)], "1.5"),
    "int, float, tensor": (argument, [(nothing, X, n) for n in (2, 2.5, torch.ones(()), True)], ""),
    "size": (argument, [(nothing, torch.ones(n, 8), 2) for n in (4, 5, 6, 1)], "5"),
    "rank": (argument, [(nothing, x, 2) for x in (X, X[0])], ""),
    "stride": (argument, [(nothing, x, 2) for x in (X, torch.ones(8, 4).t())], "1"),
    "dtype": (argument, [(nothing, x, 2) for x in (X, X.double())], ""),
    "requires_grad": (argument, [(nothing, x, 2) for x in (X, X.clone().requires_grad_())], ""),
    "list length": (length, [(nothing, X, [X] * n) for n in (1, 2, 3)], ""),
    "dict keys": (keys, [(nothing, X, n) for n in ({"a": 1}, {"b": 1}, {"a": 1, "b": 2})], ""),
    "global": (global_rate, [(set_rate(value), X, None) for value in (1.0, 2.0, 3.0)], "2.0"),
    "none or not": (kind, [(nothing, X, None), (nothing, X, 3)], "3"),
    "function": (function_called, [(nothing, X, n) for n in (torch.sin, torch.cos)], ""),
    "recompile limit": (attribute, [(set_step(i + 100), X, None) for i in range(11)], "101"),
    "graph break": (break_inside, [(nothing, X, n) for n in (2, 2, 3)], "3"),
    "branch": (branch, [(nothing, X, None), (nothing, -X, None)], ""),
    "break in a loop": (loop_break, [(nothing, X, None)] * 2, ""),
}


@contextmanager
def recompiles_logged() -> Iterator[list[str]]:
    """What torch logs of recompiles."""
    told: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    keep = Keep()
    torch._logging.set_logs(recompiles=True)
    log = logging.getLogger("torch._dynamo.guards.__recompiles")
    log.addHandler(keep)
    try:
        yield told
    finally:
        log.removeHandler(keep)
        torch._logging.set_logs()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", CASES)
def test_what_torch_counts_is_in_the_record(name: str) -> None:
    function, calls, value = CASES[name]
    expected = []
    for before, x, n in calls:
        before()
        expected.append(function(x, n))
    compiled = torch.compile(function, backend="eager")
    with recompiles_logged() as logged, explorer.watch() as log:
        for (before, x, n), wanted in zip(calls, expected, strict=True):
            before()
            torch.testing.assert_close(compiled(x, n), wanted)
    record = log.record
    made = [each for each in record.data.compiles if each.engine == "stock" and each.codes]
    graphs = [each for each in made if any(stage.name == "capture" for stage in each.stages)]
    assert len(graphs) == counters["stats"]["unique_graphs"]
    assert sum(bool(each.recompiles) for each in made) == len(logged)
    assert sum(each.times for each in record.recompiles) >= len(logged)
    assert all(each.expression for each in record.recompiles)
    assert {at for each in record.recompiles for at in each.compiles} == {each.id for each in made if each.recompiles}
    if value:
        assert value in {seen for each in record.recompiles for seen in each.values}, record.recompiles
    (called,) = record.calls
    assert (called.function, called.count, len(called.samples)) == (function.__qualname__, len(calls), len(calls))
    assert called.seconds >= called.compiling > 0
    assert not [event for each in record.data.compiles for event in each.events if event.kind == "HookFailed"]
    for each in record.recompiles:
        assert each.words in repr(log)


@pytest.mark.parametrize("name", CASES)
def test_what_torch_counts_is_the_same_while_it_is_watched(name: str) -> None:
    """Dynamo met frames of what measured a call, where it ran in compiled code, and counted them as the program's."""
    function, calls, _ = CASES[name]
    found = []
    for watching in (contextlib.nullcontext, explorer.watch):
        torch._dynamo.reset()
        counters.clear()
        compiled = torch.compile(function, backend="eager")
        with watching():
            for before, x, n in (*calls, *calls):
                before()
                compiled(x, n)
        found.append({kind: dict(counters[kind]) for kind in ("frames", "stats", "graph_break", "recompiles")})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "name, value", [("attribute", "1"), ("size", "5"), ("graph break", "3"), ("global", "2.0"), ("none or not", "None")]
)
def test_ours_likewise(name: str, value: str) -> None:
    function, calls, _ = CASES[name]
    before_that = explorer.counters().get("compiles", 0)
    compiled = explorer.compile(function, backend="eager")
    with explorer.watch() as log:
        for before, x, n in calls:
            before()
            compiled(x, n)
    made = [each for each in log.record.data.compiles if each.codes]
    assert len(made) == explorer.counters()["compiles"] - before_that
    assert any(value in each.values for each in log.record.recompiles), log.record.recompiles
    (called,) = log.record.calls
    assert (called.engine, called.count) == ("explorer", len(calls))
    assert called.compiling > 0 and called.graphs is not None


class Doubled(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> torch.Tensor:
        return X * at


@pytest.mark.parametrize("workers", [0, 2])
def test_processes_whose_compiles_are_not_recorded_are_told(workers: int) -> None:
    with explorer.watch(live=False) as log:
        assert len(list(torch.utils.data.DataLoader(Doubled(), num_workers=workers))) == 2
        torch.compile(torch.sin, backend="eager")(X)
    assert ("The program started 2 processes" in repr(log)) == bool(workers)
    assert ("TORCH_TRACE=FOLDER" in repr(log)) == bool(workers)


def test_the_body_runs_once_a_call_and_nothing_is_left_behind() -> None:
    ran = []

    @torch.compile(backend="eager")
    def counted(x):
        torch._dynamo.graph_break()
        ran.append(1)
        return x + 1

    from torch._dynamo import convert_frame, eval_frame

    before = convert_frame._compile, eval_frame._callback_from_stance
    with explorer.watch() as log:
        for _ in range(3):
            counted(X)
    assert len(ran) == 3
    assert (convert_frame._compile, eval_frame._callback_from_stance) == before
    counted(X)
    assert log.record.calls[0].count == 3


def test_a_function_compiled_before_is_timed_and_reported_as_such() -> None:
    compiled = torch.compile(lambda x: x.sin(), backend="eager")
    compiled(X)
    with explorer.watch() as log:
        compiled(X)
        assert log.record.calls[0].count == 1
    assert log.record.calls[0].graphs is None
    assert "nothing compiled: its code is older than the watch, or runs eagerly" in repr(log)


@pytest.mark.parametrize("compile", [torch.compile, explorer.compile])
@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile"])
def test_a_stance_that_decides_what_is_compiled_is_reported(compile: Any, stance: str) -> None:
    compiled = compile(lambda x: x.sin())
    with torch.compiler.set_stance(stance), explorer.watch() as before:
        compiled(X)
    with explorer.watch() as log:
        assert "set_stance" not in repr(log)
        with torch.compiler.set_stance(stance):
            compiled(X)
    for each in (before, log):
        assert f"torch.compiler.set_stance({stance!r}) was in force" in repr(each)
        assert "No compiled function was called" not in repr(each)


class Keyed(torch.nn.Module):
    def __init__(self, key: int) -> None:
        super().__init__()
        self.key = key

    def forward(self, x):
        return x + self.key


def test_a_call_that_other_calls_compiled_for_is_not_reported_to_be_older() -> None:
    """Two modules of one class share what is compiled; past the limit of recompiles nothing is."""
    with torch._dynamo.config.patch(recompile_limit=2), explorer.watch() as log:
        for key in (1, 1, 2, 3, 4):
            torch.compile(Keyed(key), backend="eager")(X)
    told = [line for line in repr(log).splitlines() if "calls: Keyed" in line]
    assert "in graphs compiled in other calls (s0), with which they are timed" in told[1]
    assert "nothing compiled" in told[4] and not any("older" in line for line in told[:4])


def test_a_compile_without_a_graph_is_of_the_call_that_made_it() -> None:
    compiled = torch.compile(lambda a, out: torch.add(a, 1, out=out), backend="eager")
    with torch._dynamo.config.patch(recompile_limit=2), explorer.watch() as log:
        for size in (4, 0, 0, 1):
            compiled(X, torch.empty(size))
    shown = repr(log)
    assert "call 2         s0.1       compiled again: out.size(0) is 0, expected 4" in shown
    assert "no call reached it" not in shown
    assert "s0.2       not compiled again, and runs eagerly: " in shown


def test_what_our_backend_compiles_for_stock_is_part_of_its_frame() -> None:
    @torch.compile(backend="explorer")
    def step(x: torch.Tensor, n: int) -> torch.Tensor:
        x = x.sin() * n
        torch._dynamo.graph_break()
        return x.cos()

    with explorer.watch() as log:
        for n in (2, 3, 4.5):
            step(X, n)
    (calls,) = log.record.calls
    assert 0 < calls.compiling <= calls.seconds
    named = [each.name for each in log.record.data.compiles if each.engine == "explorer"]
    assert named[:2] == [
        "graph of step",
        "graph of step after line " + str(step.__wrapped__.__code__.co_firstlineno + 3),
    ]
    (said,) = (line for line in repr(log).splitlines() if line.strip().startswith("compiling: "))
    assert f"in {sum(each.engine == 'stock' for each in log.record.data.compiles)} compiles" in said


def test_a_type_that_changed_is_a_guard_of_its_own() -> None:
    scaled = explorer.compile(lambda x, n: x * n)
    with explorer.watch() as log:
        for n in (1, 2, 3.0):
            scaled(X, n)
    assert {each.words: each.values for each in log.record.recompiles} == {
        "n is 1": ("1", "2"),
        "the type of n": ("int", "float"),
    }


def test_what_another_thread_compiles_meanwhile_is_no_graph_of_the_frame() -> None:
    ours, theirs = explorer.compile(lambda x: x.sin()), torch.compile(lambda x: x.cos(), backend="eager")
    with explorer.watch() as log:
        ours(X)
        theirs(X)
    mine, frame = log.record.data.compiles
    around = msgspec.structs.replace(frame, started=mine.started - 1, seconds=mine.seconds + 2)
    assert frames_of_graphs((mine, around)) == {}
    assert list(frames_of_graphs((msgspec.structs.replace(mine, id="graph"), around))) == ["graph"]


def test_graphs_are_reported_with_the_call_that_ran_them_and_compiles_with_the_call_that_made_them() -> None:
    """Compiled functions that call compiled functions, one that raises while it is compiled again, one that breaks."""
    inner = explorer.compile(torch.nn.ReLU())

    @torch.compile(backend="eager")
    def outer(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return inner(y) * 2

    @torch.compile(backend="eager")
    def raising(x: torch.Tensor, bad: bool) -> torch.Tensor:
        if bad:
            raise ValueError("of the program")
        return x * 2

    with explorer.watch() as log:
        for size in (2, 2, 3, 3):
            outer(torch.ones(size))
        for bad in (False, True, False, False):
            with suppress(ValueError):
                raising(X, bad)
    calls = {each.function.rpartition(".")[2]: each for each in log.record.calls}
    titles = {each.id: each.title for each in log.record.data.compiles}
    for name, graphs in (("outer", 2), ("ReLU", 1)):
        assert [len(ran) for ran in calls[name].served] == [graphs] * 4
        assert all(name in titles[id] for ran in calls[name].served for id in ran)
        assert calls[name].compiled == (1, 3)
    assert calls["raising"].compiled[:2] == (1, 2)
    other = {*calls["raising"].compiled, calls["raising"].measured}
    settled_calls = [calls["raising"].samples[n - 1] for n in (3, 4) if n not in other]
    assert list(settled(calls["raising"]).values()) == settled_calls


def test_threads_are_seen() -> None:
    compiled = torch.compile(lambda x: x.sin(), backend="eager")
    with explorer.watch() as log:
        thread = threading.Thread(target=compiled, args=(X,))
        thread.start()
        thread.join()
    assert len(log.record.graphs) == 1
    assert log.record.calls[0].count == 1


def test_only_one_watch_at_a_time() -> None:
    with explorer.watch(), pytest.raises(RuntimeError, match="already active"), explorer.watch():
        pass
    with explorer.watch() as log:
        pass
    with pytest.raises(RuntimeError, match="has ended"):
        log.__enter__()


def test_an_exploration_inside_a_watch_is_separate() -> None:
    with explorer.watch() as log:
        record = explorer.explore(attribute, engine="stock", stock={"backend": "eager"}, time=False)(X, None)
    assert record.graphs
    assert not log.record.graphs


def test_the_error_of_the_program_goes_on_and_is_noted() -> None:
    log = explorer.watch("failing")
    with pytest.raises(KeyError, match="'of the program'"), log:
        raise KeyError("of the program")
    assert "The program ended with KeyError: 'of the program'" in repr(log)


def test_a_record_of_a_watch_is_a_record(tmp_path: Path) -> None:
    compiled = torch.compile(argument, backend="eager", dynamic=False)
    with explorer.watch("kept") as log:
        compiled(X, 2)
        compiled(X, 3)
    loaded = Record.load(log.record.save(tmp_path / "kept.explore.json.gz"))
    assert loaded.data == log.record.data
    assert "kept" in loaded.to_html(tmp_path / "kept.html").read_text()
    assert loaded.data.config["argument: torch.compile dynamic"] == "False"
    assert loaded.data.config["argument: torch.compile backend"] == "eager"
    assert "caused 1 recompile" in loaded.text() and "torch.tensor(n)" in loaded.text()


def specializing(graph, inputs):
    """A backend that fixes what the graph left open."""
    for each in inputs:
        if isinstance(each, torch.SymInt):
            int(each)
        elif isinstance(each, torch.Tensor):
            list(map(int, each.shape))
    return graph.forward


def calls_twice(x, n):
    return torch.relu(x * n + 1).sum(0)


@pytest.mark.parametrize(
    ("function", "compiled_by"),
    [*product([calls_twice, break_inside, attribute], ["eager", specializing]), (calls_twice, "inductor")],
)
def test_what_is_put_into_words_later_reads_as_if_it_were_at_once(
    function: Callable[..., Any], compiled_by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen() -> str:
        torch._dynamo.reset()
        HOLDER.step = 7
        compiled = torch.compile(function, backend=compiled_by, dynamic=True)
        with explorer.watch() as log, torch._inductor.config.patch(force_disable_caches=True):
            compiled(X.clone(), 2)
            HOLDER.step = 8
            compiled(torch.ones(5, 8), 3)
        torch._dynamo.reset()
        compiles = log.record.data.compiles
        stages = [(each.id, at) for each in compiles for at in each.stages]
        fresh = "generate", "build"  # which number and name what they make anew each time
        found: list[Any] = [(id, at.name, at.body, at.graph) for id, at in stages if at.name not in fresh]
        found += [(each.id, each.guards, each.codes, each.recompiles) for each in compiles]
        return re.sub(r"__(compiled_fn|resume_at)_\w+", r"\1", repr(found))  # which torch names anew each time

    later = seen()
    monkeypatch.setattr(observation.Compile, "later", lambda self, target, work: work())
    at_once = seen()
    assert later == at_once
    assert "'capture'" in later
    assert compiled_by != "inductor" or "origins=('fx.mul',)" in later


def test_lines_are_those_that_ran_though_the_file_has_changed_since(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("def scaled(x):\n    return x * 2  # as it ran\n")
    held: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), held)
    compiled = torch.compile(held["scaled"], backend="eager")
    with explorer.watch() as log:
        compiled(X)
    file.write_text("def other(x):\n    return 0\n")
    linecache.checkcache()
    (source,) = log.record.data.sources
    assert "as it ran" in source.text


def test_a_program_that_compiles_for_ever_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "MOST_WHOLE", 2)
    compiled = torch.compile(attribute, backend="eager")
    with explorer.watch() as log:
        for step in range(5):
            HOLDER.step = step + 50
            compiled(X, None)
    assert [bool(each.stages) for each in log.record.data.compiles] == [False] * 3 + [True] * 2
    assert log.record.recompiles[0].times == 4
    assert "Of the first 3 compiles the stages were dropped" in repr(log)


class Scaling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))
        self.extra = Holder()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + len(self.extra.items)


def popped(x, held):
    return x * held.items.pop("a", 2)


def raising(x, held):
    y = x * len(held.items)
    raise ValueError(y)


def of_a_closure(held: torch.Tensor) -> Callable[..., Any]:
    return lambda x: x + held


LET_GO: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...], Any]]] = {
    # name: what makes (function, arguments, what is let go of)
    "argument": lambda: (lambda x, held: x + held, (X, held := torch.ones(8)), held),
    "object": lambda: (popped, (X, held := Holder()), held),
    "module": lambda: (held := Scaling(), (X,), held),
    "parameter": lambda: ((module := Scaling()), (X,), module.weight),
    "closure": lambda: (of_a_closure(held := torch.ones(8)), (X,), held),
    "raises": lambda: (raising, (X, held := Holder()), held),
    "break": lambda: (break_inside, (X, held := torch.ones(8)), held),
}


@pytest.mark.parametrize("compiler", [explorer.compile, torch.compile], ids=("ours", "stock"))
@pytest.mark.parametrize("name", LET_GO)
def test_what_the_program_lets_go_of_is_gone(name: str, compiler: Callable[..., Any]) -> None:
    """Its record is made from texts and graphs: a program that is watched for hours would keep its first batches."""
    torch._dynamo.reset()
    function, arguments, held = LET_GO[name]()
    reference = weakref.ref(held)
    compiled = compiler(function, backend="eager")
    with explorer.watch() as log:
        with suppress(ValueError):
            compiled(*arguments)
        function = arguments = held = compiled = None  # type: ignore[assignment]
        gc.collect()
        assert reference() is None
    assert log.record.data.compiles[0].stages


# What fails


@torch.library.custom_op("explorer_watch::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def prints(x):
    print("x")
    return x + 1


def of_wrong_shape(x):
    return x @ x


def without_fake(x):
    return no_fake(x) * 2


def unbacked(x):
    n = x.sum().to(torch.int64).item()
    return torch.zeros(4) if n > 3 else x


def specializes(x):
    return x.view(4, 8) * 2


def failing_backend(graph, inputs):
    raise ValueError("of the backend")


def marked() -> torch.Tensor:
    x = torch.ones(4, 8)
    torch._dynamo.mark_dynamic(x, 0)
    return x


FAILURES = {
    # name: (function, argument, arguments of torch.compile, words of torch's explanation, whether its line is told)
    "fullgraph": (prints, X, {"fullgraph": True}, "Avoid calling builtin `print`", True),
    "shape": (of_wrong_shape, X, {}, "[4, 8] X [4, 8]", True),
    "no fake implementation": (without_fake, X, {}, "no fake impl registered", True),
    "unbacked symbol": (unbacked, X, {"fullgraph": True}, "data-dependent", True),
    "mark_dynamic": (specializes, marked, {}, "specialized it to be a constant", True),
    "backend": (attribute, X, {"backend": failing_backend}, "of the backend", False),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("how", ["explored", "watched"])
def test_an_error_is_reported_whole_with_the_users_line(name: str, how: str) -> None:
    function, given, arguments, words, has_line = FAILURES[name]
    x = given() if callable(given) and not isinstance(given, torch.Tensor) else given
    wanted = {"backend": "eager", **arguments}
    args = (x, None) if function is attribute else (x,)
    with torch._dynamo.config.patch(capture_scalar_outputs=name == "unbacked symbol"):
        if how == "explored":
            try:
                record = explorer.explore(function, engine="stock", stock=wanted, time=False)(*args)
            except RuntimeError as error:  # the function raises in eager too
                assert name == "shape"
                record = error.explored
            assert words in record.data.error
        else:
            compiled = torch.compile(function, **wanted)
            with explorer.watch() as log, pytest.raises(Exception) as raised:
                compiled(*args)
            record = log.record
            assert str(raised.value).strip().splitlines()[0] in record.errors[0].message
    (told,) = record.errors
    assert told.raises and words in told.message, told
    assert words in repr(record) and words in record.text() and words in repr(record.errors)
    assert "runs eagerly" not in repr(record)
    if has_line:
        first = function.__code__.co_firstlineno
        assert told.span is not None and told.span.file == __file__
        assert first <= told.span.line <= first + 4


def raises_after(x):
    x.sin()
    raise KeyError("of the program")


@pytest.mark.parametrize("engine", ["explorer", "stock", "both"])
@pytest.mark.parametrize("function, kind", [(of_wrong_shape, RuntimeError), (raises_after, KeyError)])
def test_a_failed_exploration_says_that_the_program_raises_in_eager_too(
    function: Callable[..., Any], kind: type[Exception], engine: str
) -> None:
    stock = None if engine == "explorer" else {"backend": "eager"}
    with pytest.raises(kind) as raised:
        explorer.explore(function, engine=engine, stock=stock, time=False)(X)
    record = raised.value.explored
    assert f"The program raises in eager too: {kind.__name__}: " in repr(record)
    assert "The program raises in eager too" in record.text()


def test_an_error_of_the_compiler_is_distinguished_from_the_programs() -> None:
    record = explorer.explore(prints, engine="stock", stock={"backend": "eager", "fullgraph": True}, time=False)(X)
    assert record.data.error
    assert "The program does not raise in eager." in repr(record)


def test_ours_says_what_fullgraph_refuses_and_does_not_raise() -> None:
    for engine in ("explorer", "both"):
        record = explorer.explore(prints, engine=engine, fullgraph=True, time=False)(X)
        assert "call of print" in record.errors[0].message
        assert record.errors[0].raises
        assert "FullGraphError" in record.data.error or engine == "both"


def test_an_error_of_the_running_program_is_the_programs() -> None:
    def fails(x):
        torch._dynamo.graph_break()
        raise LookupError("of the program")

    with pytest.raises(LookupError, match="of the program"):
        explorer.explore(fails, engine="stock", stock={"backend": "eager"}, time=False)(X)


@pytest.mark.parametrize("disable", [torch._dynamo.disable, torch.compiler.disable])
def test_a_disabled_function_is_explored_as_torch_compile_takes_it(disable: Any) -> None:
    record = explorer.explore(disable(of_wrong_shape), engine="stock", stock={"backend": "eager"}, time=False)(X[:, :4])
    assert not record.errors


def test_a_frame_that_is_left_to_python_is_reported_to_run_eagerly() -> None:
    compiled = torch.compile(loop_break, backend="eager")
    with explorer.watch() as log:
        compiled(X, None)
    assert not [each for each in log.record.errors if each.raises]
    assert any(each.what == "loop_break" for each in log.record.eager)
    assert "runs eagerly" in repr(log)


def test_the_configuration_is_the_one_that_applied() -> None:
    compiled = torch.compile(argument, dynamic=True, options={"max_fusion_size": 3})
    record = explorer.explore(compiled, engine="stock", time=False)(X, 2)
    assert record.data.config["torch.compile dynamic"] == "True"
    assert record.data.config["torch.compile options max_fusion_size"] == "3"
    assert record.data.config["torch.compile backend"] == "inductor"


# What ran outside graphs, and how long


@torch.compiler.disable
def slow_in_eager(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.02)
    for _ in range(7):
        x = x + 1
    return x


def between_graphs(x):
    y = slow_in_eager(x.sin())
    return (y.cos() + y).relu()


def left_to_python(x):
    for _ in range(3):
        x = x * 2
        torch._dynamo.graph_break()
        time.sleep(0.01)
    return x


class Between(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(slow_in_eager(self.lin(x)))


def stock_of(fn: Any) -> Any:
    return torch.compile(fn, backend="eager")


# what is compiled, seconds that it sleeps in eager, ATen calls outside graphs; a loop with a break ours compiles
OUTSIDE: dict[str, tuple[Callable[[], Any], float, int, tuple[str, ...]]] = {
    "a call between graphs": (lambda: between_graphs, 0.02, 7, ("explorer", "stock")),
    "a module": (Between, 0.02, 7, ("explorer", "stock")),
    "a frame left to Python": (lambda: left_to_python, 0.03, 3, ("stock",)),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("how", ["watched", "explored"])
def test_what_ran_outside_graphs_is_timed_and_its_operators_counted(name: str, how: str, tmp_path: Path) -> None:
    made, seconds, operators, engines = OUTSIDE[name]
    for engine in engines:
        torch._dynamo.reset()
        if how == "watched":
            compiled = (stock_of if engine == "stock" else explorer.compile)(made())
            with explorer.watch() as log:
                for _ in range(4):
                    compiled(X)
            record = log.record
            (calls,) = record.calls
            assert calls.measured == 2, "the first call in which nothing is compiled"
            whose = "in call 2 of "
        else:
            stock = {"backend": "eager"} if engine == "stock" else None
            record = explorer.explore(made(), engine=engine, stock=stock, time=0.001)(X)
            whose = "in a call of "
        (timed,) = (each for each in record.eager if each.seconds is not None)
        assert seconds <= timed.seconds < 10 * seconds
        assert timed.calls == operators
        said = f"and {operators} ATen calls {whose}"
        assert said in repr(record) and said in repr(record.eager) and said in record.text()
        loaded = Record.load(record.save(tmp_path / f"{engine}.explore.json"))
        assert loaded.data.eager == record.data.eager


def prints_between(x):
    y = x.sin()
    print("between")
    return y.cos()


def opens_between(x):
    y = x.sin()
    open(os.devnull).close()
    return y.cos()


@pytest.mark.parametrize("times", [0, 1, 299, 301, 1000, 1001, 1002, 1007, 1008, 1009, 2500])
def test_each_run_of_a_graph_is_counted_though_few_are_timed(times: int) -> None:
    log = CallLog()
    run = log.graph("f0", lambda x: x)
    for number in range(times):
        assert run(number) == number
    assert log.runs["f0"].count == times and (log.runs["f0"].seconds > 0) == (times > 0)
    again = log.graph("f0", lambda x: x)
    assert again(1) == 1 and log.runs["f0"].count == times + 1
    assert len(log.open.ran) == min(times, 300) + 1


def one_way(x):
    y = x.sin()
    if x.sum() > 0:
        return y + 1
    return y.cos()


def in_a_loop(x):
    for _ in range(2):
        if x.sum() > 0:
            x = x + 1
        else:
            x = x.cos()
    return x


def opens_what_is_not_there(x):
    y = x.sin()
    open("/not/there")
    return y.cos()


# what never ran, and the call that would get to it; stock leaves a loop with a break to Python
NEVER: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "a branch": (one_way, "no call took this side of the branch", ("explorer", "stock")),
    "a branch in a loop": (in_a_loop, "no call took this side of the branch", ("explorer",)),
    "a break that raises": (opens_what_is_not_there, "not compiled: ", ("explorer", "stock")),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_continuation_that_was_never_compiled_is_reported_with_why(name: str) -> None:
    fn, why, engines = NEVER[name]
    for engine in engines:
        torch._dynamo.reset()
        compiled = (stock_of if engine == "stock" else explorer.compile)(fn)
        with explorer.watch() as log, suppress(FileNotFoundError):
            compiled(X.abs())
        never = [each for each in log.record.data.eager if not each.reached]
        assert never and all(why in each.why and f"{fn.__name__} after line " in each.what for each in never)
        assert not any("not timed" in eager(each, {}) for each in never)
        if name == "a branch":
            with explorer.watch() as log:
                compiled(X.abs())
                compiled(-X.abs())
            assert not [each for each in log.record.data.eager if not each.reached]


def scaled_then_broken(x, by):
    y = x * by
    torch._dynamo.graph_break()
    return y.cos()


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_a_continuation_that_was_compiled_before_the_watch_is_no_such(engine: str) -> None:
    torch._dynamo.reset()
    compiled = (stock_of if engine == "stock" else explorer.compile)(scaled_then_broken)
    compiled(X, 2.5)
    with explorer.watch() as log:
        compiled(X, True)
    assert len(log.record.data.compiles) == 1 and log.record.data.eager
    assert not [each for each in log.record.data.eager if not each.reached]


UNTIMED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "effects": (prints_between, {"time": 0.001}, "the function is not called for timing, because it prints"),
    "once": (opens_between, {"time": 0.001}, "the function was called only once, because it uses open"),
    "not asked for": (between_graphs, {"time": False}, "timing was not asked for"),
}


@pytest.mark.parametrize("engine", ["explorer", "stock"])
@pytest.mark.parametrize("name", [*UNTIMED, "watched"])
def test_the_record_says_why_what_ran_outside_graphs_was_not_timed(name: str, engine: str) -> None:
    if name == "watched":
        compiled = (stock_of if engine == "stock" else explorer.compile)(between_graphs)
        torch._dynamo.reset()
        with explorer.watch() as log:
            compiled(X)
        record, why = log.record, "between_graphs was called once, and calls are measured from the second on"
    else:
        fn, settings, why = UNTIMED[name]
        stock = {"backend": "eager"} if engine == "stock" else None
        record = explorer.explore(fn, engine=engine, stock=stock, **settings)(X)
    assert record.data.eager and all(each.seconds is None for each in record.data.eager)
    assert all(each.measured.startswith(why) for each in record.data.eager)
    assert f"; not timed: {why}" in repr(record.eager)
    if engine == "explorer":
        counted = f"an unknown number in Python between graphs (not counted: {why.partition(', because')[0]}"
        assert counted in repr(record)


def test_a_call_that_compiles_or_profiles_itself_is_not_measured() -> None:
    def profiles(x):
        y = x + 1
        torch._dynamo.graph_break()
        with torch.autograd.profiler.profile() as found:
            y.sin()
        seen.append(len(found.function_events))
        return y

    seen: list[int] = []
    compiled, sizes = stock_of(profiles), torch.compile(argument, backend="eager", dynamic=False)
    with explorer.watch() as log:
        for n in range(6):
            compiled(X)
            sizes(X, n)
    assert len(seen) == 6 and all(seen)
    assert [each.measured for each in log.record.calls] == [0, 0]
    assert sys.getprofile() is None
    with torch.autograd.profiler.profile():
        pass


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_why_python_was_not_timed_is_reported_of_the_function_that_ran_it(engine: str) -> None:
    """Calls that compile use up none of those that may be measured."""
    torch._dynamo.reset()
    compile = stock_of if engine == "stock" else explorer.compile
    late, never, once, profiled = map(compile, (broken_at(1), broken_at(2), broken_at(3), broken_at(4)))
    with explorer.watch() as log:
        for n in (1, 2, 3, 4, 5, 6, 6):
            late(X, str(n))
        for n in range(3):
            never(X, str(n))
        once(X, "a")
        for _ in range(5):
            profiled(X, "a")
            sys.setprofile(lambda *_: None)
        sys.setprofile(None)
    assert [each.measured for each in log.record.calls] == [7, 0, 0, 0]
    told = [each.measured for each in log.record.data.eager if each.compile and each.at_break]
    assert list(dict.fromkeys(told)) == [
        "call 7 of broken_1, measured with torch's profiler",
        "something was compiled in each call of broken_2 that could be measured",
        "broken_3 was called once, and calls are measured from the second on",
        "a profiler of the program was on",
    ]


def broken_at(number: int) -> Callable[..., torch.Tensor]:
    def broken(x: torch.Tensor, how: str) -> torch.Tensor:
        y = x + len(how) if how != "b" else x
        torch._dynamo.graph_break()
        return y.cos()

    name, code = f"broken_{number}", broken.__code__
    broken.__qualname__ = broken.__name__ = name
    broken.__code__ = code.replace(co_name=name, co_qualname=name, co_firstlineno=code.co_firstlineno + 100 * number)
    return broken


def test_a_profiler_of_the_program_stays() -> None:
    told = []

    def profiler(frame: Any, event: str, argument: Any) -> None:
        told.append(event)

    compiled = stock_of(between_graphs)
    with explorer.watch() as log:
        compiled(X)
        sys.setprofile(profiler)
        try:
            compiled(X)
            assert sys.getprofile() is profiler
        finally:
            sys.setprofile(None)
        compiled(X)
        compiled(X)
    assert told and log.record.calls[0].measured == 3


def test_threads_that_call_a_function_at_once_are_measured_one_by_one() -> None:
    compiled = stock_of(between_graphs)
    compiled(X)
    torch._dynamo.reset()
    with explorer.watch() as log:
        compiled(X)
        threads = [threading.Thread(target=lambda: [compiled(X) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (calls,) = log.record.calls
    assert calls.count == 21
    assert sys.getprofile() is None
    assert sum(each.calls or 0 for each in log.record.eager) in (0, 7)


def test_a_guard_that_fails_in_older_compiles_alone_caused_no_recompile() -> None:
    class Scaled(torch.nn.Module):
        k = 1

        def forward(self, x: torch.Tensor, add: float) -> torch.Tensor:
            return x * self.k + add

    module = Scaled()
    call = explorer.compile(module)
    with explorer.watch() as log:
        call(torch.ones(3), 1.0)
        module.k = 2
        call(torch.ones(3), 1.0)
        with torch.no_grad():
            call(torch.ones(3), 1.0)
        call(torch.ones(3, dtype=torch.float64), 1.0)
    failed = {each.words or each.expression: (each.times, each.values) for each in log.record.recompiles}
    assert [times for times, _ in failed.values()] == [1, 1, 1], failed
    third, fourth = [row.changes for row in log.record.data.history if row.made][2:]
    assert [each.failure for each in third] == ["grad mode is off, expected on"]
    assert [each.failure for each in fourth] == ["x.dtype is float64, expected float32"]


def test_a_size_that_changes_and_then_is_one_has_the_advice_for_both() -> None:
    call = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    with explorer.watch() as log:
        for size in (4, 5, 1):
            call(torch.ones(size))
    (failed,) = log.record.recompiles
    assert failed.times == 2 and failed.values == ("4", "5", "1")
    assert "mark_dynamic(x, 0)" in failed.stops and "sizes 0 and 1 are always specialized" in failed.stops
    ours = explorer.compile(lambda x: x * 2)
    with explorer.watch() as log:
        for size in (4, 5, 1):
            ours(torch.ones(size))
    advice = [each.stops for each in log.record.recompiles]
    assert len(advice) == 2 and "mark_dynamic(x, 0)" in advice[0] and "sizes 0 and 1 are always" in advice[1]
