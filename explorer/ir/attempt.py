"""Events of capture: what was tried on the way to an artifact, and leaves no trace in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import ClassVar, Protocol


class Described(Protocol):
    sighted: tuple[Activation, int] | None

    def describe(self) -> str:
        """The value in a few words."""


@dataclass(frozen=True, slots=True, eq=False)
class Activation:
    """A frame that the evaluator entered: the root, or a function inlined into `caller`."""

    function: str
    caller: Activation | None


@dataclass(frozen=True, slots=True)
class Contained:
    """A container as a step saw it: `items` are the first of what it held, each with what leads to it there."""

    text: str
    items: tuple[tuple[Described | int, Described | Contained | str], ...]


Sighted = tuple[Described | Contained | str, int]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatorStep:
    """One instruction evaluated, and what changed in its activation's state since the last step there.

    The lowest `kept` values of the stack stayed, `pushed` came on top; `locals` were bound since (None: unbound). Each
    value is with the number of the step before which it was first in sight. `nodes`
    is how many nodes the graph had, placeholders not counted.
    """

    CAP: ClassVar[int] = 20_000
    """Steps kept in one compile: a transformer of ten layers takes as many."""

    number: int
    """From 0, in this evaluation of the frame."""
    instruction: str
    activation: Activation
    nodes: int
    kept: int
    pushed: tuple[Sighted, ...]
    locals: tuple[tuple[str, Sighted | None], ...]
    begun: float = field(default_factory=perf_counter)
