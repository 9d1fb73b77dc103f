"""Lesson 4: guards and recompiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map

import explorer
from explorer.course.compared import Labeled, agree, copies, decided, position, recompiled, showing
from explorer.course.prediction import Found, Prediction
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.show.record import Record

# guards-1: how many compiles?

SEQUENCES = """import torch

def doubled(x):
    return x * 2

def scaled(x, by):
    return x * by

def chosen(x, train):
    return torch.relu(x) if train else x - 1

def summed(xs):
    return sum(xs) * 2

r = torch.randn
calls = {
    "sizes": (doubled, [(r(3),), (r(4),), (r(5),), (r(6),)]),
    "one": (doubled, [(r(2),), (r(3),), (r(1),), (r(4),)]),
    "dtypes": (doubled, [(r(3),), (r(3).double(),), (r(3),)]),
    "numbers": (scaled, [(r(3), 0.1), (r(3), 0.2), (r(3), 0.3), (r(3), 0.4)]),
    "flags": (chosen, [(r(3), True), (r(3), False), (r(3), True)]),
    "lists": (summed, [([r(3)],), ([r(3)] * 2,), ([r(3)] * 3,)]),
}
"""


def watched(function: Callable[..., object], calls: Any) -> Record:
    """The compiles of `function` in these calls, one after the other."""
    compiled, log = explorer.compile(function), explorer.watch()
    with log:
        for args in calls:
            compiled(*copies(args))
    return log.record


def find_compiles(answer: Answer, name: str) -> Found:
    function, calls = answer["calls"][name]
    record = watched(function, calls)
    found = len(record.data.compiles)
    message = f"it is compiled {found} times for {len(calls)} calls\n{record.recompiles}"
    return found, message, record, recompiled(record)


COMPILES = Prediction(
    "compiles", {"sizes": 2, "one": 3, "dtypes": 2, "numbers": 2, "flags": 2, "lists": 3}, find_compiles
).puzzle(
    id="guards-1",
    title="How many compiles?",
    task=(
        "Each row of `calls` is a fresh compile of its function, called with the arguments one after another. "
        "Predict how often it is compiled in all, the first compile included."
    ),
    minutes=8,
    given=SEQUENCES,
    wrong={"sizes": 4, "one": 2, "flags": 3, "lists": 1},
    says=lambda number: f"it is compiled {number} times",
    hints=(
        "The first call compiles. A later call compiles again if a guard of each earlier compile refuses it.",
        "A size that was seen to change becomes a symbol, and so does a number. A size of 0 or 1 never does.",
        "sizes: 3, then s0, and that is all. A list's length and a flag are facts that tracing used up.",
    ),
)

# guards-2: no more than you must

CAPTURED = """import torch

def f(x, n):
    return x[:n].sum() if n else x * 0

# f is captured with x: float32[8] and n = 3. What is left is this graph:
def graph(x, n):
    return x[:3].sum()
