"""Higher-order operators: torch.cond, while_loop, scan, map, flex_attention. Each function given is a graph of its own.

What such a function uses of the values around it becomes further operands. Stock: variables/higher_order_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._higher_order_ops
from torch import fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.rules import CALLS, positional, table
from explorer.compiler.capture.tape import Branch
from explorer.compiler.capture.values.base import Raised, Tracer, Value
from explorer.compiler.capture.values.constant import Constant, NumberValue, SizeValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, from_fake, to_graph, version
from explorer.core.reasons import unsupported

OPERATORS: Any = torch.ops.higher_order
NOTHING = TupleValue([])

Arguments = Callable[[list[Value]], list[Value]]


@dataclass(frozen=True)
class Body:
    """A function evaluated to a graph: its branch of the tape, its own inputs, and what it returned."""

    branch: Branch
    inputs: tuple[fx.Node, ...]
    outputs: tuple[Any, ...] | fx.Node
    returned: Value


def parts(t: Tracer, value: Value) -> Iterator[Value]:
    """The leaves of nested containers, in order."""
    if isinstance(value, (TupleValue, ListValue, DictValue)):
        for item in value.values(t) if isinstance(value, DictValue) else value.unpack(t):
            yield from parts(t, item)
    else:
        yield value


def leaves(t: Tracer, value: Value, numbers: bool = False) -> list[TensorValue]:
    """The tensors in nested containers, in order. Breaks the graph if there is any other leaf, except `numbers`."""
    found = []
    for part in parts(t, value):
        if isinstance(part, TensorValue):
            found.append(part)
        elif not numbers or part.python_type() not in (bool, int, float):
            unsupported(reasons.HIGHER_ORDER, f"{part.describe()} where a tensor is needed")
    return found


def structure(t: Tracer, value: Value) -> tuple[object, ...]:
    """The classes and keys of nested containers."""
    if isinstance(value, (TupleValue, ListValue)):
        return value.python_type(), *(structure(t, item) for item in value.unpack(t))
    if isinstance(value, DictValue):
        return value.python_type(), *((key, structure(t, item)) for key, item in value.plain_items(t).items())
    return ()


def is_carried(value: Value) -> bool:
    """Whether it is a tensor or an integer, which a loop may carry."""
    is_integer = isinstance(value, (Constant, SizeValue)) and value.python_type() is int
    return is_integer or isinstance(value, (TensorValue, NumberValue))


def loop_leaves(t: Tracer, value: Value) -> list[Value]:
    """The values in nested containers that a loop carries."""
    found = [*parts(t, value)]
    for part in found:
        if not is_carried(part):
            unsupported(reasons.HIGHER_ORDER, f"{part.describe()} in a loop")
    return found


def is_tensor(value: Value) -> bool:
    return isinstance(value, TensorValue)


def with_leaves(t: Tracer, value: Value, new: Sequence[Value], is_leaf: Callable[[Value], bool] = is_tensor) -> Value:
    """The same containers with other tensors in them."""
    rest = iter(new)
    return replaced(t, value, lambda part: next(rest) if is_leaf(part) else part)


def replaced(t: Tracer, value: Value, new: Callable[[Value], Value], given: bool = True) -> Value:
    """A copy of nested containers with what `new` makes of what they hold; without `given`, lists and dictionaries that
    were there before stay."""
    if isinstance(value, TupleValue):
        return TupleValue([replaced(t, item, new, given) for item in value.unpack(t)], value.cls)
    if not isinstance(value, (ListValue, DictValue)) or not given and value.source is not None:
        return new(value)
    if isinstance(value, ListValue):
        return ListValue([replaced(t, item, new, given) for item in value.unpack(t)])
    return DictValue.of(((key, replaced(t, item, new, given)) for key, item in value.pairs(t)), value.cls)


def body(
    t: Tracer,
    function: Value,
    like: Sequence[torch.Tensor | None],
    arguments: Arguments,
    aliases: bool = False,
    effects: bool = False,
) -> Body:
    """Evaluate `function` on inputs like these tensors, and on unknown integers where there is none. It may change
    nothing that was there before, but where it runs once for sure and `effects` are allowed; and return no input or
    view of one, but where `aliases` are allowed."""
    changes = t.effects.outside
    branch = t.tape.begin_branch()
    grad = torch.is_grad_enabled()
    inputs: list[Value] = []
    for tensor in like:
        if tensor is None:
            inputs.append(NumberValue(*t.tape.branch_number()))
            continue
        node, fake = t.tape.branch_input(tensor)
        inputs.append(TensorValue(node, fake))
        t.in_graph.tensors[id(fake)] = inputs[-1]
    given = [leaf.fake for leaf in inputs if isinstance(leaf, TensorValue)]
    versions = [version(fake) for fake in given]
    try:
        returned = function.call(t, arguments(inputs), {})
    except Raised as raised:
        unsupported(reasons.HIGHER_ORDER, f"a function that raises: {raised.value.describe()}")
    outputs = loop_leaves(t, returned) if None in like else leaves(t, returned)
    if not effects and t.effects.outside != changes or torch.is_grad_enabled() != grad:
        unsupported(reasons.HIGHER_ORDER, "a function that changes what is outside of it")
    if [version(fake) for fake in given] != versions:
        unsupported(reasons.HIGHER_ORDER, "a function that writes its inputs")
    lent = {storage(value) for value in (*like, *map(t.tape.value, branch.lifted))}
    if not aliases and any(storage(leaf.fake) in lent for leaf in outputs if isinstance(leaf, TensorValue)):
        unsupported(reasons.HIGHER_ORDER, "a function that returns what it is given, or a view of it")
    nodes = tuple(fx.map_arg(to_graph(t, leaf)[0], t.tape.in_branch) for leaf in outputs)
    own = tuple(leaf.node for leaf in inputs if isinstance(leaf, (TensorValue, NumberValue)))
    t.tape.end_branch()
    return Body(branch, own, nodes, returned)


def storage(value: Any) -> int | None:
    is_tensor = isinstance(value, torch.Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(value)
    return value.untyped_storage()._cdata if is_tensor else None


def refuse_shared(t: Tracer, given: Sequence[TensorValue], bodies: Sequence[Body]) -> None:
    """Break the graph if two operands share memory: torch refuses them, except for operands of a function inside."""
    if t.tape.branches:
        return
    lifted = dict.fromkeys(node for each in bodies for node in each.branch.lifted)
    tensors = dict.fromkeys([*nodes_of(given), *lifted])
    memory = [each for each in map(storage, map(t.tape.value, tensors)) if each is not None]
    if len(memory) > len(set(memory)):
        unsupported(reasons.HIGHER_ORDER, "operands that share memory")


def modules(t: Tracer, bodies: Sequence[Body]) -> tuple[list[fx.Node], list[fx.Node]]:
    """The nodes outside that the bodies use, and for each body the node of its module, which takes all of those."""
    lifted = list(dict.fromkeys(node for each in bodies for node in each.branch.lifted))
    return lifted, [t.tape.module(each.branch, each.inputs, lifted, each.outputs) for each in bodies]


def call(t: Tracer, operator: object, *args: Any) -> list[Value]:
    """A node of the operator; `args` may contain nodes."""
    operands: list[fx.Node] = []
    fx.map_arg(args, operands.append)
    value = t.tape.operate(operator, args, operands)
    for each in value:
        each.constant = None  # of one run of the body: torch before 2.12 took it for the result
    found = from_fake(t, t.tape.add("call_function", operator, args, {}, value), tuple(value))
    return found.unpack(t)


def nodes_of(values: Sequence[TensorValue]) -> tuple[fx.Node, ...]:
    return tuple(value.node for value in values)


@positional(OPERATORS.cond)
def _cond(t: Tracer, pred: Value, true_fn: Value, false_fn: Value, operands: Value = NOTHING) -> Value:
    """torch.cond(...): two graphs with the same operands."""
    if not isinstance(pred, TensorValue):
        if pred.python_type() not in (bool, int, float):
            unsupported(reasons.HIGHER_ORDER, f"{pred.describe()} as the condition of torch.cond")
        return (true_fn if pred.truth(t) else false_fn).call(t, operands.unpack(t), {})
    if pred.fake.numel() != 1:
        unsupported(reasons.HIGHER_ORDER, "a condition of torch.cond that has not one element")
    passed = leaves(t, operands, numbers=True)  # as torch.compile; eager's cond takes tensors alone
    given = list(dict.fromkeys(passed))

    def arguments(inputs: list[Value]) -> list[Value]:
        own = dict(zip(given, inputs, strict=True))
        return with_leaves(t, operands, [own[value] for value in passed]).unpack(t)

    bodies = [body(t, function, [v.fake for v in given], arguments) for function in (true_fn, false_fn)]
    refuse_shared(t, given, bodies)
    shapes = [[(leaf.fake.shape, leaf.fake.dtype) for leaf in leaves(t, each.returned)] for each in bodies]
    if shapes[0] != shapes[1] or structure(t, bodies[0].returned) != structure(t, bodies[1].returned):
        unsupported(reasons.HIGHER_ORDER, "branches of torch.cond that return different shapes, dtypes or containers")
    lifted, made = modules(t, bodies)
    found = call(t, OPERATORS.cond, pred.node, *made, (*nodes_of(given), *lifted))
    return with_leaves(t, bodies[0].returned, found)


@positional(OPERATORS.while_loop)
def _while_loop(t: Tracer, cond_fn: Value, body_fn: Value, carried: Value, additional: Value = NOTHING) -> Value:
    """torch.while_loop(...): a graph for the condition and one for the turn. After it a number is one that only the
    graph knows."""
    given, more = loop_leaves(t, carried), leaves(t, additional, numbers=True)
    like = [v.fake if isinstance(v, TensorValue) else None for v in (*given, *more)]
    if not isinstance(carried, TupleValue) or len(given) != len(carried.items):
        unsupported(reasons.HIGHER_ORDER, "a loop that carries containers")

    def arguments(inputs: list[Value]) -> list[Value]:
        return [*inputs[: len(given)], *with_leaves(t, additional, inputs[len(given) :]).unpack(t)]

    with t.tape.numbers_read():
        test, turn = [body(t, function, like, arguments) for function in (cond_fn, body_fn)]
        kinds, start = ([v.python_type() for v in values] for values in (loop_leaves(t, turn.returned), given))
        if kinds != start or not isinstance(test.returned, (TensorValue, NumberValue)):
            unsupported(reasons.HIGHER_ORDER, "a loop whose condition or turn returns something else than is meant")
        lifted, made = modules(t, [replace(test, outputs=test.outputs[0]), turn])  # type: ignore[index]
        first = tuple(to_graph(t, value)[0] for value in given)
        found = call(t, OPERATORS.while_loop, *made, first, (*nodes_of(more), *lifted))
    return with_leaves(t, turn.returned, found, is_carried)


def _turns(
    t: Tracer, operator: object, function: Value, init: Value, over: Value, more: Value, start: list[object]
) -> Value:
    """An operator that calls a function for each row; `start` are its arguments between the function and the rows."""
    first, rows, rest = leaves(t, init), leaves(t, over), leaves(t, more, numbers=True)
    like = [*(v.fake for v in first), *(t.tape.row(v.fake) for v in rows), *(v.fake for v in rest)]
    count = len(first) + len(rows)
    one = body(t, function, like, lambda given: [*given[:count], *with_leaves(t, more, given[count:]).unpack(t)])
    if operator is OPERATORS.map_impl:
        refuse_shared(t, [*rows, *rest], [one])
    lifted, made = modules(t, [one])
    args = (*made, *start, nodes_of(rows), (*nodes_of(rest), *lifted))
    return with_leaves(t, one.returned, call(t, operator, *args))


@positional(OPERATORS.associative_scan)
def _associative_scan(t: Tracer, combine_fn: Value, xs: Value, additional: Value = NOTHING) -> Value:
    """torch's associative_scan: a graph for two rows."""
    rows, rest = leaves(t, xs), leaves(t, additional)
    like = [*(t.tape.row(v.fake) for v in rows * 2), *(v.fake for v in rest)]
    one = body(t, combine_fn, like, list)
    lifted, made = modules(t, [one])
    args = (*made, nodes_of(rows), (*nodes_of(rest), *lifted))
    return with_leaves(t, one.returned, call(t, OPERATORS.associative_scan, *args))


