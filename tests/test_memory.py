"""The memory plan: places, reuse, and that no buffer is clobbered while it is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import explorer
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY, SEPARATE, reasons
from explorer.compiler.schedule.verify import verify_memory
from explorer.ir.schedule import MemoryPlan, Schedule
from lowering import lowered
from schedule_reference import run_schedule


def planned(fn, *inputs, separate: bool = False, **options) -> tuple[Schedule, MemoryPlan]:
    dependencies = DEPENDENCIES(lowered(fn, *inputs, **options)[0])
    schedule = ORDER(SEPARATE(dependencies) if separate else FUSE(dependencies))
    plan = PLAN_MEMORY(schedule)
    made = {buffer.name for operation in schedule.loops.operations for buffer in operation.writes}
    assert {a.buffer for a in plan.allocations} == made and len(plan.allocations) == len(made)
    return schedule, plan


def places(plan: MemoryPlan) -> list[str]:
    return [a.where for a in plan.allocations]


def chain(x, w):
    for _ in range(6):
        x = torch.relu(x @ w)
    return x


X, W = torch.randn(64, 64), torch.randn(64, 64)
BYTES = 64 * 64 * 4


def test_a_chain_lives_in_two_places():
    schedule, plan = planned(chain, X, W)
    assert plan.pool_bytes == plan.peak_before == 2 * BYTES
    assert plan.peak_after == 3 * BYTES, "the result is returned while the pool is held"
    assert plan.allocations[-1].why.code == reasons.RETURNED
    got = run_schedule(schedule, [X, W], plan)[0]
    torch.testing.assert_close(got, chain(X, W), rtol=1e-4, atol=1e-3)


def test_a_large_pool_does_not_raise_the_peak():
    x = torch.randn(1024, 1024)
    _, plan = planned(chain, x, x)
    assert plan.peak_after <= 1.25 * plan.peak_before
    assert {reasons.SHORT_LIVED, reasons.TAKEN_OVER} & {a.why.code for a in plan.allocations}


def test_of_several_free_places_the_first_is_taken():
    """Not that which comes first in a set of strings, which differs from one process to the next."""

    def several(x, w):
        return torch.stack([(x + number) @ w for number in range(12)]).sum(0) @ w @ w

    _, plan = planned(several, X, W, dynamic=True)
    places = [a.buffer for a in plan.allocations if a.where == "own"]
    taken = [a.of for a in plan.allocations if a.why.code == reasons.TAKEN_OVER]
    assert len(places) > 12
    assert taken[-2:] == places[:2]


def test_in_place_where_the_last_read_is_at_the_point_that_is_written():
    _, plan = planned(lambda x, w: torch.relu(x @ w) @ w, X, W)
    product, activation, _ = plan.allocations
    assert (activation.where, activation.of, activation.why.code) == ("reuse", product.buffer, reasons.IN_PLACE)


def test_not_in_place_where_another_element_is_read():
    for fn in (lambda x, w: torch.relu(x @ w).flip(0) @ w, lambda x, w: (torch.relu(x @ w).t() + 1) @ w):
        schedule, plan = planned(fn, X, W)
        product = schedule.items[0].outputs[0].name
        moved = [a for a in plan.allocations if a.of == product]
        for a in moved:
            kernel = next(item for item in schedule.items if a.buffer in getattr(item, "ids", ()))
            (loop,) = (step.loop for step in kernel.steps if step.loop.id == a.buffer)
            assert f"load {product}[{loop.index}]" in str(schedule.text())
        torch.testing.assert_close(run_schedule(schedule, [X, W], plan)[0], fn(X, W), rtol=1e-3, atol=1e-2)


def test_not_in_place_while_still_needed():
    def fn(x, w):
        y = x @ w
        return torch.relu(y) @ w + y

    schedule, plan = planned(fn, X, W)
    torch.testing.assert_close(run_schedule(schedule, [X, W], plan)[0], fn(X, W), rtol=1e-3, atol=1e-2)
    first, second = plan.allocations[:2]
    assert not (second.where == "reuse" and second.of == first.buffer)


def test_what_is_returned_or_in_registers_has_no_slot():
    _, plan = planned(lambda x, w: (x.exp().sum(1, keepdim=True) + x).relu(), X, W)
    assert set(places(plan)) == {"none", "own"}
    assert plan.pool_bytes == 0


def test_unknown_sizes_have_tensors_of_their_own():
    _, plan = planned(chain, X, W, dynamic=True)
    assert "pool" not in places(plan)
    assert any(a.why.code == reasons.UNKNOWN_SIZE for a in plan.allocations)
    assert plan.peak_after <= plan.peak_before


def test_updates_of_inputs_stay_in_the_input():
    def fn(x, y):
        x.add_(y)
        return x * 2

    schedule, plan = planned(fn, X, W)
    alias = [a for a in plan.allocations if a.why.code == reasons.ALIAS]
    assert len(alias) == 1 and alias[0].where == "reuse"
    x = X.clone()
    got = run_schedule(schedule, [x, W], plan)[0]
    torch.testing.assert_close(x, X + W)
    torch.testing.assert_close(got, (X + W) * 2)


def test_the_verifier_sees_an_overlap():
    _, plan = planned(chain, X, W, separate=True)
    slots = [a for a in plan.allocations if a.where == "pool"]
    assert len(slots) > 1
    together = tuple(replace(a, offset=0) if a.where == "pool" else a for a in plan.allocations)
    with pytest.raises(AssertionError, match="share bytes"):
        verify_memory(replace(plan, allocations=together))


@pytest.mark.parametrize("separate", [False, True], ids=["fused", "separate"])
def test_residuals_in_the_pool(separate):
    def compiled_bytecode(x, w):
        for _ in range(3):
            h = torch.relu(x @ w)
            x = x + (h @ w.t()) / h.sum(1, keepdim=True)
        return x, h.sum(0)

    schedule, plan = planned(compiled_bytecode, X, W, separate=separate)
    for got, want in zip(run_schedule(schedule, [X, W], plan), compiled_bytecode(X, W), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3)], ids=str)
def test_an_empty_buffer_of_unknown_sizes_has_memory_of_its_own(shape: tuple[int, ...]) -> None:
    """It takes 0 bytes of the pool, which is made before the sizes are known."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch.add(x, x, out=x)
        return *x.topk(1, dim=0 if x.shape[0] else -1), x

    compiled = explorer.compile(function, dynamic=True, fullgraph=True)
    for more in (0, 2):
        x = torch.randn([size + more * (size > 1) for size in shape])
        for found, expected in zip(compiled(x.clone()), function(x), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU])
def test_empty_buffers_alive_together_are_different_tensors(kind: type) -> None:
    """Else a library call is given its argument as its result."""
    net, x = kind(3, 4), torch.randn(5, 0, 3, requires_grad=True)
    found = []
    for made in (lambda f: f, explorer.compile):
        out, _ = made(lambda x: net(x))(x)
        found.append([out, *torch.autograd.grad(out.square().sum(), [x, *net.parameters()])])
    torch.testing.assert_close(found[1], found[0])
