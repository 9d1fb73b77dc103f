"""Eager's autograd graph: who made each grad_fn, so that backward operations name the forward call that caused them,
and which gradients come from which outputs.

AOTAutograd: traced_function_transforms.py and graph_compile's use of `seq_nr`; here the origin itself travels. A set
of tangents is a number: bit k stands for the k-th one.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from explorer.compiler.autograd import reasons
from explorer.core.origin import Origins, origin, origins, synthetic
from explorer.core.reasons import Unsupported, Why
from explorer.ir.graph import Graph, computed_from, needed_by, storage_of
from explorer.ir.joint import GradFn, GradFnGraph, Partitioned, Traced

ORIGIN = "origin"
CHECKS_GRADIENTS = frozenset({"LinalgEighBackward0", "LinalgEigBackward0", "LinalgSvdBackward0"})
"""Of complex results these look at the values of the gradients, and may refuse them. By name, as the two below: torch
has no other mark of how a grad_fn computes."""
SHARES_EVENLY = frozenset({"MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"})
"""What shares a gradient evenly among the elements that equal the result."""
DIVIDES_BY_FACTORS = frozenset({"ProdBackward0", "ProdBackward1"})
"""What divides the result by each factor, unless one is zero."""
VIEWS = re.compile(r"(Sum|T|Transpose|Permute|Squeeze|Unsqueeze|View|UnsafeView|ReshapeAlias|Movedim)Backward\d")
"""What gives a view of the gradient that it gets."""
ACCUMULATION = synthetic("gradient accumulation")


class Attribution:
    """Tells each grad_fn its origin right after the forward operation that made it, and enters that origin whenever
    the grad_fn runs. Between two grad_fns the engine adds gradients up: the ambient origin there is ACCUMULATION.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        self._running: list[AbstractContextManager[None]] = []

    def attribute(self, values: Iterable[Any]) -> None:
        """Give the ambient origin to every grad_fn behind `values` that has none yet."""
        ids = origins()
        values = list(values)
        pending = [value.grad_fn for value in values if value.grad_fn is not None]
        checking = sorted({grad_fn.name() for grad_fn in pending} & CHECKS_GRADIENTS)
        if checking and any(value.is_complex() for value in values):
            raise Unsupported(Why(reasons.CHECKS_VALUES, checking[0]))
        while pending:
            grad_fn = pending.pop()
            if id(grad_fn) in self._seen:
                continue
            self._seen[id(grad_fn)] = grad_fn
            grad_fn.metadata[ORIGIN] = ids
            grad_fn.register_prehook(functools.partial(_enter, self._running, ids))
            if grad_fn.name() in DIVIDES_BY_FACTORS:
                over = (grad_fn._saved_dim, grad_fn._saved_keepdim) if "1" in grad_fn.name() else None
                saved = grad_fn._saved_self, grad_fn._saved_result
                grad_fn.register_hook(functools.partial(_divided, *saved, over))
            if grad_fn.name() in SHARES_EVENLY:
                grad_fn.register_hook(functools.partial(_shared_evenly, grad_fn._saved_self, grad_fn._saved_result))
            grad_fn.register_hook(functools.partial(_leave, self._running))
            pending += [following for following, _ in grad_fn.next_functions if following is not None]


# Hooks, which do not keep the Attribution: it keeps their grad_fns, and a collector does not see what hooks keep.


def _enter(running: list[AbstractContextManager[None]], ids: Origins, _: object) -> None:
    entered = origin(*ids)
    entered.__enter__()
    running.append(entered)


def _leave(running: list[AbstractContextManager[None]], *_: object) -> None:
    running.pop().__exit__(None, None, None)


def _shared_evenly(
    x: torch.Tensor, result: torch.Tensor, made: tuple[torch.Tensor | None, ...], given: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor | None, ...] | None:
    """What eager computes on a CPU: of fake tensors autograd multiplies the gradient with a mask, which makes a NaN of
    zero times an infinity."""
    if x.device.type != "cpu" or made[0] is None:
        return None
    hit = (x == result) | (x.isnan() & result.isnan())
    return (torch.where(hit, given[0] / hit.sum(), 0),)


