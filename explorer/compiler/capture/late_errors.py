"""Calls that may raise an error for the values they are given, such as an index past the end or a divisor of 0: only a
run of the graph knows. Where the program uses no result of such a call, the graph returns it all the same: otherwise
every backend would drop the call, and the error with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import SymFloat, SymInt, Tensor, fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.operator_checks import memory_of
from explorer.compiler.capture.tape import Tape
from explorer.compiler.capture.values.base import Tracer
from explorer.core.reasons import unsupported
from explorer.ir.graph import info, is_in_place

Arguments = Mapping[str, Any]
May = Callable[[tuple[Any, ...], Arguments], bool]


def unused_failing_calls(tape: Tape, used: list[fx.Node]) -> Iterator[fx.Node]:
    """Nodes that the graph returns so that their calls are not removed: nothing else uses them, and they may raise."""
    alive = set(used)
    memory = {each for node in (*tape.inputs, *used) for each in memory_of(info(node).value)}
    for node in reversed(tape.graph.nodes):
        name = _name(node.target)
        writes = name == "setattr" or is_in_place(name)
        raises = _may_raise(node.op, node.target, node.args, node.kwargs)
        returned = node.args[0] if writes and node.args and isinstance(node.args[0], fx.Node) else node
        is_kept = node in alive or (writes and not memory.isdisjoint(memory_of(info(returned).value)))
        if is_kept or raises:
            alive.update((node, *node.all_input_nodes))
            memory.update(each for source in node.all_input_nodes for each in memory_of(info(source).value))
        if raises and not is_kept:
            made = info(returned).value
            if isinstance(made, Tensor):
                yield returned
            elif isinstance(made, tuple) and isinstance(made[0], Tensor):
                yield tape.element(returned, 0, made[0])


def check_order(t: Tracer, kind: str, target: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Break before a call that may raise after writes that autograd records. No such write can be undone, to run
    the frame again for what the program did besides, or does about the error. With fullgraph=True there is no break,
    and these effects are lost where the call raises."""
    if not _may_raise(kind, target, args, kwargs):
        return
    handled = any(frame.handlers[frame.position - 1] is not None or frame.handled for frame in t.stack.frames)
    if handled or t.effects.changes:
        if not t.config.fullgraph and t.tape.recorded_inputs():
            unsupported(reasons.REFUSED_LATE, _name(target))
        t.tape.runs_again = True


def raises_late(tape: Tape) -> bool:
    """Whether the graph may raise when it runs, after a write to an input."""
    return any(_may_raise(node.op, node.target, node.args, node.kwargs) for node in tape.graph.nodes)


def _name(target: object) -> str:
    return getattr(target, "__name__", str(target))


@functools.cache
def _may(name: str) -> May | None:
    return REFUSED.get(name.strip("_")) or REFUSED.get(name.removeprefix("linalg_").strip("_"))


def _may_raise(kind: str, target: object, args: tuple[object, ...], kwargs: Arguments) -> bool:
    may = _may(_name(target))
    return may is not None and kind.startswith("call_") and may(args, kwargs)


def _always(args: tuple[object, ...], kwargs: Arguments) -> bool:
    return True


def _by_index(args: tuple[object, ...], kwargs: Arguments) -> bool:
    """Whether elements are taken by a list or a tensor."""
    key = args[1]
    listed = isinstance(key, list) or isinstance(key, tuple) and any(isinstance(each, list) for each in key)
    return listed or any(isinstance(each, fx.Node) and isinstance(info(each).value, Tensor) for each in _leaves(key))


def _divides(args: tuple[object, ...], kwargs: Arguments) -> bool:
    """Whether integers are divided, and the divisor may be zero."""
    operands = [*args[:2], *(kwargs[key] for key in ("input", "other") if key in kwargs)]
    values = [info(each).value if isinstance(each, fx.Node) else each for each in operands]
    kinds = {each.dtype.is_floating_point or each.dtype.is_complex for each in values if isinstance(each, Tensor)}
    floats = any(isinstance(each, float | complex | SymFloat) for each in values)
    divisor = values[1] if len(values) > 1 else 0
    return kinds == {False} and not floats and not (isinstance(divisor, int) and divisor)


def _by_exponent(args: tuple[object, ...], kwargs: Arguments) -> bool:
    """Whether integers are raised to an integer that may be negative."""
    exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
    return isinstance(exponent, fx.Node) and isinstance(info(exponent).value, SymInt)


def _by_singular_values(args: tuple[object, ...], kwargs: Arguments) -> bool:
    return any(isinstance(each, int | float | str) and each in ("nuc", 2, -2) for each in (*args[1:], *kwargs.values()))


REFUSED: dict[str, May] = {
    **dict.fromkeys(
        """gather index_select take take_along_dim embedding embedding_bag one_hot scatter scatter_add scatter_reduce
        index_add index_copy index_fill index_put index_reduce put max_unpool1d max_unpool2d max_unpool3d nll_loss
        cross_entropy ctc_loss multi_margin_loss multilabel_margin_loss lu_solve searchsorted""".split(),
        _always,  # indices
    ),
    **dict.fromkeys(
        """binary_cross_entropy bincount multinomial histc histogram histogramdd masked_scatter segment_reduce
        repeat_interleave""".split(),
        _always,  # their values have to be in a range, or their number has to fit
    ),
    **dict.fromkeys(
        """cholesky cholesky_ex cholesky_inverse inv inv_ex inverse solve solve_ex tensorinv tensorsolve matrix_power lu
        lu_factor ldl_factor eig eigh eigvalsh eigvals svd svdvals lstsq pinv pinverse matrix_rank
        linalg_cond""".split(),
        _always,  # matrices
    ),
    **dict.fromkeys(("getitem", "setitem"), _by_index),
    "select": lambda args, kwargs: any(isinstance(each, fx.Node) for each in (*args[1:], *kwargs.values())),
    **dict.fromkeys("fmod remainder floor_divide mod floordiv imod ifloordiv".split(), _divides),
    **dict.fromkeys(("pow", "ipow"), _by_exponent),
    **dict.fromkeys(("rmod", "rfloordiv"), lambda args, kwargs: _divides(args[::-1], kwargs)),
    **dict.fromkeys(
        ("div", "divide"), lambda args, kwargs: kwargs.get("rounding_mode") is not None and _divides(args, kwargs)
    ),
    **dict.fromkeys(("matrix_norm", "linalg_norm"), _by_singular_values),
    "norm": lambda args, kwargs: "nuc" in [each for each in (*args[1:], *kwargs.values()) if isinstance(each, str)],
}
"""Keyed by the name of an operator, without the marks of in-place operators and of torch.linalg: whether a call may be
refused because of the values of its arguments."""


def _leaves(key: object) -> Iterator[Any]:
    if isinstance(key, tuple | list):
        for each in key:
            yield from _leaves(each)
    else:
        yield key
