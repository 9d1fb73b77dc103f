"""Lesson 2: symbolic evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import explorer
from explorer.course.compared import agree, broken, explored, refusal, showing, uses
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.records.session import Record

# symbolic-1: the stack at a step


def evaluated(record: Record) -> Iterator[tuple[str, list[str]]]:
    """Each instruction of the first function with the stack before it, the lowest value first."""
    (compile, *_), stack = record.data.compiles, list[str]()
    ops = {each.id: f"{each.op} {each.arg}".strip() for code in compile.codes for each in code.instructions}
    for step in compile.steps:
        if step.activation == 0:
            stack = [*stack[: step.kept], *(compile.values[each].text for each in step.pushed)]
            yield ops[step.instruction], stack


def check_stack(answer: Answer) -> tuple[Score, ...]:
    record = explored(answer["f"], torch.ones(3), torch.ones(3))
    steps = list(evaluated(record))
    with answer.at("defined"):
        answer.shown(record, "bytecode")
        if not isinstance(answer["depths"], list) or not all(isinstance(each, int) for each in answer["depths"]):
            answer.fail("`depths` is a list of whole numbers, one for each instruction")
    with answer.at("right"):
        for at, ((op, stack), said) in enumerate(zip(steps, answer["depths"], strict=False)):
            if said != len(stack):
                found = f"before instruction {at} ({op}) you said {said}, the stack holds {len(stack)}: {stack}"
                answer.fail(found, record, record.link("bytecode", "f0", element=f"step{at}"))
        if len(steps) != len(answer["depths"]):
            answer.fail(f"{len(answer['depths'])} numbers for {len(steps)} instructions", record, "bytecode")
    return ()


STACK = Puzzle(
    id="symbolic-1",
    title="The stack, step by step",
    task="Write down how many values are on the stack before each of the six instructions. The first is 0.",
    minutes=10,
    names=("depths",),
    given='''import torch

def f(x, y):
    return (x + y) * 2

# LOAD_FAST x, LOAD_FAST y, BINARY_OP +, LOAD_CONST 2, BINARY_OP *, RETURN_VALUE
''',
    starter="# How many values are on the stack before each instruction?\ndepths = [0, ..., ..., ..., ..., ...]\n",
    solution="depths = [0, 1, 2, 1, 2, 1]\n",
    wrong=(
        Wrong("depths = [1, 2, 1, 2, 1, 0]\n", "right", "before instruction 0 (LOAD_FAST x) you said 1"),
        Wrong("depths = [0, 1, 2, 3, 4, 5]\n", "right", "before instruction 3 (LOAD_CONST 2) you said 3"),
        Wrong("depths = [0, 1, 2, 1, 2]\n", "right", "5 numbers for 6 instructions"),
        Wrong("depths = 6\n", "defined", "a list of whole numbers"),
    ),
    hints=(
        "Each load pushes one value. What does an operator with two operands pop, and what does it push?",
        "BINARY_OP pops two and pushes one.",
        "0, 1, 2, then 1 after the first BINARY_OP.",
    ),
    check=check_stack,
)  # fmt: skip

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def with_opcode(answer: Answer, name: str, programs: tuple[Program, ...]) -> tuple[Score, ...]:
    def at(record: Record) -> str:
        """The first instruction of this name."""
        (compile, *_) = record.data.compiles
        found = (each.id for code in compile.codes for each in code.instructions if each.op == name)
        return record.link("bytecode", compile.id, element=next(found, ""))

    rules: dict[str, Any] = {"opcodes": {name: answer["rule"]}}
    labelled = [(function.__name__.strip("_"), function, args) for function, args in programs]
    used = set[str]()
    for what, function, args in labelled:
        with answer.at("compiles", what, showing(function, args, at)), explorer.workbench(**rules):
            record = explored(function, *args)
            answer.shown(record, at(record))
            if why := refusal(record):
                answer.fail(f"{what}: {why}")
            if len(record.breaks):
                said = record.breaks[0].why
                why = f"{said.title}{': ' * bool(said.detail)}{said.detail}"
                answer.fail(f"{what} breaks: {why}", record, broken(record))
            used |= uses(record)
    with answer.at("used"):
        if not any(name in each for each in used):
            answer.fail(f"none of the programs has the instruction {name}")
    for what, function, args in labelled:
        with explorer.workbench(**rules):
            agree(answer, explorer.compile(function), function, [(what, args)], show=showing(function, args, at))
    return ()


# symbolic-2: SWAP


def _stored(x: Any) -> Any:
    values = {"a": x}
    values["a"] += 1
    return values["a"]


def _chained(x: Any, n: Any) -> Any:
    return x + 1 if 0 < n < 5 else x - 1


def _nested(x: Any) -> Any:
    rows = [[x, x * 2], [x + 3]]
    rows[0][1] *= x
    return rows[0][1] - rows[1][0]


def check_swap(answer: Answer) -> tuple[Score, ...]:
    x = torch.tensor([1.0, -2.0, 3.0])
    return with_opcode(answer, "SWAP", ((_stored, (x,)), (_chained, (x, 3)), (_chained, (x, 9)), (_nested, (x,))))


SWAP = Puzzle(
    id="symbolic-2",
    title="A rule for SWAP",
    task=(
        "Write the evaluator's rule for `SWAP`. The check compiles functions with your rule in the place of "
        "the built-in one."
    ),
    minutes=12,
    names=("rule",),
    given='''# rule(t, f, i): t is the evaluator, f the frame, i the instruction. f.stack is a list of symbolic values,
# the top last; f.push(value) and f.pop() change it. i.arg is the instruction's argument. SWAP n exchanges the top with
# the n-th value from the top (SWAP 2: the top two).
''',
    starter='''def rule(t, f, i):
    ...
''',
    solution='''def rule(t, f, i):
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]
''',
    wrong=(
        Wrong("def rule(t, f, i):\n    pass\n", "compiles", "stored"),
        Wrong("def rule(t, f, i):\n    f.stack[-1], f.stack[-2] = f.stack[-2], f.stack[-1]\n", "compiles", ""),
        Wrong("def rule(t, f, i):\n    f.push(f.stack[-i.arg])\n", "compiles", "the stack grew by 1"),
        Wrong("def rule(t, f, i):\n    f.stack[99] = f.pop()\n", "compiles", "IndexError"),
    ),
    hints=(
        "The stack is a Python list. The top is f.stack[-1].",
        "The n-th from the top is f.stack[-i.arg]. Nothing is pushed or popped.",
        "f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]",
    ),
    check=check_swap,
)  # fmt: skip

# symbolic-3: UNPACK_SEQUENCE


def _pair(x: Any) -> Any:
    a, b = (x + 1, x * 2)
    pair = (a, b)
    c, d = pair
    return c - d


def _three(x: Any) -> Any:
    values = [x, x + 1, x * x]
    a, b, c = values
    return a - b * c


def _rows(x: Any) -> Any:
    first, second = x
    return first - 2 * second


def _inner(x: Any) -> Any:
    values = ((x, x + 1), x * 3)
    (a, b), c = values
    return a - b, c


def check_unpack(answer: Answer) -> tuple[Score, ...]:
    x = torch.tensor([1.0, -2.0])
    programs: tuple[Program, ...] = ((_pair, (x,)), (_three, (x,)), (_inner, (x,)), (_rows, (x,)))
    return with_opcode(answer, "UNPACK_SEQUENCE", programs)


UNPACK = Puzzle(
    id="symbolic-3",
    title="A rule for UNPACK_SEQUENCE",
    task=(
        "Write the evaluator's rule for `UNPACK_SEQUENCE`. The check compiles functions with your rule in the "
        "place of the built-in one."
    ),
    minutes=15,
    names=("rule",),
    given='''# UNPACK_SEQUENCE n pops a sequence and pushes its n items, so that the first is on top.
# t.items(value) is a list of the symbolic items of a symbolic value: of a tuple, a list, and of a tensor's rows.
''',
    starter='''def rule(t, f, i):
    ...
''',
    solution='''def rule(t, f, i):
    for item in reversed(t.items(f.pop())):
        f.push(item)
''',
    wrong=(
        Wrong("def rule(t, f, i):\n    for item in t.items(f.pop()):\n        f.push(item)\n", "right", "on pair"),
        Wrong("def rule(t, f, i):\n    items = t.items(f.stack[-1])\n    f.stack.extend(reversed(items))\n",
              "compiles", "the stack grew by 2; this instruction makes it grow by 1"),
        Wrong("def rule(t, f, i):\n    value = f.pop()\n    f.push(value)\n    f.push(value)\n",
              "compiles", "TypeError on pair"),
        Wrong("def rule(t, f, i):\n    a, b = f.pop()\n    f.push(b)\n    f.push(a)\n", "compiles", "TypeError"),
    ),
    hints=(
        "Pop the sequence first. Then its items go onto the stack.",
        "The store that follows takes the top, and it is the first item's: push them backwards.",
        "for item in reversed(t.items(f.pop())): f.push(item)",
    ),
    check=check_unpack,
)  # fmt: skip

PUZZLES = (STACK, SWAP, UNPACK)
