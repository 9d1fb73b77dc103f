"""Events of capture: what was tried on the way to an artifact, and leaves no trace in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol


class Described(Protocol):
    def describe(self) -> str:
        """The value in a few words."""


@dataclass(frozen=True, slots=True, eq=False)
class Activation:
    """A frame that the evaluator entered: the root, or a function inlined into `caller`."""

    function: str
    caller: Activation | None


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatorStep:
    """One instruction evaluated, and what changed in its activation's state since the last step there.

    The lowest `kept` values of the stack stayed, `pushed` came on top; `locals` were bound since (None: unbound).
    `nodes` is how many nodes the graph had, placeholders not counted.
    """

    CAP: ClassVar[int] = 20_000
    """Steps kept in one compile: a transformer of ten layers takes as many."""

    instruction: str
    activation: Activation
    nodes: int
    kept: int
    pushed: tuple[Described | str, ...]
    locals: tuple[tuple[str, Described | str | None], ...]
