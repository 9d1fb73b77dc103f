"""Continuations: the rest of a function after a break, as a function of its own. Stock: resume_execution.py."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.bytecode import build
from explorer.bytecode.flow import liveness
from explorer.bytecode.ops import OPS
from explorer.capture.wrap import STACK
from explorer.core.origin import origin, synthetic
from explorer.ir.bytecode import Code


@dataclass(frozen=True)
class Continuation:
    """`code` takes `arguments`: locals that are still needed, then what was on the stack. `frees` are its cells' names."""

    code: Code
    arguments: tuple[str, ...]
    frees: tuple[str, ...]


def continuation(
    original: Code, target: str, stack: Sequence[bool], bound: Sequence[str]
) -> Continuation:
    """The function that goes on at instruction `target`, given the locals that are bound. `stack` says, from the bottom, which entries are no null.

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
            build.load_fast(f"{STACK}{n}") if present else build.instruction("PUSH_NULL") for n, present in enumerate(stack)
        ]
        # The stack entries themselves must not stay bound twice: what the original drops has to die.
        entry += [step for slot in slots for step in (build.load_const(None), build.store_fast(slot))]
        entry.append(build.jump(target))
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


def after(original: Code, position: int) -> list[tuple[str, bool]]:
    """Where instruction `position` may go: (id of the next instruction, whether by the jump)."""
    instruction = original.instructions[position]
    op = OPS[instruction.op]
    found: list[tuple[str, bool]] = []
    if op.falls and position + 1 < len(original.instructions):
        found.append((original.instructions[position + 1].id, False))
    if op.jumps and instruction.target is not None:
        found.append((instruction.target, True))
    return found
