"""The Debug Adapter Protocol over the recorded steps of a capture, in both directions: each compile is a thread, each
function that the evaluator entered a frame. Nothing is run. How the messages travel is for others to say."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from explorer.core.text import count
from explorer.ir.record import RecordData, ValueData
from explorer.records.data.provenance import file_names
from explorer.show.view.queries import WAYS
from explorer.show.view.steps import Step, Steps, of_record
from explorer.show.view.walk import Walk

Message = dict[str, Any]
Shown = list[Message]

MOVES = {
    "next": ("over", False), "stepIn": ("line", False), "stepOut": ("out", False), "stepBack": ("over", True),
}  # fmt: skip
"""Requests that move by a line: the move, and whether it goes back."""

FILTERS = {"break": "Graph breaks", "restart": "Evaluations that start over", "node": "Graph nodes", "guard": "Guards",
           "effect": "Effects", "symbol": "Size symbols"}  # fmt: skip
STOPS = ("break", "restart")
"""Where to stop unless a client chooses."""

SO_FAR = {"input": "Inputs", "node": "Graph", "guard": "Guards", "effect": "Effects", "symbol": "Size symbols"}

CAPABILITIES = {
    "supportsConfigurationDoneRequest": True, "supportsStepBack": True, "supportsSteppingGranularity": True,
    "supportsConditionalBreakpoints": True, "supportsEvaluateForHovers": True, "supportsExceptionInfoRequest": True,
    "supportsTerminateRequest": True, "supportsDelayedStackTraceLoading": True,
    "exceptionBreakpointFilters": [
        {"filter": kind, "label": label, "default": kind in STOPS} for kind, label in FILTERS.items()
    ],
}  # fmt: skip


PART = re.compile(r"[^\s.\[\]]+")
"""Of an expression such as `self.sizes[0]`: what leads to its value."""


class Adapter:
    """A debugger's cursor in the steps of a record. `handle` answers a request; `breakpoints` has by path what a client
    asked for: a line, and perhaps a condition, which is a query."""

    def __init__(self, record: RecordData) -> None:
        """Raises ValueError where the record holds no steps."""
        self.compiles = of_record(record)
        if not self.compiles:
            raise ValueError(f"the record of {record.title} has no steps. {WAYS['steps']}")
        self.thread = 0
        self.at = [0 for _ in self.compiles]
        self.breakpoints: Mapping[str, Iterable[Message]] = {}
        self.filters: tuple[str, ...] = STOPS
        self.ended = False
        self._names = file_names(record)
        self._texts: dict[str, list[tuple[int, str]]] = {}
        for each in record.sources:
            self._texts.setdefault(each.file, []).append((each.first_line, each.text))
        self._files = list(self._texts)
        self._found: dict[tuple[str, str, int, str], list[int]] = {}
        self._references = 0
        self._frames: dict[int, tuple[Steps, int, bool]] = {}
        self._variables: dict[int, Callable[[], Shown]] = {}
        self._answers: dict[str, Callable[[Message], tuple[Message, ...]]] = {
            "initialize": lambda _: (CAPABILITIES, event("initialized")),
            "launch": lambda _: ({},),
            "attach": lambda _: ({},),
            "configurationDone": lambda _: ({}, self.stopped("entry")),
            "pause": lambda _: ({}, self.stopped("pause")),
            "disconnect": self._end,
            "terminate": lambda _: ({}, event("terminated")),
            "setBreakpoints": self._set_breakpoints,
            "setExceptionBreakpoints": self._set_filters,
            **{name: partial(self._step, to=to, back=back) for name, (to, back) in MOVES.items()},
            "continue": partial(self._run, back=False),
            "reverseContinue": partial(self._run, back=True),
            "threads": self._threads,
            "stackTrace": self._stack,
            "scopes": self._scopes,
            "variables": self._children,
            "source": self._text,
            "evaluate": self._evaluate,
            "exceptionInfo": self._break,
        }

    @property
    def steps(self) -> Steps:
        """Those of the compile that the cursor is in."""
        return self.compiles[self.thread]

    @property
    def step(self) -> int:
        return self.at[self.thread]

    def handle(self, request: Message) -> list[Message]:
        """The response to a request, and the events that follow it."""
        command, given = str(request.get("command")), request.get("arguments") or {}
        head: Message = {"type": "response", "request_seq": request.get("seq", 0), "command": command}
        try:
            if command not in self._answers:
                raise ValueError(f"recorded steps cannot answer {command!r}")
            body, *events = self._answers[command](given)
        except ValueError as error:
            return [{**head, "success": False, "message": str(error)}]
        except (KeyError, TypeError) as error:
            return [{**head, "success": False, "message": f"malformed arguments: {error}"}]
        return [{**head, "success": True, "body": body}, *events]

    def _end(self, given: Message) -> tuple[Message, ...]:
        self.ended = True
        return ({},)

    # ------------------------------------------------------------------------------------------------- breakpoints

    def _set_breakpoints(self, given: Message) -> tuple[Message, ...]:
        path, wanted = str(given["source"]["path"]), list(given.get("breakpoints") or ())
        self.breakpoints = {**self.breakpoints, path: wanted}
        return ({"breakpoints": [self._verified(path, each) for each in wanted]},)

    def _hits(self, steps: Steps, path: str, wanted: Message) -> list[int]:
        """The steps at which a breakpoint stops: one for each time that its line is come to. Raises ValueError for a
        condition that is no query."""
        asked = steps.compile.id, path, int(wanted["line"]), str(wanted.get("condition") or "")
        if asked not in self._found:
            among = steps.find(asked[3]) if asked[3] else range(len(steps))
            self._found[asked] = steps.arrivals(path, asked[2], among)
        return self._found[asked]

    def _verified(self, path: str, wanted: Message) -> Message:
        try:
            hits = sum(len(self._hits(steps, path, wanted)) for steps in self.compiles)
        except ValueError as error:
            return {"line": wanted["line"], "verified": False, "message": str(error)}
        return {"line": wanted["line"], "verified": hits > 0, "message": count(hits, "hit")}

    def _set_filters(self, given: Message) -> tuple[Message, ...]:
        self.filters = tuple(each for each in given["filters"] if each in FILTERS)
        return ({},)

    def _stops(self, steps: Steps) -> list[int]:
        """Where a run through a compile is stopped."""
        found = {at for kind in self.filters for at in steps.events[kind]}
        for path, wanted in self.breakpoints.items():
            for each in wanted:
                if self._verified(path, each)["verified"]:
                    found.update(self._hits(steps, path, each))
        return sorted(found)

    # ------------------------------------------------------------------------------------------------------- moves

    def stopped(self, reason: str, description: str = "") -> Message:
        """The event for where the cursor is now. What a client was given of another step is not valid after it."""
        self._frames.clear()
        self._variables.clear()
        broke = self.steps.events["break"].get(self.step)
        if broke and reason != "entry":
            reason, description = "exception", f"Graph break: {broke[0]}"
        shown = {"description": description, "text": description} if description else {}
        return event("stopped", {"reason": reason, "threadId": self.thread + 1, "allThreadsStopped": True, **shown})

    def _go(self, thread: int, at: int, reason: str = "step", description: str = "") -> tuple[Message, ...]:
        self.thread = thread
        self.at[thread] = at
        return {"allThreadsContinued": True}, self.stopped(reason, description)

    def _chosen(self, given: Message) -> int:
        """The thread that a request names; without one that there is, the cursor's."""
        asked = int(given.get("threadId") or 0) - 1
        return asked if 0 <= asked < len(self.compiles) else self.thread

    def _step(self, given: Message, to: str, back: bool) -> tuple[Message, ...]:
        """A move, at the end of a compile into the next one."""
        thread = self._chosen(given)
        found = self.compiles[thread].move(
            self.at[thread], "instruction" if given.get("granularity") == "instruction" else to, back
        )
        if found is not None:
            return self._go(thread, found)
        next = thread - 1 if back else thread + 1
        if not 0 <= next < len(self.compiles):
            return self._go(
                thread, self._end_of(thread, back), description="The first step" if back else "The last step"
            )
        return self._go(next, self._end_of(next, not back), description=self.compiles[next].title())

    def _run(self, given: Message, back: bool) -> tuple[Message, ...]:
        """To the next stop, in this compile or in those that follow."""
        here = self._chosen(given)
        ahead = range(here, -1, -1) if back else range(here, len(self.compiles))
        for thread in ahead:
            stops, at = self._stops(self.compiles[thread]), self.at[thread]
            if thread == here:
                stops = stops[: bisect_left(stops, at)] if back else stops[bisect_right(stops, at) :]
            if stops:
                return self._go(thread, stops[-1 if back else 0], "breakpoint")
        return self._go(
            ahead[-1], self._end_of(ahead[-1], back), description=f"No breakpoint {'before' if back else 'after'}"
        )

    def _end_of(self, thread: int, first: bool) -> int:
        return 0 if first else len(self.compiles[thread]) - 1

    # ------------------------------------------------------------------------------------------------ what is shown

    def _threads(self, given: Message) -> tuple[Message, ...]:
        return ({"threads": [{"id": n, "name": each.summary()} for n, each in enumerate(self.compiles, 1)]},)

    def _stack(self, given: Message) -> tuple[Message, ...]:
        thread, first = self._chosen(given), int(given.get("startFrame") or 0)
        steps = self.compiles[thread]
        frames = list(enumerate(steps.frames(self.at[thread])))
        shown = frames[first:][: int(given.get("levels") or len(frames))]
        return ({"stackFrames": [self._frame(steps, at, n == 0) for n, at in shown], "totalFrames": len(frames)},)

    def _frame(self, steps: Steps, at: int, top: bool) -> Message:
        self._references += 1
        self._frames[self._references] = steps, at, top
        frame: Message = {"id": self._references, "name": steps.function(at), "line": 0, "column": 0}
        span = steps.place(at)
        if span is None:
            return frame
        frame |= {"line": span.line, "endLine": span.end_line, "source": self._source(span.file)}
        return frame | ({"column": span.column + 1, "endColumn": span.end_column + 1} if span.column >= 0 else {})

    def _source(self, file: str) -> Message:
        """With a reference where the file is not here: a client asks for the text then."""
        reference = self._files.index(file) + 1 if file in self._texts and not Path(file).is_file() else 0
        return {"name": self._names.get(file, PurePath(file).name), "path": file, "sourceReference": reference}

    def _text(self, given: Message) -> tuple[Message, ...]:
        source = given.get("source") or {}
        reference = int(given.get("sourceReference") or source.get("sourceReference") or 0)
        file = self._files[reference - 1] if 0 < reference <= len(self._files) else str(source.get("path"))
        if file not in self._texts:
            raise ValueError(f"the record does not hold the text of {file}")
        lines: list[str] = []
        for first, text in sorted(self._texts[file]):
            lines[first - 1 :] = ["" for _ in range(len(lines), first - 1)]
            lines += text.split("\n")
        return ({"content": "\n".join(lines)},)

    def _scopes(self, given: Message) -> tuple[Message, ...]:
        steps, at, top = self._of_step(self._frames, given["frameId"])
        step: Step = steps[at]
        stack = [(str(n), value) for n, value in enumerate(reversed(step.stack))]
        scopes = [
            ("Locals", partial(self._values, steps, step.locals.items(), "")),
            ("Stack, top first", partial(self._values, steps, stack, None)),
        ]
        if top:
            this = [("instruction", step.op), ("step", f"{at} of {len(steps) - 1}"), *step.does]
            scopes.append(("This step", partial(texts, this)))
            for kind, title in SO_FAR.items():
                made = [(f"step {when}", text) for when, all in sorted(steps.events[kind].items()) for text in all
                        if when < at]  # fmt: skip
                scopes += [(f"{title} so far", partial(texts, made))] if made else []
        hint = {"Locals": {"presentationHint": "locals"}}
        return ({"scopes": [{"name": n, "variablesReference": self._refer(made), "expensive": False, **hint.get(n, {})}
                            for n, made in scopes]},)  # fmt: skip

    def _children(self, given: Message) -> tuple[Message, ...]:
        found, first = self._of_step(self._variables, given["variablesReference"])(), int(given.get("start") or 0)
        return ({"variables": found[first:][: int(given.get("count") or len(found))]},)

    def _of_step(self, among: dict[int, Any], reference: object) -> Any:
        if reference not in among:
            raise ValueError("the debugger has moved on: this value was of an earlier step")
        return among[reference]

    def _refer(self, made: Callable[[], Shown]) -> int:
        self._references += 1
        self._variables[self._references] = made
        return self._references

    def _values(self, steps: Steps, named: Iterable[tuple[str, ValueData]], within: str | None) -> Shown:
        """`within` is the expression of what they are in: "" for locals, None where there is none."""
        shown = []
        for name, value in named:
            own = None if within is None else f"{within}[{name}]" if within else name
            shown.append({"name": name, **self._value(steps, value, own)})
        return shown

    def _value(self, steps: Steps, value: ValueData, own: str | None) -> Message:
        items = partial(self._values, steps, steps.items(value), own)
        kind, _, rest = value.text.partition(" ")
        shown = {"value": steps.sourced(value), "type": kind if rest and kind.isidentifier() and kind != "not" else ""}
        named = {} if own is None else {"evaluateName": own}
        return {**shown, **named, "variablesReference": self._refer(items) if value.items else 0}

    def _evaluate(self, given: Message) -> tuple[Message, ...]:
        """The value of a local, or of what it held; at a prompt, the commands of a walk too, which may move the
        cursor."""
        asked, frame = str(given["expression"]).strip(), given.get("frameId")
        steps, at, _ = self._of_step(self._frames, frame) if frame else (self.steps, self.step, True)
        first, *path = PART.findall(asked) or [""]
        value = steps[at].locals.get(first)
        for each in path:
            value = dict(steps.items(value)).get(each) if value is not None else None
        if value is not None:
            found = self._value(steps, value, asked)
            return ({"result": found.pop("value"), **found},)
        if given.get("context") != "repl":
            raise ValueError(f"{asked!r} is not a local variable at this step")
        shown: list[str] = []
        walk = Walk(self.steps, shown.append, self.step)
        walk.do(asked)
        answer = {"result": "\n".join(shown), "variablesReference": 0}
        return (answer, *self._go(self.thread, walk.at)[1:]) if walk.at != self.step else (answer,)

    def _break(self, given: Message) -> tuple[Message, ...]:
        thread = self._chosen(given)
        steps, at = self.compiles[thread], self.at[thread]
        broke = next((each for each in steps.compile.breaks if each.step == at), None)
        if broke is None:
            raise ValueError("the graph does not break at this step")
        lines = "\n".join([str(broke.why), *steps.break_lines(broke)])
        return ({"exceptionId": broke.why.code, "description": lines, "breakMode": "always"},)


