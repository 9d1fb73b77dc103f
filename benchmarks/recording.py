"""Figure 5: what recording costs, and that it changes no text."""

from __future__ import annotations

import linecache
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from benchmarks.report import Aim, Report, Selection
from explorer.api import configure
from explorer.compiler.capture import optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.compiler.runtime.timing import interleave
from explorer.core.recorder import Recorder, recording
from explorer.core.text import duration
from explorer.ir.program import BuildOptions
from explorer.records.check.trial import Contestant, Trial
from explorer.show.demo import CNN, GPT2, cases

REPEATS = 7


def run(selection: Selection) -> Report:
    rows, aims = [], []
    for case in cases():
        if case not in (GPT2[-1], CNN[0]) or not selection.of(case.slug):
            continue
        torch.manual_seed(0)
        trial = case.make()
        same = texts(trial, recorded=True) == texts(trial, recorded=False)
        cost, on, off = cost_of_compile(trial)
        extra, recorded, unrecorded = cost_of_call(trial)
        rows += [
            (f"{case.slug}: compile, kernels built already", duration(on), duration(off), f"{100 * cost:+.1f} %"),
            (f"{case.slug}: a call, nobody records", duration(recorded), duration(unrecorded), f"{100 * extra:+.1f} %"),
        ]
        aims += [
            Aim(f"{case.slug}: the same texts", "equal" if same else "they differ", same),
            Aim(f"{case.slug}: at most 10 % of compile time", f"{100 * cost:.1f} %", cost <= 0.10),
            Aim(f"{case.slug}: no cost a call, within 2 %", f"{100 * extra:+.1f} %", extra <= 0.02),
        ]
    return Report("Recording", ("", "recorded", "not recorded", "cost"), tuple(rows), tuple(aims))


def fresh(trial: Trial, config: Config, recorded: bool) -> tuple[Contestant, float]:
    """A new compile of the trial, and the seconds of its first call."""
    contestant = trial.contestant(lambda fn: optimize(fn, config, compile_frame))
    with recording(Recorder()) if recorded else nullcontext():
        started = time.perf_counter()
        contestant.observe()
        return contestant, time.perf_counter() - started


def texts(trial: Trial, recorded: bool) -> tuple[dict[str, str], list[str]]:
    """The sources built and the wrappers run: all that a compile generates, read where it is used."""
    with empty_cache() as config:
        before = set(linecache.cache)
        fresh(trial, config, recorded)
        folder = config.build.cache_dir
        assert folder is not None
        sources = {
            str(file.relative_to(folder)): file.read_text()
            for file in sorted(folder.rglob("*"))
            if file.suffix in (".cpp", ".py")
        }
        wrappers = [
            linecache.getlines(name) for name in linecache.cache if name not in before and name.startswith("<explorer ")
        ]
    return sources, ["".join(lines) for lines in wrappers]


@contextmanager
def empty_cache() -> Iterator[Config]:
    with tempfile.TemporaryDirectory() as folder:
        yield configure(options={"build": BuildOptions(cache_dir=Path(folder))})


def cost_of_compile(trial: Trial) -> tuple[float, float, float]:
    """The share by which recording lengthens a compile, and the median seconds with and without it."""
    found: dict[bool, list[float]] = {True: [], False: []}
    with empty_cache() as config:
        fresh(trial, config, False)
        for _ in range(REPEATS):
            for recorded in found:
                found[recorded].append(fresh(trial, config, recorded)[1])
    on, off = (statistics.median(found[recorded]) for recorded in (True, False))
    return on / off - 1, on, off


def cost_of_call(trial: Trial) -> tuple[float, float, float]:
    """The share by which a program that was recorded runs longer afterwards, and the seconds of both: the quickest
    sample of each, since both run the same code and only the machine's noise lies between other samples."""
    config = configure()
    contestants = {name: fresh(trial, config, name == "recorded")[0] for name in ("recorded", "unrecorded")}
    samples = interleave({name: each.call for name, each in contestants.items()}, budget=3.0)
    recorded, unrecorded = (min(samples[name].seconds) for name in contestants)
    return recorded / unrecorded - 1, recorded, unrecorded
