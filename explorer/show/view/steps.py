"""Stepping through a capture: the evaluator's state at each recorded step, moves in both directions, and queries."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, ClassVar

from explorer.core.text import count
from explorer.ir import record as data
from explorer.records.data.provenance import file_names
from explorer.show.view.queries import Queried

NUMBERS = ("step", "line", "depth", "nodes", "attempt")
STATE = ("top", "stack", "local")
KEYS = ("op", "function", "at", "input", "node", "guard", "effect", "symbol", "break", "restart", *STATE, *NUMBERS)

MOVES = ("instruction", "line", "over", "out")
"""One instruction; to the next line, in any function; to the next line of this function or a caller; to the caller."""

SHOWN = 12
"""Values of a stack, and of locals, in a text."""

UNKNOWN = data.ActivationData("?"), data.ValueData("?")
"""What an index outside of the record's lists stands for."""

AGAIN = "the evaluation starts over, to end the graph earlier"


@dataclass(frozen=True)
class Step:
    """The evaluator before step `number`. `calls` are the functions entered, the root first; `stack` has the top last.
    `does` says what the step adds, as (kind, text): an input or a node of the graph, a guard, an effect, a symbol, a
    break."""

    number: int
    instruction: str
    op: str
    span: data.SpanData | None
    calls: tuple[str, ...]
    attempt: int
    stack: tuple[data.ValueData, ...]
    locals: Mapping[str, data.ValueData]
    nodes: int
    does: tuple[tuple[str, str], ...]


EvaluatorState = tuple[list[data.ValueData], dict[str, data.ValueData]]
"""The stack and the locals of an activation."""


