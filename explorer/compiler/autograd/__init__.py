"""AOTAutograd's counterpart: TRACE, CLEANUP, PARTITION, REJOIN, and stages for the user's own passes."""

import contextlib
from functools import cache

import torch
import torch.nn.functional as F
from torch import fx
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

from explorer.compiler.autograd.partition import partition
from explorer.compiler.autograd.passes import CLEANUP, own_passes
from explorer.compiler.autograd.rejoin import rejoin
from explorer.compiler.autograd.trace import only_eager, trace
from explorer.compiler.autograd.userpass import user_pass
from explorer.compiler.autograd.verify import verify_compiled, verify_partitioned, verify_traced
from explorer.core.origin import origin, synthetic
from explorer.core.stage import Stage
from explorer.ir.graph import Graph, stamp
from explorer.ir.joint import Compiled, Halves, Partitioned, Traced

TRACE: Stage[Graph, Traced] = Stage("trace", trace, verify_traced)
PARTITION: Stage[Traced, Partitioned] = Stage("partition", partition, verify_partitioned)
REJOIN: Stage[Halves, Compiled] = Stage("rejoin", rejoin, verify_compiled)

__all__ = [
    "CLEANUP",
    "PARTITION",
    "REJOIN",
    "TRACE",
    "only_eager",
    "own_passes",
    "preload",
    "user_pass",
    "verify_compiled",
]


@cache
def preload() -> None:
    """What the first trace of a process pays once, paid ahead: trace, clean and cut a small training graph, so that
    lazy imports and caches are there (some 0.2 s)."""
    neutral = (
        torch.inference_mode(False), torch.device("cpu"), _disable_current_modes(), torch._C.DisableTorchFunction(),
        temporarily_clear_interpreter_stack(),
    )  # fmt: skip
    with contextlib.ExitStack() as stack:  # the first call of a program may stand inside any of these
        for setting in neutral:
            stack.enter_context(setting)
        _traced_once()


def _traced_once() -> None:
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
