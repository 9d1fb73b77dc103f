"""A program that is watched, in the cell that runs it: stages as they end, and from time to time the whole."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.core.recorder import Progress
from explorer.ir import record as data
from explorer.show.notebook import protocol
from explorer.show.notebook.live import Live
from explorer.show.notebook.output import Output
from explorer.show.view.glance import with_glance
from explorer.show.view.size_limit import for_output

WHY_NOT = "a watched program is not run again"


class Shown:
    """The output of a cell in which a watch began."""

    def __init__(self, title: str, panes: Sequence[str] = ()) -> None:
        self.live = Live(why_not=WHY_NOT)
        self._output = Output(title, "", panes, self.live.widget.say, self.live.widget.model_id)
        self.live.begin(self._output)
        self.progress: Progress = self._output.progress

    def show(self, record: data.RecordData) -> None:
        self.live.widget.say(protocol.Whole(for_output(with_glance(record, whole=bool(record.compiles)))))

    def finish(self, record: data.RecordData) -> None:
        self._output.finish(record)
        self.live.settle(None, WHY_NOT)


REPEATED = "The cell compiles functions itself, so its calls are shown as they ran: not repeated, compared or timed."


class WhenCompiled:
    """The output of a cell that may compile functions itself: there from the first stage on."""

    def __init__(self, title: str, panes: Sequence[str]) -> None:
        self._given = (title, panes)
        self.shown: Shown | None = None
        self.progress = Progress(
            lambda *given: self._there().progress.on_begin(*given),
            lambda *given: self._there().progress.on_stage(*given),
        )

    def _there(self) -> Shown:
        self.shown = self.shown or Shown(*self._given)
        return self.shown

    def show(self, record: data.RecordData) -> None:
        if self.shown is not None:
            self.shown.show(record)

    def finish(self, record: data.RecordData) -> None:
        """Nothing: the cell says when it has ended, and whether this is what it shows."""

    def end(self, record: data.RecordData) -> Live:
        there = self._there()
        there.finish(record)
        return there.live
