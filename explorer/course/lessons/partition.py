"""Lesson 7: the joint graph, and what is kept for the backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import explorer
from explorer.course.compared import explored, noded, position, showing, why_not_compiled
from explorer.course.prediction import Found, Prediction
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.show.record import Record

# partition-1: what is kept?

KEPT = """import torch

def scaled(x, w):
    return (x * 3).sum()

def chained(x, w):
    return (x.exp() * x.sin()).tanh().sum()

def softmax(x, w):
    return torch.softmax(x, dim=-1).square().sum()

def product(x, w):
    return torch.tanh(x @ w).sum()

def dropped(x, w):
    return (torch.nn.functional.dropout(x, 0.5) * x).sum()

x = torch.nn.Parameter(torch.linspace(0.1, 1, 64 * 32).view(64, 32))  # 8192 bytes
w = torch.nn.Parameter(torch.linspace(-1, 1, 32 * 16).view(32, 16))  # 2048 bytes
functions = [scaled, chained, softmax, product, dropped]
"""


def find_kept(answer: Answer, name: str) -> Found:
    (function,) = (each for each in answer["functions"] if each.__name__ == name)
    record = explored(function, answer["x"], answer["w"])
    saved = [each for each in record.data.compiles[0].saved if each.kind == "saved"]
    at = record.link("graphs", "f0", element=saved[0].id) if saved else "graphs"
    names = ", ".join(f"{each.id} ({each.why.title})" for each in saved) or "nothing"
    return kept(record), f"the record has {kept(record)}: {names}", record, at


BYTES = Prediction(
    "kept", {"scaled": 0, "chained": 0, "softmax": 512, "product": 4096, "dropped": 2048}, find_kept
).puzzle(
    id="partition-1",
    title="What is kept?",
    task=(
        "Predict how many bytes each function keeps for its backward. Its inputs are parameters, which are alive "
        "anyway and do not count. A float32 takes 4 bytes, a bool 1."
    ),
    minutes=8,
    given=KEPT,
    wrong={"scaled": 8192, "chained": 16384, "softmax": 8192, "product": 0, "dropped": 0},
    says=lambda number: f"the record has {number}",
    hints=(
        "What does the backward of each operation need, and what does it cost to compute that again from the inputs?",
        "Pointwise values are computed again. A matrix product is kept, and so is what is random.",
        "softmax: a maximum and a sum for each of 64 rows. dropped: a mask of bools, one for each element.",
    ),
)

# partition-2: a backward rule


def backward(record: Record) -> str:
    """Where a record's trace begins to compute the gradient."""
    return noded(record, "tangent_0", "trace")


def check_backward(answer: Answer) -> tuple[Score, ...]:
    random = torch.Generator().manual_seed(answer.seed)
    inputs = {
        "x = 0": torch.zeros(1),
        "x = 1": torch.ones(1),
        "x = 100 and -100": torch.tensor([100.0, -100.0]),
        "x of shape (3, 4)": torch.randn(3, 4, generator=random),
        "x in float64": torch.randn(5, generator=random).double(),
    }
    for what, x in inputs.items():
        for scale in (1.0, -2.5):
            with answer.at("right", what, showing(answer["swish"], (x.requires_grad_(),), backward)):
                grad = torch.full_like(x, scale, requires_grad=False)
                leaf = x.detach().clone().requires_grad_()
                answer["swish"](leaf).backward(grad)
                if differs := position(answer["backward"](x.detach(), grad), leaf.grad):
                    answer.fail(f"on {what}, with a gradient of {scale:g}, {differs.replace('eager', 'autograd')}")
    return ()


BACKWARD = Puzzle(
    id="partition-2",
    title="A backward rule",
    task=(
        "Write the backward of `swish` by hand, from `x` and the incoming gradient alone. It must be right "
        "for large values too."
    ),
    minutes=10,
    names=("backward",),
    given='''import torch

def swish(x):
    return x * torch.sigmoid(x)
''',
    starter='''def backward(x, grad):
    """The gradient of x, given that of swish(x). Only x was kept."""
    return ...
''',
    solution='''def backward(x, grad):
    s = torch.sigmoid(x)
    return grad * (s + x * s * (1 - s))
''',
    wrong=(
        Wrong("def backward(x, grad):\n    s = torch.sigmoid(x)\n    return grad * s * (1 - s)\n", "right", "x = 0"),
        Wrong("def backward(x, grad):\n    s = torch.sigmoid(x)\n    return s + x * s * (1 - s)\n",
              "right", "with a gradient of -2.5"),
        Wrong("def backward(x, grad):\n    s = torch.sigmoid(x)\n    return grad * (s + x * s)\n", "right", "x = 1"),
        Wrong('''def backward(x, grad):
    e = torch.exp(-x)
    return grad * (1 + e + x * e) / (1 + e) ** 2
''', "right", "x = 100 and -100"),
    ),
    hints=(
        "The product rule: x' s + x s'. What is the derivative of a sigmoid, by the sigmoid itself?",
        "s' = s (1 - s). The result is multiplied by the gradient that came in.",
        "grad * (s + x * s * (1 - s)); exp(-x) by hand overflows at -100.",
    ),
    check=check_backward,
    forbidden=frozenset({"autograd", "grad_fn", "requires_grad_", "vjp", "jvp"}),
)  # fmt: skip

