"""Modes of torch that a trace enters and has to leave as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def not_functional() -> Iterator[None]:
    """Functionalisation off inside a block of a functional trace."""
    torch._disable_functionalization()
    try:
        yield
    finally:
        torch._enable_functionalization(reapply_views=True)


@contextlib.contextmanager
def kept_autocast() -> Iterator[None]:
    """Restore the ambient autocast state on exit, and let no cast made inside outlive it in autocast's cache."""
    devices = ("cpu", "cuda")
    before = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices]
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        for device, enabled, dtype in before:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
