"""Python between the tensors: branches, loops, closures, containers, generators, classes, exceptions."""

import functools
import itertools
import math
import operator
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from zoo.program import call, program

SCALE = 3.0


def one_matrix():
    return call(torch.randn(3, 4))


@program(
    "control_flow dynamic",
    inputs=one_matrix,
    other_inputs=(lambda: call(torch.randn(9, 4)), lambda: call(torch.randn(4))),
    grad=True,
)
def branch_on_shape(x):
    if x.dim() == 1:
        return x * 2.0
    if x.shape[0] > 5:
        return x[:5].sum(0)
    return x.mean(0)


@program(
    "control_flow kwargs",
    inputs=lambda: call(torch.randn(3), mode="double"),
    other_inputs=(lambda: call(torch.randn(3)), lambda: call(torch.randn(3), mode=None)),
    grad=True,
)
def branch_on_argument(x, mode="plain"):
    if mode is None:
        return x
    return x * 2 if mode == "double" else x + 1


@program(
    "control_flow", inputs=lambda: call(torch.randn(3), 2), other_inputs=(lambda: call(torch.randn(3), 7),), grad=True
)
def match_statement(x, n):
    match n:
        case 0 | 1:
            return x
        case int() if n > 5:
            return x * n
        case _:
            return x - n


@program("loop", inputs=lambda: call(torch.randn(3), 3), other_inputs=(lambda: call(torch.randn(3), 5),), grad=True)
def loops(x, n):
    for i in range(n):
        x = x * (i + 1)
    while n > 0:
        x = torch.sin(x)
        n -= 1
        if n == 1:
            break
    else:
        x = x + 100
    return x


@program("loop comprehension", inputs=lambda: call([torch.randn(3) for _ in range(3)]), grad=True)
def enumerate_zip_range(xs):
    total = torch.zeros(3)
    for i, (a, b) in enumerate(zip(xs, reversed(xs), strict=True), start=1):
        total = total + a * b * i
    return total + sum(x * k for k, x in zip(range(0, 10, 2), xs, strict=False)) + max(len(xs), 2)


@program("comprehension container", inputs=one_matrix, grad=True)
def comprehensions(x):
    rows = [row * i for i, row in enumerate(x) if i != 1]
    table = {name: x * k for k, name in enumerate("abc")}
    sizes = {len(row) for row in rows}
    return torch.stack(rows).sum(0) + table["b"][0] + table["c"].sum() + sum(sizes)


@program("closure nested_function", inputs=one_matrix, grad=True)
def closures(x):
    scale = 2.0
    calls = 0

    def scaled(y, extra=1.0):
        nonlocal calls
        calls += 1
        return y * scale + extra

    y = scaled(x)
    scale = 5.0
    return scaled(y, extra=0.5) * calls


@program("closure nested_function", inputs=one_matrix, grad=True, factory=True)
def closure_over_tensor():
    weight = torch.randn(4)
    depth = 2

    def apply(x):
        for _ in range(depth):
            x = torch.tanh(x * weight)
        return x

    return apply


@program("nested_function loop", inputs=lambda: call(torch.randn(3), 4), grad=True)
def recursion(x, depth):
    if depth == 0:
        return x
    return recursion(x.sin(), depth - 1) + 1.0


def scaled_sum(*xs, scale=1.0, **rest):
    return sum(xs) * scale + sum(rest.values())


@program(
    "kwargs nested_function",
    inputs=lambda: call(torch.randn(3), torch.randn(3), scale=2.0, bias=torch.randn(3)),
    grad=True,
)
def star_arguments(*args, scale, **kwargs):
    first, *others = args
    return scaled_sum(first, *others, scale=scale, **kwargs) + scaled_sum(*args[::-1])


def pieces(x, size):
    for start in range(0, x.shape[0], size):
        yield x[start : start + size].sum(0)


def chained(x):
    yield x
    yield from pieces(x, 2)


@program("generator loop", inputs=lambda: call(torch.randn(4, 3)), grad=True)
def generators(x):
    first, *others = list(pieces(x, 2))
    total = first
    for piece in chained(x):
        total = total + piece.sum()
    return total + sum(p * 2 for p in others) + next(pieces(x, 1))


@program("exception", inputs=lambda: call(torch.randn(3), {"scale": 2.0}), grad=True)
def try_except(x, options):
    try:
        x = x * options["shift"]
    except KeyError:
        x = x * options["scale"]
    finally:
        x = x + 1
    try:
        if x.dim() != 2:
            raise ValueError("not a matrix")
    except ValueError as error:
        x = x + len(str(error))
    return x


@program("isinstance", inputs=lambda: call(torch.randn(3), [1, 2.5, "three", None, (torch.randn(3),)]), grad=True)
def isinstance_and_getattr(x, things):
    for thing in things:
        if isinstance(thing, int | float):
            x = x * thing
        elif isinstance(thing, str):
            x = getattr(x, "exp" if hasattr(x, thing) else "sin")()
        elif thing is None:
            continue
        else:
            x = x + thing[0]
    return getattr(x, "missing", x)


@program("fstring container", inputs=lambda: call({f"layer{i}.weight": torch.randn(3) for i in range(3)}), grad=True)
def fstring_keys(weights):
    total = weights["layer0.weight"]
    for i in range(1, 3):
        name = f"layer{i}.{'weight'.lower()}"
        if name.startswith("layer") and name in weights:
            total = total + weights[name] * int(name.split(".")[0][-1])
    return total


