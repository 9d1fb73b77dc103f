"""Which memory each buffer is in, as the memory plan says."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.loops import Buffer
from explorer.ir.memory import Allocation, MemoryPlan

POOL = "(pool)"
"""Stands for the call's one pool among buffers' names; no buffer can have it."""


class Storage:
    """Answers, for a buffer, whose memory it lives in and where."""

    def __init__(self, plan: MemoryPlan, buffers: Mapping[str, Buffer]) -> None:
        self.allocations: dict[str, Allocation] = {a.buffer: a for a in plan.allocations}
        self.buffers = buffers
        self.last: dict[str, int] = {}
        """The last position in the schedule that uses each tensor, by itself or by what lies in its memory."""
        for a in plan.allocations:
            tensor = self.tensor(a.buffer)
            self.last[tensor] = max(self.last.get(tensor, -1), a.last)

    def root(self, buffer: str) -> str:
        """The buffer whose memory `buffer` was given: itself, or where reuse and aliases lead."""
        while True:
            allocation = self.allocations.get(buffer)
            if allocation is None or allocation.where != "reuse" or allocation.of is None:
                return buffer
            buffer = allocation.of

    def tensor(self, buffer: str) -> str:
        """The buffer whose tensor to use for `buffer`: as `root`, but a view that an operator returned is a tensor of
        its own, with its own first element."""
        while True:
            if self.buffers[buffer].kind == "extern" and self.buffers[buffer].alias_of is not None:
                return buffer
            allocation = self.allocations.get(buffer)
            if allocation is None or allocation.where != "reuse" or allocation.of is None:
                return buffer
            buffer = allocation.of

    def in_pool(self, buffer: str) -> bool:
        allocation = self.allocations.get(self.tensor(buffer))
        return allocation is not None and allocation.where == "pool"

    def base(self, buffer: str) -> str:
        """The name of the tensor to take a pointer of: the pool, or a buffer with a tensor of its own."""
        return POOL if self.in_pool(buffer) else self.tensor(buffer)

    def offset(self, buffer: str) -> int:
        """Bytes from the base's pointer to the start of the buffer."""
        return self.allocations[self.tensor(buffer)].offset if self.in_pool(buffer) else 0
