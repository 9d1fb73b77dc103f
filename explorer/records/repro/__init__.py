"""Stand-alone files that reproduce a graph or a kernel of a record, with torch alone. Making one runs nothing."""

from __future__ import annotations

from explorer.ir.record import RecordData
from explorer.records.repro.graph import repro_graph
from explorer.records.repro.kernel import repro_kernel


def of(record: RecordData, what: str = "", compile: str = "") -> str:
    """The file for a kernel or a graph's stage, by its id; by default for the first graph of the record. Raises
    ValueError for one that the record lacks, and CannotReproduce."""
    chosen = [each for each in record.compiles if not compile or each.id == compile]
    for each in chosen:
        for stage in each.stages:
            if stage.graph is not None and what in ("", stage.id):
                return repro_graph(record, each, stage)
        for half in each.halves:
            for kernel in half.kernels:
                if what and what == kernel.id:
                    return repro_kernel(record, each, half, kernel)
    kernels = [kernel.id for each in chosen for half in each.halves for kernel in half.kernels]
    graphs = [stage.id for each in chosen for stage in each.stages if stage.graph is not None]
    known = ", ".join([*kernels, *graphs][:20]) or "none"
    raise ValueError(f"the record has no kernel or graph {what[:80]!r}; it has {known}")
