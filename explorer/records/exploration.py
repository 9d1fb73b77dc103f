"""One exploration: compile and run a call, compare it with eager, time both, and make the record."""

from __future__ import annotations

import gc
import math
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from explorer.compiler.capture import optimize
from explorer.compiler.capture.hook import stance, watcher
from explorer.compiler.capture.reasons import DATA_DEPENDENT_BRANCH
from explorer.compiler.capture.tape import first_line
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.compiler.runtime.timing import GRAPHS_METHOD, METHOD, NO_PEAKS, interleave, peaks
from explorer.core.recorder import SILENT, Progress, Recorder, recording
from explorer.core.text import count, duration
from explorer.ir import record as data
from explorer.ir.capture import Capture, GuardedCode
from explorer.ir.joint import Partitioned
from explorer.ir.program import CPU, Program, Target
from explorer.records import to_record
from explorer.records.assembly import (
    assembled,
    compiles_of,
    failure_of,
    settings_of,
    timed_outside,
    untimed_outside,
)
from explorer.records.check import profile as profiling
from explorer.records.check.accuracy import Comparison, against_eager
from explorer.records.check.calls import InPlace, Leave, RepeatedCalls
from explorer.records.check.captured import NOT_AGAIN, Captured, GraphTrial, NotRun, Once, not_running
from explorer.records.check.custom_operators import OperatorChecks, custom_operators
from explorer.records.check.eagerly import OWN_COMPILED, replaced
from explorer.records.check.first_divergence import first_divergence, searched
from explorer.records.check.guard_costs import guard_costs
from explorer.records.check.isolate import NotIsolated, undone
from explorer.records.check.process import Outside, put_back
from explorer.records.check.speed import speed
from explorer.records.check.trial import Contestant, Trial
from explorer.records.data.calls import OutsideGraphs
from explorer.records.data.exploration import EXPLORED, Bisect, Exploration
from explorer.records.stock.assembly import with_assembly
from explorer.records.stock.breaks import raised_at, whole_text
from explorer.records.stock.caches import Counted, untouched
from explorer.records.stock.calling import MOST_CALLS
from explorer.records.stock.calling import one_call as call_outside
from explorer.records.stock.contestant import Stock, compiles_so_far
from explorer.records.stock.divergence import stock_divergence, unasked
from explorer.records.stock.fix_attempts import FixAttempt, Ran, attempts, rewrites, with_outcomes
from explorer.records.stock.fixes import BRANCHING
from explorer.records.stock.profile import live_bytes as live_bytes_of_stock
from explorer.records.stock.profile import one_call as call_of_stock
from explorer.records.stock.profile import profile as profile_stock
from explorer.records.stock.rewrite import suggested
from explorer.records.stock.run import StockRun, captured_by_stock, stock_run, unwrapped

SECONDS_OF_TIMING = 1.0
"""For each contestant."""


def title(fn: Callable[..., object]) -> str:
    """The title of a function or module in a record."""
    return str(getattr(fn, "__qualname__", type(fn).__name__)).rpartition("<locals>.")[2]


ENGINES = ("explorer", "stock", "both")


@dataclass(frozen=True)
class Asked:
    """How a call is explored: compiled by us with `config`, by stock torch.compile with the arguments `stock`, or by
    both. `time` may be the seconds for each contestant. `fixes`: try those of stock's graph breaks. `values`: run ours
    kernel by kernel, too, and compare each with eager."""

    config: Config
    name: str
    engine: str = "explorer"
    stock: Mapping[str, Any] | None = None
    time: bool | float = True
    fixes: bool = False
    values: bool = False
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        if not isinstance(self.time, (bool, int, float)) or not 0 <= self.time < math.inf:
            raise ValueError(f"time={self.time!r}; expected True, False, or the seconds that each engine is timed")

    @property
    def budget(self) -> float:
        """Seconds of timing for each contestant; 0 for none."""
        return SECONDS_OF_TIMING if self.time is True else float(self.time)


