"""Second derivatives: where a caller asks for a graph of the backward, the captured graph runs again under autograd.

The compiled backward is a program, not something that autograd can differentiate; eager's own operators are.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from explorer.compiler.autograd.rewriting import is_random
from explorer.ir.graph import info
from explorer.ir.joint import Base, GraphOutput, Kept, NewValue, Partitioned, Primal, Result
from explorer.ir.settings import in_force, restored

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


class Again:
    """What a call has to remember so that its graph can run again, and the second run.

    `saved` are the inputs that the backward half saves anyway. Of the others, `read` are those whose values the
    gradients depend on, and `before` those of them that the call writes, which are cloned before. Of the rest any
    values will do, so that they need not be kept alive.
    """

    def __init__(self, parts: Partitioned, saved: Sequence[int]) -> None:
        self._captured = parts.captured
        self._signature = parts.signature
        self._saved = saved
        inputs = parts.captured.inputs
        tensors = {i for i, node in enumerate(inputs) if isinstance(info(node).value, Tensor)}
        self._written = parts.signature.written
        needed = read_by_gradients(parts) & tensors
        self.before = sorted(needed & self._written)
        self.read = sorted(needed - self._written - set(saved))
        facts = {i for i in tensors - set(self.read) if i in self._written or not is_leaf(inputs[i])}
        self._remembering = [nothing if i in saved else Facts if i in facts else itself for i in range(len(inputs))]
        self._settings = in_force()
        traced = (*parts.forward.graph.nodes, *parts.backward.graph.nodes)
        self._random = any(node.op == "call_function" and is_random(node) for node in traced)
        self._module = functools.cache(parts.captured.module)

    def remember(self, inputs: Sequence[Any], before: Sequence[Tensor], packed: bool) -> Any:
        """What the second run needs of a call, taken before the first. `packed`: what is `read` is saved by autograd,
        for whose hooks it is."""
        held = [remember(x) for remember, x in zip(self._remembering, inputs, strict=True)]
        for i, clone in zip(self.before, before, strict=True):
            held[i] = clone
        if packed:
            for i in self.read:
                held[i] = None
        return held, [version(inputs[i]) for i in self.read], self._generators()

    def _generators(self) -> Any:
        """The states of the random generators, where the call draws from them."""
        if not self._random:
            return None
        device = self._captured.device
        return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def gradients(
        self, remembered: Any, saved: Sequence[Tensor], wanted: Sequence[int], outputs: Mapping[int, Tensor]
    ) -> dict[int, Tensor | None]:
        """The gradients of the inputs `wanted`, as differentiable functions of the inputs and of the tangents, which
        `outputs` gives by forward output. `saved` is what autograd saved, in the order of `saved` and `read`."""
        held, versions, state = remembered
        held = list(held)
        for i, value in zip((*self._saved, *self.read), saved, strict=False):
            held[i] = value
        if any(version(held[i]) != expected for i, expected in zip(self.read, versions, strict=True)):
            raise RuntimeError(MODIFIED)
        inputs = [self._given(i, value) for i, value in enumerate(held)]
        for again, first in self._signature.repeats.items():
            inputs[again] = inputs[first]
        edges = [torch.autograd.graph.get_gradient_edge(inputs[i]) for i in wanted]
        with restored(self._settings), drawing_from(state), torch.set_grad_enabled(self._captured.grad_enabled):
            results = self._module()(*inputs)
        flowing = [(self._output(self._signature.outputs[k], inputs, results), g) for k, g in outputs.items()]
        heads, tangents = zip(*flowing, strict=True)
        found = torch.autograd.grad(heads, edges, tangents, create_graph=True, allow_unused=True)
        return dict(zip(wanted, found, strict=True))

    def _given(self, index: int, value: Any) -> Any:
        """An input of the second run: another tensor than the caller's, so that its hooks do not run here."""
        if isinstance(value, Facts):
            value = value.zeros()
        if not isinstance(value, Tensor):
            return value
        if index in self._written:
            return value.clone()
        return value.view_as(value) if value.requires_grad else value

    def _output(self, what: GraphOutput, inputs: Sequence[Any], results: Sequence[Any]) -> Tensor:
        """The tensor of the second run that a forward output stands for."""
        match what:
            case Result(index):
                found = results[index]
            case NewValue(index):
                found = inputs[index]
            case Base(members):
                view = next(results[i] for i in members if results[i].requires_grad)
                found = view._base if view._is_view() else view
            case _:
                raise TypeError(f"{what} has no tangent")
        assert isinstance(found, Tensor)
        return found


class Facts:
    """A tensor whose values do not matter: what `zeros` needs to make another one."""

    def __init__(self, value: Tensor) -> None:
        self._shape, self._stride, self._requires_grad = value.shape, value.stride(), value.requires_grad
        self._dtype, self._device = value.dtype, value.device

    def zeros(self) -> Tensor:
        made = torch.empty_strided(self._shape, self._stride, dtype=self._dtype, device=self._device).zero_()
        return made.requires_grad_(self._requires_grad)


def itself(value: Any) -> Any:
    return value


def nothing(value: Any) -> None:
    return None


def read_by_gradients(parts: Partitioned) -> set[int]:
    """The inputs of the captured graph that what the backward half reads is computed from."""
    forward = parts.forward.graph
    placeholders = parts.forward.inputs
    kept = {source.id for source in parts.backward_inputs if isinstance(source, Kept)}
    pending = [node for node in forward.nodes if node.op != "output" and info(node).id in kept]
    pending += [placeholders[source.index] for source in parts.backward_inputs if isinstance(source, Primal)]
    found: set[fx.Node] = set(pending)
    while pending:
        for source in pending.pop().all_input_nodes:
            if source not in found:
                found.add(source)
                pending.append(source)
    return {i for i, node in enumerate(placeholders) if node in found}


def is_leaf(node: fx.Node) -> bool:
    value = info(node).value
    return isinstance(value, Tensor) and value.requires_grad and value.is_leaf


def version(value: Tensor) -> int:
    return 0 if value.is_inference() else value._version


@contextlib.contextmanager
def drawing_from(state: Any) -> Iterator[None]:
    """The random generators set to `state` inside a block, as they were after it."""
    if state is None:
        yield
        return
    cpu, cuda = state
    with torch.random.fork_rng([torch.cuda.current_device()] if cuda is not None else []):
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)
        yield
