"""One exploration in a notebook, from what a cell did to the record that is shown: compiled and repeated on copies
where that changes nothing of the user's, compiled alone where it would."""

from __future__ import annotations

import asyncio
import builtins
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from explorer.api import configure, explore
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.compiler.runtime.timing import peaks
from explorer.core.recorder import Recorder, compile_scope, recording
from explorer.ir import record as data
from explorer.ir.capture import InputFrame
from explorer.records.check.isolate import NotIsolated
from explorer.records.check.process import Outside, heard
from explorer.records.check.trial import Repetition, unnoticed
from explorer.records.exploration import Asked, contents, exploration, with_rewrites
from explorer.show.notebook.cell import FUNCTION, function
from explorer.show.notebook.edit import ExploredCell, repeated
from explorer.show.notebook.instrument import Watched
from explorer.show.notebook.live import Live, Retiming, Stopped
from explorer.show.notebook.output import Output

LONG = 5.0
"""Seconds of a statement beyond which it is not repeated many times, for timing, unasked."""

QUICK = 1.0
"""Seconds of a statement up to which it is repeated a few times, for rewrites, unasked."""


@dataclass(frozen=True)
class Options:
    """What `%%explore` was asked. `time` and `fixes` None: unless the statement takes long."""

    engine: str = "explorer"
    grad: bool | None = None
    dynamic: bool | None = None
    target: str | None = None
    panes: tuple[str, ...] = ()
    time: bool | None = None
    fixes: bool | None = None
    values: bool = False
    name: str | None = None
    save: str | None = None
    out: str | None = None

    @property
    def config(self) -> Config:
        """Raises ValueError for a target that does not exist."""
        return configure(dynamic=self.dynamic, target=self.target)


