"""Dependencies, fused kernels, their order and the memory plan: what becomes one kernel, why operations are or are not
together, and where each intermediate lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from explorer.core.origin import Origins
from explorer.core.reasons import Verdict, Why
from explorer.core.text import Line, Text, count
from explorer.ir.loops import Axis, Extern, Loop, Loops, Size, print_operation


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write: the elements `index` of `buffer` for all points of `axes`. `index` None: all of it, in an
    order not known (a library call, an index from data)."""

    buffer: str
    index: Size | None
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Dependencies:
    """`reads` and `writes` by operation id; `after[b]` are the operations that must run before b, each with the buffer
    through which (a read after a write, a write after a read, the order of random draws)."""

    loops: Loops
    reads: dict[str, tuple[Access, ...]]
    writes: dict[str, tuple[Access, ...]]
    after: dict[str, dict[str, str]]
    users: dict[str, tuple[str, ...]]
    """Operations that read each buffer."""
    forbidden: frozenset[frozenset[str]] = frozenset()
    """Pairs of operations that a person asked not to fuse."""

    def text(self) -> Text:
        lines = [Line(f"dependencies {self.loops.name}")]
        for operation in self.loops.operations:
            needs = ", ".join(f"{id} ({through})" for id, through in self.after[operation.id].items())
            lines.append(Line(f"  {operation.id} after {needs or 'nothing'}", operation.id, operation.origins))
            for read in self.reads[operation.id]:
                lines.append(Line(f"    reads {read.buffer}[{'*' if read.index is None else read.index}]"))
        return Text(tuple(lines), "text")


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """What was decided for two operations (ids of the operations, not of the kernels that they were in by then)."""

    first: str
    second: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FusionTried:
    """An event: `can_fuse` was asked about two groups, for which these two operations speak. `later`: they fit, and are
    put off until nothing is left that saves memory traffic."""

    first: str
    second: str
    verdict: Verdict
    later: bool = False


@dataclass(frozen=True, slots=True)
class KernelLoop:
    """A loop inside a kernel, its axes renamed to the kernel's.

    `inner` says that it runs at each point of outer x inner axes (a reduction runs there and yields one value for each
    outer point); else once for each outer point.
    """

    loop: Loop
    inner: bool


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Loops that run as one kernel: for each point of `outer`, the steps in order.

    Where a step reads, at its own point, what an earlier step wrote at that point, it takes the value. `internal` are
    the buffers that nobody outside the kernel reads: they need no memory (a code generator may keep a row of one in a
    scratch array where a later pass over `inner` reads it).
    """

    id: str
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    steps: tuple[KernelLoop, ...]
    internal: frozenset[str]
    origins: Origins

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(step.loop.id for step in self.steps)


@dataclass(frozen=True)
class Fused:
    """Kernels and library calls, not yet ordered, and why: `verdicts` on pairs of loops; `excluded`, what is fused with
    nothing; `otherwise`, for two kernels between which no verdict is listed."""

    dependencies: Dependencies
    items: tuple[FusedKernel | Extern, ...]
    verdicts: tuple[FusionDecision, ...]
    excluded: dict[str, Why]
    otherwise: Why

    def text(self) -> Text:
        lines = [Line(f"fused {self.dependencies.loops.name}: {count(len(self.items), 'item')}")]
        lines += _print_items(self.items)
        lines.append(Line("  verdicts"))
        for fusion in self.verdicts:
            mark = "+" if fusion.verdict.ok else "-"
            cause = (fusion.first, fusion.second)
            lines.append(Line(f"    {mark} {fusion.first} with {fusion.second}: {fusion.verdict.why}", "", cause))
        if len(self.items) > 1:
            lines += [Line(f"    - {id} with any: {why}", "", (id,)) for id, why in self.excluded.items()]
            lines.append(Line(f"    - any other two kernels: {self.otherwise}"))
        return Text(tuple(lines), "text")


@dataclass(frozen=True)
class Schedule:
    """The items in the order in which they run. `live[buffer]` is the first and last position that touches it, -1 for
    inputs and len(items) for what is returned."""

    fused: Fused
    items: tuple[FusedKernel | Extern, ...]
    live: dict[str, tuple[int, int]]

    @property
    def loops(self) -> Loops:
        return self.fused.dependencies.loops

    def text(self) -> Text:
        title = Line(f"schedule {self.loops.name}: {count(len(self.items), 'item')}")
        return Text((title, *_print_items(self.items)), "python")


def _print_items(items: tuple[FusedKernel | Extern, ...]) -> list[Line]:
    lines: list[Line] = []
    for item in items:
        if isinstance(item, Extern):
            lines += print_operation(item)
            continue
        outer = "".join(f"[{axis.symbol}<{axis.size}]" for axis in item.outer)
        inner = "".join(f"[{axis.symbol}<{axis.size}]" for axis in item.inner)
        head = f"  kernel {item.id}: for {outer or '[]'}{' inner ' + inner if inner else ''}"
        lines.append(Line(head, item.id, item.origins))
        for step in item.steps:
            lines += print_operation(step.loop, "    ")
        if item.internal:
            lines.append(Line(f"    never in memory: {', '.join(sorted(item.internal))}"))
    return lines


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
