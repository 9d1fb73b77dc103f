"""Fixes of graph breaks, tried: compiled again with the setting, run, and compared with eager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch._dynamo
from msgspec.structs import replace

from explorer.check.accuracy import compare
from explorer.ir import record as data
from explorer.stock.fixes import TRIED, UNTRIED, Fix
from explorer.stock.run import StockRun, stock_run


@dataclass(frozen=True)
class Attempt:
    """What came of a fix: the compiles with it, as far as Dynamo's graph, or why there are none."""

    fix: Fix
    compiles: tuple[data.CompileData, ...]
    failure: str = ""
    error: float = 0.0
    """The largest against eager."""

    def said(self, each: data.BreakData) -> str:
        """Of one break."""
        where = ", ".join(compile.id for compile in self.compiles)
        if self.failure:
            return f"with it the compile fails: {self.failure}"
        if any(left.span == each.span for compile in self.compiles for left in compile.breaks):
            return f"the graph still breaks here, as {where} shows"
        return f"the graph does not break here any more, as {where} shows; largest error against eager {self.error:.3g}"


def attempts(run: StockRun) -> list[Attempt]:
    """One for each setting that may mend a break of `run`."""
    wanted: list[Fix] = []
    for compile in run.observation.compiles:
        wanted += [fix for fix in compile.fixes if fix.settings and fix not in wanted]
    return [_attempt(run, fix, number) for number, fix in enumerate(wanted)]


def _attempt(run: StockRun, fix: Fix, number: int) -> Attempt:
    with torch._dynamo.config.patch(**_added(fix.settings)):
        with stock_run(run.trial, {"backend": "eager"}, ids=f"fix{number}s") as again:
            name = " and ".join(fix.settings)
            compiles = tuple(replace(each, title=f"{each.title}, with {name}") for each in again.compiles({}))
            if again.outcome is None:
                return Attempt(fix, compiles, again.failure.partition("\n")[0])
            eager = run.trial.contestant().observe()
            error = compare(again.outcome.values(), eager.values()).largest_absolute
    return Attempt(fix, compiles, error=error)


def _added(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the program set itself stays."""
    return {
        name: getattr(torch._dynamo.config, name) | value if isinstance(value, frozenset) else value
        for name, value in settings.items()
    }


def told(compiles: Sequence[data.CompileData], made: Sequence[Attempt]) -> tuple[data.CompileData, ...]:
    """The compiles, their breaks saying what came of the fix, and after them those with the fixes."""
    by_words = {UNTRIED + attempt.fix.words: attempt for attempt in made}

    def of_break(each: data.BreakData) -> data.BreakData:
        hints = tuple(
            f"{TRIED}{by_words[hint].fix.words}; {by_words[hint].said(each)}" if hint in by_words else hint
            for hint in each.hints
        )
        return replace(each, hints=hints)

    mended = [replace(compile, breaks=tuple(map(of_break, compile.breaks))) for compile in compiles]
    return (*mended, *(compile for attempt in made for compile in attempt.compiles))
