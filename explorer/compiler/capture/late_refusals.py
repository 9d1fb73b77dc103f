"""Calls that eager may refuse for the numbers they are given, such as an index past the end or a divisor of 0: only a
run of the graph knows. Where the program uses no result of such a call, the graph returns it all the same: else every
back end would drop the call, and the error with it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from torch import SymFloat, Tensor, fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.operator_checks import memory_of
from explorer.compiler.capture.tape import Tape
from explorer.compiler.capture.values.base import Tracer
from explorer.core.reasons import unsupported
from explorer.ir.graph import info

_NAMES = frozenset(
    """gather index_select take take_along_dim embedding embedding_bag one_hot nll_loss cross_entropy
    binary_cross_entropy bincount multinomial scatter scatter_add scatter_reduce index_add index_copy index_fill
    index_put index_reduce put cholesky cholesky_ex inv inverse solve lu_factor ldl_factor eig eigh eigvalsh eigvals svd
    lstsq""".split()
)

_DIVISIONS = frozenset("fmod remainder floor_divide div divide mod floordiv imod ifloordiv".split())


def unused_refusals(tape: Tape, used: list[fx.Node]) -> Iterator[fx.Node]:
    """Nodes to return beside those that are used."""
    alive = set(used)
    memory = {each for node in (*tape.inputs, *used) for each in memory_of(info(node).value)}
    for node in reversed(tape.graph.nodes):
        name = _name(node.target)
        writes = name in ("setitem", "setattr") or (name.endswith("_") and not name.endswith("__"))
        refuses = _may_refuse(node.op, node.target, node.args, node.kwargs)
        returned = node.args[0] if writes and node.args and isinstance(node.args[0], fx.Node) else node
        is_kept = node in alive or (writes and not memory.isdisjoint(memory_of(info(returned).value)))
        if is_kept or refuses:
            alive.update((node, *node.all_input_nodes))
            memory.update(each for source in node.all_input_nodes for each in memory_of(info(source).value))
        if refuses and not is_kept and isinstance(info(returned).value, Tensor):
            yield returned


def check_order(t: Tracer, kind: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Break before a call that may be refused after writes that autograd records. No such write can be undone, to run
    the frame again for what the program did besides, or does about the error. With fullgraph=True there is no break,
    and these effects are lost where the call is refused."""
    if t.config.fullgraph or not _may_refuse(kind, target, args, kwargs) or not t.tape.recorded_inputs():
        return
    handled = any(frame.handlers[frame.position - 1] is not None or frame.handled for frame in t.frames)
    if handled or t.effects.changes:
        unsupported(reasons.REFUSED_LATE, _name(target))


def refuses_late(tape: Tape) -> bool:
    """Whether the graph may be refused at its run, after a write to an input."""
    return any(_may_refuse(node.op, node.target, node.args, node.kwargs) for node in tape.graph.nodes)


def _name(target: Any) -> str:
    return getattr(target, "__name__", str(target))


def _may_refuse(kind: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    name = _name(target)
    if name in ("getitem", "setitem"):
        key = args[1]
        listed = isinstance(key, list) or isinstance(key, tuple) and any(isinstance(each, list) for each in key)
        return target in (operator.getitem, operator.setitem) and (listed or any(map(_is_index, _leaves(key))))
    if name == "select":
        return any(isinstance(each, fx.Node) for each in (*args[1:], *kwargs.values()))
    if name.strip("_") in _DIVISIONS:
        return _divides_integers(name, args, kwargs)
    return kind in ("call_function", "call_method") and name.removeprefix("linalg_").removesuffix("_") in _NAMES


def _divides_integers(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether integers are divided, and the divisor may be zero."""
    operands = [*args[:2], *(kwargs[key] for key in ("input", "other") if key in kwargs)]
    values = [info(each).value if isinstance(each, fx.Node) else each for each in operands]
    rounds = not name.strip("_").startswith("div") or kwargs.get("rounding_mode") is not None
    kinds = {each.dtype.is_floating_point or each.dtype.is_complex for each in values if isinstance(each, Tensor)}
    floats = any(isinstance(each, float | complex | SymFloat) for each in values)
    divisor = values[1] if len(values) > 1 else 0
    return rounds and kinds == {False} and not floats and not (isinstance(divisor, int) and divisor)


def _leaves(key: Any) -> Iterator[Any]:
    if isinstance(key, tuple | list):
        for each in key:
            yield from _leaves(each)
    else:
        yield key


def _is_index(each: Any) -> bool:
    return isinstance(each, fx.Node) and isinstance(info(each).value, Tensor)
