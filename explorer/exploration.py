"""One exploration: compile and run a call, compare it with eager, time both, and make the record."""

from __future__ import annotations

import datetime
import linecache
import sys
import time as clock
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import msgspec

from explorer import export
from explorer.capture import optimize
from explorer.check.accuracy import Comparison, compare
from explorer.check.parting import first_parting
from explorer.check.profile import profile
from explorer.check.trial import Contestant, Trial
from explorer.config import Config
from explorer.core.recorder import SILENT, Progress, Recorder, recording
from explorer.environment import describe
from explorer.ir import record as data
from explorer.ir.target import CPU, Target
from explorer.pipeline import TARGET_ABSENT, compile_frame
from explorer.runtime.machine import peaks
from explorer.runtime.timing import METHOD, interleave
from explorer.session import Bisect, Record
from explorer.stock.contestant import Stock
from explorer.stock.parting import first_parting as first_parting_of_stock
from explorer.stock.parting import unasked
from explorer.stock.profile import profile as profile_stock
from explorer.stock.run import StockRun, stock_run, unwrapped
from explorer.stock.trying import attempts, told
from explorer.view.source import stretches, used_lines
from explorer.view.text import duration

SECONDS_OF_TIMING = 1.0
"""For each contestant."""


def title(fn: Callable[..., Any]) -> str:
    """What a function or module is called in a record."""
    return getattr(fn, "__qualname__", type(fn).__name__)


ENGINES = ("explorer", "stock", "both")


def exploration(
    trial: Trial,
    config: Config,
    *,
    engine: str = "explorer",
    stock: Mapping[str, Any] | None = None,
    time: bool,
    fixes: bool = False,
    name: str,
    progress: Progress = SILENT,
) -> Record:
    """The record of compiling and running `trial`: by us with `config`, by stock torch.compile with the arguments
    `stock`, or by both. `fixes`: try those of stock's graph breaks. The user's own exceptions propagate."""
    if engine == "explorer":
        run = explored(trial, config, name=name, progress=progress)
        return run.record(run.time() if time else None)
    # Ours first: what stock leaves to Python for good, it leaves so for every front end.
    under, _ = unwrapped(trial)
    ours = explored(under, config, name=name, progress=progress) if engine == "both" else None
    absent = config.target if config.target != CPU else None
    with stock_run(trial, stock, progress.on_stage, absent) as theirs:
        return beside(theirs, ours, config, stock or {}, time=time, fixes=fixes, name=name, progress=progress)


def beside(
    theirs: StockRun,
    ours: Explored | None,
    config: Config,
    stock: Mapping[str, Any],
    *,
    time: bool,
    fixes: bool,
    name: str,
    progress: Progress = SILENT,
) -> Record:
    """The record of what stock compiled, with ours beside it where there is one."""
    progress.on_phase("comparing with eager")
    eager = theirs.trial.contestant()
    entrants = [Entrant("eager", eager)]
    found: dict[str, Comparison] = {}
    bisect: dict[str, Bisect] = {}
    if ours is not None:
        entrants.append(Entrant("explorer", ours.ours, ours.compile_seconds))
        found["explorer"] = ours.accuracy
        bisect["explorer"] = ours.bisect
    ran = theirs.outcome is not None and theirs.observation.absent is None
    if theirs.observation.absent is None:
        bisect["stock"] = partial(first_parting_of_stock, theirs.given, stock)
    else:
        bisect["stock"] = partial(nothing_runs, theirs.observation.absent)
    if theirs.outcome is not None:
        found["stock"] = compare(theirs.outcome.values(), eager.observe().values())
        if ran and not found["stock"].ok:
            progress.on_phase("looking for where stock's results part")
            found["stock"] = replace(found["stock"], parting=unasked(theirs, stock))
        if ran:
            note = f"{duration(theirs.watched)} of it watching"
            entrants.append(Entrant("stock", theirs.contestant, theirs.seconds, note))
    measured = None
    seconds: Mapping[str, export.Seconds] = {}
    if time and found:
        recorder = None if ours is None else ours.recorder
        measured = measure(entrants, found, recorder, SECONDS_OF_TIMING, progress)
        if ran:
            seconds = profile_stock(theirs)
            if ours is None:
                measured = measured.with_overhead(
                    sum(sum(half.values()) for each in seconds.values() for half in each.values())
                )
    own = () if ours is None else compiles_of(ours.recorder, measured)
    compiles = (*own, *told(theirs.compiles(seconds), attempts(theirs) if fixes else ()))
    settings = {**({} if ours is None else settings_of(config)), **theirs.settings(stock)}
    engine = "stock" if ours is None else "explorer and stock"
    made = assembled(name, engine, settings, compiles, own or compiles, measured)
    made = msgspec.structs.replace(made, error=theirs.failure.partition("\n")[0])
    return Record(made, bisect=bisect)


def nothing_runs(target: Target) -> None:
    """What asking where results part gives for a card that is not here. Raises RuntimeError."""
    raise RuntimeError(f"stock's code for {target} does not run here, so that there are no results of it to compare")


