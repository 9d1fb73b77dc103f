"""What is recorded of each step of the symbolic evaluator."""

from __future__ import annotations

from time import perf_counter

from explorer.compiler.capture.values.base import Frame, Seen, Shown, Tracer, Value
from explorer.core.recorder import EventRoom
from explorer.ir.capture import Activation, EvaluatorSteps


class StepRecorder:
    """Records the steps of one evaluation. What a frame holds is told and not kept, since the program may lose it."""

    def __init__(self, room: EventRoom) -> None:
        self.room = room
        self.steps = EvaluatorSteps()
        room.run.events.append(self.steps)
        self._changes = 0
        self._activation: Activation | None = None
        self._since = object()

    def note(self, t: Tracer, frame: Frame, number: int) -> None:
        """Step `number`, which is about to run the next instruction of `frame`, the innermost."""
        if not self.room.takes():
            return
        seen = frame.seen
        if seen is None:
            outer = t.frames[-2].seen if len(t.frames) > 1 else None
            seen = frame.seen = Seen(Activation(frame.code.qualname, None if outer is None else outer.activation))
        changes = t.effects.version + t.effects.read + len(t.tape.shape_env.replacements)
        if changes != self._changes or seen.activation is not self._activation:
            # An instruction that enters another frame may change something after that frame's steps, and say so before.
            self._since, self._changes, self._activation = object(), changes, seen.activation
        bindings = frame.locals
        if frame.cells:
            bindings = bindings | {name: c.contents for name, c in frame.cells.items() if c.contents is not None}
        locals = {name: value.description or self._shown(value) for name, value in bindings.items()}
        if locals != seen.locals:
            seen.locals = locals
        steps = self.steps
        steps.begun.append(perf_counter())
        steps.numbers.append(number)
        steps.instructions.append(frame.code.instructions[frame.position].id)
        steps.activations.append(seen.activation)
        steps.nodes.append(t.tape.nodes)
        steps.locals.append(seen.locals)
        steps.stacks += [value.description or self._shown(value) for value in frame.stack]
        steps.ends.append(len(steps.stacks))

    def _shown(self, value: Value) -> Shown:
        """What it is now, asked once between two changes of anything."""
        if value.last_shown is None or value.last_shown[0] is not self._since:
            value.last_shown = self._since, value.shown()
        return value.last_shown[1]
