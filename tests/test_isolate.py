"""Copies of all that a call may change: what they hold, what they leave alone, and when there are none."""

import collections
import functools
import importlib.util
import io
import keyword
import logging
import os
import random
import subprocess
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from explorer.core import libraries
from explorer.records.check import isolate
from explorer.records.check.isolate import NotIsolated, reached, undone
from explorer.records.check.process import Outside, heard
from explorer.records.check.trial import COPIES, Repetition, Trial, check_memory, unnoticed

SETTINGS = {"scale": 2.0}
SEEN: list[int] = []
COUNT = 0
SHARED = torch.zeros(2)


class Net(nn.Module):
    kept: list[int] = []

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        SEEN.append(1)
        self.kept.append(1)
        return self.norm(self.linear(x)) * SETTINGS["scale"]

    def save(self):
        torch.save(self.state_dict(), "never.pt")


MODEL = Net()
OPTIMizER = torch.optim.SGD(MODEL.parameters(), lr=0.1, momentum=0.9)
SCHEDULE = torch.optim.lr_scheduler.StepLR(OPTIMizER, 1)


def train(x):
    global COUNT
    COUNT += 1
    OPTIMizER.zero_grad()
    loss = MODEL(x).pow(2).sum()
    loss.backward()
    OPTIMizER.step()
    SCHEDULE.step()
    SHARED.add_(1)
    return loss.detach()


def everything() -> dict[str, object]:
    """What `train` may change, as it is now."""
    tensors = {name: value.clone() for name, value in MODEL.state_dict().items()}
    rates = [group["lr"] for group in OPTIMizER.param_groups]
    momenta = len(OPTIMizER.state)
    return {**tensors, "rates": rates, "momenta": momenta, "count": COUNT, "seen": len(SEEN), "kept": len(Net.kept),
            "shared": SHARED.clone(), "grad": MODEL.linear.weight.grad is None}  # fmt: skip


def equal(a: dict[str, object], b: dict[str, object]) -> bool:
    return all(torch.equal(v, b[n]) if isinstance(v, torch.Tensor) else v == b[n] for n, v in a.items())


def test_a_training_step_over_globals_changes_copies_alone():
    before = everything()
    state = reached(train, {"x": torch.randn(4, 2)}).copied()
    assert {place.name for place in state.places} >= {
        "MODEL",
        "OPTIMizER",
        "SCHEDULE",
        "COUNT",
        "SEEN",
        "SHARED",
        "kept",
    }
    with state.in_place():
        first = train(state.args["x"])
        assert not equal(before, everything())
        assert not torch.equal(first, train(state.args["x"]))
    assert equal(before, everything())


def test_two_copies_go_the_same_way():
    state = reached(train, {"x": torch.randn(4, 2)}).copied()
    results = []
    for copy in (state.copied(), state.copied()):
        with copy.in_place():
            results += [train(copy.args["x"]), train(copy.args["x"])]
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[3])
    assert not torch.equal(results[0], results[1])


def test_an_error_puts_everything_back():
    model = MODEL
    state = reached(train, {"x": torch.randn(4, 2)}).copied()
    with pytest.raises(ZeroDivisionError), state.in_place():
        assert MODEL is not model
        raise ZeroDivisionError
    assert MODEL is model


def test_an_interrupt_while_things_are_put_back_puts_them_back():
    undone_to = []

    def undo():
        undone_to.append(1)
        if len(undone_to) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), undone(undo):
        pass
    assert len(undone_to) == 2


