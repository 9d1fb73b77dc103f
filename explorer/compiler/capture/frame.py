"""What stands on the stack of a frame beside the program's values; and what the evaluator did to it, instruction by
instruction, kept as changes: texts are made when a record is asked for."""

from __future__ import annotations

from typing import Any

from explorer.compiler.capture.values.base import Frame, Seen, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.core.recorder import note
from explorer.ir.attempt import Activation, EvaluatorStep, Sighted

HIDDEN = "___"
"""How the names of locals begin that compiled bytecode and continuations have for themselves."""


class Null(Value):
    """CPython's empty slot beside a callable, or an unbound local that is put aside."""

    def python_type(self) -> type:
        return type(None)

    def describe(self) -> str:
        return "null"


NULL = Null()


class Offset(Constant):
    """Where an exception was raised, for the line that a traceback shows. Reconstructed, it is the function's start:
    offsets in compiled bytecode are others."""

    def constant(self) -> Any:
        return 0


def note_step(frame: Frame, callers: list[Frame], number: int, nodes: int) -> None:
    """Record that step `number` of the evaluation is about to run the next instruction of `frame`. `callers` are the
    frames below it, outermost first."""
    if frame.seen is None:
        outer = callers[-1].seen if callers else None
        frame.seen = Seen(Activation(frame.code.qualname, outer.activation if outer is not None else None))
    seen = frame.seen
    root = callers[0].seen if callers else None
    evaluation = (root or seen).activation

    def first(value: Value) -> int:
        """The number of the step before which a value was first in sight."""
        if isinstance(value, Null) or type(value) is Constant and value.kind is type(None):
            return 0  # there is one of it for all that is null or None
        if value.sighted is None or value.sighted[0] is not evaluation:
            value.sighted = evaluation, number
        return value.sighted[1]

    def held(value: Value) -> Value | Sighted:
        shown = value.shown()
        return value if shown is value else (shown, first(value))

    def told(held: Value | Sighted) -> Sighted:
        return (held, first(held)) if isinstance(held, Value) else held

    stack = [*map(held, frame.stack)]
    locals = {name: held(value) for name, value in frame.locals.items()}
    for name, cell in frame.cells.items():
        if cell.contents is not None:
            locals[name] = held(cell.contents)
    kept = 0
    for before, now in zip(seen.stack, stack, strict=False):
        if before is not now and before != now:
            break
        kept += 1
    changed: tuple[tuple[str, Sighted | None], ...] = ()
    if locals != seen.locals:
        bound = [(name, told(value)) for name, value in locals.items() if seen.locals.get(name) != value]
        changed = (*bound, *((name, None) for name in seen.locals if name not in locals))
    instruction = frame.code.instructions[frame.position].id
    note(EvaluatorStep, number, instruction, seen.activation, nodes, kept, tuple(map(told, stack[kept:])), changed)
    seen.stack, seen.locals = stack, locals
