"""Watches an unmodified program: records every compile and every call of compiled code, and runs nothing twice."""

from __future__ import annotations

import datetime
import linecache
from contextlib import ExitStack
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from explorer.compiler.capture.hook import stance
from explorer.compiler.config import Config
from explorer.core.recorder import SILENT, Progress, Recorder, recording_everywhere
from explorer.core.text import count, headline
from explorer.ir import record as data
from explorer.records.assembly import assembled, compiles_of, settings_of
from explorer.records.data.calls import ALL_TIMED, EVERY, CallLog
from explorer.records.stock import calling, hook
from explorer.records.stock.breaks import raised_at, whole_text
from explorer.records.stock.observation import Observation
from explorer.records.stock.run import WATCHING, process_settings

SHOWN_EVERY = 1.0
"""Seconds, at least, from one look at the whole in a live view to the next."""
SHARE_OF_SHOWING = 0.03
"""The fraction of the program's time that a live view may take."""


NO_CALL = (
    "No compiled function was called. torch.compile(module) compiles forward, which calling the module runs; its other "
    "methods, such as generate, run as they are unless they are compiled themselves."
)
TIMED_SELDOM = (
    f"Of a graph's runs the first {ALL_TIMED} are timed, and every {EVERY}th after them, which stands for {EVERY}."
)


STANCE = (
    "torch.compiler.set_stance({!r}) was in force in some calls: it decides what is compiled, and what runs eagerly."
)


ELSEWHERE = (
    "The program started {}, as DataLoader does for its workers. What such a process compiles is not in this record: "
    "run the program with TORCH_TRACE=FOLDER and import the folder, which has a log of each."
)


class LiveView(Protocol):
    """A live view of a watch."""

    progress: Progress

    def show(self, record: data.RecordData) -> None:
        """Show the record so far."""

    def finish(self, record: data.RecordData) -> None:
        """Show the final record."""

    def is_above(self) -> bool:
        """Whether it is in the cell that runs, which is to hold the record once."""


class WatchedProgram:
    """A context manager that records while the program runs unchanged; `view` is notified meanwhile."""

    def __init__(self, title: str = "", view: LiveView | None = None) -> None:
        self.title = title or "watch"
        self._view = view
        self._next = 0.0
        self._notes: tuple[str, ...] = ()
        self._raised: tuple[str, data.SpanData | None] = ("", None)
        """What the program ended with, and where."""
        self._ended: dict[str, Any] = {}
        """What the record says of the moment at which the watch ended."""
        self._whole: data.RecordData | None = None
        progress = SILENT if view is None else view.progress
        self._calls = CallLog(None if view is None else self._show)
        self._recorder = Recorder(progress, self._calls)
        self._seen = Observation(None if view is None else progress.on_stage, calls=self._calls)
        self._ends = ExitStack()
        self.spent = 0.0
        """Seconds that looking took, once it has ended; the calls themselves aside."""

    def __enter__(self) -> Self:
        if self._ended or hook.is_watched():
            raise RuntimeError("this watch is already active or has ended; create a new one with explorer.watch()")
        self._ends.enter_context(recording_everywhere(self._recorder))
        hooks = (*WATCHING, calling.hook_of(self._calls, self._seen, self._recorder))
        self._seen.stances.update(dict.fromkeys({stance()} - {"default"}))
        missing = self._ends.enter_context(hook.watching(self._seen, hooks, everywhere=True))
        for target, why in missing.items():
            self._seen.compile().event("HookMissing", hook=target, why=why)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends.close()
        self._calls.close()
        if error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0)):
            text = whole_text(error)
            self._notes = (f"The program ended with {headline(text)}",)
            self._raised = text, raised_at(error)
        self.spent = self._seen.spent
        self._ended = self._now()
        if self._view is not None:
            self._view.finish(self.contents)

    @property
    def calls(self) -> int:
        """Of compiled functions, so far."""
        return sum(each.count for each in self._calls.functions)

    @property
    def contents(self) -> data.RecordData:
        """The data of the record so far."""
        if not self._ended:
            return self._so_far()
        if self._whole is None:
            self._whole = self._so_far()
            self._recorder, self._seen = Recorder(), Observation()  # what was compiled is the program's alone again
        return self._whole

    def _now(self) -> dict[str, Any]:
        lines = {file: entry[2] for file, entry in linecache.cache.items() if len(entry) > 1}
        return {"moment": datetime.datetime.now(datetime.UTC), "process": process_settings(), "lines": lines}

    def _so_far(self) -> data.RecordData:
        now = self._ended or self._now()
        ours = tuple(map(self._with_runs, compiles_of(self._recorder, {})))
        stock = self._seen.frozen({})
        calls = tuple(
            data.CallsData(
                each.function, each.engine, each.count, each.seconds, each.compiling,
                self._calls.graph_seconds(each), tuple(each.samples), tuple(each.served),
                tuple(each.compiled), 0 if each.outside is None else each.outside.number,
                tuple(data.RaisedData(*one) for one in each.raised),
            )
            for each in self._calls.functions
            if each.count
        )  # fmt: skip
        engines = [name for name, some in (("explorer", ours), ("stock", stock)) if some]
        engines = engines or list(dict.fromkeys(each.engine for each in calls))
        settings = {**(settings_of(Config()) if ours else {}), **now["process"], **self._seen.settings}
        made = assembled(
            self.title, " and ".join(engines), settings, (*ours, *stock), (*ours, *stock), None, calls=calls,
            eager=self._seen.eager(), outside=self._calls.outside, untimed=self._calls.untimed, lines=now["lines"],
            moment=now["moment"], raised=self._raised,
        )  # fmt: skip
        cut = sum("Stage" in each.left_out for each in stock)
        parts: tuple[str, ...] = ()
        if cut:
            parts = (f"Of the first {count(cut, 'compile')} the stages were dropped, to save memory.",)
        if any(runs.count > ALL_TIMED for runs in self._calls.runs.values()):
            parts += (TIMED_SELDOM,)
        if self._seen.processes:
            parts += (ELSEWHERE.format(count(self._seen.processes, "process", "processes")),)
        parts += tuple(STANCE.format(each) for each in self._seen.stances)
        if not (ours or stock or calls or self._seen.stances):
            parts += (NO_CALL,)
        return msgspec.structs.replace(made, notes=(*made.notes, *parts, *self._notes))

    def _with_runs(self, compile: data.CompileData) -> data.CompileData:
        runs = self._calls.runs.get(compile.id)
        return compile if runs is None else msgspec.structs.replace(compile, runs=runs.count, run_seconds=runs.seconds)

    def _show(self, now: float) -> None:
        """After a call of a compiled function, on the program's time: seldom, and the longer it takes the more so."""
        if now < self._next or self._view is None:
            return
        self._view.show(self._so_far())
        taken = perf_counter() - now
        self._next = now + max(SHOWN_EVERY, taken / SHARE_OF_SHOWING)
