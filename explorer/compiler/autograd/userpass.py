"""A user's own FX pass over the captured graph, as a stage."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

from explorer.compiler.autograd import reasons
from explorer.compiler.config import GraphPass
from explorer.core.origin import Origins, origin, synthetic, union
from explorer.core.reasons import Unsupported, Why
from explorer.core.recorder import note
from explorer.core.stage import Stage
from explorer.ir.graph import INFO, Graph, NodeInfo, Rewritten, copied, info, restamp, stamp


def user_pass(function: GraphPass) -> Stage[Graph, Graph]:
    """A stage that runs `function` (GraphModule -> GraphModule, or None where it worked in place) on a copy.

    Nodes that the pass adds take the origins, span and module of the nodes they replace, and all values are computed
    afresh. Raises Unsupported where `function` raises, or its result cannot be captured code: submodule calls, or an
    error without data.
    """
    name = getattr(function, "__name__", type(function).__name__)

    def run(graph: Graph) -> Graph:
        module = graph.module()
        try:
            result = function(module)
        except Exception as error:
            raised = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{name} raised {type(error).__name__}: {error} ({raised.filename}:{raised.lineno})"
            raise Unsupported(Why(reasons.YOUR_PASS, message)) from error
        changed = module if result is None else result
        made = copied(changed.graph)
        constants = {str(n.target): attribute(changed, str(n.target)) for n in made.nodes if n.op == "get_attr"}
        stamp_added(graph.graph, made, f"pass {name}")
        finished = Graph(graph.name, made, graph.fake_mode, constants, graph.grad_enabled)
        propagate(finished, name)
        return finished

    return Stage(f"pass {name}", run, verify_captured)


def verify_captured(graph: Graph) -> None:
    """Raise AssertionError unless every node is stamped under an id of its own."""
    nodes = [node for node in graph.graph.nodes if node.op != "output"]
    assert all(INFO in node.meta for node in nodes), "a node has no NodeInfo"
    ids = [info(node).id for node in nodes]
    assert len(set(ids)) == len(ids), "two nodes share an id"
    graph.graph.lint()


def attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


def stamp_added(before: fx.Graph, after: fx.Graph, reason: str) -> None:
    """Give a NodeInfo to each node of `after` that was not in `before`.

    fx.Transformer drops what nodes carry; a node of the same name and target is then taken for the same.
    """
    old = {info(node).id: node for node in before.nodes if node.op != "output"}
    kept: dict[str, fx.Node] = {}
    added: list[fx.Node] = []
    by_name = {node.name: node for node in old.values()}
    for node in after.nodes:
        if node.op == "output":
            continue
        if INFO not in node.meta and node.name in by_name and same_call(node, by_name[node.name]):
            node.meta[INFO] = info(by_name[node.name])
        facts: NodeInfo | None = node.meta.get(INFO)
        if facts is not None and facts.id in old and facts.id not in kept and same_call(node, old[facts.id]):
            kept[facts.id] = node
        else:
            added.append(node)
    removed = [node for id, node in old.items() if id not in kept]
    replaced = replacements(before, after, old, kept, set(added))
    everything = union(*(info(node).origins for node in removed)) or (synthetic(reason),)
    for node in added:
        origins: Origins = union(*(info(gone).origins for gone in replaced.get(node, []))) or everything
        like = info(replaced[node][0]) if replaced.get(node) else None
        with origin(*origins):
            id = f"fx.{node.name}" if f"fx.{node.name}" not in old else f"fx.{node.name}_new"
            stamp(node, id, None, span=like.span if like else None, module=like.module if like else "", about=reason)
    for gone in removed:
        by = next((node for node in reversed(added) if gone in replaced.get(node, ())), None)
        note(Rewritten.of, reason, gone, by)


def same_call(node: fx.Node, old: fx.Node) -> bool:
    return node.op == old.op and node.target == old.target


def replacements(
    before: fx.Graph, after: fx.Graph, old: dict[str, fx.Node], kept: dict[str, fx.Node], added: set[fx.Node]
) -> dict[fx.Node, list[fx.Node]]:
    """For each added node the removed nodes it stands in for: those that a kept user read at the same place before.

    What an added node is computed from, where that is added too, stands in for the same nodes.
    """
    found: dict[fx.Node, list[fx.Node]] = {}
    users = [(old[id], node) for id, node in kept.items()] + [(before.output_node(), after.output_node())]
    for was, now in users:
        for gone, new in zip(arguments(was), arguments(now), strict=False):
            if new in added and isinstance(gone, fx.Node) and info(gone).id not in kept:
                found.setdefault(new, []).append(gone)
    for node in reversed(after.nodes):
        for source in node.all_input_nodes if node in found else ():
            if source in added:
                found.setdefault(source, []).extend(found[node])
    return found


def arguments(node: fx.Node) -> Iterator[Any]:
    """The leaves of a node's arguments, in order."""
    pending: list[Any] = [node.kwargs, node.args]
    while pending:
        value = pending.pop()
        if isinstance(value, (tuple, list)):
            pending += reversed(value)
        elif isinstance(value, dict):
            pending += reversed(value.values())
        else:
            yield value


def propagate(graph: Graph, name: str) -> None:
    """Compute every node's value again, on fresh copies of the inputs."""
    values: dict[fx.Node, Any] = {}
    with graph.fake_mode, torch.set_grad_enabled(graph.grad_enabled):
        for node in graph.graph.nodes:
            if node.op == "output":
                continue
            if node.op == "placeholder":
                values[node] = fresh(info(node).value)
                continue
            if node.op == "get_attr":
                constant = graph.constants[str(node.target)]
                values[node] = graph.fake_mode.from_tensor(constant) if isinstance(constant, Tensor) else constant
            else:
                values[node] = call(node, values, name)
            restamp(node, value=values[node])


def call(node: fx.Node, values: dict[fx.Node, Any], name: str) -> Any:
    if node.op == "call_module":
        raise Unsupported(Why(reasons.USER_PASS, f"{name} calls the module {node.target}"))
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    try:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception as error:
        raise Unsupported(Why(reasons.USER_PASS, f"{name}: {node.name}: {type(error).__name__}: {error}")) from error


def fresh(value: object) -> Any:
    """A copy of an input to run on, so that in-place operations leave the recorded one as it is."""
    if not isinstance(value, Tensor):
        return value
    made = value.detach()
    if value.requires_grad:
        made.requires_grad_()
    return made if value.is_leaf else made.clone()
