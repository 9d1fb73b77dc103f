"""The chain of causes in a compile, from the source line (and its text) to the generated line."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from explorer.ir.record import CompileData, HalfData, LineData, NodeData, RecordData

Edges = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Provenance:
    """`up[id]` are the causes of an element, `down[id]` what it caused, both one level away."""

    up: Edges
    down: Edges

    def causes(self, *ids: str) -> frozenset[str]:
        """Everything that led to `ids`, themselves included."""
        return _closure(self.up, ids)

    def effects(self, *ids: str) -> frozenset[str]:
        """Everything that `ids` led to, themselves included."""
        return _closure(self.down, ids)

    def chain(self, id: str) -> frozenset[str]:
        """What a view highlights for one element: its causes and its effects."""
        return self.causes(id) | self.effects(id)

    def source_lines(self, id: str) -> frozenset[str]:
        """The source lines ("FILE:LINE") at the top of an element's chain."""
        return frozenset(c for c in self.causes(id) if not self.up.get(c) and is_source_line(c))


def is_source_line(id: str) -> bool:
    """Whether an id is a place in a file: "FILE:LINE" with a line number, and a file name with a path or a suffix."""
    file, colon, line = id.rpartition(":")
    return bool(colon) and line.isdigit() and ("/" in file or "\\" in file or "." in file or file.startswith("<"))


def provenance(compile: CompileData) -> Provenance:
    """The edges of one compile, from every element of it that has an id."""
    up: dict[str, dict[str, None]] = defaultdict(dict)
    for id, causes in _elements(compile):
        up[id].update(dict.fromkeys(cause for cause in causes if cause != id))
    down: dict[str, dict[str, None]] = defaultdict(dict)
    for id, found in up.items():
        for cause in found:
            down[cause][id] = None
    return Provenance({k: tuple(v) for k, v in up.items()}, {k: tuple(v) for k, v in down.items()})


def lines(compile: CompileData) -> Iterator[LineData]:
    """Every printed line of a compile."""
    for stage in compile.stages:
        if stage.body is not None:
            yield from stage.body.lines
    for half in compile.halves:
        for kernel in half.kernels:
            yield from kernel.source.lines
            for lowered in kernel.lowered.values():
                yield from lowered.lines
        if half.wrapper is not None:
            yield from half.wrapper.lines


def _elements(compile: CompileData) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in lines(compile):
        if line.id:
            yield line.id, line.origins
    for code in compile.codes:
        for instruction in code.instructions:
            source = (f"{instruction.span.file}:{instruction.span.line}",) if instruction.span else ()
            yield instruction.id, instruction.origins + source
    for stage in compile.stages:
        for graph in (stage.graph, *stage.halves):
            for node in graph.nodes if graph else ():
                yield node.id, node.origins
    for grad_node in compile.eager_backward:
        yield grad_node.id, grad_node.origins
    for half in compile.halves:
        for buffer in half.buffers:
            yield buffer.name, buffer.origins
        for operation in half.operations:
            yield operation.id, operation.origins
        for kernel in half.kernels:
            yield kernel.id, kernel.origins


def _closure(edges: Edges, ids: tuple[str, ...]) -> frozenset[str]:
    seen = set(ids)
    stack = list(ids)
    while stack:
        for next in edges.get(stack.pop(), ()):
            if next not in seen:
                seen.add(next)
                stack.append(next)
    return frozenset(seen)


def used_lines(compile: CompileData) -> dict[str, set[int]]:
    """The source lines that a compile names, by file: those of its graphs' nodes, and of the bytecode evaluated."""
    used: dict[str, set[int]] = {}
    spans = [node.span for stage in compile.stages if stage.graph for node in stage.graph.nodes]
    spans += [i.span for each in compile.codes for i in each.instructions]
    for span in spans:
        if span is not None:
            used.setdefault(span.file, set()).update((span.line, span.end_line))
    for each in compile.codes:
        used.setdefault(each.file, set()).add(each.line)
    return used


_ID = re.compile(r"\b\w+(?:\.\w+)+")
_KINDS = {"placeholder": "input", "get_attr": "attribute"}


def _nodes(compile: CompileData) -> dict[str, NodeData]:
    """The nodes of all graphs of a compile, by id."""
    graphs = (graph for stage in compile.stages for graph in (stage.graph, *stage.halves) if graph is not None)
    return {node.id: node for graph in graphs for node in graph.nodes}


def operation_names(compile: CompileData, half: HalfData) -> Callable[[str], str]:
    """A text with the loops, library calls and buffers of a half as a person calls them, by what they compute and where
    the program asks for it: "sum (line 4)" for "buf1", and "sum (line 4, buf1)" where another reads so too."""
    known = _nodes(compile)
    own = compile.codes[0].file if compile.codes else ""
    buffers = {each.name: each.origins for each in half.buffers}
    origins = buffers | {each.id: each.origins for each in half.operations}
    nodes = {id: next((known[node] for node in of if node in known), None) for id, of in origins.items()}
    found = {id: _called(node, own) for id, node in nodes.items() if node is not None}
    times = Counter(found[each.id] for each in half.operations if each.id in found)
    names = {id: f"{operation[:-1]}, {id})" if times[operation] > 1 else operation for id, operation in found.items()}
    return functools.partial(re.compile(r"\w+").sub, lambda match: names.get(match[0], match[0]))


def _called(node: NodeData, own: str) -> str:
    at = node.span
    place = "no source line" if at is None else f"line {at.line}" if at.file == own else at.place().rpartition("/")[2]
    return f"{operator_name(node.id)} ({place})"


def operator_name(node: str) -> str:
    """What a node computes, by its id: "mul" for "aten.mul_1"."""
    return re.sub(r"^\w+\.|_\d+$", "", node)


def node_names(compile: CompileData) -> Callable[[str], str]:
    """A text with its graph nodes as FX prints them: "mul_1 (aten.mul.Tensor)" for the id "aten.mul_1"."""
    known = _nodes(compile)

    def named(match: re.Match[str]) -> str:
        node = known.get(match[0])
        return match[0] if node is None else f"{node.name} ({_KINDS.get(node.op, node.target)})"

    return functools.partial(_ID.sub, named)


def file_names(record: RecordData) -> dict[str, str]:
    """What a person calls a file whose path says little, by path: "In[3]" for a notebook's cell."""
    return {source.file: source.name for source in record.sources if source.name}


def stretches(numbers: Iterable[int], gap: int = 6) -> list[tuple[int, int]]:
    """Runs of line numbers, (first, last), joined where at most `gap` lines lie between."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number - found[-1][1] <= gap:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
