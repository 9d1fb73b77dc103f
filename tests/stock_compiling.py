"""Stock's compile as far as its generated code: building it would take most of a test's time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._inductor.cpu_vec_isa import VecISA
from torch._inductor.graph import GraphLowering

from explorer.ir.record import CompileData, HalfData
from explorer.records.check.trial import Trial
from explorer.records.stock.absent import interpreted
from explorer.records.stock.run import stock_run


@contextmanager
def nothing_built() -> Iterator[list[str]]:
    """Inside the block stock generates code, and what runs is each graph's operators one by one. Gives the modules."""
    modules: list[str] = []

    def unbuilt(lowering: GraphLowering, wrapper: Any) -> ModuleType:
        modules.append(wrapper.value)
        return interpreted(lowering.orig_gm)

    # What was not built must not reach a cache.
    options = {"cpp.vec_isa_ok": True, "compile_threads": 1, "fx_graph_cache": False}
    uncached = functorch_config.patch(enable_autograd_cache=False)
    with (
        inductor_config.patch(options),
        uncached,
        mock.patch.object(VecISA, "check_build", lambda self, code: True),
        mock.patch.object(GraphLowering, "_compile_to_module_lines", unbuilt),
    ):
        yield modules


def generated(fn: Callable[..., Any], *inputs: Any, **settings: Any) -> CompileData:
    """What stock makes of `fn` up to its generated code; the first compile where there are several."""
    with nothing_built(), stock_run(Trial(fn, inputs, {}), settings) as run:
        assert not run.failure, run.failure
        return run.compiles({})[0]


def inference(fn: Callable[..., Any], *inputs: Any, **settings: Any) -> HalfData:
    (half,) = generated(fn, *inputs, **settings).halves
    return half
