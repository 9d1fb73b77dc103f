"""Where a compiled call first parts from eager: the node, with the stage or kernel that is at fault, and its line.

The call is compiled once more, and each of its graphs is followed through the stages on the inputs that it really gets:
captured, after each pass, traced, cut in two, and at last kernel by kernel. A value is at fault where it is beyond
tolerance of what eager operators make of the same graph, and further from a run in float64 than they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from explorer.autograd.rejoin import rejoin
from explorer.capture import CAPTURE, DECODE, LINK, optimize
from explorer.check.follow import Stages
from explorer.check.kernels import Kernels
from explorer.check.trial import Contestant
from explorer.config import Config
from explorer.core.recorder import Recorder, compile_scope, recording
from explorer.ir.bytecode import Span
from explorer.ir.capture import CaptureInput, Frame, GuardedCode, Linking
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Halves, Partitioned, Traced
from explorer.ir.loops import Loops
from explorer.ir.program import Compiled, Program
from explorer.ir.record import PartingData, SpanData
from explorer.ir.schedule import Schedule
from explorer.pipeline import compile_or_run_eagerly


def first_parting(contestant: Callable[[Callable[..., Any]], Contestant], config: Config) -> PartingData | None:
    """The first node that parts from eager when the contestant runs, or None. `contestant` makes one from a compiler,
    as `Trial.contestant` does. Raises what the call raises."""
    search = Search()
    contestant(lambda fn: optimize(fn, config, search.compile_frame)).observe()
    return search.found


@dataclass
class Search:
    """A compile_frame whose programs are looked into as they run. `found` is the first fault."""

    found: PartingData | None = None

    def compile_frame(self, frame: Frame, config: Config) -> GuardedCode:
        recorder = Recorder()
        with recording(recorder), compile_scope(frame.id, frame.code.co_name):
            capture = CAPTURE(CaptureInput(DECODE(frame), frame, config))
            compiled = None if capture.graph is None else compile_or_run_eagerly(capture.graph, config)
        if capture.graph is not None and compiled is not None and compiled.halves:
            stages = [(stage.name, stage.artifact) for run in recorder.compiles for stage in run.stages]
            compiled = Searched(self, frame.id, config, stages, compiled).compiled(capture.graph)
        return LINK(Linking(capture, compiled))


@dataclass
class Searched:
    """One compiled graph: what its stages made, and its halves with somebody looking."""

    search: Search
    compile: str
    config: Config
    stages: Sequence[tuple[str, Any]]
    original: Compiled

    def compiled(self, captured: Graph) -> Compiled:
        plan = next(a for _, a in reversed(self.stages) if isinstance(a, (Traced, Partitioned)))
        graphs = (plan.forward,) if isinstance(plan, Traced) else (plan.forward, plan.backward)
        halves = [self._half(graph, program) for graph, program in zip(graphs, self.original.halves, strict=True)]
        joined = rejoin(Halves(plan, halves[0], halves[1] if len(halves) > 1 else None))

        def call(*inputs: Any) -> tuple[Any, ...]:
            self._look(lambda: Stages(self, inputs).first(captured))
            return joined.call(*inputs)

        return replace(joined, call=call)

    def _half(self, graph: Graph, program: Program) -> Program:
        loops, schedule = (self._made(kind, graph.name) for kind in (Loops, Schedule))
        plain = program.call
        if plain is None or program.stepwise is None:
            return program

        def call(inputs: Sequence[Any]) -> tuple[Any, ...]:
            self._look(lambda: Kernels(self, graph, loops, schedule, program).first(inputs))
            return plain(inputs)

        return replace(program, call=call)

    def _made(self, kind: type, name: str) -> Any:
        found: Iterator[Any] = (a for _, a in self.stages if isinstance(a, kind))
        return next(a for a in found if (a if isinstance(a, Loops) else a.loops).name == name)

    def _look(self, at: Callable[[], PartingData | None]) -> None:
        """Only until something is found; the program's random numbers and modes are as if nobody had looked."""
        if self.search.found is not None:
            return
        devices = range(torch.cuda.device_count())
        with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                self.search.found = at()
            except Exception as error:  # the program goes on, and is told that nobody knows
                what = f"the search could not follow {self.compile}: {type(error).__name__}: {error}"
                self.search.found = PartingData(self.compile, "", "", "", None, detail=what)

    def told(
        self, node: fx.Node, half: str, kernel: str, errors: tuple[float | None, float | None], detail: str
    ) -> PartingData:
        """`errors` are ours and eager's, None where there is no finite one."""
        id, (ours, eager) = info(node).id, errors
        return PartingData(self.compile, half, id, kernel, ours, eager, _span(self._place(id)), detail)

    def _place(self, id: str) -> Span | None:
        """The line of the program that an element comes from, through its origins."""
        graphs = [a if isinstance(a, Graph) else getattr(a, "captured", None) for _, a in self.stages]
        graphs += [a.forward for _, a in self.stages if isinstance(a, (Traced, Partitioned))]
        graphs += [a.backward for _, a in self.stages if isinstance(a, Partitioned)]
        facts = {info(n).id: info(n) for g in graphs if isinstance(g, Graph) for n in g.graph.nodes if n.op != "output"}
        pending = [id]
        while pending:
            found = facts.get(pending.pop(0))
            if found is not None and found.span is not None:
                return found.span
            pending += [o for o in found.origins if o != found.id] if found is not None else []
        return None


def _span(at: Span | None) -> SpanData | None:
    return None if at is None else SpanData(at.file, at.line, at.end_line, at.column, at.end_column)
