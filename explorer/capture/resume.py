"""Continuations: the rest of a function after a break, as a function of its own. Stock: resume_execution.py.

Imports no torch, so that it can be tested on any Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.bytecode import build
from explorer.bytecode.flow import liveness, stack_depths
from explorer.bytecode.ops import OPS
from explorer.capture.onward import Again, go_on
from explorer.core.origin import origin, synthetic
from explorer.ir.bytecode import Code, Instruction

STACK = "___stack"
"""How the parameters of a continuation are called that hold what was on the stack."""
TEMP = "___t"
"""How temporaries of residual code are called."""


@dataclass(frozen=True)
class Continuation:
    """`code` takes `arguments`: locals still needed, then what was on the stack. `frees` are its cells' names."""

    code: Code
    arguments: tuple[str, ...]
    frees: tuple[str, ...]


def continuation(original: Code, target: str, stack: Sequence[bool], bound: Sequence[str]) -> Continuation:
    """The function that goes on at instruction `target`, given the locals that are bound.

    `stack` says, from the bottom, which entries are no null.

    Cells of the original become free variables, so that functions made before the break still share them. The first
    argument stays the first: super() without arguments looks for it there.
    """
    cells = (*original.cells, *original.frees)
    needed = [name for name in original.locals if name in liveness(original)[target] and name not in cells]
    locals = [name for name in needed if name in bound]
    slots = [f"{STACK}{n}" for n, present in enumerate(stack) if present]
    arguments = (*locals, *slots)
    with origin(synthetic("continuation entry")):
        entry = [
            build.load_fast(f"{STACK}{n}") if present else build.instruction("PUSH_NULL")
            for n, present in enumerate(stack)
        ]
        # The stack entries themselves must not stay bound twice: what the original drops has to die.
        entry += [step for slot in slots for step in (build.load_const(None), build.store_fast(slot))]
        entry.append(build.jump(target))
    entry = build.at(original.instructions[original.index[target]].span, entry)
    name = f"resume_in_{original.name}_at_{target.rpartition('@')[2]}"
    if not all(stack):
        name += f"_nulls_{'_'.join(str(n) for n, present in enumerate(stack) if not present)}"
    if missing := [name for name in needed if name not in locals]:
        name += f"_without_{'_'.join(missing)}"
    code = replace(
        original,
        name=name,
        qualname=f"{original.qualname.rpartition('.')[0]}.{name}".lstrip("."),
        arg_count=len(arguments),
        positional_only=0,
        keyword_only=0,
        flags=(original.flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)) | (inspect.CO_NESTED if cells else 0),
        locals=(*arguments, *(n for n in original.locals if n not in arguments and n not in cells)),
        cells=(),
        frees=cells,
        instructions=build.number(name, [*entry, *original.instructions]),
        original=None,
    )
    return Continuation(code, arguments, cells)


def split(
    code: Code,
    position: int,
    present: Sequence[bool],
    bound: Sequence[str],
    *,
    base: Code | None,
    is_continuation: bool = False,
    frame: str,
    load: Callable[[Continuation], Any],
) -> tuple[list[Instruction], list[Continuation]]:
    """The body of `code` with instruction `position` followed by calls of continuations, one for each way it may go.

    Before the instruction the stack holds a value (or a null, where `present` is False) for each of `present`, from the
    bottom, and the locals `bound` are bound. `base` is the function that `code` itself continues, or did when it was
    compiled before. Where `code` is a continuation, the call is left to what runs that. `load` gives the constant from
    which the code object of a continuation is read; new ids begin with `frame`.
    """
    instruction = code.instructions[position]
    depths = stack_depths(code)
    calls: list[Instruction] = []
    continuations: list[Continuation] = []
    labels: dict[bool, str] = {}
    for target, jumps in _after(code, position):
        depth = depths[target]
        kept = _kept(instruction, jumps, len(present), depth)
        there = [*present[:kept], *[True] * (depth - kept)]
        names = list(bound)
        stored = instruction.arg if instruction.op == "STORE_FAST" else None
        if stored is not None and stored not in names:
            names.append(stored)
        made = continuation(base or code, target, there, names)
        continuations.append(made)
        labels[jumps] = f"{frame}/onward{'_jump' if jumps else ''}"
        onward = _onward(made, load(made), labels[jumps], there, Again if is_continuation else go_on)
        calls += build.at(instruction.span, onward)
    body = list(code.instructions)
    placed: list[Instruction] = []
    if True in labels:
        body[position] = replace(instruction, target=labels[True])
    if False in labels:
        with origin(synthetic("to the continuation")):
            placed = [build.jump(labels[False])]
    return [*body[: position + 1], *placed, *body[position + 1 :], *calls], continuations


def _after(code: Code, position: int) -> list[tuple[str, bool]]:
    """Where instruction `position` may go: (id of the next instruction, whether by the jump)."""
    instruction = code.instructions[position]
    op = OPS[instruction.op]
    found: list[tuple[str, bool]] = []
    if op.falls and position + 1 < len(code.instructions):
        found.append((code.instructions[position + 1].id, False))
    if op.jumps and instruction.target is not None:
        found.append((instruction.target, True))
    return found


def _kept(instruction: Instruction, jumps: bool, before: int, after: int) -> int:
    """How many values from the bottom of the stack the instruction leaves alone."""
    consumed = {
        "CALL": lambda arg: arg[0] + 2, "CALL_FUNCTION_EX": lambda arg: 3 + bool(arg), "FOR_ITER": lambda arg: 0,
        "BUILD_STRING": lambda arg: arg, "BUILD_SLICE": lambda arg: arg,
    }  # fmt: skip
    known = consumed.get(instruction.op)
    if known is not None:
        return min(before - known(instruction.arg), after)
    return min(before, after) - (1 if after == before else 0) if before else 0


def _onward(
    made: Continuation, constant: Any, label: str, present: Sequence[bool], how: Callable[..., Any]
) -> list[Instruction]:
    """At `label`: the stack's values into temporaries; what `how` makes of the continuation and its arguments."""
    with origin(synthetic("to the continuation")):
        names = [f"{TEMP}s{n}" for n in range(len(present))]
        steps = [build.label(label), *(build.store_fast(name) for name in reversed(names))]
        function = build.make_function(constant, [("closure", build.closure(made.frees))] if made.frees else [])
        stacked = iter([name for name, there in zip(names, present, strict=True) if there])
        arguments = [[build.load_fast(next(stacked) if name.startswith(STACK) else name)] for name in made.arguments]
        return [*steps, *build.call([build.load_const(how)], [function, *arguments]), build.return_value()]
