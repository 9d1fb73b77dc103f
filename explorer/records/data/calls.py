"""Calls of compiled functions, counted and timed while somebody watches: what they took, how much of it in graphs.

What runs at each call is written out in one function each, since the whole may take a microsecond.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from types import CodeType
from typing import Any, Protocol

from explorer.core.text import headline

SAMPLES = 2000
"""Calls of one function whose times are kept one by one; those after them are in the sums alone."""

FUNCTIONS = 1000
"""Compiled functions that are told apart; a program that compiles anew for ever has the others counted together."""

SERVED = 300
"""Calls of one function for which it is kept which graphs ran in them."""

ALL_TIMED, EVERY = 1000, 19
"""The first runs of a graph are all timed; after them every EVERYth, which stands for as many. It is a prime: a program
may do something every 2, 5 or 8 runs, which would otherwise be timed always or never."""

LONGEST = 3.0
"""Seconds of a call that is short enough for the next one to be measured: each operation in it is noted."""

Function = Callable[..., Any]

Named = Callable[[object], tuple[str, str]]
"""Gives the name of a function, and where it is: "train.py:12"."""

Place = tuple[str, str, int, int]
"""A function by its file, its name, its first line, as a code object has them, and a column that it is in, or 0."""


def place_of(code: CodeType) -> Place:
    columns = (column for _, _, column, _ in code.co_positions() if column)
    return code.co_filename, code.co_name, code.co_firstlineno, next(columns, 0)


@dataclass
class Share:
    """Of what ran outside graphs in one call: seconds in a function itself, ATen calls, and whether it was compiled."""

    seconds: float = 0.0
    calls: int = 0
    compiled: bool = False


@dataclass(frozen=True)
class OutsideGraphs:
    """What ran outside graphs in one call of `function`, compiled by `engine`: the call `number`, counted from 1, or 0
    for one that was made for it. `at` is where the function is."""

    function: str
    engine: str
    number: int
    shares: dict[Place, Share]
    at: str = ""

    @property
    def name(self) -> str:
        at = f" ({self.at})" if self.at else ""
        return f"{f'call {self.number}' if self.number else 'a call'} of {self.function}{at}"

    @property
    def absent(self) -> str:
        """Why something has no share."""
        return f"it did not run in {self.name}, which was measured"


class Measure(Protocol):
    """Measures one call at a time, and in one thread."""

    def begin(self) -> bool:
        """Measure what this thread does from now on; False where that cannot be, as while another is measured."""

    def end(self) -> dict[Place, Share] | str:
        """What was measured, or why nothing was."""

    def give_up(self, why: str) -> None:
        """In this thread."""


COMPILED = "something was compiled in it"
PROFILED = "a profiler of the program was on"
ENDED = "the watch ended in it"
NESTED = "it is called inside other compiled functions"
TOO_LONG = f"its calls take longer than {LONGEST:g} s"


@dataclass(eq=False, slots=True)
class FunctionCalls:
    """Of one compiled function. `compiling` is seconds of `seconds`; `compiles` are the ids of those that its calls
    caused. `taken` are seconds of calls that are not in the sums yet: a call adds to it and to nothing else."""

    function: str
    engine: str
    at: str = ""
    compiling: float = 0.0
    compiles: list[str] = field(default_factory=list)
    samples: array[float] = field(default_factory=lambda: array("d"))
    taken: array[float] = field(default_factory=lambda: array("d"))
    served: list[tuple[str, ...]] = field(default_factory=list)
    """By call, of the first calls: the compiles whose graphs ran in it, or that it made and that have none."""
    compiled: list[int] = field(default_factory=list)
    """The numbers, from 1, of those of these calls in which something was compiled."""
    outside: OutsideGraphs | None = None
    tries: int = 3
    """How many more calls that compile nothing may be measured until one is."""
    refused: str = ""
    """Why the last one that was to be measured, and compiled nothing, was not."""
    raised: list[tuple[int, str]] = field(default_factory=list)
    """The numbers, from 1, of calls that raised, the first ones, and what."""
    measured: int = 0
    """The thread whose call is being measured, while it is."""
    looked_at: bool = True
    """Whether more is noted of its calls than what they take: of the first ones, and of one that is measured."""
    _count: int = 0
    _seconds: float = 0.0

    @property
    def count(self) -> int:
        return self._count + len(self.taken)

    @property
    def seconds(self) -> float:
        return self._seconds + sum(self.taken)

    @property
    def unmeasured(self) -> str:
        """Why no call was measured."""
        if self.refused:
            return self.refused
        if self.count == 1:
            return f"{self.function} was called once, and calls are measured from the second on"
        return f"{COMPILED.replace('in it', 'in each call')} of {self.function} that could be measured"

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


class _Functions(dict[Any, FunctionCalls]):
    """By what stands for a compiled function. `name` is asked of one that is met the first time. One whose next call is
    to be measured is kept aside, since what is not found costs the others nothing."""

    def __init__(self, name: Named, engine: str, measure: Measure | None, open: Open) -> None:
        self._name, self._engine, self._measure, self._open = name, engine, measure, open
        self.all: list[FunctionCalls] = []
        self._due: dict[Any, FunctionCalls] = {}

    def __missing__(self, compiled: object) -> FunctionCalls:
        due = self._due.get(compiled)
        if due is not None:
            self[compiled] = due
            if self._due.pop(compiled, None) is not None and self._measure is not None and not self._open.stack:
                if self._measure.begin():
                    due.measured, due.looked_at = threading.get_ident(), True
                else:
                    due.tries, due.refused = due.tries - 1, PROFILED
            return due
        if len(self.all) >= FUNCTIONS:
            compiled, name, at = "others", "other functions", ""
            if compiled in self:
                return self[compiled]
        else:
            name, at = self._name(compiled)
        made = self[compiled] = FunctionCalls(name, self._engine, at)
        self.all.append(made)
        return made

    def is_due(self, calls: FunctionCalls) -> None:
        """The next call of this function is to be measured."""
        for compiled, known in list(self.items()):
            if known is calls and compiled != "others":
                self._due[compiled] = self.pop(compiled)


class Open(threading.local):
    """The calls that a thread is in: of which function, and since when. `ran` are the compiles whose graphs ran in
    them, while anybody counts them, each with how many calls it was in. `compiles` have the start and the seconds of
    each that has ended and that no other contains."""

    def __init__(self) -> None:
        self.stack: list[tuple[FunctionCalls, float]] = []
        self.ran: list[tuple[int, str]] = []
        self.compiles: list[tuple[float, float]] = []


class CallLog:
    """`on_call` is called with the time after each call of a compiled function that no other contains. `measure` looks
    into one call of each function in which nothing is compiled, the second or one soon after it."""

    def __init__(self, on_call: Callable[[float], None] | None = None) -> None:
        self.runs: dict[str, Runs] = {}
        """By the compile's id."""
        self.runs_graph: CodeType | None = None
        """The code of the functions that run graphs, all of them."""
        self._on_call = on_call
        self.measure: Measure | None = None
        self.open = Open()
        self._functions: list[_Functions] = []
        """By engine."""
        self._ended: tuple[FunctionCalls, ...] = ()

    @property
    def functions(self) -> tuple[FunctionCalls, ...]:
        found = tuple(calls for functions in self._functions for calls in functions.all)
        for calls in found:
            calls.add_up()
        return self._ended + found

    @property
    def outside(self) -> tuple[OutsideGraphs, ...]:
        """What ran outside graphs in one call of each function, where that was measured."""
        return tuple(calls.outside for calls in self.functions if calls.outside is not None)

    @property
    def untimed(self) -> dict[str, str]:
        """By compile that calls of a function made: why what it left to Python is not timed, where it is not."""
        functions = sorted(self.functions, key=lambda calls: calls.outside is not None)
        return {id: calls.unmeasured if calls.outside is None else calls.outside.absent
                for calls in functions for id in calls.compiles}  # fmt: skip

    def graph_seconds(self, calls: FunctionCalls) -> float | None:
        """In graphs that calls of the function made compile; None where there are none: they are older."""
        found = [self.runs[id] for id in calls.compiles if id in self.runs]
        return sum(runs.seconds for runs in found) if found or calls.compiling else None

    def known(self, name: Named, engine: str) -> dict[Any, FunctionCalls]:
        """The functions of an engine, by what stands for each; `name` is asked the first time."""
        made = _Functions(name, engine, self.measure, self.open)
        self._functions.append(made)
        return made

    def leaving(self, function: Function) -> Function:
        """`function`, called where the call of a compiled function ends."""
        open, clock, on_call, exception = self.open, perf_counter, self._on_call, sys.exception

        def leave(argument: object) -> Any:
            result = function(argument)
            stack = open.stack
            if stack:  # else it began before anybody watched
                calls, started = stack.pop()
                taken = calls.taken
                taken.append(clock() - started)
                error = exception()
                if calls.looked_at or error is not None:
                    self._look_at(calls, started, taken[-1], error)
                if len(taken) > SAMPLES:
                    calls.add_up()
                if on_call is not None and not stack:
                    on_call(clock())
            return result

        return leave

    def _look_at(self, calls: FunctionCalls, started: float, taken: float, error: BaseException | None) -> None:
        stack, ran, compiles, served = self.open.stack, self.open.ran, self.open.compiles, calls.served
        compiled = bool(compiles) and compiles[-1][0] >= started
        if error is not None and len(calls.raised) < SERVED and _leaves(error):
            calls.raised.append((calls.count, _text(error)))
        if calls.measured and not stack:
            self._measured(calls, compiled)
        if len(served) < SERVED:
            depth = len(stack)
            served.append(tuple(compile for at, compile in ran if at == depth + 1))
            ran[:] = [each for each in ran if each[0] <= depth]
            if compiled:
                calls.compiled.append(len(served))
            if calls.outside is None and calls.tries and not calls.measured:
                if stack or taken >= LONGEST:
                    calls.refused = calls.refused if compiled else NESTED if stack else TOO_LONG
                else:
                    self._is_due(calls)
        calls.looked_at = len(served) < SERVED or calls.measured != 0

    def _measured(self, calls: FunctionCalls, compiled: bool) -> None:
        if self.measure is None or calls.measured != threading.get_ident():
            return
        calls.measured, found = 0, self.measure.end()
        if not isinstance(found, str):
            calls.outside = OutsideGraphs(calls.function, calls.engine, calls.count, found, calls.at)
        elif not compiled:
            calls.tries, calls.refused = calls.tries - 1, found

    def _is_due(self, calls: FunctionCalls) -> None:
        for functions in self._functions if self.measure is not None else ():
            functions.is_due(calls)

    def begins_to_compile(self) -> None:
        if self.measure is not None:
            self.measure.give_up(COMPILED)

    def compiled(self, seconds: float, compile: str, used: bool = True) -> None:
        """A compile has ended in this thread, `used` where it is known to be of the program's frames. Those inside
        it, as of a graph that stock hands to our backend, are part of it."""
        started, inside, ended = perf_counter() - seconds, 0.0, self.open.compiles
        while ended and ended[-1][0] >= started:
            inside += ended.pop()[1]
        ended.append((started, seconds))
        stack = self.open.stack
        of = stack[-1][0] if stack else None
        if of is not None and of.looked_at and (used or not of.compiles) and compile not in self.runs:
            self.open.ran.append((len(stack), compile))  # it has no graph that would tell
        for calls, _ in stack:
            calls.compiling += seconds - inside
            calls.compiles.append(compile)

    def graph(self, compile: str, call: Function) -> Function:
        """`call`, the graph of `compile`, with its runs timed until the log is closed."""
        clock, open, count, seconds, untimed = perf_counter, self.open, 0, 0.0, 0
        before = self.runs.get(compile)

        def run(*args: object) -> Any:
            nonlocal count, seconds, untimed  # cells, which are quicker than attributes
            if untimed:
                untimed -= 1
                return call(*args)
            if count < SERVED:
                open.ran.append((len(open.stack), compile))
            stands_for = 1 if count < ALL_TIMED else EVERY
            count += stands_for
            untimed = stands_for - 1
            started = clock()
            try:
                return call(*args)
            finally:
                seconds += stands_for * (clock() - started)

        def read() -> tuple[int, float]:
            """Of those that `count` has already, `untimed` are still to come."""
            done = count - untimed
            return (done, seconds) if before is None else (done + before.count, seconds + before.seconds)

        self.runs[compile] = Runs(read)
        self.runs_graph = run.__code__
        return run

    def close(self) -> None:
        """Nothing is counted any more; graphs run on as they were made."""
        if self.measure is not None:
            self.measure.give_up(ENDED)
        self._ended = self.functions
        self._functions.clear()
        for runs in list(self.runs.values()):
            runs.end()


def _leaves(error: BaseException) -> bool:
    """Whether it is leaving the call that ends: the last frame that it has reached is the one that made the call. What
    the program is handling meanwhile has not."""
    traceback, frame = error.__traceback__, sys._getframe(3)
    return traceback is not None and traceback.tb_frame is frame


def _text(error: BaseException) -> str:
    """Of its text what it was given, since writing it out may run the program's code."""
    message = error.args[0] if error.args and type(error.args[0]) is str else ""
    return f"{type(error).__name__}: {headline(message)}" if message else type(error).__name__
