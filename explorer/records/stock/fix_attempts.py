"""Tries fixes of graph breaks: compiles again with a setting or a rewritten source, runs, compares with eager."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch._dynamo
from msgspec.structs import replace as changed
from torch import Tensor

from explorer.core.text import count
from explorer.ir import record as data
from explorer.records.check.accuracy import against_eager
from explorer.records.check.isolate import NotIsolated
from explorer.records.check.trial import Outcome, Trial
from explorer.records.stock.fixes import BRANCH, TRIED, UNTRIED, Fix
from explorer.records.stock.rewrite import NotRewritable, RewrittenFunction, function_at, rewritten
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
        return f"{TRIED}{self.fix.words}; {self.outcome(each)}"

    def outcome(self, each: data.BreakData) -> str:
        """Whether it helps against one break."""
        where = ", ".join(compile.id for compile in self.compiles)
        left = {_line(each) for compile in self.compiles for each in compile.breaks}
        elsewhere = sorted(line for line in left - self.before)
        if self.failure:
            return f"it does not help: the compile then fails: {self.failure}"
        if _line(each) in left:
            return f"it does not help: the graph still breaks here (see {where})"
        if len(left) >= len(self.before):
            return f"it does not help: the graph breaks at {' and '.join(elsewhere)} instead"
        if self.differs:
            return f"it does not help: the graph no longer breaks here, {self.against}"
        more = f" ({count(len(self.before), 'break')} without it, {len(left)} with it)" if left else ""
        return f"it helps: the graph no longer breaks here{more} (see {where}); {self.against}"


@dataclass(frozen=True)
class Ran:
    """A trial that was compiled up to its graphs, and ran: `outcome` is None where it could not, `failure` says why."""

    compiles: tuple[data.CompileData, ...]
    outcome: Outcome | None
    failure: str = ""


Compiler = Callable[[Trial, str], Ran]
"""Compiles a trial up to its graphs and runs it. The ids of its compiles begin with the text."""


def by_stock(trial: Trial, ids: str) -> Ran:
    with stock_run(trial, {"backend": "eager"}, ids=f"{ids}s") as again:
        return Ran(again.compiles({}), again.outcome, again.failure.partition("\n")[0])


def attempts(run: StockRun) -> list[FixAttempt]:
    """One for each setting that may remove a break of `run`, and one for each function whose branches may be
    rewritten."""
    compiles = run.observation.compiles
    before = frozenset(_line(each) for compile in compiles for each in compile.breaks)
    wanted: list[Fix] = []
    for compile in compiles:
        wanted += [fix for fix in compile.fixes if fix.settings and fix not in wanted]
    made = [_set(run.trial, fix, number) for number, fix in enumerate(wanted)]
    branches = [
        each for compile in compiles for fix, each in zip(compile.fixes, compile.breaks, strict=True) if fix.rewrites
    ]
    made = [replace(each, before=before) for each in made]
    return [*made, *rewrites(run.trial, by_stock, branches, before, len(made))]


def rewrites(
    trial: Trial, compiler: Compiler, branches: Sequence[data.BreakData], before: frozenset[str], number: int = 0
) -> list[FixAttempt]:
    """One for each function that has some of these branches, all of which are rewritten, and one for each branch that
    cannot be. `before`: the lines of all breaks; `number` is that of the first."""
    made: list[FixAttempt] = []
    of: dict[types.FunctionType, tuple[Any, set[int]]] = {}
    for span in dict.fromkeys(each.span for each in branches if each.span is not None):
        found = function_at(trial.fn, span.file, span.line, trial.given)
        if found is None:
            unknown = "its function is not found by the names that the explored code reads"
            made.append(FixAttempt(BRANCH, lines=(span.place(),), refused=unknown))
        else:
            of.setdefault(found[0], (found[1], set()))[1].add(span.line)
    for function, (owner, lines) in of.items():
        try:
            made += [*_rewritten(trial, compiler, function, owner, lines, number + len(made))]
        except NotIsolated as why:
            at = tuple(f"{function.__code__.co_filename}:{line}" for line in sorted(lines))
            made.append(FixAttempt(BRANCH, lines=at, refused=f"the call cannot be repeated: {why}"))
    return [replace(each, before=before) for each in made]


def _set(trial: Trial, fix: Fix, number: int) -> FixAttempt:
    with torch._dynamo.config.patch(**_added(fix.settings)):
        again = by_stock(trial, f"fix{number}")
    return _judged(trial, again, FixAttempt(fix), " and ".join(fix.settings))


def _judged(eager: Trial, again: Ran, attempt: FixAttempt, how: str) -> FixAttempt:
    compiles = tuple(changed(each, title=f"{each.title}, with {how}") for each in again.compiles)
    if again.outcome is None:
        return replace(attempt, compiles=compiles, failure=again.failure)
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


def _rewritten(
    trial: Trial, compiler: Compiler, function: types.FunctionType, owner: object, lines: set[int], number: int
) -> Iterator[FixAttempt]:
    """One attempt that rewrites all branches of the function, and one for each branch that cannot be rewritten."""
    file = function.__code__.co_filename
    try:
        made = rewritten(function, lines, owner)
    except NotRewritable as why:
        yield FixAttempt(BRANCH, lines=tuple(f"{file}:{line}" for line in sorted(lines)), refused=str(why))
        return
    for line, refused in made.refused.items():
        yield FixAttempt(BRANCH, lines=(f"{file}:{line}",), refused=refused)
    again = compiler(replace(trial, within=partial(made.instead, made.code)), f"fix{number}")
    attempt = FixAttempt(BRANCH, lines=tuple(f"{file}:{line}" for line in made.lines))
    found = _judged(trial, again, attempt, "torch.where")
    if not (found.failure or found.differs):
        found = replace(found, against=f"{found.against}; {_other_outcomes(trial, compiler, made)}")
    shown = tuple(data.LineData(line) for line in made.diff)
    compiles = list(found.compiles)
    if compiles:
        first = compiles[0]
        stage = data.StageData(
            f"{first.id}/source", "rewritten source", first.started, 0.0, 0, body=data.TextData(shown, "diff")
        )
        compiles[0] = changed(first, stages=(stage, *first.stages))
    yield replace(found, compiles=tuple(compiles))


VARIATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.neg, lambda t: t - 10, lambda t: t + 10, torch.zeros_like,
    lambda t: t * 1000, lambda t: t * -1000, lambda t: t / 1000,
)  # fmt: skip
"""Inputs of the same shapes with other values."""


def _other_outcomes(eager: Trial, compiler: Compiler, made: RewrittenFunction) -> str:
    """The comparison on inputs for which the branches go the other way, if some are found."""
    seen = _taken(eager, made)
    for change in VARIATIONS:
        other = eager.varied(change)
        taken = _taken(other, made)
        if taken is None or seen is None or taken <= seen:
            continue
        again = compiler(replace(other, within=partial(made.instead, made.code)), "fix")
        found = _judged(other, again, FixAttempt(BRANCH), "torch.where")
        if found.failure or found.differs:
            return f"on an input that takes the other side, {found.failure or found.against}"
        seen |= taken
        if len(seen) == 2 * len(made.lines):
            return "also on an input that takes the other side"
    return "only this input was compared, since no input was found that takes the other side"


def _taken(trial: Trial, made: RewrittenFunction) -> set[tuple[int, bool]] | None:
    """The (line, outcome) of each branch in a call; None if the call fails."""
    made.taken.clear()
    try:
        replace(trial, within=partial(made.instead, made.probed)).contestant().observe()
    except Exception:  # the program rejects such an input
        return None
    return set(made.taken)


def _added(settings: Mapping[str, object]) -> dict[str, Any]:
    """The settings, where sets extend what the program set itself."""
    return {
        name: getattr(torch._dynamo.config, name) | value if isinstance(value, frozenset) else value
        for name, value in settings.items()
    }


def _line(each: data.BreakData) -> str:
    return "" if each.span is None else each.span.place()


def with_outcomes(compiles: Sequence[data.CompileData], made: Sequence[FixAttempt]) -> tuple[data.CompileData, ...]:
    """The compiles, whose breaks say what came of each attempt: in the hint of that fix, and of a rewrite beside it."""

    def of_hint(hint: str, each: data.BreakData) -> str:
        for attempt in made:
            if hint == UNTRIED + attempt.fix.words and (not attempt.lines or _line(each) in attempt.lines):
                return attempt.message(each)
        return hint

    def of_break(each: data.BreakData) -> data.BreakData:
        ran = (attempt for attempt in made if attempt.fix.rewrites and not attempt.refused)
        tried = next((attempt.outcome(each) for attempt in ran if _line(each) in attempt.lines), "")
        return changed(each, hints=tuple(of_hint(hint, each) for hint in each.hints), tried=tried)

    return tuple(changed(compile, breaks=tuple(map(of_break, compile.breaks))) for compile in compiles)
