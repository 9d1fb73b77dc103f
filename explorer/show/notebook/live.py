"""What answers the pages of a live record: one run at a time, which a page can stop. The first is the cell's own; those
with other sizes have a thread of their own and make way for the user's next cell. An explored call is timed again
with tensors of other sizes without running its cell. A program that is watched shows its stages as they end, and
from time to time the whole.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import torch
from IPython import get_ipython

from explorer.compiler.autograd import CLEANUP
from explorer.compiler.capture import optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.core.recorder import Progress, Recorder, recording
from explorer.ir import record as data
from explorer.ir.edit import EditRefused
from explorer.records.check.accuracy import against_eager
from explorer.records.check.isolate import NotIsolated
from explorer.records.check.process import Outside, heard
from explorer.records.check.trial import Repetition, unnoticed
from explorer.records.editing import UNCHANGED
from explorer.records.exploration import SECONDS_OF_TIMING, Entrant, measure
from explorer.show.notebook import protocol
from explorer.show.notebook.edit import ExploredCell
from explorer.show.notebook.output import Output, SampleBuffer
from explorer.show.notebook.widget import ExplorerWidget, ToKernel
from explorer.show.record import Record, compressed
from explorer.show.view.changes import answers
from explorer.show.view.glance import with_glance
from explorer.show.view.size_limit import for_page
from explorer.show.view.trace import chrome_trace

MOST_BYTES = 1 << 32
"""Of one tensor that is made anew."""


@dataclass
class Retiming:
    """A call whose tensor arguments can be made again. `compiled` serves all runs, so that a second size is met as a
    program would meet it: by guards that fail, and sizes that become dynamic. `grad_mode` is the notebook's."""

    trial: Repetition
    config: Config
    grad_mode: bool
    compiled: Any = None

    def arguments(self) -> dict[str, torch.Tensor]:
        """By name: arguments that are dense tensors, and those in lists, tuples and dictionaries."""
        found: dict[str, torch.Tensor] = {}
        for name, value in self.trial.state.args.items():
            _collect(value, name, found)
        return found

    def resized(self, shapes: Mapping[str, tuple[int, ...]]) -> Repetition:
        """The call with new tensors of these sizes. Raises ValueError naming what cannot be made."""
        known = self.arguments()
        made: dict[str, torch.Tensor] = {}
        for name, sizes in shapes.items():
            if name not in known:
                raise ValueError(f"there is no tensor {name!r} to resize; there are: {', '.join(known) or 'none'}")
            made[name] = resized(known[name], sizes, name)
        state = self.trial.state.copied({id(known[name]): tensor for name, tensor in made.items()})
        return replace(self.trial, state=state)

    def time(self, shapes: Mapping[str, tuple[int, ...]], progress: Progress) -> data.TimingData:
        """Eager and ours with these sizes, compiled anew where need be. Raises ValueError for sizes that cannot be, and
        what the call raises for them."""
        recorder = Recorder(progress)
        with torch.set_grad_enabled(self.grad_mode), unnoticed(), heard(refuses=True):
            trial = self.resized(shapes)
            if self.compiled is None:
                self.compiled = optimize(trial.fn, self.config, compile_frame)
            ours, eager = trial.contestant(lambda fn: self.compiled), trial.contestant()
            progress.on_phase("running eager")
            expected = eager.observe()
            with recording(recorder):
                started = time.perf_counter()
                outcome = ours.observe()
                spent = time.perf_counter() - started - recorder.listener_seconds
            accuracy = against_eager(trial.again, outcome.values(), expected.values())
            entrants = [Entrant("eager", eager), Entrant("explorer", ours, spent if recorder.compiles else None)]
            return measure(entrants, {"explorer": accuracy}, recorder, SECONDS_OF_TIMING, progress).timing


