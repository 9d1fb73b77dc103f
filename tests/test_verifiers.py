"""Each stage's verifier accepts what the stage makes, and refuses that with one thing broken."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import replace
from types import CodeType
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from explorer.compiler import autograd, capture, codegen, lower, pipeline, runtime, schedule
from explorer.core.recorder import Recorder, recording
from explorer.core.stage import Stage
from explorer.core.text import Line, Text
from explorer.ir.bytecode import Placeholder
from explorer.ir.capture import ByProgram

STAGES: dict[str, Stage[Any, Any]] = {
    made.name: made
    for module in (capture, autograd, lower, schedule, codegen, runtime, pipeline)
    for made in vars(module).values()
    if isinstance(made, Stage)
}


def step(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.softmax(x @ w, -1)
    return y.sum(), (y * 2).sin()


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Any]:
    """The first artifact of each stage."""
    recorder = Recorder()
    with recording(recorder):
        explorer.compile(step)(torch.randn(4, 4, requires_grad=True), torch.randn(4, 4))
        explorer.compile(step, backend="eager")(torch.randn(4, 4), torch.randn(4, 4))
    stages = [stage for compile in recorder.compiles for stage in compile.stages]
    return {stage.name: stage.artifact for stage in reversed(stages)}


def test_the_stages_accept_what_they_made(artifacts: dict[str, Any]) -> None:
    assert {"decode", "capture", "trace", "partition", "lower", "fuse", "generate", "build", "link"} < artifacts.keys()
    for name, artifact in artifacts.items():
        if name in STAGES:
            STAGES[name].verify(artifact)


def without_origins(text: Text) -> Text:
    return replace(text, lines=(*text.lines, Line("stray()", "stray")))


def with_placeholder(code: Any) -> Any:
    return code.replace(co_consts=(*code.co_consts, Placeholder("nothing")))


def caused(capture: Any, ids: tuple[str, ...]) -> Any:
    return replace(capture, guards=(replace(capture.guards[0], cause=ByProgram(ids, None)), *capture.guards[1:]))


def popping(code: CodeType) -> CodeType:
    return code.replace(co_code=code.co_code[:2] + bytes((dis.opmap["POP_TOP"], 0)) + code.co_code[2:])


def without_outputs(graph: Any) -> Any:
    made = graph.graph.__class__()
    made.graph_copy(graph.graph, {})
    made.output(())
    return replace(graph, graph=made)


def unstamped(graph: Any) -> Any:
    made = graph.graph.__class__()
    made.graph_copy(graph.graph, {})
    made.output(())
    next(iter(made.nodes)).meta = {}
    return replace(graph, graph=made)


BROKEN: dict[str, dict[str, Callable[[Any], Any]]] = {
    "decode": {
        "an instruction twice": lambda it: replace(it, instructions=(*it.instructions, it.instructions[0])),
        "a pop of nothing": lambda it: replace(
            it, instructions=tuple(each for each in it.instructions if each.op != "LOAD_FAST")
        ),
    },
    "capture": {
        "an input without a source": lambda it: replace(it, inputs=it.inputs[1:]),
        "a guard twice": lambda it: replace(it, guards=(*it.guards, it.guards[0])),
        "a guard without a cause": lambda it: caused(it, ()),
        "a guard that an instruction of another frame made": lambda it: caused(it, ("f9@0",)),
    },
    "link": {
        "code without checks": lambda it: replace(it, manager=None),
        "neither code nor a reason": lambda it: replace(it, code=None, manager=None),
        "a place that is not filled": lambda it: replace(it, code=with_placeholder(it.code)),
        "code with a pop of nothing": lambda it: replace(it, code=popping(it.code)),
    },
    "trace": {
        "an input too many": lambda it: replace(it, signature=replace(it.signature, inputs=it.signature.inputs[1:])),
        "said to be inference": lambda it: replace(it, is_inference=True),
        "a node that nothing stamped": lambda it: replace(it, forward=unstamped(it.forward)),
    },
    "partition": {
        "an input of the backward lost": lambda it: replace(it, backward_inputs=it.backward_inputs[1:]),
        "a saved value lost": lambda it: replace(it, kept_at={}),
    },
    "lower": {
        "an operation lost": lambda it: replace(it, operations=it.operations[1:]),
        "an operation twice": lambda it: replace(it, operations=(*it.operations, it.operations[-1])),
        "without an origin": lambda it: replace(
            it, operations=(replace(it.operations[0], origins=()), *it.operations[1:])
        ),
    },
    "dependencies": {
        "a circle": lambda it: replace(
            it, after={**it.after, it.loops.operations[0].id: {it.loops.operations[-1].id: frozenset()}}
        ),
    },
    "fuse": {
        "a kernel lost": lambda it: replace(it, items=it.items[1:]),
        "a kernel twice": lambda it: replace(it, items=(*it.items, it.items[0])),
        "a verdict twice": lambda it: replace(it, verdicts=(*it.verdicts, *it.verdicts)),
    },
    "order": {
        "a kernel lost": lambda it: replace(it, items=it.items[1:]),
        "the wrong way round": lambda it: replace(it, items=it.items[::-1]),
    },
    "plan memory": {
        "a buffer in two places": lambda it: replace(it, allocations=(*it.allocations, it.allocations[0])),
    },
    "generate": {
        "a kernel twice": lambda it: replace(it, kernels=(*it.kernels, it.kernels[0])),
        "a kernel that nothing calls": lambda it: replace(it, entries=()),
        "a line of the wrapper without an origin": lambda it: replace(it, wrapper=without_origins(it.wrapper)),
        "a line of a kernel without an origin": lambda it: replace(
            it, kernels=(replace(it.kernels[0], source=without_origins(it.kernels[0].source)), *it.kernels[1:])
        ),
    },
    "build": {
        "nothing to call": lambda it: replace(it, call=None),
        "no tool ran": lambda it: replace(it, steps=()),
    },
    "rejoin": {
        "nothing to call": lambda it: replace(it, call=None),
        "three halves": lambda it: replace(it, halves=it.halves * 3),
        "a half lost": lambda it: replace(it, halves=it.halves[:1]),
        "the halves in each other's place": lambda it: replace(it, halves=it.halves[::-1]),
        "an output lost": lambda it: replace(it, plan=replace(it.plan, forward=without_outputs(it.plan.forward))),
        "halves of nothing": lambda it: replace(it, plan=None),
    },
}  # fmt: skip


@pytest.mark.parametrize(("stage", "what"), [(stage, what) for stage, broken in BROKEN.items() for what in broken])
def test_a_broken_artifact_is_refused(artifacts: dict[str, Any], stage: str, what: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        STAGES[stage].verify(BROKEN[stage][what](artifacts[stage]))


def test_each_stage_has_one_that_is_tried(artifacts: dict[str, Any]) -> None:
    """Passes over a traced graph have the verifier of TRACE."""
    same = {STAGES[name].verify for name in BROKEN}
    assert {name for name in artifacts if name in STAGES and STAGES[name].verify not in same} == set()
