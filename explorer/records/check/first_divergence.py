"""The first node at which a compiled call differs from eager, with the stage or kernel at fault and its source line.

The call is compiled once more. Each graph then runs on its real inputs as captured, after each pass, traced and
partitioned, and finally kernel by kernel. A value is wrong if it is beyond tolerance of what eager operators compute
for the same graph, and further than those from a float64 run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch import Tensor, fx

from explorer.compiler.autograd.rejoin import rejoin
from explorer.compiler.capture import CAPTURE, DECODE, LINK, CaptureInput, optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_half, compile_or_run_eagerly
from explorer.core.recorder import Recorder, compile_scope, recording
from explorer.ir.capture import GuardedCode, InputFrame, Linking
from explorer.ir.graph import Graph, info
from explorer.ir.joint import Compiled, Halves, Partitioned, Traced
from explorer.ir.loops import Buffer, Extern, Loops, Size
from explorer.ir.program import Program
from explorer.ir.record import DivergenceData, WrittenData
from explorer.ir.schedule import FusedKernel, Schedule
from explorer.records.check.accuracy import largest_distance, same_kind
from explorer.records.check.lockstep import Stages
from explorer.records.check.search import Errors, FaultReport, ReferenceRun, Search, is_unwritten
from explorer.records.check.trial import SEED, Contestant, duplicate


@dataclass
class KernelWrites:
    """A `KernelObserver` that records what each kernel and library call writes: (its id, the buffer, a copy)."""

    loops: Loops
    sizes: Mapping[sympy.Symbol, int]
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
        size, stride = ([self._known_size(each) for each in sizes] for sizes in (layout.size, layout.stride))
        if 0 in size:
            return torch.empty(size, dtype=layout.dtype)
        offset = self._known_size(layout.offset)
        count = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
        memory = (ctypes.c_char * (count * layout.dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=layout.dtype).as_strided(size, stride, offset).clone()

    def _known_size(self, size: Size) -> int:
        """Raises TypeError for a size that the inputs do not give."""
        return int(size.subs(self.sizes))


def sizes_of(loops: Loops, inputs: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """The values of the size symbols, by the inputs of a call."""
    found: dict[sympy.Symbol, int] = {}
    for entry, value in zip(loops.inputs, (*inputs, *loops.constants.values()), strict=True):
        if isinstance(entry, Buffer):
            layout = (*entry.layout.size, *entry.layout.stride)
            found.update(zip(layout, (*value.shape, *value.stride()), strict=True))
        else:
            found[entry] = value
    return {symbol: number for symbol, number in found.items() if symbol.is_Symbol}


@dataclass
class Kernels:
    """The kernels of one half, compared with the graph that they were made from."""

    report: FaultReport
    config: Config
    graph: Graph
    loops: Loops
    schedule: Schedule
    program: Program
    written: list[WrittenData] = field(default_factory=list)
    """What the kernels wrote in the call that was compared."""

    def __post_init__(self) -> None:
        order = {operation.id: place for place, operation in enumerate(self.loops.operations)}
        self.last = {
            id: max(operations, key=order.__getitem__)
            for id, (_, operations) in self.loops.nodes.items()
            if operations and all(operation in order for operation in operations)
        }
        """The operation that completes each node."""

    def first(self, inputs: Sequence[object]) -> DivergenceData | None:
        """The first node whose buffer differs from what eager operators compute for the half's graph."""
        reference = ReferenceRun(self.graph, draws_alike=True)
        with torch.no_grad():
            reference.run(duplicate(tuple(inputs)))
        watch = KernelWrites(self.loops, sizes_of(self.loops, inputs))
        assert self.program.stepwise is not None
        torch.manual_seed(SEED)
        self.program.stepwise(duplicate(tuple(inputs)), watch)
        first: tuple[str, fx.Node, Errors] | None = None
        for item, buffer, ours in watch.writes:
            node = self._node(buffer, ours, reference)
            began = self._began(item, ours, reference)
            if node is None:
                self.written.append(written(item, buffer.name, ours, began=began))
                continue
            found = reference.errors(node, ours)
            id, eager = info(node).id, reference.eager[node]
            self.written.append(written(item, buffer.name, ours, id, eager, found is not None, began))
            if found is not None and first is None:
                first = item, node, found
        return None if first is None else self._report(*first, inputs, reference)

    def _node(self, buffer: Buffer, ours: Tensor, reference: ReferenceRun) -> fx.Node | None:
        """The node whose value the buffer holds: the last node of its shape that its operation completes."""
        maker = next(op.id for op in self.loops.operations if buffer.name in (b.name for b in op.writes))
        made = [n for n in self._nodes({maker}) if self.last.get(info(n).id) == maker and not is_unwritten(n)]
        return next((n for n in reversed(made) if same_kind(reference.eager[n], ours)), None)

    def _nodes(self, operations: set[str]) -> list[fx.Node]:
        """The nodes that these operations compute, in the graph's order."""
        nodes = (n for n in self.graph.graph.nodes if n.op not in ("placeholder", "output"))
        return [n for n in nodes if operations.intersection(self.loops.nodes.get(info(n).id, ("", ()))[1])]

    def _began(self, item: str, ours: Tensor, reference: ReferenceRun) -> str:
        """The first node of a kernel whose value in eager is not finite, where what the kernel wrote is not."""
        if is_finite(ours):
            return ""
        values = ((info(node).id, reference.eager[node]) for node in self._nodes(self._operations(item)))
        return next((id for id, value in values if isinstance(value, Tensor) and not is_finite(value)), "")

    def _operations(self, item: str) -> set[str]:
        kernel = next((i for i in self.schedule.items if i.id == item and isinstance(i, FusedKernel)), None)
        return {item} if kernel is None else set(kernel.ids)

    def _report(
        self, item: str, node: fx.Node, found: Errors, inputs: Sequence[object], reference: ReferenceRun
    ) -> DivergenceData:
        """The kernel's first node that is wrong when each of its nodes is compiled alone; else the mismatch itself."""
        kernel = self._operations(item)
        within = [node] if item in kernel else self._nodes(kernel)
        within = [n for n in within if isinstance(reference.eager[n], Tensor)]
        detail = f"{item} wrote {info(node).id}"

        def first_wrong() -> tuple[fx.Node, Errors] | None:
            torch.manual_seed(SEED)
            unfused = compile_half(returning(self.graph, within), replace(self.config, fuse=False))
            assert unfused.call is not None
            with torch.no_grad():
                values = unfused.call(duplicate(tuple(inputs)))[-len(within) :]
            for each, ours in zip(within, values, strict=True):
                if (errors := reference.errors(each, ours)) is not None:
                    return each, errors
            return None

        return self.report.of_kernel(node, self.graph.name, item, found, detail, within, first_wrong)


