"""FX graphs of stock as record data: what each node is, and which node one level up it comes from.

Torch tells most of it: `from_node` names the captured node that a traced one was made for, the autograd sequence number
that of a backward's, `desc` the input of a placeholder. What remains is worked out, and the record says how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from explorer.ir import record as data
from explorer.ir.bytecode import Span
from explorer.ir.graph import INFO, Graph, NodeInfo, describe, target_name
from explorer.records import to_record
from explorer.records.stock.observation import Compile, ObservedGraph

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')
DESCRIBED = "desc"
"""torch's own key for what an input or the outputs of a traced graph are."""
GRADIENT = "synthetic:gradient of an output"
ATEN = "aten"
"""What the ids begin with of nodes of the graph that AOTAutograd traced."""
FROM_ORDER = "the position among the graph's inputs"
FROM_LINE = "the same source line"
FROM_OPERANDS = "the nodes that it reads"


TYPE, ID = "explorer: type", "explorer: id"
"""The type of a node's value as it was read when the graph was copied, and the node's id."""


@dataclass(frozen=True)
class SavedGraph:
    """A graph as it was, to be put into words once: stock goes on to change its own in place. `inner` are those that
    its `constants`, which `get_attr` nodes name, hold."""

    graph: fx.Graph
    constants: Mapping[str, Any]
    inner: Mapping[str, SavedGraph]
    grad_enabled: bool


def saved_graph(graph: fx.Graph, ids: Mapping[str, str] | None = None) -> SavedGraph:
    """`graph` as it is now. What stands for a size may be replaced by a number later, so that types with symbols are
    read now."""
    copy = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    returned = copy.graph_copy(graph, known)
    for old, new in known.items():
        new.meta = dict(old.meta)
        value = value_of(old)
        if is_symbolic(value):
            new.meta[TYPE] = describe(value)
        if ids is not None:
            new.meta[ID] = ids[old.name]
    copy.output(tuple(tree_leaves(returned))).meta = dict(graph.output_node().meta)
    module: Any = graph.owning_module
    named = dict.fromkeys(str(node.target) for node in graph.nodes if node.op == "get_attr")
    constants = {} if module is None else {name: attrgetter(name)(module) for name in named}
    inner = {name: saved_graph(each.graph) for name, each in constants.items() if isinstance(each, fx.GraphModule)}
    return SavedGraph(copy, constants, inner, torch.is_grad_enabled())


