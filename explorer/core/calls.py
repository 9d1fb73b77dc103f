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

SERVED = 300
"""Calls of one function for which it is kept which graphs ran in them."""

ALL_TIMED, EVERY = 1000, 8
"""Runs of a graph that are timed; of those after them every eighth, which stands for as many."""

Function = Callable[..., Any]


@dataclass(eq=False, slots=True)
class Calls:
    """Of one compiled function. `compiling` is seconds of `seconds`; `compiles` are the ids of those that its calls
    caused. `taken` are seconds of calls that are not in the sums yet: a call adds to it and to nothing else."""

    function: str
    engine: str
    compiling: float = 0.0
    compiles: list[str] = field(default_factory=list)
    samples: array[float] = field(default_factory=lambda: array("d"))
    taken: array[float] = field(default_factory=lambda: array("d"))
    served: list[tuple[str, ...]] = field(default_factory=list)
    """The compiles whose graphs ran in the first calls, call by call."""
    compiled: list[int] = field(default_factory=list)
    """The numbers, from 1, of those of these calls in which something was compiled."""
    _count: int = 0
    _seconds: float = 0.0

    @property
    def count(self) -> int:
        return self._count + len(self.taken)

    @property
    def seconds(self) -> float:
        return self._seconds + sum(self.taken)

    def add_up(self) -> None:
        """Other threads go on adding to the end of `taken` meanwhile."""
        some = self.taken[:]
        self.samples.extend(some[: max(SAMPLES - self._count, 0)])
        self._count += len(some)
        self._seconds += sum(some)
        del self.taken[: len(some)]


@dataclass
class Runs:
    """Of the graph of one compile. `read` gives their number and the seconds that they took."""

    read: Callable[[], tuple[int, float]]

    @property
    def count(self) -> int:
        return self.read()[0]

    @property
    def seconds(self) -> float:
        return self.read()[1]

    def end(self) -> None:
        last = self.read()
        self.read = lambda: last


class _Functions(dict[Any, Calls]):
    """By what stands for a compiled function. `name` is asked of one that is met the first time."""

    def __init__(self, name: Callable[[Any], str], engine: str) -> None:
        self._name, self._engine = name, engine

    def __missing__(self, compiled: Any) -> Calls:
        if len(self) >= FUNCTIONS:
            return self.setdefault("others", Calls("other functions", self._engine))
        made = self[compiled] = Calls(self._name(compiled), self._engine)
        return made


class Open(threading.local):
    """The calls that a thread is in: of which function, and since when. `ran` are the compiles whose graphs ran in
    them, while anybody counts them, each with how many calls it was in. `compiles` have the start and the seconds of
    each that has ended and that no other contains."""

    def __init__(self) -> None:
        self.stack: list[tuple[Calls, float]] = []
        self.ran: list[tuple[int, str]] = []
        self.compiles: list[tuple[float, float]] = []


class CallLog:
    """`on_call` is called with the time after each call of a compiled function that no other contains."""

    def __init__(self, on_call: Callable[[float], None] | None = None) -> None:
        self.runs: dict[str, Runs] = {}
        """By the compile's id."""
        self._on_call = on_call
        self.open = Open()
        self._functions: list[dict[Any, Calls]] = []
        """By engine."""

    @property
    def functions(self) -> tuple[Calls, ...]:
        found = tuple(calls for functions in self._functions for calls in list(functions.values()))
        for calls in found:
            calls.add_up()
        return found

    def graph_seconds(self, calls: Calls) -> float | None:
        """In graphs that calls of the function made compile; None where there are none: they are older."""
        found = [self.runs[id] for id in calls.compiles if id in self.runs]
        return sum(runs.seconds for runs in found) if found or calls.compiling else None

    def known(self, name: Callable[[Any], str], engine: str) -> dict[Any, Calls]:
        """The functions of an engine, by what stands for each; `name` is asked the first time."""
        made = _Functions(name, engine)
        self._functions.append(made)
        return made

    def leaving(self, function: Function) -> Function:
        """`function`, called where the call of a compiled function ends."""
        open, clock, on_call = self.open, perf_counter, self._on_call

        def leave(argument: Any) -> Any:
            result = function(argument)
            stack = open.stack
            if stack:  # else it began before anybody watched
                calls, started = stack.pop()
                taken, served = calls.taken, calls.served
                taken.append(clock() - started)
                if len(served) < SERVED:
                    depth = len(stack)
                    served.append(tuple(compile for at, compile in open.ran if at == depth + 1))
                    open.ran[:] = [each for each in open.ran if each[0] <= depth]
                    if open.compiles and open.compiles[-1][0] >= started:
                        calls.compiled.append(len(served))
                if len(taken) > SAMPLES:
                    calls.add_up()
                if on_call is not None and not stack:
                    on_call(clock())
            return result

        return leave

    def compiled(self, seconds: float, compile: str) -> None:
        """A compile has ended in this thread. Those inside it, as of a graph that stock hands to our back end, are part
        of it."""
        started, inside, ended = perf_counter() - seconds, 0.0, self.open.compiles
        while ended and ended[-1][0] >= started:
            inside += ended.pop()[1]
        ended.append((started, seconds))
        for calls, _ in self.open.stack:
            calls.compiling += seconds - inside
            calls.compiles.append(compile)

    def graph(self, compile: str, call: Function) -> Function:
        """`call`, the graph of `compile`, with its runs timed until the log is closed."""
        clock, open, count, seconds = perf_counter, self.open, 0, 0.0
        before = self.runs.get(compile)

        def run(*args: Any) -> Any:
            nonlocal count, seconds  # cells, which are quicker than attributes
            count += 1
            stands_for = 1
            if count <= SERVED:
                open.ran.append((len(open.stack), compile))
            if count > ALL_TIMED:
                if count % EVERY:
                    return call(*args)
                stands_for = EVERY
            started = clock()
            try:
                return call(*args)
            finally:
                seconds += stands_for * (clock() - started)

        def read() -> tuple[int, float]:
            return (count, seconds) if before is None else (count + before.count, seconds + before.seconds)

        self.runs[compile] = Runs(read)
        return run

    def close(self) -> None:
        """Nothing is counted any more; graphs run on as they were made."""
        self._functions = [dict(enumerate(self.functions))]
        for runs in list(self.runs.values()):
            runs.end()
