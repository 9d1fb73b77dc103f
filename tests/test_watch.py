"""Programs watched as they are: what torch's own counters and logs tell is in the record, and nothing runs twice."""

import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters

import explorer
from explorer.records.stock import observation
from explorer.show.record import Record
from explorer.show.view.diagnosis import frames_of_graphs, settled
from watched import HOLDER, Holder, X, argument, attribute, branch, break_inside, kind, of_wrong_shape

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

RATE = 1.0


def length(x, n):
    return sum([x] * 1) + len(n)


def keys(x, n):
    return x + len(n) + ("b" in n)


def loop_break(x, n):
    for _ in range(2):
        x = x + 1
        torch._dynamo.graph_break()
    return x


def global_rate(x, n):
    return x * RATE


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


def test_a_recompile_names_the_compile_of_its_own_function() -> None:
    first, second = explorer.compile(lambda x: x.sin()), explorer.compile(lambda y: y.cos())
    with explorer.watch() as log:
        for size in (4, 5):
            first(torch.ones(size))
            second(torch.ones(size))
    with explorer.watch() as later:
        third = explorer.compile(lambda z: z.exp())
        third(torch.ones(4))
        second(torch.ones(4, 4))
    recompiled = [(each.id, each.recompiles[0]) for each in log.record.data.compiles if each.recompiles]
    assert [(id, why.of, why.expression[:6]) for id, why in recompiled] == [
        ("f0.1", "f0", "L['x']"), ("f0.1#2", "f0#2", "L['y']"),
    ]  # fmt: skip
    assert {why.of for each in later.record.data.compiles for why in each.recompiles} == {""}  # not in that record


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