def harmless(
    fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], asked: Asked, *,
    grad: bool | None = None, leave: Leave = "called",
) -> Exploration:  # fmt: skip
    """The record of a call, whose lasting effects are those of one eager call, or none.

    What the function raises propagates; what was recorded up to there is the attribute `explored` of the exception.
    """
    with alone(), untouched() as counted:
        trial = Trial(fn, args, kwargs, grad)
        under, _ = unwrapped(trial)
        calls = RepeatedCalls(under.fn, args, kwargs, leave)
        recorder = Recorder(asked.progress)
        try:
            if calls.once and leave == "unchanged":
                record = not_called(under, asked, recorder, f"Not called, because {calls.once}")
            elif calls.once:
                once = Once(fn, args, kwargs, grad, through_ours=calls.traced_into)
                record = exploration(once, asked, recorder)
            else:
                record = in_place(InPlace(fn, args, kwargs, grad, calls=calls), under, asked, recorder, counted)
        except BaseException as error:
            if not isinstance(vars(error).get(EXPLORED), Exploration):  # a program may raise one exception again
                record = Exploration(contents(recorder, asked.config, asked.name, error=error))
                in_eager = f"It is not known whether the program raises in eager too, because {calls.once}."
                keep(error, record.noting((in_eager,) if calls.once else ()))
            raise
        calls.ended = True
        timing = record.data.timing
        why = calls.untimed if asked.time else "timing was not asked for"
        record = record.having(eager=untimed_outside(record.data.eager, why))
        asked_for = stance()
        notes = () if asked_for == "default" else (STANCE.format(asked_for),)
        record = record.noting((*notes, *calls.notes(timed=timing is not None and bool(timing.contestants))))
        collects = calls.classes_made()
    del trial, calls, recorder
    if collects:
        gc.collect()
    return record


def in_place(trial: InPlace, under: Trial, asked: Asked, recorder: Recorder, counted: Counted) -> Exploration:
    """The record of a call on the program's own objects, which are restored after each call but the first. What the
    program itself `counted` with torch's counters in that one stays."""
    calls = trial.calls
    eager = replace(trial, fn=under.fn)
    try:
        try:
            eager.call()
        finally:
            if calls.leave == "called":
                counted.take()
    except Outside as refusal:
        calls.once = str(refusal).replace("once more", "though nothing is to change")
        return not_called(under, asked, recorder, "Stopped there and compiled")
    except Exception as error:
        record = None
        if calls.after is not None and not calls.once:
            with suppress(Exception, Outside):  # the program's own, which the compiled program raises too
                record = exploration(trial, asked, recorder)
        record = record or Exploration(contents(recorder, asked.config, asked.name, error=error))
        keep(error, record.noting((f"The program raises in eager too: {type(error).__name__}: {error}",)))
        raise
    if calls.once:
        ours = " by this compiler (stock compiles only what is called)" * (asked.engine != "explorer")
        return not_called(under, asked, recorder, f"Compiled{ours} but not called again")
    try:
        with undone(calls.restore):  # a graph that is run by itself may run the program's code, as of a tensor's class
            record = exploration(trial, asked, recorder)
        engines = (WHOSE[each.engine] for each in record.data.errors if each.raises and each.engine)
        made_by = " and ".join(dict.fromkeys(engines))
        return record.noting((NOT_IN_EAGER.format(made_by),)) if made_by else record
    except Outside as refusal:
        made = Exploration(contents(recorder, asked.config, asked.name))
        return made.noting((f"Not compared and not timed: {refusal}.",))


WHOSE = {"explorer": "this compiler", "stock": "torch.compile"}
NOT_IN_EAGER = "In eager the program does not raise: what {} made of it does."


def not_called(trial: Trial, asked: Asked, recorder: Recorder, why: str) -> Exploration:
    """The record of the function's own frame, compiled and not run."""
    with recording(recorder), not_running(trial.fn, asked.config, compile_frame) as call:
        call(*trial.args, **trial.kwargs)
    for run in recorder.compiles:
        run.error = run.error.__cause__ if isinstance(run.error, NotRun) else run.error
    why = why if recorder.compiles else "Neither compiled nor called again"
    return Exploration(contents(recorder, asked.config, asked.name)).noting((f"{why}: not compared and not timed.",))


def keep(error: BaseException, record: Exploration) -> None:
    """Attach the record so far to an exception of the program, whatever its class does when attributes are set."""
    vars(error)[EXPLORED] = record


_exploring: ContextVar[bool] = ContextVar("whether something is being explored", default=False)

NESTED = (
    "explorer.explore was called inside a function that is already {}; "
    "explore the inner function on its own, or remove the inner call"
)


STANCE = "torch.compiler.set_stance({!r}) is in force, which decides what is compiled."


@contextmanager
def alone() -> Iterator[None]:
    """Around an exploration. Raises RuntimeError inside of another one, and inside of compiled code."""
    if _exploring.get():
        raise RuntimeError(NESTED.format("explored"))
    if watcher() is not None:
        raise RuntimeError(NESTED.format("compiled"))
    token = _exploring.set(True)
    try:
        yield
    finally:
        _exploring.reset(token)


def exploration(trial: Trial, asked: Asked, recorder: Recorder | None = None) -> Exploration:
    """The record of compiling and running `trial`, with custom operators beside their fake implementations. The user's
    own exceptions propagate."""
    with replaced:  # once, and not in each timed call
        record = compiled(trial, asked, recorder)
    if asked.time and trial.repeatable and record.data.eager:
        record = with_times_outside(record, trial, asked)
    if not trial.repeatable or not custom_operators(record.data):
        return record
    asked.progress.on_phase("comparing custom operators with their fake implementations")
    checks = OperatorChecks()
    with suppress(NotIsolated, Exception), checks:  # the program's own: the record tells of it, or its eager call
        unwrapped(trial)[0].again().observe()
    return record.having(operators=tuple(checks.results()))


