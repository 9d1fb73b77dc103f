"""What an explored call compares and times: both from the same state, eager in eager."""

from __future__ import annotations

import copy
import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import explorer
from explorer.records.check import accuracy
from explorer.records.check.calls import InPlace, RepeatedCalls
from explorer.records.check.eagerly import OWN_COMPILED, Eagerly
from explorer.records.check.process import put_back
from exploring import ENGINES, SECONDS, said


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """What a program sets of the process is not for the tests after it."""
    with put_back():
        yield


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
