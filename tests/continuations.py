"""Functions split at each of their instructions, on whatever Python runs this.

`python continuations.py` needs no torch, and prints a summary. At a split, the function runs to the instruction for the
first time, and a continuation goes on from there; what it returns, prints and raises must be as before.
"""

# ruff: noqa: B023, E402
from __future__ import annotations

import datetime
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":  # without the packages' own imports, which need torch
    for name in ("explorer", "explorer.compiler.capture"):
        package = types.ModuleType(name)
        package.__path__ = [str(HERE.parent.joinpath(*name.split(".")))]
        sys.modules[name] = package

import bytecode_roundtrip as roundtrip
from explorer.compiler.bytecode import build
from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.encode import encode
from explorer.compiler.bytecode.flow import bound, flow, liveness, stack_depths
from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture.resume import Continuation, Slot, as_its_own_cells, progress, split
from explorer.ir.bytecode import Code, Instruction

_NEVER = frozenset(
    "LOAD_METHOD LOAD_SUPER_METHOD PUSH_NULL LOAD_FAST_AND_CLEAR MAKE_CELL MAKE_FUNCTION PUSH_EXC_INFO POP_EXCEPT "
    "RERAISE WITH_EXCEPT_START".split()
)
"""What capture does not split at either, and what pushes a null."""


@dataclass(frozen=True)
class Places:
    """The stack from the bottom, None where it depends; the cells in whose places comprehensions have their own."""

    stack: tuple[Slot | None, ...] | None
    taken: frozenset[str] = frozenset()


def places(code: Code) -> dict[int, Places]:
    """What is where before each instruction; no stack where two ways there differ."""
    edges = flow(code)
    depths, names = stack_depths(code), bound(code)
    found: dict[int, Places] = {}
    work = [(0, Places(()))]
    while work:
        position, here = work.pop()
        if position in found and (found[position].stack is None or found[position] == here):
            continue
        here = here if position not in found else replace(here, stack=None)
        found[position] = here
        instruction = code.instructions[position]
        aside = _put_aside(code, instruction, here.taken, *names[instruction.id])
        for successor, jumps in edges.after[position]:
            stack = _after(here.stack, instruction, depths[code.instructions[successor].id], jumps, aside)
            work.append((successor, Places(stack, _taken(code, here, instruction))))
        handler, at = edges.handler[position], edges.handler_at[position]
        if handler is not None and at is not None:
            offset = (None,) * handler.push_offset  # where it was raised: another place in a split body
            stack = None if here.stack is None else (*here.stack[: handler.depth], *offset, "value")
            work.append((at, Places(stack, here.taken)))
    return found


def _taken(code: Code, before: Places, i: Instruction) -> frozenset[str]:
    if i.op == "MAKE_CELL" or i.op == "STORE_FAST" and before.stack and before.stack[-1] == "cell":
        return before.taken - {i.arg}
    if i.op in ("STORE_FAST", "LOAD_FAST_AND_CLEAR") and i.arg in (*code.cells, *code.frees):
        return before.taken | {i.arg}
    return before.taken


def _after(
    stack: tuple[Slot | None, ...] | None, i: Instruction, depth: int, jumps: bool, aside: Slot | None
) -> tuple[Slot | None, ...] | None:
    if stack is None:
        return () if depth == 0 and i.op != "POP_EXCEPT" else None
    if i.op == "MAKE_CELL":
        return stack
    if i.op == "PUSH_NULL":
        return (*stack, "null")
    if i.op == "LOAD_FAST_AND_CLEAR":
        return (*stack, aside)
    if i.op == "PUSH_EXC_INFO":
        return (*stack[:-1], "error", "value")
    if i.op in ("LOAD_METHOD", "LOAD_SUPER_METHOD"):
        return (*stack[: depth - 2], None, None)
    if i.op == "SWAP":
        swapped = list(stack)
        swapped[-1], swapped[-i.arg] = swapped[-i.arg], swapped[-1]
        return tuple(swapped)
    before = depth - OPS[i.op].effect(i.arg, jumps)
    if i.op in ("CALL", "CALL_FUNCTION_EX"):
        consumed = before - depth + 1
    else:  # what is under the topmost value that it touches is none of its business; nulls are for calls alone
        consumed = 0 if depth > before else before - depth + (depth == before)
    kept = max(0, before - consumed)
    made: tuple[Slot, ...] = ("value",) * (depth - kept)
    return (*stack[:kept], *made)