def identity(x):
    return x


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3),
        torch.randn(3, requires_grad=True) * 2,
        {"ids": [torch.ones(2), (torch.zeros(1),)]},
        collections.deque([[1]]),
        collections.defaultdict(list, a=[1]),
        numpy.arange(3),
        nn.LSTM(2, 2),
        types.SimpleNamespace(a=[torch.ones(1)]),
        functools.partial(identity, [1]),
        torch.Generator(),
        weakref.ref(MODEL),
        iter([1, 2]),
        bytearray(b"ab"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_copied_is_another_object(value):
    copy = reached(identity, {"x": value}).copied().args["x"]
    assert copy is not value


def test_what_is_one_object_stays_one():
    x = torch.randn(3)
    held = [x]
    args = reached(identity, {"x": x, "held": held, "view": x[:2]}).copied().args
    assert args["held"][0] is args["x"]
    args["x"].add_(1)
    assert torch.equal(args["view"], args["x"][:2])
    assert not torch.equal(args["x"], x)


def test_a_computed_tensor_becomes_a_leaf():
    x = torch.randn(3, requires_grad=True)
    y = (x * 2, torch.nn.ParameterList([x]))
    copied = reached(identity, {"x": y}).copied()
    assert copied.args["x"][0].is_leaf
    assert copied.args["x"][0].requires_grad


def test_tensors_are_named_by_their_modules():
    state = reached(train, {"x": torch.randn(4, 2)}).copied()
    assert {"MODEL.linear.weight", "MODEL.norm.running_mean", "x"} <= state.tensors.keys()
    assert not any(name.startswith("OPTIMizER") and "params" in name for name in state.tensors)


def with_default(x, _seen=[]):  # noqa: B006
    _seen.append(x)
    return len(_seen)


def closing():
    log = []

    def call(x):
        log.append(x)
        return len(log)

    return call


def test_functions_made_alike_have_closures_of_their_own():
    one, other = closing(), closing()

    def both(x):
        return one(x) + other(x)

    for _ in range(2):
        state = reached(both, {"x": 1}).copied()
        with state.in_place():
            assert both(1) == 2


class Registry:
    entries: dict[str, int] = {}

    def note(self, x):
        self.entries[str(x)] = x
        return len(self.entries)


def by_class(registry):
    return registry.note(1)


@pytest.mark.parametrize(("call", "args"), [(with_default, (1,)), (closing(), (1,)), (by_class, (Registry(),))])
def test_defaults_closures_and_class_attributes_are_copied(call, args):
    named = dict(zip(call.__code__.co_varnames, args, strict=False))
    for _ in range(2):
        state = reached(call, named).copied()
        with state.in_place():
            assert call(*state.args.values()) == 1


def numbers():
    yield 1


def saving(x):
    torch.save(x, "never.pt")


def opening(x):
    with open("never.txt", "w") as file:
        file.write(str(x))


def removing(x):
    os.remove("never.txt")


def writing(x):
    Path("never.txt").write_text(str(x))


def importing(x):
    import sqlite3

    return sqlite3.connect(x)


def evaluating(x):
    return eval("x")


def starting(x):
    return subprocess.run(x)


def calling(x):
    return saving(x)


APPEND = SEEN.append


def appending(x):
    APPEND(x)


def plotting(x):
    return threading.Thread(target=x)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (saving, "torch.save"),
        (calling, "torch.save"),
        (opening, "open"),
        (removing, "os.remove"),
        (writing, "Path"),
        (importing, "sqlite3"),
        (evaluating, "eval"),
        (starting, "subprocess.run"),
        (appending, "APPEND"),
        (plotting, "threading.Thread"),
    ],
)
def test_a_call_that_may_change_what_cannot_be_copied_is_refused_by_name(call, said):
    with pytest.raises(NotIsolated, match=said):
        reached(call, {"x": 1}).copied()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (numbers(), "x is a generator"),
        ([numbers()], r"x\[0\] is a generator"),
        (io.StringIO, ""),
        (threading.Lock(), "lock"),
        (open(os.devnull), "TextIOWrapper"),  # noqa: SIM115
        (types.SimpleNamespace(log=open(os.devnull)), "TextIOWrapper"),  # noqa: SIM115
    ],
    ids=["generator", "nested", "class", "lock", "file", "held"],
)
def test_what_cannot_be_copied_is_refused_by_name(value, said):
    if not said:
        reached(identity, {"x": value}).copied()
        return
    with pytest.raises(NotIsolated, match=said):
        reached(identity, {"x": value}).copied()


