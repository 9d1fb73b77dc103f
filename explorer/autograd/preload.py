"""What the first trace of a process pays once, paid ahead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from explorer.autograd.cleanup import CLEANUP
from explorer.autograd.partition import partition
from explorer.autograd.trace import trace
from explorer.core.origin import origin, synthetic
from explorer.ir.graph import Graph, stamp


def preload() -> None:
    """Trace, clean and cut a small training graph, so that lazy imports and caches are there (some 0.2 s)."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    graph = fx.Graph()
    with origin(synthetic("preload")), mode, torch.enable_grad():
        x, w = (stamp(graph.placeholder(n), n, torch.empty(4, 4, requires_grad=True)) for n in "xw")
        value = x
        for function, arguments in ((F.linear, (w,)), (F.gelu, ()), (F.layer_norm, ([4],)), (torch.softmax, (-1,))):
            value = graph.call_function(function, (value, *arguments))
            stamp(value, value.name, torch.empty(4, 4, requires_grad=True))
        graph.output((value,))
    traced = trace(Graph("preload", graph, mode, {}, True))
    for stage in CLEANUP:
        traced = stage.function(traced)
    partition(traced)
