"""Which results share memory with inputs or with one another, and what a call does around its graph for it: writes that
autograd sees, views rebuilt on their base, inputs that overlap.

AOTAutograd: collect_metadata_analysis.py (OutputType) and functional_utils.py (gen_alias_from_base).
"""

from __future__ import annotations

import functools
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.autograd.grad_mode import _unsafe_preserve_version_counter as preserved_version
from torch.utils import _pytree as pytree

from explorer.compiler.autograd import reasons
from explorer.compiler.autograd.layouts import evaluator, expression, inverse, size_weight, stride_order
from explorer.compiler.autograd.tape import has_memory, is_view, storage_of
from explorer.core.origin import origin
from explorer.core.reasons import Unsupported, Why
from explorer.core.text import count
from explorer.ir import joint
from explorer.ir.graph import Graph, info

aten = torch.ops.aten
DETACH = joint.ViewStep(aten.detach.default, (), {}, None, True)


@dataclass(frozen=True)
class Live:
    """A tensor at the end of the traced forward: `seen` carries its autograd state (None: it needs no gradient),
    `node` yields its value."""

    seen: Tensor | None
    node: fx.Node

    @property
    def requires_grad(self) -> bool:
        return self.seen is not None and self.seen.requires_grad


@dataclass(frozen=True)
class Placed:
    """Where the results go: forward outputs with what each is and the tensor whose gradient flows into it (None: a
    number), and how the caller gets each result."""

    outputs: tuple[tuple[joint.Result | joint.Base, fx.Node, Tensor | None], ...]
    returned: tuple[joint.Returned, ...]


def place(
    results: Sequence[Any],
    inputs: Mapping[int, Live],
    restrided: frozenset[int],
    numbers: Mapping[int, Any],
    live: Any,
    grad_off: frozenset[fx.Node],
    first: int,
    of_several: frozenset[int],
) -> Placed:
    """Decide for each of `results` (tensors with autograd state, or anything else) how the caller gets it.

    `inputs` are the inputs after the call, by index; `restrided` those whose shape changed in place. `numbers` gives
    the node, or the constant, of each result that is a size. `live(tensor)` syncs a tensor and gives its Live.
    `first` is the number of the first forward output made here. `of_several` are the results that eager refuses to
    write in place, as one of several views that one operator made: they have to stay views. Raises Unsupported where
    memory is shared in a way that cannot be replayed.
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
            returned[i] = output(joint.Result(i), number, None) if computed else joint.Constant(number)
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
                returned[i] = rebuilt(lives[i], inputs[index], joint.FromInput(index), grad_off)
        elif new := [i for i in members if results[i].requires_grad and results[i].grad_fn is None]:
            raise Unsupported(Why(reasons.NEW_LEAF, f"result {new[0]}"))
        elif len(members) == 1 and members[0] not in of_several and not is_lazy(results[members[0]]):
            (i,) = members
            returned[i] = output(joint.Result(i), lives[i].node, lives[i].seen)
        else:
            base = base_of([lives[i] for i in members], live)
            own = next((i for i in members if lives[i].seen is base.seen), None)
            what = joint.Base(tuple(members)) if own is None else joint.Result(own)
            source = output(what, base.node, base.seen)
            for i in members:
                returned[i] = source if i == own else rebuilt(lives[i], base, source, grad_off)
    return Placed(tuple(outputs), tuple(returned[i] for i in range(len(results))))


def is_lazy(value: Tensor) -> bool:
    """Whether the elements count as the conjugate or the negative of what is in memory."""
    return value.is_conj() or value.is_neg()


def base_of(members: list[Live], live: Any) -> Live:
    """The tensor that results sharing memory are rebuilt from: the autograd base of those that require grad, else the
    memory's own node."""
    differentiable = [member.seen for member in members if member.seen is not None and member.seen.requires_grad]
    if not differentiable:
        memory = root(members[0].node)
        own = next((member for member in members if member.node is memory), None)
        return own or Live(None, memory)
    bases = {id(base): base for base in map(autograd_base, differentiable)}
    if len(bases) > 1:
        raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{count(len(bases), 'base')} of one memory"))
    with origin(*info(members[0].node).origins):
        base: Live = live(next(iter(bases.values())))
    return base


def autograd_base(value: Tensor) -> Tensor:
    return value._base if value._is_view() and value._base is not None else value


