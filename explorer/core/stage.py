"""A stage: a named pure function between artifacts. Calling it times it, verifies the result and records it.

Nothing else records artifacts, so no stage can forget to and none can do it twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from explorer.core.recorder import recorder
from explorer.core.text import Text

A = TypeVar("A")
B = TypeVar("B", bound="Artifact")


class Artifact(Protocol):
    """What a stage makes: frozen, and able to print itself."""

    def text(self) -> Text: ...


def unverified(artifact: object) -> None:
    """The verifier of a stage whose result has no invariant beyond its types."""


@dataclass(frozen=True)
class Stage(Generic[A, B]):
    """`function` maps one artifact to the next; `verify` raises where the result breaks its specification."""

    name: str
    function: Callable[[A], B]
    verify: Callable[[B], None] = unverified

    def __call__(self, value: A) -> B:
        recording = recorder()
        if recording is None:
            made = self.function(value)
            self.verify(made)
            return made
        with recording.stage(self.name) as run:
            made = self.function(value)
            self.verify(made)
            run.artifact = made
        return made