@dataclass(frozen=True)
class Explored:
    """A trial that was compiled and observed, with its contestants alive, so that they can be timed beside others."""

    trial: Trial
    config: Config
    name: str
    recorder: Recorder
    ours: Contestant
    eager: Contestant
    compile_seconds: float
    accuracy: Comparison
    progress: Progress

    def time(self, stock: Stock | None = None, budget: float = SECONDS_OF_TIMING) -> Measured:
        """Eager, ours and perhaps stock in turn, for about `budget` seconds each; then each kernel by itself."""
        entrants = [Entrant("eager", self.eager), Entrant("explorer", self.ours, self.compile_seconds)]
        if stock is not None:
            entrants.append(Entrant("stock", stock.contestant, stock.cold_seconds, _note(stock)))
        return measure(entrants, {"explorer": self.accuracy}, self.recorder, budget, self.progress)

    def record(self, measured: Measured | None = None) -> Record:
        return Record(contents(self.recorder, self.config, self.name, measured), bisect={"explorer": self.bisect})

    def bisect(self) -> data.PartingData | None:
        """Where ours first parts from eager."""
        return first_parting(self.trial.contestant, self.config)


def explored(trial: Trial, config: Config, *, name: str, progress: Progress = SILENT) -> Explored:
    """Compile and run `trial` with `config`, and compare what it leaves behind with eager's."""
    recorder = Recorder(progress)
    ours = trial.contestant(lambda fn: optimize(fn, config, compile_frame))
    with recording(recorder):
        started = clock.perf_counter()
        outcome = ours.observe()
        compile_seconds = clock.perf_counter() - started - recorder.told
    progress.on_phase("comparing with eager")
    eager = trial.contestant()
    accuracy = compare(outcome.values(), eager.observe().values())
    if not accuracy.ok:
        progress.on_phase("looking for where results part")
        accuracy = replace(accuracy, parting=first_parting(trial.contestant, config))
    return Explored(trial, config, name, recorder, ours, eager, compile_seconds, accuracy, progress)


def _note(stock: Stock) -> str:
    breaks = "1 break" if stock.breaks == 1 else f"{stock.breaks} breaks"
    return f"{breaks}, {duration(stock.warm_seconds)} with full caches"


@dataclass(frozen=True)
class Measured:
    """What timing gave: whole calls, and the kernels of each compile by its id."""

    timing: data.TimingData
    kernels: Mapping[str, export.Seconds]

    def with_overhead(self, spent: float) -> Measured:
        """With what a call of stock takes outside its kernels, which took `spent` seconds."""
        median = next(each.median for each in self.timing.contestants if each.name == "stock")
        overhead = median - spent if 0 < spent < median else None
        return Measured(msgspec.structs.replace(self.timing, overhead=overhead), self.kernels)


def contents(recorder: Recorder, config: Config, name: str, measured: Measured | None = None) -> data.RecordData:
    """Record data of everything that `recorder` saw."""
    compiles = compiles_of(recorder, measured)
    return assembled(name, "explorer", settings_of(config), compiles, compiles, measured)


def compiles_of(recorder: Recorder, measured: Measured | None) -> tuple[data.CompileData, ...]:
    seconds = measured.kernels if measured else {}
    return tuple(export.compile(run, seconds.get(run.id, {})) for run in recorder.compiles)


def settings_of(config: Config) -> dict[str, str]:
    return {field.name: str(getattr(config, field.name)) for field in fields(config)}


def assembled(
    name: str,
    engine: str,
    settings: Mapping[str, str],
    compiles: tuple[data.CompileData, ...],
    counted: Iterable[data.CompileData],
    measured: Measured | None,
) -> data.RecordData:
    """Record data of `compiles`; `counted` are those whose ATen calls the coverage counts."""
    return data.RecordData(
        data.VERSION,
        name,
        engine,
        ", ".join(dict.fromkeys(half.target for compile in compiles for half in compile.halves if half.target)),
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        describe(),
        dict(settings),
        sources(compiles),
        compiles,
        coverage(counted),
        None if measured is None else measured.timing,
        reasons=export.reasons(named_reasons(compiles)),
        meanings=export.meanings(compiles),
    )


@dataclass(frozen=True)
class Entrant:
    """One that is timed, with what its compile took."""

    name: str
    contestant: Contestant
    compile_seconds: float | None = None
    note: str = ""


