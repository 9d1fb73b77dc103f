"""torch.nn modules. Stock counterpart: variables/nn_module.py."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Has, IsEmpty
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import SizeValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import MISSING, Lazy, ObjectValue, type_attribute
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import Why
from explorer.ir.capture import Attr, Item


class Uninitialized(Exception):
    """A lazy module is called for the first time: it gets its parameters for real, and the trace begins again."""

    def __init__(self, module: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        super().__init__(type(module).__name__)
        self.module = module
        self.inputs = args
        self.kwargs = kwargs

    def initialize(self) -> Why | None:
        """What the module's own hook does before its first call; a reason where that raises, which eager then does."""
        try:
            self.module._infer_parameters(self.module, self.inputs, self.kwargs)
        except Exception as error:
            return Why(reasons.OP_RAISED, f"{type(error).__name__}: {error}")
        return None


def _is_uninitialized(module: Any) -> bool:
    return isinstance(module, LazyModuleMixin) and hasattr(module, "_initialize_hook")


def _example(t: Tracer, value: Value) -> Any:
    """An object like the value, of which a lazy module asks the sizes."""
    if isinstance(value, TensorValue):
        given = value.given
        return given if given is not None else torch.zeros_like(value.fake, device=value.fake.device)
    if isinstance(value, (TupleValue, ListValue)):
        return value.cls(_example(t, item) for item in t.items(value))
    return t.real_of(value)


TABLES = ("_parameters", "_buffers", "_modules")


class ModuleValue(ObjectValue):
    """An nn.Module, from outside or made by the program. Parameters, buffers and submodules are where nn.Module keeps
    them, in dictionaries that the program may read and write as well."""

    def get_attr(self, t: Tracer, name: str) -> Value:
        if t.look_up(self.cls, "__getattr__") is not torch.nn.Module.__getattr__ or isinstance(
            t.look_up(self.cls, "__getattribute__"), types.FunctionType
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
        for table in TABLES:
            found = self.entry(t, table, name)
            if found is not None:
                return found
        if self.given is not MISSING and self.source is not None:
            for table in (each for each in TABLES if isinstance(self.held(each), Lazy)):
                why = "the program asked for this attribute"
                t.guard(Attr(self.source, table), Has(name, False, "key"), why)
        return None

    def entry(self, t: Tracer, table: str, name: str) -> Value | None:
        """What one of nn.Module's tables holds under a name: one that the program has touched, as it is now."""
        held = self.held(table)
        if isinstance(held, Lazy):
            touched = t.wrapped.get(id(held.given))
            if touched is None:
                source = Item(held.source, name)
                return t.wrap(source, held.given[name]) if name in held.given else None
            held = touched
        return held.at(t, name) if isinstance(held, DictValue) and held.has(t, name) else None

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        own = t.look_up(self.cls, "__setattr__") is torch.nn.Module.__setattr__
        if own and value is not None and self._is_plain_attribute(t, name, value):
            self.assign(t, name, value)
        else:
            super().set_attr(t, name, value)

    def _is_plain_attribute(self, t: Tracer, name: str, value: Value) -> bool:
        """Whether nn.Module.__setattr__ would do no more than object's."""
        kept = (torch.nn.Parameter, torch.nn.Buffer, torch.nn.Module)
        return (
            not isinstance(value, ModuleValue)
            and not issubclass(value.python_type(), kept)
            and "_is_buffer" not in getattr(value, "overlay", ())
            and name not in TABLES
            and all(self.entry(t, table, name) is None for table in TABLES)
            and all(self.held(table) is not None for table in TABLES)
        )

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if _is_uninitialized(self.given):
            named = {name: _example(t, value) for name, value in kwargs.items()}
            raise Uninitialized(self.given, [_example(t, arg) for arg in args], named)
        if not self.is_plain(t):
            return self.special(t, "__call__", args, kwargs)
        with t.inside_module(self):
            return t.call(self.get_attr(t, "forward"), args, kwargs)

    def is_plain(self, t: Tracer) -> bool:
        """Whether calling the module is calling its forward: no hooks, nothing overridden. Guards on that."""
        if self.given is not MISSING and not calls_forward(self.given):
            return False
        if t.look_up(self.cls, "__call__") is not _MODULE_CALL or self.held("_compiled_call_impl") is not None:
            return False
        if any(getattr(torch.nn.modules.module, hooks) for hooks in _GLOBAL_HOOKS) or not self._has_no_hooks(t):
            return False
        if self.source is not None:
            for hooks in _HOOKS:
                t.guard(Attr(self.source, hooks), IsEmpty(), "forward was inlined without hooks around it")
        owner = t.known_source(torch.nn.modules.module)
        for hooks in _GLOBAL_HOOKS:
            t.guard(Attr(owner, hooks), IsEmpty(), "forward was inlined without hooks around it")
        return True

    def _has_no_hooks(self, t: Tracer) -> bool:
        for hooks in _HOOKS:
            held = self.held(hooks)
            table = t.wrapped.get(id(held.given)) if isinstance(held, Lazy) else held
            if table is not None and not (isinstance(table, DictValue) and not table.entries):
                return False
        return True

    def iterate(self, t: Tracer) -> Value:
        return self.special(t, "__iter__", [])

    def get_item(self, t: Tracer, key: Value) -> Value:
        is_number = isinstance(key, (SizeValue, TensorValue))
        if self.cls in (torch.nn.ModuleList, torch.nn.Sequential) and is_number:
            chosen = t.items(t.call_method(t.get_attr(self, "_modules"), "values", []))
            return t.new_list(chosen).get_item(t, key)
        return self.special(t, "__getitem__", [key])

    def describe(self) -> str:
        return f"module {self.source.name if self.source else self.cls.__name__}"


def calls_forward(module: torch.nn.Module) -> bool:
    """Whether calling the module is calling its forward: no hooks, nothing overridden."""
    own = module.__dict__
    return not (
        any(map(own.get, _HOOKS))
        or any(map(vars(torch.nn.modules.module).get, _GLOBAL_HOOKS))
        or own.get("_compiled_call_impl") is not None
        or type_attribute(type(module), "__call__") is not _MODULE_CALL
    )


_MODULE_CALL = torch.nn.Module.__dict__["__call__"]
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = tuple(f"_global{name}" for name in _HOOKS)
