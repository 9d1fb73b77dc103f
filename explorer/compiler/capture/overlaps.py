"""Writes into memory that holds several of the elements written, or elements that the same operator reads. Eager
refuses some of them, and what the others leave follows from the order of its loops: such a call is not traced. Eager's
own checks: ATen/MemoryOverlap.h.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from explorer.compiler.capture.operator_checks import tensors_in
from explorer.ir.graph import aten_operator

MOST = 1 << 18
"""Elements of two tensors up to which their places in memory are compared one by one, where strides do not tell."""
Hint = Callable[[Any], int]


def may_fold(tensor: torch.Tensor, hint: Hint) -> bool:
    """Whether two elements of a tensor may be one place in memory. Where that depends on sizes, it becomes a guard."""
    dims = [(step, size) for step, size in zip(tensor.stride(), tensor.shape, strict=True) if hint(size) != 1]
    if any(hint(size) == 0 for _, size in dims):
        return False
    reach: Any = 0
    for step, size in sorted(dims, key=lambda dim: hint(dim[0])):
        if not step > reach:
            return True
        reach = reach + step * (size - 1)
    return False


def written_by(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], changed: Sequence[FakeTensor]
) -> Sequence[FakeTensor]:
    """The tensors that an operator writes; those whose version it `changed` where its name does not say, among which
    are views of what it writes. Inference tensors have no version, and torch._foreach_add_ and its like change none
    of a fake tensor's."""
    if not (changed or torch.is_inference_mode_enabled() or _name(target).startswith("_foreach_")):
        return changed
    if kwargs.get("out") is not None:
        return tensors_in(kwargs["out"])  # type: ignore[return-value]
    if _name(target) == "set_":
        return []  # it writes no memory
    places = written_places(target)
    return [each for place in places for each in tensors_in(args[place : place + 1])] or changed  # type: ignore[misc]


def written_places(target: Any) -> tuple[int, ...]:
    """Which of its arguments an operator writes, as far as its name tells."""
    name = _name(target)
    if name in ("setitem", "__setitem__") or getattr(target, "__module__", "") == "_operator" and name[0] == "i":
        return (0,)
    return _written_in_aten(name)


@functools.cache
def _written_in_aten(name: str) -> tuple[int, ...]:
    packet = aten_operator(name) if name[-1:] == "_" and name[-2:] != "__" else None
    schema = None if packet is None else getattr(packet, packet.overloads()[0])._schema
    given = () if schema is None else schema.arguments
    return tuple(place for place, each in enumerate(given) if each.alias_info is not None and each.alias_info.is_write)


def overlaps(
    target: Any,
    args: Sequence[Any],
    written: Sequence[FakeTensor],
    tensors: Sequence[FakeTensor],
    roots: Sequence[FakeTensor],
    hint: Hint,
) -> bool:
    """Whether an operator writes one place in memory as two elements, or one that it reads as another element. The very
    same elements in the same order are no matter to an operator that computes each from its own. `roots` are the inputs
    of the graph in whose memory it writes."""
    if any(may_fold(root, hint) for root in roots):
        return True
    if _is_ufunc(target):  # which is done reading when it writes, as in NumPy
        return any(may_fold(output, hint) for output in written)
    pointwise = _is_pointwise(target)
    if (part := _part_set(target, args)) is not None:
        pointwise, written, tensors = True, [part], [part, *tensors[1:]]
    for output in written:
        storage = output.untyped_storage()._cdata
        sharing = [each for each in tensors if each.untyped_storage()._cdata == storage]
        others = [each for each in sharing if _place(each) != _place(output)]
        if may_fold(output, hint) or len(sharing) - len(others) > 1 and not pointwise:
            return True
        if any(_meet(output, each, hint) for each in others):
            return True
    return False


def _part_set(target: Any, args: Sequence[Any]) -> FakeTensor | None:
    """The view that tensor[key] = value writes, for a key without tensors."""
    if getattr(target, "__name__", "") != "setitem" or not isinstance(args[0], FakeTensor):
        return None
    key = args[1] if isinstance(args[1], tuple) else (args[1],)
    plain = all(each is None or each is ... or isinstance(each, (int, slice, torch.SymInt)) for each in key)
    return args[0][args[1]] if plain and not any(isinstance(each, bool) for each in key) else None  # type: ignore[return-value]


def _place(tensor: FakeTensor) -> tuple[Any, ...]:
    return tuple(map(str, (tensor.storage_offset(), *tensor.shape, *tensor.stride(), tensor.dtype)))


def _meet(a: FakeTensor, b: FakeTensor, hint: Hint) -> bool:
    sizes = [[hint(size) for size in each.shape] for each in (a, b)]
    strides = [[hint(step) * each.element_size() for step in each.stride()] for each in (a, b)]
    first = [hint(each.storage_offset()) * each.element_size() for each in (a, b)]
    counts = [int(np.prod(each, dtype=object)) for each in sizes]
    if 0 in counts:
        return False
    reach = [sum((n - 1) * s for n, s in zip(*each, strict=True)) for each in zip(sizes, strides, strict=True)]
    width = max(a.element_size(), b.element_size())
    if first[0] + reach[0] + width <= first[1] or first[1] + reach[1] + width <= first[0]:
        return False
    if max(counts) > MOST or a.element_size() != b.element_size():
        return True
    places = [
        functools.reduce(np.add.outer, (np.arange(n) * s for n, s in zip(*each, strict=True)), np.array(at)).ravel()
        for *each, at in zip(sizes, strides, first, strict=True)
    ]
    return bool(np.isin(places[0], places[1]).any())


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "").partition(".")[0]


def _is_ufunc(target: Any) -> bool:
    """Whether it is one of NumPy's universal functions, or Python's operator for one."""
    name = _name(target)
    found = isinstance(getattr(np, name, None), np.ufunc) or hasattr(operator, name) and name != "setitem"
    return found and getattr(target, "__module__", "") == "numpy"


def _is_pointwise(target: Any) -> bool:
    name = _name(target)
    if getattr(target, "__module__", "") == "_operator":
        return name not in ("setitem", "imatmul")
    return name == "copy_" or not name.startswith("_foreach_") and _is_pointwise_in_aten(name.rstrip("_"))


@functools.cache
def _is_pointwise_in_aten(name: str) -> bool:
    packet = aten_operator(name)
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return any(torch.Tag.pointwise in each.tags for each in overloads)
