"""Lesson 9: from operators to loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import explorer
from explorer.course.compared import Labeled, agree, kernels, looped, showing, with_rule
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong

aten = torch.ops.aten

# lowering-1: an index by hand


def computed(view: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """A loop that reads the elements of a view: a view alone makes none."""
    return view(x) + 1


def check_index(answer: Answer) -> tuple[Score, ...]:
    for rows, columns in ((1, 1), (2, 2), (3, 5), (5, 3), (4, 7), (6, 1), (1, 6)):
        x = torch.arange(rows * columns).view(rows, columns)
        views: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "x.t()[::2]": lambda x: x.t()[::2],
            "x.flip(1)": lambda x: x.flip(1),
            "x.diagonal()": lambda x: x.diagonal(),
        }
        for (name, view), own in zip(views.items(), ("stepped", "flipped", "diagonal"), strict=True):
            right = view(x)
            for point in torch.ones(right.shape).nonzero().tolist():
                what = f"{name}, x of shape ({rows}, {columns}), at {point}"
                with answer.at("right", what, showing(partial(computed, view), (x,), looped)):
                    found = answer[own](*point, rows, columns)
                    if found != int(right[tuple(point)]):
                        answer.fail(f"{what}: yours reads element {found}, the view {int(right[tuple(point)])}")
    return ()


INDEX = Puzzle(
    id="lowering-1",
    title="An index by hand",
    task=(
        "A view moves no data: it is an index into the same memory. Write the position in memory of each "
        "view's element."
    ),
    minutes=10,
    names=("stepped", "flipped", "diagonal"),
    given='''# x has `rows` rows and `columns` columns, row after row in memory: element [r, c] is at r * columns + c.
''',
    starter='''def stepped(i, j, rows, columns):
    """Where element [i, j] of x.t()[::2] is."""
    return ...

def flipped(i, j, rows, columns):
    """Where element [i, j] of x.flip(1) is."""
    return ...

def diagonal(i, rows, columns):
    """Where element [i] of x.diagonal() is."""
    return ...
''',
    solution='''def stepped(i, j, rows, columns):
    return 2 * i + j * columns

def flipped(i, j, rows, columns):
    return i * columns + columns - 1 - j

def diagonal(i, rows, columns):
    return i * (columns + 1)
''',
    wrong=(
        Wrong('''def stepped(i, j, rows, columns):
    return 2 * i * columns + j

def flipped(i, j, rows, columns):
    return i * columns + columns - 1 - j

def diagonal(i, rows, columns):
    return i * (columns + 1)
''', "right", "x.t()[::2]"),
        Wrong('''def stepped(i, j, rows, columns):
    return 2 * i + j * columns

def flipped(i, j, rows, columns):
    return i * columns + columns - j

def diagonal(i, rows, columns):
    return i * (columns + 1)
''', "right", "x.flip(1)"),
        Wrong('''def stepped(i, j, rows, columns):
    return 2 * i + j * columns

def flipped(i, j, rows, columns):
    return i * columns + columns - 1 - j

def diagonal(i, rows, columns):
    return i * (rows + 1)
''', "right", "x.diagonal()"),
    ),
    hints=(
        "Which element [r, c] of x is it? Then r * columns + c.",
        "x.t()[::2][i, j] is x[j, 2*i]. x.flip(1)[i, j] is x[i, columns - 1 - j].",
        "x.diagonal()[i] is x[i, i], at i * columns + i.",
    ),
    check=check_index,
)  # fmt: skip

# lowering-2: a pointwise operator

POINTWISE = """import torch
from explorer.compiler.lower.pointwise import pointwise
from explorer.ir.loops import apply

