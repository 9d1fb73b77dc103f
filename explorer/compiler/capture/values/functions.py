"""Things to call: Python functions and their cells, bound methods, builtins, partials. Stock: functions.py."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Has, IsObject
from explorer.compiler.capture.values.base import Cell, Frame, HostValue, NotConstant, Reconstructor, Tracer, Value
from explorer.compiler.capture.values.classes import namespace
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import MISSING, Lazy, ObjectValue, type_attribute
from explorer.compiler.capture.values.sequences import SequenceValue
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Item, Source

_OF_FUNCTIONS = frozenset(vars(types.FunctionType))
"""Attributes of a function that are not in its dictionary."""


class CellAside(Value):
    """A cell on the stack while an inlined comprehension has a variable of its own in the cell's place."""

    of_type = types.CellType

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def reconstruct(self, r: Reconstructor) -> None:
        r.value(self.cell)


@dataclass(eq=False, repr=False)
class FunctionValue(Value):
    """A function written in Python: one found outside (`given`), or one made by traced code."""

    of_type = types.FunctionType
    code: types.CodeType
    globals: dict[str, Any]
    _: KW_ONLY
    name: str
    given: Any = None
    source: Source | None = None
    made_defaults: list[Value] = field(default_factory=list)
    made_kwdefaults: dict[str, Value] = field(default_factory=dict)
    made_closure: list[Cell] = field(default_factory=list)
    annotations: Value | None = None
    overlay: dict[str, Value] = field(default_factory=dict)
    _cells: list[Cell] | None = None

    def constant(self) -> Any:
        if self.given is None:
            raise NotConstant(self)
        return self.given

    def lasting(self, t: Tracer) -> Any:
        if self.given is not None and self.source is not None:
            t.guards.on(self.source, IsObject(self.given), "what a library says of this function was used")
        return self.real()

    def key(self) -> Any:
        self.compared = True
        return self.given if self.given is not None else self

    def defaults(self, t: Tracer) -> list[Value]:
        if self.given is None:
            return self.made_defaults
        found = t.get_attr(self, "__defaults__")
        return found.unpack(t) if isinstance(found, SequenceValue) else []

    def kwdefaults(self, t: Tracer) -> dict[str, Value]:
        if self.given is None:
            return self.made_kwdefaults
        found = t.get_attr(self, "__kwdefaults__")
        return found.plain_items(t) if isinstance(found, DictValue) else {}

    def cells(self, t: Tracer) -> Sequence[Cell]:
        if self.given is None:
            return self.made_closure
        if self._cells is None:
            base = Attr(self.source or t.objects.known(self.given), "__closure__")
            cells = [t.objects.cell(Item(base, i), cell) for i, cell in enumerate(self.given.__closure__ or ())]
            if self.code is not self.given.__code__:  # edited: it may use fewer cells
                named = dict(zip(self.given.__code__.co_freevars, cells, strict=True))
                cells = [named[name] for name in self.code.co_freevars]
            self._cells = cells
        return self._cells

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in self.overlay:
            return self.overlay[name]
        if self.given is not None:
            if name == "__get__":
                return HostValue(lambda args, kwargs: t.bind(self, args[0]))
            source = self.source or t.objects.known(self.given)
            found = getattr(self.given, name, MISSING)
            if found is MISSING:
                t.guards.on(source, Has(name, False, "attribute"), "the function does not have it")
                t.raise_(AttributeError, f"'function' object has no attribute '{name}'")
            if name == "__code__":
                return t.wrap(t.objects.known(found, fixed=True), found)
            if name == "__dict__":
                unsupported(reasons.ATTRIBUTE, f"function.{name}")
            if name == "__globals__":
                return namespace(t, self.globals)
            if isinstance(found, types.MethodWrapperType):
                return t.builtin_method(self, name)
            return t.wrap(Attr(source, name), found)
        match name:
            case "__name__":
                return Constant(self.code.co_name)
            case "__code__":
                return t.wrap(t.objects.known(self.code, fixed=True), self.code)
            case "__qualname__":
                return Constant(self.name)
            case "__module__":
                return Constant(self.globals.get("__name__"))
            case "__doc__":
                return Constant(
                    self.code.co_consts[0] if self.code.co_consts and isinstance(self.code.co_consts[0], str) else None
                )
            case "__dict__":
                return t.from_python({key: value for key, value in self.overlay.items() if key not in _OF_FUNCTIONS})
            case "__annotations__":
                return self.annotations if self.annotations is not None else t.from_python({})
            case "__defaults__":
                return t.from_python(tuple(self.made_defaults)) if self.made_defaults else Constant(None)
            case "__type_params__":
                return t.from_python(())
            case "__get__":
                return HostValue(lambda args, kwargs: t.bind(self, args[0]))
        t.raise_(AttributeError, f"'function' object has no attribute '{name}'")

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if value is None or self.given is not None and (self.source is None or name.startswith("__")):
            unsupported(reasons.ATTRIBUTE, f"setting function.{name}")
        t.effects.set_attr(self, name, value)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.call_function(self, args, kwargs)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(t, args, kwargs)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.given is not None:
            r.constant(self.given)
        else:
            r.function(self)

    def describe(self) -> str:
        return f"function {self.name}"


