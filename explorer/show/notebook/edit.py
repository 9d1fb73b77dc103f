"""A cell that was explored, as what can be edited: all of its text, and the functions of elsewhere that it calls."""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from typing import Any

from explorer.compiler.config import Config
from explorer.core.files import cell_name
from explorer.core.recorder import Progress
from explorer.ir.edit import RERUN, EditableFunction, EditedSource, EditRefused, edited, parsed
from explorer.records.check.process import heard
from explorer.records.check.trial import Repetition, unnoticed
from explorer.records.data.exploration import Exploration
from explorer.records.editing import Called, ExploredProgram
from explorer.records.exploration import Asked, exploration
from explorer.show.notebook.cell import Plan, function, names, parameters, plan


@dataclass(frozen=True)
class ExploredCell(ExploredProgram):
    """The statements of `made` from `start` on. They read the copies of `trial`; where that is None, or the change
    reads other names, what the notebook has by now."""

    made: Plan
    start: int
    namespace: dict[str, Any]
    file: str
    trial: Repetition | None

    def functions(self) -> list[EditableFunction]:
        lines = self.lines(self.file)
        first = 2 if lines and lines[0].startswith("# %%explore") else 1
        cell = EditableFunction(cell_name(self.file) or "cell", self.file, first, "\n".join(lines[first - 1 :]))
        return [cell, *(each for each in super().functions() if each.file != self.file)]

    def body(self, fn: types.FunctionType, source: EditedSource) -> types.CodeType:
        return fn.__code__  # of the changed text already

    def affected(self, source: EditedSource) -> bool:
        return source.file == self.file or super().affected(source)

    def changed(self, function: EditableFunction, text: str) -> EditedSource:
        if function.file != self.file:
            return super().changed(function, text)
        before = self.lines(self.file)
        after = function.changed_to(text, before)
        explored = range(self.start, self.made.end), range(self.start, self._planned(after).end)
        return edited(self.file, "\n".join(before), after, explored)

    def _planned(self, text: str) -> Plan:
        found = plan(parsed(text).body)
        if found.why_not or self.start not in found.starts or (found.backward is None) != (self.made.backward is None):
            raise EditRefused(found.why_not or f"the explored statements begin elsewhere; {RERUN}")
        bound = names(found.body[self.start : found.end]).bound
        if new := [name for name in bound if name not in self.namespace]:
            raise EditRefused(f"the notebook has no {', '.join(new)} yet; {RERUN}")
        return found

    def program(self, source: EditedSource) -> Called:
        found = self._planned(source.text) if source.file == self.file else self.made
        kept = {} if self.trial is None else self.trial.state.args
        taken = list(dict.fromkeys([*kept, *parameters(found, self.start, self.namespace)]))
        if absent := [name for name in taken if name not in kept and name not in self.namespace]:
            raise EditRefused(f"the notebook has no {', '.join(absent)} any more")
        call = function(found, self.start, taken, self.namespace, self.file)
        return call, tuple(kept[name] if name in kept else self.namespace[name] for name in taken), {}


def repeated(trial: Repetition | None, engine: str, why_not: str) -> Any:
    """What runs an edited cell on copies of what it read."""

    def again(
        call: Any, args: tuple[object, ...], kwargs: object, config: Config, *, name: str, progress: Progress
    ) -> Exploration:
        if trial is None or why_not or len(args) != len(trial.state.args):
            raise EditRefused(f"it is not run here: {why_not or 'it reads names that were not copied'}; {RERUN}")
        places = trial.state.copied() if trial.state.places else trial.state
        with unnoticed(), heard(refuses=True), places.in_place():
            return exploration(replace(trial, fn=call), Asked(config, name, engine, progress=progress))

    return again