def measure(
    entrants: Sequence[Entrant],
    accuracy: Mapping[str, Comparison],
    recorder: Recorder | None,
    budget: float,
    progress: Progress = SILENT,
) -> Measured:
    """Time the entrants in turn in one run, and the kernels of all that `recorder` saw compiled by us. `accuracy` is
    what comparing with eager gave, by engine."""
    progress.on_phase(f"timing {', '.join(entrant.name for entrant in entrants)}")
    calls = {entrant.name: entrant.contestant.call for entrant in entrants}
    samples = interleave(calls, budget=budget, on_sample=progress.on_sample)
    progress.on_phase("timing single kernels")
    found = ((entrant, samples[entrant.name]) for entrant in entrants)
    kernels, failures = profiles(recorder) if recorder is not None else ({}, [])
    median = samples["explorer"].median if recorder is not None else 0.0
    spent = sum(sum(half.values()) for halves in kernels.values() for half in halves.values())
    exact = [
        data.AccuracyData(
            c.largest_absolute, c.largest_relative, c.where, c.parted, c.compared, c.parting, engine,
        )
        for engine, c in accuracy.items()
    ]  # fmt: skip
    timing = data.TimingData(
        tuple(
            data.SamplesData(e.name, s.median, s.spread, tuple(s.seconds), e.compile_seconds, e.note) for e, s in found
        ),
        overhead=median - spent if kernels and not failures and spent < median else None,
        machine=data.MachineData(*peaks()),
        accuracy=exact[0],
        method="; ".join((METHOD, *failures)),
        stock_accuracy=exact[1] if len(exact) > 1 else None,
    )
    return Measured(timing, kernels)


def profiles(recorder: Recorder) -> tuple[dict[str, export.Seconds], list[str]]:
    """Seconds of each kernel and library call of each compile, and what could not be measured with the reason."""
    found: dict[str, export.Seconds] = {}
    failures = []
    for run in recorder.compiles:
        if export.fallback(run) is not None:
            continue
        halves: dict[str, Mapping[str, float]] = {}
        for name, half in export.halves_of(run).items():
            if half.loops is None or half.program is None or half.program.call is None:
                continue
            try:
                halves[name] = profile(half.loops, half.program)
            except Exception as error:  # made-up inputs may be outside what an operator takes
                failures.append(f"no times of single kernels in {run.id} {name}: {export.error(error)}")
        if halves:
            found[run.id] = halves
    return found, failures


def coverage(compiles: Iterable[data.CompileData]) -> data.CoverageData:
    """Where the ATen calls of all compiles run (or would, on a target that is not here), and what ran in Python."""
    fates: Counter[str] = Counter()
    python: dict[str, None] = {}
    for compile in compiles:
        for half in compile.halves:
            fates.update(fate for fate, _ in half.nodes.values())
        if compile.fallback is not None and compile.fallback.code != TARGET_ABSENT:
            graph = next((stage.graph for stage in compile.stages if stage.graph is not None), None)
            calls = [node for node in graph.nodes if node.op.startswith("call")] if graph else []
            fates["fallback"] += len(calls)
        for b in compile.breaks:
            place = f"{b.span.file}:{b.span.line}" if b.span else b.instruction
            python[f"{place} ({b.why.title})"] = None
        for happened in compile.events:
            if happened.kind == "FrameSkipped":
                python[f"{happened.fields['where']} ({happened.fields['why']})"] = None
            if happened.kind == "CallSkipped":
                python[f"{happened.fields['function']} ({happened.fields['why']})"] = None
    return data.CoverageData(fates["kernel"], fates["extern"], fates["view"], fates["fallback"], tuple(python))


def sources(compiles: Iterable[data.CompileData]) -> tuple[data.SourceData, ...]:
    """The stretches of source that the compiles name: from the first to the last line used of each function."""
    used: dict[str, set[int]] = {}
    for compile in compiles:
        for file, numbers in used_lines(compile).items():
            used.setdefault(file, set()).update(numbers)
    return quoted(used)


def quoted(used: Mapping[str, Iterable[int]]) -> tuple[data.SourceData, ...]:
    """The stretches of source that hold these lines, by file; none of a file whose source is not known."""
    found = []
    for file, numbers in used.items():
        lines = source_lines(file)
        for first, last in stretches(number for number in numbers if 0 < number <= len(lines)):
            found.append(data.SourceData(file, first, "\n".join(lines[first - 1 : last]), cell_name(file)))
    return tuple(found)


def cell_name(file: str) -> str:
    """ "In[3]" for the file name that IPython gave to that cell; "" for other files."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    known = None if shell is None else shell.compile.format_code_name(file)
    return "" if known is None else str(known[1])


def source_lines(file: str) -> list[str]:
    """The lines of a file or notebook cell; none where the source is not known."""
    return [line.rstrip("\n") for line in linecache.getlines(file)]


def named_reasons(compiles: Iterable[data.CompileData]) -> set[str]:
    """The catalogue codes that the compiles name."""
    found: set[str] = set()
    for compile in compiles:
        named = [b.why for b in compile.breaks] + [s.why for s in compile.saved]
        for half in compile.halves:
            named += [f.why for f in half.schedule.fusions] if half.schedule else []
            named += [why for b in half.buffers for why in (b.why, b.where_why) if why is not None]
            named += [o.why for o in half.operations if o.why is not None]
        if compile.fallback is not None:
            named.append(compile.fallback)
        found.update(why.code for why in named)
    return found
