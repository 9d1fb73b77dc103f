"""Instances of classes, the classes themselves, modules, exceptions. Stock counterpart: variables/user_defined.py."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

import torch

from explorer.capture import reasons
from explorer.capture.values.base import NotConstant, Raised, Value, unsupported
from explorer.capture.values.constant import Constant, is_plain
from explorer.ir.capture import Attr, Item, Source

if TYPE_CHECKING:
    from explorer.capture.rebuild import Rebuilder
    from explorer.capture.tracer import Tracer


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
DELETED = Constant("deleted")


def type_attribute(cls: type, name: str) -> Any:
    """What the class or its bases define under `name`, as it stands in their dictionaries; MISSING if nothing."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def owner_of(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in base.__dict__)


class IdentityKey:
    """An object made while tracing, as a dictionary key: by identity."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.value is self.value


class ObjectValue(Value):
    """An instance. `given` is the real object that the frame found; attributes set while tracing are in `overlay`."""

    def __init__(self, cls: type, source: Source | None = None, given: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.given = given
        self.overlay: dict[str, Value] = {}
        self.new_args: list[Value] = []

    def python_type(self) -> type:
        return self.cls

    def read_all(self) -> None:
        """Everything in the object is about to matter, not only what was read."""

    def constant(self) -> Any:
        raise NotConstant(self)

    def real(self) -> Any:
        if self.given is MISSING or self.overlay:
            raise NotConstant(self)
        return self.given

    def key(self) -> Any:
        if type_attribute(self.cls, "__hash__") is not object.__hash__ and self.given is MISSING:
            unsupported(reasons.OPERATION, f"hash of a {self.cls.__name__}")
        return IdentityKey(self) if self.given is MISSING else _hashable(self.given, self)

    # ----------------------------------------------------------------------------------------------------- attributes

    def get_attr(self, t: Tracer, name: str) -> Value:
        hook = type_attribute(self.cls, "__getattribute__")
        if isinstance(hook, types.FunctionType):
            try:
                return t.call(t.known_function(hook), [self, Constant(name)], {})
            except Raised as raised:
                fallback = type_attribute(self.cls, "__getattr__")
                if not (
                    issubclass(raised.value.python_type(), AttributeError) and isinstance(fallback, types.FunctionType)
                ):
                    raise
                return t.call(t.known_function(fallback), [self, Constant(name)], {})
        found = self.find(t, name)
        if found is not None:
            return found
        fallback = type_attribute(self.cls, "__getattr__")
        if isinstance(fallback, types.FunctionType):
            return t.call(t.known_function(fallback), [self, Constant(name)], {})
        t.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def find(self, t: Tracer, name: str) -> Value | None:
        """object.__getattribute__, None where it raises AttributeError."""
        if name == "__class__":
            return t.from_python(self.cls)
        if name == "__dict__":
            return t.instance_dict(self)
        descriptor = type_attribute(self.cls, name)
        is_data = descriptor is not MISSING and hasattr(type(descriptor), "__set__")
        if is_data:
            return self.bind(t, descriptor, name)
        own = self.own(t, name)
        if own is not None:
            return own
        if descriptor is MISSING:
            return None
        if (
            self.given is not MISSING
            and self.source is not None
            and not name.startswith("__")
            and _has_dict(self.given)
        ):
            t.guard(self.source, "has", "==", (name, False, "attribute"), "the class's attribute was used in its place")
        return self.bind(t, descriptor, name)

    def own(self, t: Tracer, name: str) -> Value | None:
        """What the instance's own dictionary holds."""
        if name in self.overlay:
            found = self.overlay[name]
            return None if found is DELETED else found
        if self.given is not MISSING and _has_dict(self.given):
            held = object.__getattribute__(self.given, "__dict__")
            if name in held:
                assert self.source is not None
                return t.wrap(Attr(self.source, name), held[name])
        return None

    def own_names(self) -> list[str]:
        names: dict[str, None] = {}
        if self.given is not MISSING and _has_dict(self.given):
            names = dict.fromkeys(object.__getattribute__(self.given, "__dict__"))
        for name, value in self.overlay.items():
            if value is DELETED:
                names.pop(name, None)
            else:
                names[name] = None
        return list(names)

    def bind(self, t: Tracer, descriptor: Any, name: str) -> Value:
        """Read a class attribute through the instance: the descriptor protocol."""
        if isinstance(descriptor, types.FunctionType):
            return t.bind(t.class_attribute(owner_of(self.cls, name), name, descriptor), self)
        if isinstance(descriptor, property):
            if descriptor.fget is None:
                t.raise_(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no getter")
            return t.call(t.from_python(descriptor.fget), [self], {})
        if isinstance(descriptor, classmethod):
            return t.bind(t.from_python(descriptor.__func__), t.from_python(self.cls))
        if isinstance(descriptor, staticmethod):
            return t.from_python(descriptor.__func__)
        if isinstance(descriptor, functools.cached_property):
            own = self.own(t, name)
            if own is None:
                own = t.call(t.from_python(descriptor.func), [self], {})
                t.effects.set_attr(self, name, own)
            return own
        if isinstance(descriptor, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self._slot(t, descriptor, name)
        if isinstance(
            descriptor, (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
        ):
            return t.builtin_method(self, name)
        if isinstance(descriptor, (functools.partialmethod,)):
            return t.call(
                t.from_python(functools.partial),
                [t.bind(t.from_python(descriptor.func), self), *map(t.from_python, descriptor.args)],
                {k: t.from_python(v) for k, v in descriptor.keywords.items()},
            )
        getter = type_attribute(type(descriptor), "__get__")
        if isinstance(getter, types.FunctionType):
            bound = t.wrap(t.known_source(descriptor), descriptor)
            return t.call(t.known_function(getter), [bound, self, t.from_python(self.cls)], {})
        if getter is not MISSING and not isinstance(descriptor, (type, types.BuiltinFunctionType)):
            unsupported(reasons.ATTRIBUTE, f"{self.cls.__name__}.{name} is a {type(descriptor).__name__}")
        return t.class_attribute(owner_of(self.cls, name), name, descriptor)

    def _slot(self, t: Tracer, descriptor: Any, name: str) -> Value:
        if name in self.overlay:
            if self.overlay[name] is DELETED:
                t.raise_(AttributeError, name)
            return self.overlay[name]
        if self.given is MISSING or self.source is None:
            t.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        return t.wrap(Attr(self.source, name), t.python(descriptor.__get__, self.given, self.cls))

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        hook = type_attribute(self.cls, "__setattr__" if value is not None else "__delattr__")
        if isinstance(hook, types.FunctionType):
            t.call(t.known_function(hook), [self, Constant(name), *([value] if value is not None else [])], {})
            return
        self.assign(t, name, value)

    def assign(self, t: Tracer, name: str, value: Value | None) -> None:
        """object.__setattr__ and object.__delattr__."""
        descriptor = type_attribute(self.cls, name)
        if isinstance(descriptor, property):
            change = descriptor.fset if value is not None else descriptor.fdel
            if change is None:
                t.raise_(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter")
            t.call(t.from_python(change), [self, *([value] if value is not None else [])], {})
            return
        setter = type_attribute(type(descriptor), "__set__") if descriptor is not MISSING else MISSING
        if isinstance(setter, types.FunctionType) and value is not None:
            t.call(t.known_function(setter), [t.wrap(t.known_source(descriptor), descriptor), self, value], {})
            return
        if setter is not MISSING and not isinstance(descriptor, (types.MemberDescriptorType, types.FunctionType)):
            unsupported(reasons.ATTRIBUTE, f"setting {self.cls.__name__}.{name}, a {type(descriptor).__name__}")
        if value is None:
            if self.own(t, name) is None and name not in self.overlay:
                t.raise_(AttributeError, name)
            t.effects.set_attr(self, name, DELETED)
            return
        t.effects.set_attr(self, name, value)

    # ---------------------------------------------------------------------------------------------------- operations

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.special(t, "__call__", args, kwargs)

    def special(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        """Call a method that Python looks up on the type."""
        found = type_attribute(self.cls, name)
        if found is MISSING or found is None:
            t.raise_(TypeError, f"'{self.cls.__name__}' object has no {name}")
        if isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            return self.method(t, name, args, kwargs or {})
        return t.call(self.bind(t, found, name), args, kwargs or {})

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name:
            case "__init__" | "__init_subclass__":
                return Constant(None)
            case "__getattribute__":
                wanted = t.constant_of(args[0])
                found = self.find(t, wanted)
                if found is None:
                    t.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{wanted}'")
                return found
            case "__setattr__":
                self.assign(t, t.constant_of(args[0]), args[1])
                return Constant(None)
            case "__delattr__":
                self.assign(t, t.constant_of(args[0]), None)
                return Constant(None)
            case "__eq__":
                return Constant(True) if args[0] is self else Constant(NotImplemented)
            case "__ne__":
                equal = self.special(t, "__eq__", args)
                if isinstance(equal, Constant) and equal.value is NotImplemented:
                    return equal
                return Constant(not t.truth(equal))
            case "__hash__" if self.given is not MISSING:
                return Constant(hash(self.given))
            case "__enter__" | "__exit__" if hasattr(self.given, name):
                unsupported(reasons.UNTRACEABLE_CALL, f"{self.cls.__name__}.{name}")
            case "__repr__" | "__str__" | "__format__" if self.given is not MISSING and is_plain(self.given):
                return Constant(getattr(self.given, name)(*map(t.constant_of, args)))
        rule = t.rule_for(type_attribute(self.cls, name))
        if rule is not None:
            return rule(t, [self, *args], kwargs)
        unsupported(reasons.UNTRACEABLE_CALL, f"{self.cls.__name__}.{name}")

    def truth(self, t: Tracer) -> bool:
        if type_attribute(self.cls, "__bool__") is not MISSING:
            return t.truth(self.special(t, "__bool__", []))
        if type_attribute(self.cls, "__len__") is not MISSING:
            return t.truth(self.special(t, "__len__", []))
        return True

    def length(self, t: Tracer) -> Value:
        return self.special(t, "__len__", [])

    def iterate(self, t: Tracer) -> Value:
        if type_attribute(self.cls, "__iter__") is not MISSING:
            return self.special(t, "__iter__", [])
        if type_attribute(self.cls, "__getitem__") is not MISSING:
            return t.indexing_iterator(self)
        t.raise_(TypeError, f"'{self.cls.__name__}' object is not iterable")

    def next(self, t: Tracer) -> Value | None:
        try:
            return self.special(t, "__next__", [])
        except Raised as raised:
            if issubclass(raised.value.python_type(), StopIteration):
                return None
            raise

    def get_item(self, t: Tracer, key: Value) -> Value:
        return self.special(t, "__getitem__", [key])

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        if value is None:
            self.special(t, "__delitem__", [key])
        else:
            self.special(t, "__setitem__", [key, value])

    def contains(self, t: Tracer, item: Value) -> bool:
        if type_attribute(self.cls, "__contains__") is not MISSING:
            return t.truth(self.special(t, "__contains__", [item]))
        return super().contains(t, item)

    def rebuild(self, r: Rebuilder) -> None:
        if self.given is not MISSING:
            unsupported(reasons.NOT_REBUILT, f"a {self.cls.__name__} without a source")
        r.instance(self)


def _has_dict(given: Any) -> bool:
    try:
        object.__getattribute__(given, "__dict__")
    except AttributeError:
        return False
    return True


def _hashable(given: Any, value: Value) -> Any:
    try:
        hash(given)
    except TypeError:
        unsupported(reasons.OPERATION, f"hash of {value.describe()}")
    return given


class ModuleValue(ObjectValue):
    """An nn.Module. Parameters, buffers and submodules are read where nn.Module keeps them."""

    def get_attr(self, t: Tracer, name: str) -> Value:
        if type_attribute(self.cls, "__getattr__") is not torch.nn.Module.__getattr__ or isinstance(
            type_attribute(self.cls, "__getattribute__"), types.FunctionType
        ):
            return super().get_attr(t, name)
        found = self.find(t, name)
        if found is None:
            found = self.registered(t, name)
        if found is None:
            t.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        return found

    def registered(self, t: Tracer, name: str) -> Value | None:
        """A parameter, buffer or submodule of that name."""
        if name in self.overlay or self.given is MISSING or self.source is None:
            return None
        for table in ("_parameters", "_buffers", "_modules"):
            held = self.given.__dict__.get(table, {})
            if name in held:
                return t.wrap(Item(Attr(self.source, table), name), held[name])
        return None

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if type_attribute(self.cls, "__setattr__") is not torch.nn.Module.__setattr__ or self.given is MISSING:
            super().set_attr(t, name, value)
            return
        if value is None or name in self.given._parameters or name in self.given._modules:
            unsupported(reasons.ATTRIBUTE, f"replacing the parameter or submodule {name}")
        if isinstance(value, ModuleValue) or issubclass(value.python_type(), torch.nn.Parameter):
            unsupported(reasons.ATTRIBUTE, f"registering {name} on a module")
        self.assign(t, name, value)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not self.is_plain(t):
            return self.special(t, "__call__", args, kwargs)
        with t.inside_module(self):
            return t.call(self.get_attr(t, "forward"), args, kwargs)

    def is_plain(self, t: Tracer) -> bool:
        """Whether calling the module is calling its forward: no hooks, nothing overridden. Guards on that."""
        if (
            self.given is MISSING
            or self.source is None
            or not calls_forward(self.given)
            or any(hooks in self.overlay for hooks in _HOOKS)
        ):
            return False
        for hooks in _HOOKS:
            t.guard(Attr(self.source, hooks), "empty", "==", True, "forward was inlined without hooks around it")
        owner = t.known_source(torch.nn.modules.module)
        for hooks in _GLOBAL_HOOKS:
            t.guard(Attr(owner, hooks), "empty", "==", True, "forward was inlined without hooks around it")
        return True

    def iterate(self, t: Tracer) -> Value:
        return self.special(t, "__iter__", [])

    def get_item(self, t: Tracer, key: Value) -> Value:
        if self.cls in (torch.nn.ModuleList, torch.nn.Sequential) and not isinstance(key, Constant):
            chosen = t.items(t.call_method(t.get_attr(self, "_modules"), "values", []))
            return t.new_list(chosen).get_item(t, key)
        return self.special(t, "__getitem__", [key])

    def describe(self) -> str:
        return f"module {self.source.name if self.source else self.cls.__name__}"


def calls_forward(module: torch.nn.Module) -> bool:
    """Whether calling the module is calling its forward: no hooks, nothing overridden."""
    own = module.__dict__
    return not (
        any(own.get(hooks) for hooks in _HOOKS)
        or any(getattr(torch.nn.modules.module, hooks) for hooks in _GLOBAL_HOOKS)
        or own.get("_compiled_call_impl") is not None
        or type_attribute(type(module), "__call__") is not _MODULE_CALL
    )


_MODULE_CALL = torch.nn.Module.__dict__["__call__"]
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


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
        if self.module.__name__.partition(".")[0] in ("torch", "math", "operator", "functools", "itertools") and (
            callable(found) or is_plain(found) or isinstance(found, types.ModuleType)
        ):
            return t.from_python(found)
        return t.wrap(source, found)

    def rebuild(self, r: Rebuilder) -> None:
        r.constant(self.module)

    def describe(self) -> str:
        return f"module {self.module.__name__}"


class ExceptionValue(ObjectValue):
    """An exception instance."""

    def __init__(self, cls: type, args: list[Value], source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(cls, source, given)
        self.args = args
        self.cause: Value | None = None

    def find(self, t: Tracer, name: str) -> Value | None:
        if name == "args":
            return t.new_tuple(self.args)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else Constant(None)
        if name == "__traceback__" and name not in self.overlay:
            unsupported(reasons.ATTRIBUTE, "the traceback of an exception, which only a real frame has")
        if name in _LINKS:
            return self.overlay.get(name) or self._link(t, name)
        if name == "with_traceback":
            return t.host(lambda args, kwargs: self)
        if name == "name" and issubclass(self.cls, AttributeError):
            return Constant(None)
        return super().find(t, name)

    def _link(self, t: Tracer, name: str) -> Value:
        """What links the exception to others, where the program has not set it."""
        if self.source is not None and self.given is not MISSING:
            return t.wrap(Attr(self.source, name), getattr(self.given, name, None))
        return Constant("__cause__" in self.overlay) if name == "__suppress_context__" else Constant(None)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if name in _LINKS and value is not None:
            self.overlay[name] = value
            return
        super().set_attr(t, name, value)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__init__":
            self.args = list(args)
            return Constant(None)
        if name == "__str__":
            plain = [t.constant_of(a) for a in self.args]
            base = next(b for b in self.cls.__mro__ if b.__module__ == "builtins")
            return Constant(str(base(*plain)))
        if name == "__repr__":
            return Constant(f"{self.cls.__name__}({', '.join(repr(t.constant_of(a)) for a in self.args)})")
        return super().method(t, name, args, kwargs)

    def rebuild(self, r: Rebuilder) -> None:
        if self.overlay.keys() - _LINKS:
            unsupported(reasons.NOT_REBUILT, f"a {self.cls.__name__} with attributes")
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


_LINKS = frozenset({"__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__"})


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
