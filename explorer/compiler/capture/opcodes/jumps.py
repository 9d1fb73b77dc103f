"""Jumps and loops."""

from __future__ import annotations

from explorer.compiler.capture.asserts import asserted, is_checked_later
from explorer.compiler.capture.opcodes.table import OPCODES
from explorer.compiler.capture.values.base import Frame, Tracer
from explorer.compiler.capture.values.size import NumberValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.ir.bytecode import Instruction


@OPCODES.rule("JUMP")
def jump(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Go to the target."""
    return i.target


@OPCODES.rule("POP_JUMP_IF")
def pop_jump_if(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Go to the target when the value's truth, or its being None, is as asked."""
    value = f.pop()
    if i.arg in ("none", "not none"):
        taken = t.is_none(value) == (i.arg == "none")
    elif (
        i.arg == "true"
        and isinstance(value, (TensorValue, NumberValue))
        and (error := asserted(t, f)) is not None
        and is_checked_later(t, value, error)
    ):
        taken = True
    else:
        taken = t.truth(value) == (i.arg == "true")
    return i.target if taken else None


@OPCODES.rule("FOR_ITER")
def for_iter(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Push the next item, or leave the loop."""
    item = f.stack[-1].next(t)
    if item is None:
        f.pop()
        return i.target
    f.push(item)
    return None