def with_times_outside(record: Exploration, trial: Trial, asked: Asked) -> Exploration:
    """The record with what each ran outside graphs, and how long. The call is made again, of graphs that run as they
    were captured."""
    asked.progress.on_phase("timing what runs outside graphs")
    under, again = unwrapped(trial)
    found: list[OutsideGraphs] = []
    why = f"in each of {MOST_CALLS} calls something was compiled"
    ours = partial(optimize, config=replace(asked.config, backend="eager"), compile_frame=compile_frame)
    compilers = {"explorer": ours, "stock": partial(captured_by_stock, asked.stock or {}, again)}
    for compiler in compilers.values() if asked.engine == "both" else (compilers[asked.engine],):
        try:
            found += call_outside(under, compiler)
        except NotIsolated as refusal:
            why = str(refusal)
        except Exception as error:  # the program's own: the record tells of it, or its eager call
            why = f"the call that was to be measured raised {type(error).__name__}"
    timed = timed_outside(record.data.eager, record.data.compiles, found)
    return record.having(eager=untimed_outside(timed, why))


def compiled(trial: Trial, asked: Asked, recorder: Recorder | None = None) -> Exploration:
    """The record of compiling and running `trial`."""
    under, _ = unwrapped(trial)
    if asked.engine == "explorer":
        try:
            run = explored(under, asked, recorder)
        except CompileRaised as raised:
            made = contents(raised.recorder, asked.config, asked.name, error=raised.__cause__, engine="explorer")
            return Exploration(made)
        made = run.record(run.time(budget=asked.budget) if asked.time and run.ran else None)
        return Exploration(made, {"explorer": run.bisect})
    # Ours first: what stock leaves to Python for good, it leaves so for every frontend.
    ours: Observed | CompileRaised | None = None
    through_ours = isinstance(trial, Once) and trial.through_ours
    if asked.engine == "both" or through_ours:
        try:
            ours = explored(under, asked, recorder, spare=1)
        except CompileRaised as raised:
            ours = raised
    absent = asked.config.target if asked.config.target != CPU else None
    captured = None
    if isinstance(trial, Once) and isinstance(ours, Observed):
        trial = ours.timed  # the function was called, so that stock compiles the graphs that it was captured as
    elif not trial.repeatable:
        captured = Captured(isinstance(trial, Once), not trial.backward_raises)
    with stock_run(trial, asked.stock, asked.progress.on_stage, absent, search=captured) as theirs:
        if asked.engine == "stock":
            return stock_exploration(theirs, None, captured, asked).noting((THROUGH_OURS,) if through_ours else ())
        return stock_exploration(theirs, ours, captured, asked)


THROUGH_OURS = (
    "torch.compile compiled the graphs that this compiler captured: it traces into functools caches, asyncio, "
    "numpy.memmap, weak containers and classes with __del__ or __getattribute__, so that a call compiled by it has "
    "other effects than an eager call. Its own guards and graph breaks are not recorded."
)


