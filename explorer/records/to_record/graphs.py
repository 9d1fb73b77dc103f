"""Graphs as record data, and what every part of a record is written with: texts, places, reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from types import FunctionType, MappingProxyType
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from explorer.core.files import STANDARD, folder_of_packages
from explorer.core.reasons import CATALOGUE, Why
from explorer.core.text import Text, count
from explorer.ir import record as data
from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, describe, info, target_name
from explorer.records.data.dynamo import names


def text(made: Text) -> data.TextData:
    return data.TextData(tuple(data.LineData(line.text, line.id, line.origins) for line in made.lines), made.language)


def span(at: Span | None) -> data.SpanData | None:
    return None if at is None else data.SpanData(at.file, at.line, at.end_line, at.column, at.end_column)


def why(reason: Why | None) -> data.WhyData | None:
    return None if reason is None else data.WhyData(reason.code, CATALOGUE[reason.code].title, names(reason.detail))


def reasons(codes: Iterable[str]) -> tuple[data.ReasonData, ...]:
    """The catalogue entries of `codes`, each once, sorted."""
    entries = (CATALOGUE[code] for code in sorted(set(codes)))
    return tuple(data.ReasonData(r.code, r.title, r.meaning, r.hint) for r in entries)


MOST_ENTRIES = 50
"""Entries of a dictionary that are written out: one of a program's globals has all that the program has."""
DEEPEST = 8
"""Containers in one another that are written out: one may be in itself."""
ARTIFACTS = ("explorer.compiler.", "explorer.core.", "explorer.ir.")
"""Modules of what is written by its class: a record among a program's globals is no part of its bytecode."""


def shown(value: object, depth: int = DEEPEST) -> str:
    """A field of an artifact or event as text: the same for the same program, whose code is not run for it."""
    if isinstance(value, Span):
        return value.id
    kind: Any = type(value)
    mapping = kind in (dict, MappingProxyType)
    if mapping and (not depth or len(value) > MOST_ENTRIES):  # type: ignore[arg-type]
        return f"{kind.__name__} of {count(len(value), 'entry', 'entries')}"  # type: ignore[arg-type]
    if not depth and isinstance(value, (tuple, list, set, frozenset)):
        return str(kind.__name__)
    inner = partial(shown, depth=depth - 1)
    if isinstance(value, (tuple, list)):
        return ", ".join(filter(None, map(inner, value)))
    if mapping:
        return ", ".join(f"{inner(key)}: {inner(item)}" for key, item in value.items())  # type: ignore[attr-defined]
    if kind in (set, frozenset):
        return ", ".join(sorted(map(inner, value)))  # type: ignore[call-overload]
    writes = kind.__repr__ if kind.__str__ is object.__str__ else kind.__str__
    file = writes.__code__.co_filename if isinstance(writes, FunctionType) else ""
    own = bool(file) and not (file.startswith(STANDARD) or folder_of_packages(file))
    own |= kind.__module__.startswith("explorer.")
    if writes is object.__repr__ or own and not kind.__module__.startswith(ARTIFACTS):
        return str(kind.__name__)  # an address says nothing
    return str(value)


def error(raised: BaseException | None) -> str:
    return "" if raised is None else f"{type(raised).__name__}: {raised}"


def tensor_bytes(value: object) -> int:
    """Bytes of a fake tensor (or of a tuple of them) by its size hints; 0 where a size has none, since only a run tells
    it."""
    if isinstance(value, (tuple, list)):
        return sum(map(tensor_bytes, value))
    if not isinstance(value, torch.Tensor):
        return 0
    if is_traceable_wrapper_subclass(value):  # one of its sizes may be no number
        return sum(tensor_bytes(getattr(value, name)) for name in value.__tensor_flatten__()[0])
    elements = 1
    for size in value.shape:
        elements *= (size.node.hint or 0) if isinstance(size, torch.SymInt) else size
    return elements * value.element_size()


def graph(artifact: Graph) -> data.GraphData:
    ids: dict[fx.Node, str] = {}
    nodes = []
    for node in artifact.graph.nodes:
        if node.op == "output":
            continue
        facts = info(node)
        ids[node] = facts.id
        nodes.append(
            data.NodeData(
                facts.id, node.name, node.op, target_name(node), facts.type or describe(facts.value),
                tuple(ids[n] for n in node.all_input_nodes), facts.origins, facts.module, facts.description,
                tensor_bytes(facts.value), span(facts.span),
            )
        )  # fmt: skip
    outputs = tuple(ids[value] if isinstance(value, fx.Node) else str(value) for value in artifact.outputs)
    return data.GraphData(artifact.name, tuple(nodes), outputs)


# Which functions of the program the time of capture went to.


def function_costs(
    activations: Sequence[data.ActivationData], steps: Sequence[data.StepData], times: Sequence[float], end: float
) -> tuple[data.FunctionCostData, ...]:
    """`times` are when each step began, in seconds, and `end` when the last one ended. Dearest first, callees
    included."""
    own = [0.0] * len(activations)
    for step, (begun, ended) in zip(steps, pairwise((*times, end)), strict=True):
        own[step.activation] += max(0.0, ended - begun)
    whole = list(own)
    for number in range(len(activations) - 1, -1, -1):  # a callee comes behind its caller
        if (caller := activations[number].caller) >= 0:
            whole[caller] += whole[number]
    found: dict[str, list[float]] = {}
    for number, each in enumerate(activations):
        row = found.setdefault(each.function, [0, 0.0, 0.0])
        row[0] += 1
        row[1] += own[number]
        if not _is_inside_itself(activations, number):
            row[2] += whole[number]
    rows = (data.FunctionCostData(name, int(calls), alone, all) for name, (calls, alone, all) in found.items())
    return tuple(sorted(rows, key=lambda row: -row.whole))


def _is_inside_itself(activations: Sequence[data.ActivationData], number: int) -> bool:
    """Whether a call of the same function is among the callers, which counts this one too."""
    caller = activations[number].caller
    while caller >= 0:
        if activations[caller].function == activations[number].function:
            return True
        caller = activations[caller].caller
    return False
