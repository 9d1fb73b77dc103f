"""Lesson 6: decompositions and functional graphs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import explorer
from explorer.course.compared import Labeled, agree, copies, explored, kernels, noded, position, showing, with_rule
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.show.record import Record

aten = torch.ops.aten


def nodes(record: Record) -> int:
    """Calls in the traced graph after the cleanup."""
    return sum(node.op == "call_function" for node in record.graphs[-1].graph.nodes)


def libraries(record: Record) -> int:
    return sum(op.kind == "extern" for op in record.data.compiles[0].halves[0].operations)


# decompose-1: a sum of exponentials

INFINITY = float("inf")


def rows(seed: int) -> Iterator[Labeled]:
    random = torch.Generator().manual_seed(seed)
    yield "one row of one", (torch.tensor([[0.5]]),)
    yield "a row of 1000s", (torch.tensor([[1000.0, 999.0]]),)
    yield "a row of -1000s", (torch.tensor([[-1000.0, -1001.0, -1000.0]]),)
    yield "a row of 10000 and -10000", (torch.tensor([[1e4, -1e4]]),)
    yield "a row of -inf", (torch.tensor([[-INFINITY, -INFINITY], [0.0, 1.0]]),)
    yield "a row with inf", (torch.tensor([[INFINITY, 1.0]]),)
    yield "a row with nan", (torch.tensor([[float("nan"), 1.0], [2.0, 3.0]]),)
    yield "random rows", (torch.randn(5, 17, generator=random) * 3,)
    yield "random transposed rows", (torch.randn(17, 5, generator=random).t() * 3,)


def check_logsumexp(answer: Answer) -> tuple[Score, ...]:
    def last(x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, -1) * 2

    def first(x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, 0, keepdim=True) + 1

    rules: dict[str, Any] = {"decompositions": {aten.logsumexp.default: answer["logsumexp"]}}
    record = with_rule(answer, last, (torch.randn(4, 8),), rules)
    with answer.at("verified"):
        if kernels(record) == 0 or libraries(record):
            answer.fail("a part of it runs as a library call, not in a kernel")
    for name, function in (("dim=-1", last), ("dim=0, keepdim=True", first)):
        with explorer.workbench(**rules):
            agree(answer, explorer.compile(function), function, rows(answer.seed), name)
    return (Score("nodes", nodes(record), 11), Score("kernels", kernels(record), 1))


LOGSUMEXP = Puzzle(
    id="decompose-1",
    title="A sum of exponentials",
    task=(
        "Write a decomposition of `aten.logsumexp` that is right for large, small and infinite values. The "
        "score is the number of nodes in the graph and of kernels; par is what a good answer reaches."
    ),
    minutes=15,
    names=("logsumexp",),
    given="import torch\n\naten = torch.ops.aten\n",
    starter='''def logsumexp(x, dim, keepdim=False):
    """aten.logsumexp in simpler operators; dim is a list of dimensions."""
    return ...
''',
    solution='''def logsumexp(x, dim, keepdim=False):
    largest = torch.amax(x, dim, keepdim=True)
    largest = torch.where(largest.abs() == float("inf"), 0.0, largest)
    found = (x - largest).exp().sum(dim, keepdim=True).log() + largest
    return found if keepdim else found.squeeze(dim)
''',
    wrong=(
        Wrong("def logsumexp(x, dim, keepdim=False):\n    return x.exp().sum(dim, keepdim=keepdim).log()\n",
              "right", "on a row of 1000s"),
        Wrong('''def logsumexp(x, dim, keepdim=False):
    largest = torch.amax(x, dim, keepdim=True)
    return (x - largest).exp().sum(dim).log() + largest.sum(dim)
''', "right", "on a row of -inf"),
        Wrong('''def logsumexp(x, dim, keepdim=False):
    largest = torch.amax(x, dim, keepdim=True)
    largest = torch.where(largest.abs() == float("inf"), 0.0, largest)
    return ((x - largest).exp().sum(dim, keepdim=True).log() + largest).sum(dim)
''', "right", "keepdim=True"),
        Wrong("def logsumexp(x, dim, keepdim=False):\n    return torch.logsumexp(x, dim, keepdim)\n",
              "defined", "to be solved without"),
        Wrong("def logsumexp(x, dim, keepdim=False):\n    return x.amax(dims)\n", "compiles", "NameError"),
    ),
    hints=(
        "exp overflows in float32 above 88. What can be subtracted before, and added after?",
        "Subtract the row's largest element. What if that is inf or -inf?",
        "Where the largest is infinite, subtract 0 instead: torch.where(largest.abs() == float('inf'), 0.0, largest).",
    ),
    check=check_logsumexp,
    forbidden=frozenset({"logsumexp", "softmax", "log_softmax", "logaddexp"}),
)  # fmt: skip

# decompose-2: layer norm


def check_layer_norm(answer: Answer) -> tuple[Score, ...]:
    weight, bias = torch.linspace(0.5, 2, 6), torch.linspace(-1, 1, 6)

    def normed(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (6,), weight, bias, 1e-2)

    def plain(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (2, 6))

    rules: dict[str, Any] = {"decompositions": {aten.native_layer_norm.default: answer["layer_norm"]}}
    record = with_rule(answer, normed, (torch.randn(4, 6),), rules)
    random = torch.Generator().manual_seed(answer.seed)
    inputs: list[Labeled] = [
        ("one row", (torch.randn(1, 6, generator=random),)),
        ("rows around 1000", (torch.randn(3, 6, generator=random) + 1000,)),
        ("a row of one value", (torch.full((1, 6), 2.0),)),
        ("x of shape (2, 3, 6)", (torch.randn(2, 3, 6, generator=random) * 3,)),
    ]
    with explorer.workbench(**rules):
        for label, args in inputs:
            with answer.at("right", label):
                loose = 1e-3 if "1000" in label else 0.0
                if differs := position(explorer.compile(normed)(*args), normed(*args), loose=loose):
                    answer.fail(f"on {label}, {differs}")
        pairs: list[Labeled] = [("two dimensions, no weight", (torch.randn(3, 2, 6, generator=random),))]
        agree(answer, explorer.compile(plain), plain, pairs)
    with answer.at("score"):
        if nodes(record) > 14:
            answer.fail(f"{nodes(record)} nodes; 14 are enough")
    return (Score("nodes", nodes(record), 11), Score("kernels", kernels(record), 1))


LAYER_NORM = Puzzle(
    id="decompose-2",
    title="Layer norm in a few nodes",
    task="Write a decomposition of `aten.native_layer_norm` with at most 14 nodes.",
    minutes=15,
    names=("layer_norm",),
    given="import torch\n\naten = torch.ops.aten\n",
    starter='''def layer_norm(x, shape, weight, bias, eps):
    """aten.native_layer_norm: the result, the mean, and 1 / the standard deviation. weight and bias may be None."""
    return ..., ..., ...
''',
    solution='''def layer_norm(x, shape, weight, bias, eps):
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean = x.mean(dims, keepdim=True)
    centerd = x - mean
    rstd = torch.rsqrt((centerd * centerd).mean(dims, keepdim=True) + eps)
    y = centerd * rstd
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, rstd
''',
    wrong=(
        Wrong('''def layer_norm(x, shape, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(x.var(-1, keepdim=True) + eps)
    return (x - mean) * rstd * weight + bias, mean, rstd
''', "right", "on one row"),
        Wrong('''def layer_norm(x, shape, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(x.var(-1, keepdim=True, unbiased=False))
    return (x - mean) * rstd * weight + bias, mean, rstd
''', "right", "on one row"),
        Wrong('''def layer_norm(x, shape, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + eps)
    return (x - mean) * rstd * weight + bias, mean, rstd
''', "right", "on rows around 1000"),
        Wrong('''def layer_norm(x, shape, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(((x - mean) ** 2).mean(-1, keepdim=True) + eps)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, rstd
''', "right", "on two dimensions, no weight"),
        Wrong("def layer_norm(x, shape, weight, bias, eps):\n    return torch.layer_norm(x, shape, weight, bias)\n",
              "defined", "to be solved without"),
    ),
    hints=(
        "Mean, then the mean of the squared distances from it, over the last len(shape) dimensions.",
        "The variance divides by n, not n - 1. mean(x*x) - mean*mean loses all digits around 1000.",
        "centerd = x - mean; rstd = torch.rsqrt((centerd * centerd).mean(dims, keepdim=True) + eps).",
    ),
    check=check_layer_norm,
    forbidden=frozenset({"layer_norm", "native_layer_norm", "batch_norm", "group_norm", "LayerNorm", "functional"}),
)  # fmt: skip

# decompose-3: nothing in place

IN_PLACE = '''import torch

def step(x, b):
    """Changes x in place, and returns a number."""
    x.mul_(2)
    first = x[0]
    first.add_(b)
    x[:, 1] = 0
    return x.sum()
'''


def written(record: Record) -> str:
    """Where a captured graph has its first write."""
    nodes = record.graphs[0].graph.nodes
    return noded(record, next((node.name for node in nodes if "_" in node.target[-1:] or "setitem" in node.target), ""))


class Watching(TorchDispatchMode):
    """Remembers the operators that write, each with the line that called it: `x[0] = y` is a copy_, which it does not
    look like."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.writes: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable:
            called = [each for each in traceback.extract_stack() if each.filename.startswith("<puzzle ")]
            where = f"line {called[-1].lineno}, `{called[-1].line}`, " if called else ""
            self.writes.append(f"{where}writes to a tensor, by {func}")
        return func(*args, **(kwargs or {}))


