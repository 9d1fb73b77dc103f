"""A stage: a named pure function between artifacts. Calling it times it, verifies the result and records it.

Nothing else records artifacts, so no stage can forget to and none can do it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from explorer.core.recorder import TOTALS, recorder
from explorer.core.text import Text

A = TypeVar("A")
B = TypeVar("B", bound="Artifact")


class Artifact(Protocol):
    """What a stage makes: frozen, and able to print itself."""

    def text(self) -> Text: ...


def uncounted(given: object, made: object) -> tuple[str, ...]:
    """For a stage that adds nothing to the totals of this process."""
    return ()


@dataclass(frozen=True)
class Stage(Generic[A, B]):
    """`function` maps one artifact to the next; `verify` raises where the result breaks its specification. `totals`
    names what it adds to the totals of this process, once each time that it names it."""

    name: str
    function: Callable[[A], B]
    verify: Callable[[B], None]
    totals: Callable[[A, B], Iterable[str]] = uncounted

    def __call__(self, value: A) -> B:
        recording = recorder()
        if recording is None:
            made = self._made(value)
        else:
            with recording.stage(self.name) as run:
                made = run.artifact = self._made(value)
        TOTALS.update(self.totals(value, made))
        return made

    def _made(self, value: A) -> B:
        made = self.function(value)
        self.verify(made)
        return made
