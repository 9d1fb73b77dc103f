"""Where a frame can be split in two, and where it cannot."""

from __future__ import annotations

import inspect

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Frame
from explorer.core.reasons import Why
from explorer.ir.bytecode import Code

_NEVER = frozenset(
    "YIELD_VALUE SEND END_SEND GET_YIELD_FROM_ITER GET_AWAITABLE GET_AITER GET_ANEXT CLEANUP_THROW END_ASYNC_FOR "
    "BEFORE_ASYNC_WITH WITH_EXCEPT_START LOAD_FAST_AND_CLEAR MAKE_CELL PUSH_EXC_INFO POP_EXCEPT RERAISE "
    "MAKE_FUNCTION".split()
)


def not_captured(code: Code) -> Why | None:
    """Why a frame of this kind is never captured, or None."""
    if code.flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return Why(reasons.FRAME_KIND, "a generator or coroutine")
    if not code.flags & inspect.CO_OPTIMIZED:
        return Why(reasons.FRAME_KIND, "a module or class body")
    return None


def not_splittable(code: Code, frame: Frame) -> Why | None:
    """Why the frame cannot be split before the instruction it stands at, or None."""
    position = frame.position
    instruction = code.instructions[position]
    if instruction.op in _NEVER:
        return Why(reasons.FRAME_BREAK, f"at {instruction.op}")
    if any(frame.stack[each.place : each.place + 1] != [each.below] for each in frame.handled):
        return Why(reasons.FRAME_BREAK, "inside an except block that moved what it handles")
    return None