def returning(graph: Graph, more: Sequence[fx.Node]) -> Graph:
    """The graph, returning the values of more nodes after its own results."""
    made = graph.copy()
    by_id = {info(n).id: n for n in made.nodes if n.op != "output"}
    output = made.output_node()
    output.args = ((*output.args[0], *(by_id[info(n).id] for n in more)),)  # type: ignore[misc]
    return replace(graph, graph=made)


def written(
    kernel: str,
    buffer: str,
    ours: Tensor,
    node: str = "",
    eager: Tensor | None = None,
    differs: bool = False,
    began: str = "",
) -> WrittenData:
    """What a kernel wrote, beside what eager computes for the node."""
    nonfinite = int((~torch.isfinite(ours)).sum())
    if eager is None:
        return WrittenData(kernel, buffer, described(ours), nonfinite=nonfinite, began=began)
    alike = torch.equal(torch.isfinite(ours), torch.isfinite(eager))
    error = largest_distance(ours, eager) if alike else None
    return WrittenData(kernel, buffer, described(ours), node, described(eager), error, differs, nonfinite, began)


def is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


SHOWN = 4
"""Elements of a tensor that are written out."""


def described(tensor: Tensor) -> str:
    """A tensor's values in one line: how many are not finite, the range of the others and their mean, and the first."""
    values = tensor.detach().flatten()
    if values.numel() < 2:
        return f"{values.tolist()[0]:.4g}" if values.numel() else "no elements"
    if values.is_complex():
        values = values.abs()
    wide = values.double()
    finite = wide[torch.isfinite(wide)]
    counts = (int(torch.isnan(wide).sum()), "NaN"), (int(torch.isinf(wide).sum()), "infinite")
    parts = [f"{count} {kind}" for count, kind in counts if count]
    if finite.numel():
        least, most, mean = (f"{each.item():.4g}" for each in (finite.min(), finite.max(), finite.mean()))
        size = "absolute values " if tensor.is_complex() else ""
        parts.append(f"{size}{least} to {most}, mean {mean}" if least != most else f"{size}{least} everywhere")
    first = " ".join(f"{each:.4g}" for each in values[:SHOWN].tolist())
    return f"{', '.join(parts)}; {first}{' ...' if values.numel() > SHOWN else ''}"


def searched(contestant: Callable[[Callable[..., Any]], Contestant], config: Config, thorough: bool = False) -> Search:
    """Runs the contestant kernel by kernel and compares with eager. `contestant` makes one from a compiler, as
    `Trial.contestant` does; `thorough`: all of it, also after the first divergence. Raises what the call raises."""
    search = Search(thorough)
    compiling = Searching(search)
    contestant(lambda fn: optimize(fn, config, compiling.compile_frame)).observe()
    return search


def first_divergence(contestant: Callable[[Callable[..., Any]], Contestant], config: Config) -> DivergenceData | None:
    """The first node that differs from eager when the contestant runs, or None."""
    return searched(contestant, config).found


@dataclass
class Searching:
    """A compile_frame whose programs are compared with eager operators as they run."""

    search: Search

    def compile_frame(self, frame: InputFrame, config: Config) -> GuardedCode:
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

        def call(*inputs: object) -> tuple[Any, ...]:
            self.search.compare(lambda: Stages(self.report, self.stages, inputs).first(captured), self.report)
            return joined.call(*inputs)

        return replace(joined, call=call)

    def _half(self, graph: Graph, program: Program) -> Program:
        loops, schedule = (self._made(kind, graph.name) for kind in (Loops, Schedule))
        plain = program.call
        if plain is None or program.stepwise is None:
            return program

        def first(inputs: Sequence[object]) -> DivergenceData | None:
            kernels = Kernels(self.report, self.config, graph, loops, schedule, program)
            found = kernels.first(inputs)
            self.search.written.setdefault((self.compile, graph.name), tuple(kernels.written))
            return found

        def call(inputs: Iterable[object]) -> tuple[Any, ...]:
            given = tuple(inputs)
            self.search.compare(lambda: first(given), self.report)
            return plain(given)

        return replace(program, call=call)

    def _made(self, kind: type, name: str) -> Any:
        found: Iterator[Any] = (a for _, a in self.stages if isinstance(a, kind))
        return next(a for a in found if (a if isinstance(a, Loops) else a.loops).name == name)

    def _graphs(self) -> list[Graph]:
        graphs = [a if isinstance(a, Graph) else getattr(a, "captured", None) for _, a in self.stages]
        graphs += [a.forward for _, a in self.stages if isinstance(a, (Traced, Partitioned))]
        graphs += [a.backward for _, a in self.stages if isinstance(a, Partitioned)]
        return [graph for graph in graphs if isinstance(graph, Graph)]