def stock_exploration(
    theirs: StockRun, first: Observed | CompileRaised | None, captured: Captured | None, asked: Asked
) -> Exploration:
    """The record of what stock compiled, with ours beside it where there is one. `captured` has the graphs of a call
    that is not repeated for timing."""
    config, stock, progress, budget = asked.config, asked.stock or {}, asked.progress, asked.budget
    ours = first if isinstance(first, Observed) else None
    progress.on_phase("comparing with eager")
    notes: list[str] = []
    fixed: list[FixAttempt] = []
    compared, outcome, timed, contestant = theirs.trial, theirs.outcome, theirs.trial, theirs.contestant
    if captured is not None:
        timed = captured.trial()
        contestant = timed.compiled()
        if isinstance(theirs.trial, Once):
            compared, outcome = timed, contestant.observe() if captured.calls else None
    eager = ours.eager if ours is not None else timed.contestant()
    entrants = [Entrant("eager", eager)]
    found: dict[str, Comparison] = {}
    bisect: dict[str, Bisect] = {}
    if ours is not None and ours.ran:
        entrants.append(Entrant("explorer", ours.ours, ours.compile_seconds))
        found["explorer"] = ours.accuracy
        bisect["explorer"] = ours.bisect
    ran = outcome is not None and theirs.observation.absent is None
    if theirs.observation.absent is None:
        bisect["stock"] = partial(stock_divergence, theirs.given, stock)
    else:
        bisect["stock"] = partial(nothing_runs, theirs.observation.absent)
    if outcome is not None:
        expected = compared.expected()
        notes += [OWN_COMPILED] * expected.own_compiled
        found["stock"] = against_eager(compared.again, outcome.values(), expected.values(), "stock")
        if ran and not found["stock"].ok and found["stock"].divergence is None:
            progress.on_phase("finding where stock's results first differ")
            searched = unasked(theirs, stock, repeatable=theirs.trial.repeatable)
            found["stock"] = replace(found["stock"], divergence=searched)
        if ran:
            note = f"of which {duration(theirs.watched)} is recording"
            entrants.append(Entrant("stock", contestant, theirs.seconds, note))
    measured = untimed(found) if ran else None
    seconds: Mapping[str, to_record.Seconds] = {}
    guards: GuardCosts = {}
    memory: LiveBytes = {}
    if budget and found and timed.measurable:
        recorder = ours.recorder if ours is not None and ours.ran else None
        measured = measured_if_it_runs(entrants, found, recorder, asked, timed)
        notes += filter(None, [measured.note])
        guards = {**measured.guards, **costs_of(theirs.guard_roots())}
        if ran and not measured.note:
            with timed.timed():
                seconds = profile_stock(replace(theirs, contestant=contestant, trial=timed))
                launched = call_of_stock(replace(theirs, contestant=contestant, trial=timed))
                memory = live_bytes_of_stock(theirs)
            measured = measured.with_call("stock", launched)
            if ours is None:
                measured = measured.with_overhead(
                    sum(sum(half.values()) for each in seconds.values() for half in each.values())
                )
    own = () if first is None else compiles_of(first.recorder, measured.kernels if measured else {})
    own = with_live_bytes(own, measured.live, measured.recompute) if measured else own
    if ours is not None:
        own = with_written(own, ours.written)
        notes += ours.notes
    called_once = isinstance(theirs.given, (Once, GraphTrial))
    if asked.fixes and called_once:
        notes.append(NO_FIX)
    tried = attempts(theirs) if asked.fixes and not called_once else []
    if asked.fixes and not called_once and ours is not None:
        own, fixed = with_fixes(own, ours.trial, asked)
    seen = with_live_bytes(theirs.compiles(seconds), memory)
    seen = with_assembly(seen, theirs.observation.modules())
    compiles = with_guard_costs((*own, *with_outcomes(seen, tried)), guards)
    settings = {**({} if first is None else settings_of(config)), **theirs.settings(stock)}
    failures = [] if theirs.failed is None else [failure_of(*theirs.failed, "stock")]
    if isinstance(first, CompileRaised):
        failures.append(failure_of(whole_text(first.error), raised_at(first.error), "explorer"))
    engine = "stock" if first is None else "explorer and stock"
    made = assembled(
        asked.name, engine, settings, compiles, own or compiles, measured.timing if measured else None,
        failures=failures, eager=theirs.observation.eager(), lines=config.edit.source.lines,
    )  # fmt: skip
    made = msgspec.structs.replace(
        made,
        error=theirs.failure or (str(first) if isinstance(first, CompileRaised) else ""),
        attempts=tuple(compile for each in (*tried, *fixed) for compile in each.compiles),
        notes=(*made.notes, *dict.fromkeys(notes)),
    )
    called = theirs.trial if ours is None else ours.trial
    if not config.edit.source.file:  # an edit's source is another than the function's
        made = with_rewrites(made, called.fn, called.given)
    return Exploration(made, bisect)


NO_FIX = "No fix of a graph break was tried, because that needs more calls of the function."


def with_fixes(
    compiles: tuple[data.CompileData, ...], trial: Trial, asked: Asked
) -> tuple[tuple[data.CompileData, ...], list[FixAttempt]]:
    """Our compiles with what came of rewriting the branches that break their graphs, and what was tried."""

    def by_ours(trial: Trial, ids: str) -> Ran:
        recorder = Recorder(ids=ids)
        contestant = trial.contestant(lambda fn: optimize(fn, config, compile_frame))
        outcome, failure = None, ""
        with recording(recorder):
            try:
                outcome = contestant.observe()
            except Exception as error:  # the program's own, or with fullgraph=True the next break
                failure = f"{type(error).__name__}: {first_line(error)}"
        return Ran(compiles_of(recorder, {}), outcome, failure)

    config = replace(asked.config, backend="eager")
    broken = [each for compile in compiles for each in compile.breaks]
    branches = [each for each in broken if each.why.code == DATA_DEPENDENT_BRANCH]
    places = frozenset(each.span.place() for each in broken if each.span is not None)
    if branches:
        asked.progress.on_phase("trying to rewrite the branches that break the graph")
    tried = rewrites(trial, by_ours, branches, places)
    return with_outcomes(compiles, tried), tried


