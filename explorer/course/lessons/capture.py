"""Lesson 1: what is captured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

import explorer
from explorer.course.claims import figures
from explorer.course.compared import copies, decided, explored, position, showing
from explorer.course.prediction import Found, Prediction
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong

# capture-1: what is left of Python?

PYTHON = '''import torch

def loop(x):
    for _ in range(4):
        x = x + 1
    return x

def lookup(x):
    scales = {"small": 0.5, "large": 2.0}
    return x * scales["large"]

def sized(x):
    if x.dim() > 1:
        x = x.sum(0)
    return x * 2

class Scale:
    def __init__(self, by):
        self.by = by + 1

    def __call__(self, x):
        return torch.relu(x * self.by)

def called(x):
    return Scale(2)(x)

def unused(x):
    y = x.exp()
    return x + 1

x = torch.arange(1.0, 6.0)
functions = [loop, lookup, sized, called, unused]
'''


def find_nodes(answer: Answer, name: str) -> Found:
    (function,) = (each for each in answer["functions"] if each.__name__ == name)
    record = explored(function, answer["x"])
    count = figures(record.data)["nodes"].number
    return count, f"the captured graph has {count} operation{'s' * (count != 1)}", record, record.link("graphs", "f0")


NODES_OF = Prediction("nodes", {"loop": 4, "lookup": 1, "sized": 1, "called": 2, "unused": 2}, find_nodes)

LEFT = Puzzle(
    id="capture-1",
    title="What is left of Python?",
    task=(
        "Each function is captured once, with `x`. Predict how many operations the captured graph has, before any "
        "pass. Inputs and the output do not count."
    ),
    minutes=6,
    names=("nodes",),
    given=PYTHON,
    starter=NODES_OF.starter(),
    solution=NODES_OF.code(),
    wrong=(
        Wrong(NODES_OF.code(loop=1), "right", "`loop`: you said 1, the captured graph has 4"),
        Wrong(NODES_OF.code(lookup=2), "right", "`lookup`: you said 2, the captured graph has 1"),
        Wrong(NODES_OF.code(sized=2), "right", "`sized`: you said 2, the captured graph has 1"),
        Wrong(NODES_OF.code(called=3), "right", "`called`: you said 3, the captured graph has 2"),
        Wrong(NODES_OF.code(unused=1), "right", "`unused`: you said 1, the captured graph has 2"),
    ),
    hints=(
        "Python runs while the graph is captured. Which of its steps compute a tensor?",
        "A loop over a range is unrolled. Dictionaries, objects and numbers are gone once they are used.",
        "`sized`: x has one dimension, so the branch is not taken. `unused`: capture keeps what nobody reads; a later "
        "pass drops it.",
    ),
    check=NODES_OF.check,
)

# capture-2: where a trace is silently wrong

TRACED = '''import torch

def gate(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

def padded(x):
    rows = 4 if x.shape[0] > 4 else x.shape[0]
    return torch.cat([x[:rows], torch.zeros(8 - rows)])

# Both are traced with this, and the trace is kept:
example = torch.arange(1.0, 4.0)
'''


def traced(function: Callable[..., Any], example: torch.Tensor) -> Callable[..., Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: Callable[..., Any] = torch.jit.trace(function, (example,))
    return made


def check_wrong_trace(answer: Answer) -> tuple[Score, ...]:
    example = answer["example"]
    cases = [(given, answer[name], answer[given]) for name, given in (("gate", "for_gate"), ("padded", "for_padded"))]
    for given, _, x in cases:
        with answer.at("defined", given):
            if not isinstance(x, torch.Tensor) or x.dtype != torch.float32 or x.dim() != 1:
                answer.fail(f"`{given}` is a tensor of one dimension, float32")
    for given, function, x in cases:
        with answer.at("compiles", given, showing(function, (example,), decided)):
            compiled = explorer.compile(function)
            compiled(example)
            if differs := position(compiled(x), function(*copies((x,)))):
                answer.fail(f"`{given}`: the compiled function is wrong too: {differs}")
    for given, function, x in cases:
        with answer.at("right", given, showing(function, (example,), decided)):
            trace = traced(function, example)
            try:
                right = function(*copies((x,)))
                differs = position(trace(*copies((x,))), right)
            except RuntimeError as error:
                answer.fail(f"`{given}`: the trace raises ({str(error).strip().splitlines()[-1]}), so it is not silent")
            if not differs:
                answer.fail(f"`{given}`: the trace gives what eager gives, {right.tolist()}")
    return ()


def _inputs(gate: str, padded: str) -> str:
    return f"for_gate = {gate}\nfor_padded = {padded}\n"


WRONG_TRACE = Puzzle(
    id="capture-2",
    title="Silently wrong",
    task=(
        "`torch.jit.trace` runs a function once and keeps the operators that ran. Find an input for each "
        "function on which its trace returns another result than the function, and raises no error."
    ),
    minutes=10,
    names=("for_gate", "for_padded"),
    given=TRACED,
    starter="# Inputs on which the traces give other results than eager, and raise nothing.\n" + _inputs("...", "..."),
    solution=_inputs("torch.tensor([-1.0, -2.0])", "torch.arange(1.0, 7.0)"),
    wrong=(
        Wrong(_inputs("torch.ones(2)", "torch.arange(1.0, 7.0)"), "right", "`for_gate`: the trace gives what"),
        Wrong(_inputs("torch.tensor([-3.0])", "torch.ones(3)"), "right", "`for_padded`: the trace gives what"),
        Wrong(_inputs("torch.tensor([-3.0])", "[1.0, 2.0]"), "defined", "is a tensor of one dimension"),
        Wrong(_inputs("torch.ones(2, dtype=torch.float64)", "torch.ones(6)"), "defined", "float32"),
    ),
    hints=(
        "A trace holds what the example did. Which path did it take, and which number did it write down?",
        "gate: the sum of the example is above 0. padded: the example has 3 rows, so 3 and 5 were written down.",
        "gate: a sum below 0. padded: more than 3 elements.",
    ),
    check=check_wrong_trace,
)  # fmt: skip

# capture-3: exact, wrong or refused?

METHODS = '''import torch

def gate(x):
    return x * 2 if x.sum() > 0 else x - 1

def loop(x):
    for _ in range(3):
        x = torch.relu(x - 1)
    return x

def sized(x):
    return x / x.shape[0]

def keyed(x):
    parts = {"a": x + 1, "b": x * 2}
    return parts["a"] - parts["b"]

# Captured with `example`, then called with `other`, by torch.jit.trace, torch.fx.symbolic_trace and explorer.compile.
example, other = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-4.0, 1.0])
'''


def outcome(capture: Callable[..., Any], function: Callable[..., Any], example: Any, other: Any) -> str:
    """ "exact", "wrong" or "refused"."""
    try:
        made = capture(function, example)
    except Exception:
        return "refused"
    try:
        return "wrong" if position(made(other), function(other)) else "exact"
    except Exception:
        return "refused"


WAYS: dict[str, Callable[..., Any]] = {
    "trace": traced,
    "fx": lambda function, example: torch.fx.symbolic_trace(function),
    "explorer": lambda function, example: explorer.compile(function),
}


def check_methods(answer: Answer) -> tuple[Score, ...]:
    said = answer["outcomes"]
    names = [f"{name} {way}" for name in ("gate", "loop", "sized", "keyed") for way in WAYS]
    with answer.at("defined"):
        if not isinstance(said, dict) or sorted(said) != sorted(names):
            answer.fail(f"`outcomes` is a dict with the keys {', '.join(names)}")
        if strange := [each for each in said.values() if each not in ("exact", "wrong", "refused")]:
            answer.fail(f"{strange[0]!r} is none of 'exact', 'wrong', 'refused'")
    for each in names:
        name, way = each.split()
        with answer.at("right", each, showing(answer[name], (answer["example"],), decided)):
            found = outcome(WAYS[way], answer[name], answer["example"], answer["other"])
            if said[each] != found:
                answer.fail(f"{each}: you said {said[each]}, it is {found}")
    return ()


_RIGHT = {
    "gate trace": "wrong", "gate fx": "refused", "gate explorer": "exact",
    "loop trace": "exact", "loop fx": "exact", "loop explorer": "exact",
    "sized trace": "exact", "sized fx": "exact", "sized explorer": "exact",
    "keyed trace": "exact", "keyed fx": "exact", "keyed explorer": "exact",
}  # fmt: skip


def _outcomes(**changed: str) -> str:
    made = {**_RIGHT, **{name.replace("_", " "): said for name, said in changed.items()}}
    return "outcomes = {\n" + "".join(f"    {name!r}: {said!r},\n" for name, said in made.items()) + "}\n"


SORTED = Puzzle(
    id="capture-3",
    title="Exact, wrong or refused?",
    task=(
        "Say of each function and each method: `\"exact\"` (the captured function gives what eager gives for "
        "`other`), `\"wrong\"` (it gives something else) or `\"refused\"` (the capture or the call raises)."
    ),
    minutes=12,
    names=("outcomes",),
    given=METHODS,
    starter="outcomes = {\n" + "".join(f"    {name!r}: ...,\n" for name in _RIGHT) + "}\n",
    solution=_outcomes(),
    wrong=(
        Wrong(_outcomes(gate_trace="exact"), "right", "gate trace: you said exact, it is wrong"),
        Wrong(_outcomes(gate_fx="wrong"), "right", "gate fx: you said wrong, it is refused"),
        Wrong(_outcomes(gate_explorer="refused"), "right", "gate explorer: you said refused, it is exact"),
        Wrong(_outcomes(loop_trace="slow"), "defined", "'slow' is none of"),
    ),
    hints=(
        "trace runs the function once and writes down the operators. fx runs it with values that stand for tensors.",
        "fx cannot tell which way a branch on a value goes, and says so. trace took the example's way.",
        "Sizes: trace keeps x.shape[0] as an operation on the shape here, so another size is right.",
    ),
    check=check_methods,
)  # fmt: skip

PUZZLES = (LEFT, WRONG_TRACE, SORTED)