def rebuilt(
    value: Live, base: Live, source: joint.FromGraph | joint.FromInput, grad_off: frozenset[fx.Node]
) -> joint.FromView:
    """The recorded views from `base` to `value`. Raises Unsupported where there is no such chain."""
    steps: list[joint.ViewStep] = []
    node = value.node
    while node is not base.node:
        below = viewed(node)
        if below is None:
            raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{info(value.node).id} is no view of {info(base.node).id}"))
        call, item = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, None)
        steps.append(recorded(call, item, call not in grad_off))
        node = below
    steps.reverse()
    if value.seen is not None and value.seen.grad_fn is not None and any(map(breaks_grad, steps)):
        what = f"{info(value.node).id} was detached from its base and requires grad"
        raise Unsupported(Why(reasons.ALIAS_UNKNOWN, what))
    if value.requires_grad and not base.requires_grad:
        raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{info(value.node).id} requires grad and its base does not"))
    cut = base.requires_grad and not any(breaks_grad(step) for step in steps)
    if not value.requires_grad and (cut or not steps):  # without a step it would be the very object, which it is not
        steps.append(DETACH)
    return joint.FromView(source, tuple(steps))


def recorded(call: Any, item: Any, grad_enabled: bool) -> joint.ViewStep:
    """The step that takes the view `call` again, on another base."""
    arguments, keywords = fx.map_arg((call.args[1:], call.kwargs), lambda n: expression(info(n).value))
    return joint.ViewStep(call.target, tuple(arguments), dict(keywords), item, grad_enabled)


def breaks_grad(step: joint.ViewStep) -> bool:
    return step.target is aten.detach.default or not step.grad_enabled


def viewed(node: fx.Node) -> fx.Node | None:
    """What `node` is a view of; None where it has memory of its own."""
    if node.op != "call_function":
        return None
    call: Any = node.args[0] if node.target is operator.getitem else node
    if not isinstance(call, fx.Node) or not is_view(call.target):
        return None
    source: Any = call.args[0]
    return source  # type: ignore[no-any-return]


def root(node: fx.Node) -> fx.Node:
    """The node whose memory `node` views."""
    while (below := viewed(node)) is not None:
        node = below
    return node


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


autograd: Any = torch._C._autograd
functorch: Any = torch._C._functorch
Values = Sequence[Any]


class Writing:
    """The changes of inputs that remain when the graph has run."""

    def __init__(self, signature: joint.Signature) -> None:
        self._inside = [m.index for m in signature.mutations if m.how == "inside"]
        self._after = [(m.index, m.output) for m in signature.mutations if m.output is not None]
        self._restrides = [
            (r, len(r.size), evaluator((*r.size, *r.stride, r.offset), signature.symbols))
            for r in signature.restrides
        ]

    def move(self, inputs: Values) -> Values:
        """Give inputs their new axes before the graph runs, since that counts as a write of what its backward reads;
        the inputs as the graph takes them. Axes that autograd does not see wait: the grad_fn has the old ones."""
        given = list(inputs)
        for restride, rank, facts in self._numbers(inputs):
            target = inputs[restride.index]
            if not restride.resized and (restride.seen or not target.requires_grad):
                before = target.shape, target.stride(), target.storage_offset()
                _restride(target, restride, rank, facts)
                given[restride.index] = target.as_strided(*before)
        return given

    def __call__(self, inputs: Values, given: Values, values: Values) -> None:
        """`values` are the forward outputs. Generated code writes through pointers: version counters follow here."""
        for restride, rank, facts in self._numbers(given):
            if (target := given[restride.index]) is inputs[restride.index]:
                counted = restride.seen or restride.resized or not target.requires_grad
                with nullcontext() if counted else preserved_version(target):  # the backward reads the memory as it was
                    _restride(target, restride, rank, facts)
        for index, output in self._after:
            with torch.set_grad_enabled(values[output].requires_grad):
                inputs[index].copy_(values[output])
        if self._inside:
            torch.autograd.graph.increment_version([inputs[i] for i in self._inside if not inputs[i].is_inference()])

    def _numbers(self, inputs: Values) -> list[tuple[joint.Restride, int, list[Any]]]:
        return [(restride, rank, sizes(inputs)) for restride, rank, sizes in self._restrides]


def _restride(target: Tensor, restride: joint.Restride, rank: int, facts: Sequence[Any]) -> None:
    size, stride, offset = facts[:rank], facts[rank : 2 * rank], facts[-1]
    with torch.set_grad_enabled(restride.seen and torch.is_grad_enabled()):
        if restride.resized:
            target.resize_(size)
            offset = 0
        target.as_strided_(size, stride, target.storage_offset() + offset)


class Returning:
    """The results as the caller expects them. `as_is`: they are the forward outputs, in order."""

    def __init__(self, signature: joint.Signature) -> None:
        count = len(signature.forward_outputs)
        self.as_is = signature.returned == tuple(joint.FromGraph(k) for k in range(count))
        self._makers = [maker(returned, signature) for returned in signature.returned]

    def __call__(self, inputs: Values, values: Values) -> tuple[Any, ...]:
        made: list[Any] = []
        for make in self._makers:
            made.append(make(inputs, values, made))
        return tuple(made)


