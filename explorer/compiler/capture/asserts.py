"""Assertions of the program on what only the graph knows: made when the graph has run, in order with the frame's other
effects."""

from __future__ import annotations

from typing import Any

from explorer.compiler.capture import hook
from explorer.compiler.capture.values.base import Frame, Raised, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.exceptions import ExceptionValue
from explorer.compiler.capture.values.size import NumberValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import Unsupported


def _raise_unless(condition: Any, error: BaseException) -> None:
    if not condition:
        raise error


RAISE_UNLESS = hook.unwatched(_raise_unless)


def is_checked_later(t: Tracer, condition: Value, error: Value) -> bool:
    """Take the condition for true and have it checked after the graph; False where the program may handle the error,
    where what it says is not known yet, and where objects or settings were changed: what is changed later would be so
    already."""
    if isinstance(condition, TensorValue):
        known = condition.fake.numel() == 1
    else:
        known = isinstance(condition, NumberValue)
    handled = any(frame.handlers[frame.position - 1] is not None or frame.handled for frame in t.frames)
    said = isinstance(error, ExceptionValue) and all(isinstance(a, Constant) for a in error.args)
    changed = any(change.kind != "call" for change in t.effects.changes.values())
    if not known or handled or changed or not said or t.torch_state.switched() or t.torch_state.pending:
        return False
    t.effects.call(RAISE_UNLESS, [condition, error], f"assert {condition.describe()}")
    return True


def asserted(t: Tracer, frame: Frame) -> Value | None:
    """The error of the assert statement whose condition was just taken from the stack; None for other branches, and
    where making the error does more than that."""
    instructions = frame.code.instructions
    if frame.position >= len(instructions) or instructions[frame.position].op != "LOAD_ASSERTION_ERROR":
        return None
    state = (list(frame.stack), dict(frame.locals), frame.position)
    before = (t.tape.calls, t.effects.version, len(t.frames))
    try:
        while instructions[frame.position].op != "RAISE_VARARGS":
            t.step(frame)
        t.step(frame)
    except Raised as raised:
        return raised.value if before == (t.tape.calls, t.effects.version, len(t.frames)) else None
    except Unsupported:
        return None
    finally:
        del t.frames[before[2] :]
        frame.stack[:], frame.locals, frame.position = state
    return None
