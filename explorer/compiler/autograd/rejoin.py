"""REJOIN: the built halves behind the captured graph's calling convention, as one function of autograd.

AOTAutograd: runtime_wrappers.py (the autograd.Function, the epilogue for mutations and aliases).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor, fx

from explorer.compiler.autograd import reasons
from explorer.compiler.autograd.aliases import Returning, Views, Writing, overlaps, unviewed
from explorer.compiler.autograd.backward import LEAF, After, Backward, hooks_of
from explorer.compiler.autograd.grad_functions import Routes
from explorer.core.reasons import Why
from explorer.core.recorder import note
from explorer.core.text import Line, Text, count
from explorer.ir.bytecode import Span
from explorer.ir.capture import CallSkipped
from explorer.ir.graph import Graph, info, set_versions
from explorer.ir.joint import Compiled, Halves, Partitioned, Traced, placeholder_line
from explorer.ir.program import Program

Call = Callable[..., tuple[Any, ...]]
Half = Callable[[Sequence[Any]], tuple[Any, ...]]


def rejoin(halves: Halves) -> Compiled:
    """Make the halves callable as the captured graph was: flat inputs to a flat tuple."""
    plan = halves.plan
    programs = (halves.forward,) if halves.backward is None else (halves.forward, halves.backward)
    if any(program.call is None for program in programs):
        call = absent(plan, programs)
    else:
        run, back = (plain(halves.forward), None) if isinstance(plan, Traced) else training(halves)
        call = checked(plan, finished(plan, run, back))
        if isinstance(plan, Partitioned) and back is not None:
            call = unobserved(plan, back.routes, call)
    return Compiled(plan.captured.name, call, programs, description(plan), plan)


def absent(plan: Traced | Partitioned, programs: Sequence[Program]) -> Call:
    target = programs[0].generated.target

    def call(*inputs: object) -> tuple[object, ...]:
        raise RuntimeError(f"{plan.captured.name} was compiled for {target}, which is not on this machine")

    return call


def plain(program: Program) -> Callable[[Iterable[object]], tuple[object, ...]]:
    """The program run with grad mode and autocast off: both were accounted for when tracing."""
    run = program.call
    assert run is not None
    set_grad, is_grad, is_autocast = (
        torch._C._set_grad_enabled,
        torch.is_grad_enabled,
        torch._C._is_any_autocast_enabled,
    )

    def call(inputs: Iterable[object]) -> tuple[object, ...]:
        if is_autocast():
            with torch._C._DisableAutocast():
                return run(inputs)
        if not is_grad():
            return run(inputs)
        set_grad(False)
        try:
            return run(inputs)
        finally:
            set_grad(True)

    return call


class OfGraph(torch.autograd.Function):
    """The function of a compiled graph: a backward that comes to it without a gradient changes nothing."""


def training(halves: Halves) -> tuple[Half, Backward]:
    """Forward and backward as one torch.autograd.Function; the call yields the forward outputs."""
    parts = halves.plan
    assert isinstance(parts, Partitioned) and halves.backward is not None
    signature = parts.signature
    run_forward = plain(halves.forward)
    going_back = Backward(parts, plain(halves.backward))
    count, arity = len(signature.forward_outputs), len(parts.captured.inputs)
    before, later = going_back.again.before, {each.index for each in going_back.later}
    leaf = going_back.leaf
    still = [
        k
        for k, (node, flows) in enumerate(zip(parts.forward.outputs, signature.differentiable, strict=False))
        if not flows and isinstance(info(node).value, Tensor)
    ]

    class Joined(OfGraph):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            given = inputs[:arity]
            going_back.remember(ctx, given, inputs[arity : arity + len(before)])
            values = [unviewed(value) for value in run_forward(given)]
            going_back.save(ctx, given, values)
            ctx.set_materialize_grads(False)
            if still:
                ctx.mark_non_differentiable(*(values[k] for k in still))
            if later:
                ctx.later = values
            return tuple(None if k in later else value for k, value in enumerate(values[:count]))

        @staticmethod
        def backward(ctx: object, *tangents: Any) -> tuple[object, ...]:
            return going_back(ctx, tangents)

    apply = applying(Joined)
    seen = {mutation.index for mutation in signature.mutations if mutation.output is not None}
    given = enumerate(zip(parts.captured.inputs, going_back.routes.sources, strict=True))
    unreached = {i for i, (node, source) in given if wants_gradient(node) and not source} - seen
    call: Half = lambda inputs: apply(*inputs, *leaf)  # noqa: E731
    separate = [k for k in going_back.flowing if k not in later] if len(going_back.flowing) > 1 else []
    if before or unreached:  # a hook behind an input that eager's backward never reaches would see None

        def call(inputs: Sequence[Any]) -> tuple[object, ...]:
            alone = (value.detach() if i in unreached else value for i, value in enumerate(inputs))
            return apply(*alone, *(inputs[i].clone() for i in before), *leaf)

    if separate:
        call = hooking(call, going_back, separate)
    # A graph may be entered with grad mode off and switch it on: which outputs have gradients is known from the trace.
    return (call if parts.captured.grad_enabled else torch.enable_grad()(call)), going_back


def hooking(call: Half, back: Backward, outputs: Sequence[int]) -> Half:
    reach = {k: back.routes.reach[back.flowing.index(k)] for k in outputs}

    def run(inputs: Sequence[object]) -> tuple[object, ...]:
        found = call(inputs)
        for k in outputs:
            output: Any = found[k]
            hooks_of(output, back, output.grad_fn, reach[k])
        return found

    return run


def wants_gradient(node: fx.Node) -> bool:
    value = info(node).value
    return isinstance(value, Tensor) and value.requires_grad


def applying(function: type[torch.autograd.Function]) -> Callable[..., tuple[object, ...]]:
    """`function.apply`; outside torch.func's transforms without what it does for those, a sixth of a small call. Hooks
    of its grad_fn run where eager's would: the engine comes to the whole function for a gradient of a part."""
    plain_apply: Callable[..., tuple[object, ...]] = super(torch.autograd.Function, function).apply  # type: ignore[misc]
    transformed = torch._C._are_functorch_transforms_active
    for name in ("register_hook", "register_prehook"):
        kind = function._backward_cls
        setattr(kind, name, hooked_where_reached(getattr(kind, name)))

    def apply(*inputs: object) -> tuple[object, ...]:
        return function.apply(*inputs) if transformed() else plain_apply(*inputs)

    return apply


