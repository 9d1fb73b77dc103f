"""REJOIN: the built halves behind the captured graph's calling convention, as one function of autograd.

AOTAutograd: runtime_wrappers.py (the autograd.Function, the epilogue for mutations and aliases).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from explorer.autograd.replay import Returning, Writing, overlaps
from explorer.core.text import Line, Text
from explorer.ir.graph import info
from explorer.ir.joint import GradientOf, Halves, Kept, Partitioned, Primal, Tangent, Traced, placeholder_line
from explorer.ir.program import Compiled, Program

Call = Callable[..., tuple[Any, ...]]
Half = Callable[[Sequence[Any]], tuple[Any, ...]]

DOUBLE_BACKWARD = (
    "the backward of a compiled function cannot be differentiated: it was compiled for one backward. "
    "Run the function eagerly where you need second derivatives."
)


def rejoin(halves: Halves) -> Compiled:
    """Make the halves callable as the captured graph was: flat inputs to a flat tuple."""
    plan = halves.plan
    programs = (halves.forward,) if halves.backward is None else (halves.forward, halves.backward)
    if any(program.call is None for program in programs):
        call = absent(plan, programs)
    else:
        run = inference(halves) if isinstance(plan, Traced) else training(halves)
        call = checked(plan, finished(plan, run))
    return Compiled(plan.captured.name, call, programs, description(plan))


def absent(plan: Traced | Partitioned, programs: Sequence[Program]) -> Call:
    target = programs[0].generated.target

    def call(*inputs: Any) -> tuple[Any, ...]:
        raise RuntimeError(f"{plan.captured.name} was compiled for {target}, which is not on this machine")

    return call


def plain(program: Program) -> Half:
    """The program run with grad mode and autocast off: both were accounted for when tracing."""
    run = program.call
    assert run is not None
    set_grad, is_grad, is_autocast = (
        torch._C._set_grad_enabled,
        torch.is_grad_enabled,
        torch._C._is_any_autocast_enabled,
    )

    def call(inputs: Sequence[Any]) -> tuple[Any, ...]:
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


def inference(halves: Halves) -> Half:
    return plain(halves.forward)


def training(halves: Halves) -> Half:
    """Forward and backward as one torch.autograd.Function; the call yields the forward outputs."""
    parts = halves.plan
    assert isinstance(parts, Partitioned) and halves.backward is not None
    signature = parts.signature
    run_forward, run_backward = plain(halves.forward), plain(halves.backward)
    count = len(signature.forward_outputs)
    tensors: list[Primal | Kept] = []
    numbers: list[Primal | Kept] = []
    for node, source in zip(parts.backward.inputs, parts.backward_inputs, strict=True):
        if not isinstance(source, Tangent):
            (tensors if isinstance(info(node).value, Tensor) else numbers).append(source)
    read_tensors, read_numbers = reader(tensors, parts), reader(numbers, parts)
    flowing = [source.output for source in signature.inputs if isinstance(source, Tangent)]
    still = [
        k
        for k, (node, flows) in enumerate(zip(parts.forward.outputs, signature.differentiable, strict=False))
        if not flows and isinstance(info(node).value, Tensor)
    ]
    layouts = [Layout.of(info(parts.forward.outputs[k]).value) for k in flowing]
    gradients = [output.index for output in signature.outputs if isinstance(output, GradientOf)]
    assert gradients == list(range(len(parts.captured.inputs)))

    class Backward(torch.autograd.Function):
        """The backward half where the caller asked for a graph of it (create_graph=True): it has no second one."""

        @staticmethod
        def forward(ctx: Any, *values: Any) -> tuple[Any, ...]:
            return run_backward(values)

        @staticmethod
        def backward(ctx: Any, *tangents: Any) -> Any:
            raise RuntimeError(DOUBLE_BACKWARD)

    class Joined(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            values = [unviewed(value) for value in run_forward(inputs)]
            ctx.save_for_backward(*read_tensors(inputs, values))
            ctx.numbers = read_numbers(inputs, values)
            ctx.layouts = [layout.at(values[k]) for layout, k in zip(layouts, flowing, strict=True)]
            ctx.set_materialize_grads(False)
            if still:
                ctx.mark_non_differentiable(*(values[k] for k in still))
            return tuple(values[:count])

        @staticmethod
        def backward(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
            laid_out = [fit(tangents[k], layout) for k, layout in zip(flowing, ctx.layouts, strict=True)]
            values = (*ctx.saved_tensors, *ctx.numbers, *laid_out)
            found = Backward.apply(*values) if torch.is_grad_enabled() else run_backward(values)
            return tuple(g if needed else None for g, needed in zip(found, ctx.needs_input_grad, strict=True))

    apply = applying(Joined)
    if parts.captured.grad_enabled:
        return lambda inputs: apply(*inputs)
    # The graph is entered with grad mode off and switches it on: which outputs have gradients is known from the trace.
    recording = torch.enable_grad()(apply)
    return lambda inputs: recording(*inputs)


def applying(function: type[torch.autograd.Function]) -> Callable[..., tuple[Any, ...]]:
    """`function.apply`; outside torch.func's transforms without what it does for those, a sixth of a small call."""
    plain_apply: Callable[..., tuple[Any, ...]] = super(torch.autograd.Function, function).apply  # type: ignore[misc]
    transformed = torch._C._are_functorch_transforms_active

    def apply(*inputs: Any) -> tuple[Any, ...]:
        return function.apply(*inputs) if transformed() else plain_apply(*inputs)  # type: ignore[no-any-return]

    return apply


