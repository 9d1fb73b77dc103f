"""What may not be called again is not: a call that changes more than can be put back runs once."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import hashlib
import locale
import os
import re
import subprocess
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import explorer
from explorer.core.libraries import ASKING, ASKS, EFFECT_OF
from explorer.records.check import accuracy, captured
from explorer.records.check.calls import RepeatedCalls
from explorer.records.check.isolate import NotIsolated, reached
from explorer.records.check.process import heard, hushed, noted, put_back
from explorer.records.check.snapshot import Snapshot
from exploring import ENGINES, SECONDS, seeded


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """What a program sets of the process is not for the tests after it."""
    with put_back():
        yield


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
        (writes_what_its_backward_needs, ""),  # its graphs run without the backward, which raises in eager too
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
        verb = "reaches" if each == "in_closure" else "uses"
        with pytest.raises(NotIsolated, match=f"it {verb} .*, which may read or change state"):
            reached(space[each], {})


WHERE_HELD = {
    "a call": ("torch.save(x, 'never')", "it uses torch.save,"),
    "a load": ("saves = torch.save", "it uses torch.save,"),
    "a method of that name": ("t = torch; space.save(x)", "it reaches torch.save,"),
    "a module of that name": ("t = torch; space.hub", "it reaches torch.hub,"),
    "a default": ("(lambda x, *, saves=open: None)", "it uses open,"),
    "an attribute of a function": ("marked(x)", "it reaches marked.opens,"),
    "a variable of a function around": ("inner(x)", "it reaches saves of inner,"),
}


@pytest.mark.parametrize("where", WHERE_HELD)
def test_what_code_only_holds_is_not_said_to_be_used(where: str) -> None:
    body, why = WHERE_HELD[where]
    lines = "def around(saves):\n    def closure(x): saves\n    return closure\ninner = around(open)"
    space: dict[str, Any] = {"torch": torch, "space": types.SimpleNamespace()}
    exec(f"{lines}\ndef marked(x): return x\nmarked.opens = open\ndef f(x): {body}", space)
    with pytest.raises(NotIsolated, match=re.escape(why)):
        reached(space["f"], {})


def test_what_is_taken_to_hold_nothing_that_changes_is_changed_by_none_of_its_methods(tmp_path: Path) -> None:
    """In a process of its own, which has the same classes each time: methods of some in C may end it."""
    script = Path(__file__).with_name("methods_in_c.py")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
    assert done.stdout.count("\n") > 60


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


def test_a_state_that_does_not_fit_is_not_copied_to_ask_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[object] = []
    made = Snapshot.__init__
    monkeypatch.setattr(Snapshot, "__init__", lambda self, state: made(self, state) or copied.append(state))
    monkeypatch.setattr("explorer.records.check.trial._free", lambda device: 1 << 20)
    space: dict[str, Any] = {"os": os}
    exec("def f(x):\n    if x.shape[0] < 9: os.remove('never')\n    return x + 1", space)
    for size, fits in ((1 << 10, True), (1 << 20, False)):
        repeated = RepeatedCalls(space["f"], (torch.zeros(size),), {})
        assert (bool(copied), not repeated.once) == (fits, fits)
        copied.clear()


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