def hooked_where_reached(register: Callable[..., object]) -> Callable[..., object]:
    """A grad_fn's method for hooks that only run where one of its outputs has a gradient: the last argument of each."""

    def registered(grad_fn: object, hook: Callable[..., object]) -> object:
        @functools.wraps(hook, updated=())
        def where_reached(*gradients: tuple[object, ...]) -> object:
            return hook(*gradients) if any(each is not None for each in gradients[-1]) else None

        return register(grad_fn, where_reached)

    return registered


after = applying(After)


def chained(
    back: Backward, returning: Returning, inputs: Sequence[object], values: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Views]:
    """The outputs of a call, of which autograd sees the later ones as computed from its results; and the views among
    these."""
    found, views = list(values), Views()
    call = found[back.first].grad_fn
    made, call.later, call.watched = call.later, None, {}
    results: dict[int, Tensor] = {}
    for what in back.later:
        for k in what.watched:
            if k not in results:
                results[k] = returning.own(k, inputs, found, views)
                call.watched[k] = weakref.ref(results[k]), hooks_of(results[k], back, call, back.routes.under[k])
        sources = (*(results[k] for k in what.results), *(inputs[i] for i in what.inputs))
        found[what.index] = after([made[what.index]], (back, what), call, LEAF, *sources)
    return tuple(found), views


def finished(plan: Traced | Partitioned, run: Half, back: Backward | None) -> Call:
    """`run`, then the writes that autograd sees, then the results the caller expects."""
    signature = plan.signature
    returning = Returning(signature)
    as_is = returning.as_is and not signature.mutations and not signature.versions
    chain = functools.partial(chained, back, returning) if back is not None and back.later else None
    if chain is not None and not plan.captured.grad_enabled:
        chain = torch.enable_grad()(chain)
    if as_is:
        return (lambda *inputs: run(inputs)) if chain is None else lambda *inputs: chain(inputs, run(inputs))[0]
    writing = Writing(signature)
    moves = isinstance(plan, Partitioned) and signature.restrides

    def call(*inputs: object) -> tuple[object, ...]:
        versions = writing.versions(inputs)
        try:
            given = writing.move(inputs) if moves else inputs
            values = run(given)
            values, views = (values, {}) if chain is None else chain(given, values)
            writing(inputs, given, values)
        finally:  # where it raises too: what it wrote by then cannot be told
            set_versions(versions)
        return returning(inputs, values, views)

    return call


def checked(plan: Traced | Partitioned, call: Call) -> Call:
    """`call`, unless what the trace took for granted about shared memory does not hold: then the captured graph, run
    eagerly. Only graphs that write an input, or that were given one tensor twice, need to look.
    """
    signature = plan.signature
    if not signature.written and not signature.repeats:
        return call
    eager = functools.cache(plan.captured.module)
    repeats = list(signature.repeats.items())
    written = sorted(signature.written)
    tensors = [i for i, n in enumerate(plan.captured.inputs) if isinstance(info(n).value, Tensor)]
    others = [i for i in tensors if i not in signature.repeats]

    def run(*inputs: object) -> tuple[object, ...]:
        if any(inputs[again] is not inputs[first] for again, first in repeats) or overlaps(inputs, written, others):
            return eager()(*inputs)  # type: ignore[no-any-return]
        return call(*inputs)

    return run