def talking(x):
    logging.getLogger("test").warning("%s", x)
    print(x, file=sys.stderr)
    print(x)
    return torch.relu(x) + numpy.exp(0.0)


def methods(model, x):
    return model(x)


@pytest.mark.parametrize(("call", "args"), [(talking, {"x": torch.ones(2)}), (methods, {"model": Net(), "x": 1})])
def test_what_is_harmless_is_not_refused(call, args):
    reached(call, args).copied()


@pytest.mark.parametrize("name", ["transformers", "timm", "a_package_of_nobody"])
def test_an_installed_package_is_read_as_the_program_is(name, tmp_path, monkeypatch):
    folder, known = f"{tmp_path}{os.sep}", isolate.folder_of_packages
    monkeypatch.setattr(isolate, "folder_of_packages", lambda file: folder * file.startswith(folder) or known(file))
    (tmp_path / f"{name}.py").write_text("SEEN = []\ndef layer(x):\n    SEEN.append(1)\n    return x + len(SEEN)\n")
    specification = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
    package = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, name, package)
    specification.loader.exec_module(package)

    def call(x):
        return package.layer(x)

    state = reached(call, {"x": torch.ones(2)}).copied()
    with state.in_place():
        assert call(state.args["x"])[0] == 2 and call(state.args["x"])[0] == 3
    assert package.SEEN == []


def test_a_method_that_is_not_called_does_not_count():
    def run(model):
        return model.save()

    with pytest.raises(NotIsolated, match="torch.save"):
        reached(run, {"model": Net()})


def test_too_many_objects(monkeypatch):
    monkeypatch.setattr("explorer.records.check.isolate.MOST_OBJECTS", 100)
    with pytest.raises(NotIsolated, match="more than 100 objects"):
        reached(identity, {"x": [[] for _ in range(200)]})


def test_no_room(monkeypatch):
    monkeypatch.setattr("explorer.records.check.trial._free", lambda device: 1 << 20)
    check_memory(reached(identity, {"x": torch.zeros(1 << 10)}))
    with pytest.raises(NotIsolated, match=f"no memory for {COPIES} copies"):
        check_memory(reached(identity, {"x": torch.zeros(1 << 20)}))


def test_a_repetition_with_its_own_backward_compares_gradients():
    state = reached(train, {"x": torch.randn(4, 2)}).copied()
    outcome = Repetition(train, (), {}, state=state, own_backward=True).contestant().observe()
    assert any(name.startswith("MODEL.") for name in outcome.gradients)
    assert MODEL.linear.weight.grad is None


def test_nothing_is_noticed(capsys):
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    expected = torch.rand(2), random.random(), numpy.random.rand()
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    with unnoticed():
        print("not seen")
        print("not seen", file=sys.stderr)
        logging.getLogger("test").error("not seen")
        torch.rand(5), random.random(), numpy.random.rand()
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
    drawn = torch.rand(2), random.random(), numpy.random.rand()
    assert torch.equal(drawn[0], expected[0])
    assert drawn[1:] == expected[1:]
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
    assert capsys.readouterr() == ("", "")


def test_other_threads_still_print(capsys):
    with unnoticed():
        thread = threading.Thread(target=print, args=("seen",))
        thread.start()
        thread.join()
    assert capsys.readouterr().out == "seen\n"


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda path: io.open(path, "w"), "open"),  # noqa: UP020
        (lambda path: os.open(path, os.O_CREAT | os.O_WRONLY), "open"),
        (lambda path: os.mkdir(path), "os.mkdir"),
        (lambda path: subprocess.run(["touch", path]), "subprocess.Popen"),
        (lambda path: Path(path).write_text("x"), "open"),
    ],
    ids=["open", "os.open", "mkdir", "process", "pathlib"],
)
def test_what_would_leave_the_process_is_stopped_before_it_happens(tmp_path, act, said):
    target = tmp_path / "made"
    with pytest.raises(Outside, match=said), heard(refuses=True):
        act(str(target))
    assert not target.exists()


