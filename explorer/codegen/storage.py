"""Which memory each buffer is in, as the memory plan says."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.loops import Buffer
from explorer.ir.memory import Allocation, MemoryPlan

POOL = "pool"
"""The name of the call's one pool."""


class Storage:
    """Answers, for a buffer, whose memory it lives in and where."""

    def __init__(self, plan: MemoryPlan, buffers: Mapping[str, Buffer]) -> None:
        self.allocations: dict[str, Allocation] = {a.buffer: a for a in plan.allocations}
        self.buffers = buffers

    def root(self, buffer: str) -> str:
        """The buffer whose memory `buffer` was given: itself, or where reuse and aliases lead."""
        while True:
            allocation = self.allocations.get(buffer)
            if allocation is not None and allocation.where == "reuse" and allocation.of is not None:
                buffer = allocation.of
            elif allocation is None and (alias := self.buffers[buffer].alias_of) is not None:
                buffer = alias
            else:
                return buffer

    def in_pool(self, buffer: str) -> bool:
        allocation = self.allocations.get(self.root(buffer))
        return allocation is not None and allocation.where == "pool"

    def base(self, buffer: str) -> str:
        """The name of the tensor to take a pointer of: the pool, or the root buffer."""
        return POOL if self.in_pool(buffer) else self.root(buffer)

    def offset(self, buffer: str) -> int:
        """Bytes from the base's pointer to the start of the buffer."""
        return self.allocations[self.root(buffer)].offset if self.in_pool(buffer) else 0
