"""`explorer step`: through the capture of a record, instruction by instruction or from event to event."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.text import Text

from explorer.core.text import count
from explorer.records.session import Record
from explorer.show.cli.progress import Output, wide_enough
from explorer.show.view.steps import KEYS, Steps

LETTERS = {
    "i": "instruction", "l": "line", "o": "over", "u": "out", "n": "node:", "g": "guard:", "e": "effect:",
    "s": "symbol:", "b": "break:",
}  # fmt: skip

HELP = f"""\
Small letters go forwards, capital letters go back:
  i instruction   l line            o line, over calls     u out of the function
  n graph node    g guard           e effect               s size symbol    b graph break
  /QUERY sets a breakpoint          c goes to its next hit
  NUMBER goes to that step          q ends
A query is made of terms that all hold, such as  guard:  or  op:CALL line:12 depth>1 top:tensor
with one of {", ".join(KEYS)}."""

MOST = 200
"""Hits of a query that are listed."""


class Walk:
    """A place in the steps of one compile; `told` gets what is to be shown. `breakpoint` is the last query."""

    def __init__(self, steps: Steps, told: Callable[[str], None], at: int = 0) -> None:
        self.steps = steps
        self.told = told
        self.at = at
        self.breakpoint = "break:"

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
            elif (to := LETTERS.get(command.lower() or "i")) is not None:
                found = self.steps.move(self.at, to, back=command.isupper())
            else:
                self.told(HELP)
                return True
        except ValueError as error:
            self.told(str(error))
            return True
        if found is None:
            self.told(f"There is no such step; they end at {len(self.steps) - 1}.")
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


def step(record: Record, compile: str, at: int | None, query: str | None) -> int:
    """What `explorer step` does; its exit code. Raises ValueError for what the record does not have, and for what is no
    query."""
    console: Output = wide_enough()

    def told(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    chosen: Steps | None
    found = record.steps
    if not found:
        raise ValueError(
            f"the record of {record.data.title} has no steps. explorer.explore and %%explore record them; a watched "
            "program and imported logs have none"
        )
    known = {each.compile.id: each for each in found}
    chosen = known.get(compile or found[0].compile.id)
    if chosen is None:
        raise ValueError(f"{compile} has no steps; expected one of {', '.join(known)}")
    if at is not None and at >= len(chosen):
        raise ValueError(f"{chosen.compile.id} has steps 0 to {len(chosen) - 1}, and no step {at}")
    walk = Walk(chosen, told, at or 0)
    if query is not None:
        return 0 if walk.listed(query) else 1
    if at is not None:
        told(chosen.text(at))
        return 0
    told(found.text())
    told(HELP)
    told(chosen.text(0))
    for line in sys.stdin:
        if not walk.do(line.strip()):
            break
    return 0
