"""Calls of compiled functions, counted and timed while somebody watches: what they took, how much of it in graphs.

What runs at each call is written out in one function each, since the whole may take a microsecond.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

SAMPLES = 2000
"""Calls of one function whose times are kept one by one; those after them are in the sums alone."""

FUNCTIONS = 1000
"""Compiled functions that are told apart; a program that compiles anew for ever has the others counted together."""

Function = Callable[..., Any]


@dataclass(eq=False, slots=True)
class Calls:
    """Of one compiled function. `compiling` is seconds of `seconds`; `compiles` are the ids of those that its calls
    caused."""

    function: str
    engine: str
    count: int = 0
    seconds: float = 0.0
    compiling: float = 0.0
    compiles: list[str] = field(default_factory=list)
    samples: array[float] = field(default_factory=lambda: array("d"))


@dataclass(eq=False, slots=True)
class Runs:
    """Of the graph of one compile."""

    count: int = 0
    seconds: float = 0.0


class _Functions(dict[Any, Calls]):
    """By what stands for a compiled function. One that is met the first time has no engine and no name yet."""

    def __missing__(self, compiled: Any) -> Calls:
        if len(self) >= FUNCTIONS:
            return self.setdefault("others", Calls("other functions", "any"))
        made = self[compiled] = Calls("", "")
        return made


class _Open(threading.local):
    """The calls that a thread is in: of which function, and since when."""

    def __init__(self) -> None:
        self.stack: list[tuple[Calls, float]] = []


class CallLog:
    """`on_call` is called with the time after each call of a compiled function that no other contains."""

    def __init__(self, on_call: Callable[[float], None] | None = None) -> None:
        self.runs: dict[str, Runs] = {}
        """By the compile's id."""
        self.closed = False
        self._on_call = on_call
        self._open = _Open()
        self._functions = _Functions()

    @property
    def functions(self) -> tuple[Calls, ...]:
        return tuple(self._functions.values())

    def graph_seconds(self, calls: Calls) -> float | None:
        """In graphs that calls of the function made compile; None where there are none: they are older."""
        found = [self.runs[id] for id in calls.compiles if id in self.runs]
        return sum(runs.seconds for runs in found) if found or calls.compiling else None

    def entering(self, function: Function, name: Callable[[], str], engine: str) -> Function:
        """`function`, called with what stands for a compiled function (or nothing) where a call of that begins. `name`
        is asked the first time."""
        known, open, clock = self._functions, self._open, perf_counter

        def enter(compiled: Any) -> Any:
            if compiled:
                calls = known[compiled]
                if not calls.engine:
                    calls.function, calls.engine = name(), engine
                open.stack.append((calls, clock()))
            return function(compiled)

        return enter

    def leaving(self, function: Function) -> Function:
        """`function`, called where the call of a compiled function ends."""
        open, clock, on_call = self._open, perf_counter, self._on_call

        def leave(argument: Any) -> Any:
            result = function(argument)
            stack = open.stack
            if stack:  # else it began before anybody watched
                calls, started = stack.pop()
                now = clock()
                calls.count = count = calls.count + 1
                calls.seconds += now - started
                if count <= SAMPLES:
                    calls.samples.append(now - started)
                if on_call is not None and not stack:
                    on_call(now)
            return result

        return leave

    def compiled(self, seconds: float, compile: str) -> None:
        """A compile has ended in this thread."""
        for calls, _ in self._open.stack:
            calls.compiling += seconds
            calls.compiles.append(compile)

    def graph(self, compile: str, call: Function) -> Function:
        """`call`, the graph of `compile`, with its runs timed until the log is closed."""
        runs, clock = self.runs.setdefault(compile, Runs()), perf_counter

        def run(*args: Any) -> Any:
            if self.closed:
                return call(*args)
            started = clock()
            try:
                return call(*args)
            finally:
                runs.seconds += clock() - started
                runs.count += 1

        return run

    def close(self) -> None:
        """Graphs run on, and are timed no more."""
        self.closed = True
        self._functions = _Functions(enumerate(self.functions))
