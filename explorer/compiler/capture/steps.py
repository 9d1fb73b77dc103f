"""What the evaluator did, instruction by instruction, kept as changes. Texts are made when a record is asked for."""

from __future__ import annotations

from explorer.compiler.capture.values.base import Frame, Seen, Value
from explorer.core.recorder import note
from explorer.ir.attempt import Activation, EvaluatorStep


def note_step(frame: Frame, callers: list[Frame], instruction: str, nodes: int) -> None:
    """Record that `frame` is about to run `instruction`. `callers` are the frames below it, outermost first."""
    if frame.seen is None:
        outer = callers[-1].seen if callers else None
        frame.seen = Seen(Activation(frame.code.qualname, outer.activation if outer is not None else None))
    seen = frame.seen
    stack = [value.shown() for value in frame.stack]
    locals = {name: value.shown() for name, value in frame.locals.items()}
    for name, cell in frame.cells.items():
        if cell.contents is not None:
            locals[name] = cell.contents.shown()
    kept = 0
    for before, now in zip(seen.stack, stack, strict=False):
        if before is not now and before != now:
            break
        kept += 1
    changed: tuple[tuple[str, Value | str | None], ...] = ()
    if locals != seen.locals:
        bound = [(name, value) for name, value in locals.items() if seen.locals.get(name) != value]
        changed = (*bound, *((name, None) for name in seen.locals if name not in locals))
    note(EvaluatorStep, instruction, seen.activation, nodes, kept, tuple(stack[kept:]), changed)
    seen.stack, seen.locals = stack, locals
