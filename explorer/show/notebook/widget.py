"""The kernel's end of a live record: an ipywidgets widget whose custom messages are those of `protocol`, alone or among
other widgets: `ipywidgets.HBox([embed(record), ...])`.
"""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
import msgspec
import traitlets

from explorer.ir.record import plain
from explorer.show.notebook import protocol
from explorer.show.record import Record, compressed
from explorer.show.view.size_limit import for_page

MODULE = "torch-explorer"
MODULE_VERSION = "^0.1.0"

ToKernel = protocol.Hello | protocol.Retime | protocol.Edit | protocol.Stop | protocol.Keep | protocol.Make


class ExplorerWidget(ipywidgets.DOMWidget):  # type: ignore[misc]
    """`answer` is called with each message from a page, in whichever thread it comes."""

    _model_name = traitlets.Unicode("ExplorerModel").tag(sync=True)
    _model_module = traitlets.Unicode(MODULE).tag(sync=True)
    _model_module_version = traitlets.Unicode(MODULE_VERSION).tag(sync=True)
    _view_name = traitlets.Unicode("ExplorerView").tag(sync=True)
    _view_module = traitlets.Unicode(MODULE).tag(sync=True)
    _view_module_version = traitlets.Unicode(MODULE_VERSION).tag(sync=True)

    def __init__(self, answer: Callable[[ToKernel], None]) -> None:
        super().__init__()
        self._answer = answer
        self.on_msg(self._receive)

    def say(self, message: protocol.Message) -> None:
        self.send(plain(message))

    def _receive(self, widget: object, content: object, buffers: object) -> None:
        try:
            message = msgspec.convert(content, ToKernel)
        except msgspec.ValidationError as error:
            self.say(protocol.Done(error=f"the kernel does not understand this message: {error}"))
            return
        self._answer(message)


WHY_NOT = "this view is not live; use the output of the cell for that"


def embed(record: Record) -> ExplorerWidget:
    """A widget that shows the record in a layout of ipywidgets, in JupyterLab and Notebook 7."""

    def answer(message: ToKernel) -> None:
        match message:
            case protocol.Hello():
                widget.say(protocol.Whole(for_page(record.data)))
                widget.say(protocol.Abilities(why_not=WHY_NOT, no_edit=WHY_NOT))
            case protocol.Retime(run=run) | protocol.Edit(run=run):
                widget.say(protocol.Done(run, WHY_NOT))
            case protocol.Stop():
                pass  # nothing runs here
            case protocol.Keep():
                widget.say(protocol.Kept(compressed(record.data)))

    widget = ExplorerWidget(answer)
    return widget
