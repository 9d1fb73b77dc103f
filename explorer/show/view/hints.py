"""What torch says could be faster (its log artifact perf_hints), in plain words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from explorer.ir.record import RecordData
from explorer.show.view.provenance import file_names

SHOWN = 50
"""Hints that are told of one compile."""

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


def lines(record: RecordData) -> Iterator[str]:
    names = file_names(record)
    for compile in record.compiles:
        found = Counter(
            (_plain(event.fields.get("said", "")), event.fields.get("at", ""))
            for event in compile.events
            if event.kind == "PerformanceHint"
        )
        told = [(said, at, times) for (said, at), times in found.items() if said]
        for said, at, times in told[:SHOWN]:
            file, _, line = at.rpartition(":")
            place = f" ({names.get(file, file)}:{line})" if at else ""
            yield f"{compile.id} {compile.name}: {said}{place}{f', {times} times' * (times > 1)}"
        if len(told) > SHOWN:
            yield f"{compile.id} {compile.name}: and {len(told) - SHOWN} more"


def _plain(said: str) -> str:
    for pattern, plain in PLAIN:
        if (found := re.fullmatch(pattern, said)) is not None:
            return found.expand(plain)
    return said
