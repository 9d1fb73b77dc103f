"""Classes, super() and modules of Python. Stock counterpart: variables/user_defined.py."""

from __future__ import annotations

import enum
import sys
import types
from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Has, IsObject, KeysAre
from explorer.compiler.capture.values import objects
from explorer.compiler.capture.values.base import Namespace, Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant, is_plain
from explorer.core.libraries import FIXED, STEADY, is_in
from explorer.core.reasons import unsupported
from explorer.ir.bytecode import Code
from explorer.ir.capture import Attr, Global, Item, Known, Source


class ClassValue(Value):
    """A class. `real` is the class itself."""

    def __init__(self, cls: type, source: Source | None = None) -> None:
        self.cls = cls
        self.source = source

    def guard(self, t: Tracer) -> None:
        why = "what the program does with a class depends on which it is"
        t.guards.on(self.source, IsObject(self.cls), why)

    def python_type(self) -> type:
        return type(self.cls)

    def constant(self) -> Any:
        return self.cls

    def operator_method(self, t: Tracer, name: str, other: Value) -> Value | None:
        return objects.union(t, name, self, other) if name in objects.UNION else None

    def as_exception(self, t: Tracer) -> Value:
        return t.instantiate(self.cls, [], {})

    def get_attr(self, t: Tracer, name: str) -> Value:
        if isinstance(objects.look_up(t, type(self.cls), "__getattribute__"), types.FunctionType):
            unsupported(reasons.ATTRIBUTE, f"{self.cls.__name__}.{name}: its class overrides __getattribute__")
        meta = objects.look_up(t, type(self.cls), name)
        found = objects.look_up(t, self.cls, name)
        if (
            found is objects.MISSING
            or (isinstance(meta, property) or hasattr(type(meta), "__set__"))
            and name != "__doc__"
        ):
            if meta is objects.MISSING:
                hook = objects.look_up(t, type(self.cls), "__getattr__")
                if isinstance(hook, types.FunctionType):
                    return t.from_python(hook).call(t, [self, Constant(name)], {})
                t.raise_(AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'")
            if isinstance(meta, types.FunctionType):
                return t.bind(t.from_python(meta), self)
            if isinstance(meta, property):
                return t.from_python(meta.fget).call(t, [self], {})
            if not hasattr(type(meta), "__get__"):
                return objects.class_attribute(t, objects.owner_of(type(self.cls), name), name, meta)
            value = t.python(getattr, self.cls, name)
            if type(value) is str and not is_in(self.cls.__module__, FIXED):  # its name: a program may change it
                return t.wrap(Attr(t.objects.known(self.cls), name), value)
            return t.from_python(value)
        if isinstance(found, classmethod):
            return objects.class_method(t, found, self.cls)
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
        is_librarys = is_in(type(found).__module__, FIXED)
        if not is_librarys and (given := objects.described(t, found, Constant(None), self.cls)) is not None:
            return given
        if is_plain(t.python(getattr, self.cls, name)) and not is_plain(found):
            return t.from_python(getattr(self.cls, name))
        return objects.class_attribute(t, objects.owner_of(self.cls, name), name, found)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        held = vars(self.cls).get(name, objects.MISSING)
        is_data = held is not objects.MISSING and not hasattr(type(held), "__get__")
        if value is None or not is_data or type(self.cls).__setattr__ is not type.__setattr__:
            unsupported(reasons.ATTRIBUTE, f"setting {self.cls.__name__}.{name}")
        t.effects.set_class(self.cls, name, value)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.instantiate(self.cls, args, kwargs)

    def get_item(self, t: Tracer, key: Value) -> Value:
        hook = objects.look_up(t, type(self.cls), "__getitem__")
        if isinstance(hook, types.FunctionType) and is_plain_enum(self.cls):
            return t.from_python(t.python(lambda: self.cls[key.known(t)]))  # type: ignore[index]
        found = self.by_metaclass(t, "__getitem__", [key])
        if found is not None:
            return found
        return t.from_python(t.python(lambda: self.cls[key.live(t)]))  # type: ignore[index]

    def truth(self, t: Tracer) -> bool:
        names = (
            name for name in ("__bool__", "__len__") if objects.look_up(t, type(self.cls), name) is not objects.MISSING
        )
        found = self.by_metaclass(t, next(names, "__bool__"), [])
        return True if found is None else found.truth(t)

    def by_metaclass(self, t: Tracer, name: str, args: list[Value]) -> Value | None:
        """The result of the metaclass's method, if it is written in Python and the class is no enumeration."""
        hook = objects.look_up(t, type(self.cls), name)
        if not isinstance(hook, types.FunctionType) or is_plain_enum(self.cls):
            return None
        return objects.checked(t, type(self.cls), name, t.from_python(hook).call(t, [self, *args], {}))

    def iterate(self, t: Tracer) -> Value:
        if is_plain_enum(self.cls):
            return t.sequence_iterator(t.from_python(tuple(self.cls)))  # type: ignore[arg-type]
        found = self.by_metaclass(t, "__iter__", [])
        if found is None:
            objects.lacks(t, type(self.cls), "__iter__")
        return found

    def length(self, t: Tracer) -> Value:
        return self.by_metaclass(t, "__len__", []) or Constant(t.python(len, self.cls))

    def contains(self, t: Tracer, item: Value) -> bool:
        found = self.by_metaclass(t, "__contains__", [item])
        if found is not None:
            return found.truth(t)
        return bool(t.python(lambda: item.known(t) in self.cls))  # type: ignore[operator]

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return t.make(self.cls, args, kwargs)
        return t.from_python(t.python(getattr(self.cls, name), *(each.live(t) for each in args)))

    def reconstruct(self, r: Reconstructor) -> None:
        r.constant(self.cls)

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"


def is_plain_enum(cls: type) -> bool:
    return type(cls) is enum.EnumMeta


class UnmadeClass(Value):
    """A class that the frame defines, of which nothing is known yet."""

    of_type = type

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> str:
        return f"class {self.name}"


def unmade_class(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The class that a class statement makes, if making it has no visible effect."""
    body, name, *bases = args
    code, space = getattr(body, "code", None), getattr(body, "globals", {})
    known = all(isinstance(base, ClassValue) and base.cls.__module__.partition(".")[0] in _OWN for base in bases)
    plain = known and not kwargs and _DECORATORS.isdisjoint(space)
    if not plain or code is None or not isinstance(name, Constant) or not _is_harmless(t.stack.decode(code)):
        unsupported(reasons.OPCODE, "LOAD_BUILD_CLASS")
    return UnmadeClass(name.value)


def _is_harmless(body: Code) -> bool:
    """Whether a class body only binds constants, and functions that are at most decorated by a name of _DECORATORS: it
    runs no code that could do more."""
    stack: list[str] = []
    for each in body.instructions:
        match each.op, each.arg:
            case "NOP" | "RETURN_VALUE", _:
                pass
            case "LOAD_CONST" | "LOAD_CLOSURE", _:
                stack.append("constant")
            case "LOAD_NAME", name if name == "__name__" or name in _DECORATORS:
                stack.append(name)
            case "STORE_NAME", name if name != "__slots__" and name not in _DECORATORS:
                stack.pop()
            case "BUILD_TUPLE" | "BUILD_LIST", count:
                stack[len(stack) - count :] = ["constant"]
            case "MAKE_FUNCTION", parts:
                stack[len(stack) - len(parts) - 1 :] = ["function"]
            case "COPY", depth:
                stack.append(stack[-depth])
            case "CALL", (0, ()) if stack[-1] == "function" and stack[-2] in _DECORATORS:
                stack[-2:] = ["function"]
            case _:
                return False
    return True


_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})
_OWN = ("torch", "builtins")


class PyModuleValue(Value):
    """An imported Python module."""

    of_type = types.ModuleType

    def __init__(self, module: types.ModuleType, source: Source | None = None) -> None:
        self.module = module
        self.source = source

    def constant(self) -> Any:
        return self.module

    def get_attr(self, t: Tracer, name: str) -> Value:
        space = vars(self.module)
        if name == "__dict__":
            return namespace(t, space)
        steady = is_in(self.module.__name__, STEADY)
        if steady and (id(space), name) not in t.effects.globals:
            found = t.python(getattr, self.module, name)
            is_setting = isinstance(found, (bool, int, float, str)) and self.module.__name__.startswith("torch.")
            if is_setting:
                return t.wrap(Attr(self.source or t.objects.known(self.module), name), found)
            if callable(found) or is_plain(found) or isinstance(found, types.ModuleType):
                return t.from_python(found)
        held = namespace(t, space).read(t, name, Attr(self.source or t.objects.known(self.module), name))
        if held is not None:
            return held
        # of a steady one, a submodule that was not needed so far
        if steady or type(self.module) is not types.ModuleType or hasattr(types.ModuleType, name):
            return t.from_python(t.python(getattr, self.module, name))
        hook = namespace(t, space).read(t, "__getattr__")
        if hook is not None:
            return hook.call(t, [Constant(name)], {})
        t.raise_(AttributeError, f"module '{self.module.__name__}' has no attribute '{name}'")

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if type(self.module) is not types.ModuleType:
            super().set_attr(t, name, value)
        namespace(t, vars(self.module)).write(t, name, value)

    def reconstruct(self, r: Reconstructor) -> None:
        r.constant(self.module)

    def describe(self) -> str:
        return f"module {self.module.__name__}"


class NamespaceValue(Namespace):
    """The globals of a module, by whatever name they are read and written: a global, an attribute of the module, an
    item of its dictionary. What the trace wrote is in `Effects.globals`."""

    of_type = dict

    def __init__(self, space: dict[str, object], source: Known, name: str) -> None:
        self.space = space
        self.source: Known = source
        self.module = name

    def real(self) -> Any:
        return self.space

    def key(self) -> Any:
        unsupported(reasons.OPERATION, "a dict as a dictionary key")

    def read(self, t: Tracer, name: str, source: Source | None = None) -> Value | None:
        """A global; None where there is none, which is guarded."""
        written = t.effects.globals.get((id(self.space), name))
        if written is not None:
            return None if written is objects.DELETED else written
        if name in self.space:
            return t.wrap(source or self._name_source(t, name), self.space[name])
        if not is_in(self.module, FIXED):
            t.guards.on(self.source, Has(name, False, "key"), "the name must still mean the builtin")
        return None

    def _name_source(self, t: Tracer, name: str) -> Source:
        if self.space is t.given.globals:
            return Global(name)
        held = sys.modules.get(self.module)
        return Global(name, self.module) if held and vars(held) is self.space else Item(self.source, name)

    def write(self, t: Tracer, name: str, value: Value | None) -> None:
        if value is None and self.read(t, name) is None:
            t.raise_(KeyError, name)
        t.effects.set_global(self.space, name, objects.DELETED if value is None else value)

    def get_attr(self, t: Tracer, name: str) -> Value:
        return t.builtin_method(self, name)

    def get_item(self, t: Tracer, key: Value) -> Value:
        found = self.read(t, key.known(t))
        if found is None:
            t.raise_value(KeyError, [key])
        return found

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        self.write(t, key.known(t), value)

    def contains(self, t: Tracer, item: Value) -> bool:
        return self.read(t, item.known(t)) is not None

    def length(self, t: Tracer) -> Value:
        return self._whole(t).length(t)

    def iterate(self, t: Tracer) -> Value:
        return self._whole(t).iterate(t)

    def _whole(self, t: Tracer) -> Value:
        """All globals as a dictionary of their own."""
        t.guards.on(self.source, KeysAre(tuple(self.space)), "all globals of the module, and their order, were used")
        written = [name for space, name in t.effects.globals if space == id(self.space) and name not in self.space]
        found = ((name, self.read(t, name)) for name in (*self.space, *written))
        return t.from_python({name: value for name, value in found if value is not None})

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name, args:
            case "__getitem__", [key]:
                return self.get_item(t, key)
            case "__contains__", [key]:
                return Constant(self.contains(t, key))
            case "__setitem__", [key, value]:
                self.set_item(t, key, value)
                return Constant(None)
            case "__delitem__", [key]:
                self.set_item(t, key, None)
                return Constant(None)
            case (("get" | "setdefault" | "pop"), [key, *default]):
                found = self.read(t, key.known(t))
                if name == "pop" and found is not None:
                    self.set_item(t, key, None)
                if found is None and name == "pop" and not default:
                    t.raise_value(KeyError, [key])
                chosen = found if found is not None else default[0] if default else Constant(None)
                if name == "setdefault" and found is None:
                    self.set_item(t, key, chosen)
                return chosen
            case "update", _:
                pairs = [pair for other in args for pair in objects.mapping_pairs(t, other)]
                for key, value in (*pairs, *((Constant(k), v) for k, v in kwargs.items())):
                    self.set_item(t, key, value)
                return Constant(None)
            case (("keys" | "values" | "items" | "copy" | "__len__" | "__iter__"), []):
                return self._whole(t).method(t, name, args, kwargs)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.constant(self.space)

    def describe(self) -> str:
        return f"globals of {self.module}"


class SuperValue(Value):
    """super(cls, instance or class)."""

    of_type = super

    def __init__(self, start: type, bound: Value) -> None:
        self.start = start
        self.bound = bound

    def get_attr(self, t: Tracer, name: str) -> Value:
        is_class = isinstance(self.bound, ClassValue) and issubclass(self.bound.cls, self.start)
        cls = self.bound.cls if is_class and isinstance(self.bound, ClassValue) else self.bound.python_type()
        if self.start not in cls.__mro__:
            t.raise_(TypeError, "super(type, obj): obj must be an instance or subtype of type")
        found = objects.look_up(t, cls, name, self.start)
        if found is objects.MISSING:
            t.raise_(AttributeError, f"'super' object has no attribute '{name}'")
        order = cls.__mro__[cls.__mro__.index(self.start) + 1 :]
        return self._bind(t, next(base for base in order if name in base.__dict__), name, found, is_class, cls)

    def _bind(self, t: Tracer, base: type, name: str, found: object, is_class: bool, cls: type) -> Value:
        if isinstance(found, staticmethod) or name == "__new__":
            return t.from_python(getattr(found, "__func__", found))
        if isinstance(found, classmethod):
            return objects.class_method(t, found, cls)
        if isinstance(found, types.FunctionType):
            function = objects.class_attribute(t, base, name, found)
            return function if is_class else t.bind(function, self.bound)
        if isinstance(found, property):
            return t.from_python(found.fget).call(t, [self.bound], {})
        if isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            return t.from_python(found) if is_class else t.builtin_method(self.bound, name, found)
        if isinstance(found, types.ClassMethodDescriptorType):
            return t.from_python(found.__get__(None, cls))
        if (given := objects.described(t, found, Constant(None) if is_class else self.bound, cls)) is not None:
            return given
        if hasattr(type(found), "__get__"):
            unsupported(reasons.ATTRIBUTE, f"super().{name} is a {type(found).__name__}")
        return objects.class_attribute(t, base, name, found)


def namespace(t: Tracer, space: dict[str, object]) -> NamespaceValue:
    """The globals of a module."""
    found = t.objects.values.get(id(space))
    if not isinstance(found, NamespaceValue):
        name = str(space.get("__name__", ""))
        source = t.objects.known(space, label=f"globals of {name}")
        found = t.objects.values[id(space)] = NamespaceValue(space, source, name)
    return found
