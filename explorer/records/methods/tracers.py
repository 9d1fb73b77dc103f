"""Tracers that run the function once, and TorchScript: torch.fx.symbolic_trace (proxies without values),
torch.jit.trace, and torch.jit.script, which reads the source.
"""

from __future__ import annotations

import inspect
import re
import statistics
import time
import types
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from explorer.ir.record import LineData, TextData
from explorer.records.data.methods import KernelStepData, OperationCallData, ViewData
from explorer.records.methods.inputs import Variant, describe
from explorer.records.methods.method import (
    Example,
    Method,
    Runnable,
    Saving,
    by_name,
    is_program,
    tensors,
    user_line,
    view,
)


class Tracing(torch.fx.Tracer):
    """What torch.fx.symbolic_trace uses, noting also the line that asked for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, str] = {}

    def create_node(self, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = super().create_node(*args, **kwargs)
        if node.op not in ("placeholder", "output"):
            self.places[node.name] = user_line()
        return node


def _capture(example: Example) -> Runnable:
    tracer = Tracing()
    graph = tracer.trace(example.fn, _positional_inputs(example))
    made = torch.fx.GraphModule(tracer.root, graph)
    where = by_name(tracer.places)
    return Runnable(
        made,
        lambda: (view("code", made.code, where=where), view("graph", str(made.graph), "text", where)),
        lambda: "none can be: a branch on a value raises, a loop over a known length is unrolled",
        lambda: "not part of the graph",
        "a GraphModule pickles as Python source; it is loaded by running that",
    )


def _positional_inputs(example: Example) -> dict[str, object] | None:
    """A function that takes *args needs to know how many there are; others are traced as they are."""
    found = example.fn.forward if isinstance(example.fn, torch.nn.Module) else example.fn
    if not isinstance(found, (types.FunctionType, types.MethodType)):
        return None
    kinds = {parameter.kind for parameter in inspect.signature(found).parameters.values()}
    return {} if inspect.Parameter.VAR_POSITIONAL in kinds else None


FX = Method("torch.fx.symbolic_trace", "Runs the function once on proxies, and records what it does to them.", _capture)


def _trace(example: Example) -> Runnable:
    """Tracing takes tensors alone: what else the call has is bound before, as its users do."""
    leaves, spec = tree_flatten((example.args, dict(example.kwargs)))
    if not example.kwargs and all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return _captured(torch.jit.trace(example.fn, example.args, check_trace=False))

    def bound(*traced: torch.Tensor) -> Any:
        given = iter(traced)
        all = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(all, spec)
        return example.fn(*args, **kwargs)

    made = torch.jit.trace(bound, tuple(tensors(example.args, example.kwargs)), check_trace=False)
    found = _captured(made)
    assert isinstance(found.saving, Saving)
    saving = replace(found.saving, read=lambda path: _of_tensors(torch.jit.load(str(path))))
    return replace(found, call=_of_tensors(made), saving=saving)


def _of_tensors(program: Callable[..., object]) -> Callable[..., Any]:
    return lambda *args, **kwargs: program(*tensors(args, kwargs))


def _script(example: Example) -> Runnable:
    return _captured(torch.jit.script(example.fn))


def _captured(made: Any) -> Runnable:
    graph = made.inlined_graph
    kinds = {node.kind() for node in _nodes(graph)}
    saving = Saving(
        lambda path: torch.jit.save(made, str(path)),
        lambda path: torch.jit.load(str(path)),
        ".pt",
        "libtorch, without Python",
    )
    return Runnable(
        made,
        lambda: (view("graph", str(graph), "text", _printed_place), view("TorchScript", made.code)),
        lambda: _control(kinds),
        lambda: "not part of the types; sizes of the example are noted as comments and not checked",
        saving,
    )


def _printed_place(line: str) -> str:
    """The place that the graph's printed lines end with: "# FILE:LINE:COLUMN"."""
    found = re.fullmatch(r"(.+):(\d+):\d+", line.rpartition(" # ")[2])
    return f"{found[1]}:{found[2]}" if found and is_program(found[1]) else ""


def _nodes(block: Any) -> Any:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _control(kinds: set[str]) -> str:
    found = [
        text
        for kind, text in (("prim::If", "branches (prim::If)"), ("prim::Loop", "loops (prim::Loop)"))
        if kind in kinds
    ]
    return f"in the graph: {' and '.join(found)}" if found else "none in the graph"


TRACE = Method(
    "torch.jit.trace",
    "Runs the function once on the example and records its operations; values that are not tensors become constants.",
    _trace,
)
SCRIPT = Method(
    "torch.jit.script", "Reads the source and compiles a subset of Python, branches and loops included.", _script
)


