"""Exploring changes nothing that a program can see, beyond one call: its state, output, random numbers."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import hashlib
import locale
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
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

import explorer
from effects import BY_NAME, PARTS, Runs, made, script
from explorer.core.files import OWN_FILES, PACKAGES
from explorer.records.check.isolate import reached
from explorer.records.check.names import tensors_reached
from explorer.records.check.process import heard, hushed, noted, put_back
from explorer.records.check.profile import peak_bytes
from explorer.records.check.snapshot import Snapshot
from explorer.records.to_record.graphs import shown
from explorer.show.record import Record
from exploring import ENGINES, SECONDS, inner, programs, said, seeded, state
from stock_compiling import nothing_built
from torch_release import BEFORE_2_13


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """What a program sets of the process is not for the tests after it."""
    with put_back():
        yield


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


def test_stock_leaves_no_threads(fresh_dynamo: None) -> None:
    """What runs C++ compilers and what watches progress bars ends; the program's own bar is watched on."""
    before = threading.enumerate()
    with nothing_built():
        explorer.explore(lambda x: (x.sin() @ x).sum(), engine="stock", time=False)(
            torch.ones(3, 3, requires_grad=True)
        )
    assert threading.enumerate() == before


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
    names = (
        "gradients that add up", "a list", "a buffer made anew", "torch's random numbers", "printing",
        "a graph that is edited",
    )  # fmt: skip
    seeded()
    program, x = made(names, closure=True), torch.randn(4, 3)
    before = state(program, x)
    _, heard = said(lambda: explorer.explore(program.body, time=SECONDS, leave="unchanged", **engine)(x))
    assert not different(before, state(program, x))
    assert heard == ("", "", [])


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


def test_torchs_counters_are_as_before() -> None:
    counters = torch._dynamo.utils.counters
    before = copy.deepcopy(counters)
    backends = dict(torch._dynamo.eval_frame.cached_backends)
    explorer.explore(lambda x: x.sin() + 1, engine="both", stock={"backend": "eager"}, time=SECONDS)(torch.randn(3))
    assert counters == before
    assert torch._dynamo.eval_frame.cached_backends == backends


@pytest.mark.parametrize("leave", ("called", "unchanged"))
def test_what_a_program_counts_with_torchs_counters_is_as_after_one_call(leave: Any) -> None:
    counters = torch._dynamo.utils.counters
    counters.pop("the program", None)

    def step(x: torch.Tensor) -> torch.Tensor:
        counters["the program"]["calls"] += 1
        return x.sin()

    try:
        explorer.explore(step, engine="both", stock={"backend": "eager"}, time=False, leave=leave)(torch.randn(3))
        assert counters["the program"]["calls"] == (leave == "called")
    finally:
        counters.pop("the program", None)


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
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames == ["test_what_the_function_raises_propagates", "body"]
    assert caught.value.__context__ is caught.value.__cause__ is None
    record = caught.value.explored  # type: ignore[attr-defined]
    assert raised.__name__ in record.data.error
    explorer.explore(inner, time=False)(torch.randn(3))


