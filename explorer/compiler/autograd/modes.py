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