def unviewed(value: Any) -> Any:
    """A tensor that is no view to autograd: a view made inside a Function can neither be written by the caller nor be
    unpacked from the saved ones once its base is written."""
    return value.detach() if isinstance(value, Tensor) and value._is_view() else value


def reader(sources: Sequence[Any], parts: Partitioned) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """A function from a call's inputs and the forward half's outputs to the values that `sources` name."""
    places = [(True, s.index) if isinstance(s, Primal) else (False, parts.kept_at[s.id]) for s in sources]
    return lambda inputs, values: [inputs[at] if is_input else values[at] for is_input, at in places]


class Layout:
    """Shape, strides, dtype and device of an incoming gradient, as the backward half expects it.

    They are those of the forward output it belongs to, contiguous where that one is not dense.
    """

    def __init__(self, shape: tuple[int, ...], stride: tuple[int, ...] | None, dtype: torch.dtype, device: Any) -> None:
        self.shape, self.stride, self.dtype, self.device = shape, stride, dtype, device

    @staticmethod
    def of(value: Tensor) -> Layout:
        """The layout of a traced output; without numbers where its sizes are symbols."""
        expected = torch.empty_like(value)
        dense = expected.stride() == value.stride()
        if any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())):
            return Layout((), () if dense else None, value.dtype, value.device)
        return Layout(tuple(value.shape), tuple(expected.stride()), value.dtype, value.device)

    def at(self, output: Tensor) -> Layout:
        """This layout with numbers, those of a call's own output where they are not known when compiling."""
        if self.shape or not output.dim():
            return self
        stride = output.stride() if self.stride is not None else contiguous(output.shape)
        return Layout(tuple(output.shape), tuple(stride), self.dtype, self.device)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def fit(tangent: Tensor | None, layout: Layout) -> Tensor:
    """The incoming gradient in the expected layout; zeros where none came."""
    assert layout.stride is not None
    if tangent is None:
        return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype, device=layout.device).zero_()
    if tangent.stride() == layout.stride:
        return tangent
    if all(n == 1 or s == t for n, s, t in zip(layout.shape, tangent.stride(), layout.stride, strict=True)):
        return tangent
    made = torch.empty_strided(layout.shape, layout.stride, dtype=tangent.dtype, device=tangent.device)
    return made.copy_(tangent)


def finished(plan: Traced | Partitioned, run: Half) -> Call:
    """`run`, then the writes that autograd sees, then the results the caller expects."""
    signature = plan.signature
    returning = Returning(signature)
    if returning.as_is and not signature.mutations and not signature.restrides:
        return lambda *inputs: run(inputs)
    writing = Writing(signature)

    def call(*inputs: Any) -> tuple[Any, ...]:
        values = run(inputs)
        writing(inputs, values)
        return returning(inputs, values)

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

    def run(*inputs: Any) -> tuple[Any, ...]:
        if any(inputs[again] is not inputs[first] for again, first in repeats) or overlaps(inputs, written, others):
            return eager()(*inputs)  # type: ignore[no-any-return]
        return call(*inputs)

    return run


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
        kept = [s for s in plan.saved if s.fate == "kept"]
        lines.append(Line(f"  saved for backward: {len(kept)} values, {sum(s.bytes for s in kept):,} bytes"))
    return Text(tuple(lines))
