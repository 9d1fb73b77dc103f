"""The peak memory of one call, above what was allocated before it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch


def peak_bytes(call: Callable[[], Any]) -> int | None:
    """Runs the call once, its results alive to the end, and counts what torch's allocators give and get back: of the
    card, or where nothing is taken there of the processor. None where torch does not tell, since the program is being
    profiled already, say."""
    if not torch.cuda.is_initialized():
        return _on_processor(call)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = _on_processor(call)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before or found


def _on_processor(call: Callable[[], Any]) -> int | None:
    """By torch's first profiler: the later one prints to the terminal as it starts."""
    own: Any = torch.autograd
    try:
        kind, details = own.ProfilerState.CPU, torch._C._profiler._ExperimentalConfig()
        own._enable_profiler_legacy(own.ProfilerConfig(kind, False, True, False, False, False, details))
    except (AttributeError, TypeError, RuntimeError):
        call()
        return None
    try:
        kept = call()
    finally:
        recorded = own._disable_profiler_legacy()
    del kept
    changes = [each.cpu_memory_usage() for thread in recorded for each in thread if each.kind() == "memory_alloc"]
    return max(0, *accumulate(changes)) if changes else 0