def is_symbolic(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return any(type(size) is not int for size in (*value.shape, *strides_of(value)))
    return isinstance(value, torch.SymInt) or (isinstance(value, (tuple, list)) and any(map(is_symbolic, value)))


def strides_of(value: torch.Tensor) -> tuple[int, ...]:
    return value.stride() if value.layout is torch.strided else ()


def shown(
    graph: SavedGraph, name: str, facts: Callable[[fx.Node], NodeInfo], fake_mode: FakeTensorMode
) -> ObservedGraph:
    """The graph, whose nodes hold from now on what `facts` tells of each."""
    for node in graph.graph.nodes:
        kept = {DESCRIBED: node.meta.get(DESCRIBED)}
        if node.op != "output":
            found = facts(node)
            kept[INFO] = replace(found, type=node.meta.get(TYPE) or describe(found.value))
        node.meta = kept
    artifact = Graph(name, graph.graph, fake_mode, graph.constants, graph.grad_enabled)
    called = (node for node in graph.graph.nodes if node.op == "get_attr" and str(node.target) in graph.inner)
    inner = tuple(_inner(artifact, graph.inner[str(node.target)], node) for node in called)
    return ObservedGraph(to_record.graph(artifact), to_record.text(artifact.text()), artifact, inner)


def _inner(outer: Graph, graph: SavedGraph, called: fx.Node) -> tuple[str, ObservedGraph]:
    """A graph that a higher-order operator calls: its nodes' ids begin with that of the node which names it."""
    id = called.meta[INFO].id

    def facts(node: fx.Node) -> NodeInfo:
        span = span_of(node)
        return NodeInfo(
            f"{id}.{node.name}", value_of(node), (id,) if span is None else (span.id,), span, module_of(node)
        )

    return str(called.target), shown(graph, f"{outer.name}.{called.target}", facts, outer.fake_mode)


def captured(compile: Compile, graph: SavedGraph, name: str) -> ObservedGraph:
    """Dynamo's graph, before or after passes over it: nodes are "fx.NAME", made by instructions."""

    # By name, and not before: Dynamo renames a node after the local that it is stored to, and backends get copies.
    made_by = {node.name: instruction for node, instruction in compile.made_by.items()}
    compile.made = {f"fx.{node.name}": step for node, step in compile.made_at.items()}

    def facts(node: fx.Node) -> NodeInfo:
        made = made_by.get(node.name)
        span = span_of(node) or span_of_instruction(compile, made)
        id = f"fx.{node.name}"
        if made:
            return NodeInfo(id, value_of(node), (made,), span, module_of(node), about(node))
        known = compile.fx.get(node.name)
        if known is not None:
            origins = known.origins
        elif span is not None:
            origins = (span.id,)
        else:
            origins = tuple(f"fx.{each.name}" for each in node.all_input_nodes)
            compile.infer(FROM_OPERANDS, id)
        return NodeInfo(id, value_of(node), origins, span, module_of(node), about(node))

    made = shown(graph, name, facts, compile.fake_mode)
    compile.fx.update((node.name, node) for node in made.graph.nodes)
    return made


class TracedSources:
    """What nodes of the traced graphs of one compile come from, in the captured graph."""

    def __init__(self, compile: Compile) -> None:
        self.compile = compile
        self.placeholders = [node for node in compile.fx.values() if node.op == "placeholder"]
        self.by_sequence: dict[int, str] = {}
        self.by_line: dict[str, list[str]] = {}
        for node in compile.fx.values():
            if node.span is not None and node.op != "placeholder":
                self.by_line.setdefault(f"{node.span.file}:{node.span.line}", []).append(node.id)

    def read(self, graph: fx.Graph) -> None:
        """Learn which captured node each autograd sequence number belongs to, from the forward's nodes."""
        for node in graph.nodes:
            number = node.meta.get("seq_nr")
            source = self._made_for(node)
            if number is not None and source and not _is_backward(node):
                self.by_sequence[number] = source

    def _made_for(self, node: fx.Node) -> str:
        """The captured node that torch says a traced one was made for."""
        sources = list(node.meta.get("from_node") or ())
        while sources:
            source = sources.pop(0)
            if source.name in self.compile.fx:
                return f"fx.{source.name}"
            sources += source.from_node
        return ""

    def origins(self, node: fx.Node) -> tuple[tuple[str, ...], str]:
        """The captured nodes that a traced one comes from, and how that was worked out ("" where torch records it)."""
        if reason := self._made_for(node):
            return (reason,), ""
        if node.op == "placeholder":
            return self._input(node)
        number = node.meta.get("seq_nr")
        if number in self.by_sequence:
            return (self.by_sequence[number],), ""
        span = span_of(node)
        if span is not None:
            on_line = self.by_line.get(f"{span.file}:{span.line}", ())
            if on_line:
                return tuple(on_line), FROM_LINE if len(on_line) > 1 else ""
            return (f"{span.file}:{span.line}",), ""
        return (), FROM_OPERANDS

    def _input(self, node: fx.Node) -> tuple[tuple[str, ...], str]:
        described: Any = node.meta.get("desc")
        index = getattr(described, "idx", None)
        if index is not None and type(described).__name__ == "PlainAOTInput" and index < len(self.placeholders):
            return (self.placeholders[index].id,), ""
        if described is not None and hasattr(described, "is_tangent") and described.is_tangent():
            return (GRADIENT,), ""
        match = re.fullmatch(r"(?:primals|arg\d+)_(\d+)", node.name)
        if match and described is None and int(match[1]) <= len(self.placeholders):
            return (self.placeholders[int(match[1]) - 1].id,), FROM_ORDER
        return (f"synthetic:input {described.expr() if hasattr(described, 'expr') else node.name}",), ""


def sources_of(compile: Compile) -> TracedSources:
    if compile.sources is None:
        compile.sources = TracedSources(compile)
    found: TracedSources = compile.sources
    return found


def saved_traced(compile: Compile, graph: fx.Graph, half: str = "") -> SavedGraph:
    """A graph of ATen operators as it is now: nodes are "aten.NAME", and those that a pass over one half made
    "HALF.NAME"."""
    ids = {}
    for node in graph.nodes:
        if node.op == "output":
            break
        called = target_name(node)
        if not half:
            compile.targets[node.name] = called
        same = node.name in compile.targets and (compile.targets[node.name] == called or node.op == "placeholder")
        ids[node.name] = f"{ATEN if same else half}.{node.name}"
    return saved_graph(graph, ids)


def traced(compile: Compile, graph: SavedGraph, name: str, half: str = "") -> ObservedGraph:
    """What `held_traced` kept."""
    sources = sources_of(compile)

    def facts(node: fx.Node) -> NodeInfo:
        id: str = node.meta[ID]
        known = compile.aten.get(node.name) if id.startswith(f"{ATEN}.") else None
        if known is not None:
            return NodeInfo(id, value_of(node), known.origins, _span(known), known.module, about(node))
        origins, how = sources.origins(node)
        if not origins:
            origins = tuple(each.meta[INFO].id for each in node.all_input_nodes) or ("synthetic:made by a graph pass",)
        if how:
            compile.infer(how, id)
        return NodeInfo(id, value_of(node), origins, span_of(node), module_of(node), about(node))

    made = shown(graph, name, facts, compile.fake_mode)
    if not half:
        compile.aten.update((node.name, node) for node in made.graph.nodes)
    return made


def signature(graph: fx.Graph) -> int:
    """Equal for two moments at which a graph reads the same."""
    return hash(tuple(node.format_node() for node in graph.nodes))


def value_of(node: fx.Node) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))