class Steps(Queried[Step, EvaluatorState]):
    """The steps of one compile. What a step has is told by `find` and `move` in queries: terms that all hold, as in
    `op:CALL line:12 guard:size depth>1 top:tensor`."""

    keys = KEYS
    numbers = NUMBERS
    called = "instruction"
    example = "guard:  or  op:CALL line:12 depth>1 top:tensor"
    letters: ClassVar = {
        "i": ("instruction", "instruction"), "l": ("line", "line"), "o": ("over", "step over"),
        "u": ("out", "step out"), "n": ("node:", "graph node"), "g": ("guard:", "guard"),
        "e": ("effect:", "effect"), "s": ("symbol:", "size symbol"), "b": ("break:", "graph break"),
    }  # fmt: skip

    def __init__(self, compile: data.CompileData, record: data.RecordData) -> None:
        self.compile = compile
        self._record = record
        self._names = file_names(record)
        self._depths = [self._activation(step.activation).depth for step in compile.steps]

    def __len__(self) -> int:
        return len(self.compile.steps)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[each] for each in range(*at.indices(len(self))))
        at = range(len(self))[at]
        activation = self.compile.steps[at].activation
        held: EvaluatorState = ([], {})
        for step in self.compile.steps[: at + 1]:
            if step.activation == activation:
                self._replay(step, held)
        return self._step(at, held)

    def __iter__(self) -> Iterator[Step]:
        return (self._step(at, held) for at, held in self.states())

    def states(self) -> Iterator[tuple[int, EvaluatorState]]:
        held: dict[int, EvaluatorState] = {}
        for at, step in enumerate(self.compile.steps):
            yield at, self._replay(step, held.setdefault(step.activation, ([], {})))

    def states_for(self, keys: Set[str]) -> Iterator[tuple[int, EvaluatorState]]:
        return self.states() if not keys.isdisjoint(STATE) else ((at, ([], {})) for at in range(len(self)))

    def _activation(self, at: int) -> data.ActivationData:
        known = self.compile.activations
        return known[at] if 0 <= at < len(known) else UNKNOWN[0]

    def _value_at(self, at: int) -> data.ValueData:
        values = self.compile.values
        return values[at] if 0 <= at < len(values) else UNKNOWN[1]

    def _replay(self, step: data.StepData, held: EvaluatorState) -> EvaluatorState:
        stack, locals = held
        stack[max(0, step.kept) :] = map(self._value_at, step.pushed)
        for name, each in step.locals.items():
            locals.pop(name, None)
            if each >= 0:
                locals[name] = self._value_at(each)
        return held

    def _step(self, at: int, held: EvaluatorState) -> Step:
        step = self.compile.steps[at]
        op, span = self._ops.get(step.instruction, ("", None))
        stack, locals = held
        done = tuple((kind, text) for kind, made in self.events.items() for text in made.get(at, ()))
        calls, attempt = self._calls(step.activation), self._attempt(step.activation)
        return Step(at, step.instruction, op, span, calls, attempt, (*stack,), {**locals}, step.nodes, done)

    # ------------------------------------------------------------------------------------------- what is worked out

    @cached_property
    def _ops(self) -> dict[str, tuple[str, data.SpanData | None]]:
        """Each instruction as a text, and its place."""
        found = (each for code in self.compile.codes for each in code.instructions)
        return {each.id: (f"{each.op} {each.arg}".rstrip(), each.span) for each in found}

    @cached_property
    def _texts_of_places(self) -> dict[str, tuple[str, str]]:
        """The place of each instruction, without its folder and with it."""
        files = ((id, self._names.get(span.file, span.file), span.line) for id, (_, span) in self._ops.items() if span)
        return {id: (f"{PurePath(file).name}:{line}", f"{file}:{line}") for id, file, line in files}

    def _calls(self, activation: int) -> tuple[str, ...]:
        """The functions entered, the root first. A caller comes before what it calls."""
        found = [self._activation(activation).function]
        while 0 <= (caller := self._activation(activation).caller) < activation:
            activation = caller
            found.append(self._activation(activation).function)
        return tuple(reversed(found))

    @cached_property
    def _roots(self) -> list[int]:
        """The activations that an evaluation begins with."""
        return [at for at, each in enumerate(self.compile.activations) if each.depth == 0]

    def _attempt(self, activation: int) -> int:
        """Which evaluation of the root frame an activation is in, from 1."""
        return bisect_right(self._roots, activation)

    @cached_property
    def _nodes(self) -> tuple[data.NodeData, ...]:
        """Of the captured graph."""
        return next((stage.graph.nodes for stage in self.compile.stages if stage.graph is not None), ())

    @cached_property
    def _types(self) -> dict[str, str]:
        return {node.name: node.type for node in self._nodes}

    @cached_property
    def events(self) -> dict[str, dict[int, list[str]]]:
        """What the steps added, by kind and step."""
        compile = self.compile
        inputs = [node for node in self._nodes if node.op == "placeholder"]
        nodes = [node for node in self._nodes if node.op != "placeholder"]
        pairs = {
            "input": ((compile.made.get(n.id, -1), f"{n.name}: {n.type}") for n in inputs),
            "node": ((compile.made.get(n.id, -1), f"{n.name} = {n.target} {n.type}") for n in nodes),
            "guard": ((g.step, f"{g.words or g.expression} ({g.why})") for g in compile.guards),
            "effect": ((e.step, e.expression) for e in compile.effects),
            "symbol": ((s.step, f"{s.name} = {s.source}, {s.status}: {s.why}") for s in compile.symbols),
            "break": ((b.step, str(b.why)) for b in compile.breaks),
            "restart": ((at, AGAIN) for at in self._restarts()),
        }
        found: dict[str, dict[int, list[str]]] = {kind: {} for kind in pairs}
        for kind, made in pairs.items():
            for at, text in made:
                if 0 <= at < len(self):
                    found[kind].setdefault(at, []).append(text)
        return found

    def _restarts(self) -> Iterator[int]:
        seen = 0
        for at, step in enumerate(self.compile.steps):
            if self._depths[at] == 0 and step.activation > seen:
                seen = step.activation
                yield at

    # ---------------------------------------------------------------------------------------------- moves and queries

    def move(self, at: int, to: str, back: bool = False) -> int | None:
        """The step that a move leads to from step `at`, None where there is none: `to` is one of MOVES, or a query.

        Raises ValueError for what is no query."""
        if to not in MOVES or to == self.called:
            return super().move(at, to, back)
        deepest = {"line": len(self._depths), "over": self._depths[at], "out": self._depths[at] - 1}[to]
        here = self._step_place(at) if to != "out" else None
        ahead = range(at - 1, -1, -1) if back else range(at + 1, len(self))
        reached = (each for each in ahead if self._depths[each] <= deepest)
        found_line = next((each for each in reached if (there := self._step_place(each)) and there != here), None)
        if found_line is None or not back or to == "out":
            return found_line
        line, first = self._step_place(found_line), found_line
        for each in reached:  # on to where the line begins
            if (there := self._step_place(each)) is not None and there != line:
                break
            first = each if there is not None else first
        return first

    def _step_place(self, at: int) -> tuple[int, str, int] | None:
        step = self.compile.steps[at]
        _, span = self._ops.get(step.instruction, ("", None))
        return None if span is None else (step.activation, span.file, span.line)

    def frames(self, at: int) -> list[int]:
        """The last step of each function that is being evaluated at step `at`, the innermost first."""
        found, wanted = [], self.compile.steps[at].activation
        for each in range(at, -1, -1):
            if self.compile.steps[each].activation == wanted:
                found.append(each)
                wanted = self._activation(wanted).caller
        return found

    def function(self, at: int) -> str:
        return self._activation(self.compile.steps[at].activation).function

    def place(self, at: int) -> data.SpanData | None:
        """Where a step is in the source; without a line of its own, where its function was before."""
        activation = self.compile.steps[at].activation
        before = (self.compile.steps[each] for each in range(at, -1, -1))
        found = (self._ops.get(step.instruction, ("", None))[1] for step in before if step.activation == activation)
        return next((span for span in found if span is not None), None)

    def arrivals(self, file: str, line: int, among: Iterable[int]) -> list[int]:
        """Of the steps `among`, the first one of each time that a line is come to."""
        wanted, found, met = set(among), [], set[int]()
        for at in range(len(self)):
            activation, *where = self._step_place(at) or (-1,)
            if where == [file, line] and at in wanted and activation not in met:
                found.append(at)
                met.add(activation)
            elif where and where != [file, line]:
                met.discard(activation)
        return found

    def number(self, key: str, at: int) -> int | None:
        step = self.compile.steps[at]
        match key:
            case "step":
                return at
            case "depth":
                return self._depths[at]
            case "nodes":
                return step.nodes
            case "attempt":
                return self._attempt(step.activation)
        place = self._step_place(at)
        return None if place is None else place[2]

    def facts(self, key: str, at: int, held: EvaluatorState) -> Sequence[str]:
        step, (stack, locals) = self.compile.steps[at], held
        match key:
            case "op":
                return (self._ops.get(step.instruction, ("", None))[0],)
            case "function":
                return (self._activation(step.activation).function,)
            case "at":
                return self._texts_of_places.get(step.instruction, ())
            case "top":
                return (self.words(stack[-1]),) if stack else ()
            case "stack":
                return [self.words(value) for value in stack]
            case "local":
                return [f"{name} = {self.words(value)}" for name, value in locals.items()]
            case key if key in NUMBERS:
                return () if self.number(key, at) is None else (str(self.number(key, at)),)
        return self.events[key].get(at, ())

    def diff(self, other: Steps) -> list[str]:
        """What changed from this capture to `other`: "- " before what only this one adds, "+ " before what only the
        other does. The same text in the same line of the same function is the same, wherever the function stands."""
        mine, others = self._contributions(), other._contributions()
        signed = [("-", each) for each in (mine - others).elements()]
        signed += [("+", each) for each in (others - mine).elements()]
        return [f"{sign} {each}" for sign, each in sorted(signed, key=lambda pair: pair[1].partition(" ")[0])]

    def _contributions(self) -> Counter[str]:
        """Each thing that the capture adds, with its kind, its function and the line in it."""
        firsts = {each.name: each.line for each in self.compile.codes}
        found: Counter[str] = Counter()
        for kind, made in self.events.items():
            for at, texts in made.items():
                step = self.compile.steps[at]
                function = self._activation(step.activation).function
                _, span = self._ops.get(step.instruction, ("", None))
                line = "" if span is None else f" line {span.line - firsts.get(function, 0) + 1}"
                found.update(f"{kind} in {function}{line}: {text}" for text in texts if text)
        return found

    # ------------------------------------------------------------------------------------------------------ in print

    def words(self, value: data.ValueData) -> str:
        """A value in words, a tensor of our graph with its type. Dynamo renames nodes later, so a name says little."""
        type = self._types.get(value.text.removeprefix("tensor ")) if value.text.startswith("tensor ") else None
        return f"{value.text}: {type}" if type else value.text

    def title(self) -> str:
        return self.compile.id

    def summary(self) -> str:
        """The steps in one line."""
        compile, lost = self.compile, self.compile.left_out.get("EvaluatorStep", 0)
        counts = {kind: sum(map(len, made.values())) for kind, made in self.events.items()}
        parts = [count(len(self), "step"), *(count(n, kind) for kind, n in counts.items() if n)]
        return f"{compile.id} {compile.name}: {', '.join(parts)}{f'; {lost} later steps were not kept' if lost else ''}"

    def line(self, at: int) -> str:
        """A step in one line."""
        op, span = self._ops.get(self.compile.steps[at].instruction, ("", None))
        done = []
        for kind, made in self.events.items():
            texts = made.get(at, ())
            done += [f"{kind} {texts[0]}" if len(texts) == 1 else count(len(texts), kind)] if texts else []
        where = "" if span is None else f"{PurePath(self._names.get(span.file, span.file)).name}:{span.line}"
        return f"{at:>6}  {where:<20} {'  ' * self._depths[at]}{op:<28} {'; '.join(done)}".rstrip()

    def text(self, at: int) -> str:
        """A step in full: where it is, the stack, the locals, and what it adds."""
        step: Step = self[at]
        attempt = f", evaluation {step.attempt}" if step.attempt > 1 else ""
        lines = [f"{self.compile.id}, step {at} of {len(self) - 1}{attempt}: {' > '.join(step.calls)}"]
        if step.span is not None:
            lines.append(f"  {step.span.place(self._names)}  {self._source(step.span).strip()}")
        lines.append(f"  instruction {step.instruction.rpartition('@')[2]} of {step.calls[-1]}: {step.op}")
        lines.append(f"stack ({len(step.stack)}, top first)")
        lines += cut(f"  {self._value(value)}" for value in reversed(step.stack))
        lines.append(f"locals ({len(step.locals)})")
        lines += cut(f"  {name} = {self._value(value)}" for name, value in step.locals.items())
        if step.attempt == len(self._roots):
            before = (
                count(n, kind) for kind, made in self.events.items()
                if kind != "restart" and (n := sum(len(texts) for when, texts in made.items() if when < at))
            )  # fmt: skip
            lines.append("so far: " + (", ".join(before) or "nothing"))
        lines += [f"this step: {kind} {text}" for kind, text in step.does]
        for broke in self.compile.breaks:
            if broke.step == at:
                lines += self.break_lines(broke)
        return "\n".join(lines)

    def break_lines(self, broke: data.BreakData) -> list[str]:
        """What would help, and what goes on after a break."""
        lines = [f"  {hint}" for hint in broke.hints]
        for name in filter(None, broke.continuation.split(", ")):
            onwards = next((each for each in self._record.compiles if each.title == name), None)
            if onwards is not None:
                arguments = (each.source for each in onwards.inputs if each.role == "argument")
                alive = [re.sub(r"^L\['(___)?(.*)'\]$", r"\2", each) for each in arguments]
                lines.append(f"  continues in {onwards.id} {onwards.name}, which gets {', '.join(alive) or 'nothing'}")
        return lines

    def items(self, value: data.ValueData) -> list[tuple[str, data.ValueData]]:
        """What a container held, with what leads to each."""
        return [(name, self._value_at(at)) for name, at in value.items]

    def sourced(self, value: data.ValueData) -> str:
        """A value in words, and the step that brought it about."""
        return self.words(value) + (f"  (from step {value.step})" if value.step >= 0 else "")

    def _value(self, value: data.ValueData) -> str:
        items = (f"\n      {name}: {self.sourced(each)}" for name, each in self.items(value))
        return self.sourced(value) + "".join(items)

    def _source(self, span: data.SpanData) -> str:
        for each in self._record.sources:
            lines = each.text.split("\n") if each.file == span.file else []
            if 0 <= span.line - each.first_line < len(lines):
                return lines[span.line - each.first_line]
        return ""


def cut(lines: Iterator[str]) -> list[str]:
    """The first of many lines."""
    found = list(lines)
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"  ... and {len(found) - SHOWN} more"]


def of_record(record: data.RecordData) -> list[Steps]:
    """The steps of each compile that has some."""
    return [Steps(compile, record) for compile in record.compiles if compile.steps]
