"""Values of the process as record data: what a form can show of an input, and a guard can be tried on."""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

import torch

from explorer.ir.record import ConstantData, GlobalStateData, InputData, TensorFactsData

T = TypeVar("T")

MOST_KEYS = 200
"""A dictionary with more keys is described by its length alone."""

_EXACT = 2**53
_KINDS: Mapping[type, str] = {
    bool: "bool", int: "number", float: "number", complex: "number", str: "str", type(None): "none",
    list: "list", tuple: "tuple",
}  # fmt: skip


def type_name(kind: type) -> str:
    """The qualified name: "builtins.int", "torch.Tensor"."""
    return f"{kind.__module__}.{kind.__qualname__}"


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32", as the record writes it."""
    return str(dtype).removeprefix("torch.")


def has_no_sizes(tensor: torch.Tensor) -> bool:
    """Whether it is a nested tensor in one piece of memory, which refuses to name sizes and strides."""
    return tensor.is_nested and tensor.layout is torch.strided


def tensor_facts(tensor: torch.Tensor) -> TensorFactsData:
    """Of a real tensor: every size and stride given. A subclass is not asked: its code is the program's."""
    with torch._C.DisableTorchFunction():
        ragged = has_no_sizes(tensor)
        return TensorFactsData(
            dtype_name(tensor.dtype),
            str(tensor.device),
            (None,) * tensor.dim() if ragged else tuple(map(_known, tensor.shape)),
            tuple(map(int, tensor.stride())) if tensor.layout is torch.strided and not ragged else None,
            tensor.requires_grad,
            type_name(type(tensor)),
        )


def _known(size: Any) -> int | None:
    """A size; None for a ragged one, which is no number."""
    return None if isinstance(size, torch.SymInt) and size.node.is_nested_int() else int(size)


def constant(value: Any) -> ConstantData:
    """Of a plain value (a number, a string, None, a dtype, an enum's member)."""
    exact = (
        type(value) in (bool, str)
        or (type(value) is int and abs(value) <= _EXACT)
        or (type(value) is float and math.isfinite(value))
    )
    return ConstantData(type(value).__name__, repr(value), value if exact else None)


def described(source: str, value: object, role: str = "argument", name: str = "", same_as: str = "") -> InputData:
    """The description of `value`, which the frame finds at `source`. Runs none of its code."""
    kind = type(value)
    shown, length, keys = _KINDS.get(kind, "object"), None, None
    tensor = tensor_facts(value) if is_of(value, torch.Tensor) else None
    plain = constant(value) if is_plain(value) else None
    if tensor is not None:
        shown = "tensor"
    elif is_of(value, dict):
        shown, length = "dict", dict.__len__(value)
        if length <= MOST_KEYS and all(map(is_plain, dict.keys(value))):
            keys = tuple(map(constant, dict.keys(value)))
    elif is_of(value, list):
        length = list.__len__(value)
    elif is_of(value, tuple):
        length = tuple.__len__(value)
    return InputData(source, shown, role, type_name(kind), tensor, plain, length, keys, name, same_as)


def is_of(value: object, kind: type[T]) -> TypeGuard[T]:
    """isinstance(), but for what an object says of its class: that may be code of the program."""
    return issubclass(type(value), kind)


def is_plain(value: object) -> bool:
    """Whether its text, made by code of Python or torch alone, says all of it."""
    return type(value) in _PLAIN or is_of(value, enum.Enum) and type(value).__repr__ is enum.Enum.__repr__


_PLAIN = (
    bool, int, float, complex, str, bytes, range, torch.dtype, torch.device, torch.layout, torch.memory_format,
    torch.Size, type(None), types.EllipsisType, types.NotImplementedType,
)  # fmt: skip


def global_state(devices: tuple[torch.device, ...] = ()) -> GlobalStateData:
    """As it is now in this thread; `devices` are the default devices in force."""
    return GlobalStateData(
        torch.is_grad_enabled(),
        tuple(
            f"{kind} {dtype_name(torch.get_autocast_dtype(kind))}"
            for kind in ("cpu", "cuda")
            if torch.is_autocast_enabled(kind)
        ),
        dtype_name(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        tuple(map(str, devices)),
    )
