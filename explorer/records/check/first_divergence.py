"""The first node at which a compiled call differs from eager, with the stage or kernel at fault and its source line.

The call is compiled once more. Each graph then runs on its real inputs as captured, after each pass, traced and
partitioned, and finally kernel by kernel. A value is wrong if it is beyond tolerance of what eager operators compute
for the same graph, and further than those from a float64 run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx

from explorer.compiler.autograd.rejoin import rejoin
from explorer.compiler.capture import CAPTURE, DECODE, LINK, optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_half, compile_or_run_eagerly
from explorer.core.recorder import Recorder, compile_scope, recording
from explorer.ir.capture import CaptureInput, Frame, GuardedCode, Linking
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Halves, Partitioned, Traced
from explorer.ir.loops import Buffer, Extern, Loops
from explorer.ir.program import Compiled, Program
from explorer.ir.record import DivergenceData
from explorer.ir.schedule import FusedKernel, Schedule
from explorer.records.check.accuracy import errors_if_not_close, same_kind
from explorer.records.check.lockstep import Stages
from explorer.records.check.loops import Run
from explorer.records.check.nodes import NodeValues, attempt, is_unwritten, run_nodes, scale
from explorer.records.check.search import FaultReport, Search
from explorer.records.check.trial import SEED, Contestant, duplicate


@dataclass
class KernelWrites:
    """A `KernelObserver` that records what each kernel and library call writes: (its id, the buffer, a copy)."""

    loops: Loops
    sizes: Run
    writes: list[tuple[str, Buffer, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.buffers = self.loops.buffers
        self.operations = {operation.id: operation for operation in self.loops.operations}

    def kernel(self, id: str, run: Callable[[], int], written: Mapping[str, int]) -> int:
        failed = run()
        for name, address in written.items():
            buffer = self.buffers[name]
            self.writes.append((id, buffer, self._at(address, buffer)))
        return failed

    def call(self, id: str, run: Callable[[], Any]) -> Any:
        made = run()
        operation = self.operations[id]
        assert isinstance(operation, Extern)
        for buffer, tensor in zip(operation.outputs, made if operation.returns_tuple else (made,), strict=False):
            if buffer is not None and isinstance(tensor, Tensor):
                self.writes.append((id, buffer, tensor.detach().clone()))
        return made

    def _at(self, address: int, buffer: Buffer) -> Tensor:
        """A copy of the tensor whose storage begins at `address`."""
        layout = buffer.layout
        size, stride = tuple(map(self.sizes.size, layout.size)), tuple(map(self.sizes.size, layout.stride))
        if 0 in size:
            return torch.empty(size, dtype=layout.dtype)
        offset = self.sizes.size(layout.offset)
        count = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
        memory = (ctypes.c_char * (count * layout.dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=layout.dtype).as_strided(size, stride, offset).clone()


@dataclass
class Kernels:
    """The kernels of one half, compared with the graph that they were made from."""

    report: FaultReport
    config: Config
    graph: Graph
    loops: Loops
    schedule: Schedule
    program: Program

    def __post_init__(self) -> None:
        order = {operation.id: place for place, operation in enumerate(self.loops.operations)}
        self.last = {
            id: max(operations, key=order.__getitem__)
            for id, (_, operations) in self.loops.nodes.items()
            if operations and all(operation in order for operation in operations)
        }
        """The operation that completes each node."""

    def first(self, inputs: Sequence[Any]) -> DivergenceData | None:
        """The first node whose buffer differs from what eager operators compute for the half's graph."""
        eager, exact = self._run(inputs), attempt(lambda: self._run(inputs, float64=True))
        watch = KernelWrites(self.loops, Run(self.loops, duplicate(tuple(inputs))))
        assert self.program.stepwise is not None
        torch.manual_seed(SEED)
        self.program.stepwise(duplicate(tuple(inputs)), watch)
        for item, buffer, ours in watch.writes:
            node = self._node(buffer, ours, eager)
            if node is None:
                continue
            id = info(node).id
            found = self._errors(id, ours, eager, exact)
            if found is not None:
                return self._report(item, node, found, inputs, eager, exact)
        return None

    def _run(self, inputs: Sequence[Any], float64: bool = False) -> NodeValues:
        torch.manual_seed(SEED)
        with torch.no_grad():
            return run_nodes(self.graph, duplicate(tuple(inputs)), float64=float64)

    def _node(self, buffer: Buffer, ours: Tensor, eager: NodeValues) -> fx.Node | None:
        """The node whose value the buffer holds: the last node of its shape that its operation completes."""
        maker = next(op.id for op in self.loops.operations if buffer.name in (b.name for b in op.writes))
        made = [n for n in self._nodes({maker}) if self.last.get(info(n).id) == maker and not is_unwritten(n)]
        return next((n for n in reversed(made) if same_kind(eager.by_id[info(n).id], ours)), None)

    def _nodes(self, operations: set[str]) -> list[fx.Node]:
        """The nodes that these operations compute, in the graph's order."""
        nodes = (n for n in self.graph.graph.nodes if n.op not in ("placeholder", "output"))
        return [n for n in nodes if operations.intersection(self.loops.nodes.get(info(n).id, ("", ()))[1])]

    def _errors(
        self, id: str, ours: Tensor, eager: NodeValues, exact: NodeValues | None
    ) -> tuple[float | None, float | None] | None:
        return errors_if_not_close(ours, eager.by_id[id], None if exact is None else exact.by_id[id], scale(eager, id))

    def _report(
        self,
        item: str,
        node: fx.Node,
        found: tuple[float | None, float | None],
        inputs: Sequence[Any],
        eager: NodeValues,
        exact: NodeValues | None,
    ) -> DivergenceData:
        """The kernel's first node that is wrong when each of its nodes is compiled alone; else the mismatch itself."""
        kernel = next((i for i in self.schedule.items if i.id == item and isinstance(i, FusedKernel)), None)
        within = self._nodes(set(kernel.ids)) if kernel is not None else [node]
        within = [n for n in within if isinstance(eager.by_id[info(n).id], Tensor)]
        detail = f"{item} wrote {info(node).id}"
        if len(within) > 1:
            torch.manual_seed(SEED)
            unfused = compile_half(returning(self.graph, within), replace(self.config, fuse=False))
            assert unfused.call is not None
            with torch.no_grad():
                values = unfused.call(duplicate(tuple(inputs)))[-len(within) :]
            for each, ours in zip(within, values, strict=True):
                error = self._errors(info(each).id, ours, eager, exact)
                if error is not None:
                    detail += f"; {info(each).id} is the first of its nodes that is wrong when each is compiled alone"
                    return self.report.divergence(each, self.graph.name, item, error, detail)
            detail += f"; its {len(within)} nodes are right when each is compiled alone: their fusion is wrong"
        return self.report.divergence(node, self.graph.name, item, found, detail)


def returning(graph: Graph, more: Sequence[fx.Node]) -> Graph:
    """The graph, returning the values of more nodes after its own results."""
    made = graph.copy()
    by_id = {info(n).id: n for n in made.nodes if n.op != "output"}
    output = made.output_node()
    output.args = ((*output.args[0], *(by_id[info(n).id] for n in more)),)  # type: ignore[misc]
    return replace(graph, graph=made)


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
