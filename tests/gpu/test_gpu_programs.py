"""On a card: the zoo equals eager, also in what it raises: a program that makes its own tensors on the CPU meets those
on the card as a user's would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from card import Compiler
from programs import MODELS, TRANSFORMERS, ZOO, Model, Program, assert_same, observe

pytestmark = pytest.mark.gpu

RAISED = (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError)
AVAILABLE = tuple(model for model in TRANSFORMERS if model.available)


@dataclass(frozen=True)
class OnCard:
    """A subject whose parameters, buffers and inputs are on the card; what its code makes is where the code says."""

    subject: Program | Model

    @property
    def frozen(self) -> tuple[int | str, ...]:
        return getattr(self.subject, "frozen", ())

    @property
    def state(self) -> Callable[[Any], Any] | None:
        return getattr(self.subject, "state", None)

    def build(self) -> Callable[..., Any]:
        with torch.device("cuda"):
            return self.subject.build()

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        with torch.device("cuda"):
            return self.subject.inputs()

    def loss(self, output: Any) -> Tensor:
        return self.subject.loss(output)


def cases(subjects: tuple[Any, ...]) -> list[Any]:
    pairs = [(s, train) for s in subjects for train in ((False, True) if getattr(s, "grad", True) else (False,))]
    return [pytest.param(s, train, id=f"{s.name}-{'train' if train else 'run'}") for s, train in pairs]


def outcome(subject: Program | Model, train: bool, compile: Callable[..., Any] = lambda fn: fn) -> Any:
    try:
        return observe(OnCard(subject), compile, train=train)
    except RAISED as error:
        return error


def check(subject: Program | Model, train: bool, compiler: Compiler) -> None:
    expected = outcome(subject, train)
    actual = outcome(subject, train, replace(compiler, refusals=("autograd.",)))
    if isinstance(expected, Exception):
        assert type(actual) is type(expected), actual
        assert str(actual).partition("\n")[0] == str(expected).partition("\n")[0]
        return
    if isinstance(actual, Exception):
        raise actual
    rtol, atol = subject.rtol, subject.atol
    assert_same(actual, expected, rtol=max(1e-4, 10 * rtol), atol=max(1e-4, 10 * atol))


@pytest.mark.parametrize(("subject", "train"), [*cases(ZOO), *cases(MODELS), *cases(AVAILABLE)])
def test_like_eager(subject: Program | Model, train: bool, compiler: Compiler) -> None:
    check(subject, train, compiler)


@pytest.mark.parametrize(("subject", "train"), cases(tuple(p for p in ZOO if p.tags & {"factory", "random"})))
def test_like_eager_in_a_device_block(subject: Program, train: bool, compiler: Compiler) -> None:
    """What the program makes without naming a device is on the card."""
    with torch.device("cuda"):
        check(subject, train, compiler)


def test_most_programs_run_on_a_card() -> None:
    """Comparing what is raised must stay the exception."""
    raised = [p.name for p in ZOO if isinstance(outcome(p, False), Exception)]
    assert len(raised) < len(ZOO) / 10, raised
