"""A program that is watched, in the cell that runs it: stages as they end, and from time to time the whole."""

from __future__ import annotations

from explorer.core.recorder import Progress
from explorer.ir import record as data
from explorer.show.notebook import protocol
from explorer.show.notebook.live import Live
from explorer.show.notebook.output import Output
from explorer.show.view.glance import with_glance
from explorer.show.view.size_limit import within_size_limit

WHY_NOT = "a watched program is not run again"


class Shown:
    """The output of a cell in which a watch began."""

    def __init__(self, title: str) -> None:
        self._live = Live(why_not=WHY_NOT)
        self._output = Output(title, "", (), self._live.widget.say, self._live.widget.model_id)
        self._live.begin(self._output)
        self.progress: Progress = self._output.progress

    def show(self, record: data.RecordData) -> None:
        self._live.widget.say(protocol.Whole(within_size_limit(with_glance(record, whole=bool(record.compiles)))))

    def finish(self, record: data.RecordData) -> None:
        self._output.finish(record)
        self._live.settle(None, WHY_NOT)
