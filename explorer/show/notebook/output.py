"""The output of one exploration: there at once, updated as each stage ends, and in the end the whole record."""

from __future__ import annotations

import contextvars
import datetime
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from IPython.display import display

from explorer.core.recorder import CompileRun, Progress, StageRun
from explorer.core.text import duration
from explorer.ir import record as data
from explorer.records import to_record
from explorer.records.environment import describe
from explorer.show.notebook import protocol
from explorer.show.record import Record
from explorer.show.view.glance import with_glance

BETWEEN_SAMPLES = 0.05
"""Seconds for which samples are gathered before they are sent."""


LATE = 1.0
"""Seconds after which the output says that the cell still runs."""

Say = Callable[[protocol.Message], None]
"""Sends a message to the pages that show a record."""


class SampleBuffer:
    """Gathers samples of a run, so that not every one is a message."""

    def __init__(self, say: Say, run: str = "") -> None:
        self._say = say
        self._run = run
        self._gathered: dict[str, list[float]] = {}
        self._sent = 0.0

    def add(self, name: str, seconds: float) -> None:
        self._gathered.setdefault(name, []).append(seconds)
        if time.perf_counter() - self._sent > BETWEEN_SAMPLES:
            self.flush()

    def flush(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for name, seconds in gathered.items():
            self._say(protocol.Samples(self._run, name, tuple(seconds)))
        self._sent = time.perf_counter()


class Output:
    """`say` may raise, to end the exploration; `live` is the widget's id. `panes` are those to open."""

    def __init__(self, title: str, engine: str, panes: Sequence[str], say: Say, live: str) -> None:
        self.say = say
        self._metadata = {data.MIME: {"live": live, **({"panes": list(panes)} if panes else {})}}
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._started = data.RecordData(
            data.VERSION, title, engine, "", created, describe(), {}, (), (), data.CoverageData()
        )
        self._compiles: dict[str, data.CompileData] = {}
        self._texts: dict[str, dict[str, tuple[str, data.TextData]]] = defaultdict(dict)
        self.runs: dict[str, CompileRun] = {}
        """The compiles so far, as the recorder has them."""
        self._samples = SampleBuffer(say)
        self._whole: data.RecordData | None = None
        self.now = ""
        """What goes on."""
        begun = _bundle(self._started, whole=False) | _text_bundle(f"{title}: in progress; this output will be updated")
        self._handle = display(begun, metadata=self._metadata, raw=True, display_id=True)

    @property
    def record(self) -> data.RecordData:
        """As it is by now."""
        if self._whole is not None:
            return self._whole
        so_far = msgspec.structs.replace(self._started, compiles=tuple(self._compiles.values()))
        return with_glance(so_far, whole=False)

    @property
    def progress(self) -> Progress:
        return Progress(self._begin, self._stage, self._samples.add, self._phase)

    def _begin(self, compile: CompileRun, stage: StageRun) -> None:
        self.now = f"stage {stage.name} of {compile.id}"
        self.say(protocol.Running(compile.id, stage.name))

    def _stage(self, compile: CompileRun, run: StageRun) -> None:
        self.runs[compile.id] = compile
        before = self._compiles.get(compile.id)
        if before is None:
            before = data.CompileData(compile.id, compile.title, compile.started, 0.0)
        made = to_record.stage(f"{compile.id}/{_stage_number(compile, run, before)}", run, self._texts[compile.id])
        self._compiles[compile.id] = msgspec.structs.replace(before, stages=(*before.stages, made))
        self.say(protocol.StageDone(msgspec.structs.replace(before, stages=()), made, self.record.glance))

    def _phase(self, what: str) -> None:
        self._samples.flush()
        self.now = what
        self.say(protocol.Running("", "", what))

    def finish(self, record: data.RecordData) -> None:
        """Shows the whole record, in place of what was shown so far, and lets go of what it was made from."""
        self._whole = with_glance(record)
        self.runs, self._texts, self._compiles = {}, defaultdict(dict), {}
        self._handle.update(_bundle(record), metadata=self._metadata, raw=True)


class Waiting:
    """Says, from a second on, that a cell still runs as it would without the magic, and in the end how long it took."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._handle: Any = None
        context = contextvars.copy_context()  # by which IPython knows whose output it is
        self._timer = threading.Timer(LATE, lambda: context.run(self._say))
        self._timer.daemon = True
        self._timer.start()

    def _say(self) -> None:
        bundle = _text_bundle("Running the cell; what it computes is compiled after that.")
        self._handle = display(bundle, raw=True, display_id=True)

    def end(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._handle is not None:
            took = time.perf_counter() - self._began
            self._handle.update(_text_bundle(f"The cell ran in {duration(took)}."), raw=True)


def _text_bundle(text: str) -> dict[str, str]:
    return {"text/plain": text}


def _bundle(record: data.RecordData, *, whole: bool = True) -> dict[str, Any]:
    return Record(record, whole=whole)._repr_mimebundle_()[0]


def _stage_number(compile: CompileRun, run: StageRun, before: data.CompileData) -> int:
    """The stage's place in its compile: by when it began, where that is known."""
    places = (number for number, each in enumerate(compile.stages) if each is run)
    return next(places, len(before.stages))
