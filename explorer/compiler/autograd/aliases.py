"""Which results share memory with inputs or with one another, and what a call does around its graph for it: writes that
autograd sees, views rebuilt on their base, inputs that overlap.

AOTAutograd: collect_metadata_analysis.py (OutputType) and functional_utils.py (gen_alias_from_base).
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.utils import _pytree as pytree

from explorer.compiler.autograd import reasons
from explorer.compiler.autograd.layouts import evaluator, inverse, size_weight, stride_order
from explorer.compiler.autograd.tape import JointTape, has_memory, root
from explorer.core.origin import origin
from explorer.core.reasons import Unsupported, Why
from explorer.core.text import count
from explorer.ir import joint
from explorer.ir.graph import Graph, info, is_in_place, set_versions, storage_of, version

aten = torch.ops.aten
DETACH, DATA, ALIAS = (
    joint.ViewStep(each.default, (), {}, None, True, "") for each in (aten.detach, aten.data, aten.alias)
)


@dataclass(frozen=True)
class FinalTensor:
    """A tensor at the end of the traced forward: `seen` carries its autograd state (None: it needs no gradient),
    `node` yields its value."""

    seen: Tensor | None
    node: fx.Node

    @property
    def requires_grad(self) -> bool:
        return self.seen is not None and self.seen.requires_grad


@dataclass(frozen=True)
class AsCaptured:
    """What a result is in eager. `is_view`: of a tensor that may be gone. `is_data`: its writes are not counted."""

    is_view: bool
    is_data: bool


@dataclass(frozen=True)
class Placed:
    """Where the results go: forward outputs with what each is and the tensor whose gradient flows into it (None: a
    number), and how the caller gets each result."""

    outputs: tuple[tuple[joint.Result | joint.Base, fx.Node, Tensor | None], ...]
    returned: tuple[joint.Returned, ...]


def place(
    results: Sequence[Any],
    inputs: Mapping[int, FinalTensor],
    restrided: frozenset[int],
    numbers: Mapping[int, Any],
    live: Any,
    tape: JointTape,
    first: int,
    kinds: Mapping[int, AsCaptured],
) -> Placed:
    """Decide for each of `results` (tensors with autograd state, or anything else) how the caller gets it.

    `inputs` are the inputs after the call, by index; `restrided` those whose shape changed in place. `numbers` gives
    the node, or the constant, of each result that is a size. `live(tensor)` syncs a tensor and gives its Live.
    `first` is the number of the first forward output made here, `kinds` what eager makes of each tensor. Raises
    Unsupported where memory is shared in a way that cannot be replayed.
    """
    outputs: list[tuple[joint.Result | joint.Base, fx.Node, Tensor | None]] = []
    returned: dict[int, joint.Returned] = {}
    given = {id(value.seen): index for index, value in inputs.items()}
    by_root = {root(value.node): index for index, value in inputs.items()}
    lives = {i: live(value) for i, value in enumerate(results) if isinstance(value, Tensor)}
    groups: dict[fx.Node, list[int]] = defaultdict(list)
    earlier: dict[int, int] = {}

    def output(what: joint.Result | joint.Base, node: fx.Node, seen: Tensor | None) -> joint.FromGraph:
        outputs.append((what, node, seen))
        return joint.FromGraph(first + len(outputs) - 1)

    for i, value in enumerate(results):
        if not isinstance(value, Tensor):
            number = numbers.get(i, value)
            computed = isinstance(number, fx.Node)
            returned[i] = output(joint.Result(i), number, None) if computed else joint.PlainConstant(number)
        elif id(value) in given:
            returned[i] = joint.FromInput(given[id(value)])
        elif id(value) in earlier:
            returned[i] = joint.SameAs(earlier[id(value)])
        else:
            earlier[id(value)] = i
            groups[root(lives[i].node)].append(i)

    for memory, members in groups.items():
        if memory in by_root:
            index = by_root[memory]
            if index in restrided:
                raise Unsupported(Why(reasons.RESTRIDED_ALIAS, f"result {members[0]} of input {index}"))
            for i in members:
                returned[i] = rebuilt(lives[i], inputs[index], joint.FromInput(index), tape, kinds[i])
        elif new := [i for i in members if results[i].requires_grad and results[i].grad_fn is None]:
            raise Unsupported(Why(reasons.NEW_LEAF, f"result {new[0]}"))
        elif len(members) == 1 and not is_of_several(lives[members[0]].node, tape) and not is_lazy(results[members[0]]):
            (i,) = members
            returned[i] = made = output(joint.Result(i), lives[i].node, lives[i].seen)
            found = tape.view(lives[i].node)
            if kinds[i].is_view and found is not None:  # what it is of need not be made
                returned[i] = joint.FromView(made, (replace(ALIAS, grad_enabled=found[1].grad_enabled),))
        else:
            base = base_of([lives[i] for i in members], live)
            own = next((i for i in members if lives[i].seen is base.seen), None)
            what = joint.Base(tuple(members)) if own is None else joint.Result(own)
            source = output(what, base.node, base.seen)
            for i in members:
                returned[i] = source if i == own else rebuilt(lives[i], base, source, tape, kinds[i])
    return Placed(tuple(outputs), tuple(returned[i] for i in range(len(results))))


def is_of_several(node: fx.Node, tape: JointTape) -> bool:
    """Whether eager refuses to write it in place, as one of several views that one operator made, or a view of such."""
    while (found := tape.view(node)) is not None and found[1].target is not DETACH.target:
        node, step = found
        if step.item is not None:
            return step.grad_enabled
    return False


def is_lazy(value: Tensor) -> bool:
    """Whether the elements count as the conjugate or the negative of what is in memory."""
    return value.is_conj() or value.is_neg()


def base_of(members: list[FinalTensor], live: Any) -> FinalTensor:
    """The tensor that results sharing memory are rebuilt from: the autograd base of those that require grad, else the
    memory's own node."""
    differentiable = [member.seen for member in members if member.seen is not None and member.seen.requires_grad]
    if not differentiable:
        memory = root(members[0].node)
        own = next((member for member in members if member.node is memory), None)
        return own or FinalTensor(None, memory)
    bases = {id(base): base for base in map(autograd_base, differentiable)}
    if len(bases) > 1:
        raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{count(len(bases), 'base')} of one memory"))
    with origin(*info(members[0].node).origins):
        base: FinalTensor = live(next(iter(bases.values())))
    return base


