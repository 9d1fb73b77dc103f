"""Accesses to memory: those of lowered programs are proven to be in bounds, and one that is moved is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.compiler.lower.bounds import BoundsProofs
from explorer.core.reasons import Unsupported
from explorer.ir.loops import Load, Loop, rewrite, walk
from explorer.ir.sizes import Sizes
from lowering import lowered

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "pointwise": lambda x: x.t() + 1,
    "slice": lambda x: x[1:, ::2] * 2,
    "pad": lambda x: F.pad(x, (1, 2)) + 1,
    "pad read at an index": lambda x: F.pad(x, (1, 2))[:, x[0].long() + 1],
    "cat read at an index": lambda x: torch.cat([x * 2, x + 1], 1)[:, x[0].long() * 2 - 3],
    "unfold": lambda x: F.unfold(F.gelu(x[None, None]), (3, 1), padding=(1, 0)),
    "cat": lambda x: torch.cat([x, x + 1]) * 2,
    "reshape": lambda x: x.t().reshape(-1) + 1,
    "windows": lambda x: F.max_pool2d(x[None], 3, 2, padding=1) + 1,
    "gather": lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)) + 1,
    "reduction": lambda x: x.sum(0) + x.amax(),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["numbers", "symbols"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_moved_accesses_are_refused(program: Callable[[torch.Tensor], Any], dynamic: bool) -> None:
    loops, graph = lowered(program, torch.randn(6, 8), dynamic=dynamic)
    sizes = Sizes(graph.fake_mode.shape_env)
    moved = 0
    for loop in (each for each in loops.operations if isinstance(each, Loop)):
        BoundsProofs(loops.buffers, sizes).loop(loop)
        for load in (expr for expr in walk(loop.value) if isinstance(expr, Load)):
            for step in (-1000, 1000):
                at, to = load, replace(load, index=load.index + step)
                value = rewrite(loop.roots[:1], lambda expr, at=at, to=to: to if expr is at else None)[0]
                with pytest.raises(Unsupported):
                    BoundsProofs(loops.buffers, sizes).loop(replace(loop, value=value))
                moved += 1
    assert moved
