"""Lesson 10: fusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import sympy
import torch
import torch.nn.functional as F

import explorer
from explorer.compiler.autograd import CLEANUP, TRACE
from explorer.compiler.codegen import GENERATE
from explorer.compiler.lower import LOWER
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY, SEPARATE, reasons
from explorer.compiler.schedule.fuse import Fusion
from explorer.core.reasons import CATALOGUE
from explorer.core.stage import Stage
from explorer.course.compared import (
    bytes_moved,
    captured,
    copies,
    explored,
    kernels,
    looped,
    position,
    showing,
    why_not_compiled,
)
from explorer.course.prediction import Found, Prediction
from explorer.course.puzzle import Answer, Puzzle, Score, Show, Wrong
from explorer.ir.loops import Loop
from explorer.ir.program import CPU, BuildOptions, Generation
from explorer.ir.schedule import Access, Dependencies, Fused
from explorer.show.record import Record

# fusion-1: how many kernels?

SIX = """import torch
import torch.nn.functional as F

def chain(x):
    return torch.relu(x * 2 + 1)

def softmax(x):
    return torch.softmax(x, dim=-1)

def flipped(x):
    y = x.exp()
    return y + y.flip(0)

def whole(x):
    return x / x.sum()

def views(x):
    return x.t().unsqueeze(0) * 2

def product(x):
    return torch.relu(x @ x.t() + 1)

