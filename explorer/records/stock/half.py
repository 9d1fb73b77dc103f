"""One half (inference, forward or backward) of a compile by stock, while Inductor compiles it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from explorer.ir import record as data
from explorer.ir.memory import MemoryPlan
from explorer.records.to_record.plain import why


@dataclass
class Half:
    """`prefix` makes the names of a backward's buffers and operations distinct from the forward's."""

    name: str
    part: str
    prefix: str = ""
    target: str = ""
    buffers: list[data.BufferData] = field(default_factory=list)
    operations: list[data.OperationData] = field(default_factory=list)
    items: list[data.ItemData] = field(default_factory=list)
    fusions: list[data.FusionData] = field(default_factory=list)
    kernels: list[data.KernelData] = field(default_factory=list)
    wrapper: data.TextData | None = None
    memory: MemoryPlan | None = None
    builds: list[data.BuildData] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    """Ids of the nodes that were lowered, by name."""
    computed: tuple[str, ...] = ()
    """Those among them that call an operator."""
    realized: dict[str, str] = field(default_factory=dict)
    """The Inductor function that realized a buffer, by the buffer's name."""
    updates: dict[str, str] = field(default_factory=dict)
    """Of a buffer that is a new value of another in its memory: the other, by Inductor's names."""
    holds: dict[str, str] = field(default_factory=dict)
    """The id of the node whose value a buffer holds, by Inductor's name of the buffer, where torch tells."""
    signature: int = 0
    """Of its graph, as Inductor got it."""
    lowered: bool = False
    causes: Any = None
    """Which node each operation of a loop body is for (`causes.Causes`)."""
    fusing: Any = None
    """The scheduler's messages on fusion (`fusion.Fusing`)."""
    generating: Any = None
    """What code generation has written (`kernels.Generating`)."""
    recorded: dict[str, str] = field(default_factory=dict)
    runs: bool = True
    module: Any = None
    """The Python module that Inductor wrote, alive, for timing its kernels."""

    def named(self, name: str) -> str:
        return self.prefix + name

    def buffer(self, name: str) -> str:
        """A buffer's name in the record; inputs and constants have the one that both halves know."""
        return self.shown_buffers().get(name, self.named(name))

    def shown_buffers(self) -> dict[str, str]:
        """Names in the record by Inductor's, once all is lowered."""
        if not self.recorded:
            self.recorded = {known.name.removeprefix(self.prefix): known.name for known in self.buffers}
        return self.recorded

    def origins(self, operation: Any) -> tuple[str, ...]:
        """The nodes that a buffer or an operation of Inductor's IR computes."""
        found = (self.ids.get(node.name) for node in operation.get_origins() if hasattr(node, "name"))
        return tuple(dict.fromkeys(id for id in found if id))

    def frozen(self, seconds: Mapping[str, float]) -> data.HalfData:
        """`seconds` are the measured times of kernels and library calls, by id."""
        schedule = data.ScheduleData(tuple(self.items), tuple(self.fusions)) if self.items else None
        kernels = tuple(msgspec.structs.replace(each, seconds=seconds.get(each.id)) for each in self.kernels)
        own = {kernel.id for kernel in kernels}
        calls = {id: spent for id, spent in seconds.items() if id not in own}
        plan = self.memory
        memory = None if plan is None else data.MemoryData(plan.pool_bytes, plan.peak_before, plan.peak_after)
        return data.HalfData(
            self.name, self.target, self._placed(), tuple(self.operations), schedule, memory,
            kernels, self.wrapper, tuple(self.builds), calls, self.coverage(), self.runs,
        )  # fmt: skip

    def _placed(self) -> tuple[data.BufferData, ...]:
        """The buffers with their places in the memory plan."""
        places = {each.buffer: each for each in self.memory.allocations} if self.memory else {}
        return tuple(
            msgspec.structs.replace(
                buffer, where=at.where, where_why=why(at.why), offset=at.offset, of=at.of or "",
                first=at.first, last=at.last,
            )
            if (at := places.get(buffer.name)) is not None
            else buffer
            for buffer in self.buffers
        )  # fmt: skip

    def coverage(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """How each node is computed: the kernels or library calls, or a view."""
        by_node: dict[str, dict[str, list[str]]] = {}
        for operation in self.operations:
            kind = "kernel" if operation.kind == "loop" else "extern" if operation.kind == "extern" else ""
            for id in operation.origins if kind else ():
                by_node.setdefault(id, {}).setdefault(kind, []).append(operation.id)
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for id in self.computed:
            kinds = by_node.get(id, {})
            kind = "extern" if "extern" in kinds else "kernel" if kinds else "view"
            found[id] = (kind, tuple(kinds.get(kind, ())))
        return found
