"""Every program of the zoo, captured and run by eager kernels, against eager; networks are in test_zoo.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from capturing import Captures
from explorer.compiler.capture import optimize
from explorer.compiler.capture.guards import GlobalStateIs
from explorer.compiler.config import Config
from explorer.ir.capture import ByCompiler, Capture
from explorer.records.to_record.capture import guard_data
from guard_decisions import decide
from programs import ZOO, assert_same, observe


def check(subject: Any, *, train: bool, **settings: Any) -> Captures:
    captures = Captures()
    config = Config(backend="eager", **settings)
    expected = observe(subject, train=train)
    actual = observe(subject, lambda fn: optimize(fn, config, captures), train=train)
    assert_same(actual, expected, rtol=1e-5, atol=1e-6)
    return captures


@pytest.mark.parametrize("program", ZOO, ids=lambda p: p.name)
def test_like_eager(program: Any) -> None:
    captures = check(program, train=False)
    assert captures.fallbacks == []
    assert len(captures.places) == program.breaks
    for capture in captures.made:
        guards_are_explained(capture)


def guards_are_explained(capture: Capture) -> None:
    """Each guard says why it exists and what asked for it, and holds for the very inputs that it was made from."""
    for guard in capture.guards:
        assert guard.why, guard.text
        assert guard.cause.span is not None or isinstance(guard.cause, ByCompiler), guard.text
    state = next((g.condition.state for g in capture.guards if isinstance(g.condition, GlobalStateIs)), None)
    for decision in decide([guard_data(each, 0) for each in capture.guards], capture.given, state):
        assert decision.holds is not False, (decision.guard.expression, decision.how)


@pytest.mark.parametrize("program", [p for p in ZOO if p.grad], ids=lambda p: p.name)
def test_gradients_like_eager(program: Any) -> None:
    check(program, train=True)


@pytest.mark.parametrize("program", ZOO, ids=lambda p: p.name)
def test_dynamic_like_eager(program: Any) -> None:
    check(program, train=False, dynamic=True)


class Kept:
    """A program whose function is built once, so that calls follow one another."""

    def __init__(self, program: Any) -> None:
        self.frozen, self.state, self.inputs, self.loss = program.frozen, program.state, program.inputs, program.loss
        self.built = program.build()

    def build(self) -> Any:
        return self.built


@pytest.mark.parametrize("program", [p for p in ZOO if p.other_inputs and "global" not in p.tags], ids=lambda p: p.name)
@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
def test_other_inputs(program: Any, dynamic: bool | None) -> None:
    """One compiled function over inputs of other shapes, dtypes and flags, twice: recompiles, then none."""
    eager, ours = Kept(program), Kept(program)
    captures = Captures()
    wrapped = optimize(ours.built, Config(backend="eager", dynamic=dynamic), captures)
    every = (program.inputs, *program.other_inputs)
    count = 0
    for _turn in range(3):
        count = len(captures.made)
        for inputs in every:
            expected = outcome(eager, lambda fn: fn, inputs)
            actual = outcome(ours, lambda fn: wrapped, inputs)
            if isinstance(expected, Exception):
                assert type(actual) is type(expected) and str(actual) == str(expected)
            else:
                assert not isinstance(actual, Exception), actual
                assert_same(actual, expected, rtol=1e-5, atol=1e-6)
    if not program.breaks:
        assert len(captures.made) == count, "the third round compiled again"


def outcome(subject: Kept, compile: Any, inputs: Any) -> Any:
    try:
        return observe(subject, compile, inputs=inputs)
    except (RuntimeError, ValueError, TypeError, AssertionError, KeyError, IndexError) as error:
        return error


def test_nodes_know_their_source() -> None:
    """Every node of every graph has an origin and a span in a file that exists."""
    for program in ZOO[:40]:
        captures = check(program, train=False)
        for graph in captures.graphs:
            for node in graph.graph.nodes:
                if node.op != "output":
                    facts = node.meta["info"]
                    assert facts.origins, node
                    assert facts.span is not None or facts.origins[0].startswith("synthetic:"), node


def test_grad_mode_is_left_alone() -> None:
    for enabled in (False, True):
        with torch.set_grad_enabled(enabled):
            for program in ZOO[::20]:
                check(program, train=False)
                assert torch.is_grad_enabled() == enabled
