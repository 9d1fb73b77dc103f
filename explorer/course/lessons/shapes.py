"""Lesson 5: dynamic shapes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import torch

import explorer
from explorer.compiler.capture.entry import Forbidden
from explorer.course.compared import Labeled, agree, decided, explored, recompiled, showing
from explorer.course.prediction import Found, Prediction
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong

# shapes-1: which sizes share the code?

SHARED = """import torch

def f(x, y):                     # x of n elements, y of m
    z = x + y
    return z * 2 if x.shape[0] > 3 else z

def g(x, y):
    if y.shape[0] % 2 == 0:
        return x.sum() * y
    return y

# With dynamic=True f is compiled for n = 6, m = 6, and g for n = 6, m = 8. For which other n and m does that code run?
"""
EXAMPLES = {"f": (torch.ones(6), torch.ones(6)), "g": (torch.ones(6), torch.ones(8))}
SIZES = (0, 1, 2, 3, 4, 5, 6, 9)


def runs_again(compiled: Callable[..., object], x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether what is compiled runs for x and y, without another compile."""
    try:
        with torch.compiler.set_stance("fail_on_recompile"):
            compiled(x, y)
    except Forbidden:
        return False
    return True


def check_fits(answer: Answer) -> tuple[Score, ...]:
    for name, example in EXAMPLES.items():
        compiled = explorer.compile(answer[name], dynamic=True)
        compiled(*example)
        for n, m in itertools.product(SIZES, SIZES):
            what, args = f"{name}, n={n}, m={m}", (torch.ones(n), torch.ones(m))
            try:
                answer[name](*args)
            except RuntimeError:
                continue
            with answer.at("right", what, showing(answer[name], example, decided, dynamic=True)):
                again, answered = runs_again(compiled, *args), bool(answer[f"fits_{name}"](n, m))
                if answered != again:
                    found = "the same code runs" if again else "it is compiled again"
                    answer.fail(f"{what}: you said {answered}; {found}")
    return ()


def _fits(f: str, g: str) -> str:
    return f"def fits_f(n, m):\n    return {f}\n\ndef fits_g(n, m):\n    return {g}\n"


FITS = Puzzle(
    id="shapes-1",
    title="Which sizes share the code?",
    task=(
        "Say for which sizes the code that was compiled runs again, without another compile. Sizes for which "
        "the function raises in eager are not asked."
    ),
    minutes=12,
    names=("fits_f", "fits_g"),
    given=SHARED,
    starter=_fits("...", "..."),
    solution=_fits("n == m and n > 3", "n >= 2 and m >= 2 and m % 2 == 0"),
    wrong=(
        Wrong(_fits("n == m", "n >= 2 and m >= 2 and m % 2 == 0"), "right", "f, n=0, m=0: you said True"),
        Wrong(_fits("n > 3", "n >= 2 and m >= 2 and m % 2 == 0"), "right", "f, n=4, m=1: you said True"),
        Wrong(_fits("n == m and n > 3", "m % 2 == 0"), "right", "g, n=0, m=0: you said True"),
        Wrong(_fits("n == m == 6", "n == m == 6"), "right", "f, n=4, m=4: you said False"),
        Wrong(_fits("n == m and n > 3", "n >= 2 and m >= 2"), "right", "g, n=2, m=3: you said True"),
    ),
    hints=(
        "A size is a symbol until something asks about it. What does f ask, and what does adding two tensors ask?",
        "0 and 1 are never symbols: a size of 1 broadcasts, a size of 0 has nothing to compute.",
        "f: n == m and n > 3. g: both at least 2, and m even.",
    ),
    check=check_fits,
)  # fmt: skip

# shapes-2: where a size became a number

LINES = """import torch

def listed(x):
    n = x.shape[0]
    y = x / n
    parts = [y[i] for i in range(n)]
    return torch.stack(parts)

def even(x):
    total = x.sum()
    if x.shape[0] == 6:
        total = total * 2
    return total

def padded(x):
    room = 8 - x.shape[0]
    zeros = torch.zeros(room)
    return torch.cat([x, zeros])

def labeled(x):
    y = x.relu()
    label = f"{len(y)} rows"
    return y * len(label)

def looked(x):
    y = x * 2
    by = {6: 0.5}.get(y.shape[0], 2.0)
    return y * by

functions = [listed, even, padded, labeled, looked]
x = torch.ones(6)
"""


