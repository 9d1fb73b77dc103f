"""What each kernel and library call of a half writes, observed while the compiled program runs, and the nodes of one
kernel compiled so that each is materialized.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from explorer.ir.graph import Graph
from explorer.records.check.search import Errors, ReferenceRun
from explorer.records.check.trial import SEED, duplicate
from explorer.records.stock.observation import Half

LIBRARY = "extern_kernels"

Observer = Callable[[tuple[str, ...], Callable[[], Any], tuple[Any, ...]], Any]
"""Gets the ids of what is called (several where one function holds several groups of loops; none where nobody knows),
the call itself, and the tensors and numbers that it is given. Returns what the call does."""


@contextmanager
def observed(half: Half, observer: Observer) -> Iterator[None]:
    """Inside the block the generated module of a half calls its kernels, and the library operators that are attributes
    of `extern_kernels`, through `observer`. What it calls by another way (`torch.ops`) is not seen."""
    names = vars(half.module) if half.module is not None else {}
    before: dict[str, object] = {}
    try:
        for function, calls in kernels(half).items():
            if function in names:
                before[function] = names[function]
                names[function] = _Kernel(names[function], _named(iter(calls), observer))
        library = [(item.id,) for item in half.items if is_library(half, item.id)]
        if library and LIBRARY in names:
            before[LIBRARY] = names[LIBRARY]
            names[LIBRARY] = _Library(names[LIBRARY], _named(iter(library), observer))
        yield
    finally:
        names.update(before)


def kernels(half: Half) -> dict[str, list[tuple[str, ...]]]:
    """By the name of a generated function: the ids of the kernels of each call of it, in order."""
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for kernel in half.kernels:
        found[kernel.function].setdefault(kernel.id.partition(".")[0], []).append(kernel.id)
    return {function: [tuple(ids) for ids in calls.values()] for function, calls in found.items()}


def is_library(half: Half, id: str) -> bool:
    return any(each.id == id and each.target.startswith(f"{LIBRARY}.") for each in half.operations)


def _named(ids: Iterator[tuple[str, ...]], observer: Observer) -> Callable[..., object]:
    """Calls a function observed, under the next of `ids`."""

    def call(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return observer(next(ids, ()), lambda: function(*args, **kwargs), (*args, *kwargs.values()))

    return call


class _Kernel:
    """A kernel as the wrapper calls it: a function (C++), or an object with `run` (Triton)."""

    def __init__(self, kernel: Any, call: Callable[..., object]) -> None:
        self._kernel = kernel
        self._call = call

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._call(self._kernel, args, kwargs)

    def run(self, *args: object, **kwargs: object) -> object:
        return self._call(self._kernel.run, args, kwargs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._kernel, name)


class _Library:
    def __init__(self, library: object, call: Callable[..., object]) -> None:
        self._library = library
        self._call = call

    def __getattr__(self, name: str) -> object:
        function = getattr(self._library, name)
        return lambda *args, **kwargs: self._call(function, args, kwargs)


@dataclass
class KernelOutputs:
    """What a run of a half's module writes: each buffer, its kernel or library call, and a copy of its value."""

    half: Half
    values: dict[str, tuple[str, Tensor]] = field(default_factory=dict)
    """By the buffer's name, in the order of writes."""
    returned: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        operations = {operation.id: operation for operation in self.half.operations}
        self._writes = {
            item.id: [
                name.removeprefix(self.half.prefix)
                for id in item.operations
                if id in operations
                for name in operations[id].writes
                if name not in item.internal
            ]
            for item in self.half.items
        }
        self._last = {self._root(name): id for id, names in self._writes.items() for name in names}
        """The last item that writes a buffer or updates it in place."""
        self._begun = {item.id: item.kind == "extern" for item in self.half.items}
        self._order = list(self._writes)

    def run(self, call: Callable[[list[Any]], Any], given: Sequence[object]) -> None:
        """Runs the module's `call` once, from a fixed seed."""
        torch.manual_seed(SEED)
        with observed(self.half, self._observer):
            self.returned = tuple(call(list(given)))

    def _observer(self, ids: tuple[str, ...], call: Callable[[], object], given: tuple[object, ...]) -> object:
        frame = self._frame()
        until = self._order.index(ids[0]) if ids and ids[0] in self._writes else 0
        self._keep([id for id in self._order[:until] if self._begun[id]], frame)  # calls that are not observed
        result = call()
        for id in ids:
            names = self._writes.get(id, [])
            if isinstance(result, Tensor) and len(names) == 1 and names[0] not in frame.f_locals:
                self.values.setdefault(names[0], (id, result.detach().clone()))
        self._keep(ids, frame)
        return result

    def _keep(self, ids: Sequence[str], frame: FrameType) -> None:
        local = frame.f_locals
        for id in ids:
            for name in map(self._root, self._writes.get(id, ())):
                value = local.get(name)
                if isinstance(value, Tensor) and name not in self.values and self._last[name] in ids:
                    self.values[name] = self._last[name], value.detach().clone()

    def _root(self, name: str) -> str:
        """The buffer whose memory this one shares."""
        while name in self.half.updates:
            name = self.half.updates[name]
        return name

    def _frame(self) -> FrameType:
        """The frame of the generated function that makes the call; its locals are the buffers."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals is not vars(self.half.module):
            frame = frame.f_back
        assert frame is not None, "kernels are called by the generated module"
        return frame


def first_wrong_node(graph: Graph, within: Sequence[fx.Node], args: Sequence[object]) -> tuple[fx.Node, Errors] | None:
    """The first of `within` that is wrong, or None. Raises what stock raises."""
    reference = ReferenceRun(graph)
    reference.run(duplicate(tuple(args)))
    wanted = [node for node in within if isinstance(reference.eager[node], Tensor)]
    made, given, copied = extracted(wanted, reference)
    alike = Graph(graph.name, made, FakeTensorMode(), graph.constants)
    values = compiled(alike.module(), given)
    part = ReferenceRun(alike)
    part.run(duplicate(tuple(given)))
    for node, value in zip(wanted, values, strict=True):
        if (errors := part.errors(copied[node], value)) is not None:
            return node, errors
    return None


def extracted(
    wanted: Sequence[fx.Node], reference: ReferenceRun
) -> tuple[fx.Graph, list[Tensor], dict[fx.Node, fx.Node]]:
    """(a graph of these nodes alone, its input tensors, the original nodes mapped to its nodes)."""
    made = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    numbers: dict[fx.Node, object] = {}
    given: list[Tensor] = []
    inner = set(wanted)
    for source in dict.fromkeys(source for node in wanted for source in node.all_input_nodes if source not in inner):
        value = reference.eager[source]
        if isinstance(value, Tensor):
            copied[source] = made.placeholder(f"given_{len(given)}")
            copied[source].meta = dict(source.meta)
            given.append(value)
        else:
            numbers[source] = value
    for node in wanted:
        copied[node] = made.node_copy(node, lambda source: numbers.get(source, copied.get(source)))  # type: ignore[arg-type, return-value]
    made.output(tuple(copied[node] for node in wanted))
    return made, given, copied


def compiled(module: fx.GraphModule, given: Sequence[Tensor]) -> Sequence[object]:
    """The results of a graph, compiled with Inductor and run."""
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(each) for each in given]
    FakeTensorProp(module, mode).propagate_dont_convert_inputs(*fakes)
    with torch.no_grad():
        run = importlib.import_module("torch._inductor.compile_fx").compile_fx_inner(module, fakes)
        found: Sequence[object] = run(list(duplicate(tuple(given))))
    return found
