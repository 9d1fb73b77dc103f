"""The ambient recorder: stage runs and events, kept as live objects and rendered only when a record is asked for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol
from weakref import WeakSet

P = ParamSpec("P")

EVENT_CAP = 2000
"""Events of one type kept in one compile, where the type has no `CAP` of its own; the rest are counted."""

_current: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
_everywhere: list[Recorder] = []
"""Who records in all threads, where the current one has no recorder of its own: the last."""


@dataclass
class StageRun:
    """One call of a stage. Times are seconds on `time.perf_counter`; `error` is the exception that ended it. `events`
    is how many events its compile had when it began."""

    name: str
    started: float
    seconds: float = 0.0
    depth: int = 0
    artifact: Any = None
    error: BaseException | None = None
    events: int = 0


@dataclass
class CompileRun:
    """The stage runs and events of one compile: a frame ("f0"), its recompile ("f0.1") or a bare graph ("g0")."""

    id: str
    title: str
    started: float
    seconds: float = 0.0
    stages: list[StageRun] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    error: BaseException | None = None


@dataclass
class EventRoom:
    """Room for `left` more events of one kind in a compile."""

    run: CompileRun
    kind: str
    left: int

    def takes(self) -> bool:
        """Whether one more is kept, and counts; or it counts as left out."""
        if self.left:
            self.left -= 1
            return True
        self.run.left_out[self.kind] += 1
        return False


OnStage = Callable[[CompileRun, StageRun], None]


def _ignore(*arguments: object) -> None:
    """A listener that ignores everything."""


@dataclass(frozen=True)
class Progress:
    """Callbacks for the progress of an exploration: when a stage begins and ends, for each timed sample of a contestant
    in seconds, and for the work between stages."""

    on_begin: OnStage = _ignore
    on_stage: OnStage = _ignore
    on_sample: Callable[[str, float], None] = _ignore
    on_phase: Callable[[str], None] = _ignore


SILENT = Progress()

TOTALS: Counter[str] = Counter()
"""What this process compiled so far, recorded or not: compiles, breaks, ATen calls by where they run."""


class GraphTimer(Protocol):
    """Times the graphs as they run (records/data/calls.py); it is notified of compiles in the same thread."""

    def begins_to_compile(self) -> None: ...

    def compiled(self, seconds: float, compile: str) -> None: ...

    def graph(self, compile: str, call: Callable[..., Any]) -> Callable[..., Any]: ...


class Recorder:
    """Collects what happens while it is current, and notifies `progress` of each stage (live views). The time of those
    callbacks, `listener_seconds` so far, counts for no stage and no compile. `calls` times the graphs of a program that
    continues to run: when a compile ends, its records release the program's objects. `ids` is the prefix of the ids of
    its compiles."""

    def __init__(self, progress: Progress = SILENT, calls: GraphTimer | None = None, ids: str = "") -> None:
        self.ids = ids
        self.started = time.perf_counter()
        self.compiles: list[CompileRun] = []
        self._open: list[CompileRun] = []
        self._depth = 0
        self._progress = progress
        self.listener_seconds = 0.0
        self.calls = calls
        self._rooms: dict[tuple[int, str], EventRoom] = {}
        self.made = WeakSet[object]()
        """The guard managers of the compiles that it recorded."""

    @contextmanager
    def compile(self, id: str, title: str) -> Iterator[CompileRun]:
        """Everything recorded inside belongs to a new compile; a second "f0" is called "f0#2". They nest."""
        id = self.ids + id
        taken = sum(run.id.partition("#")[0] == id for run in self.compiles)
        run = CompileRun(f"{id}#{taken + 1}" if taken else id, title, time.perf_counter())
        self.compiles.append(run)
        self._open.append(run)
        if self.calls is not None:
            self.calls.begins_to_compile()
        try:
            with self._timed(run):
                yield run
        finally:
            self._open.pop()
            if self.calls is not None:
                for stage in run.stages:
                    if hasattr(stage.artifact, "let_go"):
                        stage.artifact = stage.artifact.let_go()
                if not self._open:
                    self.calls.compiled(time.perf_counter() - run.started, run.id)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageRun]:
        owner = self._owner()
        run = StageRun(name, time.perf_counter(), depth=self._depth, events=len(owner.events))
        owner.stages.append(run)
        self._tell(self._progress.on_begin, owner, run)
        self._depth += 1
        try:
            with self._timed(run):
                yield run
        finally:
            self._depth -= 1
            self._tell(self._progress.on_stage, owner, run)

    @contextmanager
    def _timed(self, run: CompileRun | StageRun) -> Iterator[None]:
        """Record in `run` the error that passes, and the time until the end, without that of listeners."""
        run.started, outer = time.perf_counter(), self.listener_seconds
        try:
            yield
        except BaseException as error:
            run.error = error
            raise
        finally:
            run.seconds = time.perf_counter() - run.started - (self.listener_seconds - outer)

    def _tell(self, listener: OnStage, compile: CompileRun, stage: StageRun) -> None:
        started = time.perf_counter()
        try:
            listener(compile, stage)
        finally:
            self.listener_seconds += time.perf_counter() - started

    def timed(self, graph: Callable[P, object]) -> Callable[P, Any]:
        """What runs the graph of the innermost open compile, timed where somebody wants that."""
        return graph if self.calls is None else self.calls.graph(self._owner().id, graph)

    def event(self, event: object) -> None:
        kind = type(event)
        room = self.room(kind.__name__, getattr(kind, "CAP", EVENT_CAP))
        if room.takes():
            room.run.events.append(event)

    def room(self, kind: str, cap: int) -> EventRoom:
        """The room that the innermost open compile has for this kind of events, `cap` at first."""
        owner = self._owner()
        return self._rooms.setdefault((id(owner), kind), EventRoom(owner, kind, cap))

    @property
    def compiling(self) -> bool:
        return bool(self._open)

    def _owner(self) -> CompileRun:
        """The innermost open compile; what happens between compiles belongs to the run "process"."""
        if self._open:
            return self._open[-1]
        if not self.compiles or self.compiles[0].id != PROCESS:
            self.compiles.insert(0, CompileRun(PROCESS, OUTSIDE, self.started))
        return self.compiles[0]


def recorder() -> Recorder | None:
    """The current recorder, or None when nobody records."""
    return _current.get() or (_everywhere[-1] if _everywhere else None)


@contextmanager
def recording(into: Recorder) -> Iterator[Recorder]:
    """Make `into` the current recorder inside the block."""
    token = _current.set(into)
    try:
        yield into
    finally:
        _current.reset(token)


@contextmanager
def recording_everywhere(into: Recorder) -> Iterator[Recorder]:
    """Make `into` the recorder of every thread that has none of its own, until the block ends."""
    _everywhere.append(into)
    try:
        yield into
    finally:
        _everywhere.remove(into)


PROCESS, OUTSIDE = "process", "outside any compile"
"""The id and the title of what holds what happened between compiles."""

GRAPH = "graph"
"""The id of the compile of a graph that another frontend captured."""


@contextmanager
def compile_scope(id: str, title: str) -> Iterator[str]:
    """What is recorded inside belongs to a compile whose id is yielded: `id`, where no other of this record has it."""
    current = recorder()
    if current is None:
        yield id
        return
    with current.compile(id, title) as run:
        yield run.id


def room(kind: str, cap: int) -> EventRoom | None:
    """The room for events that are frequent and costly to describe; None where nobody records."""
    current = recorder()
    return None if current is None else current.room(kind, cap)


def total(name: str) -> int:
    return TOTALS[name]


def note(event: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Record `event(*args, **kwargs)`, an attempt that leaves no trace in a result; one lookup when nobody records.
    An event with a `TOTAL` counts in the totals of this process under that name, recorded or not."""
    if named := getattr(event, "TOTAL", ""):
        TOTALS.update((named,))
    current = recorder()
    if current is not None:
        current.event(event(*args, **kwargs))