def _divided(
    x: torch.Tensor,
    result: torch.Tensor,
    over: tuple[int, bool] | None,
    made: tuple[torch.Tensor | None, ...],
    given: tuple[torch.Tensor, ...],
) -> tuple[torch.Tensor | None, ...] | None:
    """What eager computes: of fake tensors autograd multiplies the other factors always, and no NaN or infinity comes
    of the quotient then. `over`: a dimension, as an unsigned number, and whether it is kept."""
    if made[0] is None or not x.dim():
        return None
    if over is not None and not over[1]:
        dim = ctypes.c_int64(over[0]).value
        result, given = result.unsqueeze(dim), (given[0].unsqueeze(dim),)
    zeros = (x == 0).sum()
    several = made[0] if over is not None else torch.where(zeros > 1, 0, made[0])
    return (torch.where(zeros == 0, given[0] * (result / x).conj(), several),)


def record(
    outputs: Iterable[torch.Tensor],
    edges: Mapping[int, Any],
    made: Mapping[int, int],
    given: Mapping[int, Sequence[torch.Tensor]],
    own: Mapping[int, torch.Tensor],
) -> GradFnGraph:
    """The autograd graph behind `outputs` as data, in the order in which a breadth-first walk meets it. `edges` are the
    gradient edges of the inputs, by index; `made` the identities of the memory of forward outputs, `given` the inputs
    before and after the writes; `own` are the results that the caller gets as tensors of the graph or as views of
    such."""
    named: dict[int, str] = {}
    counts: Counter[str] = Counter()
    order: list[Any] = []

    def name(grad_fn: torch.autograd.graph.Node) -> str:
        if id(grad_fn) not in named:
            kind = grad_fn.name().rpartition("::")[2]
            counts[kind] += 1
            named[id(grad_fn)] = f"grad.{kind}" if counts[kind] == 1 else f"grad.{kind}_{counts[kind] - 1}"
            order.append(grad_fn)
        return named[id(grad_fn)]

    heads = tuple(name(torch.autograd.graph.get_gradient_edge(output).node) for output in outputs)
    nodes = []
    viewed: set[int] = set()
    places = {i: {storage_of(value) for value in values} for i, values in given.items()}
    for grad_fn in order:
        inputs = tuple(name(following) for following, _ in grad_fn.next_functions if following is not None)
        kind = grad_fn.name().rpartition("::")[2]
        saved = saves(grad_fn)
        attributes = tree_leaves(list(getattr(grad_fn, "__dict__", {}).values()))  # of a custom Function
        tensors = [each for each in (*saved, *attributes) if isinstance(each, torch.Tensor)]
        kept = {memory_of(each) for each in tensors}
        outputs_kept = tuple(k for k, identity in made.items() if identity in kept)
        inputs_kept = tuple(i for i, identities in places.items() if not identities.isdisjoint(kept))
        viewed.update(i for i in inputs_kept for each in tensors if is_view_of(each, places[i], given[i][0]))
        ids, taken = grad_fn.metadata.get(ORIGIN, ()), len(grad_fn._input_metadata)
        nodes.append(GradFn(named[id(grad_fn)], kind, ids, inputs, bool(saved), outputs_kept, inputs_kept, taken))
    leaving = {index: named[id(edge.node)] for index, edge in edges.items() if id(edge.node) in named}
    arriving = {i: id(torch.autograd.graph.get_gradient_edge(value).node) for i, value in own.items()}
    results = {i: named[grad_fn] for i, grad_fn in arriving.items() if grad_fn in named}
    return GradFnGraph(tuple(nodes), heads, leaving, results, frozenset(viewed))


def is_view_of(value: torch.Tensor, memory: set[int], source: torch.Tensor) -> bool:
    """Whether it lies in the memory as a view of the source, which is there, and not as the source itself."""
    alike = value.shape == source.shape and value.stride() == source.stride()
    return memory_of(value) in memory and not alike


def saves(grad_fn: object) -> list[torch.Tensor]:
    """The tensors that a grad_fn keeps for its backward."""
    kind: Any = type(grad_fn)
    saved = (saved for name in saving(kind) for saved in several(getattr(grad_fn, name)))
    return [data for each in saved if (data := each.data) is not None]


def memory_of(value: torch.Tensor) -> int:
    functional = torch._is_functional_tensor(value)
    return storage_of(torch._from_functional_tensor(value) if functional else value)


