"""What overrides a call of torch: TorchFunctionModes, tensor subclasses, other objects with `__torch_function__`.

Stock counterpart: variables/torch_function.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from explorer.compiler.capture.effects import NUMBERS
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import look_up
from explorer.compiler.capture.values.sequences import ListValue, TupleValue

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""The classes of tensors that override nothing."""
DISABLED = torch._C._disabled_torch_function_impl
_IGNORED = frozenset(torch.overrides.get_ignored_functions())


def overrides_torch(t: Tracer, cls: type) -> bool:
    """Whether calls of torch on instances of the class are the class's to answer. Torch's own nested tensors answer
    when the graph runs."""
    if cls in (*PLAIN, NestedTensor) or issubclass(cls, (list, tuple)):
        return False
    found = look_up(t, cls, "__torch_function__")
    return hasattr(type(found), "__get__") and found is not DISABLED


def dispatches(cls: type[torch.Tensor]) -> bool:
    """Whether operators on instances of the class are the class's to answer."""
    return cls.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def is_wrapper(tensor: object) -> bool:
    """Whether a tensor is one around other tensors, of which its operators are made."""
    return isinstance(tensor, torch.Tensor) and is_traceable_wrapper_subclass(tensor)


def overriding(t: Tracer, values: Iterable[Value]) -> list[Value]:
    """The arguments that may answer a call, one of each class, in the order in which they are asked."""
    found: list[Value] = []
    for value in values:
        parts = value.unpack(t) if isinstance(value, (TupleValue, ListValue)) else (value,)
        for part in parts:
            if isinstance(part, (Constant, TupleValue, ListValue)):
                continue
            cls = part.python_type()
            if not overrides_torch(t, cls) or any(cls is known.python_type() for known in found):
                continue
            later = (n for n, known in enumerate(found) if issubclass(cls, known.python_type()))
            found.insert(next(later, len(found)), part)
    return found


class TypesOfCall(TupleValue):
    """The `types` that a mode gets: eager names Tensor in some."""

    def guard(self, t: Tracer) -> None:
        t.torch_state.leave_unreported(inside=True)


def overridden(t: Tracer, kind: str, target: object, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What the innermost mode, or else the class of an argument, makes of a call; None where nobody is asked. A mode
    does not see the calls that it makes itself."""
    asked = overriding(t, (*args, *kwargs.values())) if torch._C._is_torch_function_enabled() else []
    modes = t.torch_state.modes if not torch._C._is_torch_function_all_disabled() else []
    if not modes and not asked:
        return None
    function, args = _public(kind, target, args)
    if not callable(function) or not modes and kind == "call_function" and function in _IGNORED:
        return None
    types = TypesOfCall([ClassValue(v.python_type()) for v in asked])
    given = [t.from_python(function), types, TupleValue(args)]
    if modes:
        types.unread = t
        mode, before = t.torch_state.modes.pop(), t.effects.oldest
        t.effects.oldest = made = next(NUMBERS)
        try:
            found = t.get_attr(mode, "__torch_function__").call(t, [*given, t.from_python(kwargs)], {})
        finally:
            t.torch_state.modes.append(mode)
        if not announces(kind, target):
            t.torch_state.leave_unreported()
        if t.effects.oldest < made:  # objects that the mode made are not visible elsewhere
            t.torch_state.note_mode_effect()
        t.effects.oldest = min(before, t.effects.oldest)
        if not _is_not_implemented(found):
            return found
    for value in asked:
        cls = value.python_type()
        owner = ClassValue(cls) if issubclass(cls, torch.Tensor) else value
        found = t.get_attr(owner, "__torch_function__").call(t, [*given, t.from_python(kwargs)], {})
        if not _is_not_implemented(found):
            return found
    t.raise_(TypeError, f"no implementation found for {getattr(function, '__name__', function)}")


def announces(kind: str, target: object) -> bool:
    """Whether modes see a call of this in eager: not of Python functions that do not dispatch to them."""
    if isinstance(target, FunctionType):
        return any("has_torch_function" in name for name in target.__code__.co_names)
    of_python = target is getattr or getattr(target, "__module__", "") == "_operator"
    in_c = isinstance(target, (BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket))
    return kind == "call_method" or of_python or in_c


def _is_not_implemented(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is NotImplemented


def _public(kind: str, target: Any, args: list[Value]) -> tuple[Any, list[Value]]:
    """The function that `__torch_function__` gets, and its arguments."""
    if kind == "call_method":
        method = getattr(torch.Tensor, target)
        tensors = tuple(issubclass(each.python_type(), torch.Tensor) for each in args)
        return method if isinstance(method, FunctionType) else _announced(method, tensors), args
    if target is getattr and isinstance(args[1], Constant):
        found = getattr(torch.Tensor, args[1].value, None)  # None for an attribute of the instance
        return getattr(found, "__get__", None), args[:1]
    if getattr(target, "__module__", "") == "_operator":
        tensors = tuple(issubclass(each.python_type(), torch.Tensor) for each in args)
        return _announced(target, tensors), args if tensors[0] else args[::-1]
    return target, args


class _FirstCall(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function: object, types: object, args: object = (), kwargs: object = None) -> Any:
        raise _Intercepted(function)


class _Intercepted(Exception):
    """Carries the function that a mode got."""


@functools.cache
def _announced(function: Callable[..., object], tensors: tuple[bool, ...]) -> Any:
    """The function that `__torch_function__` gets for a method or an operator, found by a call: `Tensor.add` for
    `__add__` and `+`, `Tensor.numel` for `nelement`; None where nobody is asked, as of `set_`."""
    try:
        with _FirstCall():
            function(*(_STAND_IN if tensor else 1 for tensor in tensors))
    except _Intercepted as seen:
        return seen.args[0]
    except (TypeError, ValueError, AttributeError):
        return function  # it refuses numbers for other arguments; overloads for numbers have another name
    return None


_STAND_IN = torch.zeros(())