def _put_aside(
    code: Code, i: Instruction, taken: frozenset[str], certain: frozenset[str], possible: frozenset[str]
) -> Slot | None:
    """What an inlined comprehension puts on the stack of the variable whose name it has for its own."""
    if i.arg in (*code.cells, *code.frees) and i.arg not in taken:
        return "cell"
    return "value" if i.arg in certain else "null" if i.arg not in possible else None


def splits(function: types.FunctionType) -> Iterator[tuple[str, types.CodeType]]:
    """For each instruction where `function` can be split: its name, and the code of the whole split there."""
    code = decode(function.__code__)
    if code.flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return
    names, live = bound(code), liveness(code)
    for position, here in sorted(places(code).items()):
        instruction = code.instructions[position]
        certain, possible = names[instruction.id]
        cells = {*code.cells, *code.frees} - here.taken
        uncertain = (possible - certain - cells) & live[instruction.id]
        if here.stack is None or None in here.stack or instruction.op in _NEVER or uncertain:
            continue
        named = instruction.op == "STORE_FAST" and instruction.arg in (*code.cells, *code.frees)
        moved = {"SWAP": here.stack, "STORE_FAST": here.stack[-1:]}.get(instruction.op, ())
        if named or {*moved} - {"value"}:  # nothing breaks there
            continue
        made = divided(code, position, here, sorted(certain - cells))
        yield f"{instruction.id} {instruction.op}", encode(made)


def divided(code: Code, position: int, here: Places, locals: list[str]) -> Code:
    def load(made: Continuation) -> types.CodeType:
        return encode(as_its_own_cells(made.code))

    stack, taken = here.stack, sorted(here.taken)
    instructions, _ = split(code, position, stack, locals, taken, base=None, frame="r", load=load)
    numbered = build.number("r", instructions)
    named = [i.arg for i in numbered if i.op in ("LOAD_FAST", "STORE_FAST") and i.arg not in (*code.cells, *code.frees)]
    return replace(code, instructions=numbered, locals=tuple(dict.fromkeys((*code.locals, *named))))


# Functions whose rest is hard to take out: each is called without arguments, and checks nothing itself.


def in_a_loop() -> Any:
    out = []
    for i in range(3):
        for name in ("a", "b"):
            if i == 1:
                continue
            out.append((i, name))
        else:
            out.append("else")
    return out


def in_with_and_try() -> Any:
    import io

    out = []
    with io.StringIO("x\ny") as first, io.StringIO("z") as second:
        for line in first:
            out.append(line.strip() + second.read())
        try:
            out.append(int("3"))
            out.append(int("no"))
        except ValueError as error:
            out.append(str(error))
        else:
            out.append("none")
        finally:
            out.append("finally")
    return out, first.closed, second.closed


def returns_from_with() -> Any:
    import io

    for text in ("ab", "cd"):
        with io.StringIO(text) as file:
            try:
                if text == "cd":
                    return file.read(), file
            finally:
                text = text * 2
    return None


def raises_in_with() -> Any:
    import contextlib

    out = []
    with contextlib.suppress(KeyError):
        out.append(1)
        {}[out[0]]
        out.append(2)
    return out


def in_except_blocks() -> Any:
    out = []
    for name in ("no", "3", None):
        try:
            out.append(int(name))
        except ValueError as error:
            out.append((str(error), sys.exc_info()[0]))
            try:
                raise KeyError(len(out))
            except (TypeError, KeyError) as inner:
                out.append((type(inner.__context__), inner.args))
                continue
            finally:
                out.append(sys.exc_info()[0])
        except TypeError:
            out.append(sys.exc_info()[0])
            name = out.pop()
        else:
            out.append(sys.exc_info()[1])
        finally:
            out.append(name)
    return out, sys.exc_info()[1]


