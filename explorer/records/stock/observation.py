"""What the hooks record of stock, compile by compile and half by half (inference, forward or backward)."""

from __future__ import annotations

import builtins
import threading
import time
import traceback
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._guards import CompileContext, CompileId
from torch._subclasses.fake_tensor import FakeTensorMode

from explorer.core.recorder import EVENT_CAP, OUTSIDE, CompileRun, OnStage, StageRun
from explorer.ir import record as data
from explorer.ir.graph import Graph
from explorer.ir.program import Target
from explorer.ir.schedule import MemoryPlan
from explorer.records.data.calls import CallLog
from explorer.records.data.dynamo import CollectedCompile
from explorer.records.environment import describe
from explorer.records.stock import hook
from explorer.records.stock.fixes import Fix
from explorer.records.to_record.graphs import function_costs, why
from explorer.records.to_record.halves import counted


@dataclass(frozen=True)
class ObservedGraph:
    """A graph as data, as text, and as it runs. `inner` are those that its higher-order operators call, by name."""

    graph: data.GraphData
    body: data.TextData
    artifact: Graph
    inner: tuple[tuple[str, ObservedGraph], ...] = ()


@dataclass
class Half:
    """`prefix` makes the names of a backward's buffers and operations distinct from the forward's."""

    name: str
    part: str
    prefix: str = ""
    target: str = ""
    buffers: list[data.BufferData] = field(default_factory=list)
    operations: list[data.OperationData] = field(default_factory=list)
    items: list[data.ItemData] = field(default_factory=list)
    fusions: list[data.FusionData] = field(default_factory=list)
    kernels: list[data.KernelData] = field(default_factory=list)
    wrapper: data.TextData | None = None
    memory: MemoryPlan | None = None
    builds: list[data.BuildData] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    """Ids of the nodes that were lowered, by name."""
    computed: tuple[str, ...] = ()
    """Those among them that call an operator."""
    realized: dict[str, str] = field(default_factory=dict)
    """The Inductor function that realized a buffer, by the buffer's name."""
    updates: dict[str, str] = field(default_factory=dict)
    """Of a buffer that is a new value of another in its memory: the other, by Inductor's names."""
    holds: dict[str, str] = field(default_factory=dict)
    """The id of the node whose value a buffer holds, by Inductor's name of the buffer, where torch tells."""
    signature: int = 0
    """Of its graph, as Inductor got it."""
    lowered: bool = False
    causes: Any = None
    """Which node each operation of a loop body is for (`causes.Causes`)."""
    fusing: Any = None
    """The scheduler's messages on fusion (`fusion.Fusing`)."""
    generating: Any = None
    """What code generation has written (`kernels.Generating`)."""
    recorded: dict[str, str] = field(default_factory=dict)
    runs: bool = True
    module: Any = None
    """The Python module that Inductor wrote, alive, for timing its kernels."""

    def named(self, name: str) -> str:
        return self.prefix + name

    def buffer(self, name: str) -> str:
        """A buffer's name in the record; inputs and constants have the one that both halves know."""
        return self.shown_buffers().get(name, self.named(name))

    def shown_buffers(self) -> dict[str, str]:
        """Names in the record by Inductor's, once all is lowered."""
        if not self.recorded:
            self.recorded = {known.name.removeprefix(self.prefix): known.name for known in self.buffers}
        return self.recorded

    def origins(self, operation: Any) -> tuple[str, ...]:
        """The nodes that a buffer or an operation of Inductor's IR computes."""
        found = (self.ids.get(node.name) for node in operation.get_origins() if hasattr(node, "name"))
        return tuple(dict.fromkeys(id for id in found if id))

    def frozen(self, seconds: Mapping[str, float]) -> data.HalfData:
        """`seconds` are the measured times of kernels and library calls, by id."""
        schedule = data.ScheduleData(tuple(self.items), tuple(self.fusions)) if self.items else None
        kernels = tuple(msgspec.structs.replace(each, seconds=seconds.get(each.id)) for each in self.kernels)
        own = {kernel.id for kernel in kernels}
        calls = {id: spent for id, spent in seconds.items() if id not in own}
        plan = self.memory
        memory = None if plan is None else data.MemoryData(plan.pool_bytes, plan.peak_before, plan.peak_after)
        version = describe()["C++ compiler"] if self.builds else ""  # which takes a process that is not the program's
        builds = tuple(msgspec.structs.replace(each, version=version) for each in self.builds)
        return data.HalfData(
            self.name, self.target, self._placed(), tuple(self.operations), schedule, memory,
            kernels, self.wrapper, builds, calls, self.coverage(), self.runs,
        )  # fmt: skip

    def _placed(self) -> tuple[data.BufferData, ...]:
        """The buffers with their places in the memory plan."""
        places = {each.buffer: each for each in self.memory.allocations} if self.memory else {}
        return tuple(
            msgspec.structs.replace(
                buffer, where=at.where, where_why=why(at.why), offset=at.offset, of=at.of or "",
                first=at.first, last=at.last,
            )
            if (at := places.get(buffer.name)) is not None
            else buffer
            for buffer in self.buffers
        )  # fmt: skip

    def coverage(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """How each node is computed: the kernels or library calls, or a view."""
        by_node: dict[str, dict[str, list[str]]] = {}
        for operation in self.operations:
            kind = "kernel" if operation.kind == "loop" else "extern" if operation.kind == "extern" else ""
            for id in operation.origins if kind else ():
                by_node.setdefault(id, {}).setdefault(kind, []).append(operation.id)
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for id in self.computed:
            kinds = by_node.get(id, {})
            kind = "extern" if "extern" in kinds else "kernel" if kinds else "view"
            found[id] = (kind, tuple(kinds.get(kind, ())))
        return found


MOST_WHOLE = 500
"""How many of the last compiles of a watched program keep their stages, to bound memory."""
NEVER_MET = "not compiled: it has not been called yet, or only while Dynamo was disabled"
NOT_TAKEN = "not compiled: no call took this side of the branch"


@dataclass
class Compile(CollectedCompile):
    """One compile of a frame: "s0", or "s0.1" for the next of the same frame."""

    torch_id: str = ""
    """Torch's compile id: "3/1"."""
    started: float = field(default_factory=time.perf_counter)
    code: types.CodeType | None = None
    seconds: float = 0.0
    graphs: list[tuple[str, str, Graph]] = field(default_factory=list)
    """The graph that each stage with one made, by the stage's name and half."""
    codes: list[data.CodeData] = field(default_factory=list)
    fixes: list[Fix] = field(default_factory=list)
    """One of each break."""
    saved: list[data.SavedData] = field(default_factory=list)
    activations: list[data.ActivationData] = field(default_factory=list)
    steps: list[data.StepData] = field(default_factory=list)
    step_times: list[float] = field(default_factory=list)
    """When each began; and when the last one ended."""
    stepped: float = 0.0
    in_backend: float = 0.0
    """Seconds that backends took meanwhile, which the times of the steps leave out."""
    values: dict[data.ValueData, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    _count: Counter[str] = field(default_factory=Counter)
    halves: dict[str, Half] = field(default_factory=dict)
    continues: str = ""
    fallback: data.WhyData | None = None
    on_stage: OnStage | None = None
    mark: float = field(default_factory=time.perf_counter)
    """When the last stage ended."""
    inferred: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    registered: dict[types.CodeType, tuple[str, str]] = field(default_factory=dict)
    """Code objects by what the ids of their instructions begin with, and their role."""
    offsets: dict[types.CodeType, tuple[int, ...]] = field(default_factory=dict)
    """For each of Dynamo's instructions of a code object, the offset of the one that it stands for."""
    evaluation: Any = None
    """How far Dynamo's evaluator has come (`steps.Evaluation`)."""
    passing: Any = None
    """The group of passes at work (`passes.Passing`)."""
    sources: Any = None
    """What nodes of traced graphs come from (`fxgraphs.Traced`)."""
    made_by: dict[Any, str] = field(default_factory=dict)
    """The instruction that made each node of Dynamo's graph."""
    made_at: dict[Any, int] = field(default_factory=dict)
    """The step that did."""
    made: dict[str, int] = field(default_factory=dict)
    """The same by the ids of the nodes."""
    fx: dict[str, data.NodeData] = field(default_factory=dict)
    """Nodes of the captured graph, before and after passes, by name."""
    aten: dict[str, data.NodeData] = field(default_factory=dict)
    """Nodes of the graph that AOTAutograd traced (joint, or the inference graph), by name."""
    targets: dict[str, str] = field(default_factory=dict)
    """What these call, by the same names, which is known before their texts are made."""
    half: Half | None = None
    """The one being compiled now."""
    guard_seconds: float | None = None
    guard_managers: list[Any] = field(default_factory=list)
    """Of Dynamo's, alive, to let go of the compiled code when the exploration ends."""
    given: dict[str, Any] = field(default_factory=dict)
    """The locals that the frame was compiled for, as long as the managers are there."""
    cache_keys: list[data.CacheKeyData] = field(default_factory=list)
    skipped: bool = False
    running: bool = False
    """Whether its frame is being compiled now; the backward is compiled later."""
    checks: list[Any] = field(default_factory=list)
    """Its guards as torch has them (`guards.Check`)."""
    patient: bool = False
    """Whether texts are made later, so that a watched program does not wait for them."""
    _later: list[tuple[str, Callable[[], Any]]] = field(default_factory=list)
    _settling: threading.RLock = field(default_factory=threading.RLock)
    _settles: bool = False

    let_go: list[Callable[[], None]] = field(default_factory=list)
    """Called when the compile has ended: graphs, which are kept, refer to tensors by what Dynamo needs until then."""

    @cached_property
    def fake_mode(self) -> FakeTensorMode:
        """Of all its graphs: making one takes a millisecond."""
        return FakeTensorMode()

    def later(self, target: str, work: Callable[[], object]) -> None:
        """Do `work` of the hook on `target` now, or in order when the data is read. Its inputs must not change
        meanwhile."""
        if self.patient:
            self._later.append((target, work))
        else:
            work()

    def finish(self) -> None:
        """Do the deferred work."""
        with self._settling:
            if self._settles:
                return
            self._settles = True
            try:
                while self._later:
                    target, work = self._later.pop(0)
                    try:
                        work()
                    except Exception as error:
                        self.failed(target, error)
            finally:
                self._settles = False

    def failed(self, target: str, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
        if any(event.kind == "HookFailed" and event.fields["error"] == message for event in self.events):
            self.left_out["HookFailed"] += 1
        else:
            self.event("HookFailed", hook=target, error=message)

    def register(self, code: types.CodeType, role: str) -> str:
        """What the ids of `code`'s instructions begin with; it is shown under the compile from now on."""
        if code not in self.registered:
            wanted = self.id if role == "original" else f"{self.id}.{code.co_name}"
            taken = sum(id == wanted or id.startswith(f"{wanted}#") for id, _ in self.registered.values())
            self.registered[code] = (f"{wanted}#{taken + 1}" if taken else wanted), role
        return self.registered[code][0]

    def stage(
        self,
        target: str,
        name: str,
        made: Callable[[], Mapping[str, Any]] = dict,
        *,
        ended: float | None = None,
        half: str = "",
        error: str = "",
    ) -> None:
        """Add a stage of the hook on `target`, from the end of the last one until `ended`, by default now. Its text and
        graph, the arguments of `_add`, are `made` where somebody reads them."""
        started, ended = self.mark, time.perf_counter() if ended is None else ended
        self.later(target, lambda: self._add(name, started, ended - started, half, error=error, **made()))
        self.mark = time.perf_counter()

    def _add(
        self,
        name: str,
        started: float,
        seconds: float,
        half: str,
        *,
        body: data.TextData | None = None,
        shown: ObservedGraph | None = None,
        halves: tuple[data.GraphData, ...] = (),
        depth: int = 0,
        error: str = "",
    ) -> None:
        """A stage whose text is that of the last with a graph in the same half is marked as unchanged."""
        graph, body = (None, body) if shown is None else (shown.graph, shown.body)
        same_as = ""
        if graph is not None and body is not None:
            own = (s for s in reversed(self.stages) if s.graph is not None and (s.half, s.depth) == (half, depth))
            before = next(own, None)
            if before is not None and before.body == body:
                same_as, body, graph = before.id, None, None
            elif shown is not None and not depth:
                self.graphs.append((name, half, shown.artifact))
        self.stages.append(
            data.StageData(
                f"{self.id}/{len(self.stages)}", name, started, seconds, depth, half, body, graph,
                error=error, same_as=same_as, halves=halves,
            )
        )  # fmt: skip
        if self.on_stage is not None:
            run = CompileRun(self.id, self.title, self.started)
            self.on_stage(run, StageRun(name, started, seconds, depth))
        for called, inner in shown.inner if shown is not None and not same_as else ():
            self._add(f"{name}: {called}", started + seconds, 0.0, half, shown=inner, depth=depth + 1)

    def forget_stages(self) -> None:
        """Keep why it was compiled and what came of it, and not what the stages made."""
        self.finish()
        self.left_out["Stage"] += len(self.stages)
        for made in (self.stages, self.codes, self.graphs, self.saved, self.halves, self.inferred, self.fx, self.aten):
            made.clear()
        self.sources = self.passing = None

    def event(self, kind: str, **fields: object) -> None:
        if self._count[kind] >= EVENT_CAP:
            self.left_out[kind] += 1
            return
        self._count[kind] += 1
        self.events.append(data.EventData(kind, {name: str(value) for name, value in fields.items()}))

    def infer(self, how: str, id: str) -> None:
        """The origins of `id` were worked out, and `how`."""
        self.inferred[how].append(id)

    def frozen(self, seconds: Mapping[str, Mapping[str, float]], **more: object) -> data.CompileData:
        self.finish()
        return self.whole(
            self.started,
            self.seconds,
            codes=tuple(self.codes),
            saved=tuple(self.saved),
            halves=counted(
                (half.frozen(seconds.get(half.name, {})) for half in self.halves.values()),
                (graph for *_, graph in self.graphs),
            ),
            left_out=dict(self.left_out),
            fallback=self.fallback,
            continues=self.continues,
            guard_seconds=self.guard_seconds,
            cache_keys=tuple(self.cache_keys),
            activations=tuple(self.activations),
            functions=function_costs(self.activations, self.steps, self.step_times, self.stepped),
            steps=tuple(self.steps),
            values=tuple(self.values),
            made=self.made,
            inferred={how: tuple(dict.fromkeys(ids)) for how, ids in self.inferred.items()},
            **more,
        )


class Observation:
    """What one exploration records; the watcher of its hooks."""

    def __init__(
        self, on_stage: OnStage | None = None, absent: Target | None = None, ids: str = "s", search: Any = None,
        calls: CallLog | None = None,
    ) -> None:  # fmt: skip
        self.on_stage = on_stage
        self.ids = ids
        """What the ids of compiles begin with."""
        self.absent = absent
        """The GPU that code is generated for although it is not present."""
        self.search = search
        """Compares compiled programs with eager as they run (`bisection.StockSearch`)."""
        self.calls = calls
        """Who times graphs as they run, of a program that is watched: its compiles and caches stay as they are."""
        self.settings: dict[str, str] = {}
        """What torch.compile was given, by the compiled function."""
        self.stances: dict[str, None] = {}
        """Those of torch.compiler.set_stance that were in force, but for the default."""
        self.processes = 0
        """That the program started with multiprocessing."""
        self.failing: Compile | None = None
        """The compile of a frame that has just failed."""
        self.raised: BaseException | None = None
        """The last error that went on from a compile to the program; kept by an exploration alone."""
        self.left: dict[types.CodeType, str] = {}
        """Frames of the user's that Dynamo did not try to compile, with why."""
        self.started = time.perf_counter()
        self.compiles: list[Compile] = []
        self.spent = 0.0
        self.probing = 0
        self.building: Half | None = None
        self.bypassing = False
        self.tuned: list[dict[str, str]] | None = None
        """What was measured for the operation that is being autotuned."""
        self.benchmarks = 0
        """How often candidates were timed."""
        self.tuned_for: dict[int, dict[str, str]] = {}
        """Candidates, by their ids, and the node that they would compute."""
        self.cache_keys: list[tuple[data.CacheKeyData, dict[str, str]]] = []
        """The last keys that were looked for in torch's caches, with all parts of each."""
        self.continuations: dict[types.CodeType, str] = {}
        """The compile whose break made each resume function."""
        self.entries_before: dict[int, tuple[types.CodeType, int]] = {}
        """Each code object seen, with the number of compiled entries that it had at first."""
        self._by_id: dict[CompileId | None, Compile] = {}
        self._frames: dict[tuple[int | None, int], list[Compile]] = defaultdict(list)
        """By torch's number of the frame, which counts anew after torch._dynamo.reset(), and the code object's id."""

    def begin(self, id: CompileId, title: str, code: types.CodeType) -> Compile:
        """A compile of a frame has begun."""
        if builtins.id(code) not in self.entries_before:
            self.entries_before[builtins.id(code)] = code, len(_debug_get_cache_entry_list(code))
        earlier = self._frames[id.frame_id, builtins.id(code)]
        index = list(self._frames).index((id.frame_id, builtins.id(code)))
        own = f"{self.ids}{index}" + (f".{len(earlier)}" if earlier else "")
        patient = self.calls is not None and self.on_stage is None
        made = Compile(own, title, torch_id=str(id), code=code, on_stage=self.on_stage, patient=patient)
        earlier.append(made)
        self._by_id[id] = made
        self.compiles.append(made)
        if self.calls is not None and len(self.compiles) > MOST_WHOLE:
            self.compiles[-1 - MOST_WHOLE].forget_stages()
        hook.owns(id, self)
        return made

    def compiling(self) -> bool:
        """Whether the current thread is in a compile."""
        return CompileContext.current_compile_id() in self._by_id

    def compile(self) -> Compile:
        """The compile that the current thread is in; what happens in none belongs to one of its own."""
        id = CompileContext.current_compile_id()
        if id not in self._by_id:
            made = (
                Compile(f"{self.ids}-process", OUTSIDE) if id is None else Compile(f"{self.ids}-{id}", f"compile {id}")
            )
            self._by_id[id] = made
            self.compiles.append(made)
        return self._by_id[id]

    def had_entries(self, code: types.CodeType | None) -> bool:
        """Whether the program itself had compiled `code` before it was explored."""
        return code is not None and self.entries_before[builtins.id(code)][1] > 0

    def compile_of(self, id: CompileId) -> Compile:
        return self._by_id[id]

    def earlier(self, compile: Compile) -> list[Compile]:
        """Compiles of the same frame before this one."""
        found = next(group for group in self._frames.values() if compile in group)
        return found[: found.index(compile)]

    def failed(self, target: str, error: Exception) -> None:
        self.compile().failed(target, error)

    def frozen(self, seconds: Mapping[str, Mapping[str, Mapping[str, float]]]) -> tuple[data.CompileData, ...]:
        seen = [each for each in self.compiles if each.code is not None or each.stages or each.events]
        runs = self.calls.runs if self.calls is not None else {}
        timed = {id: {"runs": each.count, "run_seconds": each.seconds} for id, each in runs.items()}
        return tuple(compile.frozen(seconds.get(compile.id, {}), **timed.get(compile.id, {})) for compile in seen)

    def modules(self) -> dict[tuple[str, str], Any]:
        """What Inductor wrote of each half, loaded, by the ids of its compile and its name."""
        halves = ((compile.id, half) for compile in self.compiles for half in compile.halves.values())
        return {(id, half.name): half.module for id, half in halves}

    def eager(self) -> Iterator[data.EagerData]:
        """Frames that were never compiled: those that Dynamo skipped, and continuations that never ran."""
        codes = [*(compile.code for compile in self.compiles if compile.code is not None), *self.left]
        met, whole = {code.co_qualname for code in codes}, set(codes)
        taken = {(code.co_qualname, self.continuations.get(code)) for code in codes}
        for code, reason in self.left.items():
            place = data.SpanData(code.co_filename, code.co_firstlineno, code.co_firstlineno)
            yield data.EagerData(code.co_qualname, reason, self.continuations.get(code, ""), place)
        for code, compile in self.continuations.items():
            if _debug_get_cache_entry_list(code):  # compiled before anybody watched
                continue
            this_way = code in whole or (code.co_qualname, compile) not in taken
            if code.co_qualname not in met or not this_way:  # those of another compile have other arguments
                place = data.SpanData(code.co_filename, code.co_firstlineno, code.co_firstlineno)
                why = NEVER_MET if this_way else NOT_TAKEN
                yield data.EagerData(code.co_qualname, why, compile, place, reached=False)