class Logged(Exception):
    """Sees what is set on it, and is raised again and again."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "__traceback__":  # which contextlib sets
            raise AssertionError(name)


LOGGED = Logged("again")


def _raise_the_same(x: torch.Tensor) -> None:
    torch.relu(x)
    raise LOGGED


class Raising(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x[0:2]


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize(
    ("fn", "args", "own"),
    (
        (_raise_the_same, (torch.ones(2),), ["_raise_the_same"]),
        (torch.relu, ("no tensor",), []),
        (_raise_the_same, (1, 2, 3), []),
        (Raising(), (torch.ones(3, 3),), ["_wrapped_call_impl", "_call_impl", "forward"]),
        (torch.compile(Raising().forward, backend="eager"), (torch.ones(3, 3),), ["forward"]),
    ),
    ids=("one object", "written in C", "arguments", "a module", "compiled"),
)
def test_what_is_raised_is_as_from_a_call(fn: Any, args: tuple[Any, ...], own: list[str], engine: Any) -> None:
    records = []
    for _ in range(2):
        with pytest.raises(Exception, match=".") as caught:
            explorer.explore(fn, time=SECONDS, **engine)(*args)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert [frame.name for frame in frames][: len(own) + 1] == ["test_what_is_raised_is_as_from_a_call", *own]
        assert not any(frame.filename.startswith(OWN_FILES) for frame in frames)
        record = vars(caught.value)["explored"]
        assert isinstance(record, Record) and "! the program raises" in repr(record)
        records.append(record)
        assert len(vars(caught.value)["__notes__"]) == 1
    assert records[0] is not records[1]


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


class Thing:
    """One that a weak container may hold."""


def replaced_in(kind: str, what: Callable[[torch.Tensor], Any], before: Callable[[], object]) -> tuple[Any, Any]:
    """A function that replaces what it holds, of which a weak container knows, and what that container holds then."""
    held, containers = [what(torch.ones(2))], {"set": weakref.WeakSet(), "keys": weakref.WeakKeyDictionary()}
    known: Any = containers.get(kind, weakref.WeakValueDictionary())

    def add(number: int) -> None:
        if kind == "set":
            known.add(held[0])
        else:
            known.__setitem__(*((held[0], number) if kind == "keys" else (number, held[0])))

    def step(x: torch.Tensor) -> torch.Tensor:
        before()
        held[0] = what(x)
        add(1)
        return x + 1

    add(0)
    return step, lambda: (len(known), len(known.data), kind == "set" or sorted(map(str, known.values())) != [])


NOTHING_FIRST: dict[str, Callable[[], object]] = {"repeated": lambda: None, "once": lambda: os.write(1, b"")}


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize("calls", NOTHING_FIRST)
@pytest.mark.parametrize("what", (lambda x: Thing(), torch.sin), ids=("objects", "tensors"))
@pytest.mark.parametrize("kind", ("set", "keys", "values"))
def test_what_is_let_go_of_is_in_no_weak_container(kind: str, what: Any, calls: str, engine: dict[str, Any]) -> None:
    if kind == "set" and what is torch.sin:
        pytest.skip("sets compare their members, and tensors are not compared to one truth")
    step, seen = replaced_in(kind, what, NOTHING_FIRST[calls])
    step(torch.ones(2))
    wanted = seen()
    step, seen = replaced_in(kind, what, NOTHING_FIRST[calls])
    gc.collect()
    gc.disable()  # no cycle of the explorer's may hold it
    try:
        explorer.explore(step, time=SECONDS, **engine)(torch.ones(2))
        assert seen() == wanted
    finally:
        gc.enable()


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
@pytest.mark.parametrize("calls", NOTHING_FIRST)
def test_only_what_the_call_makes_ends_in_it(calls: str, engine: dict[str, Any]) -> None:
    ends: list[int] = []

    class Ends:
        def __del__(self) -> None:
            ends.append(1)

    def step(x: torch.Tensor) -> torch.Tensor:
        NOTHING_FIRST[calls]()
        Ends()
        return x + 1

    explorer.explore(step, time=SECONDS, **engine)(torch.ones(2))
    assert ends == [1]


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


HANDLER = """
import logging
class Collecting(logging.Handler):
    def __init__(self, *held):
        super().__init__()
        self.held, self.count = held, 0
    def emit(self, record):
        self.count += 1
"""


@pytest.mark.parametrize(
    "sees", ("", "is recorded", "reads it", "finds it", "holds its list", "gives it a function", "is its own")
)
@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
def test_a_handler_of_an_installed_package_is_the_programs_only_where_it_may_be_seen(
    sees: str, engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = types.ModuleType("a_package")
    module.__file__ = f"{tmp_path if sees in ('is recorded', 'is its own') else PACKAGES[0]}{os.sep}a_package.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_package-1.dist-info").mkdir()
    named = "a_package.py" if sees == "is recorded" else "another.py"
    (tmp_path / "a_package-1.dist-info" / "RECORD").write_text(f"{named},sha256=,1\n")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(HANDLER, module.__file__, "exec"), vars(module))
    rows, log = [0], logging.getLogger(f"of a package {os.getpid()}")
    given = {"holds its list": [{"in": rows}], "gives it a function": [lambda: None]}
    handler = module.Collecting(*given.get(sees, ()))
    log.handlers[:], log.propagate = [handler], False
    seen = {"reads it": lambda: handler.count, "finds it": lambda: log.handlers[0].count}.get(sees, lambda: len(rows))

    def body(x: torch.Tensor) -> torch.Tensor:
        log.warning("a line")
        return x + seen()

    with Runs("body") as runs:
        record = explorer.explore(body, time=SECONDS, **engine)(torch.ones(2))
    assert handler.count == 1
    once = any("called only once" in note and "given to a Collecting" in note for note in record.data.notes)
    seen_to_take = sees not in ("", "is recorded")
    assert once is seen_to_take, record.data.notes
    assert runs.count <= (1 if seen_to_take else 3)


@pytest.mark.parametrize("engine", ENGINES, ids=("ours", "stock", "both"))
def test_an_object_that_sees_that_it_is_looked_at_is_not(engine: dict[str, Any]) -> None:
    reads: list[str] = []

    class Seeing:
        scale = 2.0

        def __getattribute__(self, name: str) -> Any:
            reads.append(name)
            return object.__getattribute__(self, name)

        def __call__(self, v: torch.Tensor) -> torch.Tensor:
            return v * self.scale

    class Acting:
        @property
        def __class__(self) -> type:
            reads.append("the class")
            return int

    seeing, acting = Seeing(), [Acting()]

    def body(x: torch.Tensor) -> torch.Tensor:
        return seeing(x) + seeing.scale + isinstance(acting[0], int)

    body(torch.ones(2))
    once = reads.copy()
    reads.clear()
    record = explorer.explore(body, time=SECONDS, **engine)(torch.ones(2))
    assert reads == once
    assert any("so that inspecting it runs code" in note for note in record.data.notes), record.data.notes


def test_a_record_of_a_tensor_with_a_size_that_is_no_number_is_saved(tmp_path: Path) -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with explorer.watch() as log:
        torch.compile(lambda x: x + ragged.mul(2).values().sum(), backend="eager")(torch.ones(3))
    assert log.record.save(tmp_path / "ragged.json.gz")