def nothing_runs(target: Target) -> None:
    """Bisection for a GPU that is not present. Raises RuntimeError."""
    raise RuntimeError(f"stock's code for {target} cannot run on this machine, so there are no results to compare")


class CompileRaised(Exception):
    """What our compiler made raises: as requested (with fullgraph=True, say), or where the eager call does not."""

    def __init__(self, recorder: Recorder, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.recorder = recorder
        self.error = error


@dataclass(frozen=True)
class Observed:
    """A trial that was compiled and observed, with its contestants alive, so that they can be timed beside others.
    `timed` is what the contestants run: the call, or the graphs that it went through."""

    trial: Trial
    timed: Trial
    asked: Asked
    recorder: Recorder
    ours: Contestant
    eager: Contestant
    compile_seconds: float
    accuracy: Comparison
    written: Written
    notes: tuple[str, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether the compiled code ran: that for a GPU which is not here has neither speed nor results."""
        halves = [half for run in self.recorder.compiles for half in to_record.halves_of(run).values()]
        return all(half.program is None or half.program.call is not None for half in halves)

    def time(self, stock: Stock | None = None, budget: float = SECONDS_OF_TIMING) -> Measured | None:
        """Eager, ours and perhaps stock in turn, for about `budget` seconds each; then each kernel by itself. None
        where there is nothing to time."""
        if not self.timed.measurable:
            return None
        entrants = [Entrant("eager", self.eager), Entrant("explorer", self.ours, self.compile_seconds)]
        if stock is not None:
            note = f"{count(stock.breaks, 'break')}, {duration(stock.warm_seconds)} with full caches"
            entrants.append(Entrant("stock", stock.contestant, stock.cold_seconds, note))
        asked = replace(self.asked, time=budget)
        return measured_if_it_runs(entrants, {"explorer": self.accuracy}, self.recorder, asked, self.timed)

    def record(self, measured: Measured | None = None) -> data.RecordData:
        made = contents(self.recorder, self.asked.config, self.asked.name, measured)
        if not self.asked.config.edit.source.file:
            if self.asked.fixes and isinstance(self.trial, (Once, GraphTrial)):
                made = msgspec.structs.replace(made, notes=(*made.notes, NO_FIX))
            elif self.asked.fixes:
                fixed, tried = with_fixes(made.compiles, self.trial, self.asked)
                again = tuple(compile for each in tried for compile in each.compiles)
                made = msgspec.structs.replace(made, compiles=fixed, attempts=again)
            made = with_rewrites(made, self.trial.fn, self.trial.given)
        compiles = with_written(made.compiles, self.written)
        notes = (*made.notes, *self.notes, *([measured.note] if measured and measured.note else []))
        made = msgspec.structs.replace(made, compiles=compiles, notes=notes)
        if measured is None and self.ran:
            made = msgspec.structs.replace(made, timing=untimed({"explorer": self.accuracy}).timing)
        return made

    @property
    def bisect(self) -> Bisect:
        """Finds where our compiled call first differs from eager. It holds the trial alone: what the recorder has of
        the program's frames keeps objects alive whose end the program may wait for, as that of an open file."""
        return partial(first_divergence, self.trial.contestant, self.asked.config)


Written = Mapping[tuple[str, str], tuple[data.WrittenData, ...]]
"""What kernels wrote in one call, by compile and half."""


def with_written(compiles: tuple[data.CompileData, ...], written: Written) -> tuple[data.CompileData, ...]:
    """The compiles with what their kernels wrote. The call was compiled again for it, alike as far as the ids say."""

    def half(compile: data.CompileData, each: data.HalfData) -> data.HalfData:
        found = written.get((compile.id, each.name), ())
        ids = {operation.id for operation in each.operations} | {kernel.id for kernel in each.kernels}
        return msgspec.structs.replace(each, written=found if {row.kernel for row in found} <= ids else ())

    return tuple(
        msgspec.structs.replace(each, halves=tuple(half(each, one) for one in each.halves)) for each in compiles
    )


def with_rewrites(record: data.RecordData, fn: Callable[..., object], given: Sequence[object]) -> data.RecordData:
    """The record with what could be written in the place of branches that break a graph, of ours and stock alike."""

    def fixed(each: data.BreakData) -> data.BreakData:
        if each.span is None or (each.why.code != DATA_DEPENDENT_BRANCH and each.why.title != BRANCHING):
            return each
        found = suggested(fn, each.span.file, each.span.line, given)
        return msgspec.structs.replace(each, rewrite=found.diff, cell=found.cell)

    compiles = (msgspec.structs.replace(c, breaks=tuple(map(fixed, c.breaks))) for c in record.compiles)
    return msgspec.structs.replace(record, compiles=tuple(compiles))


def explored(trial: Trial, asked: Asked, recorder: Recorder | None = None, spare: int = 0) -> Observed:
    """Compile and run `trial` by us, and compare what it leaves behind with eager's; with `values`, or where it
    differs, also kernel by kernel. `spare` calls of the function are needed later."""
    config, values, progress = asked.config, asked.values, asked.progress
    recorder = recorder or Recorder(progress)
    once = isinstance(trial, Once)
    captured = None if trial.repeatable else Captured(once, not trial.backward_raises)
    compiling = compile_frame if captured is None else captured.compile_frame
    ours = trial.contestant(lambda fn: optimize(fn, config, compiling))
    with recording(recorder):
        started = clock.perf_counter()
        try:
            outcome = ours.observe()
        except Exception as error:
            if getattr(error, "reaches_program", False) or trial.runs_in_eager:
                raise CompileRaised(recorder, error) from error
            raise
        compile_seconds = clock.perf_counter() - started - recorder.listener_seconds
    progress.on_phase("comparing with eager")
    compared = timed = trial
    if captured is not None:
        timed = captured.trial()
        ours = timed.compiled()
        if once:
            compared, outcome = timed, ours.observe()
    expected = compared.expected()
    accuracy = against_eager(partial(compared.again, spare), outcome.values(), expected.values())
    search, unexplained = None, not accuracy.ok and accuracy.divergence is None
    if (values or unexplained) and compared.repeatable:
        progress.on_phase("finding where results first differ" if unexplained else "running kernel by kernel")
        search = searched(compared.contestant, config, thorough=values)
        if unexplained:
            accuracy = replace(accuracy, divergence=search.found)
    written = {} if search is None or once else search.written  # the graphs alone have other ids
    notes: tuple[str, ...] = (OWN_COMPILED,) * expected.own_compiled
    if values and not written:
        found = None if search is None else search.found
        why = NOT_AGAIN if search is None or once else NO_KERNELS if found is None else found.detail
        notes = (*notes, f"What each kernel writes was not recorded: {why}.")
    return Observed(
        compared, timed, asked, recorder, ours, timed.contestant(), compile_seconds, accuracy, written, notes
    )


NO_KERNELS = "no kernel that runs on the CPU was made"


GuardCosts = Mapping[str, tuple[float, tuple[data.GuardCostData, ...]]]
"""What one check of a compile's guards takes, and of that each source, by the compile's id."""


def costs_of(guards: Mapping[str, tuple[object, Mapping[str, object]]]) -> GuardCosts:
    """Of root guard managers with the locals of their frames, by compile."""
    found = ((id, guard_costs(root, given)) for id, (root, given) in guards.items())
    return {id: costs for id, costs in found if costs is not None}


def with_guard_costs(compiles: tuple[data.CompileData, ...], costs: GuardCosts) -> tuple[data.CompileData, ...]:
    def of(compile: data.CompileData) -> data.CompileData:
        if compile.id not in costs:
            return compile
        seconds, parts = costs[compile.id]
        return msgspec.structs.replace(compile, guard_seconds=seconds, guard_costs=parts)

    return tuple(map(of, compiles))


LiveBytes = Mapping[str, Mapping[str, tuple[int, ...]]]
"""The memory in use of each half of each compile at each step of its schedule, in bytes."""
RecomputeSeconds = Mapping[str, Mapping[str, float]]
"""The seconds that each value which a compile keeps for the backward takes to compute again, by ids."""


def with_live_bytes(
    compiles: tuple[data.CompileData, ...], live: LiveBytes, recompute: RecomputeSeconds = MappingProxyType({})
) -> tuple[data.CompileData, ...]:
    def half(compile: data.CompileData, each: data.HalfData) -> data.HalfData:
        found = live.get(compile.id, {}).get(each.name, ())
        if each.memory is None or not found:
            return each
        return msgspec.structs.replace(each, memory=msgspec.structs.replace(each.memory, measured=found))

    def saved(compile: data.CompileData, each: data.SavedData) -> data.SavedData:
        return msgspec.structs.replace(each, seconds=recompute.get(compile.id, {}).get(each.id))

    return tuple(
        msgspec.structs.replace(
            each,
            halves=tuple(half(each, one) for one in each.halves),
            saved=tuple(saved(each, one) for one in each.saved),
        )
        for each in compiles
    )


@dataclass(frozen=True)
class Measured:
    """What was measured: times of whole calls, and of the kernels and guards of each compile by its id, its
    memory in use, and how long recomputing takes."""

    timing: data.TimingData
    kernels: Mapping[str, to_record.Seconds]
    guards: GuardCosts = field(default_factory=dict)
    live: LiveBytes = field(default_factory=dict)
    recompute: RecomputeSeconds = field(default_factory=dict)
    note: str = ""
    """Why nothing was timed."""

    def with_overhead(self, spent: float) -> Measured:
        """With what a call of stock takes outside its kernels, which took `spent` seconds."""
        median = next(each.median for each in self.timing.contestants if each.name == "stock")
        overhead = median - spent if 0 < spent < median else None
        return replace(self, timing=msgspec.structs.replace(self.timing, overhead=overhead))

    def with_call(self, name: str, call: data.CallData | None) -> Measured:
        """With one call of a contestant."""
        entrants = (
            msgspec.structs.replace(each, call=call) if each.name == name else each for each in self.timing.contestants
        )
        return replace(self, timing=msgspec.structs.replace(self.timing, contestants=tuple(entrants)))


def contents(
    recorder: Recorder, config: Config, name: str, measured: Measured | None = None,
    error: BaseException | None = None, engine: str = "",
) -> data.RecordData:  # fmt: skip
    """Record data of everything that `recorder` saw; `error` is what the call raised, of what `engine` compiled or in
    eager."""
    compiles = compiles_of(recorder, measured.kernels if measured else {})
    if measured:
        compiles = with_live_bytes(with_guard_costs(compiles, measured.guards), measured.live, measured.recompute)
    timing = measured.timing if measured else None
    lines = config.edit.source.lines
    failed = [] if error is None else [failure_of(whole_text(error), raised_at(error), engine)]
    made = assembled(name, "explorer", settings_of(config), compiles, compiles, timing, failures=failed, lines=lines)
    if error is None:
        return made
    errors = tuple(each if each.span else msgspec.structs.replace(each, span=failed[0].span) for each in made.errors)
    return msgspec.structs.replace(made, error=whole_text(error), errors=errors)


@dataclass(frozen=True)
class Entrant:
    """A contestant that is timed, with its compile time."""

    name: str
    contestant: Contestant
    compile_seconds: float | None = None
    note: str = ""


NOT_TIMED = "Not timed: called again for timing, {} raised {}"
COMPILED_AGAIN = "it compiled again in {} of its timed samples, so that its time is not compared"


def measured_if_it_runs(
    entrants: Sequence[Entrant],
    accuracy: Mapping[str, Comparison],
    recorder: Recorder | None,
    asked: Asked,
    trial: Trial,
) -> Measured:
    """As `measure`; without times where a call raises."""
    try:
        return measure(entrants, accuracy, recorder, asked.budget, asked.progress, trial)
    except Exception as error:  # the program's own: it need not stand a second call, nor a graph one by itself
        what = "a graph" if isinstance(trial, GraphTrial) else "the function"
        return replace(untimed(accuracy), note=NOT_TIMED.format(what, f"{type(error).__name__}: {first_line(error)}"))


def measure(
    entrants: Sequence[Entrant],
    accuracy: Mapping[str, Comparison],
    recorder: Recorder | None,
    budget: float,
    progress: Progress = SILENT,
    trial: Trial | None = None,
) -> Measured:
    """Time the entrants in turn in one run, and the kernels of all that `recorder` saw compiled by us. `accuracy` is
    what comparing with eager gave, by engine. `trial` is what they run, where that has to be put back. Raises what
    they raise."""
    progress.on_phase(f"timing {', '.join(entrant.name for entrant in entrants)}")
    calls = {entrant.name: entrant.contestant.call for entrant in entrants}
    reset: Callable[[], object] = bool if trial is None else trial.reset
    steady = trial is None or trial.steady
    taken: dict[str, Any] = {}
    again: Counter[str] = Counter()
    known = [0]

    def starts() -> None:
        reset()
        known[0] = compiles_so_far()

    def sampled(name: str, seconds: float) -> None:
        again[name] += compiles_so_far() > known[0]
        progress.on_sample(name, seconds)

    runs = () if recorder is None else recorder.compiles
    programs = [half.program for run in runs for half in to_record.halves_of(run).values() if half.program is not None]
    with put_back() if trial is None else trial.timed():
        samples = interleave(calls, budget=budget, on_sample=sampled, reset=starts, steady=steady)
        for each, call in calls.items():
            reset()
            for program in programs:  # a pool that was kept would be missing in what the call allocates
                program.release()
            taken[each] = None if isinstance(trial, GraphTrial) else profiling.peak_bytes(call)
        reset()
        eager = next(each.contestant for each in entrants if each.name == "eager")
        kept = {} if isinstance(trial, GraphTrial) else profiling.kept_by_eager(eager.call, eager.fn, eager.tensors)
        launched = None
        if recorder is not None and all(program.stepwise is not None for program in programs):
            launched = profiling.one_call(calls["explorer"], reset, partial(launches_of, recorder))
    progress.on_phase("timing single kernels")
    times = samples["eager"]
    with put_back():
        kernels, memory, recompute, failures = profiles(recorder) if recorder is not None else ({}, {}, {}, [])
    median = samples["explorer"].median if recorder is not None else 0.0
    spent = sum(sum(half.values()) for halves in kernels.values() for half in halves.values())
    with put_back():
        machine = peaks()
    compared = untimed(accuracy).timing
    method = GRAPHS_METHOD if isinstance(trial, GraphTrial) else METHOD
    timing = data.TimingData(
        tuple(
            data.SamplesData(
                e.name,
                s.median,
                s.spread,
                tuple(s.seconds),
                e.compile_seconds,
                "; ".join(filter(None, (e.note, COMPILED_AGAIN.format(again[e.name]) * bool(again[e.name])))),
                taken[e.name],
                None
                if e.name == "eager" or again[e.name]
                else speed(times.seconds, s.seconds, max(times.waited, s.waited)),
                kept=kept if e.name == "eager" else {},
            )
            for e, s in ((entrant, samples[entrant.name]) for entrant in entrants)
        ),
        overhead=median - spent if kernels and not failures and spent < median else None,
        machine=None if machine is None else data.MachineData(machine.name, machine.bytes, machine.flops),
        accuracy=compared.accuracy,
        method="; ".join((method, *failures, *((NO_PEAKS,) if machine is None else ()))),
        stock_accuracy=compared.stock_accuracy,
        graphs_alone=isinstance(trial, GraphTrial),
    )
    progress.on_phase("timing guards")
    made = Measured(timing, kernels, costs_of({} if recorder is None else roots_of(recorder)), memory, recompute)
    return made.with_call("explorer", launched)


@contextmanager
def launches_of(recorder: Recorder, launches: profiling.Launches) -> Iterator[None]:
    """Inside the block what our programs launch is noted."""
    with ExitStack() as stack:
        for run in recorder.compiles:
            for name, half in to_record.halves_of(run).items():
                if half.program is not None and half.program.call is not None:
                    stack.enter_context(profiling.noted(half.program, run.id, name, launches))
        yield


def roots_of(recorder: Recorder) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """The guard managers of our compiles, with the locals that each frame was captured with."""
    found = {}
    for run in recorder.compiles:
        made = [stage.artifact for stage in run.stages]
        linked = next((each for each in made if isinstance(each, GuardedCode) and each.manager is not None), None)
        captured = next((each for each in made if isinstance(each, Capture) and each.frame is not None), None)
        manager = None if linked is None else linked.manager
        if manager is not None and captured is not None and captured.frame is not None:
            found[run.id] = manager.root, captured.frame.locals
    return found


def untimed(accuracy: Mapping[str, Comparison]) -> Measured:
    """The comparison with eager, by engine, without times."""
    exact = [
        data.AccuracyData(
            c.largest_absolute, c.largest_relative, c.where, c.first_mismatch, c.compared, c.divergence, engine,
            c.own_error, c.eager_error, c.nan, c.opaque, c.mismatch,
        )  # fmt: skip
        for engine, c in accuracy.items()
    ]  # fmt: skip
    stock = exact[1] if len(exact) > 1 else None
    return Measured(data.TimingData((), accuracy=exact[0] if exact else None, stock_accuracy=stock), {})


def profiles(recorder: Recorder) -> tuple[dict[str, to_record.Seconds], LiveBytes, RecomputeSeconds, list[str]]:
    """Seconds of each kernel and library call of each compile, the memory in use of each half, how long recomputing
    takes, and what could not be measured with the reason."""
    found: dict[str, to_record.Seconds] = {}
    recompute: dict[str, dict[str, float]] = {}
    memory: dict[str, dict[str, tuple[int, ...]]] = {}
    failures = []
    for run in recorder.compiles:
        if to_record.fallback(run) is not None:
            continue
        halves: dict[str, Mapping[str, float]] = {}
        parts = next((each.artifact for each in run.stages if isinstance(each.artifact, Partitioned)), None)
        forward: tuple[Program, Sequence[Any]] | None = None
        for name, half in to_record.halves_of(run).items():
            if half.loops is None or half.program is None or half.program.call is None:
                continue
            what = "single kernels"
            try:
                inputs = profiling.example_inputs(half.loops)
                if forward is None:
                    forward = half.program, inputs
                elif parts is not None:
                    inputs = profiling.kept_for_backward(parts, *forward, inputs)
                if half.schedule is not None:
                    steps = [item.id for item in half.schedule.items]
                    memory.setdefault(run.id, {})[name] = profiling.live_bytes(half.program, steps, inputs)
                halves[name] = profiling.profile(half.program, inputs)
                if parts is not None and half.program is not forward[0]:
                    what = "computing again"
                    recompute[run.id] = profiling.recomputed(parts, forward[1], inputs)
            except Exception as error:  # made-up inputs may be outside what an operator takes
                failures.append(f"no times of {what} in {run.id} {name}: {to_record.error(error)}")
        if halves:
            found[run.id] = halves
    return found, memory, recompute, failures