# Eager: each operation that reaches a kernel, with its way through the dispatcher and its time.


REPEATS = 5


class _Observer(TorchDispatchMode):
    """Notes each operation below autograd. `outside` are the keys that were included and excluded before this mode."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.included = torch._C._dispatch_tls_local_include_set()
        self.excluded = torch._C._dispatch_tls_local_exclude_set()
        self.calls: list[tuple[Any, tuple[str, ...], torch.Tensor | None, Any, float, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, torch.Tensor)]
        keys = _ordered(tensors, self.included, self.excluded)
        where = user_line()
        started = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        seconds = time.perf_counter() - started
        made = next((leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)), None)
        keys = keys or _ordered([made] if made is not None else [], self.included, self.excluded)
        self.calls.append((func, keys, tensors[0] if tensors else made, result, seconds, where))
        return result


def operations(fn: Callable[..., object], given: Variant) -> tuple[OperationCallData, ...]:
    """The operations of one call, each timed over some calls that ran the same ones (Python's part of a dispatch
    included). What the call raises propagates."""
    runs = []
    for _ in range(REPEATS):
        args, kwargs = given.copy()
        with _Observer() as observer:
            fn(*args, **kwargs)
        runs.append(observer.calls)
    same = [run for run in runs if [call[0] for call in run] == [call[0] for call in runs[0]]]
    found = []
    for number, (func, keys, like, result, _, where) in enumerate(runs[0]):
        seconds = statistics.median(run[number][4] for run in same)
        name = func.name()
        steps = tuple(step for key in keys if (step := _step(name, key)) is not None)
        dtype = "" if like is None else str(like.dtype).removeprefix("torch.")
        layout = "" if like is None else str(like.layout).removeprefix("torch.")
        device = "" if like is None else str(like.device)
        found.append(
            OperationCallData(f"e{number}", name, steps, dtype, layout, device, describe(result), seconds, where)
        )
    return tuple(found)


def _ordered(tensors: list[torch.Tensor], included: Any, excluded: Any) -> tuple[str, ...]:
    """The dispatch keys of a call, highest priority first: those of its tensors and the thread's, less the excluded."""
    keys: dict[str, None] = {}
    sets = [torch._C._dispatch_keys(tensor) for tensor in tensors]
    if not sets:
        return ()
    union = torch._C.DispatchKeySet.from_raw_repr(included.raw_repr())
    for each in sets:
        union = torch._C.DispatchKeySet.from_raw_repr(union.raw_repr() | each.raw_repr())
    while (key := union.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        if not excluded.has(key):
            keys[torch._C._dispatch_key_name(key)] = None
        union = union.remove(key)
    return tuple(keys)


def _step(operator: str, key: str) -> KernelStepData | None:
    """What the dispatcher has for a key, as its own table says."""
    entry = _table(operator).get(key)
    if entry is None:
        return None
    kind = entry.rpartition("[")[2].rstrip("]")
    place = entry.partition("registered at ")[2].rpartition(" [")[0]
    does = "passes on" if entry.startswith("fallthrough") else "kernel"
    return KernelStepData(key, does, f"{_below_root(place)} ({kind})")


def _below_root(place: str) -> str:
    """A path inside torch's sources: without the folder in which that torch was built."""
    for top in ("/aten/", "/torch/", "/c10/"):
        if top in place:
            return place[place.index(top) + 1 :]
    return place


@cache
def _table(operator: str) -> dict[str, str]:
    lines = torch._C._dispatch_dump_table(operator).splitlines()
    return {key: entry.strip() for key, _, entry in (line.partition(":") for line in lines)}


def _listing(calls: tuple[OperationCallData, ...]) -> ViewData:
    lines = []
    for call in calls:
        through = " > ".join(step.key for step in call.steps if step.does == "kernel")
        text = f"{call.id:<5} {call.name:<36} {call.result:<16} {through} > {call.dtype}"
        lines.append(LineData(text, "", (call.where,) if call.where else ()))
    return ViewData("as they ran", TextData(tuple(lines)))


def _capture_dispatched(example: Example) -> Runnable:
    given = Variant("", "", "", example.args, example.kwargs)
    calls = operations(example.fn, given)
    return Runnable(
        example.fn,
        lambda: (_listing(calls),),
        lambda: "Python runs it in each call: every branch and loop is taken as it comes",
        lambda: "each call has its own",
        "a function is its source; a module's state_dict can be saved",
    )


EAGER = Method("eager", "Runs each operation when Python reaches it; nothing is captured.", _capture_dispatched)
