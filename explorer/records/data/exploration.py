"""What an exploration gives: the data of its record, and what runs the explored call once more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from explorer.ir.record import DivergenceData, RecordData

EXPLORED = "explored"
"""The attribute of an exception of the program that has the record so far."""
RECORDED = f"What explorer.explore recorded up to here is this exception's attribute `{EXPLORED}`."
"""A note of such an exception."""

Bisect = Callable[[], DivergenceData | None]
"""Runs the explored call once more, and finds where it first differs from eager."""


@dataclass(frozen=True)
class Exploration:
    """`bisect` has a function by engine."""

    data: RecordData
    bisect: Mapping[str, Bisect] = field(default_factory=dict)

    def noting(self, notes: Sequence[str]) -> Exploration:
        """The same with more notes."""
        return self.having(notes=(*self.data.notes, *notes))

    def having(self, **found: object) -> Exploration:
        """The same with some fields of its data replaced."""
        return replace(self, data=msgspec.structs.replace(self.data, **found))
