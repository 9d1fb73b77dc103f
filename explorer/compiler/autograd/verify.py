"""What must hold of traced graphs and of halves; a violation is a bug in this package."""

from __future__ import annotations

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from explorer.ir.graph import INFO, Graph, info
from explorer.ir.joint import Compiled, GradientOf, Partitioned, Traced

aten = torch.ops.aten


def verify_functional(graph: Graph) -> None:
    """Raise AssertionError unless the graph is functional ATen, stamped, with unique ids and named constants.

    The only writes are `aten.copy_` into placeholders, after everything else.
    """
    ids: set[str] = set()
    wrote = False
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        assert INFO in node.meta, f"{node} has no NodeInfo"
        facts = info(node)
        assert facts.id not in ids, f"two nodes are called {facts.id}"
        ids.add(facts.id)
        assert facts.origins, f"{facts.id} has no origin"
        if node.op == "get_attr":
            assert str(node.target) in graph.constants, f"constant {node.target} is missing"
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            if node.target is aten.copy_.default:
                target = node.args[0]
                assert isinstance(target, fx.Node) and target.op == "placeholder", f"{facts.id} writes no input"
                wrote = True
                continue
            assert not node.target._schema.is_mutable, f"{facts.id} writes in place"
            assert not wrote, f"{facts.id} comes after a write"
        for argument in (*node.args, *node.kwargs.values()):
            assert not isinstance(argument, Tensor), f"{facts.id} holds a tensor"
    graph.graph.lint()


def verify_traced(traced: Traced) -> None:
    """Raise AssertionError unless the graph is functional and agrees with its signature."""
    verify_functional(traced.forward)
    signature = traced.signature
    assert len(traced.forward.inputs) == len(signature.inputs)
    assert len(traced.forward.outputs) == len(signature.outputs)
    assert len(signature.differentiable) == len(signature.forward_outputs)
    assert len(signature.returned) == len(traced.captured.outputs)
    assert traced.is_inference == (not any(isinstance(output, GradientOf) for output in signature.outputs))
    assert traced.is_inference == (not any(signature.differentiable))


def verify_partitioned(parts: Partitioned) -> None:
    """Raise AssertionError unless both halves are functional and agree with the signature and with one another."""
    verify_functional(parts.forward)
    verify_functional(parts.backward)
    signature = parts.signature
    gradients = len(signature.outputs) - len(signature.forward_outputs)
    assert len(parts.forward.outputs) == len({*range(len(signature.forward_outputs)), *parts.kept_at.values()})
    assert len(parts.backward.inputs) == len(parts.backward_inputs)
    assert len(parts.backward.outputs) == gradients
    assert len(parts.forward.inputs) == len(parts.captured.inputs)


def verify_compiled(compiled: Compiled) -> None:
    """Raise AssertionError unless it can be called, and has a half for each graph of its plan, with its inputs and
    outputs: none where eager or foreign kernels run."""
    assert callable(compiled.call), f"{compiled.name} cannot be called"
    assert not (compiled.plan and compiled.fallback), f"{compiled.name}: which runs?"
    for graph, half in zip(graphs(compiled.plan), compiled.halves, strict=True):
        made = half.generated
        assert made.name == graph.name, f"{compiled.name}: {made.name} in place of {graph.name}"
        counts = len(graph.inputs), len(graph.outputs)
        assert (made.inputs, made.outputs) == counts, f"{made.name} does not take and give what {graph.name} does"


def graphs(plan: Traced | Partitioned | None) -> tuple[Graph, ...]:
    """What the halves compute."""
    if isinstance(plan, Partitioned):
        return plan.forward, plan.backward
    return () if plan is None else (plan.forward,)
