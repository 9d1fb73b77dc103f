"""Durations and amounts as a person reads them."""

from __future__ import annotations

ROUNDED = 0.9995
"""From here on three digits round to the next unit."""


def duration(seconds: float) -> str:
    """A duration in the unit that suits it: 12.3 us, 4.56 ms, 1.23 s."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= ROUNDED * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def amount(count: float, unit: str) -> str:
    """A count with a decimal prefix: 4.19 MB, 1.2 GB."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= ROUNDED * scale:
            return f"{count / scale:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"