@functools.cache
def saving(kind: type) -> tuple[str, ...]:
    """The attributes of a class of grad_fns that hold what it saves."""
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def several(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class Routes:
    """`all`: every tangent. `sources`: per input of the captured graph, the tangents that its gradient comes from.
    `outputs` and `given`: by the index of each forward output and input that eager keeps, those for which it is read.

    A set of ends of gradients is a number too: a bit for each input, and above those a bit for each result that the
    caller gets. `reach` has the ends below each tangent's grad_fn. `at_once`: every gradient goes through one grad_fn
    that saves something, so that after one backward none is possible.
    """

    def __init__(self, parts: Traced | Partitioned) -> None:
        eager = parts.eager_backward
        self._count = len(parts.captured.inputs)
        above = reaching(eager.heads, {node.id: node.inputs for node in eager.nodes})
        below = self._below(eager)
        self.outputs: dict[int, int] = defaultdict(int)
        self.given: dict[int, int] = defaultdict(int)
        for node in eager.nodes:
            for found, indices in ((self.outputs, node.outputs), (self.given, node.given)):
                for index in indices:
                    found[index] |= above[node.id]
        self.all = (1 << len(eager.heads)) - 1
        self.inputs = (1 << self._count) - 1
        self.sources = [above.get(eager.edges.get(index, ""), 0) for index in range(self._count)]
        self.reach = [below[head] for head in eager.heads]
        self.under = {index: below[id] for index, id in eager.results.items()}
        inside = {node.id for node in eager.nodes if node.saves and below[node.id]}.difference(eager.edges.values())
        self._saving = sorted({(above[id], below[id]) for id in inside})
        self.at_once = any(
            all(above == self.all and below & r == r for r in self.reach) for above, below in self._saving
        )
        self.run = functools.cache(self._run)
        self.left = functools.cache(self._left)
        into: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for node in eager.nodes:
            for following in node.inputs:
                into[following].append((above[node.id], VIEWS.fullmatch(node.name) is not None))
        sums = {i: into[edge] for i, edge in eager.edges.items() if len(into[edge]) > 1}
        self._sums = {i: addends for i, addends in sums.items() if any(is_view for _, is_view in addends)}

    def _below(self, eager: GradFnGraph) -> dict[str, int]:
        """Per grad_fn the ends strictly below it, and itself where it is an input's."""
        users: dict[str, list[str]] = defaultdict(list)
        for node in eager.nodes:
            for following in node.inputs:
                users[following].append(node.id)
        ends: dict[str, int] = defaultdict(int)
        for index, id in eager.edges.items():
            ends[id] |= 1 << index
        for index, id in eager.results.items():
            for user in users[id]:
                ends[user] |= self.end(index)
        return _gathered(ends, users)

    def alone(self, tangents: int) -> dict[int, bool]:
        """The inputs whose gradient is a sum, for these tangents of one addend, which lies as it does alone; and
        whether that is a view."""
        reached = {i: [is_view for s, is_view in addends if s & tangents] for i, addends in self._sums.items()}
        return {i: views[0] for i, views in reached.items() if len(views) == 1}

    def end(self, result: int) -> int:
        return 1 << self._count + result

    def _run(self, tangents: int, ends: int) -> int:
        """Those that save something, of the grad_fns that run in a backward from `tangents` to `ends`, as a set."""
        return sum(1 << k for k, (above, below) in enumerate(self._saving) if above & tangents and below & ends)

    def _left(self, spent: int) -> dict[int, int]:
        """The tangents from which a backward is still possible where the grad_fns `spent` have run, and to which ends.
        Of a tangent whose grad_fns all have run nothing is kept."""
        found = {}
        for k, reach in enumerate(self.reach):
            saving = [(1 << j & spent, below) for j, (above, below) in enumerate(self._saving) if above >> k & 1]
            if not saving or not all(ran for ran, _ in saving):
                found[1 << k] = reach & ~functools.reduce(int.__or__, (below for ran, below in saving if ran), 0)
        return {tangent: ends for tangent, ends in found.items() if ends}


def reaching(heads: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Per grad_fn the tangents that reach it."""
    found: dict[str, int] = defaultdict(int)
    for k, head in enumerate(heads):
        found[head] |= 1 << k
    return _gathered(found, inputs)


def _gathered(found: dict[str, int], following: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """`found`, with what each has given to all that follow it."""
    waiting = Counter(each for several in following.values() for each in several)
    ready = [id for id in following if not waiting[id]]
    while ready:
        id = ready.pop()
        for each in following.get(id, ()):
            found[each] |= found[id]
            waiting[each] -= 1
            if not waiting[each]:
                ready.append(each)
    return found


def below(eager: GradFnGraph) -> list[tuple[list[int], list[int], list[int]]]:
    """Per tangent the results that its gradient flows through and the inputs where it arrives: the next of both, and
    all such results."""
    nodes = {node.id: node for node in eager.nodes}
    results: dict[str, list[int]] = defaultdict(list)
    for index, id in eager.results.items():
        results[id].append(index)
    passed = {id for id, found in results.items() if len(found) < nodes[id].results}  # by gradients of other results

    def reached(head: str, ends: Container[str]) -> dict[str, None]:
        seen, pending = dict.fromkeys(nodes[head].inputs), [*nodes[head].inputs]
        while pending:
            if (id := pending.pop()) not in ends:
                new = [each for each in nodes[id].inputs if each not in seen]
                seen.update(dict.fromkeys(new))
                pending += new
        return seen

    def at(ids: Iterable[str]) -> list[int]:
        return [index for id in ids for index in results.get(id, ())]

    found = []
    for head in eager.heads:
        direct = reached(head, results.keys() - passed)
        found.append((at(direct), [i for i, edge in eager.edges.items() if edge in direct], at(reached(head, ()))))
    return found


def without(
    backward: Graph,
    values: Sequence[object],
    first: int,
    absent: int,
    before: Mapping[fx.Node, torch.Tensor],
    recomputed: Collection[fx.Node] = (),
) -> tuple[Any, ...]:
    """The backward half run operator by operator on `values`, in which zeros stand for the `absent` tangents; these
    begin at place `first`. What comes from absent ones alone is zero, also where it is multiplied by an infinity.
    `before` are inputs as they were in the forward, which is what is `recomputed` of it reads."""
    found: dict[fx.Node, Any] = dict(zip(backward.inputs, values, strict=True))
    flowing: dict[fx.Node, bool] = {n: not absent >> k & 1 for k, n in enumerate(backward.inputs[first:])}

    def given(node: fx.Node) -> Any:
        value = found[node]
        return torch.zeros_like(value) if flowing.get(node) is False and isinstance(value, torch.Tensor) else value

    def then(node: fx.Node) -> Any:
        return before[node] if node in before else given(node)

    for node in backward.graph.nodes:
        if node.op == "get_attr":
            found[node] = backward.constants[str(node.target)]
        elif node.op == "call_function":
            sources = [flowing[n] for n in node.all_input_nodes if n in flowing]
            if sources:
                flowing[node] = any(sources)
            if node.target is torch.ops.aten.add.Tensor and sorted(sources) == [False, True] and not node.kwargs:
                there, other = sorted(node.all_input_nodes, key=flowing.__getitem__, reverse=True)
                if found[there].shape == found[other].shape:  # no infinity times the 1 of `alpha`, which has NaNs
                    found[node] = found[there]
                    continue
            reads = then if before and node in recomputed else given
            args, kwargs = fx.map_arg((node.args, node.kwargs), reads)
            found[node] = node.target(*args, **kwargs)
    return tuple(given(n) if isinstance(n, fx.Node) else n for n in backward.outputs)


def read_from(backward: Graph, first: int, tangents: int, ends: int) -> frozenset[int]:
    """The inputs of the backward half that it reads for the gradients `ends` of `tangents`, whose own places begin at
    `first`: not what only a gradient of others is computed from, which is zero then."""
    inputs = backward.inputs
    nodes = [node for node in backward.graph.nodes if node.op != "output"]
    flowing = computed_from(nodes, [n for k, n in enumerate(inputs[first:]) if tangents >> k & 1])
    zero = computed_from(nodes, inputs[first:]).keys() - flowing
    wanted = [node for k, node in enumerate(backward.outputs) if ends >> k & 1 and node in flowing]
    needed = needed_by(wanted, zero)
    return frozenset(k for k, node in enumerate(inputs[:first]) if node in needed)
