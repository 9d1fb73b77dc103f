"""What a call leaves for its backward, and the backward: all of it compiled, or as much as the caller asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from explorer.compiler.autograd.routes import Routes, read_from, without
from explorer.compiler.autograd.second import MODIFIED, Again, Facts, version
from explorer.ir.graph import info
from explorer.ir.joint import GradientOf, Kept, Partitioned, Primal, Tangent

TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class Backward:
    """The backward of one compiled graph. `ctx` is that of a call's autograd.Function.

    `ctx.spent` are the tangents whose backward freed what it needed; `ctx.rest` is what is left for the others.
    """

    def __init__(self, parts: Partitioned, run: Callable[[Sequence[Any]], tuple[Any, ...]]) -> None:
        self._parts = parts
        self._run = run
        signature = parts.signature
        tensors: list[Primal | Kept] = []
        numbers: list[Primal | Kept] = []
        for node, source in zip(parts.backward.inputs, parts.backward_inputs, strict=True):
            if not isinstance(source, Tangent):
                (tensors if isinstance(info(node).value, Tensor) else numbers).append(source)
        self._tensors, self._numbers = reader(tensors, parts), reader(numbers, parts)
        self._count, self._first = len(tensors), len(tensors) + len(numbers)
        self._flowing = [source.output for source in signature.inputs if isinstance(source, Tangent)]
        self._layouts = [Layout.of(info(parts.forward.outputs[k]).value) for k in self._flowing]
        gradients = [output.index for output in signature.outputs if isinstance(output, GradientOf)]
        assert gradients == list(range(len(parts.captured.inputs)))
        self._routes = Routes(parts)
        saved = [source.index for source in tensors if isinstance(source, Primal)]
        assert tensors[: len(saved)] == [Primal(index) for index in saved], "inputs are saved first"
        self.again = Again(parts, saved)
        self._inputs = len(saved)
        stored = {parts.kept_at[source.id] for source in tensors if isinstance(source, Kept)}
        self._watched = [k for k in parts.eager_backward.kept if k not in stored]
        """Outputs that eager saves and this backward does not: saved for autograd to see that nobody writes them."""
        self._cloned = (None,) * len(self.again.before)

    def remember(self, ctx: Any, inputs: Sequence[Any], before: Sequence[Tensor]) -> None:
        ctx.packed = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        ctx.again = self.again.remember(inputs, before, ctx.packed)

    def save(self, ctx: Any, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """`values` are the forward half's outputs."""
        saved = self._tensors(inputs, values)
        if ctx.packed:
            saved += [inputs[i] for i in self.again.read]
        saved += [values[k] for k in self._watched]
        ctx.save_for_backward(*saved)
        ctx.numbers = self._numbers(inputs, values)
        ctx.layouts = [layout.at(values[k]) for layout, k in zip(self._layouts, self._flowing, strict=True)]
        ctx.spent = 0

    def __call__(self, ctx: Any, tangents: Sequence[Tensor | None]) -> tuple[Any, ...]:
        given = [tangents[k] for k in self._flowing]
        came, wanted = self._routes.all, list(ctx.needs_input_grad)
        if None in given:
            came = sum(1 << k for k, tangent in enumerate(given) if tangent is not None)
            wanted = [need and bool(s & came) for need, s in zip(wanted, self._routes.sources, strict=False)]
        saved = self._saved(ctx, came)
        if torch.is_grad_enabled():
            indices = [i for i in range(len(self._routes.sources)) if wanted[i]]
            outputs = {k: tangent for k, tangent in zip(self._flowing, given, strict=True) if tangent is not None}
            known = (*saved[: self._inputs], *saved[self._count :])
            by_index = self.again.gradients(ctx.again, known, indices, outputs)
            found: Sequence[Any] = [by_index.get(i) for i in range(len(self._routes.sources))]
        else:
            found = self._gradients((*saved[: self._count], *ctx.numbers), given, ctx.layouts, came)
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self._free(ctx, saved, came)
        return (*(g if needed else None for g, needed in zip(found, wanted, strict=False)), *self._cloned)

    def _gradients(
        self, values: tuple[Any, ...], given: Sequence[Tensor | None], layouts: Sequence[Layout], came: int
    ) -> Sequence[Any]:
        absent = self._routes.all & ~came
        if not all(t is None or (type(t) is Tensor and torch._C._has_storage(t)) for t in given):  # batched, say
            laid_out = [layout.zeros() if t is None else t for t, layout in zip(given, layouts, strict=True)]
            return without(self._parts.backward, (*values, *laid_out), self._first, absent)
        values = (*values, *(fit(t, layout) for t, layout in zip(given, layouts, strict=True)))
        found = self._run(values)
        if absent:
            both = [g for g, s in zip(found, self._routes.sources, strict=True) if s & came and s & absent]
            if not all(bool(g.isfinite().all()) for g in both if g is not None):  # zeros times infinities, perhaps
                return without(self._parts.backward, values, self._first, absent)
        return found

    def _saved(self, ctx: Any, came: int) -> Sequence[Any]:
        if not ctx.spent:
            return ctx.saved_tensors if self._count or self._watched or ctx.packed else ()
        if self._routes.freed(came, ctx.spent):
            raise RuntimeError(TWICE)
        if any(version(tensor) != expected for tensor, expected in ctx.rest if expected is not None):
            raise RuntimeError(MODIFIED)
        return [value.zeros() if isinstance(value, Facts) else value for value, _ in ctx.rest]

    def _free(self, ctx: Any, saved: Sequence[Tensor], came: int) -> None:
        """Let go of what no further backward can need: eager frees what each grad_fn saved when it has run."""
        ctx.spent |= came
        left = self._routes.left(ctx.spent)
        if not left:
            ctx.rest = ctx.again = None
            return
        watched = range(len(saved) - len(self._watched), len(saved))
        needed = read_from(self._parts.backward, self._first, left).union(watched)
        read = len(self.again.read) if ctx.packed else 0
        inputs = {*range(self._inputs), *range(self._count, self._count + read)}
        ctx.rest = [
            (t if k in inputs else t.detach(), version(t)) if k in needed or k in inputs else (Facts(t), None)
            for k, t in enumerate(saved)
        ]


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

    def zeros(self) -> Tensor:
        assert self.stride is not None
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device).zero_()


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
        return layout.zeros()
    if tangent.is_conj() or tangent.is_neg():
        tangent = tangent.resolve_conj().resolve_neg()
    if tangent.stride() == layout.stride:
        return tangent
    if all(n == 1 or s == t for n, s, t in zip(layout.shape, tangent.stride(), layout.stride, strict=True)):
        return tangent
    made = torch.empty_strided(layout.shape, layout.stride, dtype=tangent.dtype, device=tangent.device)
    return made.copy_(tangent)
