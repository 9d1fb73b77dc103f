"""A program run by eager and by a compiler, and what differs first."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import explorer
from benchmarks.fuzz.observe import Fact, Observer, Precision, difference, distance
from benchmarks.fuzz.program import FILE, Program, TooLong, at_most, quiet, world
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug

Compile = Callable[[Any], Any]
EAGER_SECONDS, SECONDS = 0.5, 120.0
"""A loop is unrolled: what eager calls in this time may be 20,000 operators, which take a minute to compile."""
ROUNDINGS = 12
"""Ways to round that are tried; of two that a program decides between, one that is compiled is missed by 1 in 2000."""
SURROUNDINGS = frozenset(world())
WATCHED = ("GT", "GI", "GB", "GL", "GD", "SEEN", "state", "counter", "Thing")


@dataclass(frozen=True)
class Difference:
    """`step` differs: `expected` of eager, and `got`. `kind` tells findings apart in a summary."""

    step: int
    expected: Fact | None
    got: Fact | None

    @property
    def kind(self) -> str:
        if self.expected is None or self.got is None:
            fact = self.expected or self.got
            assert fact is not None
            return f"{'missing' if self.got is None else 'additional'}: {_general(fact.place)}"
        if self.expected.place != self.got.place:
            return f"other structure: {_general(self.expected.place)} | {_general(self.got.text)[:100]}"
        if self.expected.text != self.got.text:
            return f"{_general(self.expected.text)[:70]} | {_general(self.got.text)[:140]}"
        return "values"

    @property
    def text(self) -> str:
        return f"step {self.step}\n  eager    {_shown(self.expected)}\n  compiled {_shown(self.got)}"


def _general(text: str) -> str:
    return re.sub(r"\d+", "0", text)


def _shown(fact: Fact | None) -> str:
    if fact is None:
        return "nothing more"
    value = "" if fact.value is None else f" = {str(fact.value)[:300]}"
    return f"{fact.place}: {fact.text[:600]}{value}"


def observed(
    program: Program,
    compile_function: Compile | None,
    seconds: float,
    precision: Precision | None = None,
    ended: Callable[[], None] = lambda: None,
) -> list[list[Fact]]:
    """The facts after each step; `ended` is called after it, before anything is read that may run compiled code."""
    namespace = world()
    found: list[list[Fact]] = []
    bugs = TOTALS[CompilerBug.TOTAL]
    torch._C._set_grad_enabled(True)
    with quiet() as out:
        exec(compile(program.source, FILE, "exec", dont_inherit=True), namespace)
        if compile_function is not None:
            namespace["f"] = compile_function(namespace["f"])
        for number, step in enumerate(program.steps):
            torch.manual_seed(number)
            random.seed(number)
            np.random.seed(number)
            observer = Observer(precision)
            namespace.pop("R", None)
            try:
                with at_most(seconds), precision or contextlib.nullcontext():
                    exec(compile(step, f"<step {number}>", "exec", dont_inherit=True), namespace)
            except Exception as error:
                observer.error("step", error)
            except TooLong as error:
                observer.error("step", error)
                found.append(observer.finish())
                return found  # a step that was cut says nothing of those that follow
            ended()
            observer.tell("output", out.getvalue())
            observer.tell("errors inside the compiler", str(TOTALS[CompilerBug.TOTAL] - bugs))
            observer.tell("grad mode", str(torch.is_grad_enabled()))
            torch._C._set_grad_enabled(True)
            observer.tell("random numbers", str(torch.random.get_rng_state().sum().item()))
            for name in [name for name in namespace if name not in SURROUNDINGS and name[0] != "_" and name != "f"]:
                observer.see(name, namespace[name])
            for name in WATCHED:
                observer.see(name, namespace[name])
            found.append(observer.finish())
    return found


def meaningful(program: Program) -> list[list[Fact]] | None:
    """What eager gives, unless it takes too long or gives something else the second time."""
    once = observed(program, None, EAGER_SECONDS)
    again = observed(program, None, EAGER_SECONDS)
    if _took_too_long(once) or _took_too_long(again):
        return None
    if any(difference(one, other, exact=True) for one, other in zip(once, again, strict=True)):
        return None
    return once


def _took_too_long(found: list[list[Fact]]) -> bool:
    return any("raised TooLong" in fact.text for facts in found for fact in facts)


def compiler(backend: str, program: Program) -> Compile:
    if backend.startswith("stock"):
        inner = backend.partition(":")[2] or "eager"
        torch.compiler.reset()
        return lambda fn: torch.compile(fn, backend=inner, dynamic=program.dynamic)
    return lambda fn: explorer.compile(fn, backend=backend, dynamic=program.dynamic)


def compared(program: Program, expected: list[list[Fact]], backend: str) -> Difference | None:
    """The first difference, unless eager, rounding another way, gives what is compared, or a value that is as far away:
    a number may decide what a program does, and the next may depend on its last digits."""
    got = observed(program, compiler(backend, program), SECONDS)
    found = _first(expected, got, backend)
    for trial in range(ROUNDINGS if not backend.endswith("eager") else 0):
        if found is None:
            return None
        watched = observed(program, None, SECONDS, Precision(trial))
        if trial == 0 and _outline(watched) != _outline(expected):
            return found  # watching changes the program
        if _first(watched, got, backend) is None or _is_as_far(found, watched):
            return None
    return found


def _is_as_far(found: Difference, watched: list[list[Fact]]) -> bool:
    one, other = found.expected, found.got
    if one is None or other is None or one.text != other.text or found.step >= len(watched):
        return False
    alike = [each for each in watched[found.step] if (each.place, each.text) == (one.place, one.text)]
    return any(0 < distance(one, other) <= distance(one, each) for each in alike)


def _outline(found: list[list[Fact]]) -> list[list[tuple[str, str]]]:
    return [[(fact.place, fact.text) for fact in facts] for facts in found]


def _first(expected: list[list[Fact]], got: list[list[Fact]], backend: str) -> Difference | None:
    for step, (one, other) in enumerate(zip(expected, got, strict=False)):  # a step that was cut is the last
        differs = difference(one, other, exact=backend.endswith("eager"))
        if differs is not None:
            return Difference(step, *differs)
    return None


def tried(program: Program, backend: str) -> Difference | None:
    """None, too, for a program that means nothing."""
    expected = meaningful(program)
    return compared(program, expected, backend) if expected is not None else None