def reraises() -> Any:
    out = []
    try:
        try:
            {}[len(out)]
        except KeyError as error:
            out.append(error.args)
            try:
                raise
            except LookupError as again:
                out.append(again is error)
            raise IndexError(out[0]) from error
    except IndexError as last:
        out.append((type(last.__cause__), last.__suppress_context__))
        raise


def cells_live_across() -> Any:
    count = 0

    def step(by: int = 1) -> int:
        nonlocal count
        count += by
        return count

    first = step()
    count = count * 10
    later = [step(n) for n in range(2)]
    fresh = [(lambda n=n: (n, count)) for n in later]
    del first
    return count, later, [f() for f in fresh]


def arguments_in_cells(a: int = 1, *rest: int, b: int = 2, **more: int) -> Any:
    def read() -> Any:
        return a, rest, b, more

    a += 1
    b = a + b
    return read(), max(a, b)


def comprehensions() -> Any:
    i, j = 10, 20
    keep = lambda: j  # noqa: E731
    squares = [i * i for i in range(3)]
    pairs = {i: [j for j in range(i)] for i in squares if i}
    getters = [lambda: k for k in range(3)]
    shared = [lambda: j for j in range(3)]
    total = sum(n for n in squares)
    return i, j, keep(), squares, pairs, [g() for g in getters], [g() for g in shared], total


def same_comprehension_twice() -> Any:
    made = []
    for k in (1, 2):
        made += [lambda: n for n in [k]]
    return [m() for m in made]


def iterators_on_the_stack() -> Any:
    out = []
    items = [1, 2, 3]
    for i, (x, y) in enumerate(zip(items, reversed(items), strict=True)):
        for z in iter([x, y]):
            out.append(max(i, z))
        if i == 1:
            items.append(4)
            break
    while items:
        out.append(items.pop())
    return out


def expressions() -> Any:
    a, b, *c = range(5)
    d = {"a": a, **{"b": b}}
    e = [*c, a if b else c, a or b, a and b, not a]
    f = f"{a!r:>3}{b}" + f"{max(a, b, key=lambda v: -v)}"
    g = 0 < a < 3 or b < 2 <= 7
    h = print(*c, sep="-", end="\n") or "{}".format(*e)
    return d, e, f, g, h, c[1:], e[-1] is True


def step(x: int, raises: int = 0) -> int:
    if x == raises:
        raise KeyError(x)
    return x + 1


_COMPREHENSION = """
def comprehension_{number}():
    {before}
    out = []
    try:
        out = [{comprehension}]
    except KeyError as error:
        out = [error.args]
    try:
        out = [out, x]
    except UnboundLocalError as error:
        out = [out, str(error)]
    {after}
    return out
"""
_BEFORE = ("x = 'old'", "x = 'old'; del x", "if not step(0): x = 0")
_AFTER = ("", "get = lambda: x; x = step(1); out = [out, get()]")
_COMPREHENSIONS = (
    "[step(x, {raises}) for x in range(1, 4)]",
    "{{step(x) for x in range(1, 4) if step(x, {raises}) > 2}}",
    "{{step(x): step(x, {raises}) for x in range(1, 4)}}",
    "[[step(x, {raises}) + y for y in range(x)] for x in range(1, 4)]",
    "[{{step(x, {raises}) for x in range(x)}} for x in range(1, 4)]",
    "[x + y for x in range(1, 4) for y in range(step(x, {raises}))]",
    "[z for x in range(1, 4) if (z := step(x, {raises})) and z % 2]",
    "max([step(x, {raises}) for x in range(1, 4)], key=lambda v: -v)",
    "[x * y for x, y in enumerate(range(step(1), 5)) if step(y, {raises})]",
    "[(x, [x for x in (step(x, {raises}), 7)], x) for x in range(1, 4)]",
    "[sum(step(y, {raises}) + x for y in range(step(x))) for x in range(1, 4)]",
    "[f() + step(x) for f in [lambda: step(x, {raises}) for x in range(1, 4)]]",
    "[(x, [(lambda: x)() for x in (step(x, {raises}), 7)], x) for x in range(1, 4)]",
)