# pointwise(lower, out, operation, *operands) makes a loop: `operation` takes the operands' elements at one point, as
# expressions, and returns one. apply("mul", a, b) is an expression; so are "add", "sub", "maximum", "where", "gt" ...
# A number among the operands is an operand like the others.
"""


def check_addcmul(answer: Answer) -> tuple[Score, ...]:
    def added(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(x, a, b, value=0.5) * 2

    def plain(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(x, a, b)

    rules: dict[str, Any] = {"lowerings": {aten.addcmul.default: answer["addcmul"]}}
    random = torch.Generator().manual_seed(answer.seed)

    def r(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=random)

    record = with_rule(answer, added, (r(4), r(4), r(4)), rules)
    inputs: list[Labeled] = [
        ("three of shape (1,)", (r(1), r(1), r(1))),
        ("three of no elements", (r(0), r(0), r(0))),
        ("a row and a column", (r(3, 1), r(1, 5), r(5))),
        ("a transposed x", (r(5, 3).t(), r(3, 5), r(3, 5))),
        ("inf and nan", (torch.tensor([1.0, float("nan")]), torch.tensor([float("inf"), 1.0]), r(2))),
        ("random tensors", (r(4, 31), r(4, 31), r(31))),
    ]
    with explorer.workbench(**rules):
        agree(answer, explorer.compile(added), added, inputs, "value=0.5")
        agree(answer, explorer.compile(plain), plain, inputs, "no value")
    return (Score("kernels", kernels(record), 1),)


ADDCMUL = Puzzle(
    id="lowering-2",
    title="A pointwise operator",
    task="Write the lowering of `aten.addcmul`: the loop that computes one element of its result.",
    minutes=15,
    names=("addcmul",),
    given=POINTWISE,
    starter='''def addcmul(lower, out, x, a, b, *, value=1):
    """x + value * a * b"""
    return pointwise(lower, out, lambda x, a, b, v: ..., x, a, b, value)
''',
    solution='''def addcmul(lower, out, x, a, b, *, value=1):
    def element(x, a, b, v):
        return apply("add", x, apply("mul", apply("mul", v, a), b))
    return pointwise(lower, out, element, x, a, b, value)
''',
    wrong=(
        Wrong('''def addcmul(lower, out, x, a, b, *, value=1):
    return pointwise(lower, out, lambda x, a, b: apply("add", x, apply("mul", a, b)), x, a, b)
''', "right", "value=0.5"),
        Wrong('''def addcmul(lower, out, x, a, b, *, value=1):
    return None
''', "used", "nothing that your rule made"),
        Wrong('''def addcmul(lower, out, x, a, b, *, value=1):
    return pointwise(lower, out, lambda x, a, b: apply("plus", x, a), x, a, b)
''', "compiles", "addcmul"),
        Wrong('''def addcmul(lower, out, x, a, b, *, value=1):
    def element(x, a, b, v):
        return apply("mul", apply("add", x, apply("mul", v, a)), b)
    return pointwise(lower, out, element, x, a, b, value)
''', "right", "value=0.5"),
    ),
    hints=(
        "A rule says how to compute one element of the result from the elements of the operands.",
        'apply("add", x, ...) of what? Begin with apply("mul", a, b).',
        'apply("add", x, apply("mul", apply("mul", v, a), b)), with value as the fourth operand.',
    ),
    check=check_addcmul,
)  # fmt: skip

# lowering-3: another order


def check_flip(answer: Answer) -> tuple[Score, ...]:
    def mirrored(x: torch.Tensor) -> torch.Tensor:
        return x.flip(-1) + 1

    def turned(x: torch.Tensor) -> torch.Tensor:
        return x.flip(0, 1) * 2

    rules: dict[str, Any] = {"lowerings": {aten.flip.default: answer["flip"]}}
    record = with_rule(answer, mirrored, (torch.randn(3, 4),), rules)
    random = torch.Generator().manual_seed(answer.seed)
    inputs: list[Labeled] = [
        ("x of shape (1, 1)", (torch.randn(1, 1, generator=random),)),
        ("x of shape (2, 3)", (torch.randn(2, 3, generator=random),)),
        ("a transposed x", (torch.randn(3, 5, generator=random).t(),)),
        ("x of shape (2, 0)", (torch.randn(2, 0, generator=random),)),
        ("x of shape (2, 3, 4)", (torch.randn(2, 3, 4, generator=random),)),
    ]
    with explorer.workbench(**rules):
        agree(answer, explorer.compile(mirrored), mirrored, inputs, "flip(-1)")
        agree(answer, explorer.compile(turned), turned, inputs, "flip(0, 1)")
    with answer.at("score"):
        if kernels(record) > 1:
            answer.fail(f"{kernels(record)} kernels: what reads the result needs no copy of it")
    return (Score("kernels", kernels(record), 1),)


FLIP = Puzzle(
    id="lowering-3",
    title="Backwards",
    task="Write the lowering of `aten.flip`: which element of `x` goes to each point of the result.",
    minutes=15,
    names=("flip",),
    given='''# A tensor has .size, a tuple of sizes, and .at(point), its element there; a point is a tuple of indices.
# lower.computed(out, element, x) makes a result whose element at `point` is element(point), computed from x.
''',
    starter='''def flip(lower, out, x, dims):
    """x.flip(dims): the given dimensions backwards. A dimension may be negative."""
    def element(point):
        return x.at(...)
    return lower.computed(out, element, x)
''',
    solution='''def flip(lower, out, x, dims):
    turned = {dim % len(x.size) for dim in dims}
    def element(point):
        return x.at(tuple(x.size[d] - 1 - i if d in turned else i for d, i in enumerate(point)))
    return lower.computed(out, element, x)
''',
    wrong=(
        Wrong('''def flip(lower, out, x, dims):
    return lower.computed(out, lambda point: x.at(point), x)
''', "right", "flip(-1): on x of shape (2, 3)"),
        Wrong('''def flip(lower, out, x, dims):
    def element(point):
        return x.at(tuple(x.size[d] - 1 - i if d in dims else i for d, i in enumerate(point)))
    return lower.computed(out, element, x)
''', "right", "flip(-1): on x of shape (2, 3)"),
        Wrong('''def flip(lower, out, x, dims):
    def element(point):
        return x.at((*point[:-1], x.size[-1] - 1 - point[-1]))
    return lower.computed(out, element, x)
''', "right", "flip(0, 1): on x of shape (2, 3)"),
        Wrong('''def flip(lower, out, x, dims):
    return x.flip(dims)
''', "compiles", "no attribute 'flip'"),
    ),
    hints=(
        "Element i of a dimension backwards is element size - 1 - i of it.",
        "-1 is the last dimension: dim % len(x.size).",
        "x.at(tuple(x.size[d] - 1 - i if d in turned else i for d, i in enumerate(point))).",
    ),
    check=check_flip,
    forbidden=frozenset({"LOWERINGS"}),
)  # fmt: skip

# lowering-4: a reduction


def check_mean(answer: Answer) -> tuple[Score, ...]:
    def columns(x: torch.Tensor) -> torch.Tensor:
        return x.mean(-1) * 2

    def kept(x: torch.Tensor) -> torch.Tensor:
        return x - x.mean((0, 2), keepdim=True)

    rules: dict[str, Any] = {"lowerings": {aten.mean.dim: answer["mean"]}}
    record = with_rule(answer, columns, (torch.randn(3, 4),), rules)
    random = torch.Generator().manual_seed(answer.seed)
    inputs: list[Labeled] = [
        ("x of shape (1, 1)", (torch.randn(1, 1, generator=random),)),
        ("x of shape (2, 3)", (torch.randn(2, 3, generator=random),)),
        ("a transposed x", (torch.randn(17, 5, generator=random).t(),)),
        ("x of shape (2, 0)", (torch.randn(2, 0, generator=random),)),
        ("4096 times 32 in float16", (torch.full((2, 4096), 32.0).half(),)),
    ]
    with explorer.workbench(**rules):
        agree(answer, explorer.compile(columns), columns, inputs, "mean(-1)")
        three: Labeled = ("x of shape (2, 3, 4)", (torch.randn(2, 3, 4, generator=random),))
        agree(answer, explorer.compile(kept), kept, [three], "mean((0, 2), keepdim=True)")
    return (Score("kernels", kernels(record), 1),)


def _mean(
    value: str = "torch.float32 if out.dtype.itemsize < 4 else out.dtype", keepdim: str = "keepdim",
    count: str = "math.prod(x.size[d] for d in over)", divided: str = 'apply("div", a, n)',
) -> str:  # fmt: skip
    return f"""def mean(lower, out, x, dims, keepdim=False, *, dtype=None):
    over = reduced_dims(x, dims)
    count = {count}
    total = reduction(lower, x, over, "sum", {keepdim}, value={value})
    return pointwise(lower, out, lambda a, n: {divided}, total, count)
