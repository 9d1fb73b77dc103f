"""The oracle for schedules: items in order, kernels step by step over blocks of their outer points, memory as planned.

Whatever a correct code generator may assume is made to fail here when it is false: fresh memory holds garbage, blocks
run in reverse, and a buffer that is dead or never in memory cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from explorer.compiler.schedule.memory import lifetimes
from explorer.ir.loops import Buffer, Extern, View
from explorer.ir.schedule import Allocation, FusedKernel, MemoryPlan, Schedule
from loops_reference import Grid, Memory, Run, storage_of

BLOCKS = 3
GARBAGE = 0x7F
"""Each byte of fresh memory: huge in every integer dtype, NaN or huge in every floating one."""


def run_schedule(schedule: Schedule, inputs: Sequence[Any], plan: MemoryPlan | None = None) -> tuple[Any, ...]:
    """Run on real inputs, one for each placeholder; updated inputs are updated. With `plan`, buffers live where it
    says. Raises KeyError where a buffer is read that is not, or no longer, in memory."""
    with torch.no_grad():
        return _Scheduled(schedule, plan, inputs).run()


class _Scheduled(Run):
    def __init__(self, schedule: Schedule, plan: MemoryPlan | None, inputs: Sequence[Any]) -> None:
        super().__init__(schedule.loops, inputs)
        self.schedule = schedule
        self.plan: dict[str, Allocation] = {a.buffer: a for a in plan.allocations} if plan else {}
        self.pool = torch.full((plan.pool_bytes if plan else 0,), GARBAGE, dtype=torch.uint8)
        self.ends = {name: last for name, (_, last) in (lifetimes(self.plan) if plan else schedule.live).items()}

    def run(self) -> tuple[Any, ...]:
        for at, item in enumerate(self.schedule.items):
            if isinstance(item, Extern):
                self.call(item)
            else:
                self._kernel(item)
            for name in [name for name in self.memory if self.ends.get(name) == at]:
                del self.memory[name]
        return tuple(self._output(value) for value in self.loops.outputs)

    def allocate(self, buffer: Buffer) -> torch.Tensor:
        place = self.plan.get(buffer.name)
        if buffer.alias_of is not None or (place is not None and place.where == "reuse"):
            of = place.of if place is not None and place.of is not None else buffer.alias_of
            assert of is not None
            self.memory[buffer.name] = self.memory[of]
        elif place is not None and place.where == "pool":
            dtype = buffer.layout.dtype
            self.pool[place.offset : place.offset + int(place.bytes)] = GARBAGE
            self.memory[buffer.name] = Memory(self.pool.view(dtype), place.offset // dtype.itemsize)
        else:
            elements = self.size(buffer.layout.extent)
            bytes = torch.full((elements * buffer.layout.dtype.itemsize,), GARBAGE, dtype=torch.uint8)
            self.memory[buffer.name] = storage_of(bytes.view(buffer.layout.dtype))
        return self.tensor(View(buffer.name, buffer.layout))

    def _kernel(self, kernel: FusedKernel) -> None:
        for step in kernel.steps:
            self.allocate(step.loop.buffer)
        points = self.size(kernel.outer[0].size) if kernel.outer else 1
        block = max(1, -(-points // BLOCKS))
        for start in reversed(range(0, points, block)):
            for step in kernel.steps:
                self.compute(Grid(self, step.loop, slice(start, start + block) if kernel.outer else None))
        for name in kernel.internal:
            del self.memory[name]
