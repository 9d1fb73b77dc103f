"""Why Inductor ran a graph without CUDA graphs, where the program asked for them (mode="reduce-overhead", say)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch._inductor import config

from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation


def around_post_compile(seen: Observation, call: Call) -> Iterator[None]:
    yield
    graph: Any = call.args[0]
    settings = call.kwargs.get("graph_kwargs") or (call.args[3] if len(call.args) > 3 else {})
    if not config.triton.cudagraphs or settings.get("cudagraphs"):
        return
    info = graph.cudagraph_info
    found = [graph.disabled_cudagraphs_reason, *(info.cudagraph_fail_reasons if info is not None else ())]
    told = (" ".join(str(why).removeprefix("skipping cudagraphs due to ").split()) for why in found if why)
    devices = ", ".join(sorted(graph.device_types))
    why = "; ".join(dict.fromkeys(told)) if "cuda" in graph.device_types else f"it runs on {devices}, not on a GPU"
    seen.compile().event("CudagraphSkipped", why=why)


HOOK = Hook(
    "cudagraphs",
    shows="why a graph runs without CUDA graphs although the program asked for them",
    missing="whether CUDA graphs are used",
    checked=("2.13 CPU",),
    patches=(Patch("torch._inductor.output_code:CompiledFxGraph.post_compile", around_post_compile),),
)
