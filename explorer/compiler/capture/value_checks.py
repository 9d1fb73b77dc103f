"""Calls that eager may refuse for the numbers they are given, such as an index past the end. Where the program uses no
result of one, the graph returns it all the same: else every back end would drop the call, and the error with it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from torch import Tensor, fx

from explorer.compiler.capture.tape import Tape
from explorer.ir.graph import info

_NAMES = frozenset(
    """gather index_select take take_along_dim embedding embedding_bag one_hot nll_loss cross_entropy
    binary_cross_entropy bincount multinomial scatter scatter_add scatter_reduce index_add index_copy index_fill
    index_put index_reduce put cholesky cholesky_ex inv inverse solve lu_factor ldl_factor eig eigh eigvalsh eigvals svd
    lstsq""".split()
)


def unused_refusals(tape: Tape, used: list[fx.Node]) -> Iterator[fx.Node]:
    """Nodes to return beside those that are used."""
    alive = set(used)
    for node in reversed(tape.graph.nodes):
        name = getattr(node.target, "__name__", str(node.target))
        writes = name in ("setitem", "setattr") or (name.endswith("_") and not name.endswith("__"))
        refuses = _may_refuse(node, name)
        returned = node.args[0] if writes and node.args and isinstance(node.args[0], fx.Node) else node
        is_kept = node in alive or (writes and (returned in alive or not refuses or _is_input(tape, returned)))
        if is_kept or refuses:
            alive.update((node, *node.all_input_nodes))
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


def _is_input(tape: Tape, node: fx.Node) -> bool:
    """Whether a write to it stays, since it is in the memory of an input."""
    value = info(node).value
    return isinstance(value, Tensor) and next(tape.sharing(value), None) is not None
