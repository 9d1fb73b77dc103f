"""The memory plan: where each intermediate lives, and what that saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from explorer.core.reasons import Why
from explorer.core.text import Line, Text
from explorer.ir.loops import Size


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where a buffer lives: "pool" at byte `offset` of the call's one pool; "own" in a tensor of its own (it is
    returned, or its size is not known ahead); "reuse" in the storage of `of`, which dies there; "library": the
    operator that makes it allocates it; "none": never in memory. `first` and `last` are positions in the schedule."""

    buffer: str
    where: Literal["pool", "own", "reuse", "library", "none"]
    bytes: Size
    first: int
    last: int
    why: Why
    offset: int = 0
    of: str | None = None


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes are by size hints where sizes are symbolic. `peak_before` is with each buffer in its own allocation freed
    after its last use, `peak_after` with this plan; neither counts inputs."""

    name: str
    allocations: tuple[Allocation, ...]
    pool_bytes: int
    peak_before: int
    peak_after: int

    def text(self) -> Text:
        peaks = f"peak {self.peak_before} -> {self.peak_after} bytes"
        lines = [Line(f"memory {self.name}: pool {self.pool_bytes} bytes, {peaks}")]
        for a in self.allocations:
            place = {"pool": f"pool + {a.offset}", "reuse": f"in {a.of}"}.get(a.where, a.where)
            text = f"  {a.buffer}: {place}, {a.bytes} bytes, live {a.first}..{a.last}  # {a.why}"
            lines.append(Line(text, "", (a.buffer,)))
        return Text(tuple(lines), "text")
