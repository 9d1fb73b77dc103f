"""Why stock left two operations apart: a reason for every pair, and one that is the obstacle."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import Tensor

from explorer.core.reasons import CATALOGUE
from explorer.ir.record import HalfData, WhyData
from fusion_pairs import REFUSED, Pair
from stock_compiling import inference

OURS_ALONE = {"refuse.serial", "refuse.kernels"}
"""Obstacles that stock does not see in these programs."""

OTHERWISE = {
    "refuse.far_apart": ("stock.peak_memory",),
}
"""What stock's obstacle is where ours is another."""


def home(half: HalfData, id: str) -> str:
    return next(item.id for item in half.schedule.items if id in item.operations)  # type: ignore[union-attr]


def verdict(half: HalfData, first: str, second: str) -> WhyData | None:
    """Why the groups of two operations are apart; None where they are one."""
    homes = {home(half, first), home(half, second)}
    if len(homes) == 1:
        return None
    assert half.schedule is not None
    return next(
        f.why for f in half.schedule.fusions if {home(half, f.first), home(half, f.second)} == homes and not f.ok
    )


@pytest.mark.parametrize("pair", [p for p in REFUSED if p.code not in OURS_ALONE], ids=lambda pair: pair.code)
def test_without_the_named_obstacle_they_fuse_or_another_is_named(pair: Pair) -> None:
    blocked, free = (inference(case.fn, *case.inputs()) for case in (pair.blocked, pair.free))
    ids = [[op.id for op in half.operations if op.kind != "nothing"] for half in (blocked, free)]
    found = verdict(blocked, ids[0][pair.blocked.pair[0]], ids[0][pair.blocked.pair[1]])
    assert found is not None
    assert found.code in (pair.code, *OTHERWISE.get(pair.code, ()))
    after = verdict(free, ids[1][pair.free.pair[0]], ids[1][pair.free.pair[1]])
    assert after is None or after.code != found.code


def network(x: Tensor, w: Tensor) -> Tensor:
    y = torch.layer_norm(x @ w, (16,))
    z = torch.softmax(y.transpose(-1, -2), -1)
    return (torch.nn.functional.gelu(y) + z.transpose(-1, -2)).sum(0)


def test_every_pair_has_a_reason() -> None:
    half = inference(network, torch.randn(8, 16), torch.randn(16, 16))
    assert half.schedule is not None
    refused = {frozenset((home(half, f.first), home(half, f.second))) for f in half.schedule.fusions if not f.ok}
    assert refused == {frozenset(pair) for pair in combinations([item.id for item in half.schedule.items], 2)}
    for fusion in half.schedule.fusions:
        assert fusion.why.code in CATALOGUE and fusion.why.code != "stock.own_words"
        assert home(half, fusion.first) == home(half, fusion.second) or not fusion.ok
    assert len(half.operations) - len(half.schedule.items) == sum(fusion.ok for fusion in half.schedule.fusions)


def test_loops_in_one_function_are_not_called_one_kernel() -> None:
    """stock's C++ backend puts loops that nothing has to run between into one function, each by itself."""
    half = inference(lambda x, y: (x.exp(), y.sin()), torch.randn(8), torch.randn(9))
    assert [item.id for item in half.schedule.items] == ["k0.1", "k0.2"]  # type: ignore[union-attr]
    assert [kernel.function for kernel in half.kernels] == [half.kernels[0].function] * 2
    assert [kernel.origins for kernel in half.kernels] == [("op0",), ("op1",)]
    assert "sin" in str(half.kernels[0].source) and "k0.1" in str(half.kernels[1].source)


def test_a_part_of_a_result_is_no_library_call() -> None:
    half = inference(lambda x: [each + 1 for each in torch.linalg.qr(x)], torch.randn(4, 4))
    assert half.schedule is not None
    parts = {op.id for op in half.operations if op.target == "a part of a result"}
    assert len(parts) == 2 and all(op.kind == "nothing" for op in half.operations if op.id in parts)
    for fusion in half.schedule.fusions:
        assert "MultiOutput" not in fusion.why.detail
        if not parts.isdisjoint((fusion.first, fusion.second)):
            assert fusion.why.title == "one of the two has no kernel"
    assert [kind for kind, _ in half.nodes.values()].count("extern") == 1


def test_no_title_says_otherwise_than_its_detail() -> None:
    half = inference(lambda x: (x[:8].exp(), x[8:].t().contiguous() + 1), torch.randn(16, 16))
    assert half.schedule is not None
    (why,) = [fusion.why for fusion in half.schedule.fusions]
    assert why.title == "they read different elements of the same tensor" and why.detail == "arg0_1"