def autograd_base(value: Tensor) -> Tensor:
    return value._base if value._is_view() and value._base is not None else value


def rebuilt(
    value: FinalTensor, base: FinalTensor, source: joint.FromGraph | joint.FromInput, tape: JointTape, kind: AsCaptured
) -> joint.FromView:
    """The recorded views from `base` to `value`. Raises Unsupported where there is no such chain."""
    steps: list[joint.ViewStep] = []
    node = value.node
    while node is not base.node:
        found = tape.view(node)
        if found is None:
            raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{info(value.node).id} is no view of {info(base.node).id}"))
        node, step = found
        steps.append(step)
    steps.reverse()
    if value.seen is not None and value.seen.grad_fn is not None and any(map(breaks_grad, steps)):
        what = f"{info(value.node).id} was detached from its base and requires grad"
        raise Unsupported(Why(reasons.ALIAS_UNKNOWN, what))
    if value.requires_grad and not base.requires_grad:
        raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{info(value.node).id} requires grad and its base does not"))
    cut = base.requires_grad and not any(breaks_grad(step) for step in steps)
    if kind.is_data or not value.requires_grad and (cut or not steps):  # without a step it would be the very object
        steps.insert(0 if kind.is_view else len(steps), DATA if kind.is_data else DETACH)
    return joint.FromView(source, tuple(steps))


def breaks_grad(step: joint.ViewStep) -> bool:
    return step.target in (DETACH.target, DATA.target) or not step.grad_enabled


