"""What a call leaves for its backward, and the backward: all of it compiled, or as much as the caller asks for.

Where a caller asks for a graph of the backward (second derivatives), the captured graph runs again under autograd: the
compiled backward is a program, not something that autograd can differentiate; eager's own operators are.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch._prims_common import make_contiguous_strides_for
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import GradientEdge

from explorer.compiler.autograd.grad_functions import Routes, below, read_from, without
from explorer.compiler.autograd.layouts import laid_out_as
from explorer.ir.graph import Graph, info, is_random, needed_by, version
from explorer.ir.joint import Base, GradientOf, GraphOutput, NewValue, Partitioned, Primal, Result, SavedValue, Tangent
from explorer.ir.settings import generators, in_force, restored, set_generators, skip_frames

Context = Any
"""What autograd keeps of a call of a function: it has whatever attributes it is given."""


def check_version(x: Tensor, expected: int | None, made_by: str) -> None:
    """Raise eager's error where a tensor was written since it was saved: SavedVariable::unpack, saved_variable.cpp."""
    if (at := version(x)) != expected:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{x.type()} {list(x.shape)}]{made_by} is at version {at}; expected version {expected} instead."
            + hint_of_refusals(torch.is_anomaly_enabled())
        )


@functools.cache
def hint_of_refusals(anomaly: bool) -> str:
    """What torch adds, which depends on its release and mode."""
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros((), device="cpu", requires_grad=True).exp()
        saving = x.grad_fn
        x.zero_()
        try:
            return str(operator.attrgetter("_saved_result")(saving))
        except RuntimeError as error:
            return str(error).partition(" instead.")[2]


def maker_of(x: Tensor) -> str:
    return f", which is output {x.output_nr} of {x.grad_fn.name()}," if x.grad_fn is not None else ""


