"""The memory plan that the record has of stock is what the compiled program does with its buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor_config
from torch import Tensor

from explorer.ir.graph import info
from explorer.ir.record import BufferData, HalfData
from explorer.records.check.trial import Trial
from explorer.records.stock.kernel_outputs import KernelOutputs, observed
from explorer.records.stock.observation import Half
from explorer.records.stock.run import stock_run
from stock_compiling import inference


def program(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.tanh(x @ w) * 2
    z = torch.cat([y.sum(1, keepdim=True) @ x[:1], torch.softmax(y, -1) @ w])
    values, _ = torch.topk(z, 3)
    return (torch.softmax(z @ w, -1) @ w).relu() @ w, values


def inputs(train: bool = False) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(8, 16, requires_grad=train), torch.randn(16, 16, requires_grad=train)


def places(half: HalfData) -> dict[str, BufferData]:
    return {buffer.name: buffer for buffer in half.buffers if buffer.where}


class Addresses(KernelOutputs):
    """Where the storage of each buffer begins, at each kernel call."""

    def __init__(self, half: Half) -> None:
        super().__init__(half)
        self.at: list[dict[str, int]] = []

    def run(self, call: Callable[[list[Any]], Any], given: Any) -> None:
        with observed(self.half, self._observer):
            call(list(given))

    def _observer(self, ids: tuple[str, ...], call: Callable[[], Any], given: tuple[Any, ...]) -> Any:
        local = self._frame().f_locals
        names = {buffer.name.removeprefix(self.half.prefix): buffer.name for buffer in self.half.buffers}
        tensors = {name: local[name] for name in names if isinstance(local.get(name), Tensor)}
        self.at.append({names[name]: each.untyped_storage().data_ptr() for name, each in tensors.items()})
        return call()


@pytest.mark.parametrize("train", [False, True])
def test_buffers_that_share_memory_in_the_plan_are_those_that_do(train: bool) -> None:
    with stock_run(Trial(program, inputs(train), {})) as run:
        live = run.observation.compiles[0].halves
        watched = {half.name: Addresses(half) for half in live.values()}
        for half in live.values():
            plain = half.module.call
            graph = next(g for _, name, g in reversed(run.observation.compiles[0].graphs) if name == half.name)
            like = [info(node).value for node in graph.inputs]
            given = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype).fill_(1) for each in like]
            watched[half.name].run(plain, given)
        recorded = {half.name: places(half) for half in run.compiles({})[0].halves}
    assert len(recorded) == (2 if train else 1)
    shared = 0
    for name, seen in watched.items():
        owner: dict[str, str] = {}
        for buffer, place in recorded[name].items():
            owner[buffer] = owner.get(place.of, place.of) if place.where == "reuse" else buffer
        assert any(place.where == "own" for place in recorded[name].values())
        addresses: dict[str, int] = {}
        for at in seen.at:
            for buffer, address in at.items():
                if buffer in owner:
                    shared += owner[buffer] != buffer
                    assert addresses.setdefault(owner[buffer], address) == address, buffer
            own = {owner[buffer] for buffer in at if buffer in owner}
            assert len({addresses[each] for each in own}) == len(own), "two places at one address"
    assert shared


def test_a_plan_says_why_and_how_long() -> None:
    half = inference(program, *inputs())
    assert half.memory is not None and half.schedule is not None
    assert 0 < half.memory.peak_after <= half.memory.peak_before and half.memory.pool == 0
    found = places(half)
    steps = len(half.schedule.items)
    assert all(0 <= each.first <= each.last <= steps and each.where_why for each in found.values())
    codes = {each.where_why.code for each in found.values() if each.where_why}
    assert {"memory.in_place", "memory.taken_over", "memory.alias", "memory.library", "memory.never"} <= codes
    written = {name for operation in half.operations for name in operation.writes}
    assert written <= set(found), "every buffer has a place"
    internal = {name for item in half.schedule.items for name in item.internal}
    assert internal == {each.name for each in found.values() if each.where == "none"}


def test_a_wrapper_that_is_not_read_has_no_plan() -> None:
    with inductor_config.patch(cpp_wrapper=True):
        half = inference(program, *inputs())
    assert half.memory is None and half.kernels and not places(half)


def test_a_pool_of_stocks() -> None:
    with inductor_config.patch(memory_planning=True):
        half = inference(program, *inputs())
    pooled = [each for each in half.buffers if each.where == "pool"]
    assert half.memory is not None and pooled
    assert all(0 <= each.offset and each.offset + each.bytes <= half.memory.pool for each in pooled)
    for one in pooled:
        for other in pooled:
            apart = one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
            assert one is other or apart or one.last < other.first or other.last < one.first
