"""torch.nn modules. Stock counterpart: variables/nn_module.py."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from explorer.capture import reasons
from explorer.capture.values.base import Value, unsupported
from explorer.capture.values.constant import Constant
from explorer.capture.values.mappings import DictValue
from explorer.capture.values.objects import MISSING, ObjectValue, type_attribute
from explorer.ir.capture import Attr, Item

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer


class ModuleValue(ObjectValue):
    """An nn.Module. Parameters, buffers and submodules are read where nn.Module keeps them."""

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
        if self.given is MISSING or self.source is None:
            return None
        tables = [(table, self.table(t, table)) for table in ("_parameters", "_buffers", "_modules")]
        for table, held in tables:
            if isinstance(held, DictValue):
                if held.has(t, name):
                    return held.at(t, name)
            elif name in held:
                return t.wrap(Item(Attr(self.source, table), name), held[name])
        for table, held in tables:
            if not isinstance(held, DictValue):
                t.guard(Attr(self.source, table), "has", "==", (name, False, "key"), "the module does not have it")
        return None

    def table(self, t: Tracer, table: str) -> DictValue | dict[str, Any]:
        """The module's parameters, buffers or submodules: the real dictionary while the program has not reached it by
        itself, in which case it may have been changed."""
        replaced = self.overlay.get(table)
        if isinstance(replaced, DictValue):
            return replaced
        held = self.given.__dict__.get(table, {})
        reached = t.wrapped.get(id(held))
        return reached if isinstance(reached, DictValue) else held

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if t.look_up(self.cls, "__setattr__") is not torch.nn.Module.__setattr__ or self.given is MISSING:
            super().set_attr(t, name, value)
            return
        if value is None or name in self.given._parameters or name in self.given._modules:
            unsupported(reasons.ATTRIBUTE, f"replacing the parameter or submodule {name}")
        if isinstance(value, ModuleValue) or issubclass(value.python_type(), torch.nn.Parameter):
            unsupported(reasons.ATTRIBUTE, f"registering {name} on a module")
        if name in self.given._buffers:
            t.set_item(self.get_attr(t, "_buffers"), Constant(name), value)
        else:
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
