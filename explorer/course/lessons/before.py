"""Lesson 0: before bytecode was captured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import mul

from explorer.course.puzzle import Answer, Puzzle, Score, Wrong

# before-1: a gradient that is late

GIVEN = '''# A worker computes `gradient(w)` at the weights that it was sent. When its answer comes, the weights have
# changed `delay` times since. `late` runs `steps` updates of w with gradients that are each `delay` updates old, and
# returns the list of w after each update. While there are no weights so old, the first ones take their place.
'''


def _late(weights: str, start: str = "[w]", step: str = "ws[-1] - rate * gradient(old)") -> str:
    return f"""def late(gradient, w, rate, delay, steps):
    ws = {start}
    for step in range(steps):
        old = {weights}
        ws.append({step})
    return ws[1:]
"""


RIGHT = "ws[max(step - delay, 0)]"


def reference(gradient: Callable[[float], float], w: float, rate: float, delay: int, steps: int) -> list[float]:
    seen = [w]
    for step in range(steps):
        seen.append(seen[-1] - rate * gradient(seen[max(step - delay, 0)]))
    return seen[1:]


def check_late(answer: Answer) -> tuple[Score, ...]:
    random = answer.random
    cases = [(2.0, 0.5, delay, 6) for delay in (0, 1, 2, 5, 9)]
    cases += [(random.uniform(-3, 3), random.uniform(0.1, 1.2), random.randrange(4), 7) for _ in range(8)]
    for slope in (1.0, -0.5):
        gradient = partial(mul, slope)
        for w, rate, delay, steps in cases:
            what = f"gradient {slope:g} * w, w = {w:.3g}, rate {rate:.3g}, delay {delay}, {steps} steps"
            right = reference(gradient, w, rate, delay, steps)
            with answer.at("right", what):
                yours = [float(each) for each in answer["late"](gradient, w, rate, delay, steps)]
                if len(yours) != steps:
                    answer.fail(f"{what}: {len(yours)} weights, {steps} are expected: one after each update")
                for number, (found, expected) in enumerate(zip(yours, right, strict=True), 1):
                    if abs(found - expected) > 1e-9 * max(1.0, abs(expected)):
                        answer.fail(f"{what}: after update {number} yours is {found:.6g}, right is {expected:.6g}")
    return ()


LATE = Puzzle(
    id="before-1",
    title="A gradient that is late",
    task=(
        "An asynchronous worker computes its gradient from weights that are `delay` updates old. Write the updates, "
        "and return the weights after each. The first `delay` updates use the weights at the start."
    ),
    minutes=8,
    names=("late",),
    given=GIVEN,
    starter=_late("...", step="..."),
    solution=_late(RIGHT),
    wrong=(
        Wrong(_late("ws[-1]"), "right", "delay 1, 6 steps: after update 2"),
        Wrong(_late("ws[max(step - delay - 1, 0)]"), "right", "delay 0, 6 steps: after update 2"),
        Wrong(_late("ws[step - delay]"), "right", "IndexError on gradient 1 * w, w = 2, rate 0.5, delay 2"),
        Wrong(_late(RIGHT, step="ws[-1] + rate * gradient(old)"), "right", "delay 0, 6 steps: after update 1"),
        Wrong(_late(RIGHT, step="old - rate * gradient(old)"), "right", "delay 1, 6 steps: after update 2"),
        Wrong(_late(RIGHT, start="[w, w]"), "right", "7 weights, 6 are expected"),
    ),
    hints=(
        "Keep all weights in a list, the first ones included. Which of them did the worker see?",
        "In update number `step`, counted from 0, the newest weights are `ws[step]`. Those that are `delay` updates "
        "old are `delay` places before.",
        "`old = ws[max(step - delay, 0)]`, and the new weights are `ws[-1] - rate * gradient(old)`.",
    ),
    check=check_late,
    lines=12,
)

PUZZLES = (LATE,)