x = torch.randn(64, 96)
functions = [chain, softmax, flipped, whole, views, product]
"""


def find_kernels(answer: Answer, name: str) -> Found:
    (function,) = (each for each in answer["functions"] if each.__name__ == name)
    record = explored(function, answer["x"])
    at = record.link("schedule", "f0", element="k0")
    return kernels(record), f"the record has {kernels(record)}\n{record.schedule}", record, at


KERNELS = Prediction(
    "kernels", {"chain": 1, "softmax": 1, "flipped": 2, "whole": 1, "views": 1, "product": 1}, find_kernels
).puzzle(
    id="fusion-1",
    title="How many kernels?",
    task=(
        "Predict how many kernels this compiler generates for each function. A library call, such as a matrix "
        "product, is no generated kernel."
    ),
    minutes=8,
    given=SIX,
    wrong={"chain": 3, "softmax": 3, "whole": 2, "flipped": 1, "product": 2},
    says=lambda number: f"the record has {number}",
    hints=(
        "Two operations are not fused where the second needs an element that the first has not computed yet.",
        "A row's sum is there before the next row begins, so softmax is one kernel. A sum of all is one long row, and "
        "what reads it can follow in the same kernel.",
        "A matrix product is a library call and no kernel. A view is no kernel either; what computes with it is one.",
    ),
)

# fusion-2: when is it legal?


@dataclass(frozen=True)
class LoopView:
    """A loop as plain data. `outer` and `inner` are the sizes of its axes i0, i1, ...; a reduction joins the points of
    `inner`. `reads` maps buffers to the indices at which each point reads, None where data tell; `writes` and `at` say
    what it writes, and where."""

    name: str
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    reads: Mapping[str, tuple[str | None, ...]]
    writes: str
    at: str | None

    def __str__(self) -> str:
        return f"outer={self.outer}, inner={self.inner}, reads={self.reads}, writes={self.writes!r}, at={self.at!r}"

    @property
    def reduces(self) -> bool:
        return bool(self.inner)


UNSAFE = frozenset(
    {reasons.DIFFERENT_POINT, reasons.REDUCTION_FIRST, reasons.SCATTER, reasons.INDIRECT, reasons.MUTATION}
)


Program = tuple[str, Callable[..., Any], tuple[Any, ...]]


def programs() -> Iterator[Program]:
    """Programs whose loops can be fused in many ways."""

    def r(*size: int) -> torch.Tensor:
        return torch.linspace(-2, 2, int(torch.Size(size).numel())).reshape(size)

    def heads(x: torch.Tensor) -> Any:
        return torch.relu(x).sum(-1), torch.sigmoid(x * 2).amax(-1)

    def pyramid(x: torch.Tensor) -> Any:
        a = x.exp()
        b = a + a.flip(0)
        return b.sum(0), (a * 2).sum(-1)

    def standard(x: torch.Tensor) -> Any:
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1).sqrt()

    def mirrored(x: torch.Tensor) -> Any:
        s = x.sum(-1)
        return s + s.flip(0)

    def flipped(x: torch.Tensor) -> Any:
        y = x.tanh()
        return y - y.flip(0)

    def rows_as_columns(x: torch.Tensor) -> Any:
        return x - x.sum(1)

    def chosen(x: torch.Tensor, at: torch.Tensor) -> Any:
        return x.sum(-1)[at] + 1

    def contested(x: torch.Tensor, z: torch.Tensor, v: torch.Tensor) -> Any:
        return torch.relu(x) + v, (x * 2).sum(1), (z * v).sum(0)

    def contested_late(x: torch.Tensor, z: torch.Tensor, v: torch.Tensor) -> Any:
        return (z * v).sum(0), torch.relu(x) + v, (x * 2).sum(1)

    yield "softmax", lambda x: torch.softmax(x, -1), (r(8, 16),)
    yield "layer norm", lambda x: F.layer_norm(x, (16,)), (r(8, 16),)
    yield "two heads", heads, (r(8, 16),)
    yield "pyramid", pyramid, (r(8, 16),)
    yield "shifted", lambda x: (lambda y: y[1:] - y[:-1])(x.tanh()), (r(33),)
    yield "flipped", flipped, (r(8, 8),)
    yield "mirrored", mirrored, (r(8, 16),)
    yield "rows as columns", rows_as_columns, (r(8, 8),)
    yield "chosen rows", chosen, (r(8, 16), torch.tensor([1, 5, 5, 0]))
    yield "whole sum", lambda x: x.exp() / x.exp().sum(), (r(8, 16),)
    yield "standard", standard, (r(8, 16),)
    yield "columns and rows", lambda x: (x.sum(0), x.sum(1), x * 2), (r(16, 8),)
    yield "transposed", lambda x: (x.exp().t().contiguous() + 1, x.exp() * 2), (r(8, 16),)
    yield "whole after rows", lambda x: x.sum(1).sum(), (r(8, 16),)
    yield "contested", contested, (r(32, 64), r(32, 64), r(64))
    yield "contested, late", contested_late, (r(32, 64), r(32, 64), r(64))
    yield "loss", lambda x, y: ((x - y).abs().mean(-1), (x - y).square().sum()), (r(8, 16), r(8, 16) * 0.5)


@cache
def lowered() -> dict[str, Dependencies]:
    """What fusion is given for each program."""

    found = {}
    for name, function, args in programs():
        traced = TRACE(captured(function, *args))
        for clean in CLEANUP:
            traced = clean(traced)
        found[name] = DEPENDENCIES(LOWER(traced.forward))
    return found


@cache
def pairs() -> tuple[tuple[str, LoopView, LoopView, bool, str], ...]:
    """Pairs of loops of the programs, each with whether it may be fused, and why not where that would be wrong."""
    found = []
    for name, dependencies in lowered().items():
        loops = [each for each in dependencies.loops.operations if isinstance(each, Loop)]
        fusion = Fusion(dependencies)
        for at, first in enumerate(loops):
            for second in loops[at + 1 :]:
                verdict = fusion.alone(first.id, second.id)
                if verdict.why.code == reasons.CYCLE:
                    continue  # about a third loop, which the two do not show
                title = CATALOGUE[verdict.why.code].title if verdict.why.code in UNSAFE else ""
                found.append((name, _view(first, dependencies), _view(second, dependencies), verdict.ok, title))
    return tuple(found)


def _view(loop: Loop, dependencies: Dependencies) -> LoopView:
    names = {axis.symbol: sympy.Symbol(f"i{at}") for at, axis in enumerate((*loop.axes, *loop.reduced))}

    def index(access: Access) -> str | None:
        return None if access.index is None else str(sympy.sympify(access.index).xreplace(names))

    reads: dict[str, tuple[str | None, ...]] = {}
    for each in dependencies.reads[loop.id]:
        reads[each.buffer] = (*reads.get(each.buffer, ()), index(each))
    (write,) = dependencies.writes[loop.id]
    outer, inner = (tuple(int(axis.size) for axis in axes) for axes in (loop.axes, loop.reduced))
    return LoopView(loop.id, outer, inner, reads, write.buffer, index(write))


def shown(name: str, element: str = "k0") -> tuple[Record, str]:
    """The record of one of `programs`, and where it shows a loop or a kernel."""
    function, args = next((function, args) for each, function, args in programs() if each == name)
    record = explored(function, *args)
    return record, record.link("schedule", "f0", element=element)


def check_legal(answer: Answer) -> tuple[Score, ...]:
    asked: list[tuple[str, bool, bool, str, Show]] = []
    for name, a, b, ok, why in pairs():
        what = f"{name}: {a.name} and {b.name}"
        show: Show = partial(shown, name, b.name)
        with answer.at("right", what, show):
            says = answer["legal"](a, b)
            if not isinstance(says, bool):
                answer.fail(f"`legal` returns True or False, not a {type(says).__name__}")
            both = f"\n  a: {a}\n  b: {b}"
            asked.append((f"{what}.{both}", ok, says, f"{what}: yours says yes. {why}.{both}" if why else "", show))
    for what, _, says, wrong, show in asked:
        with answer.at("refuses", what, show):
            if says and wrong:
                answer.fail(wrong)
    legal = [(what, says, show) for what, ok, says, _, show in asked if ok]
    missed = [(what, show) for what, says, show in legal if not says]
    found = len(legal) - len(missed)
    with answer.at("score", show=missed[0][1] if missed else None):
        if found < 0.5 * len(legal):
            answer.fail(f"finds {found} of {len(legal)} legal pairs, fewer than half; yours says no to {missed[0][0]}")
    if missed:
        print(f"a legal pair that yours refuses: {missed[0][0]}")
    return (Score("legal pairs found", round(found / len(legal), 2), 0.9, higher=True),)


LEGAL = Puzzle(
    id="fusion-2",
    title="When is it legal?",
    task=(
        "Write the rule that says whether two loops may be one kernel. A wrong yes fails at once; a rule that "
        "finds less than half of the legal pairs fails too. The score is the share of legal pairs that it "
        "finds."
    ),
    minutes=20,
    names=("legal",),
    given='''# A loop has .outer and .inner: the sizes of its axes i0, i1, ... The inner ones are reduced; .reduces says
# whether there are any. .reads is a dict from a buffer to a tuple of the indices at which each point reads it;
# .writes is the buffer that it writes, and .at the index there. An index that depends on data is None. `a` runs
# before `b`.
# The axes are numbered from outer to inner. In one kernel, i0 of a and i0 of b are the same loop where both have the
# same size. Two loops of which neither reads what the other writes may always be one kernel here.
# Two loops of a softmax on 8 x 16, the row's maximum, and the exponential of x minus the maximum:
#   a: outer=(8,), inner=(16,), reads={"l_x": ("16*i0 + i1",)}, writes="buf0", at="i0"
#   b: outer=(8, 16), inner=(), reads={"l_x": ("16*i0 + i1",), "buf0": ("i0",)}, writes="buf1", at="16*i0 + i1"
''',
    starter='''def legal(a, b):
    """Whether a and b may be one kernel. Never say yes where b would read what a has not written yet."""
    return ...
''',
    solution='''def legal(a, b):
    if a.writes not in b.reads:
        return True
    if any(at is None or at != a.at for at in b.reads[a.writes]):
        return False
    points = b.outer if a.reduces else b.outer + b.inner
    return points[:len(a.outer)] == a.outer
''',
    wrong=(
        Wrong("def legal(a, b):\n    return True\n", "refuses", "yours says yes"),
        Wrong("def legal(a, b):\n    return a.outer == b.outer\n", "refuses", "flipped"),
        Wrong("def legal(a, b):\n    return a.writes in b.reads and a.outer + a.inner == b.outer + b.inner\n",
              "refuses", "yours says yes"),
        Wrong("def legal(a, b):\n    return a.writes not in b.reads and False\n", "score", "finds 0 of"),
        Wrong("def legal(a, b):\n    return b.reads.get(a.writes) == a.at\n", "score", "yours says no to"),
        Wrong("def legal(a, b):\n    return all(at == a.at for at in b.reads.get(a.writes, ()))\n",
              "refuses", "whole after rows"),
    ),
    hints=(
        "If b does not read what a writes, nothing can go wrong between the two.",
        "If b reads it at another index than a writes, that element may not have been computed yet.",
        "A reduction's result is complete when its inner axes are done: b may use it in the same row, so the outer "
        "axes of a are the first outer axes of b.",
    ),
    check=check_legal,
)  # fmt: skip

# fusion-3: fewest bytes


def moved(dependencies: Dependencies, stage: Stage[Dependencies, Fused] = FUSE) -> int:
    """Bytes that the kernels of a program read and write, each element counted once for each kernel."""
    schedule = ORDER(stage(dependencies))
    made = GENERATE(Generation(schedule, PLAN_MEMORY(schedule), CPU, BuildOptions()))
    return sum(int(kernel.bytes) for kernel in made.kernels)


def check_rank(answer: Answer) -> tuple[Score, ...]:
    total = reference = 0
    worse: list[tuple[str, str]] = []
    print(f"{'bytes moved':<18}{'unfused':>8}{'yours':>8}{'built in':>10}")
    for name, dependencies in lowered().items():
        apart, theirs = moved(dependencies, SEPARATE), moved(dependencies)
        with answer.at("compiles", name, partial(shown, name)), explorer.workbench(rank=answer["rank"]):
            yours = moved(dependencies)
        print(f"{name:<18}{apart:>8}{yours:>8}{theirs:>10}")
        total, reference = total + yours, reference + theirs
        if yours > 1.1 * theirs:
            message = f"{name}: {yours} bytes; the built-in rule moves {theirs}, and at most 10 % more is asked"
            worse.append((name, message))
    with answer.at("score"):
        if worse:
            with explorer.workbench(rank=answer["rank"]):
                place = shown(worse[0][0])
            answer.fail(worse[0][1], *place)
    return (Score("bytes in all", total, reference),)


RANK = Puzzle(
    id="fusion-3",
    title="Fewest bytes",
    task=(
        "Of all legal pairs the scheduler fuses the one with the highest rank first. Write the rank, so that "
        "no program reads and writes more than 10 % more bytes than with the built-in rule. Every loop "
        "runs in the end, so no result can be wrong."
    ),
    minutes=10,
    names=("rank",),
    given='''# rank(pair) is asked for each pair of groups of loops that access one buffer. The highest is tried first,
# one with None never.
# pair.bytes_shared: of the buffers that both access. pair.distance: how many operations apart they are in the program,
# 1 for neighbors, and negative where one begins before the other has ended.
# pair.first and pair.second: tuples of the names of their loops. pair.across: one of them reduces along the memory and
# the other across it.
# One of the programs is this, with x and z of 32 x 64 and v of 64:
def contested(x, z, v):
    return torch.relu(x) + v, (x * 2).sum(1), (z * v).sum(0)
''',
    starter='''def rank(pair):
    return ...
''',
    solution='''def rank(pair):
    return pair.bytes_shared / (4 if pair.across else 1) - pair.distance / 1000
''',
    wrong=(
        Wrong("def rank(pair):\n    return None\n", "score", "at most 10 % more"),
        Wrong("def rank(pair):\n    return 1\n", "score", "at most 10 % more"),
        Wrong("def rank(pair):\n    return -pair.bytes_shared\n", "score", "at most 10 % more"),
        Wrong("def rank(pair):\n    return -pair.distance\n", "score", "at most 10 % more"),
        Wrong("def rank(pair):\n    return pair.bytes\n", "compiles", "AttributeError"),
        Wrong("def rank(pair):\n    return 'high'\n", "compiles", "a rank is a number"),
    ),
    hints=(
        "A fused pair saves the bytes of what both access. Which pair would you try first?",
        "In `contested`, relu(x) + v can join the sum over x or the sum over z * v, not both. Which shares more bytes?",
        "pair.bytes_shared is enough here. The built-in rank counts less for pair.across, and prefers near pairs.",
    ),
    check=check_rank,
)  # fmt: skip

# fusion-4: where greedy loses

LEAST_WON = 0.05
"""Of the bytes that the built-in rank moves, the share that another has to save."""
CONTEST = """import torch

