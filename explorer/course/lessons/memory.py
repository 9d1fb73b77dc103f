"""Lesson 12: memory, and bugs that run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

import explorer
from explorer.compiler.autograd.decompositions import decompositions
from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.memory import pack
from explorer.compiler.workbench import workbench
from explorer.core.reasons import Why
from explorer.core.rules import Rules, in_force
from explorer.course.compared import bytes_moved, copies, explored, position, ruled, with_rule
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.ir.schedule import Allocation
from explorer.show.record import Record

# Planted bugs: rules of which all but one do what the built-in ones do.


aten = torch.ops.aten
RIGHT_DECOMPOSITIONS: tuple[OpOverload, ...] = (
    aten.silu.default, aten.softplus.default, aten.hardswish.default, aten.elu.default, aten.mish.default,
    aten.mse_loss.default, aten.smooth_l1_loss.default, aten.logaddexp.default, aten.hardsigmoid.default,
)  # fmt: skip


BUILT_IN = decompositions()


def as_built_in(operator: OpOverload) -> Callable[..., Any]:
    def rule(*args: object, **kwargs: object) -> Any:
        return BUILT_IN[operator](*args, **kwargs)

    return rule


def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def maximum(dtype: torch.dtype, a: str, b: str) -> str:
    return f"{a} > {b} ? {a} : {b}"


def minimum(dtype: torch.dtype, a: str, b: str) -> str:
    return f"{a} != {a} || {a} < {b} ? {a} : {b}"


def relu(dtype: torch.dtype, x: str) -> str:
    return f"{x} < 0 ? 0 : {x}"


def negative_twice(graph: fx.Graph) -> None:
    """-(-x) is x."""
    for node in graph.nodes:
        inner = node.args[0] if node.target is aten.neg.default else None
        if isinstance(inner, fx.Node) and inner.target is aten.neg.default:
            node.replace_all_uses_with(inner.args[0])


def scale_once(graph: fx.Graph) -> None:
    """(x * a) * b is x * (a * b); but here the first product has other readers too."""
    for node in graph.nodes:
        inner = node.args[0] if node.target is aten.mul.Tensor else None
        if isinstance(inner, fx.Node) and inner.target is aten.mul.Tensor:
            first, second = inner.args[1], node.args[1]
            if isinstance(first, int | float) and isinstance(second, int | float):
                inner.args = (inner.args[0], first * second)
                node.replace_all_uses_with(inner)


@contextmanager
def planted(letter: str) -> Iterator[Rules]:
    """Inside the block, one of fourteen rules is wrong: another one for each of "a", "b" and "c"."""
    right = {operator: as_built_in(operator) for operator in RIGHT_DECOMPOSITIONS}
    printers: dict[str, Callable[..., str]] = {"minimum": minimum, "relu": relu}
    passes: list[Callable[..., Any]] = [negative_twice]
    right[aten.gelu.default] = gelu if letter == "a" else as_built_in(aten.gelu.default)
    if letter == "b":
        printers["maximum"] = maximum
    if letter == "c":
        passes.append(scale_once)
    with workbench(decompositions=right, printers={"cpp": printers}, passes=passes) as rules:
        yield rules


# memory-1: a place in the pool


def plans(answer: Answer) -> Iterator[tuple[str, dict[str, Allocation]]]:
    """Buffers with sizes and lives: some by hand, the smallest first, and random ones."""
    random = answer.random

    def plan(*buffers: tuple[int, int, int]) -> dict[str, Allocation]:
        why = Why(reasons.POOL)
        return {
            f"buf{n}": Allocation(f"buf{n}", "pool", 64 * size, first, last, why)
            for n, (size, first, last) in enumerate(buffers)
        }

    yield "one buffer", plan((1, 0, 1))
    yield "two that are alive at once", plan((1, 0, 1), (1, 1, 2))
    yield "two one after the other", plan((1, 0, 1), (1, 2, 3))
    yield "a small one in the gap of a large one", plan((4, 0, 1), (2, 0, 5), (1, 2, 5), (3, 2, 3))
    yield "a chain", plan(*((1, at, at + 1) for at in range(8)))
    for number in range(12):
        made = []
        for _ in range(6 + 2 * number):
            first = random.randrange(20)
            made.append((random.choice((1, 1, 2, 3, 5, 8, 13)), first, first + random.randrange(1, 6)))
        yield f"random plan {number}", plan(*made)


def deep(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The lesson's program, whose buffers share a pool."""
    for _ in range(3):
        x = torch.relu(x @ w)
    return x @ w


