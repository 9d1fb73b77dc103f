"""The search for the first divergence of a compiled call from eager, shared by both compilers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import fx

from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, info
from explorer.ir.record import DivergenceData, SpanData

Errors = tuple[float | None, float | None]
"""(our, eager's) largest distance from the reference; None if it is not finite."""


@dataclass
class Search:
    """Compares programs as they run. `found` is the first divergence."""

    found: DivergenceData | None = None

    def compare(self, at: Callable[[], DivergenceData | None], report: FaultReport) -> None:
        """Runs the comparison `at` unless a divergence is known; restores random numbers and modes for the program."""
        if self.found is not None:
            return
        devices = range(torch.cuda.device_count())
        with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                self.found = at()
            except Exception as error:  # the program continues; the error is reported
                self.give_up(f"{report.compile} could not be compared: {type(error).__name__}: {error}", report)

    def give_up(self, why: str, report: FaultReport) -> None:
        """Records that something could not be compared."""
        self.found = report.divergence(None, "", "", (None, None), why)


@dataclass
class FaultReport:
    """Reports divergences in one compile, with their source lines. `graphs` yields all graphs of the compile."""

    compile: str
    graphs: Callable[[], Iterable[Graph]]
    engine: str = "explorer"

    def divergence(self, node: fx.Node | None, half: str, kernel: str, errors: Errors, detail: str) -> DivergenceData:
        id = "" if node is None else info(node).id
        place = None if node is None else self._place(id)
        return DivergenceData(self.compile, half, id, kernel, *errors, _span(place), detail, self.engine)

    def _place(self, id: str) -> Span | None:
        """The source line of a node, through its origins."""
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
