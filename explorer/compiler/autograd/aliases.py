"""Which results share memory with inputs or with one another, and how each is rebuilt outside the graph.

AOTAutograd: collect_metadata_analysis.py (OutputType) and functional_utils.py (gen_alias_from_base).
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from explorer.compiler.autograd.reasons import ALIAS_UNKNOWN, NEW_LEAF, RESTRIDED_ALIAS
from explorer.compiler.autograd.sizes import expression, size_weight
from explorer.compiler.autograd.tape import is_view, storage_of
from explorer.core.origin import origin
from explorer.core.reasons import Unsupported, Why
from explorer.ir.graph import info
from explorer.ir.joint import Base, Constant, FromGraph, FromInput, FromView, Result, Returned, SameAs, ViewStep

aten = torch.ops.aten
DETACH = ViewStep(aten.detach.default, (), {}, None, True)


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

    outputs: tuple[tuple[Result | Base, fx.Node, Tensor | None], ...]
    returned: tuple[Returned, ...]


def place(
    results: Sequence[Any],
    inputs: Mapping[int, Live],
    restrided: frozenset[int],
    numbers: Mapping[int, Any],
    live: Any,
    grad_off: frozenset[fx.Node],
    first: int,
) -> Placed:
    """Decide for each of `results` (tensors with autograd state, or anything else) how the caller gets it.

    `inputs` are the inputs after the call, by index; `restrided` those whose shape changed in place. `numbers` gives
    the node, or the constant, of each result that is a size. `live(tensor)` syncs a tensor and gives its Live.
    `first` is the number of the first forward output made here. Raises Unsupported where memory is shared in a way
    that cannot be replayed.
    """
    outputs: list[tuple[Result | Base, fx.Node, Tensor | None]] = []
    returned: dict[int, Returned] = {}
    given = {id(value.seen): index for index, value in inputs.items()}
    by_root = {root(value.node): index for index, value in inputs.items()}
    lives = {i: live(value) for i, value in enumerate(results) if isinstance(value, Tensor)}
    groups: dict[fx.Node, list[int]] = defaultdict(list)
    earlier: dict[int, int] = {}

    def output(what: Result | Base, node: fx.Node, seen: Tensor | None) -> FromGraph:
        outputs.append((what, node, seen))
        return FromGraph(first + len(outputs) - 1)

    for i, value in enumerate(results):
        if not isinstance(value, Tensor):
            number = numbers.get(i, value)
            returned[i] = output(Result(i), number, None) if isinstance(number, fx.Node) else Constant(number)
        elif id(value) in given:
            returned[i] = FromInput(given[id(value)])
        elif id(value) in earlier:
            returned[i] = SameAs(earlier[id(value)])
        else:
            earlier[id(value)] = i
            groups[root(lives[i].node)].append(i)

    for memory, members in groups.items():
        if memory in by_root:
            index = by_root[memory]
            if index in restrided:
                raise Unsupported(Why(RESTRIDED_ALIAS, f"result {members[0]} of input {index}"))
            for i in members:
                returned[i] = rebuilt(lives[i], inputs[index], FromInput(index), grad_off)
        elif new := [i for i in members if results[i].requires_grad and results[i].grad_fn is None]:
            raise Unsupported(Why(NEW_LEAF, f"result {new[0]}"))
        elif len(members) == 1 and not is_lazy(results[members[0]]):
            (i,) = members
            returned[i] = output(Result(i), lives[i].node, lives[i].seen)
        else:
            base = base_of([lives[i] for i in members], live)
            own = next((i for i in members if lives[i].seen is base.seen), None)
            what = Base(tuple(members)) if own is None else Result(own)
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
        raise Unsupported(Why(ALIAS_UNKNOWN, f"{len(bases)} bases of one memory"))
    with origin(*info(members[0].node).origins):
        base: Live = live(next(iter(bases.values())))
    return base


def autograd_base(value: Tensor) -> Tensor:
    return value._base if value._is_view() and value._base is not None else value


def rebuilt(value: Live, base: Live, source: FromGraph | FromInput, grad_off: frozenset[fx.Node]) -> FromView:
    """The recorded views from `base` to `value`. Raises Unsupported where there is no such chain."""
    steps: list[ViewStep] = []
    node = value.node
    while node is not base.node:
        below = viewed(node)
        if below is None:
            raise Unsupported(Why(ALIAS_UNKNOWN, f"{info(value.node).id} is no view of {info(base.node).id}"))
        call, item = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, None)
        steps.append(recorded(call, item, call not in grad_off))
        node = below
    steps.reverse()
    if value.seen is not None and value.seen.grad_fn is not None and any(map(breaks_grad, steps)):
        raise Unsupported(Why(ALIAS_UNKNOWN, f"{info(value.node).id} was detached from its base and requires grad"))
    if value.requires_grad and not base.requires_grad:
        raise Unsupported(Why(ALIAS_UNKNOWN, f"{info(value.node).id} requires grad and its base does not"))
    cut = base.requires_grad and not any(breaks_grad(step) for step in steps)
    if not value.requires_grad and (cut or not steps):  # without a step it would be the very object, which it is not
        steps.append(DETACH)
    return FromView(source, tuple(steps))


def recorded(call: Any, item: Any, grad_enabled: bool) -> ViewStep:
    """The step that takes the view `call` again, on another base."""
    arguments, keywords = fx.map_arg((call.args[1:], call.kwargs), lambda n: expression(info(n).value))
    return ViewStep(call.target, tuple(arguments), dict(keywords), item, grad_enabled)


def breaks_grad(step: ViewStep) -> bool:
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
