"""Lesson 1: what is captured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

import explorer
from explorer.course.compared import FEW, copies, decided, explored, position, showing
from explorer.course.prediction import Found, Prediction, figures
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.records.data.methods import VerdictData

# capture-1: what is left of Python?

PYTHON = """import torch

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
"""


def find_nodes(answer: Answer, name: str) -> Found:
    (function,) = (each for each in answer["functions"] if each.__name__ == name)
    record = explored(function, answer["x"])
    count = figures(record.data)["nodes"].number
    return count, f"the captured graph has {count} operation{'s' * (count != 1)}", record, record.link("graphs", "f0")


LEFT = Prediction("nodes", {"loop": 4, "lookup": 1, "sized": 1, "called": 2, "unused": 2}, find_nodes).puzzle(
    id="capture-1",
    title="What is left of Python?",
    task=(
        "Each function is captured once, with `x`. Predict how many operations the captured graph has, before any "
        "pass. Inputs and the output do not count."
    ),
    minutes=6,
    given=PYTHON,
    wrong={"loop": 1, "lookup": 2, "sized": 2, "called": 3, "unused": 1},
    says=lambda number: f"the captured graph has {number}",
    hints=(
        "Python runs while the graph is captured. Which of its steps compute a tensor?",
        "A loop over a range is unrolled. Dictionaries, objects and numbers are gone once they are used.",
        "`sized`: x has one dimension, so the branch is not taken. `unused`: capture keeps what nobody reads; a later "
        "pass drops it.",
    ),
)

# capture-2: where a trace is silently wrong

TRACED = """import torch

def gate(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

def padded(x):
    rows = 4 if x.shape[0] > 4 else x.shape[0]
    return torch.cat([x[:rows], torch.zeros(8 - rows)])

# Both are traced with this, and the trace is kept:
example = torch.arange(1.0, 4.0)
"""


def traced(function: Callable[..., object], example: torch.Tensor) -> Callable[..., Any]:
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

METHODS_OF = """import torch

def gate(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

def repeated(x, times):
    for _ in range(times):
        x = torch.relu(x - 1)
    return x

def sized(x):
    return x / x.shape[0]

def scaled(x):
    return x / float(x.abs().max())

def in_place(total):
    total.add_(1)
    return total * 2

log = []

def logged(x):
    log.append(len(log))
    return x * 2

a, b, c = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-4.0, 1.0, 0.5]), torch.ones(5)

# Each function is captured on the first call, and what was captured is then called as in the second.
calls = {
    gate: [(a,), (b,)],
    repeated: [(a, 1), (a, 2)],
    sized: [(a,), (c,)],
    scaled: [(a,), (b,)],
    in_place: [(a,), (b,)],
    logged: [(a,), (b,)],
}
"""

COLUMNS = {
    "trace": "torch.jit.trace", "script": "torch.jit.script", "fx": "torch.fx.symbolic_trace", "export": "torch.export",
    "onnx": "ONNX export", "stock": "torch.compile", "ours": "explorer.compile",
    "tensorflow": "TensorFlow, define and run",
}  # fmt: skip
SLOW = {"onnx", "stock", "tensorflow"}
"""A check has no time to run these, and not every machine has all: of them OUTCOMES is given."""
WORDS = {"e": "exact", "w": "wrong", "r": "refused"}
ANSWERS = {"right": "exact", "wrong": "wrong", "refused": "refused"}
OUTCOMES = {
    "gate": "w e r r r e e r",
    "repeated": "w r r r w e e w",
    "sized": "e e e r r e e r",
    "scaled": "w e r r e e e r",
    "in_place": "e e e e w e e r",
    "logged": "w r w w w e e w",
}
"""A letter for each method: what they do with torch 2.13, which a test asks of all."""


def outcome(
    column: str, function: Callable[..., object], first: tuple[object, ...], second: tuple[object, ...]
) -> VerdictData:
    """What comes of the second call of what a method captured on the first."""
    compare = explorer.compare(function, methods=[COLUMNS[column]], others={"second": copies(second)}, time=False)
    [method] = compare(*copies(first)).data.methods
    if not method.verdicts:
        return VerdictData("second", "refused", (method.error or method.missing).splitlines()[0])
    return next(each for each in method.verdicts if each.input == "second")


def filled(answer: Answer) -> dict[str, list[str]]:
    """The letters of the answer's table, by function."""
    if not isinstance(answer["table"], str):
        answer.fail("`table` is the text that the cell began with, with a letter for each ?")
    rows = {name: letters for name, *letters in map(str.split, answer["table"].strip().splitlines()[1:])}
    if left := sum(letters.count("?") for letters in rows.values()):
        answer.fail(f"{left} places in `table` are still ?")
    if list(rows) != list(OUTCOMES):
        answer.fail(f"the rows of `table` are {', '.join(OUTCOMES)}")
    for name, letters in rows.items():
        if len(letters) != len(COLUMNS):
            answer.fail(f"{name}: {len(letters)} letters for {len(COLUMNS)} methods")
        if strange := [letter for letter in letters if letter not in WORDS]:
            answer.fail(f"{name}: {strange[0]} is none of {', '.join(WORDS)}")
    return rows


