"""The order of the stages: which makes which artifact.

A stage is a pure function from one typed artifact to the next; calling it times, verifies and records what it makes.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from explorer.compiler.autograd import (
    CLEANUP,
    PARTITION,
    REJOIN,
    TRACE,
    only_eager,
    own_passes,
    user_pass,
    verify_compiled,
)
from explorer.compiler.autograd.aliases import (
    counting_writes,
    in_captured_layout,
    overlapping,
    unless_overlapping,
    writes,
    written_inputs,
)
from explorer.compiler.autograd.reasons import ALIASED_MUTATION, RESIZED
from explorer.compiler.autograd.rejoin import unless_saving_hooked
from explorer.compiler.autograd.tape import inside_inference_mode
from explorer.compiler.capture import CAPTURE, DECODE, LINK, BackendFailed, CaptureInput, import_fx_graph
from explorer.compiler.capture.hook import modes_put_aside
from explorer.compiler.codegen import GENERATE
from explorer.compiler.config import Config
from explorer.compiler.lower import LOWER
from explorer.compiler.runtime import BUILD, NotBuilt
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY, SEPARATE
from explorer.core.files import raised_at
from explorer.core.reasons import Unsupported, Why, reason
from explorer.core.recorder import GRAPH, compile_scope, note, total
from explorer.core.rules import YOUR_RULE, in_force
from explorer.core.stage import Stage
from explorer.core.text import Line, Text
from explorer.ir.capture import CompilerBug, GuardedCode, InputFrame, Linking
from explorer.ir.graph import Graph, aten_operator, info
from explorer.ir.joint import Compiled, Halves
from explorer.ir.program import CPU, BuildFailed, Generation, Program, Target
from explorer.ir.record import TARGET_ABSENT
from explorer.ir.settings import kept, switches_grad_mode
from explorer.ir.sizes import relations

COMPILER_BUG = reason(
    "pipeline.compiler_bug",
    "a bug in this compiler",
    "The compiler raised an error of its own. The program runs eagerly, so its results are right.",
    "Please report it, with the saved record attached.",
)
WRITTEN_AND_KEPT = reason(
    "pipeline.written_and_kept",
    "an input that requires grad is written",
    "torch's backends may keep the input for the backward and write it afterwards, and autograd then raises an error.",
    "Write to a copy of the input.",
)
TURNED = reason(
    "pipeline.turned_in_place",
    "the shape or strides of an input change in place",
    "torch's backends give an input that is also written the strides of the new values, which are in other memory.",
    "Use the out-of-place form (t, squeeze, unsqueeze).",
)
BACK_END_FAILED = reason(
    "pipeline.backend_failed",
    "the chosen backend raised an error",
    "One of torch's backends does not compile this graph. The graph runs eagerly, so its results are right.",
    'Use backend="explorer".',
)
NOT_BUILT = "programs run eagerly, since no kernel can be built: %s (see `explorer doctor`; this warning is shown once)"


def compile_frame(frame: InputFrame, config: Config) -> GuardedCode:
    code = DECODE(frame)
    capture = CAPTURE(CaptureInput(code, frame, config))
    compiled = None if capture.graph is None else compile_captured(capture.graph, config)
    return LINK(Linking(capture, compiled))


def compile_graph(graph: Graph, config: Config) -> Compiled:
    for each in config.passes:
        graph = user_pass(each)(graph)
    traced = TRACE(graph)
    for clean in (*CLEANUP, *own_passes()):
        traced = traced if clean.name in config.edit.without else clean(traced)
    if traced.is_inference:
        return REJOIN(Halves(traced, compile_half(traced.forward, config), None))
    parts = PARTITION(traced)
    forward = compile_half(parts.forward, config)
    return REJOIN(Halves(parts, forward, compile_half(parts.backward, config)))


def compile_half(graph: Graph, config: Config) -> Program:
    with in_force(config.rules):
        loops = LOWER(graph)
        dependencies = replace(DEPENDENCIES(loops), forbidden=config.edit.forbidden(graph.name))
        schedule = ORDER((FUSE if config.fuse else SEPARATE)(dependencies))
        target = config.target or native(graph)
        return BUILD(GENERATE(Generation(schedule, PLAN_MEMORY(schedule), target, config.build)))


# What surrounds the page: other backends, and what happens when a stage refuses.


def compile_captured(graph: Graph, config: Config) -> Compiled:
    if not callable(config.backend) and (inside := inside_inference_mode(graph)) is not None:
        with torch.inference_mode():
            made = compile_captured(inside, config)
        return replace(made, call=torch.inference_mode()(made.call))
    is_users = callable(config.backend) and not is_of_torch(config.backend)  # gets what was captured, as with stock
    return compile_or_run_eagerly(graph, config, not is_users)


def compile_or_run_eagerly(graph: Graph, config: Config, asks: bool = False) -> Compiled:
    """The graph compiled by `config.backend`; run by eager kernels, with the reason kept, where that cannot be, or
    where it is eager's whatever the backend, if that is asked. What was asked of sizes meanwhile is part of the result.
    It is read from the ShapeEnv, which all that asks writes to: views that autograd takes again, torch's rules for
    operators in TRACE, our stages, and other backends. LINK checks that no relation is left out."""
    asked = relations(graph.fake_mode.shape_env)
    known = len(asked)
    with in_force(config.rules):
        why = only_eager(graph) if asks else None
        made = attempted(graph, config) if why is None else RUN_EAGERLY((graph, why))
    return replace(made, assumed=asked.since(known))


def attempted(graph: Graph, config: Config) -> Compiled:
    if config.backend == "eager":
        return RUN_EAGERLY((graph, None))
    if callable(config.backend):
        return HAND_OVER((graph, config.backend))
    try:
        compiled = compile_graph(graph, config)
    except Unsupported as refusal:
        if isinstance(refusal, NotBuilt):
            if not total(BuildFailed.TOTAL):
                logging.getLogger("explorer").warning(NOT_BUILT, refusal.why)
            note(BuildFailed, graph.name, refusal.why)
        return fall_back(graph, refusal.why)
    except Exception as bug:
        note(CompilerBug, graph.name, traceback.format_exc())
        message = f"{type(bug).__name__}: {bug}"
        why = Why(YOUR_RULE, f"{message}, with {config.rules}") if config.rules else Why(COMPILER_BUG, message)
        return fall_back(graph, why)
    if config.target not in (None, native(graph)) or any(half.call is None for half in compiled.halves):
        return RUN_EAGERLY((graph, Why(TARGET_ABSENT, str(config.target))))
    return compiled


def fall_back(graph: Graph, why: Why) -> Compiled:
    return RUN_EAGERLY((graph, why))


def compile_module(module: fx.GraphModule, example_inputs: Sequence[object], config: Config) -> Callable[..., Any]:
    """Compile what another frontend captured: the calling convention of a torch.compile backend."""
    with compile_scope(GRAPH, "captured by another frontend"):
        graph = import_fx_graph(module, example_inputs)
        with modes_put_aside():
            return compile_or_run_eagerly(graph, config).call


def native(graph: Graph) -> Target:
    """The machine of the graph's tensors."""
    device = graph.device
    if device.type == "cpu":
        return CPU
    if torch.version.hip:
        return Target("hip", torch.cuda.get_device_properties(device).gcnArchName.partition(":")[0])
    major, minor = torch.cuda.get_device_capability(device)
    return Target("cuda", f"{major}{minor}")


