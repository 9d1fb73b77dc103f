"""How a card's kernels are cut: which rows one program holds in registers, which it walks, which are shared out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from explorer.compiler.codegen import GENERATE
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.ir.program import Generation, Kernel, Target
from lowering import lowered


def kernels(fn: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Kernel, ...]:
    loops, _ = lowered(fn, *inputs)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    return GENERATE(Generation(schedule, PLAN_MEMORY(schedule), Target("cuda", "90"))).kernels


def holds_rows(kernel: Kernel) -> bool:
    return "for roffset in" not in str(kernel.source)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def five_rows(x: torch.Tensor) -> torch.Tensor:
    return (x * x.roll(1, 0) * x.roll(2, 0) * x.roll(3, 0) * x.roll(4, 0)).softmax(-1)


HELD: list[tuple[Callable[..., Any], tuple[int, int], bool, str]] = [
    (softmax, (512, 1024), True, "short"),
    (softmax, (512, 16384), True, "swept three times"),
    (softmax, (512, 50257), True, "swept three times, and most of the tile in use"),
    (softmax, (512, 33000), False, "half of the tile would be empty"),
    (softmax, (512, 100000), False, "more than the registers hold"),
    (softmax, (16, 16384), False, "fewer rows than processors: they are shared out"),
    (total, (512, 16384), False, "swept once: nothing to hold it for"),
    (total, (1, 16384), True, "all of it is small"),
    (five_rows, (512, 16384), False, "five rows of it are more than the registers hold"),
]


@pytest.mark.parametrize(("fn", "shape", "held", "why"), HELD, ids=[f"{h[0].__name__}-{h[1]}" for h in HELD])
def test_which_rows_stay_in_registers(fn: Callable[..., Any], shape: tuple[int, int], held: bool, why: str) -> None:
    assert holds_rows(kernels(fn, torch.empty(shape))[0]) is held, why


def test_a_program_has_at_most_16_warps() -> None:
    for length, warps in ((512, 2), (1024, 2), (4096, 8), (16384, 16), (65536, 16)):
        (kernel,) = kernels(softmax, torch.empty(512, length))
        assert kernel.warps == warps


def test_the_variance_of_everything_reads_it_once() -> None:
    """Row by row, the squared deviations find the row where the sum left it."""
    rows, rest = kernels(torch.var, torch.empty(8192, 8192))
    assert holds_rows(rows) and str(rows.source).count("tl.load") == 1
    assert rest.bytes < rows.bytes / 1000