@program("container", inputs=one_matrix, grad=True)
def lists_dicts_sets(x):
    stack = [x, x + 1]
    stack.append(stack[0] * 2)
    stack.extend([stack.pop(0), x.sin()])
    stack[1:2] = [x.cos()]
    stack.insert(0, x.tanh())
    groups = defaultdict(list)
    for i, item in enumerate(stack):
        groups[i % 2 == 0].append(item)
    ordered = OrderedDict(b=groups[True], a=groups[False])
    ordered.move_to_end("b")
    merged = {**ordered, "c": [x]} | {"d": [x * 3]}
    seen = {1, 2} | {2, 3}
    return sum(item for values in merged.values() for item in values) * len(seen) + (3 in seen)


@program(
    "container dict_output",
    inputs=lambda: call({"a": torch.randn(3), "b": [torch.randn(3), (torch.randn(3), 2)]}),
    grad=True,
)
def nested_containers(tree):
    b, (c, n) = tree["b"]
    return {"sum": tree["a"] + b + c, "parts": [b * n, (c, {"n": n, "again": c * n})]}


Pair = namedtuple("Pair", ["left", "right"])


@program("namedtuple container", inputs=lambda: call(Pair(torch.randn(3), torch.randn(3))), grad=True)
def namedtuples(pair):
    return Pair(left=pair.left + pair[1], right=pair._replace(left=pair.right).left * 2)


@dataclass
class Result:
    value: Tensor
    extra: dict[str, Any] = field(default_factory=dict)
    name: str = "result"

    def doubled(self):
        return Result(self.value * 2, {"was": self.value}, self.name + " twice")


@program("dataclass class", inputs=lambda: call(Result(torch.randn(3), {"bias": torch.randn(3)})), grad=True)
def dataclasses_in_and_out(result):
    return Result(result.value + result.extra["bias"]).doubled()


@program("constant_output multi_output", inputs=one_matrix)
def constant_outputs(x):
    return None, 3, "text", 2.5, True, x.shape, x.dtype, x + 1, [], x.dim(), tuple(x.size())


@program("constant_output effects", inputs=one_matrix)
def returns_nothing(x):
    x + 1


class Shift:
    """A user class with operators, a property, and class and static methods."""

    default = 0.5

    def __init__(self, amount):
        self._amount = amount

    @property
    def amount(self):
        return self._amount * 2

    @classmethod
    def usual(cls):
        return cls(cls.default)

    @staticmethod
    def negate(x):
        return -x

    def __call__(self, x):
        return x + self.amount

    def __add__(self, other):
        return Shift(self._amount + other._amount)

    def __getitem__(self, index):
        return self._amount * index

    def __len__(self):
        return 3

    def __contains__(self, value):
        return value == self._amount


class LoudShift(Shift):
    def __call__(self, x):
        return super().__call__(x) * 10


@program("class", inputs=one_matrix, grad=True)
def user_classes(x):
    shift = Shift.usual() + LoudShift(1.0)
    y = LoudShift.negate(shift(x)) + LoudShift(2.0)(x)
    return y * shift[3] * len(shift) + (1.5 in shift)


class Mode(Enum):
    SUM = "sum"
    MEAN = "mean"


@program(
    "class control_flow",
    inputs=lambda: call(torch.randn(3, 4), Mode.SUM),
    other_inputs=(lambda: call(torch.randn(3, 4), Mode.MEAN),),
    grad=True,
)
def enums(x, mode):
    return x.sum(0) if mode is Mode.SUM else getattr(x, mode.value)(1)


@program("stdlib", inputs=one_matrix, grad=True)
def standard_library(x):
    double = functools.partial(torch.mul, other=2.0)
    total = functools.reduce(operator.add, map(double, x.unbind(0)))
    pairs = list(itertools.combinations(range(3), 2))
    chained_rows = list(itertools.chain([x[0]], [x[1]]))
    key = sorted([(2, "b"), (1, "c")], key=lambda pair: pair[1])[0][0]
    size = math.prod(x.shape) + math.floor(math.sqrt(17)) + len(pairs) + min(4, 2, key=lambda v: -v)
    return total * size + chained_rows[1] * math.pi + key + any(s > 3 for s in x.shape) + divmod(7, 2)[1]


@program("global pointwise", inputs=one_matrix, grad=True)
def reads_globals(x):
    return x * SCALE + math.e


@program(
    "control_flow", inputs=lambda: call(torch.randn(3), 5), other_inputs=(lambda: call(torch.randn(3), 50),), grad=True
)
def expressions(x, n):
    small = 0 < n < 10
    y = x * (2 if small else 3)
    if (half := n // 2) and not small or half == 2:
        y = y + half
    assert n != 0, "n must not be zero"
    del x
    return y @ y, (n or 1) ** 2, n if small and n else -n


@program(
    "dynamic loop",
    inputs=lambda: call(torch.randn(4, 6), 2),
    other_inputs=(
        lambda: call(torch.randn(6, 6), 3),
        lambda: call(torch.randn(5, 3), 1),
        lambda: call(torch.randn(1, 6), 2),
    ),
    grad=True,
)
def dynamic_sizes(x, heads):
    rows, columns = x.shape
    split = x.view(rows, heads, columns // heads)
    return split.sum(-1) * rows + torch.arange(rows)[:, None] + x.numel() / columns


@program(
    "dynamic cat",
    inputs=lambda: call(torch.randn(4, 3)),
    other_inputs=(lambda: call(torch.randn(7, 3)), lambda: call(torch.randn(0, 3))),
    grad=True,
)
def dynamic_padding(x):
    padded = torch.cat([x, x.new_zeros(8 - x.shape[0], 3)])
    return padded.softmax(0), x.shape[0] * 2