x, y, z = (torch.linspace(-1, 1, 64 * 96).view(64, 96) + shift for shift in range(3))  # 24576 bytes each
"""


def check_contest(answer: Answer) -> tuple[Score, ...]:
    contest, args = answer["contest"], (answer["x"], answer["y"], answer["z"])
    show = showing(contest, args, looped)
    with answer.at("compiles", "contest", show):
        with explorer.workbench(rank=answer["rank"]):
            record = explored(contest, *copies(args))
        answer.shown(record, looped(record))
        if (why := why_not_compiled(record)) or len(record.breaks):
            answer.fail(why or f"`contest` breaks: {record.breaks[0].why}")
    with answer.at("right", "contest"):
        with explorer.workbench(rank=answer["rank"]):
            found = explorer.compile(contest)(*copies(args))
        if differs := position(found, contest(*copies(args)), loose=1e-4):
            answer.fail(f"`contest`: {differs}")
    built_in = explored(contest, *copies(args))
    yours, theirs = bytes_moved(record), bytes_moved(built_in)
    with answer.at("score"):
        if yours > (1 - LEAST_WON) * theirs:
            message = f"{yours} bytes with your rank, {theirs} with the built-in one; at least 5 % fewer are asked"
            answer.fail(f"{message}\nwith yours:\n{record.schedule}", record, looped(record))
    return (Score("bytes moved", yours, theirs),)


def _contest(rank: str = "pair.across, pair.bytes_shared", returns: str = "") -> str:
    returns = returns or "x * y * z, (x - y).sum(1), x.sum(0), y.sum(0), z.sum(0)"
    return f"def contest(x, y, z):\n    return {returns}\n\ndef rank(pair):\n    return {rank}\n"


GREEDY = Puzzle(
    id="fusion-4",
    title="Where greedy loses",
    task=(
        "The built-in rank tries first what promises most, and takes nothing back. Write a function of three matrices, "
        "and a rank with which its kernels read and write at least 5 % fewer bytes than with the built-in one."
    ),
    minutes=20,
    names=("contest", "rank"),
    given=CONTEST,
    starter=_contest("...", "..."),
    solution=_contest(),
    wrong=(
        Wrong(_contest("pair.bytes_shared"), "score", "with the built-in one; at least 5 % fewer are asked"),
        Wrong(_contest("None"), "score", "with the built-in one; at least 5 % fewer are asked"),
        Wrong(_contest(returns="torch.softmax(x * y * z, -1)"), "score", "at least 5 % fewer are asked"),
        Wrong(_contest(returns="x.sum(0), y.sum(0)"), "score", "at least 5 % fewer are asked"),
        Wrong(_contest("pair.bytes"), "compiles", "AttributeError"),
        Wrong(_contest(returns="x * y * z if x.sum() > 0 else x"), "compiles", "`contest` breaks"),
    ),
    hints=(
        "Which two groups never become one kernel? A loop that both could take decides once, for good.",
        "A sum over rows and a sum over columns are not fused (`contested` in fusion-3). What joins the one cannot "
        "join the other, nor anything that is with the other.",
        "x * y * z can go with one sum over rows that reads x and y, or with three sums over columns, of x, y and z. "
        "Let the rank try pairs with pair.across first.",
    ),
    check=check_contest,
)  # fmt: skip

PUZZLES = (KERNELS, LEGAL, RANK, GREEDY)
