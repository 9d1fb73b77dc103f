"""Classes, super() and modules of Python. Stock counterpart: variables/user_defined.py."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from explorer.capture import reasons
from explorer.capture.values.base import Value, unsupported
from explorer.capture.values.constant import Constant, is_plain
from explorer.capture.values.objects import MISSING, owner_of, type_attribute
from explorer.ir.capture import Attr, Source

if TYPE_CHECKING:
    from explorer.capture.rebuild import Rebuilder
    from explorer.capture.tracer import Tracer


class ClassValue(Value):
    """A class. `real` is the class itself."""

    def __init__(self, cls: type, source: Source | None = None) -> None:
        self.cls = cls
        self.source = source

    def python_type(self) -> type:
        return type(self.cls)

    def constant(self) -> Any:
        return self.cls

    def get_attr(self, t: Tracer, name: str) -> Value:
        meta = type_attribute(type(self.cls), name)
        found = type_attribute(self.cls, name)
        if found is MISSING or (isinstance(meta, property) or hasattr(type(meta), "__set__")) and name != "__doc__":
            if meta is MISSING:
                hook = type_attribute(type(self.cls), "__getattr__")
                if isinstance(hook, types.FunctionType):
                    return t.call(t.known_function(hook), [self, Constant(name)], {})
                t.raise_(AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'")
            if isinstance(meta, types.FunctionType):
                return t.bind(t.known_function(meta), self)
            if isinstance(meta, property):
                return t.call(t.from_python(meta.fget), [self], {})
            return t.from_python(t.python(getattr, self.cls, name))
        if isinstance(found, classmethod):
            return t.bind(t.from_python(found.__func__), self)
        if isinstance(found, staticmethod):
            return t.from_python(found.__func__)
        if isinstance(
            found,
            (
                types.WrapperDescriptorType,
                types.MethodDescriptorType,
                types.MemberDescriptorType,
                types.ClassMethodDescriptorType,
                types.GetSetDescriptorType,
            ),
        ):
            return t.from_python(t.python(getattr, self.cls, name))
        if is_plain(t.python(getattr, self.cls, name)) and not is_plain(found):
            return t.from_python(getattr(self.cls, name))
        return t.class_attribute(owner_of(self.cls, name), name, found)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        unsupported(reasons.ATTRIBUTE, f"setting {self.cls.__name__}.{name}")

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.instantiate(self.cls, args, kwargs)

    def get_item(self, t: Tracer, key: Value) -> Value:
        hook = type_attribute(type(self.cls), "__getitem__")
        if isinstance(hook, types.FunctionType) and is_plain_enum(self.cls):
            return t.from_python(t.python(lambda: self.cls[t.constant_of(key)]))  # type: ignore[index]
        return t.from_python(t.python(lambda: self.cls[t.real_of(key)]))  # type: ignore[index]

    def iterate(self, t: Tracer) -> Value:
        if is_plain_enum(self.cls):
            return t.sequence_iterator(t.from_python(tuple(self.cls)))  # type: ignore[arg-type]
        return super().iterate(t)

    def length(self, t: Tracer) -> Value:
        return Constant(t.python(len, self.cls))

    def contains(self, t: Tracer, item: Value) -> bool:
        return bool(t.python(lambda: t.constant_of(item) in self.cls))  # type: ignore[operator]

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.from_python(t.python(getattr(self.cls, name), *map(t.real_of, args)))

    def rebuild(self, r: Rebuilder) -> None:
        r.constant(self.cls)

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"


def is_plain_enum(cls: type) -> bool:
    return type(cls).__name__ in ("EnumMeta", "EnumType")


_STEADY = ("torch", "math", "operator", "functools", "itertools", "numpy")
"""Packages whose functions and numbers are trusted to stay what they are."""


class PyModuleValue(Value):
    """An imported Python module."""

    def __init__(self, module: types.ModuleType, source: Source | None = None) -> None:
        self.module = module
        self.source = source

    def python_type(self) -> type:
        return types.ModuleType

    def constant(self) -> Any:
        return self.module

    def get_attr(self, t: Tracer, name: str) -> Value:
        found = t.python(getattr, self.module, name)
        source = Attr(self.source or t.known_source(self.module), name)
        if self.module.__name__.partition(".")[0] in _STEADY and (
            callable(found) or is_plain(found) or isinstance(found, types.ModuleType)
        ):
            return t.from_python(found)
        return t.wrap(source, found)

    def rebuild(self, r: Rebuilder) -> None:
        r.constant(self.module)

    def describe(self) -> str:
        return f"module {self.module.__name__}"


class SuperValue(Value):
    """super(cls, instance or class)."""

    def __init__(self, start: type, bound: Value) -> None:
        self.start = start
        self.bound = bound

    def python_type(self) -> type:
        return super

    def get_attr(self, t: Tracer, name: str) -> Value:
        is_class = isinstance(self.bound, ClassValue)
        cls = self.bound.cls if isinstance(self.bound, ClassValue) else self.bound.python_type()
        order = cls.__mro__
        for base in order[order.index(self.start) + 1 :]:
            if name in base.__dict__:
                return self._bind(t, base, name, base.__dict__[name], is_class, cls)
        t.raise_(AttributeError, f"'super' object has no attribute '{name}'")

    def _bind(self, t: Tracer, base: type, name: str, found: Any, is_class: bool, cls: type) -> Value:
        if isinstance(found, staticmethod) or name == "__new__":
            return t.from_python(getattr(found, "__func__", found))
        if isinstance(found, classmethod):
            return t.bind(t.from_python(found.__func__), t.from_python(cls))
        if isinstance(found, types.FunctionType):
            function = t.class_attribute(base, name, found)
            return function if is_class else t.bind(function, self.bound)
        if isinstance(found, property):
            return t.call(t.from_python(found.fget), [self.bound], {})
        if isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            return t.from_python(found) if is_class else t.builtin_method(self.bound, name, found)
        if isinstance(found, types.ClassMethodDescriptorType):
            return t.from_python(found.__get__(None, cls))
        if hasattr(type(found), "__get__"):
            unsupported(reasons.ATTRIBUTE, f"super().{name} is a {type(found).__name__}")
        return t.class_attribute(base, name, found)
