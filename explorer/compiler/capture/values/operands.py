"""Which operands the operators of types written in C take, and what they say of others: Python itself is asked, with
an empty example of each type."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import torch

from explorer.compiler.capture.values.objects import MISSING, type_attribute

_PLAIN: tuple[Any, ...] = (
    1, True, 1.0, 1j, "", b"", None, ..., NotImplemented, slice(None), range(0), {}.keys(), {}.values(), {}.items(),
    iter([]), len, lambda: None, int, torch.float32, torch.strided, torch.Size(), types.SimpleNamespace(), torch,
)  # fmt: skip
_EXAMPLES: dict[type, Any] = {type(each): each for each in _PLAIN}
_CONTAINERS = (
    collections.OrderedDict, collections.defaultdict, dict, list, tuple, set, frozenset, collections.deque
)  # fmt: skip


def takes(owner: type, method: str, operand: type) -> bool:
    """Whether a type's own method is for operands of that type. One that the program wrote answers by itself."""
    own = type_attribute(owner, method)
    if not isinstance(own, types.WrapperDescriptorType):
        return own is not MISSING
    if own.__objclass__ is object:
        return True
    mine, theirs = _example(owner), _example(operand)
    if mine is MISSING or theirs is MISSING:
        return True
    try:
        return own(mine, theirs) is not NotImplemented
    except TypeError:
        return False


def refusal(function: Callable[[Any, Any], Any], left: type, right: type) -> str | None:
    """What TypeError says where two types have no such operator; None where they have one, or that is not known."""
    pair = _example(left), _example(right)
    if MISSING in pair:
        return None
    try:
        function(*pair)
    except TypeError as error:
        return str(error)
    return None


def _example(cls: type) -> Any:
    """An empty object of a type, or of the type written in C that it derives from; of one whose operators are all
    written in Python, a stand-in that has its name; MISSING of others."""
    if cls in _EXAMPLES:
        return _EXAMPLES[cls]
    for base in _CONTAINERS:
        if issubclass(cls, base) and all(
            not isinstance(type_attribute(cls, name), types.FunctionType) for name in ("__iter__", "keys", "__len__")
        ):
            is_structseq = hasattr(cls, "n_sequence_fields")  # such as sys.version_info, which nobody can make
            maker: Any = base.__new__
            return maker(base if is_structseq else cls)
    plain: tuple[type, ...] = (int, float, complex, str, bytes, *_CONTAINERS)
    for each in plain:
        if issubclass(cls, each):
            return each()  # what the program wrote for its own class must not run now
    if any(isinstance(each, types.WrapperDescriptorType) for base in cls.__mro__[:-1] for each in vars(base).values()):
        return MISSING
    body: dict[str, Any] = {}
    if type_attribute(cls, "__iter__") not in (MISSING, None):
        body["__iter__"] = lambda self: iter(())
    if type_attribute(cls, "__index__") not in (MISSING, None):
        body["__index__"] = lambda self: 1
    return type(cls.__name__, (), body)()