"""


def pool(seed: int) -> list[Labeled]:
    """Sixty calls of f, good and bad ones, in no order."""
    random = torch.Generator().manual_seed(seed)

    def r(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=random) + 2

    found: list[Labeled] = [
        ("n=0", (r(8), 0)), ("n=4", (r(8), 4)), ("n=-1", (r(8), -1)), ("n=True", (r(8), True)), ("n=3", (r(8), 3)),
        ("n=None", (r(8), None)), ("n=2", (r(8), 2)), ("n=8", (r(8), 8)), ("n=False", (r(8), False)),
        ("n=3.0", (r(8), 3.0)),
    ]  # fmt: skip
    for size in range(1, 13):
        found.append((f"x of shape ({size},), n=3", (r(size), 3)))
        found.append((f"x of shape ({size},), n=4", (r(size), 4)))
    for size in (2, 3, 5, 9):
        found.append((f"x of shape ({size}, 2), n=3", (r(size, 2), 3)))
        found.append((f"x of shape ({size}, 2), n=1", (r(size, 2), 1)))
        found.append((f"every second of {2 * size} elements, n=3", (r(2 * size)[::2], 3)))
        found.append((f"a transposed x of shape (2, {size}), n=2", (r(size, 2).t(), 2)))
    found += [
        (f"x in {name}, n=3", (r(8).to(dtype), 3))
        for name, dtype in (
            ("float16", torch.float16),
            ("float64", torch.float64),
            ("int64", torch.int64),
            ("bool", torch.bool),
        )
    ]
    found += [
        ("x requires grad, n=3", (r(8).requires_grad_(), 3)),
        ("x of no elements, n=3", (r(0), 3)),
        ("x of no elements, n=0", (r(0), 0)),
    ]
    found += [(f"random x, n={n}", (r(6), n)) for n in (0, 1, 2, 3, 4, 5)]
    return found  # fmt: skip


def ours(seed: int) -> float:
    """The share of good calls that our own guards accept, after one compile."""
    right = wrong = 0
    f: dict[str, Any] = {}
    exec(CAPTURED, f)
    for _, args in pool(seed):
        if good(f, args):
            compiled, log = explorer.compile(f["f"]), explorer.watch()
            compiled(torch.randn(8), 3)
            with log:
                compiled(*args)
            right += not log.record.data.compiles
            wrong += bool(log.record.data.compiles)
    return right / (right + wrong)


def good(names: Any, args: tuple[Any, ...]) -> bool:
    """Whether the graph gives what f gives."""
    try:
        expected = names["f"](*args)
    except Exception:
        return False
    return not position(names["graph"](*args), expected)


def check_accepts(answer: Answer) -> tuple[Score, ...]:
    def at(record: Record) -> str:
        on_n = next(guard.id for guard in record.guards if guard.source == "L['n']")
        return record.link("guards", "f0", element=on_n)

    show, pretend = showing(answer["f"], (torch.randn(8), 3), at), FakeTensorMode()
    asked: list[tuple[str, tuple[Any, ...], bool]] = []
    for label, args in pool(answer.seed):
        with answer.at("right", label, show):
            try:
                says = answer["accepts"](pretend.from_tensor(args[0]), args[1])
            except DataDependentOutputException:
                answer.fail(f"reads elements of x on {label}: a guard asks for kind and size alone")
            asked.append((label, args, bool(says)))
    rights = []
    for label, args, says in asked:
        with answer.at("refuses", label):
            if good(answer.names, args):
                rights.append((label, says))
            elif says:
                try:
                    given = position(answer["graph"](*args), answer["f"](*args)).replace("yours", "the graph")
                except Exception as error:
                    given = f"f raises {type(error).__name__}"
                answer.fail(f"wrongly accepts {label}, but {given}")
    accepted, total = sum(says for _, says in rights), len(rights)
    with answer.at("score"):
        if accepted < ENOUGH * total:
            refused = next(label for label, says in rights if not says)
            share = f"accepts {accepted} of {total} good calls, fewer than {100 * ENOUGH:g} %"
            answer.fail(f"{share}; it refuses {refused}, for which the graph is right")
    return (Score("good calls accepted", round(accepted / total, 2), 0.8, higher=True),)


ENOUGH = 0.2
OURS = 0.06
"""The share that this compiler's own guards accept after one compile; tests/test_course.py works it out anew."""

ACCEPTS = Puzzle(
    id="guards-2",
    title="No more than you must",
    task=(
        "Write the guard of this graph: a function that says for which calls the graph may be used. It must "
        "be sound, and accept at least 20 % of the calls for which the graph is right. The score is the share "
        "of right calls that it accepts, over about sixty calls with other sizes, dtypes and n. A guard may not "
        "run the function or the graph, nor read elements of x."
    ),
    minutes=12,
    names=("accepts",),
    given=CAPTURED,
    starter='''def accepts(x, n):
    """Whether graph(x, n) gives what f(x, n) would give. Never say yes where it does not."""
    return ...
''',
    solution='''def accepts(x, n):
    return type(n) is int and (n == 3 or (n > 3 and len(x) <= 3))
''',
    wrong=(
        Wrong("def accepts(x, n):\n    return True\n", "refuses", "accepts n=0"),
        Wrong("def accepts(x, n):\n    return n == 3\n", "refuses", "accepts n=3.0, but f raises TypeError"),
        Wrong("def accepts(x, n):\n    return bool(n)\n", "refuses", "accepts n=4"),
        Wrong("def accepts(x, n):\n    return False\n", "score", "accepts 0 of 35 good calls"),
        Wrong("def accepts(x, n):\n    return type(n) is int and n == 3 and x.dtype == torch.float32 and len(x) == 8\n",
              "score", "it refuses"),
        Wrong("def accepts(x, n):\n    return bool(f(x, n) == graph(x, n))\n", "defined", "uses `f`"),
        Wrong("def accepts(x, n):\n    return type(n) is int and bool(x[:n].sum() == x[:3].sum())\n",
              "right", "reads elements"),
        Wrong("def accepts(x, n):\n    return type(n) is int and (n == 3 or len(x) <= 3 and n >= len(x))\n",
              "refuses", "x of no elements, n=0"),
        Wrong("def accepts(x, n):\n    return n >= 3 and len(x) < 8\n", "right", "TypeError on n=None"),
    ),
    hints=(
        "Sound first: which of the two arguments did the graph use up, and which does it still read?",
        "The graph holds a 3. It reads x as any tensor, of any size and dtype. In Python 3.0 == 3, but x[:3.0] raises.",
        "type(n) is int and n == 3 is enough. More is possible: if len(x) <= 3, a larger n gives the same slice.",
    ),
    check=check_accepts,
    forbidden=frozenset({"f", "graph", "eval", "exec", "globals"}),
)  # fmt: skip

