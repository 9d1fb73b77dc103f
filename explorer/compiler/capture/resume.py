"""Continuations: the rest of a function after a break, as a function of its own. Stock: resume_execution.py.

Imports no torch, so that it can be tested on any Python.
"""

from __future__ import annotations

import inspect
import logging
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from explorer.compiler.bytecode import build
from explorer.compiler.bytecode.decode import OWN
from explorer.compiler.bytecode.flow import handlers_by_position, liveness, stack_depths
from explorer.compiler.bytecode.ops import OPS
from explorer.core.files import OWN_FILES
from explorer.core.origin import origin, synthetic
from explorer.ir.bytecode import Code, Handler, Instruction

STACK = "___stack"
"""Prefix of a continuation's parameters for the values on the stack."""
ASIDE = "___aside"
"""Prefix of the parameter for a cell that an inlined comprehension has put aside on the stack."""
OWN_OF = "___own_"
"""Prefix, before a cell's name, of the parameter for the value that a comprehension has in the cell's place."""
NO_CELL = types.CellType()
"""The placeholder in that place until the value is there."""
TEMP = "___t"
"""Prefix of the temporaries of compiled bytecode."""
ERROR = "___error"
"""Prefix of the locals that hold the exceptions being handled at a break."""


Slot = Literal["value", "null", "cell", "error"]
"""What a place of the stack holds: a value; CPython's null; a cell that an inlined comprehension has put aside; or, in
an except block, the exception handled before, where the one handled now is what has to be put back."""


@dataclass(frozen=True)
class Continuation:
    """`code` takes `arguments`: locals still needed, then what was on the stack (for an "error" the exception handled).
    `frees` are its cells' names."""

    code: Code
    arguments: tuple[str, ...]
    frees: tuple[str, ...]


def continuation(
    original: Code, target: str, stack: Sequence[Slot], bound: Sequence[str], taken: Sequence[str] = ()
) -> Continuation:
    """The function that continues at instruction `target`, given the locals that are bound.

    `stack` says, from the bottom, what its entries are, `taken` in which cells' places an inlined comprehension has a
    variable of its own.

    Cells of the original become free variables, so that functions made before the break still share them. The first
    argument stays the first: super() without arguments looks for it there.
    """
    cells = (*original.cells, *original.frees)
    live = liveness(original)[target]
    needed = [name for name in original.locals if name in live and name not in cells]
    locals = [name for name in needed if name in bound]
    names = [f"{ASIDE if slot == 'cell' else STACK}{n}" for n, slot in enumerate(stack)]
    own = [name for name in taken if name in bound]
    slots = [names[n] for n, slot in enumerate(stack) if slot != "null"] + [OWN_OF + name for name in own]
    arguments = (*locals, *slots)
    name = f"resume_in_{original.name}_at_{target.rpartition('@')[2]}"
    for kind, word in (("null", "nulls"), ("cell", "cells"), ("error", "handling")):
        if kind in stack:
            name += f"_{word}_{'_'.join(str(n) for n, slot in enumerate(stack) if slot == kind)}"
    if missing := [name for name in needed if name not in locals]:
        name += f"_without_{'_'.join(missing)}"
    if taken:
        name += f"_own_{'_'.join(each if each in own else f'no_{each}' for each in taken)}"
    with origin(synthetic("continuation entry")):
        entry, handlers = restored(stack, lambda n: build.load_fast(names[n]), name)
        for each in taken:
            entry += [build.instruction("LOAD_FAST_AND_CLEAR", each), build.pop_top()]
            entry += [build.load_fast(OWN_OF + each), build.store_fast(each)] if each in own else []
        # The stack entries themselves must not stay bound twice: what the original drops has to die.
        entry += [build.delete_fast(slot) for slot in slots]
        entry.append(build.jump(target))
    entry = build.at(original.instructions[original.index[target]].span, entry)
    instructions = build.number(name, [*entry, *original.instructions])
    locals = [*original.locals, *(step.arg for step in entry if step.op == "STORE_FAST")]
    code = replace(
        original,
        name=name,
        qualname=f"{original.qualname.rpartition('.')[0]}.{name}".lstrip("."),
        arg_count=len(arguments),
        positional_only=0,
        keyword_only=0,
        flags=(original.flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)) | (inspect.CO_NESTED if cells else 0),
        locals=(*arguments, *dict.fromkeys(n for n in locals if n not in arguments and n not in cells)),
        cells=(),
        frees=cells,
        instructions=instructions,
        handlers=(*original.handlers, *handlers),
        original=None,
        owned=original.owned | set(original.cells),
    )
    return Continuation(code, arguments, cells)


