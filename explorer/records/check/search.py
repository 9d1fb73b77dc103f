"""The search for where a compiled call parts from eager, whoever compiled it: looking, and telling a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import fx

from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, info
from explorer.ir.record import DivergenceData, SpanData

Errors = tuple[float | None, float | None]
"""Distances from the referee, ours and eager's; None where there is no finite one."""


@dataclass
class Search:
    """Programs are looked into as they run. `found` is the first fault."""

    found: DivergenceData | None = None

    def look(self, at: Callable[[], DivergenceData | None], blame: Blame) -> None:
        """Only until something is found; the program's random numbers and modes are as if nobody had looked."""
        if self.found is not None:
            return
        devices = range(torch.cuda.device_count())
        with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                self.found = at()
            except Exception as error:  # the program goes on, and is told that nobody knows
                self.lost(f"the search could not follow {blame.compile}: {type(error).__name__}: {error}", blame)

    def lost(self, why: str, blame: Blame) -> None:
        """Something could not be compared."""
        self.found = blame.told(None, "", "", (None, None), why)


@dataclass
class Blame:
    """Names what is at fault in one compile, with the program's line. `graphs` gives all of the compile's graphs."""

    compile: str
    graphs: Callable[[], Iterable[Graph]]
    engine: str = "explorer"

    def told(self, node: fx.Node | None, half: str, kernel: str, errors: Errors, detail: str) -> DivergenceData:
        id = "" if node is None else info(node).id
        place = None if node is None else self._place(id)
        return DivergenceData(self.compile, half, id, kernel, *errors, _span(place), detail, self.engine)

    def _place(self, id: str) -> Span | None:
        """The line of the program that an element comes from, through its origins."""
        facts = {info(n).id: info(n) for g in self.graphs() for n in g.graph.nodes if n.op != "output"}
        pending = [id]
        seen: set[str] = set()
        while pending:
            found = facts.get(pending.pop(0))
            if found is None or found.id in seen:
                continue
            seen.add(found.id)
            if found.span is not None:
                return found.span
            pending += found.origins
        return None


def _span(at: Span | None) -> SpanData | None:
    return None if at is None else SpanData(at.file, at.line, at.end_line, at.column, at.end_column)
