"""A record among other widgets: `ipywidgets.HBox([embed(record), ...])`."""

from __future__ import annotations

from explorer.records.session import Record, compressed
from explorer.show.notebook import protocol
from explorer.show.notebook.widget import ExplorerWidget, ToKernel
from explorer.show.view.size_limit import for_output

WHY_NOT = "this view is not live; use the output of the cell for that"


def embed(record: Record) -> ExplorerWidget:
    """A widget that shows the record in a layout of ipywidgets, in JupyterLab and Notebook 7."""

    def answer(message: ToKernel) -> None:
        match message:
            case protocol.Hello():
                widget.say(protocol.Whole(for_output(record.data)))
                widget.say(protocol.Abilities(why_not=WHY_NOT))
            case protocol.Retime(run=run):
                widget.say(protocol.Done(run, WHY_NOT))
            case protocol.Stop():
                pass  # nothing runs here
            case protocol.Keep():
                widget.say(protocol.Kept(compressed(record.data)))

    widget = ExplorerWidget(answer)
    return widget
