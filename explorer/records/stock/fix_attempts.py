"""Tries fixes of graph breaks: compiles again with a setting or a rewritten source, runs, compares with eager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._dynamo
from msgspec.structs import replace as changed
from torch import Tensor
from torch.utils._pytree import tree_map

from explorer.core.text import count
from explorer.ir import record as data
from explorer.records.check.accuracy import against_eager
from explorer.records.check.trial import Outcome, Trial, duplicate
from explorer.records.stock.fixes import TRIED, UNTRIED, Fix
from explorer.records.stock.rewrite import Refused, Rewritten, function_of, rewritten, standing_in
from explorer.records.stock.run import StockRun, stock_run


@dataclass(frozen=True)
class FixAttempt:
    """The outcome of a fix: the compiles with it, up to Dynamo's graph, or why there are none. `lines` ("FILE:LINE")
    are those of the breaks that it is for, or empty for all with this fix; `before` those of all breaks without it."""

    fix: Fix
    compiles: tuple[data.CompileData, ...] = ()
    failure: str = ""
    against: str = ""
    """How close the results are to eager's, as text."""
    differs: bool = False
    """Whether they differ from eager's."""
    lines: tuple[str, ...] = ()
    refused: str = ""
    """Why it was not tried."""
    before: frozenset[str] = frozenset()

    def message(self, each: data.BreakData) -> str:
        """The result for one break, as a hint."""
        if self.refused:
            return f"{UNTRIED}{self.fix.words}; not tried automatically: {self.refused}"
        where = ", ".join(compile.id for compile in self.compiles)
        left = _lines(self.compiles)
        elsewhere = sorted(line for line in left - self.before)
        if self.failure:
            outcome = f"it does not help: the compile then fails: {self.failure}"
        elif _line(each) in left:
            outcome = f"it does not help: the graph still breaks here (see {where})"
        elif len(left) >= len(self.before):
            outcome = f"it does not help: the graph breaks at {' and '.join(elsewhere)} instead"
        elif self.differs:
            outcome = f"it does not help: the graph no longer breaks here, {self.against}"
        else:
            more = f" ({count(len(self.before), 'break')} without it, {len(left)} with it)" if left else ""
            outcome = f"it helps: the graph no longer breaks here{more} (see {where}); {self.against}"
        return f"{TRIED}{self.fix.words}; {outcome}"


def _lines(compiles: Sequence[data.CompileData]) -> frozenset[str]:
    return frozenset(_line(each) for compile in compiles for each in compile.breaks)


def attempts(run: StockRun) -> list[FixAttempt]:
    """One for each setting that may mend a break of `run`, and one for each line whose branch may be rewritten."""
    before = frozenset(_line(each) for compile in run.observation.compiles for each in compile.breaks)
    wanted: list[Fix] = []
    branches: dict[str, tuple[Fix, list[data.BreakData]]] = {}
    for compile in run.observation.compiles:
        wanted += [fix for fix in compile.fixes if fix.settings and fix not in wanted]
        for fix, each in zip(compile.fixes, compile.breaks, strict=True):
            if fix.rewrites:
                branches.setdefault(fix.words, (fix, []))[1].append(each)
    made = [_set(run, fix, number) for number, fix in enumerate(wanted)]
    for fix, breaks in branches.values():
        made += _rewritten(run, fix, breaks, len(made))
    return [replace(each, before=before) for each in made]


def _set(run: StockRun, fix: Fix, number: int) -> FixAttempt:
    with torch._dynamo.config.patch(**_added(fix.settings)):
        return _tried(run.trial, run.trial, FixAttempt(fix), " and ".join(fix.settings), number)


def _tried(trial: Trial, eager: Trial, attempt: FixAttempt, how: str, number: int) -> FixAttempt:
    with stock_run(trial, {"backend": "eager"}, ids=f"fix{number}s") as again:
        compiles = tuple(changed(each, title=f"{each.title}, with {how}") for each in again.compiles({}))
        if again.outcome is None:
            return replace(attempt, compiles=compiles, failure=again.failure.partition("\n")[0])
        against, differs = _against(again.outcome, eager)
    return replace(attempt, compiles=compiles, against=against, differs=differs)


def _against(ours: Outcome, eager: Trial) -> tuple[str, bool]:
    """How close the results are to eager's, and whether they differ. A tensor of the side that torch.where does
    not take has a gradient of zeros, in eager none."""
    expected, found = eager.contestant().observe(), ours.gradients
    more = [name for name, g in found.items() if name not in expected.gradients and g is not None and not g.any()]
    gradients = {name: g for name, g in found.items() if name not in more}
    judged = against_eager(eager.again, replace(ours, gradients=gradients).values(), expected.values())
    if judged.first_mismatch:
        return f"but results differ from eager's: {judged.first_mismatch}", True
    zeros = f"; zero gradients where eager has none: {', '.join(more)}" if more else ""
    return f"largest error against eager {judged.largest_absolute:.3g}{zeros}", False