# partition-3: what to keep

KEEP = '''import torch
from explorer.ir.graph import info

def value(node):
    """What a node yields: mostly a tensor, with .numel() and .element_size()."""
    return info(node).value

# keep(node, results, level) is asked for each value that could be kept: what does it cost? The partition keeps the
# values of least cost in all. `results` are the nodes that the forward returns anyway.
'''


def steps() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    def r(*size: int) -> torch.nn.Parameter:
        return torch.nn.Parameter(torch.linspace(-1, 1, int(torch.Size(size).numel())).view(size))

    def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x @ w)
        return (y.exp() * y.sin()).sum()

    def centerd(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).exp()
        return ((y - y.mean(-1, keepdim=True)) * torch.sigmoid(y)).sum()

    def gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h = (x @ w).relu()
        return (h * h.sigmoid()).sum()

    def expanded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.expand(64, x.shape[-1]) * w
        z = y.sum(0)
        return (z.exp() * z.tanh()).sum() + y.square().sum()

    yield "chain", chain, (r(64, 32), r(32, 128))
    yield "centerd", centerd, (r(64, 32),)
    yield "gated", gated, (r(64, 32), r(32, 128))
    yield "expanded", expanded, (r(1, 32), r(64, 32))


def kept(record: Record) -> int:
    return sum(saved.bytes for compile in record.data.compiles for saved in compile.saved if saved.kind == "saved")


def check_keep(answer: Answer) -> tuple[Score, ...]:
    yours = theirs = 0
    worst: tuple[int, Any] = (0, None)
    print(f"{'bytes kept':<14}{'yours':>8}{'built in':>10}")
    for name, function, args in steps():
        with answer.at("compiles", name), explorer.workbench(keep=answer["keep"]):
            record = explored(function, *args)
            if why := why_not_compiled(record):
                answer.fail(f"{name}: {why}", record, "graphs")
        found, least = kept(record), kept(explored(function, *args))
        print(f"{name:<14}{found:>8}{least:>10}")
        yours, theirs = yours + found, theirs + least
        worst = max(worst, (found - least, record), key=lambda each: each[0])
    with answer.at("score"):
        if yours > 1.05 * theirs:
            _, record = worst
            most = max(record.data.compiles[0].saved, key=lambda each: (each.kind == "saved", each.bytes))
            message = f"{yours} bytes kept in all; the budget is {int(1.05 * theirs)}"
            answer.fail(message, record, record.link("graphs", "f0", element=most.id))
    return (Score("bytes kept", yours, theirs),)


COST = Puzzle(
    id="partition-3",
    title="Within the budget",
    task=(
        "The min-cut keeps the cheapest set of values for the backward. Write what keeping a value costs, so "
        "that no more than 5 % more bytes are kept than with the built-in rule."
    ),
    minutes=15,
    names=("keep",),
    given=KEEP,
    starter='''def keep(node, results, level):
    return ...
''',
    solution='''def keep(node, results, level):
    found = value(node)
    if not isinstance(found, torch.Tensor):
        return 8.0
    size = found.numel() * found.element_size()
    return float(max(size, 1) * (1 if node.op == "placeholder" else 2))
''',
    wrong=(
        Wrong("def keep(node, results, level):\n    return 1.0\n", "score", "the budget is"),
        Wrong("def keep(node, results, level):\n    return 1.0 if node.op == 'placeholder' else 1e9\n",
              "score", "the budget is"),
        Wrong("def keep(node, results, level):\n    return -float(value(node).numel())\n", "score", "the budget is"),
        Wrong("def keep(node):\n    return 1.0\n", "compiles", "TypeError"),
    ),
    hints=(
        "A large value costs more to keep than a small one.",
        "Bytes: value(node).numel() * value(node).element_size(). An input is alive anyway.",
        "An input costs its bytes, a value that was computed twice as much; a number costs 8.",
    ),
    check=check_keep,
)  # fmt: skip

PUZZLES = (BYTES, BACKWARD, COST)