def overlapping(written: Sequence[int], fakes: Mapping[int, Tensor]) -> tuple[int, int] | None:
    """The first input of those `written` that may share memory with another, and that one."""
    pairs = ((i, j) for i in written for j in fakes if i != j and overlap(fakes[i], fakes[j]))
    return next(pairs, None)


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two inputs may share memory: same storage, and ranges of it that meet."""
    if storage_of(a) != storage_of(b):
        return False
    (first, last), (start, end) = extent(a), extent(b)
    return not (last < start or end < first)


def extent(value: Tensor) -> tuple[int, int]:
    """The first and last byte of a tensor in its storage, by size hints."""
    at = size_weight(value.storage_offset())
    reach = sum((size_weight(n) - 1) * size_weight(s) for n, s in zip(value.shape, value.stride(), strict=True))
    return at * value.element_size(), (at + reach + 1) * value.element_size() - 1


Values = Sequence[Any]


class Writing:
    """The changes of inputs that remain when the graph has run."""

    def __init__(self, signature: joint.Signature) -> None:
        self._versions = tuple(signature.versions.items())
        self._after = [(m.index, m.output) for m in signature.mutations if m.output is not None]
        self._restrides = [
            (r, len(r.size), evaluator((*r.size, *r.stride, r.offset), signature.symbols)) for r in signature.restrides
        ]

    def versions(self, inputs: Values) -> list[tuple[Tensor, int]]:
        """The inputs whose versions change, with those that they get: one more for each write of the program, however
        often what runs in its place writes."""
        given = [(inputs[i], count) for i, count in self._versions]
        counts = [(tensor, version(tensor), count) for tensor, count in given]
        return [(tensor, before + count) for tensor, before, count in counts if before is not None]

    def move(self, inputs: Values) -> Values:
        """Give inputs their new axes before the graph runs, since that counts as a write of what its backward reads;
        the inputs as the graph takes them, with the versions that they will have."""
        given = list(inputs)
        grown = dict(self._versions)
        for restride, rank, facts in self._numbers(inputs):
            target = inputs[restride.index]
            if restride.moves_first(target):
                before, at = (target.shape, target.stride(), target.storage_offset()), version(target)
                _restride(target, restride, rank, facts)
                set_versions([(target, None if at is None else at + grown[restride.index])])
                given[restride.index] = target.as_strided(*before)
        return given

    def __call__(self, inputs: Values, given: Values, values: Values) -> None:
        """`values` are the forward outputs."""
        for restride, rank, facts in self._numbers(given):
            if (target := given[restride.index]) is inputs[restride.index]:
                _restride(target, restride, rank, facts)
        for index, output in self._after:
            with torch.set_grad_enabled(values[output].requires_grad):
                inputs[index].copy_(values[output])

    def _numbers(self, inputs: Values) -> list[tuple[joint.Restride, int, list[object]]]:
        return [(restride, rank, sizes(inputs)) for restride, rank, sizes in self._restrides]


def _restride(target: Tensor, restride: joint.Restride, rank: int, facts: Sequence[Any]) -> None:
    size, stride, offset = facts[:rank], facts[rank : 2 * rank], facts[-1]
    with torch.set_grad_enabled(restride.seen and torch.is_grad_enabled()):
        for name, args, kwargs in restride.calls:
            getattr(target, name)(*args, **kwargs)
        if restride.calls:
            return
        if restride.resized:
            target.resize_(size)
            offset = 0
        target.as_strided_(size, stride, target.storage_offset() + offset)


Views = dict[Any, Any]
"""The views taken in one call, by what they are of and the names of the calls that take them."""


class Returning:
    """The results as the caller expects them. `as_is`: they are the forward outputs, in order."""

    def __init__(self, signature: joint.Signature) -> None:
        count = len(signature.forward_outputs)
        self.as_is = signature.returned == tuple(joint.FromGraph(k) for k in range(count))
        again = [returned in signature.returned[:i] for i, returned in enumerate(signature.returned)]
        self._makers = [maker(*each, signature) for each in zip(signature.returned, again, strict=True)]

    def own(self, index: int, inputs: Values, values: Values, views: Views) -> Tensor:
        """A result that is a tensor of the graph or a view of such."""
        made = self._makers[index](inputs, values, (), views)
        assert isinstance(made, Tensor)
        return made

    def __call__(self, inputs: Values, values: Values, views: Views) -> tuple[object, ...]:
        made: list[object] = []
        for make in self._makers:
            made.append(make(inputs, values, made, views))
        return tuple(made)


def maker(
    returned: object, again: bool, signature: joint.Signature
) -> Callable[[Values, Values, Values, Views], object]:
    """A function from (inputs, forward outputs, results so far, views so far) to one result. `again`: an earlier result
    is such a view too, and another tensor."""
    match returned:
        case joint.FromGraph(output):
            return lambda inputs, values, made, views: values[output]
        case joint.FromInput(index):
            return lambda inputs, values, made, views: inputs[index]
        case joint.SameAs(index):
            return lambda inputs, values, made, views: made[index]
        case joint.PlainConstant(value):
            return lambda inputs, values, made, views: value
        case joint.FromView(joint.FromInput(index)):
            replay = replayer(returned, again, signature)
            return lambda inputs, values, made, views: replay(inputs[index], inputs, views)
        case joint.FromView(joint.FromGraph(output)):
            replay = replayer(returned, again, signature)
            return lambda inputs, values, made, views: replay(unviewed(values[output]), inputs, views)
    raise TypeError(f"unknown result {returned}")


def unviewed(value: object) -> Any:
    """A tensor that is no view to autograd: a view made where nothing is recorded can neither be written by the caller
    nor be unpacked from the saved ones once its base is written."""
    return value.detach() if isinstance(value, Tensor) and value._is_view() else value


def replayer(
    view: joint.FromView, again: bool, signature: joint.Signature
) -> Callable[[Tensor, Values, Views], Tensor]:
    """A function that takes the recorded views on a base. One that another result is, or is a view of, is that very
    tensor: a hook of the one sees the gradients of the other."""
    prepared: list[tuple[object, joint.ViewStep, Callable[[Values], list[object]]]] = []
    path: tuple[object, ...] = (view.base,)
    for step in view.steps:
        own = (object(),) if again and step is view.steps[-1] else ()
        prepared.append(((*path, step.call, *own), step, evaluator(flat(step), signature.symbols)))
        path = *path, step.call, step.item

    def replay(base: Tensor, inputs: Values, views: Views) -> Tensor:
        for path, step, numbers in prepared:
            if (made := views.get(path)) is None:
                filled = iter(numbers(inputs))
                args, kwargs = fill(step.args, filled), fill(dict(step.kwargs), filled)
                if step.grad_enabled == torch.is_grad_enabled():
                    made = step.target(base, *args, **kwargs)
                else:
                    with torch.set_grad_enabled(step.grad_enabled):
                        made = step.target(base, *args, **kwargs)
                views[path] = made
            base = made if step.item is None else made[step.item]
        return base

    return replay


def flat(step: joint.ViewStep) -> list[object]:
    """The leaves of a step's arguments, in the order in which `fill` takes them."""
    found: list[object] = []

    def visit(value: object) -> None:
        if isinstance(value, (tuple, list)):
            for part in value:
                visit(part)
        else:
            found.append(value)

    visit(step.args)
    visit(tuple(step.kwargs.values()))
    return found


