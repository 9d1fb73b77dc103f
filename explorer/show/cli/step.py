"""`explorer step`: through the capture of a record, instruction by instruction or from event to event."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from explorer.core.text import count
from explorer.records.session import Record
from explorer.show.cli.progress import Output, wide_enough
from explorer.show.view.queries import WAYS, Queried


def manual(steps: Queried[Any, Any]) -> str:
    """The commands of a walk."""
    moves = [f"{letter} {called}" for letter, (_, called) in steps.letters.items()]
    rows = ["  " + "".join(each.ljust(22) for each in moves[n : n + 4]).rstrip() for n in range(0, len(moves), 4)]
    return "\n".join(
        [
            "Small letters go forwards, capital letters go back:",
            *rows,
            "  /QUERY sets a breakpoint          c goes to its next hit",
            "  NUMBER goes to that step          q ends",
            f"A query is made of terms that all hold, such as  {steps.example}",
            f"with one of {', '.join(steps.keys)}.",
        ]
    )


MOST = 200
"""Hits of a query that are listed."""


class Walk:
    """A place in the steps of one compile, or in what its kernels wrote; `told` gets what is to be shown. `breakpoint`
    is the last query."""

    def __init__(self, steps: Queried[Any, Any], told: Callable[[str], None], at: int = 0) -> None:
        self.steps = steps
        self.told = told
        self.at = at
        self.breakpoint = list(steps.letters.values())[-1][0]

    def do(self, command: str) -> bool:
        """Carry out a command; False for the one that ends."""
        if command == "q":
            return False
        try:
            if command.startswith("/"):
                self.listed(command[1:])
                self.breakpoint = command[1:]
                return True
            if command.isdigit():
                found = int(command) if int(command) < len(self.steps) else None
            elif command.lower() == "c":
                found = self.steps.move(self.at, self.breakpoint, back=command.isupper())
            elif (to := self.steps.letters.get(command.lower() or "i")) is not None:
                found = self.steps.move(self.at, to[0], back=command.isupper())
            else:
                self.told(manual(self.steps))
                return True
        except ValueError as error:
            self.told(str(error))
            return True
        if found is None:
            self.told(f"No such step from here; the steps are 0 to {len(self.steps) - 1}.")
            return True
        self.at = found
        self.told(self.steps.text(found))
        return True

    def listed(self, query: str) -> int:
        """Lists what a query finds, and counts it. Raises ValueError for what is no query."""
        hits = self.steps.find(query)
        for each in hits[:MOST]:
            self.told(self.steps.line(each))
        more = f", the first {MOST} of them listed" if len(hits) > MOST else ""
        self.told(f"{count(len(hits), 'step')} of {len(self.steps)}{more}")
        return len(hits)


def step(record: Record, compile: str, at: int | None, query: str | None, what: str = "steps") -> int:
    """What `explorer step` does; its exit code. `what` it goes through is a key of WAYS.

    Raises ValueError for what the record does not have, and for what is no query."""
    console: Output = wide_enough()

    def told(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    found: Sequence[Queried[Any, Any]] = getattr(record, what)
    if not found:
        raise ValueError(f"the record of {record.data.title} has no {what}. {WAYS[what]}")
    chosen = next((each for each in found if compile in ("", each.compile.id, each.title())), None)
    if chosen is None:
        raise ValueError(f"{compile} has no steps; expected one of {', '.join(each.title() for each in found)}")
    if at is not None and at >= len(chosen):
        raise ValueError(f"{chosen.title()} has steps 0 to {len(chosen) - 1}, and no step {at}")
    walk = Walk(chosen, told, at or 0)
    if query is not None:
        return 0 if walk.listed(query) else 1
    if at is not None:
        told(chosen.text(at))
        return 0
    told("\n".join(each.summary() for each in found))
    told(manual(chosen))
    told(chosen.text(0))
    for line in sys.stdin:
        if not walk.do(line.strip()):
            break
    return 0
