"""What fusion tried, in that order: which groups it asked about, what came of it, and the kernels by then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from explorer.core.text import count
from explorer.ir.record import CompileData, FusionData, HalfData, RecordData
from explorer.show.view.amounts import amount
from explorer.show.view.queries import Queried

Groups = dict[str, list[str]]
"""The operations that an operation was in one kernel with, by its id: one list for all of a kernel."""


class Tries(Queried[FusionData, Groups]):
    """What fusion tried in one half. Queries are as for `Steps`: `fused:`, `later:` and `refused:` find what came of
    it, `because:reduction` why, `operation=buf3` one of the two."""

    keys = ("because", "operation", "fused", "later", "refused", "kernel", "step", "saves")
    numbers = ("step", "saves")
    called = "try"
    example = "refused:reduction  or  fused: saves>1000"
    letters: ClassVar = {
        "i": ("try", "try"), "f": ("fused:", "fused"), "p": ("later:", "put off"), "r": ("refused:", "refused"),
    }  # fmt: skip

    def __init__(self, compile: CompileData, half: HalfData) -> None:
        self.compile = compile
        self.half = half
        self._tried = half.schedule.tried if half.schedule is not None else ()
        self._origins = {operation.id: operation.origins for operation in half.operations}

    def __len__(self) -> int:
        return len(self._tried)

    def __getitem__(self, at: Any) -> Any:
        return self._tried[at]

    def states(self) -> Iterator[tuple[int, Groups]]:
        """The groups after each try."""
        groups: Groups = {}
        for at, row in enumerate(self._tried):
            if row.ok and not row.later:
                first, second = (groups.setdefault(id, [id]) for id in (row.first, row.second))
                if first is not second:
                    larger, smaller = (first, second) if len(first) >= len(second) else (second, first)
                    larger += smaller
                    groups.update(dict.fromkeys(smaller, larger))
            yield at, groups

    def kernels(self, at: int) -> list[list[str]]:
        """The operations that were together after a try."""
        groups = next((held for place, held in self.states() if place == at), {})
        return list({id(each): each for each in groups.values() if len(each) > 1}.values())

    def number(self, key: str, at: int) -> float | None:
        return at if key == "step" else self._tried[at].score

    def facts(self, key: str, at: int, held: Groups) -> Sequence[str]:
        row = self._tried[at]
        match key:
            case "because":
                return (row.why.cited,)
            case "operation":
                return row.first, row.second
            case "kernel":
                return [" ".join(held[id]) for id in (row.first, row.second) if id in held]
            case "step" | "saves":
                return (str(self.number(key, at)),)
        return (row.why.cited,) if key == outcome(row) else ()

    def title(self) -> str:
        return self.half.name

    def summary(self) -> str:
        counts = {key: len(self.find(f"{key}:")) for key in ("fused", "later", "refused")}
        said = f"{counts['fused']} fused, {counts['later']} put off, {counts['refused']} refused"
        return f"{self.half.name}: {len(self)} {'try' if len(self) == 1 else 'tries'} of fusion: {said}"

    def line(self, at: int) -> str:
        row = self._tried[at]
        saves = f"; saves {amount(row.score, 'B')}" if row.score >= 1 else ""
        return f"{at:>4}  {SAID[outcome(row)]:<8} {row.first} with {row.second}: {row.why.title}{saves}"

    def text(self, at: int) -> str:
        row = self._tried[at]
        kernels = self.kernels(at)
        alone = len(self._origins) - sum(map(len, kernels))
        lines = [
            f"{self.half.name}, try {at} of {len(self) - 1}: {SAID[outcome(row)]}",
            *(f"  {id}  {', '.join(self._origins.get(id, ()))}".rstrip() for id in (row.first, row.second)),
            f"  {row.why.cited}",
            *([f"  saves {amount(row.score, 'B')} of memory traffic"] if row.score >= 1 else []),
            "kernels by then",
            *(f"  {' + '.join(each)}" for each in kernels),
            f"  and {count(alone, 'operation')} alone",
        ]
        return "\n".join(lines)


SAID = {"fused": "fused", "later": "put off", "refused": "refused"}


def outcome(row: FusionData) -> str:
    """What came of a try: a key of SAID."""
    return "later" if row.later else "fused" if row.ok else "refused"


def tries_of(record: RecordData) -> list[Tries]:
    """What was tried, one entry per half in which something was."""
    found = (Tries(compile, half) for compile in record.compiles for half in compile.halves)
    return [each for each in found if len(each)]
