"""Stock's caches of compiled graphs, bypassed so that every stage runs and can be seen, and its counters and logs,
which an exploration leaves as they were.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch._dynamo.utils import counters
from torch._functorch import config as functorch
from torch._inductor import config as inductor

from explorer.ir import record as data
from explorer.records.check.process import interpreter_put_back
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation


def around_compile(seen: Observation, call: Call) -> Iterator[None]:
    """`compile_fx` takes configuration that also holds when the backward is compiled, on whatever thread."""
    if seen.bypassing:  # it calls itself
        yield
        return
    if seen.calls is not None:
        yield from asked(seen)
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
        compile.event("Cache", cache=name, state="bypassed, to run every stage" if on else "off in the configuration")
    seen.bypassing = True
    with ExitStack() as stack, interpreter_put_back():
        stack.enter_context(functorch.patch(enable_autograd_cache=False, bundled_autograd_cache=False))
        try:
            yield
        finally:
            seen.bypassing = False


ASKED = {
    "FX graph cache": ("inductor", {"hit": "fxgraph_cache_hit", "miss": "fxgraph_cache_miss",
                                    "bypass": "fxgraph_cache_bypass"}),
    "AOTAutograd cache": ("aot_autograd", {"hit": "autograd_cache_hit", "miss": "autograd_cache_miss",
                                           "bypass": "autograd_cache_bypass"}),
}  # fmt: skip
"""By cache: the group of torch's counters, and the counter of each answer."""
SAID = {
    "hit": "hit: the code is from the cache, and the later stages did not run",
    "miss": "miss: the cache has no entry for this key, so every stage ran",
    "bypass": "bypassed by torch: this graph cannot be cached",
}


def asked(seen: Observation) -> Iterator[None]:
    """What the caches, used as the program has them, answered."""
    compile = seen.compile()
    before = {(group, name): counters[group][name] for group, names in ASKED.values() for name in names.values()}
    seen.bypassing = True
    try:
        yield
    finally:
        seen.bypassing = False
        for cache, (group, names) in ASKED.items():
            for answer, name in names.items():
                if counters[group][name] > before[group, name]:
                    compile.event("Cache", cache=cache, state=SAID[answer])


def around_fx_key(seen: Observation, call: Call) -> Iterator[None]:
    """The key of a graph in the FX graph cache, or why it has none."""
    yield
    if call.error is not None or seen.calls is None:
        return
    found, info = call.result
    if info and (why := info.get("cache_bypass_reason")):
        seen.compile().event("Cache", cache="FX graph cache", state=f"has no key: {why}")
    if found is not None:
        add_key(seen, "FX graph cache", *found)


def around_autograd_key(seen: Observation, call: Call) -> Iterator[None]:
    yield
    if seen.calls is not None and call.error is None:
        add_key(seen, "AOTAutograd cache", *call.result)


MOST_KEYS = 64
"""Of all caches together, that a new one is compared with."""

LONGEST_PART = 160
"""Characters of the text of one part of a key."""

_PART = re.compile(r"\[(?P<hash>[^\]]*)\] (?P<name>[^:]*): (?P<text>.*)", re.DOTALL)


def add_key(seen: Observation, cache: str, key: str, details: Sequence[str]) -> None:
    """`details` are torch's lines on the parts, "[hash] name: text"."""
    compile = seen.compile()
    parts = {}
    for line in details:
        if (part := _PART.fullmatch(line)) is not None:
            parts[part["name"]] = f"{part['hash'][:12]} {part['text'][:LONGEST_PART]}"
    own = f"{compile.id}.key{len(compile.cache_keys)}"
    made = data.CacheKeyData(own, cache, key, parts)
    earlier = [(each, other) for each, other in seen.cache_keys if each.cache == cache]
    if earlier:
        near, other = min(reversed(earlier), key=lambda pair: len(parts.items() ^ pair[1].items()))
        changed = {name: value for name, value in parts.items() if other.get(name) != value}
        lacks = tuple(name for name in other if name not in parts)
        made = data.CacheKeyData(own, cache, key, changed, near.id, lacks)
    compile.cache_keys.append(made)
    seen.cache_keys = [*seen.cache_keys, (made, parts)][-MOST_KEYS:]


HOOK = Hook(
    "caches",
    shows="complete stages also where the compiled graph is in stock's caches, which stay as they are",
    missing="on a warm cache the stages of Inductor are absent",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._inductor.compile_fx:compile_fx", around_compile),
        Patch("torch._inductor.codecache:FxGraphCache.prepare_key", around_fx_key),
        Patch("torch._functorch._aot_autograd.autograd_cache:autograd_cache_key", around_autograd_key),
    ),
)


COUNTED = {
    "torch._dynamo.utils": (
        "counters", "optimus_scuba_log", "frame_phase_timing", "compilation_time_metrics", "guard_failures",
        "cumulative_time_spent_ns", "graph_break_reasons", "curr_frame", "op_count", "unique_graphs",
    ),
    "torch._inductor.metrics": (
        "generated_kernel_count", "generated_cpp_vec_kernel_count", "num_bytes_accessed", "nodes_num_elem",
        "node_runtimes", "ir_nodes_pre_fusion", "cpp_to_dtype_count", "cpp_outer_loop_fused_inner_counts",
        "num_comprehensive_padding", "num_matches_for_scatter_upon_const_tensor", "num_loop_reordering",
        "parallel_reduction_count", "codegen_mix_order_reduction",
    ),
}  # fmt: skip
"""By module: containers and numbers that programs and their tests read."""


class Counted:
    """What torch counted and reported, to be put back."""

    def __init__(self) -> None:
        self.take()

    def take(self) -> None:
        """What it counts now is what is to stay."""
        self._kept = {module: _values(module) for module in COUNTED}

    def put(self) -> None:
        for module, values in self._kept.items():
            _put(module, values)


@contextmanager
def untouched() -> Iterator[Counted]:
    """After the block they are as they were before it, or when they were taken; where torch was not compiling yet,
    empty."""
    counted = Counted()
    try:
        yield counted
    finally:
        counted.put()


def _values(module: str) -> dict[str, Any]:
    loaded = vars(sys.modules[module]) if module in sys.modules else {}
    return {name: copy.deepcopy(loaded[name]) for name in COUNTED[module] if name in loaded}


def _put(module: str, values: dict[str, Any]) -> None:
    loaded = vars(sys.modules[module]) if module in sys.modules else {}
    for name in COUNTED[module]:
        if name not in loaded:
            continue
        now = loaded[name]
        if isinstance(now, (dict, set)):
            now.clear()
            now.update(values.get(name, {}))
        elif isinstance(now, list):
            now[:] = values.get(name, [])
        else:
            loaded[name] = values.get(name, 0)
