"""Checks on what only the graph knows: assertions of the program, made when the graph has run, in order with the
frame's other effects; and calls that eager may refuse for the numbers they are given, such as an index past the end.
Where the program uses no result of such a call, the graph returns it all the same: else every back end would drop
the call, and the error with it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from torch import Tensor, fx

from explorer.compiler.capture import hook
from explorer.compiler.capture.operator_checks import memory_of
from explorer.compiler.capture.tape import Tape
from explorer.compiler.capture.values.base import Frame, Raised, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.exceptions import ExceptionValue
from explorer.compiler.capture.values.size import NumberValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import Unsupported
from explorer.ir.graph import info


def _raise_unless(condition: Any, error: BaseException) -> None:
    if not condition:
        raise error


RAISE_UNLESS = hook.unwatched(_raise_unless)


def is_checked_later(t: Tracer, condition: Value, error: Value) -> bool:
    """Take the condition for true and have it checked after the graph; False where the program may handle the error,
    where what it says is not known yet, and where objects or settings were changed: what is changed later would be so
    already."""
    if isinstance(condition, TensorValue):
        known = condition.fake.numel() == 1
    else:
        known = isinstance(condition, NumberValue)
    handled = any(frame.handlers[frame.position - 1] is not None or frame.handled for frame in t.frames)
    said = isinstance(error, ExceptionValue) and all(isinstance(a, Constant) for a in error.args)
    changed = any(change.kind != "call" for change in t.effects.changes.values())
    if not known or handled or changed or not said or t.torch_state.switched() or t.torch_state.pending:
        return False
    t.effects.call(RAISE_UNLESS, [condition, error], f"assert {condition.describe()}")
    return True


def asserted(t: Tracer, frame: Frame) -> Value | None:
    """The error of the assert statement whose condition was just taken from the stack; None for other branches, and
    where making the error does more than that."""
    instructions = frame.code.instructions
    if frame.position >= len(instructions) or instructions[frame.position].op != "LOAD_ASSERTION_ERROR":
        return None
    state = (list(frame.stack), dict(frame.locals), frame.position)
    before = (t.tape.calls, t.effects.version, len(t.frames))
    try:
        while instructions[frame.position].op != "RAISE_VARARGS":
            t.step(frame)
        t.step(frame)
    except Raised as raised:
        return raised.value if before == (t.tape.calls, t.effects.version, len(t.frames)) else None
    except Unsupported:
        return None
    finally:
        del t.frames[before[2] :]
        frame.stack[:], frame.locals, frame.position = state
    return None


_NAMES = frozenset(
    """gather index_select take take_along_dim embedding embedding_bag one_hot nll_loss cross_entropy
    binary_cross_entropy bincount multinomial scatter scatter_add scatter_reduce index_add index_copy index_fill
    index_put index_reduce put cholesky cholesky_ex inv inverse solve lu_factor ldl_factor eig eigh eigvalsh eigvals svd
    lstsq""".split()
)


def unused_refusals(tape: Tape, used: list[fx.Node]) -> Iterator[fx.Node]:
    """Nodes to return beside those that are used."""
    alive = set(used)
    memory = {each for node in (*tape.inputs, *used) for each in memory_of(info(node).value)}
    for node in reversed(tape.graph.nodes):
        name = getattr(node.target, "__name__", str(node.target))
        writes = name in ("setitem", "setattr") or (name.endswith("_") and not name.endswith("__"))
        refuses = _may_refuse(node, name)
        returned = node.args[0] if writes and node.args and isinstance(node.args[0], fx.Node) else node
        is_kept = node in alive or (writes and not memory.isdisjoint(memory_of(info(returned).value)))
        if is_kept or refuses:
            alive.update((node, *node.all_input_nodes))
            memory.update(each for source in node.all_input_nodes for each in memory_of(info(source).value))
        if refuses and not is_kept and isinstance(info(returned).value, Tensor):
            yield returned


def refuses_late(tape: Tape) -> bool:
    """Whether the graph may be refused at its run, after a write to an input."""
    return any(_may_refuse(node, getattr(node.target, "__name__", str(node.target))) for node in tape.graph.nodes)


def _may_refuse(node: fx.Node, name: str) -> bool:
    if name in ("getitem", "setitem"):
        key = node.args[1]
        listed = isinstance(key, list) or isinstance(key, tuple) and any(isinstance(each, list) for each in key)
        return node.target in (operator.getitem, operator.setitem) and (listed or any(map(_is_index, _leaves(key))))
    if name == "select":
        return any(isinstance(each, fx.Node) for each in (*node.args[1:], *node.kwargs.values()))
    return node.op in ("call_function", "call_method") and name.removeprefix("linalg_").removesuffix("_") in _NAMES


def _leaves(key: Any) -> Iterator[Any]:
    if isinstance(key, tuple | list):
        for each in key:
            yield from _leaves(each)
    else:
        yield key


def _is_index(each: Any) -> bool:
    return isinstance(each, fx.Node) and isinstance(info(each).value, Tensor)