def check_functional(answer: Answer) -> tuple[Score, ...]:
    random = torch.Generator().manual_seed(answer.seed)
    sizes = ((1, 2), (2, 2), (3, 5), (7, 3))
    inputs = [
        (f"x of shape {size}", (torch.randn(*size, generator=random), torch.randn(size[1], generator=random)))
        for size in sizes
    ]
    what, args = inputs[-1]
    with answer.at("compiles", what, showing(answer["step"], args, written)):
        record = explored(answer["functional"], *copies(args))
        answer.shown(record, written(record))
    results: list[Any] = []
    for what, args in inputs:
        with answer.at("verified", what):
            given = copies(args)
            with Watching() as watching:
                made = answer["functional"](*given)
            if watching.writes:
                answer.fail(f"on {what}, {watching.writes[0]}")
            if not isinstance(made, tuple) or len(made) != 2:
                answer.fail("returns the new x and the number")
            results.append(made)
    for (what, args), made in zip(inputs, results, strict=True):
        with answer.at("right", what):
            x, b = copies(args)
            number = answer["step"](x, b)
            if differs := position(made[0], x):
                answer.fail(f"on {what}, in the new x, {differs}")
            if differs := position(made[1], number):
                answer.fail(f"on {what}, in the number, {differs}")
    return ()


