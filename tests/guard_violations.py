"""What makes a guard untrue: for each kind of guard, changes of the inputs and the world, applied to every guard."""

from __future__ import annotations

import contextlib
import copy
import enum
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from explorer.compiler.capture.guards import (
    AllDistinct,
    Equals,
    Has,
    ShapeHolds,
    ShareNoMemory,
    TensorMatch,
    instance_dict,
)
from explorer.compiler.capture.resume import progress
from explorer.ir.capture import AsTensor, Attr, Global, Guard, InputFrame, Item, Local, Size, Source, TypeOf, read

Locals = dict[str, Any]


class Other:
    """Nothing that a program was captured for."""


def _permuted(x: torch.Tensor) -> torch.Tensor | None:
    """The same values, the dimensions in another order in memory."""
    order = list(reversed(range(x.dim())))
    made = x.detach().permute(order).contiguous().permute(order).requires_grad_(x.requires_grad)
    used = [dim for dim in range(x.dim()) if x.shape[dim] > 1]
    return made if len(used) > 1 and x.numel() and made.stride() != x.stride() else None


def _larger(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.detach().repeat_interleave(2, dim) if x.shape[dim] else x.new_zeros(*x.shape[:dim], 2, *x.shape[dim + 1 :])


def _moved(x: torch.Tensor) -> torch.Tensor:
    """The same values behind another in their storage."""
    return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)


