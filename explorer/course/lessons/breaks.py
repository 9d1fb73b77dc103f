"""Lesson 3: graph breaks."""

from __future__ import annotations

import types
from collections import namedtuple
from functools import partial
from typing import Any

import torch

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.flow import liveness
from explorer.course.compared import Labeled, agree, broken, explored, showing
from explorer.course.prediction import Found, Prediction
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.ir.bytecode import Code
from explorer.show.record import Record

# breaks-1: how many breaks?

SIX = """import torch

def straight(x, weights):
    for w in weights:
        x = torch.relu(x * w)
    return x

def chatty(x):
    y = x * 2
    print("half way")
    return y + 1

def branchy(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

def shapely(x):
    if x.shape[0] > 3:
        return x * 2
    return x - 1

def counted(x):
    n = int(x[0].item())
    return x * n

def noisy(x):
    print("begin")
    y = x * 2
    print("end")
    return y + 1

x = torch.arange(1.0, 6.0)
calls = {
    "straight": (x, [x, x, x]), "chatty": (x,), "branchy": (x,), "shapely": (x,), "counted": (x,), "noisy": (x,),
}
"""


def find_breaks(answer: Answer, name: str) -> Found:
    record = explored(answer[name], *answer["calls"][name])
    why = "\n".join(sorted({each.why.title for each in record.breaks})) or "nothing breaks it"
    return len(record.breaks), f"the record has {len(record.breaks)} ({why})", record, broken(record)


COUNT = Prediction(
    "breaks", {"straight": 0, "chatty": 1, "branchy": 1, "shapely": 0, "counted": 1, "noisy": 2}, find_breaks
).puzzle(
    id="breaks-1",
    title="How many breaks?",
    task=(
        "Each function is called once with the arguments in `calls`. Predict its number of graph breaks in that call."
    ),
    minutes=6,
    given=SIX,
    wrong={"straight": 3, "shapely": 1, "branchy": 2},
    says=lambda number: f"the record has {number}",
    more=(Wrong('breaks = {"straight": 0, "chatty": 1}', "defined", "no number for branchy, shapely"),),
    hints=(
        "Ask of each line: does Python need a tensor's element to go on, or does it do something outside the graph?",
        "A loop over a list is run while tracing, so it leaves no trace. A shape is known while tracing.",
        "print, a branch on a tensor, and .item() each break. Each such place of the program counts once.",
    ),
)

# breaks-2: mend five functions

BROKEN = """import torch

def gate(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

def clipped(x):
    largest = x.abs().max().item()
    if largest > 1:
        x = x / largest
    return x

def logged(x):
    y = torch.relu(x)
    print("mean", y.mean())
    return y * 2

def mean_above(x):
    above = x[x > 0]
    if len(above) == 0:
        return torch.tensor(0.0)
    return above.sum() / len(above)

def ranked(x):
    return torch.tensor(sorted(x.flatten().tolist()))

before = {"gate": gate, "clipped": clipped, "logged": logged, "mean_above": mean_above, "ranked": ranked}
"""

BRANCHES: tuple[Labeled, ...] = (
    ("x of sum 3", (torch.tensor([1.0, 2.0]),)),
    ("x of sum -3", (torch.tensor([-1.0, -2.0]),)),
    ("x of sum 0.5", (torch.tensor([1.5, -1.0]),)),
    ("x of sum 0", (torch.tensor([-1.0, 1.0]),)),
    ("x below 1", (torch.tensor([0.25, -0.5]),)),
    ("x of shape (5, 3)", (torch.linspace(-4, 3, 15).view(5, 3),)),
)


def check_fixed(answer: Answer) -> tuple[Score, ...]:
    records = {}
    for name, function in answer["before"].items():
        with answer.at("compiles", name, showing(function, BRANCHES[0][1], broken)):
            records[name] = explored(answer[name], *BRANCHES[0][1])
    for name, record in records.items():
        with answer.at("verified", name):
            if len(record.breaks):
                why = record.breaks[0].why
                answer.fail(f"`{name}` still breaks: {why.title}", record, broken(record))
    for name, record in records.items():
        answer.shown(record, "graphs")
        agree(answer, answer[name], answer["before"][name], BRANCHES, f"`{name}`")
    nodes = sum(len(record.graphs[0].graph.calls) for record in records.values())
    return (Score("captured operations", nodes, 21),)


