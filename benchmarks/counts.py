"""Random functions, ours beside torch.compile: graphs, breaks and recompiles of many calls, and which of the functions
that stock captures whole under fullgraph=True ours captures whole, too.

A sequence of calls is as good as stock's if graphs, breaks and recompiles are each equal or fewer, and graphs run at
least half of the operators that stock's run. More of one is not made up for by less of another.

Where stock has given a function up, or leaves its rest to Python at a break, and ours runs more operators in graphs in
that call, the counts have nothing in common: graphs of ours hold what stock leaves to Python. So have they where stock
found nothing to compile in the first call of a function, gave it up, and runs nothing in graphs. Such calls are not
compared, and a sequence that is as good by that alone goes "further"; the report has the share with and without these.
All other calls are compared: what ours compiled more often before stock gave up still counts. Sequences that stock
answers otherwise than eager are not compared."""

from __future__ import annotations

import itertools
import os
import time
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch._dynamo import convert_frame
from torch._dynamo.utils import counters, graph_break_reasons

from benchmarks.fuzz.observe import difference
from benchmarks.fuzz.program import Program, grow, quiet
from benchmarks.fuzz.sequences import sequence
from benchmarks.fuzz.shrink import shrunk
from benchmarks.fuzz.stream import SHRINK_SECONDS, Finding, Judge, Made, Outcome, Tally, isolated, stream
from benchmarks.fuzz.trial import SECONDS, meaningful, observed
from benchmarks.report import Aim, Report, Selection, percent
from explorer.api import configure
from explorer.compiler.capture import optimize, reasons
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.ir.capture import GuardedCode, InputFrame

SEQUENCES = 1000
SHARE, WHOLE = 96.0, 98.0
PART_OF_OPERATORS = 0.5
"""Of the operators that stock runs in graphs, the part that ours must run in graphs at least; they differ by how
numbers and arrays are spelled."""


NO_OPERATORS = frozenset((
    "getitem", "_set_grad_enabled", "_lower_version_count_by_1", "scalar_tensor", "_log_api_usage_once",
))  # fmt: skip
"""Functions by which graphs take a result apart, switch a mode, put a counter back, carry a number, or keep a log."""

STOCKS_OF_THE_PROGRAM = ("Observed exception", "failed to find name", "failed to run FX node with fake tensors")
"""Breaks where the program itself raises, by stock's words. They are not counted: nothing to be compiled follows."""


