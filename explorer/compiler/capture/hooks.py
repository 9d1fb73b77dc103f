"""Hooks of tensors that traced code registers. Stock counterpart: call_method of variables/tensor.py.

One of an input is registered for real after the graph: gradients reach it when the graph's backward has run. A write
gives the input another place in autograd's graph, so a graph ends between the two. One of a tensor that the graph makes
is a graph of its own, which the backward contains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.higher_order import body, modules
from explorer.compiler.capture.saved_inputs import version
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import ObjectValue
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import unsupported


class HandleValue(ObjectValue):
    """What registering a hook of an input returns; making it registers the hook."""

    def __init__(self, tensor: TensorValue, name: str, hook: Value) -> None:
        super().__init__(torch.utils.hooks.RemovableHandle)
        self.tensor = tensor
        self.name = name
        self.hook = hook

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "remove":
            return t.host(lambda args, kwargs: self._remove(t))
        unsupported(reasons.AUTOGRAD_CALL, f"{name} of the handle of a hook")

    def _remove(self, t: Tracer) -> Value:
        if not t.effects.unmake(self):
            unsupported(reasons.AUTOGRAD_CALL, "removing a hook")
        return Constant(None)

    def reconstruct(self, r: Reconstructor) -> None:
        r.value(self.tensor)
        r.emit("LOAD_ATTR", self.name)
        r.value(self.hook)
        r.call_pushed(1)


def register_hook(t: Tracer, tensor: TensorValue, name: str, hook: Value) -> Value:
    if not tensor.fake.requires_grad:
        t.raise_(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if tensor.source is not None:
        if not t.tape.is_as_given(tensor.fake):
            unsupported(reasons.AUTOGRAD_CALL, f"{tensor.describe()}.{name}() after it was written")
        t.tape.hooked[tensor.fake] = version(tensor.fake)
        made = HandleValue(tensor, name, hook)
        t.effects.make(made, f"{tensor.source.name}.{name}")
        return made
    if name != "register_hook" or t.tape.branches:
        unsupported(reasons.AUTOGRAD_CALL, f"{tensor.describe()}.{name}()")
    replaces: list[bool] = []

    def answer(given: list[Value], named: dict[str, Value]) -> Value:
        found = t.call(hook, given, {})
        replaces.append(isinstance(found, TensorValue))
        return TupleValue([found] if isinstance(found, TensorValue) else [])

    with torch.no_grad():
        one = body(t, t.host(answer), [tensor.fake.detach()], list, aliases=True)
    if replaces[0]:
        lifted, (node,) = modules(t, [one])
        function = _attaching(t.tape.modules.pop(str(node.target)))
        node.graph.erase_node(node)
        nodes: tuple[fx.Node, ...] = (tensor.node, *lifted)
        t.tape.call("call_function", function, nodes, {}, tuple(map(t.tape.value, nodes)), {})
        t.tape.add("call_function", function, nodes, {}, None)
    return InnerHandle(torch.utils.hooks.RemovableHandle)


class InnerHandle(ObjectValue):
    """What registering a hook of a tensor of the graph returns."""

    def get_attr(self, t: Tracer, name: str) -> Value:
        unsupported(reasons.AUTOGRAD_CALL, f"{name} of the handle of a hook in the graph")

    def reconstruct(self, r: Reconstructor) -> None:
        unsupported(reasons.AUTOGRAD_CALL, "the handle of a hook in the graph")


def _attaching(module: Callable[..., Any]) -> Callable[..., None]:
    def register_hook(tensor: torch.Tensor, *operands: Any) -> None:
        tensor.register_hook(lambda grad: module(grad, *operands)[0])

    return register_hook