def span_of(node: fx.Node) -> Span | None:
    """The innermost line of the user's stack at which a node was made."""
    places = _FRAME.findall(node.meta.get("stack_trace") or "")
    return Span(places[-1][0], int(places[-1][1]), int(places[-1][1])) if places else None


def module_of(node: fx.Node) -> str:
    """The path of the module whose forward made a node ("transformer.h.0.mlp")."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    path = re.sub(r"^L\['(?!self')(\w+)'\]", r"\1", path)  # a program may call it otherwise
    return re.sub(r"^L\['self'\]\.?|\._modules\['([^']*)'\]", lambda m: f".{m[1]}" if m[1] else "", path).strip(".")


def about(node: fx.Node) -> str:
    if _is_backward(node):
        return "backward"
    described = node.meta.get("desc")
    if node.op == "placeholder" and described is not None and hasattr(described, "expr"):
        return str(described.expr())
    return ""


def _is_backward(node: fx.Node) -> bool:
    return bool(node.meta.get("partitioner_tag") == "is_backward" or node.meta.get("fwd_source_fn_stack"))


def _span(known: data.NodeData) -> Span | None:
    at = known.span
    return None if at is None else Span(at.file, at.line, at.end_line, at.column, at.end_column)


def span_of_instruction(compile: Compile, id: str | None) -> Span | None:
    """Where the instruction "s0.name@14" of a compile stands in the source."""
    prefix, _, offset = (id or "").rpartition("@")
    code = next((code for code, (known, _) in compile.registered.items() if known == prefix), None)
    if code is None or not offset.isdigit():
        return None
    line, end, column, end_column = next(islice(code.co_positions(), int(offset) // 2, None), (None,) * 4)
    if line is None:
        return None
    return Span(
        code.co_filename, line, end or line,
        -1 if column is None else column, -1 if end_column is None else end_column,
    )  # fmt: skip