def _run_eagerly(given: tuple[Graph, Why | None]) -> Compiled:
    graph, why = given
    text = f"runs eagerly: {why} [{why.code}]" if why else "runs eagerly, as asked"
    return Compiled(graph.name, leaving_contexts(graph, graph.module().forward), (), Text((Line(text),)), fallback=why)


def leaving_contexts(graph: Graph, forward: Callable[..., object]) -> Callable[..., Any]:
    """What runs the graph, without leaving a context of it (torch.inference_mode, torch.no_grad) open where it raises:
    the guards that its frame holds would live as long as the error."""
    if not any(switches_grad_mode(node.target) for node in graph.graph.nodes):
        return forward

    def call(*inputs: object) -> Any:
        grad_mode = torch.is_grad_enabled()
        with torch.inference_mode(torch.is_inference_mode_enabled()):
            torch._C._set_grad_enabled(grad_mode)
            try:
                return forward(*inputs)
            except BaseException as error:
                traceback.clear_frames(error.__traceback__)
                raise

    return call


def is_of_torch(backend: Callable[..., object]) -> bool:
    """By its module: torch's registry knows the names of its backends, but others may register theirs as well."""
    return str(getattr(backend, "__module__", "")).startswith("torch.")


def _hand_over(given: tuple[Graph, Callable[..., object]]) -> Compiled:
    graph, backend = given
    name = getattr(backend, "__name__", type(backend).__name__)
    examples = [info(node).value for node in graph.inputs]
    written = written_inputs(graph)
    if overlapping(written, {i: each for i, each in enumerate(examples) if isinstance(each, torch.Tensor)}):
        return _run_eagerly((graph, Why(ALIASED_MUTATION, f"for {name}")))
    of_torch = is_of_torch(backend)
    if of_torch and graph.grad_enabled and any(examples[index].requires_grad for index in written):
        return _run_eagerly((graph, Why(WRITTEN_AND_KEPT, f"for {name}")))
    if of_torch and (turned := [node.name for node in graph.graph.nodes if turns(node)]) and written:
        return _run_eagerly((graph, Why(TURNED, f"by {turned[0]}, for {name}")))
    if resized := [node.name for node in graph.graph.nodes if resizes(node)]:
        return _run_eagerly((graph, Why(RESIZED, f"by {resized[0]}, for {name}")))
    try:
        with kept():
            call = backend(graph.module(), examples)
    except Exception as error:
        if of_torch:
            note(CompilerBug, graph.name, traceback.format_exc())
            return fall_back(graph, Why(BACK_END_FAILED, f"{name}: {type(error).__name__}: {error}"))
        raise BackendFailed(f"backend {name} raised {type(error).__name__}: {error}{raised_at(error)}") from error
    if not callable(call):
        raise BackendFailed(f"backend {name} returned a {type(call).__name__}, which cannot be called")
    if of_torch and any(map(writes, graph.graph.nodes)):
        call = in_captured_layout(graph, call)
    call = counting_writes(graph, call, written) if of_torch else call
    call = unless_overlapping(graph, call, written) if written else call
    call = unless_saving_hooked(graph, call) if of_torch else call
    return Compiled(graph.name, leaving_contexts(graph, call), (), Text((Line(f"compiled by {name}"),)))


