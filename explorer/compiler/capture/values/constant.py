"""Values that are known while tracing: numbers, strings, dtypes, enum members, ranges."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.attention

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Raised, Reconstructor, Tracer, Value, type_name
from explorer.core.reasons import unsupported
from explorer.ir.capture import Source

PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme,
)  # fmt: skip

_BOUND = type(torch.nn.attention.SDPBackend)
"""The class of classes that C++ defines; those with __members__ are enumerations."""


def is_plain(value: object) -> bool:
    """Whether Python treats the object as an immutable piece of data, so that equality is all there is to it."""
    return (
        type(value) in PLAIN
        or isinstance(value, (enum.Enum, np.generic, np.dtype))
        or (type(type(value)) is _BOUND and hasattr(type(value), "__members__"))
    )


class Constant(Value):
    """An immutable Python object. One that the frame was given is guarded once something asks for its value: `unread`,
    where it is set, makes the guard."""

    def __init__(self, value: Any, source: Source | None = None, unread: Callable[[], None] | None = None) -> None:
        self._value = value
        self.source = source
        self.unread = unread

    @property
    def kind(self) -> type:
        """Its type, which is guarded in any case."""
        return type(self._value)

    @property
    def value(self) -> Any:
        if self.unread is not None:
            unread, self.unread = self.unread, None
            unread()
        return self._value

    def python_type(self) -> type:
        return self.kind

    def constant(self) -> Any:
        return self.value

    def truth(self, t: Tracer) -> bool:
        return bool(t.python(bool, self.value))

    def get_attr(self, t: Tracer, name: str) -> Value:
        found = t.python(getattr, self.value, name)
        if callable(found) and not isinstance(found, type) and not is_plain(found):
            if hasattr(found, "__code__") or hasattr(found, "__func__"):
                if isinstance(self.value, enum.Enum):
                    return t.bind(t.from_python(getattr(found, "__func__", found)), self)
                unsupported(reasons.ATTRIBUTE, f"{self.value!r}.{name}")
            return t.builtin_method(self, name, getattr(type(self.value), name, None))
        return t.from_python(found)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if type(self.value) not in PLAIN:
            unsupported(reasons.ATTRIBUTE, f"setting {self.value!r}.{name}")
        is_there = hasattr(self.value, name)
        told = f"attribute '{name}' is read-only" if is_there else f"has no attribute '{name}'"
        t.raise_(AttributeError, f"'{type_name(type(self.value))}' object {told}")

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Methods of immutable objects are pure: call them."""
        if isinstance(self.value, (str, bytes)) and name == "join":
            args = [_to_join(t, a) for a in args]
        plain_of = t.printable if isinstance(self.value, str) and name in ("format", "__mod__") else t.constant_of
        plain = [plain_of(a) for a in args]
        named = {k: plain_of(v) for k, v in kwargs.items()}
        return t.from_python(t.python(getattr(self.value, name), *plain, **named))

    def get_item(self, t: Tracer, key: Value) -> Value:
        return t.from_python(t.python(lambda: self.value[t.constant_of(key)]))

    def contains(self, t: Tracer, item: Value) -> bool:
        return bool(t.python(lambda: t.constant_of(item) in self.value))

    def length(self, t: Tracer) -> Value:
        return Constant(t.python(len, self.value))

    def iterate(self, t: Tracer) -> Value:
        t.python(iter, self.value)
        return t.sequence_iterator(self)

    def reconstruct(self, r: Reconstructor) -> None:
        r.constant(self.value)

    def describe(self) -> str:
        text = repr(self._value)
        return text if len(text) < 60 else text[:57] + "..."


def _to_join(t: Tracer, given: Value) -> Value:
    """The items that str.join is given, which has words of its own for what is no iterable."""
    try:
        iterator = t.iterate(given)
    except Raised as raised:
        if not issubclass(raised.value.python_type(), TypeError):
            raise
        t.raise_(TypeError, "can only join an iterable")
    return t.new_list(t.items(iterator))
