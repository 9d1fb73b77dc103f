"""Programs that train, run once compiled and once in eager."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer
from explorer.compiler import pipeline
from reference_backend import interpreted

MADE_BY = re.compile(r", which is output \d+ of \w+,")
CASES: dict[str, Callable[[Any], Any]] = {}
"""Each takes what compiles, and gives all that a caller can see."""


def case(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[program.__name__] = program
    return program


def T(*shape: int, g: bool = True, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return made.requires_grad_(g)


def flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [len(value), *(part for each in value for part in flat(each))]
    return [value]


def outcome(program: Callable[[Any], Any], compile: Callable[[Any], Any]) -> tuple[list[Any], str]:
    torch.manual_seed(0)
    try:
        return flat(program(compile)), ""
    except RuntimeError as error:
        return [], MADE_BY.sub("", str(error))


def check_as_in_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "compile_half", lambda graph, config: interpreted(graph))
    expected, error = outcome(CASES[name], lambda f: f)
    found, raised = outcome(CASES[name], explorer.compile)
    assert raised == error
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert type(mine) is type(theirs)
        if isinstance(theirs, torch.Tensor):
            assert mine.requires_grad == theirs.requires_grad
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        else:
            assert mine == theirs
