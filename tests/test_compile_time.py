"""Where the time of capture went by function, and layers that are captured alike."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

import explorer
from explorer.ir.record import ActivationData, CompileData, StepData
from explorer.records.to_record.graphs import function_costs
from explorer.show.view import compile_time
from records import sample


@pytest.mark.parametrize("seed", range(60))
def test_every_moment_belongs_to_one_function_and_to_its_callers(seed: int) -> None:
    chosen = random.Random(seed)
    activations = [ActivationData("f0")]
    for _ in range(chosen.randrange(8)):
        caller = chosen.randrange(len(activations))
        activations.append(ActivationData(f"f{chosen.randrange(4)}", activations[caller].depth + 1, caller))
    steps = [StepData("i", chosen.randrange(len(activations)), 0) for _ in range(chosen.randrange(1, 40))]
    times = [0.0]
    for _ in steps:
        times.append(times[-1] + chosen.random())
    found = {each.function: each for each in function_costs(activations, steps, times[:-1], times[-1])}
    assert sum(each.seconds for each in found.values()) == pytest.approx(times[-1])
    assert sum(each.calls for each in found.values()) == len(activations)
    assert found["f0"].whole == pytest.approx(times[-1])
    for name, each in found.items():
        expected = 0.0
        for number, step in enumerate(steps):
            at = step.activation
            while at >= 0 and activations[at].function != name:
                at = activations[at].caller
            expected += (times[number + 1] - times[number]) if at >= 0 else 0.0
        assert each.whole == pytest.approx(expected)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.linear(self.norm(x)))


class Stack(nn.Module):
    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(map(Block, widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x[..., : layer.linear.in_features])
        return x.sum()


def explored(engine: str, *widths: int) -> CompileData:
    stock = {"backend": "eager"} if engine == "stock" else None
    with torch.no_grad():
        made = explorer.explore(Stack(*widths), engine=engine, stock=stock, time=False)(torch.randn(2, widths[0]))
    return made.data.compiles[0]


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_equal_layers_are_reported_and_others_are_not(engine: str) -> None:
    same = explored(engine, 8, 8, 8, 8)
    ((function, calls, nodes),) = compile_time.repeated(same)
    assert function == "Block.forward" and calls == 4 and nodes >= 4
    said = "\n".join(compile_time.lines(same))
    assert "Block.forward is captured 4 times alike" in said and "Not tried here" in said
    assert compile_time.repeated(explored(engine, 8, 8)) == []
    assert all(name != "Block.forward" for name, *_ in compile_time.repeated(explored(engine, 8, 6, 4, 2)))


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_the_time_is_measured_and_no_more_than_there_was(engine: str) -> None:
    begun = time.perf_counter()
    compile = explored(engine, 8, 8, 8)
    took = time.perf_counter() - begun
    root = compile.functions[0]
    assert root.function == "Stack.forward" and 0 < root.whole < took
    assert sum(each.seconds for each in compile.functions) == pytest.approx(root.whole)
    block = next(each for each in compile.functions if each.function == "Block.forward")
    assert block.calls == 3 and block.seconds < block.whole < root.whole


def test_the_time_of_stocks_backend_is_not_in_its_capture() -> None:
    def slow(module, inputs):
        time.sleep(0.5)
        return module.forward

    found = explorer.explore(lambda x: x + 1, engine="stock", stock={"backend": slow}, time=False)(torch.ones(3))
    (compile,) = found.data.compiles
    assert compile.functions[0].whole < compile.seconds - 0.5
    assert any("everything after capture: " in line for line in compile_time.lines(compile))


def test_callers_in_a_circle_end() -> None:
    compile = sample().compiles[0]
    circle = tuple(ActivationData(f"f{n}", 1, (n + 1) % 3) for n in range(3))
    compile_time.repeated(msgspec.structs.replace(compile, activations=circle))


def calls_of_first_call(compile: Callable[..., Any]) -> int:
    """How many functions are called to capture six layers, whatever else the machine does."""
    torch.compiler.reset()
    compiled, x, count = compile(Stack(*[8] * 6), backend=lambda graph, inputs: graph), torch.randn(2, 8), 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with torch.no_grad():
        sys.setprofile(counted)
        try:
            compiled(x)
        finally:
            sys.setprofile(None)
    return count


def test_capture_calls_fewer_functions_than_dynamo() -> None:
    """What depends on an operator, a source or a step alone is computed once."""
    for compile in (explorer.compile, torch.compile):
        calls_of_first_call(compile)  # which imports, and fills torch's caches
    assert calls_of_first_call(explorer.compile) < 0.9 * calls_of_first_call(torch.compile)
