"""Functions split at each of their instructions, on whatever Python runs this.

`python continuations.py` needs no torch, and prints a summary. At a split, the function runs to the instruction for the
first time, and a continuation goes on from there; what it returns, prints and raises must be as before.
"""

# ruff: noqa: B023, E402
from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from explorer.compiler.bytecode.flow import bound, flow, stack_depths
from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture.called_by_bytecode import progress
from explorer.compiler.capture.resume import Continuation, Slot, as_its_own_cells, error_in, split
from explorer.ir.bytecode import Code, Instruction

_NEVER = frozenset(
    "LOAD_METHOD LOAD_SUPER_METHOD PUSH_NULL LOAD_FAST_AND_CLEAR MAKE_CELL MAKE_FUNCTION PUSH_EXC_INFO POP_EXCEPT "
    "RERAISE WITH_EXCEPT_START".split()
)
"""What capture does not split at either, and what pushes a null."""


Places = tuple[Slot | None, ...]
"""What each place of the stack holds, from the bottom; None where that depends."""


def places(code: Code) -> dict[int, Places | None]:
    """The stack before each instruction; None where two ways there differ."""
    edges = flow(code)
    depths = stack_depths(code)
    found: dict[int, Places | None] = {}
    work: list[tuple[int, Places | None]] = [(0, ())]
    while work:
        position, stack = work.pop()
        if position in found and (found[position] is None or found[position] == stack):
            continue
        stack = stack if position not in found else None
        found[position] = stack
        instruction = code.instructions[position]
        for successor, jumps in edges.after[position]:
            work.append((successor, _after(stack, instruction, depths[code.instructions[successor].id], jumps)))
        handler, at = edges.handler[position], edges.handler_at[position]
        if handler is not None and at is not None:
            offset = (None,) * handler.push_offset  # where it was raised: another place in a split body
            work.append((at, None if stack is None else (*stack[: handler.depth], *offset, "value")))
    return found


def _after(stack: Places | None, i: Instruction, depth: int, jumps: bool) -> Places | None:
    if stack is None:
        return () if depth == 0 and i.op != "POP_EXCEPT" else None
    if i.op == "PUSH_NULL":
        return (*stack, "null")
    if i.op == "PUSH_EXC_INFO":
        return (*stack[:-1], "error", "value")
    if i.op in ("LOAD_METHOD", "LOAD_SUPER_METHOD"):
        return (*stack[: depth - 2], None, None)
    if i.op == "LOAD_FAST_AND_CLEAR":
        return (*stack, None)
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
    made: Places = ("value",) * (depth - kept)
    return (*stack[:kept], *made)


def splits(function: types.FunctionType) -> Iterator[tuple[str, types.CodeType]]:
    """For each instruction where `function` can be split: its name, and the code of the whole split there."""
    code = decode(function.__code__)
    if code.flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return
    stacks, names = places(code), bound(code)
    cells = {*code.cells, *code.frees}
    for position, stack in sorted(stacks.items()):
        instruction = code.instructions[position]
        certain, possible = names[instruction.id]
        if stack is None or None in stack or instruction.op in _NEVER or (possible - certain - cells):
            continue
        if instruction.op == "SWAP" and "error" in stack:  # nothing breaks there
            continue
        yield f"{instruction.id} {instruction.op}", encode(divided(code, position, stack, sorted(certain - cells)))


def divided(code: Code, position: int, stack: tuple[Slot, ...], locals: list[str]) -> Code:
    def load(made: Continuation) -> types.CodeType:
        return encode(as_its_own_cells(made.code))

    instructions, _ = split(code, position, stack, locals, base=None, frame="r", load=load)
    found = [build.store_fast(error_in(place)) for place, slot in enumerate(stack) if slot == "error"]
    handlers = code.handlers
    if found:  # whoever jumps to the instruction comes by what keeps the exceptions
        at, moved = instructions[position].id, "r/at"
        first, *rest = _handled(found)
        there = replace(instructions[position], id=moved)
        instructions[position : position + 1] = [replace(first, id=at), *rest, there]
        handlers = tuple(replace(h, end=moved if h.end == at else h.end) for h in handlers)
    numbered = build.number("r", instructions)
    named = [i.arg for i in numbered if i.op in ("LOAD_FAST", "STORE_FAST") and i.arg not in (*code.cells, *code.frees)]
    return replace(code, instructions=numbered, handlers=handlers, locals=tuple(dict.fromkeys((*code.locals, *named))))


def _handled(stores: list[Instruction]) -> list[Instruction]:
    """Keep what is handled, outermost first: each has the one before as its context, in these programs."""
    steps: list[Instruction] = []
    for deep, store in enumerate(reversed(stores)):
        steps += [*build.call([build.load_const(handled)], [[build.load_const(deep)]]), store]
    return steps


def handled(deep: int) -> BaseException | None:
    error = sys.exc_info()[1]
    for _ in range(deep):
        error = error and error.__context__
    return error


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
    """The corpus of `bytecode_corpus`, each case split at each instruction."""
    cases = [case for name, case, _ in roundtrip.corpus() if name not in roundtrip.SEES_LOCALS]
    return sum(check_program(case) for case in cases if isinstance(case, types.FunctionType))


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
    places = sum(map(check_program, PROGRAMS)) + sum(map(check_method, METHODS))
    corpus = check_corpus()
    positions = check_progress()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    print(f"{version}: split at {places} places, {corpus} of the corpus, {positions} positions of iterators")


if __name__ == "__main__":
    main()