def fill(shape: object, leaves: Any) -> Any:
    """`shape` (nested tuples and lists, or a dict of them) with its leaves replaced."""
    if isinstance(shape, dict):
        return {name: fill(part, leaves) for name, part in shape.items()}
    if isinstance(shape, (tuple, list)):
        return [fill(part, leaves) for part in shape]
    return next(leaves)


def overlaps(inputs: Values, written: Sequence[int], others: Sequence[int]) -> bool:
    """Whether an input that is written shares memory with another input: by address, since two storages may be over
    the same memory, as those of two torch.from_numpy() are."""
    changed = frozenset(written)
    reached = reached_by_writes = 0
    for first, i in sorted([(inputs[i].data_ptr(), i) for i in changed.union(others)]):
        is_written = i in changed
        if first < reached and (is_written or first < reached_by_writes) and inputs[i].numel():
            return True
        end = first + bytes_spanned(inputs[i]) if first else 0
        if end > reached:
            reached = end
        if is_written and end > reached_by_writes:
            reached_by_writes = end
    return False


def bytes_spanned(value: Tensor) -> int:
    """From its first element to its last; gaps count."""
    if value.is_contiguous():
        return value.nbytes
    if not value.numel():
        return 0
    reach = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    return (reach + 1) * value.element_size()


