"""Lesson 11: printers of C++ and Triton."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

import explorer
from explorer.course.compared import (
    Labeled,
    agree,
    explored,
    position,
    ruled,
    showing,
    uses,
    why_not_compiled,
    with_rule,
)  # fmt: skip
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong, run
from explorer.show.record import Record

NAN, INFINITY = float("nan"), float("inf")
TARGET = "cuda:sm_90"
VALUES = (0.0, -0.0, 1.0, -1.0, 6.5, INFINITY, -INFINITY, NAN)


def printed(answer: Answer, name: str, function: Callable[..., object], operands: int) -> tuple[Score, ...]:
    """Check a rule that prints the C++ of one operation."""
    rules: dict[str, Any] = {"printers": {"cpp": {name: answer["rule"]}}}
    args = tuple(torch.ones(17) for _ in range(operands))
    record = with_rule(answer, function, args, rules)
    if operands == 1:
        inputs: list[Labeled] = [(f"x = {value}", (torch.tensor([value]),)) for value in VALUES]
    else:
        inputs = [(f"{a}, {b}", (torch.tensor([a]), torch.tensor([b]))) for a in (1.0, -2.0, NAN) for b in (3.0, NAN)]
    for size in (0, 15, 16, 1023):
        many = tuple(torch.linspace(-3, 2 + at, size) for at in range(operands))
        inputs += [(f"{size} elements", many), (f"{size} elements in float64", tuple(x.double() for x in many))]
    with explorer.workbench(**rules):
        agree(answer, explorer.compile(function, dynamic=True), function, inputs)
    yours, built_in = instructions(record), instructions(explored(function, *args))
    return (Score("machine instructions", yours, built_in),)


def instructions(record: Record, form: str = "asm") -> int:
    """Of the kernels, as the C++ compiler made them, or in another form."""
    made = (kernel.lowered[form] for kernel in record.kernels if form in kernel.lowered)
    return sum(line.text.startswith((" ", "\t")) for text in made for line in text.lines)


# printers-1: relu


def check_relu(answer: Answer) -> tuple[Score, ...]:
    return printed(answer, "relu", lambda x: torch.relu(x) * 2, 1)


RELU = Puzzle(
    id="printers-1",
    title="A line of C++",
    task="Write the C++ expression of `relu` for one element.",
    minutes=12,
    names=("rule",),
    given='''# rule(dtype, x) -> the C++ expression of relu of x. x is the name of a variable (float, double, ...),
# dtype its torch dtype. In C++, condition ? a : b is a choice.
''',
    starter='''def rule(dtype, x):
    return ...
''',
    solution='''def rule(dtype, x):
    return f"{x} < 0 ? 0 : {x}"
''',
    wrong=(
        Wrong('def rule(dtype, x):\n    return f"{x} > 0 ? {x} : 0"\n', "right", "on x = nan"),
        Wrong('def rule(dtype, x):\n    return f"__builtin_fmax({x}, 0.0)"\n', "right", "on x = nan"),
        Wrong('def rule(dtype, x):\n    return f"max({x}, 0)"\n', "compiles", "max"),
        Wrong('def rule(dtype, x):\n    return f"{x} * ({x} > 0)"\n', "right", "on x = -inf"),
        Wrong('def rule(dtype, x):\n    return "x0 < 0 ? 0 : 1.0f"\n', "right", "yours gives"),
    ),
    hints=(
        "torch.relu(nan) is nan. Which comparison with nan is true?",
        "None is. So say when the result is 0, and give x otherwise.",
        'f"{x} < 0 ? 0 : {x}"',
    ),
    check=check_relu,
)  # fmt: skip

# printers-2: minimum


def check_minimum(answer: Answer) -> tuple[Score, ...]:
    return printed(answer, "minimum", lambda a, b: torch.minimum(a, b) + 1, 2)


MINIMUM = Puzzle(
    id="printers-2",
    title="Not a number",
    task="Write the C++ expression of `torch.minimum` for one element. NaN is the trap.",
    minutes=10,
    names=("rule",),
    given='''# rule(dtype, a, b) -> the C++ expression of torch.minimum(a, b), which is nan if one of the two is.
''',
    starter='''def rule(dtype, a, b):
    return ...
''',
    solution='''def rule(dtype, a, b):
    return f"({a} != {a} || {a} < {b}) ? {a} : {b}"
''',
    wrong=(
        Wrong('def rule(dtype, a, b):\n    return f"{a} < {b} ? {a} : {b}"\n', "right", "on nan, 3.0"),
        Wrong('def rule(dtype, a, b):\n    return f"{b} < {a} ? {b} : {a}"\n', "right", "on 1.0, nan"),
        Wrong('def rule(dtype, a, b):\n    return f"__builtin_fmin({a}, {b})"\n', "right", "nan"),
        Wrong('def rule(dtype, a):\n    return f"{a}"\n', "compiles", "TypeError"),
    ),
    hints=(
        "With nan on one side every comparison is false, so the other branch is taken.",
        "x != x is true for nan alone.",
        'f"({a} != {a} || {a} < {b}) ? {a} : {b}"',
    ),
    check=check_minimum,
)  # fmt: skip

# printers-3: the tail


def coded(record: Record) -> str:
    """Where a record has the first line of its kernel that has a mask."""
    lines = (line.id for line in record.kernels[0].source.lines if "mask =" in line.text)
    return record.link("code", "f0", element=next(lines, "k0"))


def check_mask(answer: Answer) -> tuple[Score, ...]:
    lanes = least = 0
    show = showing(lambda x: x * 2, (torch.ones(17),), coded, target=TARGET)
    for block in (1, 4, 16):
        for size in (0, 1, 15, 16, 17, 1023):
            what = f"{size} elements in blocks of {block}"
            with answer.at("right", what, show):
                count = answer["programs"](size, block)
                if not isinstance(count, int) or count < 0:
                    answer.fail(f"{what}: programs gives {count!r}")
                seen = [0] * size
                for program in range(min(count, 5000)):
                    mask = answer["mask"](program, size, block)
                    if len(mask) != block:
                        answer.fail(f"{what}: the mask of program {program} has {len(mask)} lanes")
                    for lane, on in enumerate(mask):
                        at = program * block + lane
                        if on and at >= size:
                            answer.fail(f"{what}: program {program} touches element {at}, which is not there")
                        if on:
                            seen[at] += 1
                if 0 in seen:
                    answer.fail(f"{what}: element {seen.index(0)} is left out")
            lanes, least = lanes + count * block, least + -(-size // block) * block
    with answer.at("score"):
        if lanes > least:
            answer.fail(f"{lanes} lanes are started in all; {least} are enough")
    return (Score("lanes", lanes, least),)


MASK = Puzzle(
    id="printers-3",
    title="The tail",
    task=(
        "Write how many programs of a Triton kernel cover a tensor, and which of a program's lanes have an "
        "element."
    ),
    minutes=10,
    names=("programs", "mask"),
    given='''# A Triton kernel runs as many programs, each over `block` lanes: program p has the elements from
# p * block on. Where block does not divide size, some lanes of the last program must be masked.
''',
    starter='''def programs(size, block):
    """How many programs are started."""
    return ...

def mask(program, size, block):
    """For each lane of a program, whether it has an element."""
    return ...
''',
    solution='''def programs(size, block):
    return (size + block - 1) // block

def mask(program, size, block):
    return [program * block + lane < size for lane in range(block)]
''',
    wrong=(
        Wrong('''def programs(size, block):
    return size // block

def mask(program, size, block):
    return [program * block + lane < size for lane in range(block)]
''', "right", "element 0 is left out"),
        Wrong('''def programs(size, block):
    return (size + block - 1) // block

def mask(program, size, block):
    return [program * block + lane <= size for lane in range(block)]
''', "right", "touches element 1, which is not there"),
        Wrong('''def programs(size, block):
    return size // block + 1

def mask(program, size, block):
    return [program * block + lane < size for lane in range(block)]
''', "score", "are enough"),
        Wrong('''def programs(size, block):
    return (size + block - 1) // block

def mask(program, size, block):
    return [lane < size % block for lane in range(block)]
''', "right", "is left out"),
    ),
    hints=(
        "How many blocks cover `size` elements? Round up.",
        "Lane i of program p has element p * block + i. Is there one?",
        "(size + block - 1) // block programs; p * block + i < size.",
    ),
    check=check_mask,
)  # fmt: skip

# printers-4: the roofline

ROOFLINE = """import torch

