"""What answers the pages of a live record: one run at a time, which a page can stop. The first is the cell's own; those
with other sizes have a thread of their own and make way for the user's next cell."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import dataclass, field

from explorer.core.recorder import Progress
from explorer.records.check.isolate import NotIsolated
from explorer.records.check.outside import Outside
from explorer.records.session import compressed
from explorer.show.notebook import protocol
from explorer.show.notebook.output import Output, Samples
from explorer.show.notebook.retime import Retiming
from explorer.show.notebook.widget import ExplorerWidget, ToKernel
from explorer.show.view.size_limit import for_output

WHILE_RUNNING = "the cell is still running; interrupt the kernel to stop it"
WAY = 5.0
"""Seconds that a cell waits at most for a run to end that it stops."""


class Stopped(BaseException):
    """A run is to end."""


@dataclass
class Live:
    """`output` shows the record; `retiming` makes runs with other sizes, where `why_not` does not say why there are
    none."""

    output: Output | None = None
    retiming: Retiming | None = None
    why_not: str = WHILE_RUNNING
    widget: ExplorerWidget = field(init=False)

    def __post_init__(self) -> None:
        self.widget = ExplorerWidget(self.answer)
        self._stop = ""
        """Why the run that goes on is to end."""
        self._worker: threading.Thread | None = None
        self._lock = threading.Lock()
        self._order = threading.RLock()
        """A page that asks over a subshell for the record while stages are told misses none."""

    def say(self, message: protocol.Message) -> None:
        """To every page. Raises Stopped where the run is to end."""
        if self._stop:
            raise Stopped(self._stop)
        with self._order:
            self.widget.say(message)

    @property
    def bytes(self) -> int:
        """What is kept for runs with other sizes."""
        return 0 if self.retiming is None else self.retiming.trial.state.bytes

    def answer(self, message: ToKernel) -> None:
        match message:
            case protocol.Hello():
                if self.output is not None:
                    with self._order:
                        self.widget.say(protocol.Whole(for_output(self.output.record)))
                self.widget.say(self.abilities())
            case protocol.Retime():
                self._retime(message)
            case protocol.Stop():
                self.stop()
            case protocol.Keep():
                if self.output is not None:
                    self.widget.say(protocol.Kept(compressed(self.output.record)))

    def stop(self, why: str = "stopped") -> None:
        """Ends the run that goes on, at its next message."""
        self._stop = why

    def abilities(self) -> protocol.Abilities:
        if self.retiming is None:
            return protocol.Abilities(why_not=self.why_not)
        arguments = tuple(
            protocol.Argument(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            for name, tensor in self.retiming.arguments().items()
        )
        return protocol.Abilities(arguments, retime=True, stop=True)

    def begin(self, output: Output) -> None:
        """The cell's own run begins."""
        self.output = output
        self.widget.say(self.abilities())

    def settle(self, retiming: Retiming | None, why_not: str = "", error: str = "") -> None:
        """The cell's own run has ended: from now on pages can ask for others."""
        self.retiming, self.why_not, self._stop = retiming, why_not, ""
        self.widget.say(protocol.Done(error=error))
        self.widget.say(self.abilities())

    def release(self, why: str) -> None:
        """Lets go of everything that was kept for runs."""
        if self.retiming is not None:
            self.make_way()
            self.retiming, self.why_not = None, why
            self.widget.say(self.abilities())

    def close(self) -> None:
        """Lets go of the record too: pages show it as one that is not live."""
        self.make_way()
        self.widget.close()

    def make_way(self) -> None:
        """Ends a run, and waits until it has."""
        worker = self._worker
        if worker is not None:
            self.stop("stopped, since a cell was run")
            worker.join(WAY)

    def _retime(self, asked: protocol.Retime) -> None:
        with self._lock:
            if self.retiming is None:
                self.widget.say(protocol.Done(asked.run, self.why_not))
            elif self._worker is not None:
                self.widget.say(protocol.Done(asked.run, "another run is in progress; stop it first"))
            else:
                self._stop = ""
                context = contextvars.copy_context()
                arguments = (self._run, asked, self.retiming)
                self._worker = threading.Thread(target=context.run, args=arguments, name="explorer retime", daemon=True)
                self._worker.start()

    def _run(self, asked: protocol.Retime, retiming: Retiming) -> None:
        error = ""
        try:
            timing = retiming.time(asked.shapes, self._progress(asked.run))
            self.widget.say(protocol.Timed(asked.run, timing))
        except Stopped as stopped:
            error = str(stopped)
        except (ValueError, NotIsolated, Outside) as refusal:
            error = str(refusal)
        except Exception as raised:
            error = f"with these sizes the program raises {type(raised).__name__}: {raised}"
        self._worker = None
        self.widget.say(protocol.Done(asked.run, error))

    def _progress(self, run: str) -> Progress:
        samples = Samples(self.say, run)

        def on_phase(what: str) -> None:
            samples.flush()
            self.say(protocol.Running("", "", what))

        return Progress(
            on_begin=lambda compile, stage: self.say(protocol.Running(compile.id, stage.name)),
            on_sample=samples.add,
            on_phase=on_phase,
        )