def writes(node: fx.Node) -> bool:
    """Whether a captured call may change one of its arguments, by its name or schema."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    of_schema = getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    named = "out" in node.kwargs or bool(node.kwargs.get("inplace"))
    return node.op.startswith("call") and (is_in_place(name) or of_schema or named)


def written_inputs(captured: Graph) -> list[int]:
    """Positions of the inputs that a call may change: those that share a storage with an argument of such a call."""
    given = [info(node).value for node in captured.inputs]
    reached = {
        storage_of(argument)
        for node in captured.graph.nodes
        if writes(node)
        for each in node.all_input_nodes
        for argument in pytree.tree_leaves(info(each).value)
        if isinstance(argument, Tensor)
    }
    return [i for i, v in enumerate(given) if isinstance(v, Tensor) and v.untyped_storage()._cdata in reached]


def unless_overlapping(captured: Graph, call: Callable[..., object], written: Sequence[int]) -> Callable[..., object]:
    """`call`, made for inputs that share no memory with those `written`; by eager kernels where they do."""
    eager = functools.cache(captured.module)
    tensors = [i for i, node in enumerate(captured.inputs) if isinstance(info(node).value, Tensor)]

    def run(*inputs: object) -> object:
        return (eager() if overlaps(inputs, written, tensors) else call)(*inputs)

    return run


def counting_writes(captured: Graph, call: Callable[..., object], written: Sequence[int]) -> Callable[..., object]:
    """`call`, after which inputs have counted the program's writes: other backends write in other steps, which are more
    or fewer. Of what is not `written` by name, statistics may be; they require no grad."""
    facts = [info(node) for node in captured.inputs]
    may = {i for i, each in enumerate(facts) if isinstance(each.value, Tensor) and not each.value.requires_grad}
    growing = [(i, count) for i in sorted(may.union(written)) if (count := facts[i].writes) is not None]
    if not growing:
        return call

    def run(*inputs: Any) -> object:
        before = [(inputs[i], version(inputs[i]), count) for i, count in growing]
        results = call(*inputs)
        set_versions([(tensor, at + count) for tensor, at, count in before if at is not None])
        return results

    return run


def in_captured_layout(captured: Graph, call: Callable[..., Any]) -> Callable[..., object]:
    """`call` with the dense results laid out as capture saw them: other backends give what is written the strides of
    functional results. A result that shares memory with another one or with an input is left as it is."""
    results = {i: info(node).value for i, node in enumerate(captured.outputs) if isinstance(node, fx.Node)}
    results = {i: value for i, value in results.items() if has_memory(value)}
    shared = Counter(map(storage_of, results.values()))
    given = (info(node).value for node in captured.inputs)
    shared.update(storage_of(value) for value in given if has_memory(value))
    orders = [
        (i, stride_order(value)) for i, value in results.items()
        if shared[storage_of(value)] == 1 and value.dim() > 1 and is_non_overlapping_and_dense_or_false(value)
    ]  # fmt: skip

    def run(*inputs: object) -> object:
        made = list(call(*inputs))
        for i, order in orders:
            turned = made[i].permute(order)
            if not turned.is_contiguous():
                made[i] = turned.contiguous().permute(inverse(order))
        return tuple(made)

    return run if orders else call
