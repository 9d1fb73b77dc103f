"""Eager: each operation that reaches a kernel, with its way through the dispatcher and its time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from explorer.ir.methods import KernelStepData, OperationCallData, ViewData
from explorer.ir.record import LineData, TextData
from explorer.records.methods.inputs import Input, describe
from explorer.records.methods.method import Captured, Example, Method, user_line

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


def operations(fn: Callable[..., Any], given: Input) -> tuple[OperationCallData, ...]:
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


def _capture(example: Example) -> Captured:
    given = Input("", "", "", example.args, example.kwargs)
    calls = operations(example.fn, given)
    return Captured(
        example.fn,
        lambda: (_listing(calls),),
        lambda: "Python runs it anew in each call: every branch and loop is followed as it comes",
        lambda: "each call has its own",
        "a function is its source; a module's state_dict can be saved",
    )


EAGER = Method("eager", "Runs each operation when Python reaches it; nothing is captured.", _capture)
