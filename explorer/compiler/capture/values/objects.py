"""Instances of classes, and exceptions. Stock counterparts: variables/user_defined.py; variables/builder.py,
ExceptionVariable."""

from __future__ import annotations

import collections
import functools
import operator
import sys
import threading
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.effects import NUMBERS
from explorer.compiler.capture.guards import Has, IsObject
from explorer.compiler.capture.values.base import (
    HostValue,
    NotConstant,
    Raised,
    Reconstructor,
    Tracer,
    Unhashable,
    Value,
    lacks_to_set,
    type_name,
)
from explorer.compiler.capture.values.constant import Constant, is_plain
from explorer.core.libraries import FIXED, UNCHANGING, is_in, is_written_in_c, name_in_messages
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Item, Source


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
DELETED = Constant("deleted")


_TYPING = ("typing", "types", "collections.abc")
"""The modules of objects that are used as types in annotations."""
UNION = ("__or__", "__ror__")

OPTREE = "torch._dynamo.polyfills.pytree"
"""torch's Python version of optree. Its tree specs represent those in C++, which the program must get."""


def type_attribute(cls: type, name: str) -> Any:
    """What the class or its bases define under `name`, as it stands in their dictionaries; MISSING if nothing."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def attribute_in_c(cls: type, name: str) -> Any:
    """What the C code that a class builds on has under `name`, whatever the class overrides; MISSING if nothing."""
    return next((vars(base)[name] for base in cls.__mro__ if is_written_in_c(base) and name in vars(base)), MISSING)


def owner_of(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in base.__dict__)


def maker_of(cls: type) -> Any:
    """The __new__ written in C that makes a class's instances; its `__self__` is the class that it is written for."""
    found = (base.__dict__.get("__new__") for base in cls.__mro__)
    return next(new for new in found if isinstance(new, types.BuiltinFunctionType))