def event(name: str, body: Message | None = None) -> Message:
    return {"type": "event", "event": name, "body": body or {}}


def texts(pairs: Iterable[tuple[str, str]]) -> Shown:
    return [{"name": name, "value": text, "variablesReference": 0} for name, text in pairs]


KERNELS = {"initialize", "attach", "debugInfo", "dumpCell", "setBreakpoints", "setExceptionBreakpoints",
           "configurationDone", "inspectVariables", "modules", "disconnect"}  # fmt: skip
"""Requests that stay the kernel's: how a session begins and ends, and the breakpoints, which are the user's own."""


class Debugging:
    """JupyterLab's debugger in the recorded steps: what it asks is answered from the record, until a cell of the user's
    stops at a breakpoint or the debugger is turned off. Takes the place of `process_request` of a kernel's debugger."""

    def __init__(self, debugger: Any, record: RecordData) -> None:
        """Raises ValueError where the record holds no steps, or the debugger is off."""
        if debugger is None or not debugger.is_started:
            raise ValueError("turn on the debugger first: the bug in the notebook's toolbar")
        self.adapter = Adapter(record)
        self._debugger = debugger
        self._process = debugger.process_request
        self._sent = itertools.count(1)

    def begin(self) -> None:
        self._debugger.process_request = self.process
        self._send([self.adapter.stopped("entry")])

    @property
    def on(self) -> bool:
        return bool(self._debugger.process_request == self.process)

    def end(self) -> None:
        if self.on:
            self._debugger.process_request = self._process

    async def process(self, request: Message) -> Message:
        """A request's reply; the events that follow are sent."""
        command = request.get("command")
        if command == "disconnect" or self._debugger.stopped_threads:
            self.end()
        elif command not in KERNELS:
            self.adapter.breakpoints = self._debugger.breakpoint_list
            reply, *events = self.adapter.handle(request)
            self._send(events)
            return reply
        answer: Message = await self._process(request)
        if command == "debugInfo" and self.on:
            answer["body"]["stoppedThreads"] = [self.adapter.thread + 1]
        return answer

    def _send(self, events: list[Message]) -> None:
        for each in events:
            self._debugger.event_callback({"seq": next(self._sent), **each})