def check_methods(answer: Answer) -> tuple[Score, ...]:
    with answer.at("defined"):
        rows = filled(answer)
    calls = {function.__name__: (function, *both) for function, both in answer["calls"].items()}
    unlike = [
        (name, column, answered, right)
        for name, letters in rows.items()
        for column, answered, right in zip(COLUMNS, letters, OUTCOMES[name].split(), strict=True)
        if answered != right
    ]
    for at, (name, column, answered, right) in enumerate(unlike):
        function, first, second = calls[name]
        with answer.at("right", f"{name} by {COLUMNS[column]}", showing(function, first, decided)):
            found, detail = WORDS[right], ""
            if column not in SLOW:
                verdict = outcome(column, function, first, second)
                found, detail = ANSWERS[verdict.answer], verdict.detail
            if WORDS[answered] != found:
                left = [f"{name} {column}" for name, column, *_ in unlike[at + 1 :]]
                more = f"\n{len(left)} more to think about: {', '.join(left[:FEW])}{', …' * (len(left) > FEW)}"
                message = f"{name} by {COLUMNS[column]}: you said {WORDS[answered]}, it is {found}"
                answer.fail(f"{message}{': ' * bool(detail)}{detail}{more * bool(left)}")
    return ()


def _table(rows: dict[str, str], **changed: tuple[str, str]) -> str:
    """The cell, with a letter changed in the row of each function that is named: (column, letter)."""
    lines = [f"{'#':<10}" + "".join(f"{column:<8}" for column in COLUMNS)]
    for name, letters in rows.items():
        made = dict(zip(COLUMNS, letters.split(), strict=True))
        made.update([changed[name]] if name in changed else [])
        lines.append(f"{name:<10}" + "".join(f"{letter:<8}" for letter in made.values()))
    return 'table = """\n' + "\n".join(map(str.rstrip, lines)) + '\n"""\n'


SORTED = Puzzle(
    id="capture-3",
    title="Exact, wrong or refused?",
    task=(
        "Put a letter for each `?`: `e` where the second call of what was captured does exactly what eager does, `w` "
        "where it does something else (another result, another list or argument afterwards) and raises nothing, and "
        "`r` where capturing or calling it raises. All of your table is checked at once. `stock` is `torch.compile`, "
        "`ours` is `explorer.compile`, and `tensorflow` a graph of TensorFlow made from what `torch.export` captures."
    ),
    minutes=15,
    names=("table",),
    given=METHODS_OF,
    starter=_table(dict.fromkeys(OUTCOMES, "? " * len(COLUMNS))),
    solution=_table(OUTCOMES),
    wrong=(
        Wrong(_table(OUTCOMES, gate=("trace", "e")), "right",
              "gate by torch.jit.trace: you said exact, it is wrong: output: float32[3] [-8, 2, 1], eager"),
        Wrong(_table(OUTCOMES, gate=("fx", "w")), "right", "torch.fx.symbolic_trace: you said wrong, it is refused"),
        Wrong(_table(OUTCOMES, sized=("export", "e")), "right", "sized by torch.export: you said exact, it is refused"),
        Wrong(_table(OUTCOMES, in_place=("onnx", "e")), "right", "by ONNX export: you said exact, it is wrong"),
        Wrong(_table(OUTCOMES, logged=("ours", "r"), scaled=("trace", "e")), "right", "1 more to think about: logged"),
        Wrong(_table(dict.fromkeys(OUTCOMES, "e " * len(COLUMNS))), "right", "more to think about: gate fx, gate exp"),
        Wrong(_table(OUTCOMES, sized=("fx", "x")), "defined", "sized: x is none of e, w, r"),
        Wrong(_table(OUTCOMES, sized=("ours", "")), "defined", "sized: 7 letters for 8 methods"),
    ),
    hints=(
        "trace runs the function once and writes down the operators. script compiles its source, whose arguments are "
        "tensors unless it says otherwise. fx runs it with stand-ins that have no values.",
        "export is for the shapes of its example, and for one path. ONNX and TensorFlow begin with an export, and are "
        "graphs of values: nothing is changed in place. Of a list outside only the bytecode evaluators know.",
        "`explorer.compare(sized, others={\"second\": (c,)}, time=False)(a)` runs them all. Beside trace and export, "
        "only fx, ONNX and TensorFlow are ever wrong.",
    ),
    check=check_methods,
)  # fmt: skip

PUZZLES = (LEFT, WRONG_TRACE, SORTED)
