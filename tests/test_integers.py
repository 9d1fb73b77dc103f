"""Integers of the program, beyond 64 bits too, and powers: what torch makes of them in eager."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

import explorer


@pytest.mark.parametrize("computed", ["x + n * n", "x * (n << 3)", "x * (n * n * n // 7)", "torch.full((2,), n + n)"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_integers_of_the_program_that_leave_64_bits(computed: str, dtype: torch.dtype) -> None:
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x, n):\n    return {computed}", space)
    compiled = explorer.compile(space["fn"], dynamic=True)
    for n in (3, 5, 2**40, 2**62, 2**63 - 1, -(2**63), 7):
        found: list[Any] = []
        for call in (space["fn"], compiled):
            try:
                found.append(call(torch.ones(2, dtype=dtype), n).tolist())
            except (RuntimeError, OverflowError) as error:
                found.append(type(error))
        assert found[0] == found[1]


OUT_OF_64_BITS = [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**20, -(10**400)]

GIVEN_TO_TORCH = [
    "x * n", "x + n", "x - n", "n > x", "x // n", "torch.full((2,), n)", "torch.tensor(n)", "torch.arange(n, n + 2)",
    "x.clone().fill_(n)", "x.clamp(max=n)", "x ** n", "operator.setitem(x, 0, n)", "x.roll(n)",
    "x.narrow(0, 0, n % 2).add_(n)", "torch.where(x > 0, n, x)", "float(n) * x", "n * 2", "x.unsqueeze(n)", "x[n:]",
    "x.new_tensor([n])",
]  # fmt: skip


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("computed", GIVEN_TO_TORCH)
def test_what_torch_makes_of_integers_that_leave_64_bits(computed: str, is_used: bool) -> None:
    """Also where nobody asks for the result, which is no part of the compiled graph."""
    space: dict[str, Any] = {"torch": torch, "operator": operator}
    exec(f"def fn(x, n=3):\n    y = {computed}\n    return {'y' if is_used else 'x * 1'}", space)
    for backend in ("explorer", "aot_eager"):
        compiled = explorer.compile(space["fn"], dynamic=True, backend=backend)
        for n in (3, 5, *OUT_OF_64_BITS, True, -1):
            found: list[Any] = []
            for call in (space["fn"], compiled):
                try:
                    found.append(str(call(torch.ones(3, dtype=torch.int64), n)))
                except (RuntimeError, OverflowError, IndexError, TypeError, ValueError) as error:
                    found.append((type(error), str(error)))
            assert found[0] == found[1]


OF_NUMBERS = [
    "torch.tensor([n, 1])", "torch.tensor([[n, n // 2], [1, 2]])", "torch.as_tensor((n, 2))", "torch.tensor([n, 1.5])",
    "torch.tensor([n, True])", "torch.tensor([n, 1], dtype=torch.float64)", "torch.tensor(data=[n, 1])",
    "torch.tensor(n)", "x.new_tensor([n, 3])", "x.long().new_tensor([n, 3])", "torch.LongTensor([n, 2])",
    "torch.Tensor([n, 2])", "torch.tensor([x.shape[0], n])", "torch.tensor([n % 100, 1], dtype=torch.int8)",
    "torch.asarray([n])",
    "torch.tensor([n, 2.0], requires_grad=True)", "torch.tensor([n, 1j])",
]  # fmt: skip


@pytest.mark.parametrize("made", OF_NUMBERS)
def test_tensors_of_integers_of_the_program(made: str) -> None:
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x, n):\n    return {made}", space)
    compiled = explorer.compile(space["fn"], dynamic=True, fullgraph=True)
    for n in (3, 5, 2**31, -(2**31) - 1, 2**40 + 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63) + 1):
        assert str(compiled(torch.ones(3), n)) == str(space["fn"](torch.ones(3), n))


def test_lists_of_integers_of_the_program_need_one_compile() -> None:
    compiled = explorer.compile(lambda x, n: torch.tensor([n, 1]) + x, dynamic=True)
    with explorer.watch(live=False) as log:
        for n in (3, 5, 2**40):
            compiled(torch.ones(2), n)
    assert len(log.record.data.compiles) == 1


@pytest.mark.parametrize("backend", ["explorer", "eager", "aot_eager"])
@pytest.mark.parametrize("other", [-1, -2, -1.5, True, False, 2, 0])
def test_powers_of_and_by_numbers(other: Any, backend: str) -> None:
    """FX writes calls of operators as Python does, where a sign is applied after a power."""
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float32, torch.complex64):
        x = torch.tensor([1, 0, 1, 2]).to(dtype)
        for power in (lambda x: other**x, lambda x: x**other, lambda x: torch.pow(x, other), lambda x: x.float() ** x):
            found = []
            for call in (power, explorer.compile(power, backend=backend)):
                try:
                    found.append((call(x).tolist(), call(x).dtype))
                except RuntimeError as error:
                    found.append(str(error))
            assert str(found[0]) == str(found[1])


def test_the_power_of_a_negative_number_by_one_that_only_the_graph_knows() -> None:
    call = explorer.compile(lambda x: x * (-2) ** int(x.sum().item()), backend="eager")
    assert [call(torch.ones(n)).tolist() for n in (1, 2, 3)] == [[-2.0], [4.0] * 2, [-8.0] * 3]