def inlined_comprehensions(every: bool = False) -> Iterator[Callable[[], Any]]:
    """Since 3.12 a comprehension is part of the function around it, whose variable of that name it puts aside."""
    around = list(product(_AFTER, (0, 3)))
    for number, (text, before) in enumerate(product(_COMPREHENSIONS, _BEFORE)):
        for after, raises in around if every else [around[(number + number // 4) % 4]]:
            made: dict[str, Any] = {}
            parts = {"before": before, "comprehension": text.format(raises=raises), "after": after}
            exec(_COMPREHENSION.format(number=number, **parts), globals(), made)
            yield from made.values()


class Base:
    def __init__(self) -> None:
        self.seen = ["base"]

    def named(self, x: int) -> tuple[str, int]:
        return "base", x


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.seen.append(__class__.__name__)  # noqa: F821

    def named(self, x: int) -> tuple[str, int]:
        kind, y = super().named(x + 1)
        self = super()
        return kind + self.named(y)[0], y


def uses_super() -> Any:
    it = Derived()
    return it.seen, it.named(1)


PROGRAMS: list[Callable[[], Any]] = [
    in_a_loop, in_with_and_try, returns_from_with, raises_in_with, in_except_blocks, reraises, cells_live_across,
    arguments_in_cells,
    comprehensions, same_comprehension_twice, iterators_on_the_stack, expressions,
]  # fmt: skip
METHODS = [Derived.__init__, Derived.named]


def check_program(function: types.FunctionType) -> int:
    """Split everywhere, the function does what it did: at how many places that was tried."""
    expected = comparable(function)
    count = 0
    for where, code in splits(function):
        made = types.FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        made.__kwdefaults__ = function.__kwdefaults__
        found = comparable(made)
        assert found == expected, f"{function.__qualname__} split at {where}:\n{expected}\n{found}"
        count += 1
    return count


def check_method(method: types.FunctionType) -> int:
    """As `check_program`, for a method whose first argument and class super() looks up in the frame."""
    expected = comparable(uses_super)
    original = method.__code__
    count = 0
    for where, code in splits(method):
        method.__code__ = code
        try:
            found = comparable(uses_super)
        finally:
            method.__code__ = original
        assert found == expected, f"{method.__qualname__} split at {where}:\n{expected}\n{found}"
        count += 1
    return count


def comparable(function: Callable[[], Any]) -> dict[str, Any]:
    """What it returns, prints and raises; frames of continuations have names of their own."""
    seen = roundtrip.outcome(function, traced=False)
    return {key: _without_addresses(seen[key]) for key in ("result", "error", "printed") if key in seen}


def _without_addresses(value: Any) -> Any:
    import re

    return re.sub(r"0x[0-9a-f]+", "0x", str(value))


def check_corpus() -> int:
    """The corpus of `bytecode_corpus`, another third of it each day, each case split at each instruction."""
    cases = [case for name, case, _ in roundtrip.corpus() if name not in roundtrip.SEES_LOCALS]
    today = cases[datetime.date.today().toordinal() % 3 :: 3]
    return sum(check_program(case) for case in today if isinstance(case, types.FunctionType))


def check_progress() -> int:
    """What is said of an iterator is where it is; and it can be moved on from there."""
    count = 0
    for kind in (range(6), range(10, 0, -3), list("abcd"), tuple("ab")):
        for done in range(len(kind)):
            for further in range(len(kind) - done + 1):
                iterator = iter(kind)
                for _ in range(done):
                    next(iterator)
                told = progress(iterator)
                assert told is not None
                over, position = told
                assert list(over)[position:] == list(kind)[done:], (kind, done, told)
                iterator.__setstate__(position + further)
                assert list(iterator) == list(kind)[done + further :], (kind, done, further)
                count += 1
        assert progress(zip(kind)) is None
    ended = iter([1])
    assert list(ended) == [1] and progress(ended) is None
    return count


def main() -> None:
    places = sum(map(check_program, [*PROGRAMS, *inlined_comprehensions()])) + sum(map(check_method, METHODS))
    corpus = check_corpus()
    positions = check_progress()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    print(f"{version}: split at {places} places, {corpus} of the corpus, {positions} positions of iterators")


if __name__ == "__main__":
    main()