def function_of(function: types.FunctionType) -> FunctionValue:
    """A function of this package, for the evaluator to inline."""
    return FunctionValue(function.__code__, function.__globals__, name=function.__qualname__, given=function)


class BoundMethod(Value):
    """A method bound to an object, or to a class."""

    of_type = types.MethodType

    def __init__(self, function: Value, bound: Value, source: Source | None = None) -> None:
        self.function = function
        self.bound = bound
        self.source = source

    def real(self) -> Any:
        return types.MethodType(self.function.real(), self.bound.real())

    def key(self) -> Any:
        return (self.function.key(), self.bound.key())

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.bound
        if name == "__func__":
            return self.function
        return self.function.get_attr(t, name)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(t, [self.bound, *args], kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        given = self.function.given if isinstance(self.function, FunctionValue) else None
        name = getattr(given, "__name__", "")
        if given is not None and getattr(self.bound.python_type(), name, None) is given:
            r.value(self.bound)
            r.emit("LOAD_ATTR", name)
            return
        r.call(types.MethodType, [self.function, self.bound])

    def describe(self) -> str:
        return f"method {self.function.describe().removeprefix('function ')}"


class BuiltinMethod(Value):
    """A method written in C, bound. `descriptor` is what the type holds under the name, if not the usual one."""

    of_type = types.BuiltinMethodType

    def __init__(self, bound: Value, name: str, descriptor: Any = None) -> None:
        self.bound = bound
        self.name = name
        self.descriptor = descriptor

    def real(self) -> Any:
        bound = self.bound.real()
        return self.descriptor.__get__(bound) if self._is_hidden else getattr(bound, self.name)

    def key(self) -> Any:
        return (self.bound.key(), self.name)

    @property
    def _is_hidden(self) -> bool:
        """Whether the object answers to the name with another method: this is one that super() found."""
        of_instances = isinstance(self.descriptor, (types.WrapperDescriptorType, types.MethodDescriptorType))
        return of_instances and type_attribute(self.bound.python_type(), self.name) is not self.descriptor

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.bound
        if name == "__name__":
            return Constant(self.name)
        kind = self.bound.python_type()
        found = getattr(getattr(kind, self.name, None), name, MISSING)
        if found is MISSING:
            t.raise_(AttributeError, f"'builtin_function_or_method' object has no attribute '{name}'")
        return t.from_python(found)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.descriptor is not None:
            rule = t.rule_for(self.descriptor)
            if rule is not None:
                return rule(t, [self.bound, *args], kwargs)
        return self.bound.method(t, self.name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        if self._is_hidden:
            r.call(self.descriptor.__get__, [self.bound])
            return
        r.value(self.bound)
        r.emit("LOAD_ATTR", self.name)

    def describe(self) -> str:
        return f"method {self.bound.python_type().__name__}.{self.name}"


class BuiltinValue(Value):
    """A callable written in C, or any other callable known by identity."""

    def __init__(self, function: Callable[..., object], source: Source | None = None) -> None:
        self.function = function
        self.source = source

    def python_type(self) -> type:
        return type(self.function)

    def constant(self) -> Any:
        return self.function

    def get_attr(self, t: Tracer, name: str) -> Value:
        found = t.python(getattr, self.function, name)
        return t.from_python(found)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.call_builtin(self.function, args, kwargs)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        is_slot = isinstance(self.function, (types.GetSetDescriptorType, types.MemberDescriptorType))
        if is_slot and name == "__get__" and args:
            owner, slot = args[0], self.function.__name__
            return owner.bind(t, self.function, slot) if isinstance(owner, ObjectValue) else owner.get_attr(t, slot)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.constant(self.function)

    def describe(self) -> str:
        name = getattr(self.function, "__qualname__", None) or getattr(self.function, "__name__", None)
        return f"builtin {name or type(self.function).__name__}"


class PartialValue(ObjectValue):
    """functools.partial."""

    def __init__(
        self,
        function: Value,
        args: list[Value],
        keywords: DictValue,
        source: Source | None = None,
        given: object = MISSING,
    ) -> None:
        super().__init__(functools.partial, source, given)
        self.function, self.args, self.keywords = function, args, keywords

    @classmethod
    def of(cls, t: Tracer, function: Value, args: list[Value], keywords: dict[str, Value]) -> PartialValue:
        """partial(function, ...): one of a partial that has no attributes of its own is one of what that calls."""
        called = function
        if isinstance(function, PartialValue) and function.cls is functools.partial and not function.own_names(t):
            called, args = function.function, [*function.args, *args]
            keywords = {**function.keywords.plain_items(t), **keywords}
        return cls(called, args, DictValue.of((Constant(name), value) for name, value in keywords.items()))

    def real(self) -> Any:
        named = self.keywords.entries.values()
        keywords = {key.real(): each.given if isinstance(each, Lazy) else each.real() for key, each in named}
        return functools.partial(self.function.real(), *(a.real() for a in self.args), **keywords)

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "func":
            return self.function
        if name == "args":
            return t.from_python(tuple(self.args))
        if name == "keywords":
            return self.keywords
        return super().get_attr(t, name)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(t, [*self.args, *args], {**self.keywords.plain_items(t), **kwargs})

    def reconstruct(self, r: Reconstructor) -> None:
        named = {key.real(): each for key, each in self.keywords.entries.values()}
        r.call(functools.partial, [self.function, *self.args], named)
        r.filled(self)


class CompiledValue(Value):
    """What torch.compile makes of a function or a module here: a call of it is traced with the rest."""

    def __init__(self, maker: Value, function: Value, options: dict[str, Value]) -> None:
        self.maker, self.function, self.options = maker, function, options

    def python_type(self) -> type:
        if issubclass(self.function.python_type(), (types.FunctionType, types.MethodType)):
            return types.FunctionType
        unsupported(reasons.UNTRACEABLE_CALL, "the type of what torch.compile makes of a module")

    def get_attr(self, t: Tracer, name: str) -> Value:
        return t.get_attr(self.function, name)

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(t, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call_value(self.maker, [self.function], self.options)


NOTICED = "what notices the end of an object that the function makes"
"""The reason why Python runs a function: the caller of a continuation keeps objects alive that the continuation drops.
"""


class WeakReference(ObjectValue):
    """weakref.ref of an object that lives."""

    def __init__(
        self, target: Value, source: Source | None = None, given: object = MISSING, callback: Value = Constant(None)
    ) -> None:
        super().__init__(weakref.ref, source, given)
        self.target = target
        self.callback = callback

    def key(self) -> Any:
        return self.target.key()

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.target.source is None and not self._lives(t):
            t.tape.refuse_frame("a weak reference to what the program has dropped")
        return self.target

    def _lives(self, t: Tracer) -> bool:
        """Whether the program can reach the target otherwise."""
        seen = {id(self)}
        pending: list[Any] = [*t.stack.frames, t.effects.globals, t.effects.classes]
        pending += [change.value for change in t.effects.changes.values()]
        while pending:
            each = pending.pop()
            if each is self.target:
                return True
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, Frame):
                pending += [each.locals, each.stack, each.cells]
            elif isinstance(each, Value) and not isinstance(each, WeakReference):
                pending += [part for name, part in vars(each).items() if name != "given"]
            elif isinstance(each, dict):
                pending += each.values()  # the keys of a traced dictionary stand for objects that its values hold
            elif isinstance(each, (list, tuple, set)):
                pending += each
        return False

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(weakref.ref, [self.target, self.callback])


class RuntimeNumber(Value):
    """A number that only the running program has: an object's id, a thread's. It is equal to itself."""

    of_type = int

    def __init__(self, function: Callable[..., int], args: list[Value]) -> None:
        self.function = function
        self.args = args

    def key(self) -> Any:
        return (self.function, *self.args)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(self.function, self.args)