class Recomputation:
    """What a call has to remember so that its graph can run again, and the second run.

    `saved` are the inputs that the backward half saves anyway. Of the others, `read` are those whose values the
    gradients depend on, and `before` those of them that the call writes, which are cloned before. Of the rest any
    values will do, so that they need not be kept alive.
    """

    def __init__(self, parts: Partitioned, saved: Sequence[int]) -> None:
        self._captured = parts.captured
        self._signature = parts.signature
        self._saved = saved
        inputs = parts.captured.inputs
        tensors = {i for i, node in enumerate(inputs) if isinstance(info(node).value, Tensor)}
        self._written = parts.signature.written
        needed = read_by_gradients(parts) & tensors
        self.before = sorted(needed & self._written)
        self.read = sorted(needed - self._written - set(saved))
        facts = {i for i in tensors - set(self.read) if i in self._written or not is_leaf(inputs[i])}
        self._remembering = [
            nothing if i in saved else Metadata.of if i in facts else itself for i in range(len(inputs))
        ]
        self._settings = in_force()
        traced = (*parts.forward.graph.nodes, *parts.backward.graph.nodes)
        self._random = any(node.op == "call_function" and is_random(node.target) for node in traced)
        self._on_gpu = parts.captured.device.type == "cuda"
        self._module = functools.cache(self._made)

    def _made(self) -> fx.GraphModule:
        """Never captured: where a compiled function asks for this backward, its gradients would have gradients that are
        captured in turn."""
        module = self._captured.module()
        skip_frames(module.forward)
        return module

    def remember(self, inputs: Sequence[Any], before: Sequence[Tensor], packed: bool) -> object:
        """What the second run needs of a call, taken before the first. `packed`: what is `read` is saved by autograd,
        for whose hooks it is."""
        values = [remember(x) for remember, x in zip(self._remembering, inputs, strict=True)]
        for i, clone in zip(self.before, before, strict=True):
            values[i] = clone
        if packed:
            for i in self.read:
                values[i] = None
        return values, [version(inputs[i]) for i in self.read], self._generators()

    def _generators(self) -> object:
        """The states of the random generators, where the call draws from them."""
        return generators(self._on_gpu) if self._random else None

    def gradients(
        self, remembered: Any, saved: Sequence[Tensor], wanted: Sequence[int], outputs: Mapping[int, Tensor]
    ) -> dict[int, Tensor | None]:
        """The gradients of the inputs `wanted`, as differentiable functions of the inputs and of the tangents, which
        `outputs` gives by forward output. `saved` is what autograd saved, in the order of `saved` and `read`."""
        inputs, edges, results = self._rerun(remembered, saved)
        flowing = [(self._output(self._signature.outputs[k], inputs, results), g) for k, g in outputs.items()]
        heads, tangents = zip(*flowing, strict=True)
        found = torch.autograd.grad(heads, [edges[i] for i in wanted], tangents, create_graph=True, allow_unused=True)
        return dict(zip(wanted, found, strict=True))

    def up_to(self, remembered: Any, saved: Sequence[Tensor], what: Later, tangent: Tensor) -> tuple[object, ...]:
        """The gradients that an output's tangent gives the results and the inputs it is computed from: none through
        one of these results."""
        inputs, edges, results = self._rerun(remembered, saved)
        found: dict[int, Tensor] = {}
        head = self._output(self._signature.outputs[what.index], inputs, results)
        keep = torch.is_grad_enabled()
        with contextlib.ExitStack() as hooks:
            for k in what.results:
                stop = functools.partial(_stop, found, k, results[k].output_nr)
                hooks.callback(results[k].grad_fn.register_prehook(stop).remove)
            ends = list(edges.values())
            gradients = torch.autograd.grad(head, ends, tangent, create_graph=keep, allow_unused=True)
        arrived = dict(zip(edges, gradients, strict=True))
        return (*map(found.get, what.results), *map(arrived.get, what.inputs))

    def _rerun(
        self, remembered: Any, saved: Sequence[Tensor]
    ) -> tuple[list[Any], dict[int, GradientEdge], Sequence[Any]]:
        """The inputs of a second run, the edges at which their gradients arrive, and its results."""
        values, versions, state = remembered
        values = list(values)
        for i, value in zip((*self._saved, *self.read), saved, strict=False):
            values[i] = value
        for i, expected in zip(self.read, versions, strict=True):
            check_version(values[i], expected, maker_of(values[i]))
        with torch.enable_grad():
            inputs = [self._given(i, value) for i, value in enumerate(values)]
        for again, first in self._signature.repeats.items():
            inputs[again] = inputs[first]
        tensors = [i for i, value in enumerate(inputs) if isinstance(value, Tensor) and value.requires_grad]
        edges = {i: torch.autograd.graph.get_gradient_edge(inputs[i]) for i in tensors}
        with restored(self._settings), drawing_from(state), torch.set_grad_enabled(self._captured.grad_enabled):
            return inputs, edges, self._module()(*inputs)

    def _given(self, index: int, value: object) -> Any:
        """An input of the second run: another tensor than the caller's, so that its hooks do not run here."""
        if isinstance(value, Metadata):
            value = value.zeros()
        if not isinstance(value, Tensor):
            return value
        if index in self._written:
            return value.clone()
        return value.view_as(value) if value.requires_grad else value

    def _output(self, what: GraphOutput, inputs: Sequence[object], results: Sequence[Any]) -> Tensor:
        """The tensor of the second run that corresponds to a forward output."""
        match what:
            case Result(index):
                found = results[index]
            case NewValue(index):
                found = inputs[index]
            case Base(members):
                view = next(results[i] for i in members if results[i].requires_grad)
                found = view._base if view._is_view() else view
            case _:
                raise TypeError(f"{what} has no tangent")
        assert isinstance(found, Tensor)
        return found