def test_reading_is_let_through_and_so_is_everything_outside(tmp_path):
    with heard(refuses=True):
        assert Path(__file__).read_text()
        thread = threading.Thread(target=lambda: (tmp_path / "by another thread").write_text("x"))
        thread.start()
        thread.join()
    (tmp_path / "after").write_text("x")
    assert len(list(tmp_path.iterdir())) == 2


def test_python_may_keep_the_bytecode_of_what_is_imported(tmp_path, monkeypatch):
    (tmp_path / "imported_once.py").write_text("value = 3")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    with heard(refuses=True):
        assert importlib.import_module("imported_once").value == 3
    assert list((tmp_path / "__pycache__").iterdir())
    del sys.modules["imported_once"]


def test_a_compile_inside_may_build(tmp_path, monkeypatch):
    import explorer

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with heard(refuses=True):
        record = explorer.explore(lambda x: torch.relu(x) * 3.25, time=False)(torch.randn(7))
    assert record.kernels
    assert not any(compile.error for compile in record.data.compiles)


def test_a_trial_and_a_repetition_give_the_same():
    x = torch.randn(3, requires_grad=True)

    def call(x):
        return (x * 2).sum()

    plain = Trial(call, (x,), {}).contestant().observe()
    repeated = Repetition(call, (), {}, state=reached(call, {"x": x}).copied()).contestant().observe()
    assert torch.equal(plain.output["output"], repeated.output["output"])
    assert torch.equal(*(next(iter(o.gradients.values())) for o in (plain, repeated)))


def allowed(module: Any, name: str) -> bool:
    space: dict[str, Any] = {"module": module}
    exec(f"def body(x): return module.{name}", space)
    try:
        reached(space["body"], {})
    except NotIsolated:
        return False
    return True


@pytest.mark.parametrize("entry", sorted((*libraries.REPEATABLE, *libraries.NOT_REPEATABLE)))
def test_each_entry_of_the_lists_decides_about_something(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module holds is allowed by the entry alone, or refused by it."""
    module = pytest.importorskip(entry)
    names = [name for name in sorted(vars(module)) if name.isidentifier() and not keyword.iskeyword(name)]
    lists = {
        "REPEATABLE": libraries.REPEATABLE - {entry},
        "NOT_REPEATABLE": libraries.NOT_REPEATABLE - {entry},
    }

    def decides(name: str) -> bool:
        with monkeypatch.context() as without:
            before = allowed(module, name)
            for each, shorter in lists.items():
                without.setattr(libraries, each, shorter)
            return allowed(module, name) is not before

    assert any(map(decides, names))


def test_a_file_is_a_librarys_where_an_installer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install --target` makes such a folder, for PYTHONPATH; a package that is worked on in a folder is named by
    no RECORD there."""
    monkeypatch.syspath_prepend(str(tmp_path))
    record = tmp_path / "lib-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text('lib/__init__.py,sha256=,1\n"lib/a,b.py",,\nlib-1.0.dist-info/RECORD,,\n')
    (tmp_path / "damaged-1.0.dist-info").mkdir()
    (tmp_path / "damaged-1.0.dist-info" / "RECORD").write_bytes(b"\xff\xfe")
    for file, is_librarys in (("lib/__init__.py", True), ("lib/a,b.py", True), ("lib/own.py", False), ("t.py", False)):
        code = compile("0", str(tmp_path / file), "exec")
        assert isolate.is_programs(code) is not is_librarys
    assert not isolate.is_programs(torch.nn.Linear.forward.__code__) and not isolate.is_programs(os.path.join.__code__)