@positional(OPERATORS.flex_attention)
def _flex_attention(
    t: Tracer, query: TensorValue, key: TensorValue, value: TensorValue, score_mod: Value, block_mask: Value,
    scale: Value, kernel_options: Value, *others: Value,
) -> Value:  # fmt: skip
    """flex_attention: a graph for the scores, and one for the mask."""
    *mask, mask_mod = block_mask.unpack(t)
    score, index = t.tape.scalar(query.fake, query.fake.dtype), t.tape.scalar(query.fake, torch.int32)
    bodies = [body(t, score_mod, [score] + [index] * 4, list, True), body(t, mask_mod, [index] * 4, list, True)]
    used = [modules(t, [each]) for each in bodies]
    (of_score, (scores,)), (of_mask, (masks,)) = used
    facts = to_graph(t, kernel_options)[0]
    whole = (*(to_graph(t, part)[0] for part in mask), masks)
    args = (
        *nodes_of((query, key, value)),
        scores,
        whole,
        to_graph(t, scale)[0],
        facts,
        tuple(of_score),
        tuple(of_mask),
    )
    return TupleValue(call(t, OPERATORS.flex_attention, *args))


@CALLS.rule(OPERATORS.wrap, OPERATORS.tag_activation_checkpoint, OPERATORS.wrap_activation_checkpoint)
def _wrap(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function and its arguments: its nodes are part of the graph."""
    return args[0].call(t, args[1:], kwargs)


table({
    # torch's scan: a graph for one row.
    OPERATORS.scan: lambda t, combine_fn, init, xs, additional=NOTHING:
        _turns(t, OPERATORS.scan, combine_fn, init, xs, additional, [nodes_of(leaves(t, init))]),
    OPERATORS.map_impl: lambda t, function, xs, pos_args=NOTHING:
        _turns(t, OPERATORS.map_impl, function, TupleValue([]), xs, pos_args, []),
    # A function that is compiled once for all calls of it: its nodes are part of the graph.
    OPERATORS.invoke_subgraph: lambda t, function, identifier, *operands: function.call(t, list(operands), {}),
})  # fmt: skip