def maker(returned: Any, signature: joint.Signature) -> Callable[[Values, Values, Values], Any]:
    """A function from (inputs, forward outputs, results so far) to one result."""
    match returned:
        case joint.FromGraph(output):
            return lambda inputs, values, made: values[output]
        case joint.FromInput(index):
            return lambda inputs, values, made: inputs[index]
        case joint.SameAs(index):
            return lambda inputs, values, made: made[index]
        case joint.Constant(value):
            return lambda inputs, values, made: value
        case joint.FromView(joint.FromInput(index)):
            replay = replayer(returned, signature)
            return lambda inputs, values, made: replay(inputs[index], inputs)
        case joint.FromView(joint.FromGraph(output)):
            replay = replayer(returned, signature)
            return lambda inputs, values, made: replay(values[output], inputs)
    raise TypeError(f"unknown result {returned}")


def replayer(view: joint.FromView, signature: joint.Signature) -> Callable[[Tensor, Values], Tensor]:
    """A function that takes the recorded views on a base."""
    prepared = [(step, evaluator(flat(step), signature.symbols)) for step in view.steps]

    def replay(base: Tensor, inputs: Values) -> Tensor:
        for step, numbers in prepared:
            filled = iter(numbers(inputs))
            args, kwargs = fill(step.args, filled), fill(dict(step.kwargs), filled)
            if step.grad_enabled == torch.is_grad_enabled():
                made = step.target(base, *args, **kwargs)
            else:
                with torch.set_grad_enabled(step.grad_enabled):
                    made = step.target(base, *args, **kwargs)
            base = made if step.item is None else made[step.item]
        if view.is_of_several and base._is_view() and not base.is_inference():
            autograd._set_creation_meta(base, autograd.CreationMeta.MULTI_OUTPUT_NODE)
        return base

    return replay


def flat(step: joint.ViewStep) -> list[Any]:
    """The leaves of a step's arguments, in the order in which `fill` takes them."""
    found: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, (tuple, list)):
            for part in value:
                visit(part)
        else:
            found.append(value)

    visit(step.args)
    visit(tuple(step.kwargs.values()))
    return found


def fill(shape: Any, leaves: Any) -> Any:
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
    ends_so = name.endswith("_") and not name.endswith("__") and name not in _OPERATORS
    of_schema = getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    named = "out" in node.kwargs or bool(node.kwargs.get("inplace"))
    return node.op.startswith("call") and (ends_so or name in _IN_PLACE or of_schema or named)


_OPERATORS = frozenset(("and_", "or_", "not_", "is_"))
"""Functions of Python's `operator` that end like PyTorch's in-place methods and change nothing."""
_IN_PLACE = frozenset("setitem iadd isub imul itruediv ifloordiv imod ipow iand ior ixor imatmul".split())


def written_inputs(captured: Graph) -> list[int]:
    """Positions of the inputs that a call may change: those that share a storage with an argument of such a call."""
    given = [info(node).value for node in captured.inputs]
    reached = {
        _unwrapped(argument).untyped_storage()._cdata
        for node in captured.graph.nodes
        if writes(node)
        for each in node.all_input_nodes
        for argument in pytree.tree_leaves(info(each).value)
        if isinstance(argument, Tensor)
    }
    return [i for i, v in enumerate(given) if isinstance(v, Tensor) and v.untyped_storage()._cdata in reached]


def _unwrapped(tensor: Tensor) -> Tensor:
    """The tensor without the levels of torch.func's transforms around it, which have no storage to ask for."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def unless_overlapping(captured: Graph, call: Callable[..., Any], written: Sequence[int]) -> Callable[..., Any]:
    """`call`, made for inputs that share no memory with those `written`; by eager kernels where they do."""
    eager = functools.cache(captured.module)
    tensors = [i for i, node in enumerate(captured.inputs) if isinstance(info(node).value, Tensor)]

    def run(*inputs: Any) -> Any:
        return (eager() if overlaps(inputs, written, tensors) else call)(*inputs)

    return run


def in_captured_layout(captured: Graph, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with the dense results laid out as capture saw them: other back ends give what is written the strides of
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

    def run(*inputs: Any) -> Any:
        made = list(call(*inputs))
        for i, order in orders:
            turned = made[i].permute(order)
            if not turned.is_contiguous():
                made[i] = turned.contiguous().permute(inverse(order))
        return tuple(made)

    return run if orders else call