def _stop(
    found: dict[int, Tensor], key: int, place: int, gradients: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    """A hook that takes the gradient of one result of a grad_fn, so that it flows no further."""
    if (gradient := gradients[place]) is not None:
        found[key] = gradient
    return tuple(None if k == place else each for k, each in enumerate(gradients))


@dataclass(frozen=True, slots=True)
class Metadata:
    """A tensor whose values do not matter: what `zeros` needs to make another one."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    @classmethod
    def of(cls, value: Tensor) -> Metadata:
        return cls(value.shape, value.stride(), value.dtype, value.device, value.requires_grad)

    def zeros(self) -> Tensor:
        made = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device).zero_()
        return made.requires_grad_(self.requires_grad)


def itself(value: object) -> object:
    return value


def nothing(value: object) -> None:
    return None


def read_by_gradients(parts: Partitioned) -> set[int]:
    """The inputs of the captured graph that what the backward half reads is computed from."""
    forward = parts.forward.graph
    placeholders = parts.forward.inputs
    kept = {source.id for source in parts.backward_inputs if isinstance(source, SavedValue)}
    read = [node for node in forward.nodes if node.op != "output" and info(node).id in kept]
    read += [placeholders[source.index] for source in parts.backward_inputs if isinstance(source, Primal)]
    found = needed_by(read)
    return {i for i, node in enumerate(placeholders) if node in found}


def is_leaf(node: fx.Node) -> bool:
    value = info(node).value
    return isinstance(value, Tensor) and value.requires_grad and value.is_leaf


@contextlib.contextmanager
def drawing_from(state: Any) -> Iterator[None]:
    """The random generators set to `state` inside a block, as they were after it."""
    if state is None:
        yield
        return
    _, gpu = state
    with torch.random.fork_rng([torch.cuda.current_device()] if gpu is not None else []):
        set_generators(state)
        yield


TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


@dataclass(frozen=True)
class Later:
    """A forward output, by its index, that is computed from results of the call and from inputs; `place` is that of its
    tangent. `watched` are all results that it is computed from, `results` those that no other is in between."""

    index: int
    place: int
    results: list[int]
    inputs: list[int]
    watched: list[int]


class Backward:
    """The backward of one compiled graph. `ctx` is that of a call's autograd.Function.

    `ctx.spent` are the grad_fns of eager that have freed what they saved; `ctx.rest` is what is left for the others.
    `ctx.flowed` are tangents of `later` outputs, by place, with the number of the backward that they came in: None for
    one whose gradient is computed already, and the grad_fns that ran for it and free what they saved.
    """

    def __init__(self, parts: Partitioned, run: Callable[[Iterator[Any]], tuple[Any, ...]]) -> None:
        self._parts = parts
        self._run = run
        signature = parts.signature
        tensors: list[Primal | SavedValue] = []
        numbers: list[Primal | SavedValue] = []
        for node, source in zip(parts.backward.inputs, parts.backward_inputs, strict=True):
            if not isinstance(source, Tangent):
                (tensors if isinstance(info(node).value, Tensor) else numbers).append(source)
        self._tensors, self._numbers = reader(tensors, parts), reader(numbers, parts)
        self._count, self._first = len(tensors), len(tensors) + len(numbers)
        self.flowing = [source.output for source in signature.inputs if isinstance(source, Tangent)]
        self._layouts = [GradientLayout.of(info(parts.forward.outputs[k]).value) for k in self.flowing]
        gradients = [output.index for output in signature.outputs if isinstance(output, GradientOf)]
        assert gradients == list(range(len(parts.captured.inputs)))
        self.routes = Routes(parts)
        self.later = later(parts, self.flowing)
        self.first = next((k for k in self.flowing if k not in [each.index for each in self.later]), -1)
        saved = [source.index for source in tensors if isinstance(source, Primal)]
        assert tensors[: len(saved)] == [Primal(index) for index in saved], "inputs are saved first"
        self.again = Recomputation(parts, saved)
        self._inputs = len(saved)
        self._saved_inputs = parts.backward.inputs[: self._inputs]
        stored = {parts.kept_at[source.id] for source in tensors if isinstance(source, SavedValue)}
        self._watched = {k: tangents for k, tangents in self.routes.outputs.items() if k not in stored}
        """Outputs that eager saves and this backward does not, and for which tangents: saved for autograd to see that
        nobody writes them."""
        given = parts.captured.inputs
        moved = {r.index for r in signature.restrides if r.moves_first(info(given[r.index]).value)}
        growth = {i: writes for i, writes in signature.versions.items() if i not in moved}
        self._seen = [(i, growth.get(i, 0), s) for i, s in sorted(self.routes.given.items()) if i not in saved]
        """Inputs likewise, and by how much the call raises their versions from here on. Their memory is not kept."""
        self._viewed = {k for k, index in enumerate(saved) if index in parts.eager_backward.viewed}
        nodes = (node for node in parts.forward.graph.nodes if node.op != "output")
        forward = {info(node).id for node in nodes}
        self._recomputed = [n for n in parts.backward.graph.nodes if n.op == "call_function" and info(n).id in forward]
        self._read_for = functools.cache(functools.partial(read_from, parts.backward, self._first))
        self._like = functools.lru_cache(functools.partial(like_without, parts.backward, self._first))
        self.leaf = (LEAF,) if self.later or len(self.flowing) > 1 else ()
        """What the function gets after its inputs. A hook of the grad_fn of a single output would count it."""
        self._cloned = (None,) * (len(self.again.before) + len(self.leaf))
        self._at_once = not self.leaf and self.routes.at_once
        self._with_edges = [i for i, n in enumerate(parts.captured.inputs) if isinstance(info(n).value, Tensor)]

    def remember(self, ctx: Context, inputs: Sequence[Any], before: Sequence[Tensor]) -> None:
        ctx.packed = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        ctx.again = self.again.remember(inputs, before, ctx.packed)
        versions = ((inputs[i], version(inputs[i]), growth, s) for i, growth, s in self._seen)
        ctx.seen = [(counter_of(x), at + growth, s, maker_of(x)) for x, at, growth, s in versions if at is not None]

    def save(self, ctx: Context, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """`values` are the forward half's outputs."""
        saved = self._tensors(inputs, values)
        if ctx.packed:
            saved += [inputs[i] for i in self.again.read]
        saved += [values[k] for k in self._watched]
        if ctx.packed or len(self.flowing) == 1:
            ctx.rest = None
            ctx.save_for_backward(*saved)
        else:  # autograd would look at all of it, for a gradient that needs a part
            ctx.rest = self._with_versions([each for each in saved if isinstance(each, Tensor)])
        inputs_saved: Sequence[Any] = () if ctx.packed else saved[: self._inputs]
        ctx.memory = [(x.untyped_storage(), x.storage_offset()) for x in inputs_saved]
        ctx.numbers = self._numbers(inputs, values)
        ctx.layouts = [layout.at(values[k]) for layout, k in zip(self._layouts, self.flowing, strict=True)]
        ctx.spent, ctx.flowed = 0, {}

    def __call__(self, ctx: Context, tangents: Sequence[Tensor | None]) -> tuple[object, ...]:
        given = [tangents[k] for k in self.flowing]
        done, ends = 0, self.asked_inputs(ctx)
        if self.later:
            task = torch._C._current_graph_task_id()
            for place, (at, tangent, ran) in ctx.flowed.items():
                given[place] = tangent if at == task else None
                done |= ran
            ctx.flowed = {}
        came, wanted = self.routes.all, list(ctx.needs_input_grad)
        if None in given or ends != self.routes.inputs:
            flows = (t is not None and bool(r & ends) for t, r in zip(given, self.routes.reach, strict=True))
            came = sum(1 << k for k, flowing in enumerate(flows) if flowing)
            sources = enumerate(self.routes.sources)
            wanted = [wanted[i] and bool(s & came) and bool(ends >> i & 1) for i, s in sources]
        if not came:
            if not torch._C._autograd._get_current_graph_task_keep_graph():
                ctx.spent |= done
                self._keep(ctx)
            return (None,) * len(ctx.needs_input_grad)
        saved, stale = self._saved(ctx, came, ends)
        done |= self.routes.run(came, ends)
        for counter, expected, s, made_by in ctx.seen:
            if s & came:
                check_version(counter, expected, made_by)
        if torch.is_grad_enabled():
            indices = [i for i in range(len(self.routes.sources)) if wanted[i]]
            outputs = {k: tangent for k, tangent in zip(self.flowing, given, strict=True) if tangent is not None}
            by_index = self.again.gradients(ctx.again, self._known(ctx, saved), indices, outputs)
            found: Sequence[object] = [by_index.get(i) for i in range(len(self.routes.sources))]
            self._free(ctx, saved, stale, done)
        else:
            before = self._before(saved, ctx.memory)
            self._free(ctx, saved, stale, done)
            values = [*saved[: self._count], *ctx.numbers]
            del saved
            found = self._gradients(values, given, ctx.layouts, came, before)
        return (*(g if needed else None for g, needed in zip(found, wanted, strict=False)), *self._cloned)

    def asked_inputs(self, ctx: Context) -> int:
        """The inputs whose gradients autograd's engine, which runs, computes, as a set."""
        # No gradient is asked of the leaf: where it gets one, those of all leaves are computed.
        if self._at_once or (runs(LEAF_NODE) if self.leaf else not asked_for()):
            return self.routes.inputs
        edges = zip(self._with_edges, ctx.next_functions, strict=False)
        return sum(1 << i for i, (node, _) in edges if node is not None and runs(node))

    def asked_ends(self, ctx: Context, result: Tensor | None) -> int:
        """`asked_inputs`, and results that are asked for: all ends where it is unknown which, or it is `result`."""
        ends = self.asked_inputs(ctx)
        if runs(LEAF_NODE):
            return ends
        asked = asked_for()
        if asked is None or any(is_gradient_of(each, result) for each in asked):
            return -1
        for k, (x, _) in getattr(ctx, "watched", {}).items():
            ends |= self.routes.end(k) if any(is_gradient_of(each, x()) for each in asked) else 0
        return ends

    def up_to(self, ctx: Context, what: Later, tangent: Tensor, ends: int) -> tuple[object, ...]:
        """What the tangent of a later output gives the results and the inputs that it is computed from."""
        saved, _ = self._saved(ctx, 1 << what.place, ends)
        return self.again.up_to(ctx.again, self._known(ctx, saved), what, tangent)

    def _known(self, ctx: Context, saved: Sequence[Tensor]) -> Sequence[Tensor]:
        """Of what was saved, the inputs for a second run."""
        read = len(self.again.read) if ctx.packed else 0
        return (*saved[: self._inputs], *saved[self._count : self._count + read])

    def _before(self, saved: Sequence[Tensor], memory: Sequence[tuple[torch.UntypedStorage, int]]) -> Lying:
        """The inputs that were given other memory since the forward (`p.data = ...`, `module.double()`), as they were.
        Eager reads them so where a view of them was saved, and the new data where the input itself was."""
        return {
            node: as_it_lay(info(node).value, x, storage, offset)
            for node, x, (storage, offset) in zip(self._saved_inputs, saved, memory, strict=False)
            if x.untyped_storage()._cdata != storage._cdata
        }

    def _gradients(
        self,
        values: list[object],
        given: Sequence[Tensor | None],
        layouts: Sequence[GradientLayout],
        came: int,
        before: Lying,
    ) -> Sequence[object]:
        """Empties `values`, so that the backward holds each alone and frees it after its last use, as eager does."""
        absent = self.routes.all & ~came
        is_plain = all(t is None or (type(t) is Tensor and torch._C._has_storage(t)) for t in given)  # not batched, say
        if before or not is_plain:
            for k, node in enumerate(self._saved_inputs):
                if node in before and k in self._viewed:
                    values[k] = before[node]
            laid_out = [layout.zeros() if t is None else t for t, layout in zip(given, layouts, strict=True)]
            every = (*values, *laid_out)
            return without(self._parts.backward, every, self._first, absent, before, self._recomputed)
        given_now = [*values, *(fit(t, layout) for t, layout in zip(given, layouts, strict=True))]
        values.clear()
        again = tuple(given_now) if absent else ()
        inputs = iter(given_now)
        del given_now  # an iterator at its end lets go of its list
        found = self._run(inputs)
        if not absent:
            return found
        both = [g for g, s in zip(found, self.routes.sources, strict=True) if s & came and s & absent]
        if not all(bool(g.isfinite().all()) for g in both if g is not None):  # zeros times infinities, perhaps
            return without(self._parts.backward, again, self._first, absent, {})
        if not (alone := self.routes.alone(came)):
            return found
        facts = tuple(Metadata.of(each) if isinstance(each, Tensor) else each for each in again)
        like = dict(enumerate(self._like(absent, facts)))
        like |= {i: torch.empty_like(like[i]) for i, is_view in alone.items() if not is_view}
        return [laid_out_as(like[i], g) if i in alone else g for i, g in enumerate(found)]

    def _saved(self, ctx: Context, came: int, ends: int) -> tuple[Sequence[Any], frozenset[int]]:
        """What was saved, and the places of what was written since, which no tangent of `came` needs."""
        if ctx.spent and (ctx.again is None or self.routes.run(came, ends) & ctx.spent):
            raise RuntimeError(TWICE)
        if ctx.rest is None:
            return ctx.saved_tensors if self._count or self._watched or ctx.packed else (), frozenset()
        stale = frozenset(k for k, (x, at) in enumerate(ctx.rest) if at is not None and version(x) != at)
        needed = self._needed({came: ends}, len(ctx.rest))
        if any(isinstance(ctx.rest[k][0], Metadata) for k in needed):
            raise RuntimeError(TWICE)
        for k in stale & needed:
            x, at = ctx.rest[k]
            is_result = k >= self._inputs and (x.is_floating_point() or x.is_complex())
            check_version(x, at, f", which is output 0 of {type(ctx).__name__}," if is_result else maker_of(x))
        return [value.zeros() if isinstance(value, Metadata) else value for value, _ in ctx.rest], stale

    def _with_versions(self, saved: Sequence[Tensor]) -> list[tuple[Tensor, int | None]]:
        return [(t if k < self._inputs else t.detach(), version(t)) for k, t in enumerate(saved)]

    def _keep(self, ctx: Context) -> None:
        """Hold what autograd frees after a backward that eager does not come here in: another may follow. What was
        written meanwhile, autograd refuses to hand out."""
        if ctx.rest is None and not ctx.packed and not ctx.spent:
            with contextlib.suppress(RuntimeError):
                ctx.rest = self._with_versions(ctx.saved_tensors)

    def _needed(self, routes: Mapping[int, int], saved: int) -> frozenset[int]:
        """The places in what is saved of what a backward from such tangents to such ends reads or watches."""
        first, tangents = saved - len(self._watched), functools.reduce(int.__or__, routes)
        watched = (k for k, s in enumerate(self._watched.values(), first) if s & tangents)
        read = (self._read_for(tangents, ends & self.routes.inputs) for tangents, ends in routes.items())
        return frozenset(k for each in read for k in each if k < self._count).union(watched)

    def _free(self, ctx: Context, saved: Sequence[Tensor], stale: frozenset[int], ran: int) -> None:
        """Let go of what no further backward can need: eager frees what each grad_fn saved when it has run."""
        if torch._C._autograd._get_current_graph_task_keep_graph():
            return
        ctx.spent |= ran
        ctx.maybe_clear_saved_tensors()
        left = self.routes.left(ctx.spent)
        if not left:
            ctx.rest = ctx.again = None
            ctx.memory = ()
            return
        needed = self._needed(left, len(saved))
        read = len(self.again.read) if ctx.packed else 0
        inputs = {*range(self._inputs), *range(self._count, self._count + read)}
        versions = [-1 if k in stale else version(t) for k, t in enumerate(saved)]
        ctx.rest = [
            (t if k in inputs else t.detach(), at) if k in needed or k in inputs else (Metadata.of(t), None)
            for k, (t, at) in enumerate(zip(saved, versions, strict=True))
        ]


def like_without(backward: Graph, first: int, absent: int, given: Sequence[object]) -> Sequence[Tensor]:
    """The gradients without the `absent` tangents, as tensors without values; `given` are numbers, and `Metadata`."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        values = [each.zeros() if isinstance(each, Metadata) else each for each in given]
        return without(backward, values, first, absent, {})


Lying = dict[fx.Node, Tensor]


def as_it_lay(traced: Tensor, now: Tensor, storage: torch.UntypedStorage, offset: int) -> Tensor:
    """An input as it was in its memory of then. Where its sizes are symbols they are those of now."""
    sizes, strides = traced.shape, traced.stride()
    if any(isinstance(n, torch.SymInt) for n in (*sizes, *strides)):
        sizes, strides = now.shape, now.stride()
    return torch.empty(0, dtype=traced.dtype, device=traced.device).set_(storage, offset, sizes, strides)


def later(parts: Partitioned, flowing: Sequence[int]) -> list[Later]:
    """The forward outputs that are computed from results which the caller gets, those before them first."""
    found = [Later(flowing[place], place, *each) for place, each in enumerate(below(parts.eager_backward)) if each[2]]
    return sorted(found, key=lambda each: len(each.watched))


class After(torch.autograd.Function):
    """A later output of a call. Its tangent is passed unchanged to the one backward of the call, which gets all
    tangents, unless something reads a gradient before."""

    @staticmethod
    def forward(ctx: Context, made: list[Tensor], of: tuple[Backward, Later], call: object, *_: object) -> Tensor:
        ctx.of, ctx.call = of, call
        ctx.set_materialize_grads(False)
        return made[0]

    @staticmethod
    def backward(ctx: Context, tangent: Tensor | None) -> tuple[object, ...]:
        (back, what), call = ctx.of, ctx.call
        none: tuple[object, ...] = (None,) * 4
        if tangent is None:
            return (*none, *(None,) * (len(what.results) + len(what.inputs)))
        watched = [call.watched[k] for k in what.watched]
        looked_at = any(hooks or (x := each()) is not None and x.retains_grad for each, hooks in watched)
        task = torch._C._current_graph_task_id()
        at, _, ran = call.flowed.get(what.place, (task, None, 0))
        call.spent |= ran if at != task else 0  # of a backward that ended at results
        # Where gradients of some tensors are asked for, this leaf is none of them, and an output may be one.
        ends = back.asked_ends(call, None)
        if looked_at or any(ends & back.routes.end(k) for k in what.watched):
            found = back.up_to(call, what, tangent, ends)
            keep = torch._C._autograd._get_current_graph_task_keep_graph()
            call.flowed[what.place] = task, None, 0 if keep else back.routes.run(1 << what.place, ends)
            return (*none, *found)
        call.flowed[what.place] = task, tangent, 0
        return (*none, *(None,) * (len(what.results) + len(what.inputs)))


def asked_for() -> Sequence[Tensor | GradientEdge] | None:
    """The tensors whose gradients alone a backward computes, from the frame that it runs in: the engine does not say
    it. None where no frame is torch's call of the engine, as on a thread of a card."""
    engine = torch.autograd.graph._engine_run_backward.__code__
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not engine:
        frame = frame.f_back
    if frame is None:
        return None
    given = frame.f_locals["args"]
    return given[3] if len(given) > 3 else None


def is_gradient_of(asked: Tensor | GradientEdge, result: Tensor | None) -> bool:
    """Whether a gradient that is asked for may be that of a result. An edge says nothing of a result that is gone."""
    if isinstance(asked, Tensor):
        return asked is result or (
            result is not None and (asked.grad_fn, asked.output_nr) == (result.grad_fn, result.output_nr)
        )
    return True


with torch.inference_mode(False):  # the first compile may stand anywhere
    LEAF = torch.zeros((), device="cpu", requires_grad=True)
    LEAF_NODE = torch.autograd.graph.get_gradient_edge(LEAF).node


def runs(node: torch.autograd.graph.Node) -> bool:
    """Whether the engine, which runs, computes the gradient that arrives at a grad_fn or goes through it."""
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # a leaf whose gradient is asked for: torch does not answer then
        return True


class Hooks(OrderedDict[int, Callable[[Tensor], Tensor | None]]):
    """The hooks of one output. Autograd runs them where any output of the function has a gradient, and gives them None;
    eager, where this output has one and a gradient that is asked for is computed from it, or is it: `runs` says so."""

    def __init__(self, runs: Callable[[], bool]) -> None:
        super().__init__()
        self._runs = runs

    def __setitem__(self, key: int, hook: Callable[[Tensor], Tensor | None]) -> None:
        @functools.wraps(hook, updated=())
        def where_one_comes(gradient: Tensor | None) -> Tensor | None:
            return hook(gradient) if gradient is not None and self._runs() else None

        super().__setitem__(key, where_one_comes)


def hooks_of(x: Tensor, back: Backward, call: Context, reach: int) -> object:
    """The hooks of an output of a call, those to come as well; `reach` are the ends of its gradient."""
    if x._backward_hooks is None and x.grad_fn is not None:
        held, output = weakref.ref(call), weakref.ref(x)

        def executes() -> bool:
            ctx = held()
            return ctx is None or bool(back.asked_ends(ctx, output()) & reach)

        x._backward_hooks = Hooks(executes)
        x.grad_fn._register_hook_dict(x)
    return x._backward_hooks


def counter_of(x: Tensor) -> Tensor:
    """What counts the writes of an input, also of one that is gone since: a leaf, which its graph keeps alive, or
    another tensor of the same sizes with the same counter and one element of memory."""
    if x.is_leaf and x.requires_grad:
        return x
    counter = x.detach()
    counter.data = x.new_empty(()).expand(x.shape)
    return counter


def reader(sources: Sequence[Any], parts: Partitioned) -> Callable[[Sequence[object], Sequence[object]], list[object]]:
    """A function from a call's inputs and the forward half's outputs to the values that `sources` name."""
    places = [(True, s.index) if isinstance(s, Primal) else (False, parts.kept_at[s.id]) for s in sources]
    return lambda inputs, values: [inputs[at] if is_input else values[at] for is_input, at in places]


class GradientLayout:
    """Shape, strides, dtype and device of an incoming gradient, as the backward half expects it.

    They are those of the forward output it belongs to, contiguous where that one is not dense.
    """

    def __init__(
        self, shape: tuple[int, ...], stride: tuple[int, ...] | None, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.shape, self.stride, self.dtype, self.device = shape, stride, dtype, device

    @staticmethod
    def of(value: Tensor) -> GradientLayout:
        """The layout of a traced output; without numbers where its sizes are symbols."""
        expected = torch.empty_like(value)
        dense = expected.stride() == value.stride()
        if any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())):
            return GradientLayout((), () if dense else None, value.dtype, value.device)
        return GradientLayout(tuple(value.shape), tuple(expected.stride()), value.dtype, value.device)

    def at(self, output: Tensor) -> GradientLayout:
        """This layout with numbers, those of a call's own output where they are not known when compiling."""
        if self.shape or not output.dim():
            return self
        stride = output.stride() if self.stride is not None else make_contiguous_strides_for(output.shape)
        return GradientLayout(tuple(output.shape), tuple(stride), self.dtype, self.device)

    def zeros(self) -> Tensor:
        assert self.stride is not None
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device).zero_()


def fit(tangent: Tensor | None, layout: GradientLayout) -> Tensor:
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