def check_reuse(answer: Answer) -> tuple[Score, ...]:
    def show() -> tuple[Record, str]:
        with explorer.workbench(reuse=answer["reuse"]):
            return explored(deep, torch.ones(8, 8), torch.ones(8, 8)), "memory"

    made, yours, theirs = [], 0, 0
    for what, plan in plans(answer):
        with answer.at("compiles", what, show), explorer.workbench(reuse=answer["reuse"]):
            made.append((what, plan, *pack(plan, {}, 0)))
    for what, plan, packed, pool in made:
        with answer.at("verified", what):
            for a in packed.values():
                for b in packed.values():
                    alive = a.buffer < b.buffer and a.first <= b.last and b.first <= a.last
                    if alive and a.offset < b.offset + int(b.bytes) and b.offset < a.offset + int(a.bytes):
                        lives = f"{a.buffer} lives {a.first}..{a.last} and {b.buffer} {b.first}..{b.last}"
                        places = f"{a.offset} and {b.offset}, with {a.bytes} and {b.bytes} bytes"
                        answer.fail(f"{what}: {lives}, at {places}: they share bytes")
        with in_force(Rules()):
            _, least = pack(plan, {}, 0)
        yours, theirs = yours + pool, theirs + least
    with answer.at("score"):
        if yours > 1.1 * theirs:
            answer.fail(f"pools of {yours} bytes; the built-in rule takes {theirs}, and at most 10 % more is asked")
    return (Score("bytes of all pools", yours, theirs),)


REUSE = Puzzle(
    id="memory-1",
    title="A place in the pool",
    task=(
        "Write the rule that places a buffer in the memory pool. Two buffers that are alive at the same time "
        "may not share a byte, and all pools together may be at most 10 % larger than with the built-in rule."
    ),
    minutes=15,
    names=("reuse",),
    given='''# Buffers are placed one after the other, the largest first. reuse(need, rivals) gives the offset of one
# that needs `need` bytes. rivals are those placed already that are alive at the same time, by offset: each has .offset
# and .bytes. All sizes are multiples of 64, and so are places.
''',
    starter='''def reuse(need, rivals):
    return ...
''',
    solution='''def reuse(need, rivals):
    top, gaps = 0, []
    for rival in rivals:
        if rival.offset - top >= need:
            gaps.append((rival.offset - top, top))
        top = max(top, rival.offset + rival.bytes)
    return min(gaps)[1] if gaps else top
''',
    wrong=(
        Wrong("def reuse(need, rivals):\n    return 0\n", "verified", "two that are alive at once"),
        Wrong('''def reuse(need, rivals):
    return sum(int(rival.bytes) for rival in rivals)
''', "verified", "they share bytes"),
        Wrong('''def reuse(need, rivals):
    last = rivals[-1]
    return last.offset + int(last.bytes)
''', "compiles", "IndexError"),
        Wrong('''placed = [0]

def reuse(need, rivals):
    placed[0] += need
    return placed[0] - need
''', "score", "at most 10 % more is asked"),
        Wrong('''def reuse(need, rivals):
    return max((rival.offset + rival.bytes for rival in rivals), default=0)
''', "score", "at most 10 % more is asked"),
        Wrong('''def reuse(need, rivals):
    return max((rival.offset for rival in rivals), default=0)
''', "verified", "they share bytes"),
    ),
    hints=(
        "Above all rivals is always right. When is there a place further down?",
        "Walk over the rivals by offset, and remember the highest end so far: between it and the next one is a gap.",
        "Of the gaps that are wide enough take the smallest; above them all where there is none.",
    ),
    check=check_reuse,
)  # fmt: skip

# bugs-1: it runs, and it is wrong

BUGS = """import torch
import torch.nn.functional as F
import explorer
from explorer.course.lessons.memory import planted

def a(x):
    return F.softplus(F.gelu(x * 2)) + F.silu(x)

def b(x, y):
    return torch.maximum(torch.relu(x), y) - torch.minimum(y, y * 2)

def c(x):
    half = x * 0.5
    return half * 3.0 - half, F.hardswish(-(-x))

calls = {
    "a": (a, (torch.linspace(-3, 3, 13),)),
    "b": (b, (torch.tensor([1.0, float("nan"), -2.0]), torch.tensor([0.0, 1.0, 2.0]))),
    "c": (c, (torch.tensor([1.0, 2.0, 4.0]),)),
}

# with planted("a") as rules: one of the rules (print(rules)) is wrong. Which, in each of the three?
"""


def wrong_with(rules: Rules, function: Any, args: tuple[Any, ...]) -> str:
    """The first difference from eager with these rules; "" where there is none."""
    with in_force(rules):
        return position(explorer.compile(function)(*copies(args)), function(*copies(args)))


