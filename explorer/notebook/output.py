"""The output of one exploration: there at once, told of each stage as it ends, and in the end the whole record."""

from __future__ import annotations

import datetime
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from IPython.display import display

from explorer import export
from explorer.core.recorder import CompileRun, Progress, StageRun
from explorer.environment import describe
from explorer.ir import record as data
from explorer.notebook import protocol
from explorer.session import Record

BETWEEN_SAMPLES = 0.05
"""Seconds for which samples are gathered before they are sent."""


class Output:
    """`say` sends to the pages that show it; `live` is the widget's id. `panes` are those to open."""

    def __init__(
        self, title: str, engine: str, panes: Sequence[str], say: Callable[[protocol.Message], None], live: str
    ):
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
        self._samples: dict[str, list[float]] = {}
        self._sent = 0.0
        self._whole: data.RecordData | None = None
        self.now = ""
        """What goes on."""
        self._handle = display(_bundle(self._started), metadata=self._metadata, raw=True, display_id=True)

    @property
    def record(self) -> data.RecordData:
        """As it is by now."""
        return self._whole or msgspec.structs.replace(self._started, compiles=tuple(self._compiles.values()))

    @property
    def progress(self) -> Progress:
        return Progress(self._begin, self._stage, self._sample, self._phase)

    def _begin(self, compile: CompileRun, stage: StageRun) -> None:
        self.now = f"stage {stage.name} of {compile.id}"
        self.say(protocol.Running(compile.id, stage.name))

    def _stage(self, compile: CompileRun, run: StageRun) -> None:
        self.runs[compile.id] = compile
        before = self._compiles.get(compile.id)
        if before is None:
            before = data.CompileData(compile.id, compile.title, compile.started, 0.0)
        made = export.stage(f"{compile.id}/{_number(compile, run, before)}", run, self._texts[compile.id])
        self._compiles[compile.id] = msgspec.structs.replace(before, stages=(*before.stages, made))
        self.say(protocol.StageDone(msgspec.structs.replace(before, stages=()), made))

    def _phase(self, what: str) -> None:
        self._flush()
        self.now = what
        self.say(protocol.Running("", "", what))

    def _sample(self, name: str, seconds: float) -> None:
        self._samples.setdefault(name, []).append(seconds)
        if time.perf_counter() - self._sent > BETWEEN_SAMPLES:
            self._flush()

    def _flush(self) -> None:
        for name, seconds in self._samples.items():
            self.say(protocol.Samples("", name, tuple(seconds)))
        self._samples = {}
        self._sent = time.perf_counter()

    def finish(self, record: data.RecordData) -> None:
        """Shows the whole record, in place of what was shown so far."""
        self._flush()
        self._whole = record
        self._handle.update(_bundle(record), metadata=self._metadata, raw=True)
        self.say(protocol.Done(error=record.error))


def _bundle(record: data.RecordData) -> dict[str, Any]:
    return Record(record)._repr_mimebundle_()[0]


def _number(compile: CompileRun, run: StageRun, before: data.CompileData) -> int:
    """The stage's place in its compile: by when it began, where that is known."""
    places = (number for number, each in enumerate(compile.stages) if each is run)
    return next(places, len(before.stages))
