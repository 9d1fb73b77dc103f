"""Lesson 2: symbolic evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import explorer
from explorer.course.compared import agree, broken, copies, explored, position, showing, uses, why_not_compiled
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong
from explorer.show.record import Record

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
        for at, ((op, stack), depth) in enumerate(zip(steps, answer["depths"], strict=False)):
            if depth != len(stack):
                found = f"before instruction {at} ({op}) you said {depth}, the stack holds {len(stack)}: {stack}"
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


def located(name: str, record: Record) -> str:
    """Where a record shows the first instruction of this name."""
    found = (
        record.link("bytecode", compile.id, element=each.id)
        for compile in record.data.compiles for code in compile.codes for each in code.instructions if each.op == name
    )  # fmt: skip
    return next(found, "bytecode")


def with_opcode(answer: Answer, name: str, programs: tuple[Program, ...]) -> tuple[Score, ...]:
    at = partial(located, name)
    rules: dict[str, Any] = {"opcodes": {name: answer["rule"]}}
    labeled = [(function.__name__.strip("_"), function, args) for function, args in programs]
    used = set[str]()
    for what, function, args in labeled:
        with answer.at("compiles", what, showing(function, args, at)), explorer.workbench(**rules):
            record = explored(function, *args)
            answer.shown(record, at(record))
            if why := why_not_compiled(record):
                answer.fail(f"{what}: {why}")
            if len(record.breaks):
                cause = record.breaks[0].why
                why = f"{cause.title}{': ' * bool(cause.detail)}{cause.detail}"
                answer.fail(f"{what} breaks: {why}", record, broken(record))
            used |= uses(record)
    with answer.at("used"):
        if not any(name in each for each in used):
            answer.fail(f"none of the programs has the instruction {name}")
    for what, function, args in labeled:
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
# value.unpack(t) is a list of the symbolic items of a symbolic value: of a tuple, a list, and of a tensor's rows.
''',
    starter='''def rule(t, f, i):
    ...
''',
    solution='''def rule(t, f, i):
    for item in reversed(f.pop().unpack(t)):
        f.push(item)
''',
    wrong=(
        Wrong("def rule(t, f, i):\n    for item in f.pop().unpack(t):\n        f.push(item)\n", "right", "on pair"),
        Wrong("def rule(t, f, i):\n    items = f.stack[-1].unpack(t)\n    f.stack.extend(reversed(items))\n",
              "compiles", "the stack grew by 2; this instruction makes it grow by 1"),
        Wrong("def rule(t, f, i):\n    value = f.pop()\n    f.push(value)\n    f.push(value)\n",
              "compiles", "pair breaks: an exception leaves the function: TypeError"),
        Wrong("def rule(t, f, i):\n    a, b = f.pop()\n    f.push(b)\n    f.push(a)\n", "compiles", "TypeError"),
    ),
    hints=(
        "Pop the sequence first. Then its items go onto the stack.",
        "The store that follows takes the top, and it is the first item's: push them backwards.",
        "for item in reversed(f.pop().unpack(t)): f.push(item)",
    ),
    check=check_unpack,
)  # fmt: skip

# symbolic-4: BUILD_SET


def _distinct(x: Any, n: Any) -> Any:
    return x * len({n, n, 5})


def _member(x: Any, name: object) -> Any:
    known = {name, "other"}
    return x + 1 if "other" in known and len(known) == 2 else x


def _first(x: Any, n: Any) -> Any:
    for scale in {n, n * 1.0}:
        x = x * scale
    return x


def _pairs(x: Any, n: Any) -> Any:
    return x * len({(1, n), (n, 1), (1, 2)})


def check_set(answer: Answer) -> tuple[Score, ...]:
    x, whole = torch.tensor([1.0, -2.0]), torch.tensor([3, -4])
    programs: tuple[Program, ...] = (
        (_distinct, (x, 3)), (_member, (x, "a")), (_pairs, (x, 2)), (_first, (whole, 2)), (_first, (x, 1))
    )  # fmt: skip
    return with_opcode(answer, "BUILD_SET", programs)


BUILD_SET = Puzzle(
    id="symbolic-4",
    title="A rule for BUILD_SET",
    task="Write the evaluator's rule for `BUILD_SET`. Of values that are equal a set holds one: which?",
    minutes=10,
    names=("rule",),
    given='''from explorer.compiler.capture.values.mappings import SetValue

# BUILD_SET n pops n values and pushes a set of them. f.pop_many(n) pops n and gives them as a list, the top last.
# A symbolic set is SetValue(). Its `entries` are a dict: the key of an item -> the item, as a symbolic value. Of values
# that are equal, such as 2 and 2.0, value.key() is equal.
''',
    starter='''def rule(t, f, i):
    ...
''',
    solution='''def rule(t, f, i):
    made = SetValue()
    for item in f.pop_many(i.arg):
        made.entries.setdefault(item.key(), item)
    f.push(made)
''',
    wrong=(
        Wrong('''def rule(t, f, i):
    made = SetValue()
    for item in f.pop_many(i.arg):
        made.entries[item.key()] = item
    f.push(made)
''', "right", "on first, yours gives float32[2], eager int64[2]"),
        Wrong('''def rule(t, f, i):
    made = SetValue()
    for item in f.pop_many(i.arg):
        made.entries[item] = item
    f.push(made)
''', "compiles", "first: KeyError"),
        Wrong('''def rule(t, f, i):
    made = SetValue()
    made.entries[f.stack[-1].key()] = f.pop()
    f.push(made)
''', "compiles", "the stack grew by 0; this instruction makes it grow by -2"),
        Wrong("def rule(t, f, i):\n    f.push({item.key() for item in f.pop_many(i.arg)})\n", "compiles", "distinct"),
    ),
    hints=(
        "Pop all items, make the set, push it: the stack grows by 1 - n.",
        "What does {2, 2.0} hold? Python keeps the one that came first.",
        "made.entries.setdefault(item.key(), item)",
    ),
    check=check_set,
)  # fmt: skip

# symbolic-5: two rules that are wrong

WRONG_RULES = '''import torch
from explorer.compiler.capture.opcodes.operators import binary_op
from explorer.compiler.capture.values.constant import Constant

def number_last(t, f, i):
    """BINARY_OP: a number stands behind the tensor, so that there is one case less."""
    right, left = f.pop(), f.pop()
    if isinstance(left, Constant):
        left, right = right, left
    f.push(left)
    f.push(right)
    return binary_op(t, f, i)

def copied(t, f, i):
    """COPY n: the n-th value from the top is pushed once more."""
    f.push(f.stack[-1])

x = torch.tensor([1.0, -2.0, 3.0])
'''


def check_programs(answer: Answer) -> tuple[Score, ...]:
    x = answer["x"]
    cases = [("arithmetic", "BINARY_OP", "number_last"), ("compared", "COPY", "copied")]
    rights, records = {}, {}
    for name, _, _ in cases:
        with answer.at("defined", name):
            right = rights[name] = answer[name](*copies((x,)))
            if not isinstance(right, torch.Tensor):
                answer.fail(f"`{name}` returns {right!r}, which is no tensor")
    for name, op, wrong in cases:
        rules: dict[str, Any] = {"opcodes": {op: answer[wrong]}}
        show = showing(answer[name], (x,), partial(located, op))
        with answer.at("compiles", name, show), explorer.workbench(**rules):
            record = records[name] = explored(answer[name], *copies((x,)))
            answer.shown(record, located(op, record))
            if (why := why_not_compiled(record)) or len(record.breaks):
                message = why or str(record.breaks[0].why)
                answer.fail(
                    f"`{name}`: with {wrong} it is not captured whole, so Python runs it, and is right: {message}"
                )
    for name, op, _ in cases:
        with answer.at("used", name):
            if not uses(records[name]):
                answer.fail(f"`{name}` has no {op} that is evaluated", records[name], "bytecode")
    for name, _, _ in cases:
        with answer.at("verified", name):
            if differs := position(explorer.compile(answer[name])(*copies((x,))), rights[name]):
                answer.fail(f"`{name}`: with the built-in rule it differs from eager too: {differs}")
    for name, op, wrong in cases:
        answer.shown(records[name], located(op, records[name]))
        with answer.at("right", name), explorer.workbench(opcodes={op: answer[wrong]}):
            if not position(explorer.compile(answer[name])(*copies((x,))), rights[name]):
                answer.fail(f"`{name}`: with {wrong} the result is still right, {rights[name].tolist()}")
    return ()


def _programs(
    arithmetic: str = "return 2 - x", compared: str = "n = 3\n    return x + 1 if 0 < n < 5 else x - 1"
) -> str:
    return f"def arithmetic(x):\n    {arithmetic}\n\ndef compared(x):\n    {compared}\n"


BROKEN = Puzzle(
    id="symbolic-5",
    title="Show that they are wrong",
    task=(
        "Two rules are wrong, and neither raises an error. Write a function of `x` for each on which what is compiled "
        "with the rule gives another result than eager: `arithmetic` for `number_last`, which takes the place of "
        "`BINARY_OP`, and `compared` for `copied`, which takes the place of `COPY`."
    ),
    minutes=12,
    names=("arithmetic", "compared"),
    given=WRONG_RULES,
    starter=_programs("return ...  # wrong with number_last", "return ...  # wrong with copied"),
    solution=_programs(),
    wrong=(
        Wrong(_programs("return 2 * x"), "right", "`arithmetic`: with number_last the result is still right"),
        Wrong(_programs("return x - 2"), "right", "`arithmetic`: with number_last the result is still right"),
        Wrong(_programs("return torch.sub(2, x)"), "used", "`arithmetic` has no BINARY_OP"),
        Wrong(_programs(compared="n = 3\n    return x + 1 if n < 5 else x - 1"), "used", "`compared` has no COPY"),
        Wrong(_programs(compared="n = 9\n    return x + 1 if 0 < n < 5 else x - 1"), "right",
              "`compared`: with copied the result is still right"),
        Wrong(_programs(compared="d = {'a': x}\n    d['a'] += 1\n    return d['a']"), "compiles",
              "with copied it is not captured whole"),
        Wrong(_programs("return 3"), "defined", "`arithmetic` returns 3, which is no tensor"),
    ),
    hints=(
        "Which operators care about the order of their operands? And where does Python need one value twice?",
        "2 * x is x * 2, and 2 - x is not x - 2. `import dis; dis.dis(compared)` shows where COPY is: a chained "
        "comparison compares its middle value twice.",
        "return 2 - x. And with n = 3: x + 1 if 0 < n < 5 else x - 1, where `copied` compares 0 with 0.",
    ),
    check=check_programs,
)  # fmt: skip

PUZZLES = (STACK, SWAP, UNPACK, BUILD_SET, BROKEN)
