"""Lesson 12: memory, and bugs that run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import explorer
from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.memory import pack
from explorer.core.reasons import Why
from explorer.core.rules import Rules, in_force
from explorer.course.compared import copies, explored, position, ruled
from explorer.course.lessons.planted import planted
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.ir.schedule import Allocation

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


def check_reuse(answer: Answer) -> tuple[Score, ...]:
    yours = theirs = 0
    for what, plan in plans(answer):
        with answer.at("compiles", what), explorer.workbench(reuse=answer["reuse"]):
            packed, pool = pack(plan, {}, 0)
        with answer.at("verified", what):
            for a in packed.values():
                if not isinstance(a.offset, int) or a.offset < 0 or a.offset % 64:
                    answer.fail(f"{what}: {a.buffer} is at {a.offset}; a place is a multiple of 64")
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
        top = max(top, rival.offset + int(rival.bytes))
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

BUGS = '''import torch
import torch.nn.functional as F
import explorer
from explorer.course.lessons.planted import planted

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
'''


def wrong_with(rules: Rules, function: Any, args: tuple[Any, ...]) -> str:
    """The first difference from eager with these rules; "" where there is none."""
    with in_force(rules):
        return position(explorer.compile(function)(*copies(args)), function(*copies(args)))


def check_bugs(answer: Answer) -> tuple[Score, ...]:
    said: Mapping[str, str] = answer["wrong"]
    for letter, (function, args) in answer["calls"].items():
        with planted(letter) as rules:
            names = {rule.name: key for key, rule in rules.table.items()}
        with answer.at("defined", letter):
            if not isinstance(said, dict) or said.get(letter) not in names:
                answer.fail(f"`wrong[{letter!r}]` is the name of one of these rules: {', '.join(names)}")
        key = names[said[letter]]
        with answer.at("right", letter):
            alone = replace(rules, table={key: rules.table[key]}, key=f"{rules.key} {key} alone")
            if not wrong_with(alone, function, args):
                with in_force(rules):
                    record = explored(function, *args)
                at = ruled(record, said[letter])
                answer.fail(f"{letter}: with `{said[letter]}` alone the result is right", record, at)
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

PUZZLES = (REUSE, FOUND)
