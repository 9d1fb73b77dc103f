"""Stock torch.compile explored: every stage and reason present over the zoo and the networks, what watching costs, and
that the user's own compiled function stays as it was."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field

import torch
import torch._dynamo

from benchmarks.cold import in_new_process
from benchmarks.programs import ZOO, models, of_program
from benchmarks.provenance import unsourced
from benchmarks.report import Aim, Report, Selection, percent
from explorer.core.reasons import CATALOGUE
from explorer.core.text import duration
from explorer.ir.record import CompileData
from explorer.records.check.trial import Trial
from explorer.records.stock.run import stock_run
from stock_compiling import nothing_built

COLD = ("function", "hf_gpt2 training", "hf_bert training", "hf_vit inference", "small_cnn training")
"""Programs compiled with empty caches, once alone and once watched."""
REPEATS = 2
SHARE = 0.15
STEADY = 0.1

ABOVE = {"bytecode", "capture", "trace"}
BELOW = {"inductor's input", "lower", "schedule", "fuse", "generate", "build"}
OWN_WORDS = "stock.own_words"
"""The reason that quotes torch where the catalogue has no words for it."""


def run(selection: Selection) -> Report:
    seen = Seen()
    for name, trial in programs(selection):
        seen.add(name, trial)
    rows, aims = seen.rows(), seen.aims()
    for name in COLD:
        if selection.of(name):
            row, aim = cold(name)
            rows.append(row)
            aims.append(aim)
    for name in COLD[:2]:
        if selection.of(name):
            row, aim = steady(name)
            rows.append(row)
            aims.append(aim)
    note = (
        f"cold: the quicker of {REPEATS} new processes each, by processor time, which other work on the machine leaves "
        "alone, the C++ compiler's included; stages: code is generated and not built"
    )
    return Report("Stock explored", ("", "alone", "explored", ""), tuple(rows), tuple(aims), (note,))


def programs(selection: Selection) -> Iterator[tuple[str, Trial]]:
    for program in ZOO:
        if selection.of(program.name):
            yield program.name, of_program(program)
    for named in models():
        if selection.of(named.name):
            yield named.name, named.trial


@dataclass
class Seen:
    """What records of stock hold, over all programs."""

    compiles: int = 0
    halves: int = 0
    pairs: int = 0
    lines: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    without_cause: Counter[str] = field(default_factory=Counter)
    incomplete: list[str] = field(default_factory=list)
    failed_hooks: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def add(self, name: str, trial: Trial) -> None:
        torch._dynamo.reset()
        with redirect_stdout(io.StringIO()), nothing_built(), stock_run(trial) as found:
            compiles = found.compiles({})
        if found.failure:
            self.failed.append(f"{name}: {found.failure.splitlines()[0]}")
        for compile in compiles:
            self.compiles += 1
            self.halves += len(compile.halves)
            self._reasons(name, compile)
            self.failed_hooks += [
                f"{name}: {event.fields}" for event in compile.events if event.kind in ("HookFailed", "HookMissing")
            ]
            self.incomplete += [f"{name} {compile.id} {stage}" for stage in missing(compile)]

    def _reasons(self, name: str, compile: CompileData) -> None:
        for half in compile.halves:
            for fusion in half.schedule.fusions if half.schedule else ():
                self.pairs += 1
                self.reasons[fusion.why.code if fusion.why.code in CATALOGUE else "unknown"] += 1
        lines, found = unsourced(compile)
        self.lines += lines
        if found["no cause"]:
            self.without_cause[name] += found["no cause"]

    def rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            (what, "", str(count), "")
            for what, count in (("compiles", self.compiles), ("graphs lowered", self.halves), ("pairs", self.pairs))
        ]
        rows += [
            (f"  {code}", "", str(count), percent(count, self.pairs)) for code, count in self.reasons.most_common()
        ]
        return rows

    def aims(self) -> list[Aim]:
        unknown = self.reasons["unknown"] + self.reasons[OWN_WORDS]
        return [
            Aim("every program compiles as far as its code", _listed(self.failed), not self.failed),
            Aim("every stage is present", _listed(self.incomplete), not self.incomplete),
            Aim("every hook ran", _listed(self.failed_hooks), not self.failed_hooks),
            Aim("no unknown reason among pairs", f"{unknown} of {self.pairs}", not unknown),
            Aim(
                "every generated line reaches a source line or says why not",
                f"{self.without_cause.total()} of {self.lines} do not",
                not self.without_cause,
            ),
        ]


def missing(compile: CompileData) -> set[str]:
    """The stages that a compile lacks: those above the halves where it has a graph, and those of each half."""
    names = {stage.name for stage in compile.stages}
    lacking = (ABOVE if compile.halves else {"bytecode"}) - names
    for half in compile.halves:
        of_half = {stage.name for stage in compile.stages if stage.half == half.name}
        lacking |= {f"{name} of {half.name}" for name in BELOW - of_half}
        computes = any(kind != "view" for kind, _ in half.nodes.values())
        if not half.wrapper or (computes and not (half.operations and half.schedule and half.schedule.items)):
            lacking.add(f"contents of {half.name}")
    return lacking


def cold(name: str) -> tuple[tuple[str, ...], Aim]:
    quickest = {
        how: min(
            (in_new_process("benchmarks.stock_child", how, name) for _ in range(REPEATS)),
            key=lambda each: each["processor"],
        )
        for how in ("plain", "watched")
    }
    alone, explored = quickest["plain"], quickest["watched"]
    added = explored["processor"] / alone["processor"] - 1
    row = (
        f"cold compile of {name}",
        f"{duration(alone['seconds'])} ({duration(alone['processor'])} of processors)",
        f"{duration(explored['seconds'])} ({duration(explored['processor'])} of processors)",
        f"{duration(explored['watching'])} in hooks",
    )
    return row, Aim(f"exploring {name} adds at most 15 %", f"{100 * added:+.1f} %", added <= SHARE)


def steady(name: str) -> tuple[tuple[str, ...], Aim]:
    found = in_new_process("benchmarks.stock_child", "steady", name)
    change = found["after"] / found["before"] - 1
    row = (f"a call of {name}", duration(found["before"]), duration(found["after"]), "quickest before and after")
    return row, Aim(
        f"exploring leaves the user's compiled {name} as quick, and compiles nothing anew",
        f"{100 * change:+.1f} %, {found['again']:.0f} graphs",
        abs(change) <= STEADY and not found["again"],
    )


def _listed(names: list[str]) -> str:
    return "; ".join(names[:5]) + (f"; and {len(names) - 5} more" if len(names) > 5 else "") if names else "all"
