"""How many times as fast one of two that were timed in turn is, with the interval that the samples allow."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """The median of the ratios of samples taken one after the other, and the interval that holds the true median with
    CONFIDENCE, whatever its distribution. What slows both samples of a pair down cancels."""

    value: float
    low: float
    high: float


def ratio(eager: Sequence[float], other: Sequence[float]) -> Ratio | None:
    """None where there are too few pairs for an interval."""
    pairs = sorted(a / b for a, b in zip(eager, other, strict=False) if b > 0)
    count = len(pairs)
    outside, place = 2 * 0.5**count, 0
    while outside + 2 * comb(count, place + 1) * 0.5**count <= 1 - CONFIDENCE:
        place += 1
        outside += 2 * comb(count, place) * 0.5**count
    if outside > 1 - CONFIDENCE + SLACK:
        return None
    return Ratio(statistics.median(pairs), pairs[place], pairs[-1 - place])


SLACK = 0.015
"""Five pairs, the fewest that are taken, give 94 %."""