def as_its_own_cells(code: Code) -> Code:
    """`code`, to be run as it is: an empty cell of the function that it continues is an unbound local, as there, where
    Python would call it a free variable. A local of the cell's name, which nothing binds, raises that."""
    depths, taken = stack_depths(code), handlers_by_position(code)
    steps: list[Instruction] = []
    handlers: list[Handler] = []
    names: dict[str, None] = {}
    for position, read in enumerate(code.instructions):
        if read.op not in ("LOAD_DEREF", "DELETE_DEREF") or read.arg not in code.owned or read.id not in depths:
            continue
        unbound = f"{read.arg}{OWN}"
        first, last = f"{read.id}/empty", f"{read.id}/unbound"
        names[unbound] = None
        raises = [replace(build.pop_top(), id=first), replace(build.load_fast(unbound), id=last)]
        steps += build.at(read.span, [*raises, replace(build.return_value(), id=f"{last}/never")])
        handlers.append(Handler(read.id, read.id, first, depths[read.id], False))
        if (outer := taken[position]) is not None:
            handlers.append(replace(outer, start=first, end=last))
    return replace(
        code,
        instructions=(*code.instructions, *steps),
        handlers=(*code.handlers, *handlers),
        locals=tuple(dict.fromkeys((*code.locals, *names))),
    )


def restored(
    stack: Sequence[Slot], load: Callable[[int], Instruction], prefix: str
) -> tuple[list[Instruction], list[Handler]]:
    """Put the stack back, each entry by `load` of its place; an exception is raised and caught, so that it is handled.

    Ids that handlers name begin with `prefix`.
    """
    steps: list[Instruction] = []
    handlers: list[Handler] = []
    for place, slot in enumerate(stack):
        if slot == "null":
            steps.append(build.instruction("PUSH_NULL"))
        elif slot != "error":
            steps.append(load(place))
        else:
            raising = replace(build.raise_top(), id=f"{prefix}/raise{place}")
            caught = build.label(f"{prefix}/caught{place}")
            handlers.append(Handler(raising.id, raising.id, caught.id, place, False))
            traceback = f"{ERROR}{place}_traceback"
            steps += [*build.call([build.load_const(traceback_of)], [[load(place)]]), build.store_fast(traceback)]
            steps += [load(place), raising, caught, build.instruction("PUSH_EXC_INFO"), build.pop_top()]
            given = [[load(place)], [build.load_fast(traceback)]]
            steps += [*build.call([build.load_const(as_it_was)], given), build.pop_top()]
            steps.append(build.delete_fast(traceback))
    return steps, handlers