def check_bugs(answer: Answer) -> tuple[Score, ...]:
    answers: Mapping[str, str] = answer["wrong"]
    chosen = {}
    for letter in answer["calls"]:
        with planted(letter) as rules:
            names = {rule.name: key for key, rule in rules.table.items()}
        with answer.at("defined", letter):
            if not isinstance(answers, dict) or answers.get(letter) not in names:
                answer.fail(f"`wrong[{letter!r}]` is the name of one of these rules: {', '.join(names)}")
            chosen[letter] = rules, names[answers[letter]]
    for letter, (function, args) in answer["calls"].items():
        rules, key = chosen[letter]
        with answer.at("right", letter):
            alone = replace(rules, table={key: rules.table[key]}, key=f"{rules.key} {key} alone")
            if not wrong_with(alone, function, args):
                with in_force(rules):
                    record = explored(function, *args)
                at = ruled(record, answers[letter])
                answer.fail(f"{letter}: with `{answers[letter]}` alone the result is right", record, at)
    return ()


def _bugs(**changed: str) -> str:
    right = {"a": "decomposition aten.gelu.default (gelu)", "b": "C++ operation maximum", "c": "pass scale_once"}
    return "wrong = {\n" + "".join(f"    {name!r}: {rule!r},\n" for name, rule in (right | changed).items()) + "}\n"


FOUND = Puzzle(
    id="bugs-1",
    title="It runs, and it is wrong",
    task=(
        "In each of the three cases one rule out of several is wrong, and the result differs from eager. Find "
        "which."
    ),
    minutes=25,
    names=("wrong",),
    given=BUGS,
    starter='# The names of the rules, as print(rules) shows them.\nwrong = {"a": ..., "b": ..., "c": ...}\n',
    solution=_bugs(),
    wrong=(
        Wrong(_bugs(a="decomposition aten.silu.default (rule)"), "right", "a: with `decomposition aten.silu.default"),
        Wrong(_bugs(b="C++ operation minimum"), "right", "b: with `C++ operation minimum` alone the result is right"),
        Wrong(_bugs(c="pass negative_twice"), "right", "c: with `pass negative_twice` alone"),
        Wrong(_bugs(c="the pass"), "defined", "is the name of one of these rules"),
    ),
    hints=(
        "Where do ours and eager first differ? explorer.explore in the block says it, and with how much.",
        "record.bisect_accuracy() names the first node that differs; its `with your rule` names the rule.",
        "a is a decomposition, b a printer that loses nan, c a pass that changes a value which others read.",
    ),
    check=check_bugs,
)  # fmt: skip

# capstone-1: a transformer's block with rules of one's own

BLOCK = '''import torch
import torch.nn.functional as F
from explorer.ir.graph import info

aten = torch.ops.aten

def block(x, qkv, out, up, down):
    """A transformer's block and its loss: attention with four heads, then two linear layers."""
    batch, length, width = x.shape
    q, k, v = (F.layer_norm(x, (width,)) @ qkv).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
    weights = torch.softmax(q @ k.transpose(-1, -2) / (width // 4) ** 0.5, dim=-1)
    x = x + (weights @ v).transpose(1, 2).reshape(batch, length, width) @ out
    return (x + F.gelu(F.layer_norm(x, (width,)) @ up) @ down).square().mean()

def value(node):
    """What a node yields: mostly a tensor, with .numel() and .element_size()."""
    return info(node).value

# `rules` is what explorer.workbench(**rules) takes: a dict of these four.
#   "decompositions": {aten.gelu.default: gelu}, where gelu(x, approximate="none") computes it with other operators
#   "rank": rank(pair), which pair of kernels is fused first: the one with the highest number (fusion-3)
#   "keep": keep(node, results, level), what it costs to keep a value for the backward (partition-3)
#   "reuse": reuse(need, rivals), the offset of a buffer in the pool (memory-1)
'''
WIDTH = 32
BLOCKS = {"a batch of 2": (2, 16, WIDTH), "a batch of 3, 7 words": (3, 7, WIDTH)}
NEEDED = ("decompositions", "rank", "keep", "reuse")


