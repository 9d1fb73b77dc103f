"""Both halves of a training step of the zoo's networks: loops, run by the reference interpreter, equal the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import fx

from explorer.compiler.autograd import REJOIN
from explorer.compiler.capture.import_fx_graph import import_fx_graph
from explorer.compiler.lower import LOWER
from explorer.ir.graph import Graph
from explorer.ir.joint import Halves, Partitioned
from explorer.ir.loops import Extern, Loops
from explorer.ir.program import Program
from loops_reference import run_graph, run_loops
from programs import MODELS, Model
from reference_backend import interpreted, plan

CHOSEN = [model for model in MODELS if model.name in ("small_cnn", "gpt", "lstm", "vae", "diffusion_block")]


@pytest.mark.parametrize("model", CHOSEN, ids=lambda model: model.name)
def test_training_step(model: Model) -> None:
    made: list[Loops] = []

    def half(graph: Graph) -> Program:
        loops = LOWER(graph)
        made.append(loops)
        return replace(interpreted(graph), call=lambda inputs: compared(graph, loops, list(inputs)))

    def backend(module: fx.GraphModule, example: list[Any]) -> Callable[..., Any]:
        planned = plan(import_fx_graph(module, example))
        backward = half(planned.backward) if isinstance(planned, Partitioned) else None
        return REJOIN(Halves(planned, half(planned.forward), backward)).call

    torch._dynamo.reset()
    args, kwargs = model.inputs()
    model.loss(torch.compile(model.build(), backend=backend)(*args, **kwargs)).backward()
    assert len(made) == 2
    calls = [call for loops in made for call in loops.operations if isinstance(call, Extern)]
    assert not [str(call.target) for call in calls if call.why.code == "lower.no_rule"]


def compared(graph: Graph, loops: Loops, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What the graph gives, after comparing it and its updates of inputs with what the loops give."""
    for_loops, for_graph = ([copied(value) for value in inputs] for _ in range(2))
    random = torch.get_rng_state()
    ours = run_loops(loops, for_loops)
    torch.set_rng_state(random)
    with torch.no_grad():
        theirs = run_graph(graph, for_graph)
    for mine, other in (*zip(ours, theirs, strict=True), *zip(for_loops, for_graph, strict=True)):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
            sizes = list(other.shape)
            assert [s for s, n in zip(mine.stride(), sizes, strict=True) if n != 1] == [
                s for s, n in zip(other.stride(), sizes, strict=True) if n != 1
            ]
        else:
            assert mine == other
    torch.set_rng_state(random)
    return run_graph(graph, inputs)


def copied(value: Any) -> Any:
    """The value at other addresses with the same strides (`clone` makes the strides of a slice dense)."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value.detach())