def _collect(value: object, path: str, into: dict[str, torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and value.dim() > 0:
            into[path] = value
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _collect(item, f"{path}[{number}]", into)
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(item, f"{path}[{key!r}]", into)


def resized(tensor: torch.Tensor, sizes: tuple[int, ...], name: str) -> torch.Tensor:
    """A tensor of these sizes: dtype, device, requires_grad and the order of strides as in `tensor`, its elements drawn
    from those of `tensor`, so that indices stay valid and masks masks. Raises ValueError naming the tensor."""
    if len(sizes) != tensor.dim():
        raise ValueError(f"{name} has {tensor.dim()} dimensions, but {len(sizes)} sizes were given")
    if any(size < 0 for size in sizes):
        raise ValueError(f"{name}: sizes must be at least 0, not {list(sizes)}")
    count = math.prod(sizes)
    if count * tensor.element_size() > MOST_BYTES:
        raise ValueError(f"{name} of sizes {list(sizes)} would take more than {MOST_BYTES >> 30} GiB")
    pool = tensor.detach().reshape(-1)
    if pool.numel():
        values = pool[torch.randint(pool.numel(), (count,), device=tensor.device)]
    else:
        values = torch.zeros(count, dtype=tensor.dtype, device=tensor.device)
    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride()[dim])
    back = [order.index(dim) for dim in range(tensor.dim())]
    made = values.reshape([sizes[dim] for dim in order]).permute(back)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


WHILE_RUNNING = "the cell is still running; interrupt the kernel to stop it"
WAY = 5.0
"""Seconds that a cell waits at most for a run to end that it stops."""


class Stopped(BaseException):
    """A run is to end."""


@dataclass
class Live:
    """`output` shows the record; `retiming` makes runs with other sizes, where `why_not` does not say why there are
    none. `explored` is what can be compiled with changes, and `edited` the record of that, where it is shown."""

    output: Output | None = None
    retiming: Retiming | None = None
    why_not: str = WHILE_RUNNING
    explored: ExploredCell | None = None
    edited: protocol.Edited | None = None
    widget: ExplorerWidget = field(init=False)

    def __post_init__(self) -> None:
        self.widget = ExplorerWidget(self.answer)
        self._stop = ""
        """Why the run that goes on is to end."""
        self._edits = self._runs_edited = False
        """Whether what goes on is an edit, and whether that is run too."""
        self._grad_mode = True
        """The notebook's."""
        self._whole: data.RecordData | None = None
        """All of the edited record that is shown."""
        self._worker: threading.Thread | None = None
        self._lock = threading.Lock()
        self._order = threading.RLock()
        """A page that asks over a subshell for the record while stages are told misses none."""

    def say(self, message: protocol.Message) -> None:
        """To every page. Raises Stopped where the run is to end."""
        self._resume_run()
        with self._order:
            self.widget.say(message)

    def _resume_run(self, *stage: object) -> None:
        if self._stop:
            raise Stopped(self._stop)

    @property
    def bytes(self) -> int:
        """What is kept for runs with other sizes, and of edits."""
        explored = None if self.explored is None else self.explored.trial
        trial = explored if self.retiming is None else self.retiming.trial
        return 0 if trial is None else trial.state.bytes

    def answer(self, message: ToKernel) -> None:
        match message:
            case protocol.Hello():
                if self.output is not None:
                    with self._order:
                        self.widget.say(protocol.Whole(for_page(self.output.record)))
                        if self.edited is not None:
                            self.widget.say(self.edited)
                self.widget.say(self.abilities())
            case protocol.Retime():
                self._start(message)
            case protocol.Edit():
                self._edit(message)
            case protocol.Stop():
                self.stop()
            case protocol.Make():
                self.widget.say(self._made(message))
            case protocol.Keep():
                if self.output is not None:
                    shown = self.output.record if self._whole is None else self._whole
                    self.widget.say(protocol.Kept(compressed(shown)))

    def _made(self, asked: protocol.Make) -> protocol.Made:
        if self.output is None:
            return protocol.Made(asked.run, error="there is no record yet")
        shown = Record(self.output.record if self._whole is None else self._whole)
        try:
            match asked.what:
                case "trace":
                    return protocol.Made(asked.run, chrome_trace(shown.data))
                case "program":
                    return protocol.Made(asked.run, shown.repro(asked.id, asked.compile))
                case "throughput":
                    return protocol.Made(asked.run, shown.throughput(asked.id, asked.compile))
        except (ValueError, OSError) as refusal:
            return protocol.Made(asked.run, error=str(refusal))
        return protocol.Made(asked.run, error=f"nothing is known of {asked.what[:80]!r}")

    def stop(self, why: str = "stopped") -> None:
        """Ends the run that goes on, at its next message."""
        self._stop = why

    def abilities(self) -> protocol.Abilities:
        timed = {} if self.retiming is None else self.retiming.arguments()
        arguments = tuple(
            protocol.SizedArgument(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            for name, tensor in timed.items()
        )
        can = self.retiming is not None
        found = protocol.Abilities(arguments, retime=can, stop=can, why_not="" if can else self.why_not)
        if self.explored is None:
            return msgspec.structs.replace(found, no_edit=self.why_not)
        functions = tuple(protocol.Function(f.name, f.file, f.first, f.text) for f in self.explored.functions())
        return msgspec.structs.replace(found, functions=functions, passes=tuple(each.name for each in CLEANUP))

    def begin(self, output: Output) -> None:
        """The cell's own run begins."""
        self.output = output
        self.widget.say(self.abilities())

    def finish(
        self, retiming: Retiming | None, why_not: str = "", error: str = "", explored: ExploredCell | None = None
    ) -> None:
        """The cell's own run has ended: from now on pages can ask for others."""
        self.retiming, self.why_not, self.explored, self._stop = retiming, why_not, explored, ""
        self._grad_mode = torch.is_grad_enabled()
        self.widget.say(protocol.Done(error=error))
        self.widget.say(self.abilities())

    def release(self, why: str) -> None:
        """Lets go of everything that was kept for runs."""
        if self.retiming is not None or self.explored is not None:
            self.make_way()
            self.retiming, self.explored, self.why_not = None, None, why
            self.widget.say(self.abilities())

    def close(self) -> None:
        """Lets go of the record too: pages show it as one that is not live."""
        self.make_way()
        self.widget.close()

    def make_way(self, why: str = "stopped, since a cell was run") -> None:
        """Ends a run, and waits until it has: as long as it takes where functions of the notebook have edited code
        until then."""
        worker = self._worker
        if worker is not None:
            self.stop(why)
            worker.join(None if self._runs_edited else WAY)

    def _edit(self, asked: protocol.Edit) -> None:
        """What is typed takes the place of what was typed before."""
        if msgspec.structs.replace(asked, run="") == protocol.Edit(""):
            self.edited = self._whole = None
            if self.output is not None:
                self.widget.say(protocol.Whole(for_page(self.output.record)))
            self.widget.say(protocol.Done(asked.run))
            return
        if self._edits:
            self.make_way("replaced by a later edit")
        self._start(asked)

    def _start(self, asked: protocol.Retime | protocol.Edit) -> None:
        edits = isinstance(asked, protocol.Edit)
        with self._lock:
            if (self.explored if edits else self.retiming) is None:
                self.widget.say(protocol.Done(asked.run, self.why_not))
            elif self._worker is not None:
                self.widget.say(protocol.Done(asked.run, "another run is in progress; stop it first"))
            else:
                self._stop, self._edits = "", edits
                self._runs_edited = isinstance(asked, protocol.Edit) and asked.time
                context = contextvars.copy_context()
                arguments = (self._run, asked)
                self._worker = threading.Thread(target=context.run, args=arguments, name="explorer run", daemon=True)
                self._worker.start()

    def _run(self, asked: protocol.Retime | protocol.Edit) -> None:
        error = ""
        try:
            if isinstance(asked, protocol.Edit):
                self._compile(asked)
            elif self.retiming is not None:
                timing = self.retiming.time(asked.shapes, self._progress(asked.run))
                self.widget.say(protocol.Timed(asked.run, timing))
        except Stopped as stopped:
            error = str(stopped)
        except (ValueError, NotIsolated, Outside) as refusal:
            error = str(refusal)
        except Exception as raised:
            error = f"with these changes the program raises {type(raised).__name__}: {raised}"
        self._worker = None
        self.widget.say(protocol.Done(asked.run, error))

    def _compile(self, asked: protocol.Edit) -> None:
        explored, output = self.explored, self.output
        assert explored is not None and output is not None
        source = UNCHANGED
        if asked.file:
            place = asked.file, asked.first
            function = next((each for each in explored.functions() if (each.file, each.first) == place), None)
            if function is None:
                raise EditRefused("the changed function is not among those that were compiled")
            source = explored.changed(function, asked.text)
        # What is compiled as it is typed is there before its stages could be read.
        progress = self._progress(asked.run) if asked.time else Progress(on_begin=self._resume_run)
        with torch.set_grad_enabled(self._grad_mode):
            made = explored.edit(
                source, forbid=asked.forbid, without=asked.without, run=asked.time,
                progress=progress, fuse=asked.fuse,
                **({} if asked.dynamic is None else {"dynamic": asked.dynamic}),
            )  # fmt: skip
        record = self._whole = with_glance(made.data)
        lines = tuple(answers(output.record, record))
        self.edited = protocol.Edited(asked.run, for_page(record), lines)
        with self._order:
            self.widget.say(self.edited)

    def _progress(self, run: str) -> Progress:
        samples = SampleBuffer(self.say, run)

        def on_phase(what: str) -> None:
            samples.flush()
            self.say(protocol.Running("", "", what))

        return Progress(
            on_begin=lambda compile, stage: self.say(protocol.Running(compile.id, stage.name)),
            on_sample=samples.add,
            on_phase=on_phase,
        )


WHY_NOT = "a watched program is not run again"


def _cell() -> int | None:
    """The number of the cell that runs."""
    shell = get_ipython()
    return None if shell is None else shell.execution_count


class WatchOutput:
    """The output of a cell in which a watch began."""

    def __init__(self, title: str, panes: Sequence[str] = ()) -> None:
        self.live = Live(why_not=WHY_NOT)
        self._output = Output(title, "", panes, self.live.widget.say, self.live.widget.model_id)
        self.live.begin(self._output)
        self.progress: Progress = self._output.progress
        self._cell = _cell()

    def is_above(self) -> bool:
        return self._cell is not None and self._cell == _cell()

    def show(self, record: data.RecordData) -> None:
        self.live.widget.say(protocol.Whole(for_page(with_glance(record, whole=bool(record.compiles)))))

    def finish(self, record: data.RecordData) -> None:
        self._output.finish(record)
        self.live.finish(None, WHY_NOT)


REPEATED = "The cell compiles functions itself, so its calls are shown as they ran: not repeated, compared or timed."


class WhenCompiled:
    """The output of a cell that may compile functions itself: there from the first stage on."""

    def __init__(self, title: str, panes: Sequence[str]) -> None:
        self._given = (title, panes)
        self.shown: WatchOutput | None = None
        self.progress = Progress(
            lambda *given: self._there().progress.on_begin(*given),
            lambda *given: self._there().progress.on_stage(*given),
        )

    def _there(self) -> WatchOutput:
        self.shown = self.shown or WatchOutput(*self._given)
        return self.shown

    def show(self, record: data.RecordData) -> None:
        if self.shown is not None:
            self.shown.show(record)

    def finish(self, record: data.RecordData) -> None:
        """Nothing: the cell says when it has ended, and whether this is what it shows."""

    def is_above(self) -> bool:
        return False

    def end(self, record: data.RecordData) -> Live:
        there = self._there()
        there.finish(record)
        return there.live