def find_line(answer: Answer, name: str) -> Found:
    (function,) = (each for each in answer["functions"] if each.__name__ == name)
    record = explored(function, answer["x"], dynamic=True)
    for guard in record.guards:
        if guard.property == "shape" and guard.span is not None and re.search(r"size\(0\) == \d", guard.expression):
            line = guard.span.line - function.__code__.co_firstlineno + 1
            message = f"it is line {line}: {guard.expression}, since {guard.why}"
            return line, message, record, record.link("guards", "f0", element=guard.id)
    return 0, "its size stays a symbol", record, "guards"


SPECIALizED = Prediction("line", {"listed": 4, "even": 3, "padded": 0, "labeled": 4, "looked": 3}, find_line).puzzle(
    id="shapes-2",
    title="Where a size became a number",
    task=(
        "Each function is compiled with `dynamic=True` for an `x` of 6 elements. Which of its lines makes the size the "
        "number 6, so that other sizes are compiled again? The line with `def` is 1. Write 0 where the size stays a "
        "symbol, also if a few special sizes are compiled again."
    ),
    minutes=8,
    given=LINES,
    wrong={"listed": 2, "padded": 2, "labeled": 3, "looked": 0, "even": 4},
    says=lambda number: f"it is line {number}" if number else "its size stays a symbol",
    hints=(
        "Reading a size, and computing with it, leaves a symbol. What needs to know which number it is?",
        "A loop of n steps, a test `n == 6` that is true, text of n that is read, and n as a key of a dict.",
        "`padded` computes with the size and gives the result to torch.zeros, which takes symbols.",
    ),
)

# shapes-3: keep it dynamic

FIXED = """import torch

def weighted(x):                 # compiled again for each number of rows
    rows = []
    for i in range(x.shape[0]):
        rows.append(x[i] * (i + 1))
    return torch.stack(rows)

before = weighted
"""


def check_dynamic(answer: Answer) -> tuple[Score, ...]:
    inputs: list[Labeled] = [(f"{n} rows", (torch.arange(3.0 * n).view(n, 3) - 4,)) for n in (1, 2, 3, 5, 8, 13)]
    compiled, log = explorer.compile(answer["weighted"], dynamic=True), explorer.watch()
    with log:
        for label, args in inputs[1:]:
            with answer.at("compiles", label, showing(answer["before"], args, decided)):
                compiled(*args)
    answer.shown(log.record, recompiled(log.record))
    agree(answer, answer["weighted"], answer["before"], inputs)
    agree(answer, compiled, answer["before"], inputs)
    count = len(log.record.data.compiles)
    with answer.at("score"):
        if count > 1:
            answer.fail(f"compiled {count} times for 2, 3, 5, 8 and 13 rows; once is enough")
    return (Score("compiles", count, 1),)


DYNAMIC = Puzzle(
    id="shapes-3",
    title="Keep it dynamic",
    task="Rewrite `weighted` so that with `dynamic=True` one compile serves every number of rows from 2 on.",
    minutes=10,
    names=("weighted",),
    given=FIXED,
    starter="def weighted(x):\n    ...\n",
    solution='''def weighted(x):
    return x * torch.arange(1, x.shape[0] + 1).unsqueeze(1)
''',
    wrong=(
        Wrong('''def weighted(x):
    return torch.stack([row * (i + 1) for i, row in enumerate(x)])
''', "score", "compiled 5 times"),
        Wrong('''def weighted(x):
    return x * torch.arange(x.shape[0]).unsqueeze(1)
''', "right", "on 1 rows"),
        Wrong('''def weighted(x):
    return x * torch.arange(1, x.shape[0] + 1)
''', "compiles", "RuntimeError on 2 rows"),
        Wrong('''def weighted(x):
    if x.shape[0] in (2, 3, 5, 8, 13):
        return x * torch.arange(1, x.shape[0] + 1).unsqueeze(1)
    return before(x)
''', "score", "compiled 5 times"),
    ),
    hints=(
        "A loop over range(n) is unrolled: n nodes for each row are in the graph, so n is a fact.",
        "One operator for all rows: multiply by a column 1, 2, 3, ...",
        "torch.arange(1, x.shape[0] + 1).unsqueeze(1)",
    ),
    check=check_dynamic,
)  # fmt: skip

PUZZLES = (FITS, SPECIALizED, DYNAMIC)
