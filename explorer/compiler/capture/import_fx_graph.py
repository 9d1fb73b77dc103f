"""A graph that another frontend captured (stock Dynamo, torch.export, fx.symbolic_trace), as a Graph of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from explorer.compiler.capture import reasons
from explorer.compiler.capture.fakes import LaidOut
from explorer.core.origin import origin, synthetic
from explorer.core.reasons import Unsupported, Why
from explorer.ir.bytecode import Span
from explorer.ir.graph import Graph, as_given, stamp

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def import_fx_graph(module: fx.GraphModule, example_inputs: Sequence[object]) -> Graph:
    """`module` with a NodeInfo on each node; values are computed under fake tensors where its nodes carry none.

    Raises Unsupported for a graph that calls modules (trace it with parameters as inputs instead).
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    returned = graph.graph_copy(module.graph, copies)
    graph.output(returned if isinstance(returned, (tuple, list)) else (returned,))
    fake_mode = _fake_mode(module, example_inputs)
    constants: dict[str, Any] = {}
    values: dict[fx.Node, Any] = {}
    given: dict[int, torch.Tensor] = {}
    examples = dict(zip(module.graph.find_nodes(op="placeholder"), example_inputs, strict=True))
    remaining = iter(example_inputs)
    for old, new in copies.items():
        new.meta = dict(old.meta)
        with origin(*_causes(old)):
            values[new] = value = _value(new, values, remaining, module, constants, fake_mode)
            if new.op == "placeholder" and isinstance(value, torch.Tensor):
                value = given.setdefault(id(value), as_given(value, examples.get(old)))
            stamp(new, f"fx.{new.name}", value, span=_span(old), module=_module(old))
    return Graph("captured", graph, fake_mode, constants, torch.is_grad_enabled())


def _fake_mode(module: fx.GraphModule, example_inputs: Sequence[object]) -> FakeTensorMode:
    carried = [node.meta.get("example_value") for node in module.graph.nodes]
    for value in [*carried, *example_inputs]:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return LaidOut(shape_env=ShapeEnv())


def _value(
    node: fx.Node,
    values: dict[fx.Node, Any],
    remaining: Any,
    module: fx.GraphModule,
    constants: dict[str, Any],
    fake_mode: FakeTensorMode,
) -> Any:
    given = next(remaining) if node.op == "placeholder" else None
    if node.op == "get_attr":
        assert isinstance(node.target, str)
        found: Any = module
        for part in node.target.split("."):
            found = getattr(found, part)
        constants[node.target] = found
        given = found
    if "example_value" in node.meta:
        return node.meta["example_value"]
    if node.op in ("placeholder", "get_attr"):
        return fake_mode.from_tensor(given) if isinstance(given, torch.Tensor) else given
    if node.op == "call_module":
        raise Unsupported(Why(reasons.MODULE_CALL, str(node.target)))
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda argument: values[argument])
    with fake_mode:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        assert callable(node.target)
        return node.target(*args, **kwargs)


def _span(node: fx.Node) -> Span | None:
    """The innermost line of the user's stack that the frontend kept."""
    places = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not places:
        return None
    file, line = places[-1]
    return Span(file, int(line), int(line))


def _causes(node: fx.Node) -> tuple[str, ...]:
    if (span := _span(node)) is not None:
        return (span.id,)
    return (synthetic("input of the captured graph" if node.op == "placeholder" else "made by another frontend"),)


def _module(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    return re.sub(r"^L\['self'\]\.?|\(\)$|_modules\['([^']+)'\]", r"\1", str(path))
