"""Modes of torch that a trace enters and has to leave as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import fx

from explorer.ir.graph import Graph


@contextlib.contextmanager
def not_functional() -> Iterator[None]:
    """Functionalisation off inside a block of a functional trace."""
    torch._disable_functionalization()
    try:
        yield
    finally:
        torch._enable_functionalization(reapply_views=True)


def inside_inference_mode(captured: Graph) -> Graph | None:
    """What a graph computes in the one block of torch.inference_mode that is all of it; None for other graphs."""
    graph = captured.copy()
    calls = [node for node in graph.nodes if node.op.startswith("call")]
    if len(calls) < 3 or _name(calls[0]) != "enter_InferenceMode" or calls[0].args != (True,):
        return None
    if calls[-1].args != (calls[0],) or any(_name(node).startswith(("enter_", "_set_grad")) for node in calls[1:]):
        return None
    graph.erase_node(calls[-1])
    graph.erase_node(calls[0])
    return replace(captured, graph=graph, grad_enabled=False)


def _name(node: fx.Node) -> str:
    return getattr(node.target, "__name__", str(node.target))