@dataclass
class Counts:
    """What a compiler made of a program: graphs, breaks, and compiles of code that was compiled before. `left` are the
    functions that it gave up, or left to Python at a break, `passed_over` those that it gave up because a call had
    nothing to compile; `operators` counts what graphs ran."""

    graphs: int = 0
    breaks: int = 0
    left: int = 0
    passed_over: int = 0
    recompiles: int = 0
    operators: int = 0
    codes: dict[int, types.CodeType] = field(default_factory=dict)
    calls: list[Counts] = field(default_factory=list)
    """What each step of the program began with."""

    def more_than(self, other: Counts) -> list[str]:
        """What this has more of."""
        found = [name for name in ("graphs", "breaks", "recompiles") if getattr(self, name) > getattr(other, name)]
        return found + ["operators outside of graphs"] * (self.operators < PART_OF_OPERATORS * other.operators)

    def ended(self) -> None:
        """A step of the program has ended."""
        self.calls.append(replace(self, calls=[]))

    def steps(self) -> list[Counts]:
        """What each step added; but `left` and `passed_over` say how many there were by its end."""
        return [
            Counts(now.graphs - was.graphs, now.breaks - was.breaks, now.left, now.passed_over,
                   now.recompiles - was.recompiles, now.operators - was.operators)
            for was, now in itertools.pairwise([Counts(), *self.calls])
        ]  # fmt: skip

    def instead(self, other: Counts) -> str:
        """What stock, with these counts, did in place of what ours has more of."""
        if self.left > other.left:
            return ", stock gives more up"
        if self.operators < other.operators:
            return ", stock runs fewer operators in graphs"
        return ", stock breaks more" if self.breaks > other.breaks else ""

    def compiled(self, code: types.CodeType) -> None:
        self.recompiles += id(code) in self.codes
        self.codes[id(code)] = code

    def backend(self, module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        """Runs graphs by eager kernels."""
        self.graphs += 1
        count = sum(map(_is_operator, module.graph.nodes))

        def run(*args: Any) -> Any:
            result = module.forward(*args)
            self.operators += count
            return result

        return run

    def __str__(self) -> str:
        said = f"{self.graphs} graphs, {self.breaks} breaks, {self.recompiles} recompiles"
        left = f", {self.left} given up" if self.left else ""
        return f"{said}{left}, {self.operators} operators run in graphs"


def _is_operator(node: fx.Node) -> bool:
    """Whether it computes a tensor."""
    value = node.meta.get("example_value", node.meta.get("val"))
    return node.op.startswith("call_") and getattr(node.target, "__name__", "") not in NO_OPERATORS and (
        value is None or isinstance(value, torch.Tensor)
    )  # fmt: skip


def _is_of_the_program(reason: str) -> bool:
    return any(said in reason for said in STOCKS_OF_THE_PROGRAM)


def ours(program: Program) -> tuple[Callable[[Any], Any], Counts]:
    counts = Counts()

    def counted(frame: InputFrame, config: Config) -> GuardedCode:
        made = compile_frame(frame, config)
        counts.breaks += sum(each.why.code not in reasons.THE_PROGRAMS for each in made.breaks)
        counts.left += bool(made.breaks) and made.fallback is not None
        if made.code is not None and not made.is_idle:
            counts.compiled(frame.code)
        return made

    config = configure(backend=counts.backend, dynamic=program.dynamic)
    return lambda fn: optimize(fn, config, counted), counts


@dataclass
class StockCounts(Counts):
    """Stock's: part of it is in its own counters. A frame that was begun and not compiled is given up."""

    finished: int = 0
    broken: int = 0
    unresumed: int = 0

    def hook(self, code: types.CodeType, made: types.CodeType) -> None:
        self.compiled(code)
        self.finished += 1
        broke, self.broken = len(graph_break_reasons) > self.broken, len(graph_break_reasons)
        self.unresumed += broke and not any(name.startswith("__resume_at") for name in made.co_names)

    def ended(self) -> None:
        frames = counters["frames"]
        raised = sum(number for said, number in counters["unimplemented"].items() if _is_of_the_program(said))
        failed = frames["total"] - frames["ok"]
        self.left, self.passed_over = failed + self.unresumed, frames["ok"] - self.finished
        self.breaks = max(0, failed - raised) + sum(not _is_of_the_program(each.reason) for each in graph_break_reasons)
        super().ended()


def stocks(program: Program) -> tuple[Callable[[Any], Any], Counts]:
    counts = StockCounts()
    torch.compiler.reset()
    counters.clear()
    graph_break_reasons.clear()
    convert_frame._bytecode_hooks.clear()
    convert_frame.register_bytecode_hook(counts.hook)
    return lambda fn: torch.compile(fn, backend=counts.backend, dynamic=program.dynamic), counts


def total(steps: Iterable[Counts]) -> Counts:
    found = Counts()
    for step in steps:
        for name in ("graphs", "breaks", "recompiles", "operators"):
            setattr(found, name, getattr(found, name) + getattr(step, name))
    return found


def is_comparable(ours: Counts, stock: Counts) -> bool:
    """Of a step: not where stock has given up what ours runs in graphs."""
    return ours.operators <= stock.operators or not (stock.left or stock.passed_over and not stock.operators)


def judge(program: Program, backend: str) -> Outcome:
    """Ours against stock's: "better", "same", "further" (as good in all calls before stock gives up) or "differs"."""
    expected = meaningful(program)
    if expected is None:
        return "dropped", "", ""
    found: dict[str, Counts] = {}
    wrong: dict[str, bool] = {}
    for name, made in (("stock", stocks), ("ours", ours)):
        compiler, found[name] = made(program)
        got = observed(program, compiler, SECONDS, ended=found[name].ended)
        facts = zip(expected, got, strict=True)
        wrong[name] = any(difference(one, other, exact=True) is not None for one, other in facts)
    text = "\n".join(f"  {name:5} {counts}{', another result' * wrong[name]}" for name, counts in found.items())
    if wrong["ours"]:
        return "wrong", "another result than eager" + " (stock too)" * wrong["stock"], text
    if wrong["stock"]:
        return "dropped", "", text
    pairs = [*zip(found["ours"].steps(), found["stock"].steps(), strict=True)]
    comparable = [is_comparable(*pair) for pair in pairs]
    for pair, facts in zip(pairs, expected, strict=True):
        if any(fact.place == "step" for fact in facts):  # it raises: what graphs ran until then is of no use
            pair[0].operators = pair[1].operators = 0
    one, other = total(one for one, _ in pairs), total(other for _, other in pairs)
    if not one.more_than(other):
        return "better" if other.more_than(one) else "same", "", text
    pairs = [*itertools.compress(pairs, comparable)]
    if more := total(one for one, _ in pairs).more_than(total(other for _, other in pairs)):
        return "differs", f"more {', '.join(more)}{found['stock'].instead(found['ours'])}", text
    return "further", "", text


def judge_whole(program: Program, backend: str) -> Outcome:
    """Whether a program runs as in eager under fullgraph=True, of those that do with stock's aot_eager."""
    expected = meaningful(program)
    if expected is None:
        return "dropped", "", ""
    torch.compiler.reset()

    def stock(fn: Any) -> Any:
        return torch.compile(fn, backend="aot_eager", dynamic=program.dynamic, fullgraph=True)

    got = observed(program, stock, SECONDS)
    if any(difference(one, other, exact=False) for one, other in zip(expected, got, strict=True)):
        return "dropped", "", ""
    config = configure(backend="eager", dynamic=program.dynamic, fullgraph=True)
    got = observed(program, lambda fn: optimize(fn, config, compile_frame), SECONDS)
    for one, other in zip(expected, got, strict=True):
        if found := difference(one, other, exact=False):
            said = next((each.text for each in found if each is not None and "FullGraphError" in each.text), "")
            return "differs", said[:120] or "another result than eager", "\n".join(str(each)[:300] for each in found)
    return "same", "", ""


def run(selection: Selection) -> Report:
    """Graphs, breaks and recompiles of call sequences."""
    what = "Graphs, breaks and recompiles beside torch.compile's", "equal or better"
    return _run(selection, sequence, judge, *what, SHARE)


def run_whole(selection: Selection) -> Report:
    """fullgraph=True on programs that aot_eager captures whole."""
    return _run(selection, grow, judge_whole, "What torch.compile(fullgraph=True) captures", "captured whole", WHOLE)


def _run(selection: Selection, made: Made, judge: Judge, title: str, aim: str, share: float) -> Report:
    seed = str(time.strftime("%Y-%m-%d") if selection.seed is None else selection.seed)
    count = selection.sequences or SEQUENCES
    torch.set_num_threads(1)
    with quiet():
        torch.compile(lambda x: (x.sin() * 2).sum(), backend="eager")(torch.ones(3))
    processes = os.cpu_count() or 1

    told: set[int] = set()

    def heard(tally: Tally) -> None:
        at = f"{sum(tally.outcomes.values())} of {count}"
        selection.tell(at)
        for finding in itertools.chain.from_iterable(tally.kinds.values()):
            if finding.number not in told:
                told.add(finding.number)
                print(f"{at}: {finding.number} {finding.kind}", flush=True)

    tally = stream(seed, "eager", processes, 0, lambda begun: begun >= count, heard, made, judge)
    outcomes = tally.outcomes
    compared = sum(outcomes.values()) - outcomes["dropped"]
    alike = outcomes["same"] + outcomes["better"]
    good = alike + outcomes["further"]
    kinds = sorted(tally.kinds.items(), key=lambda each: -len(each[1]))
    return Report(
        f"{title}, seed {seed}",
        ("what came of it", "programs", "numbers"),
        (
            ("as stock", str(outcomes["same"]), ""),
            ("better than stock", str(outcomes["better"]), ""),
            ("further than stock, which gives a function up", str(outcomes["further"]), ""),
            ("as stock or better, also where it gives up", percent(alike, compared), ""),
            *((kind, str(len(found)), ", ".join(str(f.number) for f in found[:12])) for kind, found in kinds),
        ),
        (Aim(f"{aim}: at least {share} %", percent(good, compared), good >= share / 100 * compared),),
        tuple(smallest(seed, kind, found, made, judge) for kind, found in kinds),
    )


def smallest(seed: str, kind: str, findings: list[Finding], made: Made, judge: Judge) -> str:
    """The shortest program of a kind made small, and what was counted of it."""
    program = min((made(seed, each.number) for each in findings), key=lambda each: len(each.text))

    def still(smaller: Program) -> bool:
        return isolated(smaller, "eager", judge=judge)[0] == kind

    program = shrunk(program, still, SHRINK_SECONDS)
    return f"{kind}: {program.name}\n{program.text}\n{isolated(program, 'eager', judge=judge)[1]}\n"
