"""Keeps the counters and logs of Dynamo and Inductor unchanged during an exploration."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


@contextmanager
def untouched() -> Iterator[None]:
    """After the block they are as they were before it; where torch was not compiling yet, empty."""
    before = {module: _values(module) for module in COUNTED}
    try:
        yield
    finally:
        for module, values in before.items():
            _put(module, values)


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
