"""Exploring changes nothing that a program can see, beyond one call: its state, output, random numbers."""

from __future__ import annotations

import builtins
import contextlib
import copy
import dataclasses
import functools
import gc
import hashlib
import io
import locale
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import explorer
from effects import BY_NAME, PARTS, Made, Runs, made, script
from explorer.core.libraries import ASKING, ASKS, EFFECT_OF
from explorer.records.check import accuracy, captured
from explorer.records.check.calls import InPlace, RepeatedCalls
from explorer.records.check.eagerly import OWN_COMPILED, Eagerly
from explorer.records.check.isolate import NotIsolated, reached
from explorer.records.check.names import tensors_reached
from explorer.records.check.process import heard, hushed, noted, put_back
from explorer.records.check.profile import peak_bytes
from explorer.records.check.snapshot import Snapshot
from explorer.records.to_record.graphs import shown
from torch_release import BEFORE_2_13

ENGINES: tuple[dict[str, Any], ...] = (
    {},
    {"engine": "stock", "stock": {"backend": "eager"}},
    {"engine": "both", "stock": {"backend": "eager"}},
)
SECONDS = 0.001


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """What a program sets of the process is not for the tests after it."""
    with put_back():
        yield


TRACED_INTO = ("a cache", "a coroutine")
"""What stock traces into, and then fills no cache and runs no coroutine."""
ASKED_BY_STOCK = ("objects as keys",)
"""What Dynamo writes out for its guards, by the program's code."""


def programs() -> list[tuple[tuple[str, ...], bool, dict[str, Any]]]:
    """Each part by itself or with one or two others, in globals or in a closure, with each engine in turn."""
    drawn = random.Random(10)
    names = [part.name for part in PARTS if part.name != "SGD"]  # see `test_a_training_step_is_compared_and_timed`
    again = [name for name in names if not BY_NAME[name].once and "Adam" not in name and name not in ASKED_BY_STOCK]
    found = []
    for number, name in enumerate(names):
        others = drawn.sample([each for each in again if each != name], number % 3)
        engine = ENGINES[1 if name in TRACED_INTO else number % 3]
        found.append(((name, *others), drawn.random() < 0.5, engine))
    return found


def seeded() -> None:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    torch.set_default_dtype(torch.float32)


def state(program: Made, x: torch.Tensor) -> Any:
    """Everything that a program sees of itself and of the process."""
    process = torch.get_rng_state(), random.getstate(), np.random.get_state()[1], torch.get_default_dtype()
    return copy.deepcopy((program.seen(), x, x._version, process))


