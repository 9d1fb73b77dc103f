"""Random programs of views, writes and detaches: what a caller sees equals eager, or is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from explorer.core.reasons import Unsupported
from reference_backend import compiled, symbolic
from rejoined import compare, inner, leaf, plain, seen

Step = tuple[str, tuple[int, ...]]

UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lambda a: a.sin(),
    "double": lambda a: a * 2,
    "sum": lambda a: a.sum(0),
    "clone": lambda a: a.clone(),
    "row": lambda a: a[0],
    "rest": lambda a: a[1:],
    "turn": lambda a: a.t(),
    "flat": lambda a: a.view(-1),
    "square": lambda a: a.view(3, 4),
    "unsqueeze": lambda a: a.unsqueeze(0),
    "expand": lambda a: a.expand(2, 3, 4),
    "part": lambda a: a.split(2)[0],
    "detach": lambda a: a.detach(),
    "mul_": lambda a: a.mul_(3.0),
    "zero_": lambda a: a.zero_(),
    "relu_": lambda a: a.relu_(),
    "write row": lambda a: a[0].add_(1.0),
    "write turned": lambda a: a.t()[0].mul_(2.0),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "add_": lambda a, b: a.add_(b),
    "copy_": lambda a, b: a.copy_(b),
}
INPUTS: list[Callable[[], list[Any]]] = [
    lambda: [plain(3, 4), leaf(3, 4)],
    lambda: [inner(3, 4), leaf(4)],
    lambda: [plain(3, 4), plain(4)],
    lambda: [inner(3, 4), inner(3, 4), plain(3, 4)],
]


def run(steps: list[Step], results: list[int], *inputs: Any) -> tuple[Any, ...]:
    pool = list(inputs)
    for name, places in steps:
        given = [pool[place] for place in places]
        pool.append(UNARY[name](*given) if name in UNARY else BINARY[name](*given))
    return tuple(pool[place] for place in results)


def program(seed: int) -> tuple[list[Step], list[int], Callable[[], list[Any]]]:
    """A program that runs eagerly, forward and backward, made by trying random steps."""
    draw = random.Random(seed)
    inputs = draw.choice(INPUTS)
    steps: list[Step] = []
    size = len(inputs())
    while len(steps) < draw.randint(3, 10):
        kind = draw.choice(["unary", "unary", "binary"])
        places = tuple(draw.randrange(size) for _ in range(1 if kind == "unary" else 2))
        step = (draw.choice(sorted(UNARY if kind == "unary" else BINARY)), places)
        if runs([*steps, step], [], inputs):
            steps.append(step)
            size += 1
    results = [draw.randrange(size) for _ in range(draw.randint(1, 4))]
    return steps, results, inputs


def runs(steps: list[Step], results: list[int], inputs: Callable[[], list[Any]]) -> bool:
    torch.manual_seed(0)
    try:
        run(steps, results, *inputs())
    except (RuntimeError, IndexError):
        return False
    return True


def check(seed: int) -> str:
    """'same', or the reason's code where the program is refused. Raises AssertionError where the two differ."""
    steps, results, inputs = program(seed)

    def function(*given: Any) -> tuple[Any, ...]:
        return run(steps, results, *given)

    names = ", ".join(f"x{i}" for i in range(len(inputs())))
    with_names = eval(f"lambda {names}: function({names})", {"function": function})
    try:
        expected = seen(function, inputs)
    except RuntimeError:
        return "eager raises"
    try:
        call = compiled(symbolic(with_names, *inputs())).call
    except Unsupported as refusal:
        return refusal.why.code
    compare(seen(call, inputs), expected)
    return "same"


@pytest.mark.parametrize("block", range(10))
def test_random_programs(block: int) -> None:
    outcomes = [check(seed) for seed in range(block * 10, block * 10 + 10)]
    assert outcomes.count("same") >= 4, outcomes