"""


MEAN = Puzzle(
    id="lowering-4",
    title="A mean",
    task=(
        "Write the lowering of `aten.mean.dim`: a loop that sums, and what divides the sum. 16-bit floats are summed "
        "in float32, as eager does: a float16 ends at 65504, and a sum is soon larger."
    ),
    minutes=15,
    names=("mean",),
    given='''import math
import torch
from explorer.compiler.lower.pointwise import pointwise
from explorer.compiler.lower.reduce import reduced_dims, reduction
from explorer.ir.loops import apply

# reduced_dims(x, dims) is a tuple of the dimensions that `dims` names. reduction(lower, x, over, "sum", keepdim,
# value=dtype) makes the loop that sums x, converted to `value`, over these dimensions; the result has that dtype.
# pointwise(lower, out, operation, *operands) converts to the dtype of `out`. The operation of a quotient is "div".
''',
    starter='''def mean(lower, out, x, dims, keepdim=False, *, dtype=None):
    over = reduced_dims(x, dims)
    count = math.prod(x.size[d] for d in over)
    return ...
''',
    solution=_mean(),
    wrong=(
        Wrong(_mean(value="out.dtype"), "right", "mean(-1): on 4096 times 32 in float16"),
        Wrong(_mean(count="x.size[-1]"), "right", "mean((0, 2), keepdim=True)"),
        Wrong(_mean(keepdim="False"), "right", "mean((0, 2), keepdim=True)"),
        Wrong(_mean(divided="a"), "right", "mean(-1): on x of shape (2, 3)"),
        Wrong("def mean(lower, out, x, dims, keepdim=False, *, dtype=None):\n    return None\n", "used",
              "nothing that your rule made"),
    ),
    hints=(
        "Sum first, then divide each sum by how many elements went into it.",
        'reduction(lower, x, over, "sum", keepdim, value=torch.float32): which dtype would a sum of x.dtype have?',
        'pointwise(lower, out, lambda a, n: apply("div", a, n), total, count).',
    ),
    check=check_mean,
)  # fmt: skip

PUZZLES = (INDEX, ADDCMUL, FLIP, MEAN)