_FIXED = {
    "gate": "torch.where(x.sum() > 0, x * 2, x - 1)",
    "clipped": "x / x.abs().max().clamp(min=1)",
    "logged": "torch.relu(x) * 2",
    "mean_above": "torch.relu(x).sum() / (x > 0).sum().clamp(min=1)",
    "ranked": "x.flatten().sort().values",
}


def _fixed(before: str = "", **changed: str) -> str:
    results = {**_FIXED, **changed}
    return before + "\n\n".join(f"def {name}(x):\n    return {result}" for name, result in results.items()) + "\n"


MEND = Puzzle(
    id="breaks-2",
    title="Remove the breaks",
    task=(
        "Rewrite the five functions so that none has a graph break and each returns what it returned before. "
        "What `logged` prints may go."
    ),
    minutes=15,
    names=tuple(_FIXED),
    given=BROKEN,
    starter=_fixed(**dict.fromkeys(_FIXED, "...")),
    solution=_fixed(),
    wrong=(
        Wrong(_fixed(gate="x * 2"), "right", "`gate`: on x of sum -3"),
        Wrong(_fixed(gate="torch.where(x > 0, x * 2, x - 1)"), "right", "`gate`: on x of sum 0"),
        Wrong(_fixed(clipped="x / max(x.abs().max().item(), 1)"), "verified", "`clipped` still breaks"),
        Wrong(_fixed(clipped="x / x.abs().max()"), "right", "`clipped`: on x below 1"),
        Wrong(_fixed("@torch.compiler.disable\n", gate="x * 2 if x.sum() > 0 else x - 1"), "defined",
              "to be solved without"),
        Wrong(_fixed(mean_above="x[x > 0].mean()"), "verified", "`mean_above` still breaks"),
        Wrong(_fixed(mean_above="torch.relu(x).mean()"), "right", "`mean_above`: on x of sum 0.5"),
        Wrong(_fixed(mean_above="torch.relu(x).sum() / (x > 0).sum()"), "right", "`mean_above`: on x of sum -3"),
        Wrong(_fixed(ranked="x.sort().values"), "right", "`ranked`: on x of shape (5, 3)"),
        Wrong(_fixed(ranked="torch.tensor(sorted(x.tolist()))"), "verified", "`ranked` still breaks"),
    ),
    hints=(
        "Both results of a branch can be computed, and one of them chosen. What is left out of a sum may count as 0.",
        "torch.where(condition, a, b) chooses inside the graph. A number that is the larger of two is a clamp. Sorting "
        "is an operator too.",
        "clipped: x / x.abs().max().clamp(min=1). mean_above: a sum over torch.relu(x), divided by the sum of x > 0, "
        "which is at least 1. logged: what it prints is no part of what it returns.",
    ),
    check=check_fixed,
    forbidden=frozenset({"disable", "compile", "compiler", "no_grad", "cond"}),
)  # fmt: skip

# breaks-3: what lives on

Step = namedtuple("Step", "op name to")
"""One instruction: `name` is the local that LOAD_FAST, STORE_FAST or DELETE_FAST is about, `to` the positions that may
come next."""


def steps(code: Code) -> list[Step]:
    """A body as plain data. An instruction that reads or writes no local has no name."""
    index, found = code.index, []
    for at, each in enumerate(code.instructions):
        name = each.arg if each.op in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST") else ""
        ends = each.op in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE")
        after = [] if ends or each.op == "JUMP" else [at + 1]
        found.append(Step(each.op, name, tuple(after + ([index[each.target]] if each.target else []))))
    return found


def _line(x: Any, a: Any) -> Any:
    y = x + a
    z = y * 2
    return z - a


def _again(x: Any, a: Any) -> Any:
    y = x * a
    x = y + 1
    y = x * 2
    return y


def _branch(x: Any, a: Any, flag: object) -> Any:
    b = a + 1
    if flag:
        b = x * 2
    return b


def _loop(x: object, n: Any, step: Any) -> Any:
    total = x
    while n:
        last = total
        total = total + step
        n = n - 1
        total = total * last
    return total


def _deleted(x: Any, a: Any) -> Any:
    y = x + a
    if a:
        del y
        y = x * a
    del a
    return y


def _unused(x: Any, a: Any) -> Any:
    b = a + 1  # noqa: F841
    c = x * 2
    b = c
    return b


