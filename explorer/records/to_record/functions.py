"""Which functions of the program the time of capture went to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from explorer.ir import record as data


def function_costs(
    activations: Sequence[data.ActivationData], steps: Sequence[data.StepData], times: Sequence[float], end: float
) -> tuple[data.FunctionCostData, ...]:
    """`times` are when each step began, in seconds, and `end` when the last one ended. Dearest first, callees
    included."""
    own = [0.0] * len(activations)
    for step, (begun, ended) in zip(steps, pairwise((*times, end)), strict=True):
        own[step.activation] += max(0.0, ended - begun)
    whole = list(own)
    for number in range(len(activations) - 1, -1, -1):  # a callee comes behind its caller
        if (caller := activations[number].caller) >= 0:
            whole[caller] += whole[number]
    found: dict[str, list[float]] = {}
    for number, each in enumerate(activations):
        row = found.setdefault(each.function, [0, 0.0, 0.0])
        row[0] += 1
        row[1] += own[number]
        if not _is_inside_itself(activations, number):
            row[2] += whole[number]
    rows = (data.FunctionCostData(name, int(calls), alone, all) for name, (calls, alone, all) in found.items())
    return tuple(sorted(rows, key=lambda row: -row.whole))


def _is_inside_itself(activations: Sequence[data.ActivationData], number: int) -> bool:
    """Whether a call of the same function is among the callers, which counts this one too."""
    caller = activations[number].caller
    while caller >= 0:
        if activations[caller].function == activations[number].function:
            return True
        caller = activations[caller].caller
    return False