FUNCTIONAL = Puzzle(
    id="decompose-3",
    title="Nothing in place",
    task=(
        "Write `step` without a write: a function that returns the new `x` beside what `step` returns. This "
        "is what functionalization does."
    ),
    minutes=12,
    names=("functional",),
    given=IN_PLACE,
    starter='''def functional(x, b):
    """The new x, and what step returns. No operator may write to a tensor."""
    return ..., ...
''',
    solution='''def functional(x, b):
    doubled = x * 2
    new = torch.cat([(doubled[0] + b).unsqueeze(0), doubled[1:]])
    new = torch.cat([new[:, :1], torch.zeros_like(new[:, 1:2]), new[:, 2:]], dim=1)
    return new, new.sum()
''',
    wrong=(
        Wrong("def functional(x, b):\n    x = x.clone()\n    return x, step(x, b)\n", "verified",
              "on x of shape (1, 2), line 4, `return x, step(x, b)`, writes to a tensor, by aten.mul_.Tensor"),
        Wrong("def functional(x, b):\n    new = x * 2\n    new[0] += b\n    new[:, 1] = 0\n    return new, new.sum()\n",
              "verified", "line 4, `new[0] += b`, writes to a tensor, by aten.add_.Tensor"),
        Wrong('''def functional(x, b):
    new = x * 2
    new = torch.cat([new[:, :1], torch.zeros_like(new[:, 1:2]), new[:, 2:]], dim=1)
    return new, new.sum()
''', "right", "in the new x, at [0, 0]"),
        Wrong('''def functional(x, b):
    doubled = x * 2
    new = torch.cat([(doubled[0] + b).unsqueeze(0), doubled[1:]])
    return torch.cat([new[:, :1], torch.zeros_like(new[:, 1:2]), new[:, 2:]], dim=1), new.sum()
''', "right", "in the number"),
        Wrong('''def functional(x, b):
    doubled = x * 2
    new = torch.cat([(doubled[0] + b).unsqueeze(0), doubled[1:]])
    return new, new.sum()
''', "right", "in the new x, at [0, 1]"),
    ),
    hints=(
        "Give each version of x a name of its own. `first` is a view: what is added to it is added to x.",
        "A row replaced: torch.cat([new_row.unsqueeze(0), x[1:]]). A column: torch.cat along dim 1.",
        "The order matters: column 1 of row 0 is zero in the end, for b was added before.",
    ),
    check=check_functional,
)  # fmt: skip

PUZZLES = (LOGSUMEXP, LAYER_NORM, FUNCTIONAL)
