"""What stock's Inductor reports: hints on performance, autotuning, and CUDA graphs, in plain words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from explorer.core.text import count, duration
from explorer.ir.record import CompileData, RecordData
from explorer.records.data.provenance import file_names, provenance

MOST_HINTS = 50
"""How many hints of one compile are printed."""

PLAIN = (
    (
        r"Using FallbackKernel: (?:torch\.ops\.)?(.{1,200})",
        r"\1 runs as PyTorch's own operator: Inductor generates no code for it",
    ),
    (r"Skip comprehensive padding on CPU", ""),  # said of each compile for a CPU
    (
        r"possibly bad tiling: (.*)",
        r"the loops of a kernel can be tiled in several ways, and the one taken may be slow: \1",
    ),
    (
        r"Found optimal tiling with (\d{1,9}) tiles but \S{1,99}\.max_tiles set to (\w{1,9})\b.*",
        r"a kernel would be fastest with \1 tiled loops, but torch._inductor.config.triton.max_tiles is \2; raise it",
    ),
    (
        r"Reduction over non-contiguous dims\..*",
        "a reduction reads memory that is not contiguous; "
        "torch._inductor.config.triton.tile_reductions = True may make it faster",
    ),
    (
        r"Grad tensors (.*) will be copied during cudagraphs execution.*",
        r"each call copies the gradients \1 into the memory of a CUDA graph; where they stay at their addresses, "
        r"torch._dynamo.mark_static_address(gradient) avoids the copy",
    ),
)


def hints(record: RecordData) -> Iterator[str]:
    names = file_names(record)
    for compile in record.compiles:
        found = Counter(
            (_in_words(event.fields.get("said", "")), event.fields.get("at", ""))
            for event in compile.events
            if event.kind == "PerformanceHint"
        )
        shown = [(hint, at, times) for (hint, at), times in found.items() if hint]
        for hint, at, times in shown[:MOST_HINTS]:
            file, _, line = at.rpartition(":")
            place = f" ({names.get(file, file)}:{line})" if at else ""
            yield f"{compile.id} {compile.name}: {hint}{place}{f', {times} times' * (times > 1)}"
        if len(shown) > MOST_HINTS:
            yield f"{compile.id} {compile.name}: and {len(shown) - MOST_HINTS} more"


def _in_words(hint: str) -> str:
    for pattern, plain in PLAIN:
        if (found := re.fullmatch(pattern, hint)) is not None:
            return found.expand(plain)
    return hint


MOST_CANDIDATES = 10
"""How many candidates of one operation are printed."""

_CANDIDATE = re.compile(r"([-+.\w]{1,20}) (\S+) ?(.*)")


def autotuning(record: RecordData) -> Iterator[str]:
    names = file_names(record)
    for compile in record.compiles:
        for fields in (event.fields for event in compile.events if event.kind == "Autotuned"):
            yield from _operation(compile, fields, names)


def _operation(compile: CompileData, fields: Mapping[str, str], names: Mapping[str, str]) -> Iterator[str]:
    at = [fields["at"]] if fields.get("at") else _lines(compile, fields.get("node", ""))
    places = [f"{names.get(file, file)}:{line}" for file, _, line in (each.rpartition(":") for each in at)]
    place = f" ({', '.join(places)})" if places else ""
    number, took = fields.get("count", ""), _seconds(fields.get("seconds", ""))
    text = count(int(number), "candidate") if re.fullmatch("[0-9]{1,9}", number) else "candidates"
    text += f", measured in {duration(took)}" if took is not None else ", measured before"
    yield f"{compile.id} {fields.get('operation', '')} of {fields.get('inputs', '')}{place}: {text}:"
    found = [match for each in fields.get("candidates", "").splitlines() if (match := _CANDIDATE.fullmatch(each))]
    best = _seconds(found[0][1]) if found else None
    chosen = fields.get("chosen", "")
    for each in found[:MOST_CANDIDATES]:
        seconds, about = _seconds(each[1]), f"  {each[3]}" if each[3] else ""
        times = f" {seconds / best:6.2f}x" if seconds is not None and best else ""
        time = f"{duration(seconds):>8}{times}" if seconds is not None else "  failed"
        yield f"  {time}  {each[2]}{'  <- taken' if each[2] == chosen else ''}{about}"
    if len(found) > MOST_CANDIDATES:
        yield f"  and {count(len(found) - MOST_CANDIDATES, 'slower one')}"
    if chosen and chosen not in [each[2] for each in found[:MOST_CANDIDATES]]:
        yield f"  taken: {chosen}"
    if fields.get("fastest"):
        yield "  the log names only the fastest"
    elif not chosen:
        yield "  which one is taken is decided when it is known what can be fused into each"


def _lines(compile: CompileData, name: str) -> list[str]:
    """The lines that led to a node which a pass made."""
    graphs = (stage.graph for stage in reversed(compile.stages) if stage.graph is not None)
    found = next((node for graph in graphs for node in graph.nodes if node.name == name), None)
    return sorted(provenance(compile).source_lines(found.id))[:MOST_CANDIDATES] if found is not None else []


def _seconds(text: str) -> float | None:
    """None for what is no finite time, as that of a candidate that failed."""
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?(?:e[-+]\d{1,2})?", text) else None


MOST_RECORDINGS = 10
"""How many recordings of one compile are printed."""

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


def cudagraphs(record: RecordData) -> Iterator[str]:
    for compile in record.compiles:
        yield from _cudagraphs(compile)


def _cudagraphs(compile: CompileData) -> Iterator[str]:
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
    for fields in recorded[:MOST_RECORDINGS]:
        after = f", after graph {fields['after']}" if fields.get("after") else ""
        text = f"recorded again, since {fields['again']}" if fields.get("again") else "the first recording"
        yield f"  {fields.get('mode', '')} of inputs {fields.get('inputs', '')}{after}: {text}"
        yield from (f"    to avoid this: {helps}" for part, helps in HINTS if part in fields.get("again", ""))
    if len(recorded) > MOST_RECORDINGS:
        yield f"  and {len(recorded) - MOST_RECORDINGS} more"