def _rewritten(run: StockRun, fix: Fix, breaks: Sequence[data.BreakData], number: int) -> Iterator[FixAttempt]:
    """One attempt that rewrites all branches of the function, and one for each branch that cannot be rewritten."""
    lines = [each.span for each in breaks if each.span is not None]
    try:
        function, owner = function_of(run.trial.fn)
        file = function.__code__.co_filename
        made = rewritten(function, {span.line for span in lines if span.file == file}, owner)
    except Refused as why:
        yield FixAttempt(fix, lines=tuple(f"{span.file}:{span.line}" for span in lines), refused=str(why))
        return
    for span in lines:
        at = f"{span.file}:{span.line}"
        if span.file != file or span.line not in made.lines:
            outside = "the branch is not in the explored function, but in one that it calls"
            yield FixAttempt(fix, lines=(at,), refused=made.refused.get(span.line, outside))
    trial = replace(run.trial, fn=standing_in(run.trial.fn, made.function))
    attempt = FixAttempt(fix, lines=tuple(f"{file}:{line}" for line in made.lines))
    found = _tried(trial, run.trial, attempt, "torch.where", number)
    if not (found.failure or found.differs):
        found = replace(found, against=f"{found.against}; {_other_outcomes(run.trial, trial, made)}")
    shown = tuple(data.LineData(line) for line in made.diff)
    compiles = list(found.compiles)
    if compiles:
        first = compiles[0]
        stage = data.StageData(
            f"{first.id}/source", "rewritten source", first.started, 0.0, 0, body=data.TextData(shown, "diff")
        )
        compiles[0] = changed(first, stages=(stage, *first.stages))
    yield replace(found, compiles=tuple(compiles))


def _other_outcomes(eager: Trial, mended: Trial, made: Rewritten) -> str:
    """The comparison on inputs for which the branches go the other way, if some are found."""
    probed = replace(eager, fn=standing_in(eager.fn, made.probed))
    seen = _taken(probed, made)
    for args, kwargs in _variations(eager):
        other = replace(probed, args=args, kwargs=kwargs)
        taken = _taken(other, made)
        if taken is None or seen is None or taken <= seen:
            continue
        there = replace(eager, args=args, kwargs=kwargs)
        found = _tried(replace(mended, args=args, kwargs=kwargs), there, FixAttempt(Fix("")), "torch.where", 0)
        if found.failure or found.differs:
            return f"on an input that takes the other side, {found.failure or found.against}"
        seen |= taken
        if len(seen) == 2 * len(made.lines):
            return "also on an input that takes the other side"
    return "only this input was compared, since no input was found that takes the other side"


def _taken(probed: Trial, made: Rewritten) -> set[tuple[int, bool]] | None:
    """The (line, outcome) of each branch in a call; None if the call fails."""
    made.taken.clear()
    try:
        probed.contestant().observe()
    except Exception:  # the program rejects such an input
        return None
    return set(made.taken)


def _variations(trial: Trial) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Inputs of the same shapes with other values."""
    for change in (
        torch.neg, lambda t: t - 10, lambda t: t + 10, torch.zeros_like, lambda t: t * 1000, lambda t: t / 1000
    ):  # fmt: skip

        def other(value: Any, change: Any = change) -> Any:
            if not isinstance(value, Tensor) or not value.is_floating_point():
                return value
            return change(value.detach()).requires_grad_(value.requires_grad)

        yield tree_map(other, duplicate((trial.args, dict(trial.kwargs))))


def _added(settings: Mapping[str, object]) -> dict[str, Any]:
    """The settings, where sets extend what the program set itself."""
    return {
        name: getattr(torch._dynamo.config, name) | value if isinstance(value, frozenset) else value
        for name, value in settings.items()
    }


def _line(each: data.BreakData) -> str:
    return "" if each.span is None else each.span.place()


def with_outcomes(compiles: Sequence[data.CompileData], made: Sequence[FixAttempt]) -> tuple[data.CompileData, ...]:
    """The compiles, with the outcome of each attempt as a hint of its breaks."""

    def of_hint(hint: str, each: data.BreakData) -> str:
        for attempt in made:
            if hint == UNTRIED + attempt.fix.words and (not attempt.lines or _line(each) in attempt.lines):
                return attempt.message(each)
        return hint

    def of_break(each: data.BreakData) -> data.BreakData:
        return changed(each, hints=tuple(of_hint(hint, each) for hint in each.hints))

    return tuple(changed(compile, breaks=tuple(map(of_break, compile.breaks))) for compile in compiles)
