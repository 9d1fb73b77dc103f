"""Which compiled graphs are replayed as CUDA graphs, why others are not, and what was recorded again and why."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.core.text import count
from explorer.ir.record import CompileData, RecordData

SHOWN = 10
"""Recordings that are told one by one."""

HINTS = (
    ("mutated inputs", "write to a new tensor, or to a parameter or buffer, whose memory stays where it is"),
    ("cpu device", "create the tensors of the lines above on the GPU"),
    ("not on a GPU", "create its tensors on a GPU"),
    ("multiple devices", "keep all tensors of the graph on one GPU"),
    ("dynamic shape", "pad inputs to a few sizes, or unset triton.cudagraph_skip_dynamic_graphs"),
    ("data pointer changed", "pass the same tensors, or copy into ones that stay (torch._dynamo.mark_static_address)"),
    ("re-recording limit", "the reason above came too often; from then on it runs without CUDA graphs"),
)
"""What helps against a reason, by a part of torch's words for it."""

OURS = "launches its kernels one by one: this compiler records no CUDA graphs"


def skipped(compile: CompileData) -> tuple[str, ...]:
    """Why the compile's graphs run without."""
    found = (e.fields.get("why", "") for e in compile.events if e.kind == "CudagraphSkipped")
    return tuple(dict.fromkeys(found))


def lines(record: RecordData) -> Iterator[str]:
    for compile in record.compiles:
        yield from _of(compile)


def _of(compile: CompileData) -> Iterator[str]:
    whose = f"{compile.id} {compile.name}"
    if compile.engine == "explorer":
        if any(half.runs and half.target.startswith("cuda") for half in compile.halves):
            yield f"{whose}: {OURS}"
        return
    for why in skipped(compile):
        yield f"{whose}: no CUDA graph: {why or 'torch gives no reason'}"
        yield from (f"  to avoid this: {helps}" for part, helps in HINTS if part in why)
    parts = [event.fields for event in compile.events if event.kind == "CudagraphPart"]
    apart = [fields for fields in parts if fields.get("why")]
    if apart:
        yield f"{whose}: of {count(len(parts), 'part')} of its schedule {len(apart)} cannot be recorded:"
        yield from (f"  part {fields.get('number')}: {fields.get('why')}" for fields in apart)
    recorded = [event.fields for event in compile.events if event.kind == "CudagraphRecorded"]
    if recorded:
        again = sum(bool(fields.get("again")) for fields in recorded)
        because = f", {again} of them because no earlier recording fitted" if again else ""
        yield f"{whose}: recorded {count(len(recorded), 'CUDA graph')}{because}:"
    elif any(event.kind == "CudagraphUsed" for event in compile.events) and not skipped(compile):
        yield f"{whose}: replayed as CUDA graphs; recordings are listed for programs under explorer.watch()"
    for fields in recorded[:SHOWN]:
        after = f", after graph {fields['after']}" if fields.get("after") else ""
        said = f"recorded again, since {fields['again']}" if fields.get("again") else "the first recording"
        yield f"  {fields.get('mode', '')} of inputs {fields.get('inputs', '')}{after}: {said}"
        yield from (f"    to avoid this: {helps}" for part, helps in HINTS if part in fields.get("again", ""))
    if len(recorded) > SHOWN:
        yield f"  and {len(recorded) - SHOWN} more"