def _totals(given: tuple[Graph, Why | None], made: Compiled) -> tuple[str, ...]:
    """The calls that fall back to eager kernels: not where nobody wanted others, or where those were generated too."""
    graph, why = given
    if why is None or why.code == TARGET_ABSENT:
        return ()
    return tuple("calls: fallback" for node in graph.graph.nodes if node.op.startswith("call"))


def resizes(node: fx.Node) -> bool:
    """Whether the node gives a tensor, its `out=`, another shape: an input of the graph, or one that has elements."""
    pairs = zip(tree_leaves(node.kwargs.get("out")), tree_leaves(info(node).value), strict=False) if node.kwargs else ()
    given = [(each, info(each).value, made) for each, made in pairs if isinstance(each, fx.Node)]
    return any(out.shape != made.shape and (each.op == "placeholder" or out.numel()) for each, out, made in given)


def turns(node: fx.Node) -> bool:
    """Whether the node gives a tensor another shape or other strides in place."""
    packet = aten_operator(str(node.target)) if node.op == "call_method" else None
    return packet is not None and torch.Tag.inplace_view in getattr(packet, packet.overloads()[0]).tags


RUN_EAGERLY = Stage("run eagerly", _run_eagerly, verify_compiled, _totals)
HAND_OVER = Stage("hand over", _hand_over, verify_compiled)