_BODIES = (_line, _again, _branch, _loop, _deleted, _unused)
BODIES = tuple((body, decode(body.__code__)) for body in _BODIES if isinstance(body, types.FunctionType))


def check_live(answer: Answer) -> tuple[Score, ...]:
    for function, code in BODIES:
        args = (torch.ones(2), *(2 for _ in range(function.__code__.co_argcount - 1)))
        live, body = liveness(code), steps(code)
        for at, instruction in enumerate(code.instructions):
            if instruction.id not in live:
                continue
            what = f"`{code.name.strip('_')}` with a break before instruction {at}"
            link = partial(Record.link, pane="bytecode", compile="f0", element=instruction.id)
            with answer.at("right", what, showing(function, args, link)):
                found = answer["live"](list(body), at)
                if not isinstance(found, (set, frozenset)):
                    answer.fail(f"`live` returns a set of names, not a {type(found).__name__}")
                right = set(live[instruction.id])
                listed = "".join(f"\n{'>' if i == at else ' '} {i:>2} {each}" for i, each in enumerate(body))
                if missing := sorted(right - set(found)):
                    answer.fail(f"{what}: {missing[0]} is read later, and is not in yours{listed}")
                if more := sorted(set(found) - right):
                    reads = {step.name for step in body[at:] if step.op != "STORE_FAST"}
                    how = "written again before it is read" if more[0] in reads else "never read from there on"
                    answer.fail(f"{what}: {more[0]} is {how}, and is in yours{listed}")
    return ()


LIVE = Puzzle(
    id="breaks-3",
    title="What lives on",
    task=(
        "After a break at instruction `at` a continuation runs the rest. Compute the names that it needs, for "
        "any body and any `at`."
    ),
    minutes=20,
    names=("live",),
    given='''def maybe(x, flag):
    if flag:
        x = x + 1
    return x

# The steps of `maybe`, as `live` gets them. `name` is a local, "" where the step is about none; `to` are the places
# that may come next: a loop leads back to an earlier one.
from collections import namedtuple
Step = namedtuple("Step", "op name to")
steps = [
    Step("LOAD_FAST", "flag", (1,)),
    Step("POP_JUMP_IF", "", (2, 6)),
    Step("LOAD_FAST", "x", (3,)),
    Step("LOAD_CONST", "", (4,)),
    Step("BINARY_OP", "", (5,)),
    Step("STORE_FAST", "x", (6,)),
    Step("LOAD_FAST", "x", (7,)),
    Step("RETURN_VALUE", "", ()),
]
# A name is live at i if some path from i reads it before it is written: live(steps, 2) is {"x"}. Only LOAD_FAST,
# STORE_FAST and DELETE_FAST, which is `del x`, have a name. DELETE_FAST counts as a read: the name has to be there.
''',
    starter='''def live(steps, at):
    """The set of names that a continuation which starts at `at` must be given."""
    ...
''',
    solution='''def live(steps, at):
    before = [set() for _ in steps]
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(steps))):
            step = steps[i]
            names = set().union(*(before[j] for j in step.to))
            if step.op == "STORE_FAST":
                names = names - {step.name}
            elif step.name:
                names = names | {step.name}
            if names != before[i]:
                before[i], changed = names, True
    return before[at]
''',
    wrong=(
        Wrong('''def live(steps, at):
    return {step.name for step in steps if step.name}
''', "right", "y is written again before it is read"),
        Wrong('''def live(steps, at):
    return {step.name for step in steps[at:] if step.name and step.op != "STORE_FAST"}
''', "right", "is written again before it is read"),
        Wrong('''def live(steps, at):
    found, written = set(), set()
    for step in steps[at:]:
        if step.op == "STORE_FAST":
            written.add(step.name)
        elif step.name and step.name not in written:
            found.add(step.name)
    return found
''', "right", "is read later, and is not in yours"),
        Wrong('''def live(steps, at):
    while True:
        pass
''', "right", "a loop that does not end"),
    ),
    hints=(
        "Work backwards: what is live after an instruction, and what does the instruction do to that?",
        "A store ends a name's life, a load begins it. Before an instruction with two successors both sets are live.",
        "A loop leads back, so repeat until no set changes.",
    ),
    check=check_live,
)  # fmt: skip

PUZZLES = (COUNT, MEND, LIVE)