class Session:
    """The exploration of what `watched` saw, which begins now."""

    def __init__(self, watched: Watched) -> None:
        assert watched.seen is not None
        self.watched = watched
        self.seen = watched.seen
        self.options: Options = watched.options
        self.config = self.options.config
        self.took = time.perf_counter() - self.seen.since
        self.notes: list[str] = [watched.plan.note] if watched.plan.note else []
        self.trial: Repetition | None = None
        self.live = Live()
        self.title = self.options.name or watched.plan.title
        model = self.live.widget.model_id
        engine = "explorer and stock" if self.options.engine == "both" else self.options.engine
        self.output = Output(self.title, engine, self.options.panes, self.live.say, model)
        self.live.begin(self.output)

    def run(self) -> data.RecordData:
        """The record, which is shown. An interrupt ends the exploration, with what is there by then."""
        for name in self.seen.earlier:
            self.notes.append(f"`{name}` was computed in an earlier cell: the backward shown ends at it.")
        with interruptible(self.live.stop):
            try:
                record = self._explored()
            except (KeyboardInterrupt, Stopped):
                where = f" during {self.output.now}" if self.output.now else ""
                record = self._so_far(f"interrupted{where}")
        record = msgspec.structs.replace(record, notes=(*record.notes, *self.notes))
        self.output.finish(record)
        retiming, why_not = self._retiming()
        self.live.finish(retiming, why_not, record.error, self._editing(record, why_not if self.trial is None else ""))
        return record

    def _explored(self) -> data.RecordData:
        try:
            call = self._call()
            if self.seen.state is None:
                raise NotIsolated(self.seen.why_not)
            return self._repeated(call)
        except (NotIsolated, Outside) as refusal:
            self.trial = None
            self.notes.append(f"Compiled but not run again, so neither compared nor timed: {refusal}.")
            return self._so_far("") if self.output.runs else self._compiled_alone()
        except SyntaxError as error:
            return self._so_far(f"these statements cannot form the body of a function: {error.msg}")

    def _call(self) -> Any:
        watched = self.watched
        return function(watched.plan, self.seen.start, tuple(self.seen.values), watched.namespace, watched.file)

    def _repeated(self, call: Any) -> data.RecordData:
        """Compiled, run, compared and timed on copies."""
        state = self.seen.state
        assert state is not None
        backward = self.watched.plan.backward is not None
        own = not backward and self.seen.ran_backward()
        grad = True if backward else self.options.grad
        self.trial = Repetition(call, (), {}, grad, state=state, own_backward=own)
        timed, fixes = self.options.time, self.options.fixes
        if fixes is None:
            fixes = self.options.engine == "explorer" and self.took < QUICK
        if timed is None and self.took > LONG:
            self.notes.append(f"Not timed, since the cell's own run took {self.took:.0f} s; --time times it.")
        try:
            places = state.copied() if state.places else state
            with unnoticed(), heard(refuses=True), places.in_place():
                asked = Asked(
                    self.config, self.title, self.options.engine,
                    time=self.took <= LONG if timed is None else timed,
                    fixes=fixes,
                    values=self.options.values and self.options.engine != "stock",
                    progress=self.output.progress,
                )  # fmt: skip
                return exploration(self.trial, asked).data
        except Exception as error:
            self.trial = None
            self.notes.append(f"Not compared, or not timed: repeating it raised {type(error).__name__}: {error}")
            return self._so_far("")

    def _compiled_alone(self) -> data.RecordData:
        """The frame compiled for the notebook's own values and not run."""
        if self.options.engine != "explorer":
            self.notes.append("Stock compiles only code that runs, so there is nothing to show.")
        call, recorder = self._call(), Recorder(self.output.progress)
        frame = InputFrame("f0", call.__code__, dict(self.seen.values), call.__globals__, vars(builtins))
        with unnoticed(), recording(recorder), compile_scope("f0", FUNCTION):
            try:
                compile_frame(frame, self.config)
            except Exception as error:
                return self._so_far(f"{type(error).__name__}: {error}")
        return with_rewrites(contents(recorder, self.config, self.title), call, tuple(self.seen.values.values()))

    def _so_far(self, error: str) -> data.RecordData:
        """What there is by now: of what we compiled, all that the stages so far give; of stock, the stages."""
        recorder = Recorder()
        recorder.compiles = [run for run in self.output.runs.values() if run.stages]
        ours = {run.id for run in recorder.compiles}
        theirs = tuple(compile for compile in self.output.record.compiles if compile.id not in ours)
        made = contents(recorder, self.config, self.title)
        engine = self.output.record.engine
        return msgspec.structs.replace(made, engine=engine, compiles=(*made.compiles, *theirs), error=error)

    def _retiming(self) -> tuple[Retiming | None, str]:
        """What other sizes can be timed with, or why nothing can."""
        if self.trial is None:
            return None, "the statement is not run again: " + " ".join(self.notes)
        if self.options.engine == "stock":
            return None, "stock is timed only while its cell runs"
        if self.trial.state.places:
            reads = ", ".join(sorted({place.name for place in self.trial.state.places}))
            why = f"it uses {reads} of the notebook, which a background run must not change: pass them as arguments"
            return None, why
        if self.config.target is not None:
            return None, "the code is for another machine"
        retiming = Retiming(self.trial, self.config, torch.is_grad_enabled())
        return (retiming, "") if retiming.arguments() else (None, "no argument is a tensor that can be resized")

    def _editing(self, record: data.RecordData, why_not: str) -> ExploredCell | None:
        """What can be compiled with changes; `why_not` says why that is not run here."""
        if self.options.engine == "stock":
            return None
        watched, grad = self.watched, self.trial.grad if self.trial is not None else self.options.grad
        again = repeated(self.trial, self.options.engine, why_not)
        return ExploredCell(
            self.config, record, again, grad, watched.plan, self.seen.start, watched.namespace, watched.file, self.trial
        )


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Inside, an interrupt raises KeyboardInterrupt, also at the end of a cell that awaits, during which the kernel
    takes interrupts for the event loop. `stop` is called too: what is raised in a finalizer goes no further."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        stop()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


# Does the one-time work of a process's first exploration in advance, while no cell runs.


WAIT = 1.0
"""Seconds after a cell before a task runs, so that consecutive cells are not delayed."""

Task = Callable[[], object]


def compiled() -> None:
    """Explores a small program, to import what an exploration needs."""
    with unnoticed():
        small = torch.ones(2, 2, device="cpu", dtype=torch.float32)
        explore(lambda x: torch.relu(x * 2).sum(-1), time=False, name="ahead")(small)


class Ahead:
    """Runs its tasks one by one in the kernel's event loop, if there is one."""

    def __init__(self, tasks: Iterable[Task] = (compiled, peaks), wait: float = WAIT) -> None:
        self._tasks = deque(tasks)
        self._wait = wait
        self._timer: asyncio.TimerHandle | None = None

    def starts(self, info: object = None) -> None:
        """IPython's event before a cell."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ended(self, result: object = None) -> None:
        """IPython's event at the end of a cell."""
        self.starts()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a shell without a kernel
            return
        if self._tasks:
            self._timer = loop.call_later(self._wait, self._run_next)

    def drop(self) -> None:
        """Called when an exploration has done the work itself."""
        self.starts()
        self._tasks.clear()

    def _run_next(self) -> None:
        self._tasks.popleft()()
        self.ended()