def _as_input(made: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`made` as an input of the kind that `x` is."""
    made = made.detach()
    if isinstance(x, nn.Parameter):
        return nn.Parameter(made, x.requires_grad)
    return made.requires_grad_(x.requires_grad and (made.is_floating_point() or made.is_complex()))


TENSOR_CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "dtype": lambda x: _as_input(x.double() if x.dtype != torch.float64 else x.float(), x),
    "stride": _permuted,
    "requires_grad": lambda x: x.detach().requires_grad_(not x.requires_grad) if x.is_floating_point() else None,
    "type": lambda x: x.detach().requires_grad_(x.requires_grad) if isinstance(x, nn.Parameter) else (
        nn.Parameter(x.detach(), x.requires_grad) if x.is_floating_point() else None),
    "rank": lambda x: _as_input(x.unsqueeze(0), x),
    "is_leaf": lambda x: x * 1 if x.requires_grad and x.is_leaf else None,
    "storage_offset": lambda x: _as_input(_moved(x.detach()), x) if x.numel() else None,
    "is_neg": lambda x: torch.complex(x.detach(), -x.detach()).conj().imag if x.dtype == torch.float32 else None,
    "is_conj": lambda x: x.detach().conj() if x.is_complex() and not x.is_conj() else None,
    "expanded": lambda x: _as_input(x.detach()[:1].expand_as(x), x) if x.dim() and x.shape[0] > 1 else None,
    "values": lambda x: _as_input(x.detach().clone(), x),
    **{f"size {dim}": lambda x, dim=dim: _as_input(_larger(x, dim), x) if dim < x.dim() else None for dim in range(4)},
    **{f"size {dim} of 1": lambda x, dim=dim: _as_input(x.detach().narrow(dim, 0, 1), x)
       if dim < x.dim() and x.shape[dim] > 1 else None for dim in range(4)},
}  # fmt: skip
"""By property: a tensor that differs in it, and in what follows from it; None where there is none."""


def _tensors(guard: Guard, now: Any) -> Iterator[Any]:
    match = guard.condition
    assert isinstance(match, TensorMatch)
    for name, change in TENSOR_CHANGES.items():
        dim = int(name.split()[1]) if name.startswith("size") else None
        if name in ("is_leaf", "storage_offset", "values", "expanded") or (
            dim is not None and (dim >= now.dim() or match.size[dim] is None)
        ):
            continue
        if name == "stride" and match.stride is None:
            continue
        made = change(now)
        if made is not None and name == "stride" and all(
            step is None or step == after or size == 1
            for step, after, size in zip(match.stride, made.stride(), made.shape, strict=True)
        ):  # fmt: skip
            continue
        if made is not None:
            yield made
    yield from (Other(), None, 3)


def _of_another_type(guard: Guard, now: Any) -> Iterator[Any]:
    yield Other()
    yield type("Derived", (Other,), {})()


def _of_other_contents(guard: Guard, now: Any) -> Iterator[Any]:
    yield from _of_another_type(guard, now)
    if type(now).__name__ in ("range_iterator", "str_iterator", "str_ascii_iterator", "bytes_iterator"):
        over, position = progress(now) or ("", 0)
        others = {str: "\0" * len(over), bytes: b"\0" * len(over)}
        other = iter(others[type(over)] if type(over) in others else range(-len(over), 0))
        other.__setstate__(position)
        if position < len(over):  # at their ends all are alike
            yield other


def _another(guard: Guard, now: Any) -> Iterator[Any]:
    yield Other()
    if isinstance(now, bool):
        yield not now
        yield int(now)
    elif now is not None:
        yield None


def _another_constant(guard: Guard, now: Any) -> Iterator[Any]:
    yield Other()
    assert isinstance(guard.condition, Equals)
    match guard.condition.expected:
        case enum.Enum():
            yield guard.condition.expected.value
        case bool():
            yield from (not now, int(now))
        case int():
            yield from (now + 1, -now - 1, float(now), str(now))
        case float():
            yield from (now + 1, str(now))
        case str():
            yield from (now + "x", now.upper() + "y")
        case tuple():
            yield (*now, 0)


def _another_length(guard: Guard, now: Any) -> Iterator[Any]:
    if type(now) in (list, tuple):
        yield type(now)([*now, *now, Other()])
        if now:
            yield now[:-1]


def _other_keys(guard: Guard, now: Any) -> Iterator[Any]:
    if isinstance(now, dict):
        items = list(dict.items(now))
        for changed in ([*items, ("another", Other())], items[1:], items[::-1]):
            made = copy.copy(now)
            made.clear()
            made.update(changed)
            if list(made) != list(now):
                yield made


def _emptied(guard: Guard, now: Any) -> Iterator[Any]:
    if isinstance(now, (dict, list, set, tuple)):
        yield type(now)() if now else type(now)({"a": 1}) if isinstance(now, dict) else type(now)([1])


VIOLATIONS: dict[str, Callable[[Guard, Any], Iterator[Any]]] = {
    "tensor": _tensors,
    "type": _of_another_type,
    "id": _another,
    "code": _another,
    "constant": _another_constant,
    "length": _another_length,
    "keys": _other_keys,
    "empty": _emptied,
    "value": _of_other_contents,
}
"""By kind of guard: values that must not take the place of the one at its source."""


@contextmanager
def replaced(source: Source, value: Any, frame: InputFrame, locals: Locals) -> Iterator[bool]:
    """`value` at `source`, in `locals` or for real; False where that cannot be."""
    undo: Callable[[], Any] | None = None
    match source:
        case Local(variable):
            locals[variable], old = value, locals.get(variable)
            undo = lambda: locals.__setitem__(variable, old)  # noqa: E731
        case Global(variable, module):
            space = vars(sys.modules[module]) if module else frame.globals
            space[variable], old = value, space[variable]
            undo = lambda: space.__setitem__(variable, old)  # noqa: E731
        case Attr(base, attribute):
            held = instance_dict(read(base, locals, frame.globals))
            if held is not None and attribute in held:
                held[attribute], old = value, held[attribute]
                undo = lambda: held.__setitem__(attribute, old)  # noqa: E731
        case Item(base, key):
            owner = read(base, locals, frame.globals)
            if isinstance(owner, (dict, list)):
                owner[key], old = value, owner[key]
                undo = lambda: owner.__setitem__(key, old)  # noqa: E731
            elif type(owner) is tuple:
                with replaced(base, (*owner[:key], value, *owner[key + 1 :]), frame, locals) as done:
                    yield done
                return
        case AsTensor(base) | TypeOf(base):
            with replaced(base, Other(), frame, locals) as done:
                yield done
            return
    try:
        yield undo is not None
    finally:
        if undo is not None:
            undo()


def violations(guard: Guard, frame: InputFrame, locals: Locals) -> Iterator[bool]:
    """With the guard made untrue in turn by each means that there is; False for a means that is not open."""
    if guard.kind == "global_state":
        yield from _in_other_states()
        return
    assert guard.source is not None
    now = read(guard.source, locals, frame.globals)
    if guard.kind == "has":
        yield from _present_or_absent(guard, now)
    elif guard.kind == "shape":
        yield from _of_other_sizes(guard, frame, locals)
    elif guard.kind == "alias":
        asks = guard.condition
        first, second = asks.sources[:2] if isinstance(asks, (AllDistinct, ShareNoMemory)) else (guard.source, None)
        value = read(first, locals, frame.globals) if second is not None else Other()
        with replaced(second or first, value, frame, locals) as done:
            yield done
    else:
        for value in VIOLATIONS[guard.kind](guard, now):
            with replaced(guard.source, value, frame, locals) as done:
                yield done


def _in_other_states() -> Iterator[bool]:
    with torch.set_grad_enabled(not torch.is_grad_enabled()):
        yield True
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield True
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield True
    finally:
        torch.set_default_dtype(default)


def _present_or_absent(guard: Guard, now: Any) -> Iterator[bool]:
    assert isinstance(guard.condition, Has)
    key, present, where = guard.condition.name, guard.condition.present, guard.condition.where
    held = now if where == "key" else instance_dict(now)
    if not isinstance(held, dict):
        return
    order = list(held.items())
    if present:
        del held[key]
    else:
        held[key] = Other()
    try:
        yield True
    finally:
        held.clear()
        held.update(order)


def _of_other_sizes(guard: Guard, frame: InputFrame, locals: Locals) -> Iterator[bool]:
    """The first size or number that makes the relation untrue, at each of its sources."""
    assert isinstance(guard.condition, ShapeHolds)
    sources = guard.condition.sources
    now = [read(source, locals, frame.globals) for source in sources]
    for place, source in enumerate(sources):
        for number in (0, 1, 2, 3, 5, 7, 16, 64):
            if guard.condition.function(*now[:place], number, *now[place + 1 :]):
                continue
            value: Any = number
            if isinstance(source, Size):
                tensor = read(source.base, locals, frame.globals)
                shape = [*tensor.shape[: source.dim], number, *tensor.shape[source.dim + 1 :]]
                value, source = _as_input(tensor.new_ones(shape), tensor), source.base
            with contextlib.suppress(KeyError, AttributeError), replaced(source, value, frame, locals) as done:
                changed = [read(each, locals, frame.globals) for each in sources]
                if not guard.condition.function(*changed):
                    yield done
            break