def split(
    code: Code,
    position: int,
    stack: Sequence[Slot],
    bound: Sequence[str],
    taken: Sequence[str] = (),
    *,
    base: Code | None,
    is_continuation: bool = False,
    frame: str,
    load: Callable[[Continuation], object],
    once: str = "",
) -> tuple[list[Instruction], list[Continuation]]:
    """The body of `code` with instruction `position` followed by calls of continuations, one for each way it may go.

    Before the instruction the stack holds what `stack` says, from the bottom, the locals `bound` are bound, and inlined
    comprehensions have variables of their own in the places of the cells `taken`. `base` is the function that `code`
    itself continues, or did when it was compiled before. Where `code` is a continuation, the call is left to what runs
    that. `load` gives the constant from which the code object of a continuation is read; new ids begin with `frame`.
    With `once`, the continuations follow a copy of the instruction of that id: the instruction itself stays as it was,
    for where the body comes back to it, other locals are bound.
    """
    instruction = code.instructions[position]
    depths = stack_depths(code)
    calls: list[Instruction] = []
    continuations: list[Continuation] = []
    labels: dict[bool, str] = {}
    for target, jumps in _after(code, position):
        depth = depths[target]
        errors = [place for place, slot in enumerate(stack) if slot == "error"]
        kept = max(_kept(instruction, jumps, len(stack), depth), *(place + 1 for place in errors), 0)
        there: list[Slot] = [*stack[:kept], *["value"] * (depth - kept)]  # type: ignore[list-item]
        names = list(bound)
        stored = instruction.arg if instruction.op == "STORE_FAST" else None
        if stored is not None and stored not in names:
            names.append(stored)
        made = continuation(base or code, target, there, names, taken)
        continuations.append(made)
        labels[jumps] = f"{frame}/onward{'_jump' if jumps else ''}"
        how = NextContinuation if is_continuation else run_continuations
        call_next = _call_continuation(made, load(made), labels[jumps], there, taken, how)
        calls += build.at(instruction.span, call_next)
    body = list(code.instructions)
    placed = [replace(instruction, id=once or instruction.id, target=labels.get(True))]
    if False in labels:
        with origin(synthetic("to the continuation")):
            placed.append(build.jump(labels[False]))
    if once:
        return [*body, *placed, *calls], continuations
    return [*body[:position], *placed, *body[position + 1 :], *calls], continuations


def _after(code: Code, position: int) -> list[tuple[str, bool]]:
    """Where instruction `position` may go: (id of the next instruction, past jumps alone, whether by the jump)."""
    instruction = code.instructions[position]
    op = OPS[instruction.op]
    found: list[tuple[str, bool]] = []
    if op.falls and position + 1 < len(code.instructions):
        found.append((_landing(code, code.instructions[position + 1].id), False))
    if op.jumps and instruction.target is not None:
        found.append((_landing(code, instruction.target), True))
    return found


def _landing(code: Code, target: str) -> str:
    """The instruction that control reaches from `target`: a loop whose test Python 3.13 ends in a jump then has one
    continuation."""
    index, passed = code.index, set[str]()
    while (step := code.instructions[index[target]]).op == "JUMP" and not step.arg and target not in passed:
        passed.add(target)
        assert step.target is not None
        target = step.target
    return target


def _kept(instruction: Instruction, jumps: bool, before: int, after: int) -> int:
    """The number of values at the bottom of the stack that the instruction does not touch."""
    consumed: dict[str, Callable[[Any], int]] = {
        "CALL": lambda arg: arg[0] + 2, "CALL_FUNCTION_EX": lambda arg: 3 + bool(arg), "FOR_ITER": lambda arg: 0,
        "BUILD_STRING": lambda arg: arg, "BUILD_SLICE": lambda arg: arg,
    }  # fmt: skip
    known = consumed.get(instruction.op)
    if known is not None:
        return min(before - known(instruction.arg), after)
    return min(before, after) - (1 if after == before else 0) if before else 0


def _call_continuation(
    made: Continuation,
    constant: object,
    label: str,
    stack: Sequence[Slot],
    taken: Sequence[str],
    how: Callable[..., object],
) -> list[Instruction]:
    """At `label`: the stack's values into temporaries; what `how` makes of the continuation and its arguments."""
    with origin(synthetic("to the continuation")):
        steps = [build.label(label)]
        for place, slot in reversed(list(enumerate(stack))):
            if slot == "error":
                steps += [*build.call([build.load_const(sys.exception)], []), build.store_fast(error_in(place))]
                steps.append(build.instruction("POP_EXCEPT"))
            else:
                steps.append(build.store_fast(f"{TEMP}s{place}"))
        held = {f"{STACK}{n}": error_in(n) if slot == "error" else f"{TEMP}s{n}" for n, slot in enumerate(stack)}
        held |= {f"{ASIDE}{n}": f"{TEMP}s{n}" for n in range(len(stack))} | {OWN_OF + name: name for name in taken}
        cells = [build.load_const(NO_CELL) if n in taken else build.load_closure(n) for n in made.frees]
        closure = [*cells, build.build_tuple(len(cells))]
        function = build.make_function(constant, [("closure", closure)] if cells else [])
        arguments = [[build.load_fast(held.get(name, name))] for name in made.arguments]
        call = build.call([build.load_const(how)], [function, *arguments])
        # The frame is in the exception's traceback: with the exception in a local, neither would ever be let go.
        errors = [build.delete_fast(error_in(place)) for place, slot in enumerate(stack) if slot == "error"]
        return [*steps, *call[:-1], *errors, call[-1], build.return_value()]


