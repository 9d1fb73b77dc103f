"""What a call of a compiled function costs beside its kernels does not grow with its graph."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import explorer

ROOT = str(Path(explorer.__file__).parent)


def pointwise(steps: int) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(steps):
            x = torch.tanh(x * w)
        return x

    return run


def random(steps: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, w: torch.dropout(pointwise(steps)(x, w), 0.5, True)


def later(steps: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return lambda x, w: (h := pointwise(steps)(x, w), (h * w).sum())


def written(steps: int) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, w: Tensor) -> Tensor:
        return pointwise(steps)(x.clone().mul_(w).add_(1), w)

    return run


PROGRAMS = (pointwise, random, later, written)


def functions_called(step: Callable[[], object]) -> Counter[str]:
    """How often each Python function of the package runs in a step."""
    found = Counter[str]()

    def count(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(ROOT):
            found[f"{code.co_filename.removeprefix(ROOT)}:{code.co_name}"] += 1

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_larger_graph_runs_no_more_python(program: Callable[[int], Callable[..., object]], trains: bool) -> None:
    def calls(steps: int) -> Counter[str]:
        compiled = explorer.compile(program(steps))
        x, w = (torch.ones(4, requires_grad=trains) for _ in "xw")

        def step() -> None:
            found = compiled(x, w)
            if trains:
                outputs = found if isinstance(found, tuple) else (found,)
                sum(each.sum() for each in outputs).backward()  # type: ignore[union-attr]

        step()
        step()
        return functions_called(step)

    small, large = calls(2), calls(20)
    assert small and large == small
