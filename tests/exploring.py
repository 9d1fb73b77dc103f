"""What the tests of explored calls share."""

from __future__ import annotations

import contextlib
import copy
import io
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from effects import BY_NAME, PARTS, Made

ENGINES: tuple[dict[str, Any], ...] = (
    {},
    {"engine": "stock", "stock": {"backend": "eager"}},
    {"engine": "both", "stock": {"backend": "eager"}},
)

SECONDS = 0.001

TRACED_INTO = ("a cache", "a coroutine")
"""What stock traces into, and then fills no cache and runs no coroutine."""

ASKED_BY_STOCK = ("objects as keys",)
"""What Dynamo writes out for its guards, by the program's code."""


def programs() -> list[tuple[tuple[str, ...], bool, dict[str, Any]]]:
    """Each part by itself or with one or two others, in globals or in a closure, with each engine in turn."""
    drawn = random.Random(10)
    names = [part.name for part in PARTS if part.name != "SGD"]  # see `test_a_training_step_is_compared_and_timed`
    again = [name for name in names if not BY_NAME[name].once and "Adam" not in name and name not in ASKED_BY_STOCK]
    found = []
    for number, name in enumerate(names):
        others = drawn.sample([each for each in again if each != name], number % 3)
        engine = ENGINES[1 if name in TRACED_INTO else number % 3]
        found.append(((name, *others), drawn.random() < 0.5, engine))
    return found


def seeded() -> None:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    torch.set_default_dtype(torch.float32)


def state(program: Made, x: torch.Tensor) -> Any:
    """Everything that a program sees of itself and of the process."""
    process = torch.get_rng_state(), random.getstate(), np.random.get_state()[1], torch.get_default_dtype()
    return copy.deepcopy((program.seen(), x, x._version, process))


def said(call: Callable[[], Any]) -> tuple[Any, tuple[str, str, list[str]]]:
    """What a call returns, and what it prints and warns of, apart from what Dynamo says of itself."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            result = call()
    programs = [w for w in warned if w.category is UserWarning and "_dynamo" not in w.filename]
    return result, (out.getvalue(), err.getvalue(), [str(w.message) for w in programs])


def inner(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)
