"""The first node at which a compiled call differs from eager, with the stage or kernel at fault and its source line.

The call is compiled once more. Each graph then runs on its real inputs as captured, after each pass, traced and
partitioned, and finally kernel by kernel. A value is wrong if it is beyond tolerance of what eager operators compute
for the same graph, and further than those from a float64 run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.compiler.autograd.rejoin import rejoin
from explorer.compiler.capture import CAPTURE, DECODE, LINK, optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_or_run_eagerly
from explorer.core.recorder import Recorder, compile_scope, recording
from explorer.ir.capture import CaptureInput, Frame, GuardedCode, Linking
from explorer.ir.graph import Graph
from explorer.ir.joint import Halves, Partitioned, Traced
from explorer.ir.loops import Loops
from explorer.ir.program import Compiled, Program
from explorer.ir.record import DivergenceData
from explorer.ir.schedule import Schedule
from explorer.records.check.kernels import Kernels
from explorer.records.check.lockstep import Stages
from explorer.records.check.search import FaultReport, Search
from explorer.records.check.trial import Contestant


def first_divergence(contestant: Callable[[Callable[..., Any]], Contestant], config: Config) -> DivergenceData | None:
    """The first node that differs from eager when the contestant runs, or None. `contestant` makes one from a compiler,
    as `Trial.contestant` does. Raises what the call raises."""
    search = Search()
    compiling = Searching(search)
    contestant(lambda fn: optimize(fn, config, compiling.compile_frame)).observe()
    return search.found


@dataclass
class Searching:
    """A compile_frame whose programs are compared with eager operators as they run."""

    search: Search

    def compile_frame(self, frame: Frame, config: Config) -> GuardedCode:
        recorder = Recorder()
        with recording(recorder), compile_scope(frame.id, frame.code.co_name):
            capture = CAPTURE(CaptureInput(DECODE(frame), frame, config))
            compiled = None if capture.graph is None else compile_or_run_eagerly(capture.graph, config)
        if capture.graph is not None and compiled is not None and compiled.halves:
            stages = [(stage.name, stage.artifact) for run in recorder.compiles for stage in run.stages]
            compiled = Searched(self.search, frame.id, config, stages, compiled).compiled(capture.graph)
        return LINK(Linking(capture, compiled))


@dataclass
class Searched:
    """One compiled graph: the artifacts of its stages, and its halves, compared as they run."""

    search: Search
    compile: str
    config: Config
    stages: Sequence[tuple[str, Any]]
    original: Compiled

    def __post_init__(self) -> None:
        self.report = FaultReport(self.compile, self._graphs)

    def compiled(self, captured: Graph) -> Compiled:
        plan = next(a for _, a in reversed(self.stages) if isinstance(a, (Traced, Partitioned)))
        graphs = (plan.forward,) if isinstance(plan, Traced) else (plan.forward, plan.backward)
        halves = [self._half(graph, program) for graph, program in zip(graphs, self.original.halves, strict=True)]
        joined = rejoin(Halves(plan, halves[0], halves[1] if len(halves) > 1 else None))

        def call(*inputs: Any) -> tuple[Any, ...]:
            self.search.compare(lambda: Stages(self.report, self.stages, inputs).first(captured), self.report)
            return joined.call(*inputs)

        return replace(joined, call=call)

    def _half(self, graph: Graph, program: Program) -> Program:
        loops, schedule = (self._made(kind, graph.name) for kind in (Loops, Schedule))
        plain = program.call
        if plain is None or program.stepwise is None:
            return program
        kernels = Kernels(self.report, self.config, graph, loops, schedule, program)

        def call(inputs: Sequence[Any]) -> tuple[Any, ...]:
            self.search.compare(lambda: kernels.first(inputs), self.report)
            return plain(inputs)

        return replace(program, call=call)

    def _made(self, kind: type, name: str) -> Any:
        found: Iterator[Any] = (a for _, a in self.stages if isinstance(a, kind))
        return next(a for a in found if (a if isinstance(a, Loops) else a.loops).name == name)

    def _graphs(self) -> list[Graph]:
        graphs = [a if isinstance(a, Graph) else getattr(a, "captured", None) for _, a in self.stages]
        graphs += [a.forward for _, a in self.stages if isinstance(a, (Traced, Partitioned))]
        graphs += [a.backward for _, a in self.stages if isinstance(a, Partitioned)]
        return [graph for graph in graphs if isinstance(graph, Graph)]