def different(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two states differ, bit for bit."""
    if isinstance(a, torch.Tensor):
        same = isinstance(b, torch.Tensor) and (a.dtype, a.shape) == (b.dtype, b.shape)
        return [] if same and torch.equal(a.nan_to_num(), b.nan_to_num()) else [f"{path}: {b} in place of {a}"]
    if isinstance(a, np.ndarray):
        return [] if np.array_equal(a, b) else [path]
    if isinstance(a, dict):
        keys = [] if list(a) == list(b) else [f"{path}: {list(b)} in place of {list(a)}"]
        return keys or [found for key in a for found in different(a[key], b[key], f"{path}[{key!r}]")]
    if isinstance(a, (list, tuple)):
        if type(a) is not type(b) or len(a) != len(b):
            return [f"{path}: {b} in place of {a}"]
        return [found for n, pair in enumerate(zip(a, b, strict=True)) for found in different(*pair, f"{path}[{n}]")]
    return [] if a == b or str(a) == str(b) else [f"{path}: {b!r} in place of {a!r}"]


def said(call: Callable[[], Any]) -> tuple[Any, tuple[str, str, list[str]]]:
    """What a call returns, and what it prints and warns of, apart from what Dynamo says of itself."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            result = call()
    programs = [w for w in warned if w.category is UserWarning and "_dynamo" not in w.filename]
    return result, (out.getvalue(), err.getvalue(), [str(w.message) for w in programs])


@pytest.mark.parametrize(
    ("names", "closure", "engine"), programs(), ids=lambda value: ", ".join(value) if isinstance(value, tuple) else ""
)
def test_exploring_is_like_one_call(names: tuple[str, ...], closure: bool, engine: dict[str, Any]) -> None:
    seeded()
    plain, x = made(names, closure), torch.randn(4, 3)
    _, wanted = said(lambda: plain.body(x))
    expected = state(plain, x)
    seeded()
    explored, x = made(names, closure), torch.randn(4, 3)
    with Runs("body") as runs:
        record, heard = said(lambda: explorer.explore(explored.body, time=SECONDS, **engine)(x))
    found = state(explored, x)
    torch.set_default_dtype(torch.float32)
    assert not different(expected, found)
    assert heard == wanted
    assert "printed line" not in record.text()
    parts = [BY_NAME[name] for name in names]
    if any(part.once for part in parts):
        assert runs.count == 1
        assert any("called only once" in note for note in record.data.notes)
    elif not all(part.pure for part in parts):
        assert runs.count <= 3
        timing = record.data.timing  # graphs whose inputs' class is the program's are not run again
        timed = timing is not None and bool(timing.contestants)
        notes = record.data.notes
        assert any(("its graphs were timed instead" in note) is timed for note in notes), notes


class Passing(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


def precision_in_two_ways() -> None:
    """After which torch does not tell it, so that compiling raises."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.mkldnn.conv.fp32_precision = "ieee"


NOT_COMPILED: dict[str, tuple[Callable[[], Any], Callable[[], object]]] = {
    "a stance": (lambda: torch.compiler.set_stance("force_eager"), bool),
    "a mode of functions": (Passing, bool),
    "a mode of operators": (Dispatching, bool),
    "an error of the compiler": (contextlib.nullcontext, precision_in_two_ways),
}


@pytest.mark.parametrize("within", NOT_COMPILED)
@pytest.mark.parametrize("leave", ("called", "unchanged"))
def test_what_may_not_be_called_again_is_not_run_where_it_is_not_compiled(within: str, leave: Any) -> None:
    entering, changes = NOT_COMPILED[within]
    last, ends, digest = {"a": torch.ones(3)}, [], hashlib.sha256()
    weakref.finalize(last["a"], ends.append, 1)

    class Box:
        runs = 0

    def lets_go(x: torch.Tensor) -> torch.Tensor:
        Box.runs += 1
        last.clear()
        changes()
        return x + 1

    def digests(x: torch.Tensor) -> torch.Tensor:
        Box.runs += 1
        digest.update(b"a")
        changes()
        return x + 1

    with entering():
        fn = lets_go if leave == "called" else digests
        record = explorer.explore(fn, time=SECONDS, leave=leave)(torch.ones(2))
    assert Box.runs == (leave == "called"), record.data.notes


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
def test_classes_that_further_calls_make_are_let_go(engine: dict[str, Any]) -> None:
    class Plugin:
        kinds: ClassVar[list[type]] = []

    def body(x: torch.Tensor) -> torch.Tensor:
        Plugin.kinds.append(type("New", (Plugin,), {}))
        return x + 1

    record = explorer.explore(body, time=SECONDS, **engine)(torch.ones(2))
    left = Plugin.__subclasses__()
    if BEFORE_2_13:  # Dynamo makes a class while it traces, and keeps it
        left = [kind for kind in left if not kind.__module__.startswith("torch._dynamo")]
    assert left == Plugin.kinds and len(Plugin.kinds) == 1, record.data.notes


def test_a_record_is_made_without_running_code_of_the_program() -> None:
    """The call itself is made once here, so that nothing is put back."""
    digest = hashlib.sha256()

    class Key:
        asked = 0

        def __repr__(self) -> str:
            Key.asked += 1
            return "a key"

    class Named(Key):
        def __str__(self) -> str:
            return repr(self)

    def body(x: torch.Tensor, by_key: dict[Any, Any], also: Any) -> torch.Tensor:
        digest.update(b"a")
        for each in by_key.values():
            each.mul_(1.5)
        return x + len(by_key) + also["in"][0]

    given = {Key(): torch.ones(2), (Named(), 1): torch.ones(2)}
    record = explorer.explore(body, time=SECONDS)(torch.ones(2), given, {"in": [2], Named(): Key()})
    assert Key.asked == 0
    assert any("called only once" in note for note in record.data.notes)
    assert record.text() and repr(record) and Key.asked == 0


@pytest.mark.parametrize("compiler", ("explorer", "torch"))
def test_a_script_that_is_run_and_watched_does_what_it_does_by_itself(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "effects_script.py"
    file.write_text(script(f"{compiler}.compile(body, backend='eager')"))
    found = []
    for watched in ([], ["-m", "explorer", "run"]):
        ran = subprocess.run(
            [sys.executable, *watched, str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=900,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}, check=False,
        )  # fmt: skip
        warned = [each for each in ran.stderr.splitlines() if "careful" in each]
        found.append((ran.returncode, ran.stdout.splitlines(), warned))
    (code, plain, warned), watched_too = found
    assert (code, len(warned)) == (7, 2) and len(plain) > 2 * len(PARTS)
    assert watched_too == (code, plain, warned)
    assert (tmp_path / "effects_script.explore.json.gz").exists()


@pytest.mark.parametrize("stays", (True, False))
@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
def test_what_is_printed_through_a_stream_of_the_programs_own_is_printed_once(
    engine: dict[str, Any], stays: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    class Tee:
        def __init__(self, stream: Any) -> None:
            self.stream, self.flush = stream, stream.flush

        def write(self, text: str) -> int:
            return int(self.stream.write(text))

    before = sys.stdout

    def body(x: torch.Tensor) -> torch.Tensor:
        old, sys.stdout = sys.stdout, Tee(sys.stdout)
        print("a line")
        if not stays:
            sys.stdout = old
        return x + 1

    try:
        record = explorer.explore(body, time=SECONDS, **engine)(torch.ones(2))
        assert isinstance(sys.stdout, Tee) is stays
        print("later")
    finally:
        sys.stdout = before
    assert capsys.readouterr() == ("a line\nlater\n", "")
    assert record.timing is not None and record.timing.accuracy and not record.timing.accuracy.first_mismatch


def test_a_stream_that_somebody_keeps_hides_nothing_later(capsys: pytest.CaptureFixture[str]) -> None:
    with hushed():
        kept = logging.StreamHandler().stream
        kept.write("hidden")
    kept.write("shown")
    assert capsys.readouterr().err == "shown"


def test_each_timed_call_starts_from_all_that_the_first_left() -> None:
    """One that started from some of it wrote past the end of memory that was not as large any more."""
    resized, once = torch.zeros(4), {}

    def body(x: torch.Tensor) -> torch.Tensor:
        once.setdefault("made", torch.ones(1))
        return x + resized.resize_(8).fill_(1)

    x = torch.ones(8)
    trial = InPlace(body, (x,), {}, calls=RepeatedCalls(body, (x,), {}, most=9))
    trial.call()
    for _ in range(3):
        with trial.timed():
            assert not once and resized.shape == (4,)
            for _ in range(3):
                trial.reset()
                assert list(once) == ["made"] and resized.untyped_storage().nbytes() == 8 * 4
                trial.contestant().call()


class RunsOnce(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs.add_(1)
        if self.runs > 1:
            raise ValueError("it has ended")
        return x * 2


def writes_what_its_backward_needs() -> Callable[[torch.Tensor], torch.Tensor]:
    m, calls = nn.BatchNorm1d(3), []

    def body(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        y = m(x)
        with torch.no_grad():
            m.weight.mul_(2)
        return y

    return body


def changes_its_dtype_for_a_while() -> Callable[[torch.Tensor], torch.Tensor]:
    m, calls = nn.Linear(3, 3), []

    def body(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        m.double()
        y = m(x.double())
        m.float()
        return y

    return body


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (RunsOnce, "Not timed: called again for timing, the function raised ValueError: it has ended"),
        (writes_what_its_backward_needs, "Not timed: called again for timing, a graph raised RuntimeError: one of the"),
        (changes_its_dtype_for_a_while, ""),
    ],
)
def test_what_raises_when_it_is_called_again_for_timing_is_not_timed(
    made: Callable[[], Any], said: str, engine: dict[str, Any]
) -> None:
    record = explorer.explore(made(), time=SECONDS, **engine)(torch.randn(4, 3))
    assert record.timing is not None and record.timing.accuracy and not record.timing.accuracy.first_mismatch
    assert bool(record.timing.contestants) is not bool(said)
    assert any(note.startswith(said) for note in record.data.notes)


def test_what_a_program_holds_besides_is_not_written_into_a_record() -> None:
    """A frame's continuation has the globals among its constants, and these had the watch that the record is of."""
    loop: list[Any] = []
    loop.append(loop)
    space: dict[str, Any] = {"loop": loop, "nested": {"in": loop}, **{f"name{n}": n for n in range(99)}}
    exec("def body(x):\n def inner(): return inner, y\n y = x + 1\n return y, inner", space)
    with explorer.watch() as space["log"]:
        explorer.compile(space["body"])(torch.ones(2))
    record = space["log"].record
    assert len(record.data.compiles) == 1 and "name98" not in record.text()
    assert shown({"log": space["log"], "loop": loop, "record": record}).startswith("log: Watch, loop: list, record: ")


SPEAKING = {
    "print(mode, x.tanh().sum())": "'compiled tensor(",
    "print(mode, file=sys.stderr)": "'stderr: compiled' instead of 'stderr: eager'",
    "logging.getLogger('mine').warning('%s mode', mode)": "log mine: WARNING compiled mode",
    "warnings.warn(mode)": "UserWarning: compiled",
    "[print(n) for n in range(1 + (mode == 'compiled'))]": "printed line 2: '1' instead of nothing",
    "[print(each) for each in ((1, 2) if mode == 'eager' else (2, 1))]": "printed line 1: '2' instead of '1'",
    "mode == 'eager' and print('only here')": "nothing instead of 'only here'",
}


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize("speaking", SPEAKING)
def test_compiled_code_that_prints_other_text_than_eager_is_reported(
    speaking: str, engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for asks, told in (("torch.compiler.is_compiling()", SPEAKING[speaking]), ("False", "")):
        space: dict[str, Any] = {"torch": torch, "sys": sys, "logging": logging, "warnings": warnings}
        monkeypatch.setattr(logging.getLogger("mine"), "propagate", False)  # what listens to the tests is no program's
        exec(f"def body(x):\n mode = 'compiled' if {asks} else 'eager'\n {speaking}\n return x.tanh() + 1", space)
        record, _ = said(lambda: explorer.explore(space["body"], time=False, **engine)(torch.ones(3)))  # noqa: B023
        assert record.timing is not None
        found = [each for each in (record.timing.accuracy, record.timing.stock_accuracy) if each is not None]
        assert len(found) == 1 + (engine.get("engine") == "both")
        for each in found:
            assert told in each.first_mismatch and bool(told) == bool(each.first_mismatch)
            assert each.first_mismatch in repr(record) and each.first_mismatch in record.text()


@pytest.mark.parametrize("engine", ("stock", "both"))
@pytest.mark.parametrize("right", (True, False))
def test_what_may_be_called_once_is_called_once_with_inductor_too(
    engine: str, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor's graphs return lists; where results differed, the call was made again to search for the node."""
    local, x = threading.local(), torch.randn(4, requires_grad=True)
    local.calls = 0
    if not right:
        monkeypatch.setattr(accuracy, "tensor_error", lambda *given: (1.0, 1.0, False))
        monkeypatch.setattr(accuracy, "exact_values", lambda *given: {})

    def body(x: torch.Tensor) -> torch.Tensor:
        y = x.tanh()
        local.calls += 1
        return y + 1

    record = explorer.explore(body, engine=engine, time=False)(x)
    assert local.calls == 1 and record.timing is not None
    found = record.timing.stock_accuracy or record.timing.accuracy
    assert found is not None and found.compared and bool(found.first_mismatch) is not right
    with contextlib.suppress(NotIsolated):
        record.bisect_accuracy(engine="stock")
    assert local.calls == 1


def test_a_graph_that_raises_as_it_runs_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frame runs eagerly instead, and what its graph raises is nothing that the program raises."""

    def raising(graph: Any, config: Any) -> Any:
        return dataclasses.replace(compile_captured(graph, config), call=lambda *inputs: 1 // 0)

    compile_captured = captured.compile_captured
    monkeypatch.setattr(captured, "compile_captured", raising)
    calls = []

    def body(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.tanh() + 1

    record = explorer.explore(body, time=SECONDS)(torch.ones(3))
    assert len(calls) == 1 and not record.data.error
    assert "runs eagerly, because its graph raised ZeroDivisionError" in repr(record)


def test_what_a_compiler_prints_as_it_compiles_is_no_text_of_the_program() -> None:
    def backend(graph: torch.fx.GraphModule, _: Any) -> torch.fx.GraphModule:
        print("compiling", graph.code)
        return graph

    def body(x: torch.Tensor) -> torch.Tensor:
        print("called", x.tanh())
        return x.tanh() + 1

    x = torch.ones(3, requires_grad=True)
    record, _ = said(lambda: explorer.explore(body, engine="stock", stock={"backend": backend}, time=False)(x))
    assert record.timing is not None and record.timing.accuracy is not None
    assert not record.timing.accuracy.first_mismatch


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
def test_exploring_can_leave_everything_unchanged(engine: dict[str, Any]) -> None:
    names = ("gradients that add up", "a list", "a buffer made anew", "torch's random numbers", "printing")
    seeded()
    program, x = made(names, closure=True), torch.randn(4, 3)
    before = state(program, x)
    _, heard = said(lambda: explorer.explore(program.body, time=SECONDS, leave="unchanged", **engine)(x))
    assert not different(before, state(program, x))
    assert heard == ("", "", [])


@pytest.mark.parametrize(
    "use", ("getattr(m, 'scale', 1.0)", "hasattr(m, 'scale') + 1.0", "setattr(m, 'scale', 2.0) or 1.0")
)
def test_a_constant_name_of_an_attribute_reaches_no_other(monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    """transformers leaves a method of its own on `nn.Module` that reaches functions of `os`."""
    foreign: dict[str, Any] = {"os": os}
    exec(compile("def leave(self): os.remove(self.path)", "/somewhere/else.py", "exec"), foreign)
    monkeypatch.setattr(nn.Module, "leave", foreign["leave"], raising=False)
    m = nn.Linear(3, 3)
    space: dict[str, Any] = {"m": m, "name": "scale"}
    exec(f"def body(x): return m(x) * ({use})\ndef any_name(x): return m(x) * getattr(m, name, 1.0)", space)
    notes = explorer.explore(space["body"], time=False)(torch.ones(2, 3)).data.notes
    assert not any("only once" in note for note in notes), notes
    notes = explorer.explore(space["any_name"], time=False)(torch.ones(2, 3)).data.notes
    assert any("only once, because it uses os.remove" in note for note in notes), notes


FUNCTIONS = types.FunctionType, types.BuiltinFunctionType


def asking() -> list[tuple[str, str]]:
    """Functions of the system's modules that are taken to only ask something."""
    modules = (sys.modules[name] for name in sorted(ASKING) if name in sys.modules)
    found = ((each, name) for each in modules for name in sorted(vars(each)) if ASKS.match(name))
    return [(each.__name__, name) for each, name in found if isinstance(getattr(each, name), FUNCTIONS)]


def of_the_process() -> tuple[Any, ...]:
    mask = os.umask(0)
    os.umask(mask)
    settings = sys.path[:], sys.getrecursionlimit(), sys.getswitchinterval(), locale.setlocale(locale.LC_ALL)
    return dict(os.environ), os.getcwd(), mask, sorted(os.listdir("/proc/self/fd")), *settings


@pytest.mark.parametrize(("module", "name"), asking(), ids=lambda each: each)
def test_a_function_that_only_asks_changes_nothing(module: str, name: str, tmp_path: Path) -> None:
    """Called with arguments of each kind, it announces no effect and leaves the process as it was."""
    asked: Any = getattr(sys.modules[module], name)
    (tmp_path / "file").write_text("text")
    given = ((), (1,), (str(tmp_path),), (str(tmp_path / "file"),), (1, 1), (str(tmp_path), 1), ("HOME",), ("a", "b"))
    before = of_the_process()
    with heard(refuses=False) as outside, noted() as said, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arguments in given:
            with contextlib.suppress(Exception):
                asked(*arguments)
    assert not outside.actions and not said
    assert of_the_process() == before
    assert [each.name for each in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "text"
    space: dict[str, Any] = {"asked": asked}
    exec("def body(x): return asked() or x", space)
    reached(space["body"], {})


@pytest.mark.parametrize("name", sorted(name for name in dir(os) if isinstance(getattr(os, name), FUNCTIONS)))
def test_every_other_function_of_the_system_is_not_called_again(name: str) -> None:
    space: dict[str, Any] = {"os": os}
    exec(f"def body(x): return os.{name}(x)", space)
    only_asks = ("os", name) in asking()
    try:
        reached(space["body"], {})
    except NotIsolated as refusal:
        assert not only_asks and f"os.{name}" in str(refusal)
    else:
        assert only_asks


@pytest.mark.parametrize("name", sorted(EFFECT_OF.values()))
def test_builtins_that_read_or_change_more_than_can_be_copied_are_refused(name: str) -> None:
    space: dict[str, Any] = {"alias": getattr(builtins, name)}
    exec(f"def body(x): return {name}(x)\ndef inside(x): return [lambda: {name}(x)]", space)
    exec("def by_alias(x): return alias(x)\ndef around(other): return lambda x: other(x)", space)
    space["in_closure"] = space["around"](space["alias"])
    for each in ("body", "inside", "by_alias", "in_closure"):
        with pytest.raises(NotIsolated, match="it uses .*, which may read or change state"):
            reached(space[each], {})


def test_what_cannot_be_put_back_is_not_called_where_nothing_is_to_change() -> None:
    program, x = made(("a file in memory", "a generator"), closure=False), torch.randn(4, 3)
    with Runs("body") as runs:
        record = explorer.explore(program.body, leave="unchanged")(x)
    assert runs.count == 0
    assert "Not called" in record.data.notes[0]
    assert record.stages and not record.data.error and not record.errors and "failed" not in repr(record)


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
def test_what_is_stopped_or_raises_leaves_nothing_where_nothing_is_to_change(engine: dict[str, Any], tmp_path) -> None:
    calls, path, x = [], str(tmp_path / "made"), torch.randn(4, 3, requires_grad=True)
    before, computed = x.detach().clone(), x * 2

    def making(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        with torch.no_grad():
            x.mul_(2)
        logging.FileHandler(path)
        return x + 1

    def raising(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        with torch.no_grad():
            x.mul_(2)
        raise ValueError("mine")

    def retaining(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        x.retain_grad()
        return x + 1

    with pytest.raises(ValueError, match="mine"):
        explorer.explore(raising, time=False, leave="unchanged", **engine)(x)
    notes = [explorer.explore(fn, time=False, leave="unchanged", **engine)(given).data.notes
             for fn, given in ((making, x), (retaining, computed))]  # fmt: skip
    assert torch.equal(x, before) and not calls and not computed.retains_grad and not list(tmp_path.iterdir())
    stopped = f"it would open {path!r} for writing though nothing is to change"
    assert any(stopped in note for note in notes[0]), notes[0]
    assert len(notes[1]) == 1 and "it may call retain_grad() on x" in notes[1][0]


def test_a_training_step_is_compared_and_timed() -> None:
    first = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    model, other = copy.deepcopy(first), copy.deepcopy(first)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    others = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(4, 3)
    record = explorer.explore(lambda x: step(model, optimizer, x), time=SECONDS)(x)
    step(other, others, x)
    assert record.timing is not None and len(record.timing.contestants) == 2
    for mine, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(optimizer.state.values(), others.state.values(), strict=True):
        assert torch.equal(mine["momentum_buffer"], theirs["momentum_buffer"])
    assert [each._version for each in model.parameters()] == [each._version for each in other.parameters()]


def test_the_state_that_an_optimizer_makes_in_the_first_step_is_compared_and_timed_as_in_the_next() -> None:
    """Stock compiles Adam's first step once: timed again and again from before it, it would compile until the limit."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    record = explorer.explore(step, engine="stock", stock={"backend": "eager"}, time=SECONDS)(torch.randn(4, 3))
    timing = record.timing
    assert timing is not None and timing.accuracy is not None
    assert not timing.accuracy.first_mismatch
    assert timing.accuracy.compared == 1 + 4 + 4 + 4 * 3 + 1  # the loss, gradients, parameters, their states, x
    assert [each.note for each in timing.contestants if "again" in each.note] == []
    assert any("the state that the first call left" in note for note in record.data.notes)


def test_a_function_that_compiles_again_in_each_call_is_not_compared_in_time() -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        now = str(time.perf_counter_ns())
        return x + len({now: 1})

    record = explorer.explore(body, engine="stock", stock={"backend": "eager"}, time=SECONDS)(torch.randn(3))
    assert record.timing is not None
    stock = record.timing.contestants[1]
    assert "it compiled again in" in stock.note and stock.speed is None
    assert stock.note in repr(record)


def containers(drawn: random.Random, depth: int, made: list[torch.Tensor]) -> Any:
    """Nested containers of tensors, whose keys and elements have much the same text. `made`: the tensors in them."""
    if depth == 0 or drawn.random() < 0.2:
        made.append(torch.full((2,), float(len(made))))
        return made[-1]
    inner = [containers(drawn, depth - 1, made) for _ in range(drawn.randint(1, 3))]
    keys: list[Any] = [f"{'a long name of a module.' * 4}{n}" for n in range(3)]
    keys = drawn.choice((keys, [Same() for _ in keys], [(Same(), n) for n in range(3)], [torch.ones(2) for _ in keys]))
    return drawn.choice((list, tuple, lambda each: dict(zip(keys, each, strict=False)), Holding))(inner)


class Same:
    def __repr__(self) -> str:
        raise AssertionError("nobody asks for the text of an object of the program")


class Holding(Same):
    def __init__(self, held: list[Any]) -> None:
        self.held = held


@pytest.mark.parametrize("seed", range(20))
def test_each_tensor_that_a_call_reaches_is_named_and_put_back(seed: int) -> None:
    made: list[torch.Tensor] = []
    held = containers(random.Random(seed), 4, made)
    state = reached(lambda held: None, {"held": held})
    assert {id(each) for each in made} <= {id(each) for each in state.tensors.values()}
    assert {id(each) for each in made} <= {id(each) for each in tensors_reached(lambda: None, {"held": held}).values()}
    before = Snapshot(state)
    for each in made:
        each.add_(1)
    before.put()
    assert [each.tolist() for each in made] == [[float(n), float(n)] for n in range(len(made))]


def test_whether_an_array_may_be_written_is_put_back() -> None:
    array = np.zeros(2)
    before = Snapshot(reached(lambda array: None, {"array": array}))
    array[0] = 1
    array.flags.writeable = False
    before.put()
    assert array.flags.writeable and not array.any()


def test_what_is_taken_to_hold_nothing_that_changes_is_changed_by_none_of_its_methods(tmp_path: Path) -> None:
    """In a process of its own, which has the same classes each time: methods of some in C may end it."""
    script = Path(__file__).with_name("methods_in_c.py")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
    assert done.stdout.count("\n") > 60


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def test_library_calls_of_a_backward_are_timed_on_what_the_forward_keeps() -> None:
    """The workspace that oneDNN's LSTM writes is not for anyone to make up: its backward crashed on zeros."""
    record = explorer.explore(Recurrent(), time=SECONDS)(torch.randn(4, 3))
    backward = next(half for each in record.data.compiles for half in each.halves if half.name.endswith("backward"))
    assert record.timing is not None and "no times of single kernels" not in record.timing.method
    calls = {each.id for each in backward.operations if each.kind == "extern"}
    assert calls and calls <= set(backward.extern_seconds)


class Drifting(nn.Module):
    """Compiled code rounds differently from eager: what it writes shows who was called last."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(64, 64)
        self.norm = nn.BatchNorm1d(64)
        self.register_buffer("total", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(torch.softmax(self.lin(x), 0).exp())
        self.total.add_(y.detach().sin().sum(0))
        return y


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize("call", (lambda m: m, lambda m: m.forward, functools.partial, lambda m: m.__call__))
def test_a_module_is_left_as_its_eager_call_leaves_it(call: Callable[[nn.Module], Any], engine: dict[str, Any]) -> None:
    explored = Drifting()
    called, x = copy.deepcopy(explored), torch.randn(256, 64)
    call(called)(x)
    explorer.explore(call(explored), time=SECONDS, **engine)(x)
    assert not different(dict(called.state_dict()), dict(explored.state_dict()))


def test_the_memory_of_a_program_that_profiles_itself_is_not_reported() -> None:
    def profiled() -> torch.Tensor:
        with torch.autograd.profiler.profile():
            return torch.ones(3) + 1

    assert peak_bytes(profiled) is None
    assert peak_bytes(lambda: torch.ones(1024)) == 4096


def test_what_a_call_only_makes_is_not_said_to_have_run() -> None:
    class Later(nn.Module):
        async def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    async def later(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    async def stream(x: torch.Tensor) -> AsyncIterator[torch.Tensor]:
        yield x * 2

    def numbers(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x * 2

    for function in (later, stream, Later(), torch.compile(later), explorer.compile(later), functools.partial(later)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(TypeError, match="is a coroutine function: calling it runs nothing of it"):
                explorer.explore(function)
    for generator in (numbers, explorer.compile(numbers)):
        record = explorer.explore(generator, time=False)(torch.ones(2))
        assert any("calling it runs nothing of it" in note for note in record.data.notes)


@pytest.mark.parametrize("engine", ["explorer", "stock", "both"])
def test_an_array_in_a_file_is_written_once(engine: str, tmp_path: Path) -> None:
    """What torch.compile makes of a write to one writes it twice."""
    mapped = np.memmap(tmp_path / "array", "float32", "w+", shape=(8,))

    def step(x: torch.Tensor) -> torch.Tensor:
        mapped[:] += 1
        return x * 2

    explorer.explore(step, engine=engine, time=False)(torch.ones(3))
    assert mapped.tolist() == [1.0] * 8 == np.fromfile(tmp_path / "array", "float32").tolist()


@pytest.mark.parametrize("engine", ["explorer", "both"])
def test_a_tensor_that_names_no_sizes_is_compared(engine: str) -> None:
    """A nested tensor in one piece of memory; it is compared part by part, and put back."""
    given = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
    record = explorer.explore(lambda x: x.mul_(2), engine=engine, time=False)(given)
    found = record.data.timing.accuracy
    assert found.compared > 1 and not found.first_mismatch and not record.data.error
    assert all(bool((part == 2).all()) for part in given.unbind())
    explorer.explore(lambda x: x.mul_(2), engine=engine, time=False, leave="unchanged")(given)
    assert all(bool((part == 2).all()) for part in given.unbind())
    assert not any(event.kind == "CompilerBug" for compile in record.data.compiles for event in compile.events)
    parts = accuracy.compare({"output": given}, {"output": given + 1})
    assert parts.first_mismatch == "output[0]"


def test_torchs_counters_are_as_before() -> None:
    counters = torch._dynamo.utils.counters
    before = copy.deepcopy(counters)
    explorer.explore(lambda x: x.sin() + 1, engine="both", stock={"backend": "eager"}, time=False)(torch.randn(3))
    assert counters == before


ASKED_OF_PROCESS = (sys, threading, gc, warnings, locale, torch, torch._C, torch.utils.deterministic)
PREFIXES = ("get", "_get", "is", "_is", "are")
MOVE_ON = {
    "getallocatedblocks", "get_count", "get_freeze_count", "get_stats", "get_objects", "getrefcount", "get_ident",
    "get_native_id", "_getquickenedcount", "get_rng_state", "gettotalrefcount", "getunicodeinternedsize",
}  # fmt: skip
"""These tell of memory and threads, and are no setting."""


def process_settings() -> dict[str, str]:
    """What each function without arguments whose name says that it asks tells, and where else a process is set."""
    found = {}
    for module in ASKED_OF_PROCESS:
        for name in dir(module):
            if name.startswith(PREFIXES) and name not in MOVE_ON and callable(get := getattr(module, name)):
                with contextlib.suppress(Exception):  # it takes arguments, or is for a machine that is not here
                    value = get()
                    if isinstance(value, (bool, int, float, str, tuple, torch.dtype, torch.device, type(None))):
                        found[f"{module.__name__}.{name}"] = repr(value)
    hooks = (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, warnings.showwarning)
    others: dict[str, object] = {
        "hooks": hooks, "start method": multiprocessing.get_start_method(allow_none=True), "folder": os.getcwd(),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        **{f"variable {name}": value for name, value in os.environ.items()}, "warnings": warnings.filters,
        "streams": (sys.stdout, sys.stderr, sys.stdin),
        "collector": (gc.isenabled(), gc.callbacks), "importers": (sys.meta_path, sys.path_hooks),
        "level": [logging.getLogger(each).level for each in ("", "torch", "torch._inductor", "torch._dynamo")],
    }  # fmt: skip
    return found | {name: repr(value) for name, value in others.items()}


@pytest.mark.parametrize("leave", ["called", "unchanged"])
@pytest.mark.parametrize("engine", ["explorer", "stock", "both"])
@pytest.mark.parametrize("once", [False, True])
def test_the_settings_of_the_process_are_as_before(engine: str, leave: Any, once: bool, tmp_path: Path) -> None:
    x = torch.randn(3, requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        if once:
            os.mkdir(tmp_path / "made")  # noqa: PTH102
        (x.sin() + 1).sum().backward()
        return x * 2

    torch._dynamo.reset()
    sys.setrecursionlimit(sys.getrecursionlimit() - 7)
    multiprocessing.set_start_method(None, force=True)
    before = process_settings()
    explorer.explore(step, engine=engine, time=SECONDS, leave=leave)(x)
    after = process_settings()
    assert {name: (value, after.get(name)) for name, value in before.items() if after.get(name) != value} == {}


def inner(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def outer(x: torch.Tensor) -> torch.Tensor:
    explorer.explore(inner, time=False)(x)
    return x + 1


@pytest.mark.parametrize(
    "call",
    (
        lambda x: explorer.explore(outer)(x),
        lambda x: explorer.explore(outer, engine="stock", stock={"backend": "eager"})(x),
        lambda x: torch.compile(outer, backend="eager")(x),
        lambda x: explorer.compile(outer)(x),
    ),
    ids=("explored", "explored with stock", "torch.compile", "explorer.compile"),
)
def test_exploring_inside_of_exploring_is_refused(call: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"explorer\.explore was called inside a function"):
        call(torch.randn(3))
    explorer.explore(inner, time=False)(torch.randn(3))


class Odd(Exception):
    pass


@pytest.mark.parametrize("raised", (Odd, AssertionError, KeyboardInterrupt, SystemExit))
@pytest.mark.parametrize("engine", ENGINES[:2], ids=("ours", "stock"))
def test_what_the_function_raises_propagates(raised: type[BaseException], engine: dict[str, Any]) -> None:
    rows: list[int] = []
    weight = torch.ones(3)

    def body(x: torch.Tensor) -> torch.Tensor:
        rows.append(1)
        weight.mul_(2)
        y = torch.relu(x * weight)
        if rows:
            raise raised("of the program")
        return y

    with pytest.raises(raised, match="of the program") as caught:
        explorer.explore(body, **engine)(torch.randn(3))
    assert type(caught.value) is raised
    assert (rows, weight.tolist()) == ([1], [2.0, 2.0, 2.0])
    record = caught.value.explored  # type: ignore[attr-defined]
    assert raised.__name__ in record.data.error
    explorer.explore(inner, time=False)(torch.randn(3))


def test_what_listens_for_files_is_no_frame_that_anybody_compiles() -> None:
    """Python never takes an audit hook away: it is still called when the program compiles something of its own."""

    def listing(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        os.listdir(".")
        return y * 2

    with heard(refuses=False):
        listing(torch.ones(2))
    torch._dynamo.reset()
    before = torch._dynamo.utils.counters["frames"]["total"]
    torch.compile(listing, backend="eager")(torch.ones(2))
    frames = torch._dynamo.utils.counters["frames"]["total"] - before
    assert frames == 2, "listing, and what goes on after its break"


def test_a_module_to_which_dynamo_refers_may_be_let_go() -> None:
    torch._dynamo.mutation_guard.install_generation_tagging_init()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    torch._dynamo.mutation_guard.GenerationTracker.tag(model[1])
    assert weakref.getweakrefcount(model[1])

    def swapped(x: torch.Tensor) -> torch.Tensor:
        model[1] = nn.Tanh()
        return model(x)

    notes = explorer.explore(swapped, time=False)(torch.ones(2, 3)).data.notes
    assert not any("only once" in note for note in notes) and type(model[1]) is nn.Tanh


class Ending:
    """Garbage that removes a file and prints when it is collected, as what other code left behind may."""

    def __init__(self, path: Path) -> None:
        self.path, self.itself = path, self
        path.write_text("left")

    def __del__(self) -> None:
        os.remove(self.path)
        print("ended")


@pytest.mark.parametrize("refuses", (False, True))
def test_what_others_left_is_not_reported_of_a_call_that_collects_it(
    refuses: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = tmp_path / "left"
    Ending(left)
    with noted() as said, heard(refuses) as outside:
        gc.collect()
    assert not left.exists()
    assert not outside.actions and not said
    assert "ended" in capsys.readouterr().out
    assert not [each for each in gc.callbacks if each.__module__.startswith("explorer.")]


def test_a_collection_at_any_moment_is_not_reported(tmp_path: Path) -> None:
    """Of the two that listen, none is without the other's knowledge of the collector."""
    with noted() as said:
        Ending(tmp_path / "left")
        gc.collect()
        with heard(refuses=False) as outside:
            Ending(tmp_path / "right")
            gc.collect()
        Ending(tmp_path / "left")
        gc.collect()
    assert not said and "call os.remove" not in outside.actions


def test_what_the_call_itself_ends_is_reported(tmp_path: Path) -> None:
    ending = Ending(tmp_path / "left")
    ending.itself = None
    with noted() as said, heard(refuses=False) as outside:
        del ending
    assert outside.actions == ["call os.remove"] and said == {"print"}


def test_a_backward_that_raises_in_eager_is_reported_and_not_raised() -> None:
    module, x = torch.nn.BatchNorm1d(3), torch.randn(4, 3)

    def body(x: torch.Tensor) -> torch.Tensor:
        y = module(x).sum()
        x.add_(1)
        return y

    before = x.clone()
    record = explorer.explore(body, time=False)(x)
    assert torch.equal(x, before + 1)
    assert any("backward of the eager call raises: one of the variables" in note for note in record.data.notes)


def test_what_the_call_computes_and_keeps_has_no_gradient_to_compare() -> None:
    normed = nn.utils.spectral_norm(nn.Linear(3, 2))  # its weight is made anew in each call, by a hook
    timing = explorer.explore(lambda x: x.sum() + normed(x).sum(), time=SECONDS)(torch.randn(4, 3)).data.timing
    assert timing is not None and timing.accuracy is not None and not timing.accuracy.first_mismatch


@pytest.mark.parametrize("compiler", ["explorer.compile", "torch.compile"])
def test_what_the_first_compile_of_a_process_sets_is_no_setting_of_the_program(compiler: str) -> None:
    program = f"""
import torch, explorer
inner = {compiler}(lambda x, n: x * n)
record = explorer.explore(lambda: inner(torch.ones(3), 2), time=0.02)()
assert not any("a setting" in note for note in record.data.notes), record.data.notes
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr


def test_the_settings_of_a_logger_that_the_call_makes_are_noticed() -> None:
    name = f"made by a call {os.getpid()}"

    def body(x: torch.Tensor) -> torch.Tensor:
        logging.getLogger(name).setLevel(logging.DEBUG)
        return x + 1

    with Runs("body") as runs:
        record = explorer.explore(body, time=SECONDS, leave="unchanged")(torch.ones(2))
    assert runs.count <= 3
    assert any(f"it changes a setting: the logger {name}" in note for note in record.data.notes)
    assert logging.getLogger(name).level == logging.NOTSET


@pytest.mark.parametrize("timed", [False, 0.01])
@pytest.mark.parametrize("compiler", ["stock", "ours", "module"])
def test_eager_is_eager_where_the_program_compiles_its_own_functions(compiler: str, timed: float) -> None:
    compiled = []

    def wrong(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        compiled.append(threading.get_ident())
        return lambda *given: tuple(each * 100 for each in graph(*given))

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    linear = nn.Linear(3, 3)
    if compiler == "module":
        linear.compile(backend=wrong)
    made = explorer.compile(inner, backend=wrong) if compiler == "ours" else torch.compile(inner, backend=wrong)
    call = linear if compiler == "module" else made

    def called(x: torch.Tensor) -> torch.Tensor:
        return call(x) + 1

    asks = torch._dynamo.eval_frame._callback_from_stance
    record = explorer.explore(called, time=timed, grad=False)(torch.ones(2, 3))
    assert not compiled and record.data.timing.accuracy.first_mismatch == ""
    assert [each for each in record.data.notes if each == OWN_COMPILED] == [OWN_COMPILED]
    assert torch._dynamo.eval_frame._callback_from_stance is asks
    plain = explorer.explore(inner, time=timed)(torch.ones(2))
    assert OWN_COMPILED not in plain.data.notes


@pytest.mark.parametrize("compile", [torch.compile, explorer.compile])
def test_eager_calls_of_one_thread_leave_those_of_others_compiled(compile: Callable[..., Any]) -> None:
    threads = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        threads.append(threading.get_ident())
        return graph

    made = compile(lambda x: x.sin(), backend=backend)
    with Eagerly() as calls:
        made(torch.ones(2))
        other = threading.Thread(target=made, args=(torch.ones(2),))
        other.start()
        other.join()
        torch.compiler.disable(torch.sin)(torch.ones(2))
    assert len(calls.met) == 1 and len(threads) == 1 and threads[0] != threading.get_ident()


def normalized(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(layer(x), [4]).sin()


@pytest.mark.parametrize("engine", ["explorer", "stock", "both"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_code_that_frees_what_it_saved_is_compared(engine: str, dynamic: bool | None) -> None:
    layer, stock = torch.nn.Linear(4, 4), None if engine == "explorer" else {"backend": "aot_eager"}
    start = torch.ones(3, 4, requires_grad=True)
    computed = start.exp()
    for x in (torch.ones(3, 4), start, computed):
        made = explorer.explore(normalized, engine=engine, stock=stock, dynamic=dynamic, time=False)
        record = made(layer, x)
        assert not record.errors and "gradient" in str(record) and "differ" not in str(record)
    torch.autograd.grad(computed.sum(), start)


DOUBTED = {
    "a branch that is not taken": ("if x.shape[0] > 9: os.remove('never')", True),
    "a method that is not called": ("thing.method and None", True),
    "a branch that is taken": ("os.listdir('/') and os.close(os.dup(1))", False),
    "a break elsewhere": ("print(x.shape[0] > 9 and os.remove('never'))", False),
    "an operator of one's own": ("writes(x); thing.method", False),
}


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize("what", DOUBTED)
def test_code_that_a_call_does_not_run_does_not_count_where_capture_sees_all_of_it(
    what: str, engine: dict[str, Any]
) -> None:
    """What capture knows of the effects decides, where the code mentions functions that may change more."""
    body, known = DOUBTED[what]
    lines = "seen = []\nclass Thing:\n    def method(self): os.remove('never')\nthing = Thing()"
    space: dict[str, Any] = {"os": os, "torch": torch, "writes": of_ones_own}
    exec(f"{lines}\ndef f(x):\n    seen.append(1)\n    {body}\n    return torch.sin(x)", space)
    with hushed():
        record = explorer.explore(space["f"], time=False, **engine)(torch.randn(3))
    assert space["seen"] == [1]
    assert any("called only once, because it uses os." in note for note in record.data.notes) is not known
    compared = record.data.timing is not None and record.data.timing.accuracy is not None
    assert compared or not known


@torch.library.custom_op("effects_of_ones_own::writes", mutates_args=())
def of_ones_own(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@of_ones_own.register_fake
def _fake(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_capture_that_only_asks_leaves_nothing() -> None:
    """A lazy module is initialized by the call, with its random numbers, and not by the question."""
    model, plain = (torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.Dropout()) for _ in range(2))
    space: dict[str, Any] = {"os": os, "model": model}
    exec("def f(x):\n    if x.shape[0] > 9: os.remove('never')\n    return model(x)", space)
    seeded()
    plain(torch.ones(3, 4))
    after = torch.get_rng_state()
    seeded()
    explorer.explore(space["f"], time=False)(torch.ones(3, 4))
    assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(model[0].weight, plain[0].weight)