def unobserved(plan: Partitioned, routes: Routes, call: Call) -> Call:
    """`call`, unless somebody looks at what eager does operator by operator: eager's own run then.

    Anomaly mode tells which operator made a NaN. Hooks of saved tensors see what each operator saves. Where the one
    backward function has nothing for an input, autograd still goes on to what computed the input. Eager does not get
    there from outputs that do not come from it.
    """
    eager = functools.cache(plan.captured.module)
    by_line = functools.cache(lambda: ByLine(plan.captured.module()))
    partial = [i for i, source in enumerate(routes.sources) if source and source != routes.all]
    anomaly_enabled = torch.is_anomaly_enabled

    def run(*inputs: Any) -> tuple[object, ...]:
        if anomaly_enabled():
            note_observed(plan.captured, "anomaly mode is on")
            return by_line().run(*inputs)  # type: ignore[no-any-return]
        if saving_hooked():
            note_observed(plan.captured, HOOKS_OF_SAVED)
            return eager()(*inputs)  # type: ignore[no-any-return]
        for i in partial:
            if seen := what_notices_none(inputs[i]):
                note_observed(plan.captured, f"input {plan.captured.inputs[i].name} {seen}")
                return eager()(*inputs)  # type: ignore[no-any-return]
        return call(*inputs)

    return run


HOOKS_OF_SAVED = "hooks of saved tensors are set"


def note_observed(captured: Graph, what: str) -> None:
    note(CallSkipped, captured.name, Why(reasons.OBSERVED, what))


def what_notices_none(value: Tensor) -> str:
    """What sees that a backward goes on from a tensor without a gradient: hooks get None, functions run, raise or free
    what they saved. "" where nothing does."""
    if hooked(value):
        return "has a hook"
    pending = [] if value.grad_fn is None else [value.grad_fn]
    seen = set(pending)
    while pending:
        grad_fn: Any = pending.pop()
        if (leaf := getattr(grad_fn, "variable", None)) is not None:
            if hooked(leaf):
                return "comes from a tensor that has a hook"
        elif not issubclass(getattr(type(grad_fn), "_forward_cls", object), (OfGraph, After)):
            return f"comes from {grad_fn.name()}, which ran eagerly"
        following = {each for each, _ in grad_fn.next_functions if each is not None} - seen
        seen |= following
        pending += following
    return ""


class ByLine(fx.Interpreter):
    """Runs a captured graph node by node, each call in a frame of the program's own line, which anomaly mode tells."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False

    def run_node(self, n: fx.Node) -> object:
        self.span = info(n).span if n.op != "output" else None
        return super().run_node(n)

    def call_function(self, target: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        return _caller(self.span)(target, args, kwargs)

    def call_method(self, target: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        return _caller(self.span)(getattr(args[0], str(target)), args[1:], kwargs)


@functools.lru_cache(1000)
def _caller(span: Span | None) -> Callable[..., object]:
    """What calls a function with these arguments, and is in a traceback as this line."""
    call = cast(FunctionType, lambda function, args, kwargs: function(*args, **kwargs))
    if span is not None:
        call.__code__ = call.__code__.replace(co_filename=span.file, co_firstlineno=span.line, co_name="forward")
    return call


def unless_saving_hooked(captured: Graph, call: Callable[..., object]) -> Callable[..., object]:
    """`call`, of another backend, unless hooks of the program see what is saved; eager's own run then."""
    if not captured.grad_enabled or not any(map(wants_gradient, captured.inputs)):
        return call
    eager = functools.cache(captured.module)

    def run(*inputs: object) -> object:
        if saving_hooked():
            note_observed(captured, HOOKS_OF_SAVED)
            return eager()(*inputs)
        return call(*inputs)

    return run


def saving_hooked() -> bool:
    """Whether it is seen which tensors are saved. Those of checkpointing only leave a place for each; save_on_cpu keeps
    tensors of a CPU as they are, so that a later write is seen in those that eager saves."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks is not None and getattr(hooks[0], "__module__", "") != "torch.utils.checkpoint"


def hooked(value: Tensor) -> bool:
    """Whether a hook sees the gradient of a tensor, or of the one that it is a view of."""
    own = value._backward_hooks or value._post_accumulate_grad_hooks
    return bool(own or value._base is not None and value._base._backward_hooks)


def description(plan: Traced | Partitioned) -> Text:
    """The calling convention, for a person."""
    captured, signature = plan.captured, plan.signature
    kind = "inference" if isinstance(plan, Traced) else "forward and backward joined in one autograd.Function"
    lines = [Line(f"{captured.name}: {kind}")]
    lines += [
        Line(f"  input {i} {placeholder_line(captured, i)}", "", (info(node).id,))
        for i, node in enumerate(captured.inputs)
    ]
    lines += signature.lines()
    if isinstance(plan, Partitioned):
        kept = [s for s in plan.saved if s.kind == "saved"]
        lines.append(Line(f"  saved for backward: {count(len(kept), 'value')}, {sum(s.bytes for s in kept):,} bytes"))
    return Text(tuple(lines))
