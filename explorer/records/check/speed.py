"""The speed compared with eager's, as far as the samples tell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import comb

from explorer.ir.record import SpeedData

CONFIDENCE = 0.95
SLACK = 0.015
"""Five pairs, the fewest that are taken, give 94 %."""

AS_FAST = 1.1
"""How far apart the ends of the interval may be for two to count as equally fast."""


TELLING = 4
"""How far apart the ends of the interval may be for the ratio to be given."""


MOST_WAITED = 0.5
"""The part of the time that threads may wait for a processor. What slows code of several threads down then is mostly
other work, and it does so in all samples alike: no spread shows it."""


def speed(eager: Sequence[float], other: Sequence[float], waited: float = 0.0) -> SpeedData:
    """The ratio of the two medians, which are shown beside it. Its interval is from the ratios of samples taken in
    turn, as what slows both of a pair down cancels: it holds their true median whatever the distribution (sign test),
    and is widened to the ratio that is shown."""
    if waited > MOST_WAITED:
        return SpeedData("speed unknown (other programs used the processors: run again on an idle machine)")
    pairs = sorted(a / b for a, b in zip(eager, other, strict=False) if b > 0)
    count = len(pairs)
    outside, place = 2 * 0.5**count, 0
    while outside + 2 * comb(count, place + 1) * 0.5**count <= 1 - CONFIDENCE:
        place += 1
        outside += 2 * comb(count, place) * 0.5**count
    if outside > 1 - CONFIDENCE + SLACK:
        return SpeedData("too few samples to compare with eager")
    times = statistics.median(eager) / statistics.median(other)
    low, high = min(pairs[place], times), max(pairs[-1 - place], times)
    between = f"{_short(low)} to {_short(high)}"
    if (low > 1 or high < 1) and high > TELLING * low:
        much = f"{between}x faster" if low > 1 else f"{_short(1 / high)} to {_short(1 / low)}x slower"
        text = f"{much} than eager (too noisy for one figure: run again on an idle machine)"
        return SpeedData(text, None, low, high)
    if low > 1:
        return SpeedData(f"{_short(times)}x faster than eager ({between})", times, low, high)
    if high < 1:
        text = f"{_short(1 / times)}x slower than eager ({_short(1 / high)} to {_short(1 / low)})"
        return SpeedData(text, times, low, high)
    if high <= AS_FAST * low:
        return SpeedData(f"as fast as eager ({between})", times, low, high)
    slowest = f"{_short(1 / low)}x slower"
    text = f"too noisy to compare with eager ({slowest} to {_short(high)}x faster): run again on an idle machine"
    return SpeedData(text, None, low, high)


def _short(number: float) -> str:
    """Two digits of it, three around 1, and never a power of ten."""
    digits = 3 if 0.5 < number < 2 else 2
    rounded = float(f"{number:.{digits}g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:#.{digits}g}"
