"""Graphs over several devices: what is a kernel of the card, what is given to it as a number, what the library does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from explorer.compiler.codegen import GENERATE
from explorer.compiler.runtime import BUILD
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.ir.loops import Extern, Loop, Loops
from explorer.ir.program import CPU, BuildOptions, Generated, Generation, Target
from lowering import OnCard, lowered

aten = torch.ops.aten
SM_90 = Target("cuda", "90")
X = torch.arange(12.0).reshape(3, 4)
CARD = OnCard(X)


def loops(fn: Callable[..., Any], *inputs: Any) -> Loops:
    return lowered(fn, *inputs)[0]


def externs(made: Loops) -> list[tuple[str, str]]:
    return [(str(op.target), op.why.code) for op in made.operations if isinstance(op, Extern)]


def generated(made: Loops, target: Target = SM_90) -> Generated:
    schedule = ORDER(FUSE(DEPENDENCIES(made)))
    return GENERATE(Generation(schedule, PLAN_MEMORY(schedule), target))


def scaled(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return (x * s + 1).relu().sum(-1) * s


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(torch.float32, "fp32"), (torch.bfloat16, "fp32"), (torch.float64, "fp64"), (torch.int64, "i64"),
     (torch.uint8, "u8"), (torch.bool, "i1")],
)  # fmt: skip
def test_a_number_on_the_host_is_given_to_the_kernel(dtype: torch.dtype, kind: str) -> None:
    made = loops(scaled, CARD, torch.ones((), dtype=dtype))
    assert externs(made) == []
    code = generated(made)
    (kernel,) = code.kernels
    assert kind in kernel.types
    assert "s_1.item()" in str(code.wrapper)


def test_it_compiles(tmp_path: Path) -> None:
    schedule = ORDER(FUSE(DEPENDENCIES(loops(scaled, CARD, torch.ones(())))))
    options = BuildOptions(cache_dir=tmp_path)
    program = BUILD(GENERATE(Generation(schedule, PLAN_MEMORY(schedule), SM_90, options)))
    (made,) = program.lowered().values()
    assert ".param .f32" in str(made.texts["ptx"])


def test_what_is_computed_on_the_host_stays_there() -> None:
    made = loops(lambda x, s: x * (s * 2).exp(), CARD, torch.ones(()))
    assert [why for _, why in externs(made)] == ["lower.other_device"] * 2
    text = str(generated(made).wrapper)
    assert text.index("exp") < text.index(".item()")


def test_a_part_of_a_tensor_on_the_host() -> None:
    made = loops(lambda x, c: x * c[1] + c[2], CARD, torch.ones(3))
    assert externs(made) == [("aten.clone.default", "lower.other_device")] * 2
    assert generated(made).kernels


def test_a_copy_to_the_card_is_a_kernel_that_takes_the_number() -> None:
    made = loops(lambda x, s: aten._to_copy(s, device="cuda"), CARD, torch.ones(()))
    assert externs(made) == []
    assert ".item()" in str(generated(made).wrapper)


def test_results_elsewhere_are_the_library_s() -> None:
    def fn(x: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, torch.ones(3), torch.full((), 2.5), m @ m, x.cpu(), torch.zeros(2, device="meta")

    made = loops(fn, CARD, torch.ones(2, 2))
    assert {why for _, why in externs(made)} == {"lower.other_device"}
    assert len(externs(made)) == 5 and sum(isinstance(op, Loop) for op in made.operations) == 1
    assert not any(op.out for op in made.operations if isinstance(op, Extern))
    text = str(generated(made).wrapper)
    assert "aten_full_default([], 2.5, dtype=torch.float32, device=torch.device('cpu'))" in text


def test_an_index_on_the_host_is_the_library_s() -> None:
    made = loops(lambda x, i: aten.index(x, [i]) * 2, CARD, torch.tensor([0, 2]))
    assert [why for _, why in externs(made)] == ["lower.mixed_devices"]


def test_constants_of_no_dimensions_are_numbers_on_any_device() -> None:
    made = loops(lambda x: torch.where(x > 0, x, torch.tensor(-1.0)) * torch.tensor(2.0), CARD)
    assert externs(made) == [] and ".item()" not in str(generated(made).wrapper)


def test_the_pool_is_the_card_s() -> None:
    def fn(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        t = s.exp() + 1
        y = (x @ x.t()).relu() * t
        return (y @ y).relu() @ y

    plan = PLAN_MEMORY(ORDER(FUSE(DEPENDENCIES(loops(fn, CARD, torch.ones(()))))))
    assert any(a.where == "pool" for a in plan.allocations)


def test_on_the_cpu_other_devices_are_the_library_s() -> None:
    def fn(x: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, m * 2, torch.empty(3, device="meta")

    made = loops(fn, X, torch.ones(2, device="meta"))
    assert [why for _, why in externs(made)] == ["lower.other_device"] * 2
    assert len(generated(made, CPU).kernels) == 1