def weights(seed: int, shape: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    shapes = (shape, (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    return tuple((torch.randn(each, generator=random) / each[-1] ** 0.25).requires_grad_() for each in shapes)


def trained(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """The loss, and the gradient of each argument."""
    leaves = copies(args)
    loss = function(*leaves)
    return loss.detach(), *torch.autograd.grad(loss, leaves)


def costs(record: Record) -> dict[str, float]:
    (compile,) = record.data.compiles
    return {
        "bytes moved": bytes_moved(record),
        "bytes kept": sum(saved.bytes for saved in compile.saved if saved.kind == "saved"),
        "bytes of the pools": sum(half.memory.pool for half in compile.halves if half.memory is not None),
    }


def check_block(answer: Answer) -> tuple[Score, ...]:
    rules, block = answer["rules"], answer["block"]
    with answer.at("defined"):
        if not isinstance(rules, dict):
            answer.fail(f"`rules` is a dict with the keys {', '.join(NEEDED)}")
        if missing := [each for each in NEEDED if not rules.get(each)]:
            answer.fail(f"`rules` needs {', '.join(missing)}; yours has {', '.join(map(str, rules)) or 'nothing'}")
        made, gelu = rules["decompositions"], torch.ops.aten.gelu.default
        if not isinstance(made, dict):
            answer.fail("`rules['decompositions']` is a dict, such as {aten.gelu.default: gelu}")
        if gelu not in made:
            answer.fail(f"`rules['decompositions']` has {', '.join(map(repr, made))}; its key is aten.gelu.default")
    record = with_rule(answer, block, weights(answer.seed, BLOCKS["a batch of 2"]), rules)
    for what, shape in BLOCKS.items():
        args = weights(answer.seed + 1, shape)
        with answer.at("right", what):
            with explorer.workbench(**rules):
                found = trained(explorer.compile(block), args)
            names = ("the loss", "the gradient of x", *("the gradient of a weight",) * 4)
            for name, mine, eager in zip(names, found, trained(block, args), strict=True):
                if differs := position(mine, eager, loose=1e-4):
                    answer.fail(f"{what}: {name}, {differs}")
    with in_force(Rules()):
        built_in = costs(explored(block, *weights(answer.seed, BLOCKS["a batch of 2"])))
    with answer.at("score"):
        for name, yours in costs(record).items():
            if yours > 1.25 * built_in[name]:
                message = (
                    f"{yours:g} {name}; the built-in rules have {built_in[name]:g}, and at most 25 % more is asked"
                )
                answer.fail(message, record, "schedule" if name == "bytes moved" else "memory")
    return tuple(Score(name, yours, built_in[name]) for name, yours in costs(record).items())


def _block(
    gelu: str = "0.5 * x * (1 + torch.erf(x * 0.5 ** 0.5))",
    rank: str = "pair.bytes_shared / (4 if pair.across else 1) - pair.distance / 1000",
    keep: str = "float(2 * found.numel() * found.element_size())",
    rules: str = '{"decompositions": {aten.gelu.default: gelu}, "rank": rank, "keep": keep, "reuse": reuse}',
) -> str:
    return f"""def gelu(x, approximate="none"):
    return {gelu}

def rank(pair):
    return {rank}

def keep(node, results, level):
    found = value(node)
    return {keep} if isinstance(found, torch.Tensor) else 8.0

{REUSE.solution}
rules = {rules}
"""


CAPSTONE = Puzzle(
    id="capstone-1",
    title="A transformer's block, with your rules",
    task=(
        "Compile `block` with rules of your own: a decomposition of `gelu`, a `rank`, a `keep` and a `reuse`. Your "
        "answers to earlier lessons will do for the last three. Loss and gradients must be right, and at most 25 % "
        "more bytes than with the built-in rules may be moved, kept, and taken for the pools. The par that is printed "
        "is what the built-in rules take; you need not reach it."
    ),
    minutes=20,
    names=("rules",),
    given=BLOCK,
    starter='rules = {"decompositions": ..., "rank": ..., "keep": ..., "reuse": ...}\n',
    solution=_block(),
    wrong=(
        Wrong(_block(gelu="0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))"), "right",
              "the gradient of x"),
        Wrong(_block(rank="None"), "score", "bytes moved; the built-in rules have"),
        Wrong(_block(keep="1.0"), "score", "bytes kept; the built-in rules have"),
        Wrong(_block(rules='{"rank": rank}'), "defined",
              "`rules` needs decompositions, keep, reuse; yours has rank"),
        Wrong(_block().replace("aten.gelu", "aten.silu"), "defined", "its key is aten.gelu.default"),
        Wrong(_block().replace("aten.gelu.default:", "'gelu':"), "defined", "has 'gelu'; its key is aten.gelu"),
        Wrong(_block().replace("{aten.gelu.default: gelu}", "gelu"), "defined", "is a dict, such as"),
        Wrong(_block().replace("return min(gaps)", "return None #"), "compiles", "`reuse` gave None for"),
        Wrong(_block().replace("return min(gaps)", "return sum(each.offset + each.bytes for each in rivals) #"),
              "score", "bytes of the pools; the built-in rules have"),
    ),
    hints=(
        "Begin with your answers to fusion-3, partition-3 and memory-1. Only the decomposition of gelu is new.",
        "The decomposition is keyed by its operator: {aten.gelu.default: gelu}. gelu(x) is x times the share of a "
        "normal distribution below x, which torch.erf gives.",
        "0.5 * x * (1 + torch.erf(x / 2 ** 0.5)); rank by bytes_shared; keep by bytes; reuse takes the tightest gap.",
    ),
    check=check_block,
)  # fmt: skip

PUZZLES = (REUSE, FOUND, CAPSTONE)