def error_in(place: int) -> str:
    """The local that holds the exception which is handled since the stack had `place` entries."""
    return f"{ERROR}{place}"


# ----------------------------------------------------------------------------------------- what compiled bytecode calls
#
# The trampoline through continuations, how far Python's loop iterators are, and warnings and log lines that happen
# where the traced program made them.


_WALKED: tuple[Iterable[object], ...] = ([], (), range(0), "", "\u0101", b"")
KINDS = frozenset(type(iter(each)) for each in _WALKED)


def progress(iterator: Any) -> tuple[Any, int] | None:
    """What the iterator goes over, and its position in that; None for one that has ended or is of another kind.

    Since 3.12 an iterator over a range goes over the rest alone, and its position, not told, is always 0. In both ways
    `iterator.__setstate__(n)` puts it at position n of what this function says that it goes over.
    """
    if type(iterator) not in KINDS:
        return None
    parts = iterator.__reduce__()
    if len(parts) != 3:
        return None
    return parts[1][0], parts[2] or 0


class NextContinuation:
    """The result of a continuation that another one follows: a call of that one."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.function = function
        self.arguments = arguments


def traceback_of(error: BaseException) -> types.TracebackType | None:
    return error.__traceback__


def as_it_was(error: BaseException, traceback: types.TracebackType | None) -> None:
    """Undo what raising `error` again, in order to handle it again, did to its traceback."""
    if traceback is not None:
        error.__traceback__ = traceback


def run_continuations(function: Callable[..., object], *arguments: object) -> Any:
    """Call a continuation, and those that follow it, and return the result of the function that broke."""
    made = function(*arguments)
    while type(made) is NextContinuation:
        made = made.function(*made.arguments)
    return made


OURS = (OWN_FILES, "<call of ")
"""Files of frames that the program does not have."""


def warn(message: Any, category: type[Warning] | None, file: str, line: int, namespace: dict[str, Any]) -> None:
    """warnings.warn, as if called at a line of a file by a module whose globals are `namespace`."""
    registry = namespace.setdefault("__warningregistry__", {})
    kind = type(message) if isinstance(message, Warning) else category or UserWarning
    warnings.warn_explicit(message, kind, file, line, namespace.get("__name__") or "<unknown>", registry)


def warn_caller(message: object, category: type[Warning] | None, above: int) -> None:
    """warnings.warn, as if called in the `above`th frame of the program over the compiled function that calls this."""
    frames = _frames(sys._getframe(1))
    for _ in range(above):
        next(frames, None)
    frame = next(frames, None)
    if frame is None:
        warn(message, category, "sys", 0, vars(sys))
    else:
        warn(message, category, frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


def _frames(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """The frames that the program has, innermost first: a function is one with all its continuations."""
    same = False
    while frame is not None:
        if not frame.f_code.co_filename.startswith(OURS):
            if not same:
                yield frame
            same = frame.f_code.co_name.startswith("resume_in_")
        frame = frame.f_back


def log(
    logger: logging.Logger, level: int, message: object, args: tuple[object, ...], place: tuple[str, int, str]
) -> None:
    """Logger.log, as if called at `place`: (file, line, function)."""
    if logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(logger.name, level, *place[:2], message, args, None, place[2]))
