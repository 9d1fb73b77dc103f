"""Steady state: eager, ours and stock in turn, over the zoo's large inputs and the networks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.programs import ZOO, Named, models, of_program
from benchmarks.report import Aim, Report, Selection, geometric_mean
from explorer.api import configure
from explorer.compiler.capture import optimize
from explorer.compiler.pipeline import compile_frame
from explorer.compiler.runtime.timing import METHOD, interleave
from explorer.core.text import duration
from explorer.records.check.accuracy import compare


def run(selection: Selection) -> Report:
    rows, beside_eager, beside_stock, wrong = [], [], [], []
    for named in programs():
        if not selection.of(named.name):
            continue
        torch.compiler.reset()
        config = configure()
        contestants = {
            "eager": named.trial.contestant(),
            "explorer": named.trial.contestant(lambda fn, config=config: optimize(fn, config, compile_frame)),
            "stock": named.trial.contestant(torch.compile),
        }
        outcomes = {name: each.observe().values() for name, each in contestants.items()}
        found = compare(outcomes["explorer"], outcomes["eager"])
        if not found.ok:
            wrong.append(named.name)
        samples = interleave({name: each.call for name, each in contestants.items()})
        eager, ours, stock = (samples[name].median for name in contestants)
        beside_eager.append(eager / ours)
        beside_stock.append(stock / ours)
        rows.append(
            (
                named.name,
                *(f"{duration(samples[name].median)} ± {duration(samples[name].spread)}" for name in contestants),
                f"{eager / ours:.2f}",
                f"{stock / ours:.2f}",
                f"{found.largest_absolute:.1e}" + ("" if found.ok else f" differs at {found.first_mismatch}"),
            )
        )
    mean_eager, mean_stock = geometric_mean(beside_eager), geometric_mean(beside_stock)
    rows.append(("geometric mean", "", "", "", f"{mean_eager:.2f}", f"{mean_stock:.2f}", ""))
    head = ("program", "eager", "explorer", "stock", "eager / ours", "stock / ours", "largest error")
    aims = (Aim("equal to eager within tolerance", ", ".join(wrong) or f"all {len(rows) - 1}", not wrong),)
    return Report("Steady state", head, tuple(rows), aims, (METHOD,))


def programs() -> Iterator[Named]:
    for program in ZOO:
        if program.large is not None:
            yield Named(program.name, of_program(program, large=True))
    yield from models()
