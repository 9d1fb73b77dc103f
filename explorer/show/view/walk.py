"""Commands of a walk through what a record holds in an order, as `explorer step` and debuggers take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.text import count
from explorer.show.view.queries import Queried


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
