"""Stock's caches of compiled graphs: bypassed, so that every stage runs and can be seen. What is on disk stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from torch._functorch import config as functorch
from torch._inductor import config as inductor

from explorer.stock.hook import Call, Hook, Watch
from explorer.stock.observation import Observation


def around_compile(seen: Observation, call: Call) -> Iterator[None]:
    """`compile_fx` takes configuration that also holds when the backward is compiled, on whatever thread."""
    if seen.bypassing:  # it calls itself
        yield
        return
    wanted: dict[str, Any] = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
    if seen.search is not None:  # what is compared while a graph is recorded would be of its memory
        wanted["triton.cudagraphs"] = False
    call.kwargs = {**call.kwargs, "config_patches": {**(call.kwargs.get("config_patches") or {}), **wanted}}
    compile = seen.compile()
    for name, on in (
        ("FX graph cache", inductor.fx_graph_cache),
        ("AOTAutograd cache", functorch.enable_autograd_cache),
    ):
        compile.event(
            "Cache", cache=name, state="bypassed, so that every stage runs" if on else "off in the configuration"
        )
    seen.bypassing = True
    with ExitStack() as stack:
        stack.enter_context(functorch.patch(enable_autograd_cache=False, bundled_autograd_cache=False))
        try:
            yield
        finally:
            seen.bypassing = False


HOOK = Hook(
    "caches",
    shows="complete stages also where the compiled graph is in stock's caches, which stay as they are",
    missing="on a warm cache the stages of Inductor are absent",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    watches=(Watch("torch._inductor.compile_fx:compile_fx", around_compile),),
)