# A machine reads and writes BANDWIDTH bytes in a second, and does PEAK operations on floats, both at the same time.
BANDWIDTH, PEAK = 20e9, 80e9

def scaled(x):
    return x * 2 + 1

def series(x):
    y = x
    for _ in range(40):
        y = y * 0.5 + 1
    return y

def summed(x):
    return x.sum(-1)

def softmax(x):
    return torch.softmax(x, dim=-1)

def waves(x):
    return x.sin() + x.cos() * x.exp()

# Each is one kernel. exp, sin and cos are counted as 16 operations, a quotient as 4, all others as 1.
x = torch.linspace(-1, 1, 64 * 96).view(64, 96)
functions = [scaled, series, summed, softmax, waves]
"""
SIDES = ("memory", "arithmetic")


def check_roofline(answer: Answer) -> tuple[Score, ...]:
    bounds, names = answer["bound"], [function.__name__ for function in answer["functions"]]
    with answer.at("defined"):
        if not isinstance(bounds, dict) or list(bounds) != names:
            answer.fail(f"`bound` is a dict with the keys {', '.join(names)}")
        if strange := [each for each in bounds.values() if each not in SIDES]:
            answer.fail(f"{strange[0]!r} is none of {', '.join(map(repr, SIDES))}")
    for function in answer["functions"]:
        name = function.__name__
        with answer.at("right", name):
            record = explored(function, answer["x"])
            [kernel] = record.data.compiles[0].halves[0].kernels
            answer.shown(record, record.link("schedule", "f0", element=kernel.id))
            times = kernel.bytes / answer["BANDWIDTH"], kernel.flops / answer["PEAK"]
            does = f"{name}: {kernel.bytes} bytes and {kernel.flops} operations"
            found = answer["seconds"](kernel.bytes, kernel.flops)
            if abs(found - max(times)) > 1e-6 * max(times):
                answer.fail(f"{does}: yours gives {found!r} seconds, and the machine needs {max(times):.3g}")
            right = SIDES[times.index(max(times))]
            if bounds[name] != right:
                both = " and ".join(f"{1e6 * time:.3g} us for {side}" for time, side in zip(times, SIDES, strict=True))
                answer.fail(f"{does} take {both}: you said {bounds[name]}, it is bound by {right}")
    return ()


_BOUND = {"scaled": "memory", "series": "arithmetic", "summed": "memory", "softmax": "memory", "waves": "arithmetic"}


def _roofline(seconds: str = "max(nbytes / BANDWIDTH, flops / PEAK)", **changed: str) -> str:
    lines = "".join(f"    {name!r}: {side!r},\n" for name, side in {**_BOUND, **changed}.items())
    return f"def seconds(nbytes, flops):\n    return {seconds}\n\nbound = {{\n{lines}}}\n"


BOUND = Puzzle(
    id="printers-4",
    title="The roofline",
    task=(
        "A kernel takes at least the time for its bytes and at least the time for its operations. Write that time as a "
        "function of both, and say of each of the five kernels which of the two bounds it: `\"memory\"` or "
        "`\"arithmetic\"`."
    ),
    minutes=12,
    names=("seconds", "bound"),
    given=ROOFLINE,
    starter=_roofline("...  # at least", **dict.fromkeys(_BOUND, "...")).replace("'...'", "..."),
    solution=_roofline(),
    wrong=(
        Wrong(_roofline("nbytes / BANDWIDTH + flops / PEAK"), "right",
              "scaled: 49152 bytes and 12288 operations: yours gives"),
        Wrong(_roofline("nbytes / BANDWIDTH"), "right", "series: 49152 bytes and 491520 operations: yours gives"),
        Wrong(_roofline(scaled="arithmetic"), "right", "you said arithmetic, it is bound by memory"),
        Wrong(_roofline(softmax="arithmetic"), "right", "softmax: 49152 bytes and 141312 operations take"),
        Wrong(_roofline(waves="memory"), "right", "you said memory, it is bound by arithmetic"),
        Wrong(_roofline(series="cache"), "defined", "'cache' is none of"),
    ),
    hints=(
        "Both happen at the same time. Which of the two is waited for?",
        "This machine does 4 operations in the time of a byte. A float32 that is read and written is 8 bytes.",
        "max(nbytes / BANDWIDTH, flops / PEAK). softmax: about 23 operations for 8 bytes; waves: 50; series: 80.",
    ),
    check=check_roofline,
)  # fmt: skip

# printers-5: tanh, in Triton

POINTS = (0.0, 0.001, -0.3, 1.0, -2.0, 30.0, -30.0, 100.0, -100.0, INFINITY, -INFINITY, NAN)


def twice_tanh(x: Any) -> Any:
    return torch.tanh(x) * 2


class _Language:
    """Triton's language for its interpreter, which runs builtins: of functions that are written in Triton, their
    Python."""

    def __getattr__(self, name: str) -> Any:
        import triton.language as tl
        from triton.runtime import JITFunction

        found = getattr(tl, name)
        return found.fn if isinstance(found, JITFunction) else found


def interpreted(record: Record, x: torch.Tensor) -> torch.Tensor:
    """What the record's one kernel gives for x, run by Triton's interpreter on the CPU. It has one program."""
    import triton.language
    from triton.runtime.interpreter import InterpretedFunction

    [kernel] = record.kernels
    names = {"triton": types.SimpleNamespace(jit=InterpretedFunction), "tl": _Language(), "language": triton.language}
    run(str(kernel.source), f"<kernel {kernel.function}>", names)
    out = torch.empty_like(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow is no error on a GPU
        names[kernel.function][(1,)](x, out, XBLOCK=triton.next_power_of_2(len(x)))
    return out


def refused(record: Record) -> str:
    """What Triton says of a kernel: its text names the line first, and ends in what is wrong."""
    fallback = record.data.compiles[0].fallback
    return (fallback.detail.splitlines() or [""])[-1] if fallback is not None else why_not_compiled(record)


def check_triton(answer: Answer) -> tuple[Score, ...]:
    x = torch.tensor(POINTS)
    show = showing(twice_tanh, (x,), lambda record: "code", target=TARGET)
    with answer.at("defined"):
        if "libdevice" in (text := str(answer["rule"](torch.float32, "x"))):
            answer.fail(f"{text}: this puzzle is to be solved without libdevice")
    with answer.at("compiles", show=show), explorer.workbench(printers={"triton": {"tanh": answer["rule"]}}):
        record = explored(twice_tanh, x, target=TARGET)
        answer.shown(record, ruled(record))
        if not record.kernels or "ptx" not in record.kernels[0].lowered:
            answer.fail(f"`{text}`: {refused(record)}")
    with answer.at("used"):
        if not uses(record):
            answer.fail("the record shows nothing that your rule made")
    with answer.at("right", "the GPU's kernel, interpreted"):
        yours, right = interpreted(record, x), twice_tanh(x)
        for value, one, other in zip(POINTS, yours, right, strict=True):
            if differs := position(one, other):
                answer.fail(f"on x = {value:g}, {differs}")
    built_in = explored(twice_tanh, x, target=TARGET)
    return (Score("PTX instructions", instructions(record, "ptx"), instructions(built_in, "ptx")),)


TRITON = Puzzle(
    id="printers-5",
    title="A block of Triton",
    task=(
        "Triton's own functions lack `tanh`: the built-in rule calls NVIDIA's library, `libdevice.tanh`. Write it with "
        "`tl.exp`. The kernel is compiled to PTX, and Triton's interpreter runs it: no GPU is needed."
    ),
    minutes=12,
    names=("rule",),
    given='''# rule(dtype, x) -> the Triton expression of tanh of x. x is the name of a block of floats, many at once.
# tl.exp, tl.abs, tl.minimum, tl.where(condition, a, b) take and give blocks. Python's `if`, `and` and `or` do not.
# With e = exp(2x), tanh(x) = (e - 1) / (e + 1). What is it in float32 for x = 100?
''',
    starter='''def rule(dtype, x):
    return ...
''',
    solution='''def rule(dtype, x):
    return f"1 - 2 / (tl.exp(2 * {x}) + 1)"
''',
    wrong=(
        Wrong('def rule(dtype, x):\n    return f"(tl.exp(2 * {x}) - 1) / (tl.exp(2 * {x}) + 1)"\n', "right",
              "on x = 100, yours gives nan, eager 2"),
        Wrong('def rule(dtype, x):\n    return f"1 - 2 / (tl.exp(2 * tl.minimum({x}, 20.0)) + 1)"\n', "right",
              "on x = nan"),
        Wrong('def rule(dtype, x):\n    return f"1 - 2 / (tl.exp(2 * tl.abs({x})) + 1)"\n', "right", "on x = -0.3"),
        Wrong('def rule(dtype, x):\n    return f"tl.tanh({x})"\n', "compiles",
              "`tl.tanh(x)`: AttributeError(\"module 'triton.language' has no attribute 'tanh'\")"),
        Wrong('def rule(dtype, x):\n    return f"1.0 if {x} > 9 else 1 - 2 / (tl.exp(2 * {x}) + 1)"\n', "compiles",
              "Ternary expression with dynamic condition"),
        Wrong('def rule(dtype, x):\n    return f"libdevice.tanh({x})"\n', "defined", "without libdevice"),
    ),
    hints=(
        "exp(200) is inf in float32, and inf / inf is nan. 2 / inf is 0.",
        "(e - 1) / (e + 1) = 1 - 2 / (e + 1)",
        'f"1 - 2 / (tl.exp(2 * {x}) + 1)"',
    ),
    check=check_triton,
)  # fmt: skip

PUZZLES = (RELU, MINIMUM, MASK, BOUND, TRITON)