def bound_attribute(t: Tracer, value: Value, cls: type, descriptor: object, name: str) -> Value:
    """A class's attribute, read through an unrelated instance."""
    if isinstance(descriptor, types.FunctionType):
        return t.bind(class_attribute(t, owner_of(cls, name), name, descriptor), value)
    if isinstance(descriptor, property):
        if descriptor.fget is None:
            t.raise_(AttributeError, f"property '{name}' of '{cls.__name__}' object has no getter")
        return t.from_python(descriptor.fget).call(t, [value], {})
    if isinstance(descriptor, classmethod):
        return class_method(t, descriptor, cls)
    if isinstance(descriptor, staticmethod):
        return t.from_python(descriptor.__func__)
    if isinstance(
        descriptor, (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
    ):
        return t.builtin_method(value, name)
    if isinstance(descriptor, (functools.partialmethod,)):
        return t.from_python(functools.partial).call(
            t,
            [t.bind(t.from_python(descriptor.func), value), *map(t.from_python, descriptor.args)],
            {k: t.from_python(v) for k, v in descriptor.keywords.items()},
        )
    if isinstance(descriptor, functools._lru_cache_wrapper):
        return t.bind(t.from_python(descriptor), value)
    if (found := described(t, descriptor, value, cls)) is not None:
        return found
    if hasattr(type(descriptor), "__get__") and not isinstance(descriptor, (type, types.BuiltinFunctionType)):
        unsupported(reasons.ATTRIBUTE, f"{cls.__name__}.{name} is a {type(descriptor).__name__}")
    return class_attribute(t, owner_of(cls, name), name, descriptor)


def described(t: Tracer, descriptor: object, value: Value, cls: type) -> Value | None:
    """What a descriptor whose class is written in Python gives, read through an instance, or through the class where
    `value` is None."""
    getter = look_up(t, type(descriptor), "__get__")
    if not isinstance(getter, types.FunctionType):
        return None
    bound = t.wrap(t.objects.known(descriptor), descriptor)
    return t.from_python(getter).call(t, [bound, value, t.from_python(cls)], {})


def class_method(t: Tracer, method: classmethod[object, ..., object], cls: type) -> Value:
    if isinstance(method.__func__, property):  # before Python 3.13 the property is read of the class
        unsupported(reasons.ATTRIBUTE, f"{cls.__name__} has a property of the class")
    return t.bind(t.from_python(method.__func__), t.from_python(cls))


_FIELD_OF_TUPLE = type(vars(namedtuple("_Pair", "first"))["first"])
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


class Lazy:
    """An item of a container, or an attribute, that the program has not read yet, so that nothing is assumed of it."""

    def __init__(self, source: Source, given: Any) -> None:
        self.source = source
        self.given = given


Answer = TypeVar("Answer", int, bool)


class ProgramKey:
    """An object whose class says in Python how it is hashed and compared, as a dictionary key."""

    def __init__(self, t: Tracer, value: ObjectValue) -> None:
        self.t = t
        self.value = value
        self.number = self._asked(lambda: hash(value.special(t, "__hash__", []).known(t)))

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        them = getattr(other, "value", None)
        found = them if isinstance(them, Value) else self.t.from_python(other)
        return self._asked(lambda: self.t.same_or_equal(self.value, found))

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """What its methods say. One that changes what it has not made itself is left to Python: how often a container
        asks is not told here."""
        effects = self.t.effects
        before, effects.oldest = effects.oldest, (made := next(NUMBERS))
        try:
            found = ask()
            if effects.oldest < made:
                name = self.value.cls.__name__
                unsupported(reasons.OPERATION, f"a {name} in a container: its __hash__ or __eq__ has an effect")
        finally:
            effects.oldest = min(before, effects.oldest)
        return found


class ObjectValue(Value):
    """An instance. `given` is the real object that the frame found; attributes set while tracing are in `overlay`."""

    asked: Tracer | None = None
    """Who runs the methods of a class that says in Python how its instances are hashed."""

    def __init__(self, cls: type, source: Source | None = None, given: Any = MISSING) -> None:
        self.cls = cls
        self.made_as = next(NUMBERS)
        self.source = source
        self.given = given
        self.overlay: dict[str, Value] = {}
        self.attributes: Value | None = None
        """Its __dict__, once the program has asked for that."""

    def python_type(self) -> type:
        return self.cls

    def identity(self) -> object:
        return self if self.given is MISSING else self.given

    def real(self) -> Any:
        if self.given is MISSING or self.overlay:
            raise NotConstant(self)
        return self.given

    def known(self, t: Tracer) -> Any:
        if type(self) is not ObjectValue:
            return super().known(t)
        try:
            return self.lasting(t)
        except NotConstant:
            unsupported(reasons.OPERATION, f"{self.describe()} where a constant is needed")

    def lasting(self, t: Tracer) -> Any:
        if self.cls.__module__ not in UNCHANGING or self.given is MISSING or self.source is None:
            raise NotConstant(self)
        t.guards.on(self.source, IsObject(self.given), "what a library says of this object was used")
        return self.real()

    def as_index(self, t: Tracer) -> int:
        return self.special(t, "__index__", []).as_index(t)

    def key(self) -> Any:
        found = type_attribute(self.cls, "__hash__")
        if found is None:
            raise Unhashable(self.cls)
        self.compared = True
        if isinstance(found, types.FunctionType) and self.asked is not None:
            return ProgramKey(self.asked, self)
        if found is not object.__hash__ and self.given is MISSING:
            unsupported(reasons.OPERATION, f"hash of a {self.cls.__name__}")
        return self if self.given is MISSING else self.given

    # ----------------------------------------------------------------------------------------------------- attributes

    def get_attr(self, t: Tracer, name: str) -> Value:
        hook = look_up(t, self.cls, "__getattribute__")
        if isinstance(hook, types.FunctionType):
            try:
                return t.from_python(hook).call(t, [self, Constant(name)], {})
            except Raised as raised:
                is_missing = issubclass(raised.value.python_type(), AttributeError)
                if not is_missing or look_up(t, self.cls, "__getattr__") is MISSING:
                    raise
                return self.special(t, "__getattr__", [Constant(name)])
        found = self.find(t, name)
        if found is not None:
            return found
        if look_up(t, self.cls, "__getattr__") is not MISSING:
            return self.special(t, "__getattr__", [Constant(name)])
        t.raise_(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")

    def find(self, t: Tracer, name: str) -> Value | None:
        """object.__getattribute__, None where it raises AttributeError."""
        if name == "__class__" and look_up(t, self.cls, name) is vars(object)[name]:
            return t.from_python(self.cls)
        if name == "__dict__" and self.cls.__dictoffset__:
            if self.attributes is None:
                self.attributes = t.instance_dict(self)
            return self.attributes
        descriptor = look_up(t, self.cls, name)
        kind = type(descriptor)
        if hasattr(kind, "__get__") and hasattr(kind, "__set__"):
            return self.bind(t, descriptor, name)
        own = self.own(t, name)
        if own is not None or descriptor is not MISSING:
            return own if own is not None else self.bind(t, descriptor, name)
        is_there = self.given is not MISSING and self.source is not None and name not in self.overlay
        if is_there and _answers_itself(self.cls):
            reads = type_attribute(self.cls, "__getattribute__")  # getattr would ask the program's __getattr__ too
            return self.read(t, name, functools.partial(reads, self.given, name))
        return None

    def own(self, t: Tracer, name: str) -> Value | None:
        """The value in the instance's own dictionary, read."""
        found = self.in_dict(name)
        if found is None and name not in self.overlay and self.source is not None and _dict_of(self.given) is not None:
            t.guards.on(self.source, Has(name, False, "attribute"), "the object itself does not have it")
        return t.wrap(found.source, found.given) if isinstance(found, Lazy) else found

    def in_dict(self, name: str) -> Value | Lazy | None:
        """The value in the instance's own dictionary; Lazy if the program has not read it."""
        if name in self.overlay:
            found = self.overlay[name]
            return None if found is DELETED else found
        if self.given is not MISSING:
            held = _dict_of(self.given)
            if held is not None and name in held:
                assert self.source is not None
                return Lazy(self.stored_at(self.source, name), held[name])
        return None

    def stored_at(self, source: Source, name: str) -> Attr:
        """Where an attribute is read that no code of the class makes."""
        hook = type.__getattribute__(self.cls, "__getattribute__")
        return Attr(source, name, plain=isinstance(hook, types.FunctionType))

    def given_names(self) -> list[str]:
        """The names in the dictionary of the real object."""
        return [] if self.given is MISSING else list(_dict_of(self.given) or ())

    def own_names(self, t: Tracer) -> list[str]:
        kept = [name for name in self.given_names() if not t.effects.is_deleted(self, name)]
        return list(dict.fromkeys([*kept, *(name for name, value in self.overlay.items() if value is not DELETED)]))

    def bind(self, t: Tracer, descriptor: object, name: str) -> Value:
        """Read a class attribute through the instance: the descriptor protocol."""
        if isinstance(descriptor, functools.cached_property):
            if not self.cls.__dictoffset__:
                message = f"No '__dict__' attribute on {self.cls.__name__!r} instance to cache {name!r} property."
                t.raise_(TypeError, message)
            own = self.own(t, name)
            if own is None:
                own = t.from_python(descriptor.func).call(t, [self], {})
                t.effects.set_attr(self, name, own)
            return own
        if isinstance(descriptor, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self._slot(t, descriptor, name)
        return bound_attribute(t, self, self.cls, descriptor, name)

    def _slot(self, t: Tracer, descriptor: Any, name: str) -> Value:
        held = self.overlay.get(name)
        is_made = held is None and (self.given is MISSING or self.source is None)
        if is_made and is_written_in_c(owner_of(self.cls, name)):
            return self.kept_in_c(t, name)
        if held is DELETED or is_made:
            t.raise_(AttributeError, f"'{_name_for_slots(self.cls)}' object has no attribute '{name}'")
        if held is not None:
            return held
        return self.read(t, name, lambda: descriptor.__get__(self.given, self.cls))

    def kept_in_c(self, t: Tracer, name: str) -> Value:
        """What C code keeps under `name` in an object made while tracing."""
        unsupported(reasons.ATTRIBUTE, f"{self.cls.__name__}.{name}, which is written in C")

    def read(self, t: Tracer, name: str, get: Callable[[], object]) -> Value:
        """An attribute that is kept outside of the instance's dictionary, or that it is missing."""
        assert self.source is not None
        try:
            found = get()
        except AttributeError as error:
            t.guards.on(self.source, Has(name, False, "slot"), "the object does not have it")
            t.raise_(AttributeError, str(error))
        return t.wrap(self.stored_at(self.source, name), found)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        hook = "__setattr__" if value is not None else "__delattr__"
        if getattr(look_up(t, self.cls, hook), "__objclass__", None) is object:
            self.assign(t, name, value)
        else:
            self.special(t, hook, [Constant(name), *([value] if value is not None else [])])

    def assign(self, t: Tracer, name: str, value: Value | None) -> None:
        """object.__setattr__ and object.__delattr__."""
        descriptor = look_up(t, self.cls, name)
        if isinstance(descriptor, property):
            change = descriptor.fset if value is not None else descriptor.fdel
            if change is None:
                t.raise_(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter")
            t.from_python(change).call(t, [self, *([value] if value is not None else [])], {})
            return
        if isinstance(descriptor, _FIELD_OF_TUPLE):
            t.raise_(AttributeError, f"can't {'set' if value is not None else 'delete'} attribute")
        setter = look_up(t, type(descriptor), "__set__") if descriptor is not MISSING else MISSING
        if isinstance(setter, types.FunctionType) and value is not None:
            t.from_python(setter).call(t, [t.wrap(t.objects.known(descriptor), descriptor), self, value], {})
            return
        deleter = look_up(t, type(descriptor), "__delete__") if descriptor is not MISSING else MISSING
        if isinstance(deleter, types.FunctionType) and value is None:
            t.from_python(deleter).call(t, [t.wrap(t.objects.known(descriptor), descriptor), self], {})
            return
        if setter is not MISSING and not isinstance(descriptor, (types.MemberDescriptorType, types.FunctionType)):
            unsupported(reasons.ATTRIBUTE, f"setting {self.cls.__name__}.{name}, a {type(descriptor).__name__}")
        if setter is MISSING and not self.cls.__dictoffset__:
            message = lacks_to_set(name) if descriptor is MISSING else f"attribute '{name}' is read-only"
            t.raise_(AttributeError, f"'{type_name(self.cls)}' object {message}")
        if value is None:
            if isinstance(descriptor, types.MemberDescriptorType):
                try:
                    self._slot(t, descriptor, name)
                except Raised:
                    t.raise_(AttributeError, name)
            elif self.own(t, name) is None:
                t.raise_(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")
            t.effects.set_attr(self, name, DELETED)
            return
        t.effects.set_attr(self, name, value)

    # ---------------------------------------------------------------------------------------------------- operations

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value | None:
        return self.special(t, f"__{function.__name__}__", []) if len(operands) == 1 else None

    def operate_in_place(self, t: Tracer, function: Callable[..., object], other: Value) -> Value | None:
        return self.operator_method(t, f"__{function.__name__}__", other)

    def operator_method(self, t: Tracer, name: str, other: Value) -> Value | None:
        if name in UNION and self.cls.__module__ in _TYPING:
            return union(t, name, self, other)
        if look_up(t, self.cls, name) is MISSING or not takes(self.cls, name, other.python_type()):
            return None
        return self.special(t, name, [other])

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.special(t, "__call__", args, kwargs)

    def overrides(self, t: Tracer, *names: str) -> bool:
        return any(isinstance(look_up(t, self.cls, name), types.FunctionType) for name in names)

    def special(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        found = look_up(t, self.cls, name)
        if found is MISSING or found is None:
            lacks(t, self.cls, name, args[0] if args else None)
        if isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            return self.method(t, found.__name__, args, kwargs or {})
        return checked(t, self.cls, name, self.bind(t, found, name).call(t, args, kwargs or {}))

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        own = look_up(t, self.cls, name)
        if isinstance(own, types.FunctionType):  # super() skips it
            own = attribute_in_c(self.cls, name)
        if name in _COMPARISONS and isinstance(own, types.WrapperDescriptorType) and own.__objclass__ is not object:
            unsupported(reasons.UNTRACEABLE_CALL, f"{self.cls.__name__}.{name}")
        match name:
            case "__init__" | "__init_subclass__":
                return Constant(None)
            case "__getattribute__":
                wanted = args[0].known(t)
                found = self.find(t, wanted)
                if found is None:
                    t.raise_(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{wanted}'")
                return found
            case "__setattr__":
                self.assign(t, args[0].known(t), args[1])
                return Constant(None)
            case "__delattr__":
                self.assign(t, args[0].known(t), None)
                return Constant(None)
            case "__eq__":
                return Constant(True) if args[0] is self else Constant(NotImplemented)
            case "__lt__" | "__le__" | "__gt__" | "__ge__":
                return Constant(NotImplemented)
            case "__ne__":
                equal = self.special(t, "__eq__", args)
                if isinstance(equal, Constant) and equal.value is NotImplemented:
                    return equal
                return Constant(not equal.truth(t))
            case "__hash__" if self.given is not MISSING and self.source is not None:
                t.guards.on(self.source, IsObject(self.given), "its hash was used")
                return Constant(own(self.given))
            case "__enter__" | "__exit__" if hasattr(self.given, name):
                unsupported(reasons.UNTRACEABLE_CALL, f"{self.cls.__name__}.{name}")
            case "__repr__" | "__str__" | "__format__" if self.given is not MISSING and is_plain(self.given):
                if own.__objclass__ is object and self.overrides(t, "__repr__", "__str__"):
                    unsupported(reasons.UNTRACEABLE_CALL, f"{self.cls.__name__}.{name}")
                return Constant(own(self.given, *(each.known(t) for each in args)))
        rule = t.rule_for(own)
        if rule is not None:
            return rule(t, [self, *args], kwargs)
        if self.cls.__module__ == "re" and not kwargs:
            return t.from_python(t.python(getattr(self.lasting(t), name), *(each.known(t) for each in args)))
        unsupported(reasons.UNTRACEABLE_CALL, f"{self.cls.__name__}.{name}")

    def truth(self, t: Tracer) -> bool:
        if look_up(t, self.cls, "__bool__") is not MISSING:
            return self.special(t, "__bool__", []).truth(t)
        if look_up(t, self.cls, "__len__") is not MISSING:
            return self.special(t, "__len__", []).truth(t)
        return True

    def length(self, t: Tracer) -> Value:
        return self.special(t, "__len__", [])

    def iterate(self, t: Tracer) -> Value:
        has_items = look_up(t, self.cls, "__getitem__") is not MISSING
        if has_items and look_up(t, self.cls, "__iter__") is MISSING:
            return t.indexing_iterator(self)
        return self.special(t, "__iter__", [])

    def next(self, t: Tracer) -> Value | None:
        return t.unless(StopIteration, self.special, t, "__next__", [])

    def get_item(self, t: Tracer, key: Value) -> Value:
        return self.special(t, "__getitem__", [key])

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        if value is None:
            self.special(t, "__delitem__", [key])
        else:
            self.special(t, "__setitem__", [key, value])

    def contains(self, t: Tracer, item: Value) -> bool:
        if look_up(t, self.cls, "__contains__") is not MISSING:
            return self.special(t, "__contains__", [item]).truth(t)
        message = f"argument of type '{name_in_messages(self.cls)}' is not iterable"
        return self.is_in(t, item, t.iterate_or(message, self))

    def reconstruct(self, r: Reconstructor) -> None:
        if self.given is not MISSING:
            unsupported(reasons.NOT_RECONSTRUCTED, f"a {self.cls.__name__} without a source")
        if self.cls.__module__ == OPTREE:
            unsupported(reasons.NOT_RECONSTRUCTED, f"a {self.cls.__name__} of optree's")
        r.instance(self)


def _answers_itself(cls: type) -> bool:
    """Whether a type written in C has a way of its own to find attributes, as threading.local has. Python's containers
    name the common one as theirs."""
    found = type_attribute(cls, "__getattribute__")
    if not isinstance(found, types.WrapperDescriptorType) or found is object.__getattribute__:
        return False
    return found.__objclass__.__module__ not in ("builtins", "collections")


def is_shadowed(cls: type, name: str) -> bool:
    """Whether setting an attribute runs a descriptor of the class, while the program has it in the dictionary."""
    found = type_attribute(cls, name)
    of_c = isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType))
    return found is not MISSING and hasattr(type(found), "__set__") and not of_c


def set_in_dict(owner: object, name: str, value: object) -> None:
    """What `is_shadowed` is about: the attribute in the object's own dictionary."""
    object.__getattribute__(owner, "__dict__")[name] = value


def _dict_of(given: object) -> dict[str, Any] | None:
    """The instance's own dictionary; of a threading.local this thread's."""
    if issubclass(type(given), threading.local):
        return vars(given)
    try:
        found: dict[str, Any] = object.__getattribute__(given, "__dict__")
    except AttributeError:
        return None
    return found


# --------------------------------------------------------------------------------------- what Python demands of methods
#
# What Python demands of the methods that it calls itself, and its words where one is missing or answers wrongly.


def _name_for_slots(cls: type) -> str:
    """The class's name in the error of a slot without a value."""
    if sys.version_info < (3, 13):
        return type_name(cls)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


LACKS: dict[str, str] = {
    "__iter__": "'{}' object is not iterable",
    "__next__": "'{}' object is not an iterator",
    "__call__": "'{}' object is not callable",
    "__getitem__": "'{}' object is not subscriptable",
    "__setitem__": "'{}' object does not support item assignment",
    "__delitem__": "'{}' object does not support item deletion",
    "__len__": "object of type '{}' has no len()",
    "__contains__": "'{}' object is not a container",
    "__neg__": "bad operand type for unary -: '{}'",
    "__pos__": "bad operand type for unary +: '{}'",
    "__invert__": "bad operand type for unary ~: '{}'",
    "__abs__": "bad operand type for abs(): '{}'",
    "__index__": "'{}' object cannot be interpreted as an integer",
    "__hash__": "unhashable type: '{}'",
    "__reversed__": "'{}' object is not reversible",
    "__round__": "type {} doesn't define __round__ method",
    "__trunc__": "type {} doesn't define __trunc__ method",
    "__enter__": "'{}' object does not support the context manager protocol",
    "__exit__": "'{}' object does not support the context manager protocol (missed __exit__ method)",
}
"""TypeError's message where a type has no such method, or has None in its place."""

RETURNS: dict[str, tuple[type, str]] = {
    "__bool__": (bool, "__bool__ should return bool, returned {got}"),
    "__index__": (int, "__index__ returned non-int (type {got})"),
    "__hash__": (int, "__hash__ method should return an integer"),
    "__str__": (str, "__str__ returned non-string (type {got})"),
    "__repr__": (str, "__repr__ returned non-string (type {got})"),
    "__format__": (str, "__format__ must return a str, not {got}"),
    "__int__": (int, "__int__ returned non-int (type {got})"),
    "__float__": (float, "{owner}.__float__ returned non-float (type {got})"),
    "__complex__": (complex, "__complex__ returned non-complex (type {got})"),
    "__bytes__": (bytes, "__bytes__ returned non-bytes (type {got})"),
    "__init__": (type(None), "__init__() should return None, not '{got}'"),
}
"""The type that Python requires of a method's result, and TypeError's message for another."""


def lacks(t: Tracer, owner: type, name: str, item: Value | None = None) -> NoReturn:
    """Raise what Python does where it needs a method that the type has not."""
    message = LACKS.get(name)
    if name == "__delitem__" and item and look_up(t, item.python_type(), "__index__") is not MISSING:
        message = "'{}' object doesn't support item deletion"  # the message for sequences
    if message is None:
        t.raise_(AttributeError, f"'{type_name(owner)}' object has no attribute '{name}'")
    t.raise_(TypeError, message.format(type_name(owner)))


def union(t: Tracer, name: str, value: Value, other: Value) -> Value:
    """`int | None`, and other objects that are used as a type."""
    operands = (value, other) if name == "__or__" else (other, value)
    return t.from_python(t.python(operator.or_, *(each.live(t) for each in operands)))


def checked(t: Tracer, owner: type, name: str, found: Value) -> Value:
    """The result of a method that Python called itself; raises what Python does for one of the wrong kind."""
    kind = found.python_type()
    if name in RETURNS:
        wanted, message = RETURNS[name]
        if not issubclass(kind, wanted):
            t.raise_(TypeError, message.format(owner=owner.__name__, got=kind.__name__))
        if name == "__hash__" and isinstance(found, Constant):
            number = int(found.value)
            in_range = number if -(1 << 63) <= number < 1 << 63 else hash(number)
            return Constant(-2 if in_range == -1 else in_range)
    elif name == "__iter__" and look_up(t, kind, "__next__") in (MISSING, None):
        t.raise_(TypeError, f"iter() returned non-iterator of type '{name_in_messages(kind)}'")
    elif name == "__len__":
        return _length(t, found)
    return found


def _length(t: Tracer, found: Value) -> Value:
    if not isinstance(found, Constant):
        if not issubclass(found.python_type(), int):
            found = Constant(found.as_index(t))
        elif t.compare("<", found, Constant(0)).truth(t):
            t.raise_(ValueError, "__len__() should return >= 0")
    if isinstance(found, Constant):
        number = found.as_index(t)
        if number < 0:
            t.raise_(ValueError, "__len__() should return >= 0")
        if number > sys.maxsize:
            t.raise_(OverflowError, "cannot fit 'int' into an index-sized integer")
        return Constant(number)
    return found


# ------------------------------------------------------------------------------------------------------------- operands
#
# Which operands the operators of types written in C take, and what they say of others: Python itself is asked, with an
# empty example of each type.


_PLAIN: tuple[object, ...] = (
    1, True, 1.0, 1j, "", b"", None, ..., NotImplemented, slice(None), range(0), {}.keys(), {}.values(), {}.items(),
    iter([]), len, lambda: None, int, torch.float32, torch.strided, torch.Size(), types.SimpleNamespace(), torch,
)  # fmt: skip
_EXAMPLES: dict[type, object] = {type(each): each for each in _PLAIN}
_CONTAINERS = (
    collections.OrderedDict, collections.defaultdict, dict, list, tuple, set, frozenset, collections.deque
)  # fmt: skip


def takes(owner: type, method: str, operand: type) -> bool:
    """Whether a type's own method is for operands of that type. One that the program wrote answers by itself."""
    own = type_attribute(owner, method)
    if not isinstance(own, types.WrapperDescriptorType):
        return own is not MISSING
    if own.__objclass__ is object or own.__name__ != method:
        return True
    mine, theirs = _example(owner), _example(operand)
    if mine is MISSING or theirs is MISSING:
        return True
    try:
        return own(mine, theirs) is not NotImplemented
    except TypeError:
        return False


def type_error(function: Callable[[object, object], object], left: type, right: type) -> str | None:
    """The text of the TypeError for two types that have no such operator; None if they have one, or if that is not
    known."""
    pair = _example(left), _example(right)
    if MISSING in pair:
        return None
    try:
        function(*pair)
    except TypeError as error:
        return str(error)
    return None


def _example(cls: type) -> object:
    """An empty object of a type, or of its base that is written in C; if all its operators are written in Python, an
    object of a class with the same name; else MISSING."""
    if cls in _EXAMPLES:
        return _EXAMPLES[cls]
    for base in _CONTAINERS:
        if issubclass(cls, base) and all(
            not isinstance(type_attribute(cls, name), types.FunctionType) for name in ("__iter__", "keys", "__len__")
        ):
            is_structseq = hasattr(cls, "n_sequence_fields")  # such as sys.version_info, whose class cannot be called
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


# ----------------------------------------------------------------------------------------------------------- exceptions


class ExceptionValue(ObjectValue):
    """An exception instance."""

    def __init__(self, cls: type, args: list[Value], source: Source | None = None, given: object = MISSING) -> None:
        super().__init__(cls, source, given)
        self.args = args
        self.has_own_traceback = False
        """Whether eager's leads into an inlined function, or belongs to an error before the one that is handled."""

    def tell_attribute(self, value: Value, name: str) -> None:
        if issubclass(self.cls, AttributeError) and self.source is None and not self.overlay.keys() & {"name", "obj"}:
            self.overlay |= {"name": Constant(name), "obj": value}

    def find(self, t: Tracer, name: str) -> Value | None:
        if name == "args":
            return t.from_python(tuple(self.args))
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else Constant(None)
        if name == "__traceback__" and name not in self.overlay:
            self.tell_traceback_is_read(t)
            unsupported(reasons.ATTRIBUTE, "the traceback of an exception, which only a real frame has")
        if name in _LINKS:
            linked = self.overlay.get(name) or self._link(t, name)
            if isinstance(linked, ExceptionValue):
                linked.has_own_traceback = True
            return linked
        if name == "with_traceback" and not self.overrides(t, name):
            return HostValue(lambda args, kwargs: self)
        return super().find(t, name)

    def kept_in_c(self, t: Tracer, name: str) -> Value:
        """The result of the class's constructor for these arguments."""
        if issubclass(self.cls, BaseExceptionGroup):
            return self.args[0] if name == "message" else t.from_python(tuple(self.args[1].unpack(t)))
        if name in ("name", "obj"):
            if issubclass(self.cls, AttributeError) and _SETTING_NAMES:
                return super().kept_in_c(t, name)
            return Constant(None)
        return t.from_python(getattr(self._base(t), name))

    def _base(self, t: Tracer) -> BaseException:
        """An exception of Python's own class that this one derives from, with the same arguments."""
        base = next(b for b in self.cls.__mro__ if b.__module__ == "builtins")
        made: BaseException = base(*(each.known(t) for each in self.args))
        return made

    def tell_traceback_is_read(self, t: Tracer) -> None:
        if self.has_own_traceback:
            t.tape.whole = "the program reads a traceback of an inlined function, or of an error before the last"

    def _link(self, t: Tracer, name: str) -> Value | None:
        """What links the exception to others, where the program has not set it."""
        if self.source is not None and hasattr(self.given, name):
            return t.wrap(Attr(self.source, name), getattr(self.given, name))
        if name == "__notes__":
            return None
        return Constant("__cause__" in self.overlay) if name == "__suppress_context__" else Constant(None)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if name in _LINKS and value is not None:
            t.effects.set_attr(self, name, value)
            if name == "__cause__":
                t.effects.set_attr(self, "__suppress_context__", Constant(True))
            return
        super().set_attr(t, name, value)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__init__":
            if kwargs.keys() - _ADDED:
                t.raise_(TypeError, f"{self.cls.__name__}() takes no keyword arguments")
            self.args = list(args)
            self.overlay |= kwargs
            return Constant(None)
        if name == "add_note":
            notes = self.find(t, "__notes__")
            if notes is None:
                notes = t.from_python([])
                self.set_attr(t, "__notes__", notes)
            notes.method(t, "append", args, kwargs)
            return Constant(None)
        if name == "__str__":
            return Constant(str(self._base(t)))
        if name == "__repr__":
            return Constant(f"{self.cls.__name__}({', '.join(repr(a.known(t)) for a in self.args)})")
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        makers = (getattr(self.cls, name) for name in ("__init__", "__new__"))
        if self.overlay.keys() - _LINKS or any(hasattr(maker, "__code__") for maker in makers):
            r.instance(self, self.args)
        else:
            r.call(self.cls, self.args)
        order = ("__cause__", "__context__", "__suppress_context__", "__notes__")
        links = [name for name in order if name in self.overlay]
        if links:
            made = r.store_new(self)
            for name in links:  # setting __cause__ sets __suppress_context__
                r.value(self.overlay[name])
                r.emit("LOAD_FAST", made)
                r.emit("STORE_ATTR", name)
            r.emit("LOAD_FAST", made)


def class_made(t: Tracer, cls: type, args: list[Value]) -> type:
    """The class of what `cls.__new__(cls, *args)` makes, where that depends on the arguments; raises what it raises."""

    def stand_in(value: Value) -> Any:
        if isinstance(value, ExceptionValue):
            held: Any = value.cls
            return held.__new__(held, *map(stand_in, value.args if issubclass(held, BaseExceptionGroup) else ()))
        is_sequence = issubclass(cls, BaseExceptionGroup) and issubclass(value.python_type(), (list, tuple))
        return [stand_in(item) for item in value.unpack(t)] if is_sequence else value.known(t)

    return type(t.python(maker_of(cls), cls, *map(stand_in, args)))


class TracebackValue(ObjectValue):
    """The traceback of an exception, of which nothing is known: only a real frame has it."""

    def __init__(self, error: Value) -> None:
        super().__init__(types.TracebackType)
        self.error = error

    def find(self, t: Tracer, name: str) -> Value | None:
        return self.error.get_attr(t, "__traceback__")

    def reconstruct(self, r: Reconstructor) -> None:
        self.error.get_attr(r.t, "__traceback__")


def _error_of_setting() -> AttributeError:
    try:
        object.__setattr__(object(), "absent", None)
    except AttributeError as error:
        return error
    raise AssertionError("an object has no attributes")


_SETTING_NAMES = _error_of_setting().name is not None
"""Whether a failed assignment's error has the name too: it varies with Python."""

_ADDED = frozenset({"name", "obj", "path", "name_from"})
_LINKS = frozenset({"__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__"})


def mapping_pairs(t: Tracer, value: Value) -> list[tuple[Value, Value]]:
    """What dict.update takes from a mapping, or from an iterable of pairs."""
    own = value.own_pairs(t)
    if own is not None:
        return own
    if look_up(t, value.python_type(), "keys") is not MISSING:
        keys = t.call_method(value, "keys", []).unpack(t)
        return [(key, t.get_item(value, key)) for key in keys]
    pairs = []
    for place, pair in enumerate(value.unpack(t)):
        items = t.unless(TypeError, pair.unpack, t)
        if items is None:
            t.raise_(TypeError, f"cannot convert dictionary update sequence element #{place} to a sequence")
        if len(items) != 2:
            message = f"dictionary update sequence element #{place} has length {len(items)}; 2 is required"
            t.raise_(ValueError, message)
        pairs.append((items[0], items[1]))
    return pairs


def look_up(t: Tracer, cls: type, name: str, after: type | None = None) -> Any:
    """What the class or its bases define under `name`, as it stands in their dictionaries; MISSING if nothing.
    Only those behind `after` are asked, where super() asks.

    The program's own classes may come to define another: which it is, and that no class before has one, is guarded.
    Data is guarded where it is read.
    """
    key = id(cls), name, id(after)
    if key in t.objects.looked_up:
        return t.objects.looked_up[key]
    found: Any = MISSING
    order = cls.__mro__
    for base in order if after is None else order[order.index(after) + 1 :]:
        fixed = is_written_in_c(base) or is_in(base.__module__, FIXED)
        members = Attr(t.objects.known(base), "__dict__")
        if name in base.__dict__:
            found = base.__dict__[name]
            if not fixed and hasattr(type(found), "__get__"):
                t.guards.on(Item(members, name), IsObject(found), "it was looked up in the class")
            break
        if not fixed:
            t.guards.on(members, Has(name, False, "key"), "the class does not define it")
    t.objects.looked_up[key] = found
    return found


def class_attribute(t: Tracer, owner: type, name: str, found: object) -> Value:
    """What `owner.__dict__[name]` holds; data is guarded where the class is not a library's."""
    if (id(owner), name) in t.effects.classes:
        return t.effects.classes[id(owner), name]
    if hasattr(type(found), "__get__") or is_in(owner.__module__, FIXED) and not isinstance(found, (list, dict, set)):
        return t.from_python(found)
    return t.wrap(Attr(t.objects.known(owner), name), found)