# guards-3: two compiles

CALLS = """import torch

def pooled(xs):                      # compiled again for each length of the list
    return sum(torch.relu(x) for x in xs) / len(xs)

def calls():
    for n in range(1, 8):
        yield [torch.randn(4) for _ in range(n)]

before = pooled
"""


SIGNED = torch.tensor([[-1.0, 2.0, -3.0, 4.0], [5.0, -6.0, 7.0, -8.0]])
"""A list of two, each with both signs."""


def check_two(answer: Answer) -> tuple[Score, ...]:
    inputs = [(f"a list of {len(xs)}", (list(xs),)) for xs in answer["calls"]()]
    with answer.at("compiles", show=showing(answer["before"], inputs[0][1], decided)):
        record = watched(answer["step"], [(answer["prepare"](*args),) for _, args in inputs])
        answer.shown(record, recompiled(record))
    with answer.at("used"):
        prepared, turned = answer["prepare"](list(SIGNED)), answer["prepare"]([-x for x in SIGNED])
        if position(tree_leaves(tree_map(_negative, prepared)), tree_leaves(turned)):
            answer.fail("the work is in `prepare`, which is not compiled; `step` is given what is computed already")
    agree(answer, answer["pooled"], answer["before"], inputs)
    agree(answer, lambda xs: answer["step"](answer["prepare"](xs)), answer["before"], inputs)
    count = len(record.data.compiles)
    with answer.at("score"):
        if count > 3:
            answer.fail(
                f"`step` is compiled {count} times for {len(inputs)} calls: each length is a compile of its own"
            )
    return (Score("compiles", count, 2),)


def _negative(value: object) -> Any:
    """What `prepare` makes of the elements with the other sign, unless it has computed with them."""
    return -value if isinstance(value, torch.Tensor) and value.is_floating_point() and (value < 0).any() else value


TWO = Puzzle(
    id="guards-3",
    title="Fewer compiles",
    task=(
        "Split `pooled` into a part that is not compiled and a part that is, so that fewer compiles serve the "
        "seven lists. The computation belongs in `step`. At most 3 compiles; par is what a good answer "
        "reaches."
    ),
    minutes=12,
    names=("prepare", "step", "pooled"),
    given=CALLS,
    starter='''def prepare(xs):
    """Not compiled: makes of the list what `step` takes."""
    ...

def step(x):
    """Compiled: the work."""
    ...

def pooled(xs):
    return step(prepare(xs))
''',
    solution='''def prepare(xs):
    return torch.stack(xs)

def step(x):
    return torch.relu(x).mean(0)

def pooled(xs):
    return step(prepare(xs))
''',
    wrong=(
        Wrong('''def prepare(xs):
    return xs

def step(xs):
    return sum(torch.relu(x) for x in xs) / len(xs)

def pooled(xs):
    return step(prepare(xs))
''', "score", "is compiled 7 times"),
        Wrong('''def prepare(xs):
    return torch.stack(xs)

def step(x):
    return torch.relu(x.mean(0))

def pooled(xs):
    return step(prepare(xs))
''', "right", "on a list of 2"),
        Wrong('''def prepare(xs):
    return sum(torch.relu(x) for x in xs) / len(xs)

def step(x):
    return x

def pooled(xs):
    return step(prepare(xs))
''', "used", "the work is in `prepare`"),
        Wrong('''def prepare(xs):
    return sum(torch.relu(x) for x in xs) / len(xs)

def step(x):
    return x * 1

def pooled(xs):
    return step(prepare(xs))
''', "used", "the work is in `prepare`"),
    ),
    hints=(
        "The length of a list is a guard. What could carry the number of rows and be a symbol?",
        "A size of a tensor can be a symbol. torch.stack makes one tensor of the list.",
        "prepare: torch.stack(xs). step: torch.relu(x).mean(0).",
    ),
    check=check_two,
)  # fmt: skip

PUZZLES = (COMPILES, ACCEPTS, TWO)
