"""torch.nn modules. Stock counterpart: variables/nn_module.py. Context managers of torch in traced code: autocast, and
those that are written in C++. Stock: variables/ctx_manager.py.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.cpu.amp import autocast_mode as cpu
from torch.cuda.amp import autocast_mode as cuda
from torch.nn.modules.lazy import LazyModuleMixin

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Has, IsEmpty
from explorer.compiler.capture.torch_state import Autocast
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant, SizeValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import MISSING, Lazy, ObjectValue, look_up, type_attribute
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import Why, unsupported
from explorer.ir.capture import Attr, Item, Source


class Uninitialized(Exception):
    """A lazy module is called for the first time: it gets its parameters for real, and the trace begins again."""

    def __init__(self, module: Any, args: list[object], kwargs: dict[str, object]) -> None:
        super().__init__(type(module).__name__)
        self.module = module
        self.inputs = args
        self.kwargs = kwargs

    def initialize(self) -> Why | None:
        """Runs the module's own hook before its first call; returns a reason if it raises, and eager then raises it."""
        try:
            self.module._infer_parameters(self.module, self.inputs, self.kwargs)
        except Exception as error:
            return Why(reasons.OP_RAISED, f"{type(error).__name__}: {error}")
        return None


def _example(t: Tracer, value: Value) -> Any:
    """An object like the value, of which a lazy module asks the sizes."""
    if isinstance(value, TensorValue):
        given = value.given
        return given if given is not None else torch.zeros_like(value.fake, device=value.fake.device)
    if isinstance(value, (TupleValue, ListValue)):
        return value.cls(_example(t, item) for item in value.unpack(t))
    return value.live(t)


TABLES = ("_parameters", "_buffers", "_modules")


class ModuleValue(ObjectValue):
    """An nn.Module, from outside or made by the program. Parameters, buffers and submodules are where nn.Module keeps
    them, in dictionaries that the program may read and write as well."""

    def get_attr(self, t: Tracer, name: str) -> Value:
        if look_up(t, self.cls, "__getattr__") is not torch.nn.Module.__getattr__ or isinstance(
            look_up(t, self.cls, "__getattribute__"), types.FunctionType
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
            for table in (each for each in TABLES if isinstance(self.in_dict(each), Lazy)):
                why = "the program asked for this attribute"
                t.guards.on(Attr(self.source, table), Has(name, False, "key"), why)
        return None

    def entry(self, t: Tracer, table: str, name: str) -> Value | None:
        """An entry of one of nn.Module's tables: one that the program has touched, as it is now."""
        held = self.in_dict(table)
        if isinstance(held, Lazy):
            touched = t.objects.values.get(id(held.given))
            if touched is None:
                source = Item(held.source, name)
                return t.wrap(source, held.given[name]) if name in held.given else None
            held = touched
        return held.at(t, name) if isinstance(held, DictValue) and held.has(t, name) else None

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        own = look_up(t, self.cls, "__setattr__") is torch.nn.Module.__setattr__
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
            and all(self.in_dict(table) is not None for table in TABLES)
        )

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if issubclass(self.cls, LazyModuleMixin) and hasattr(self.given, "_initialize_hook"):
            named = {name: _example(t, value) for name, value in kwargs.items()}
            raise Uninitialized(self.given, [_example(t, arg) for arg in args], named)
        if not self.is_plain(t):
            return self.special(t, "__call__", args, kwargs)
        with t.stack.inside_module(self):
            return self.get_attr(t, "forward").call(t, args, kwargs)

    def is_plain(self, t: Tracer) -> bool:
        """Whether calling the module is calling its forward: no hooks, nothing overridden. Guards on that."""
        if self.overrides(t, "__getattribute__") or self.given is not MISSING and not calls_forward(self.given):
            return False
        if look_up(t, self.cls, "__call__") is not _MODULE_CALL or self.in_dict("_compiled_call_impl") is not None:
            return False
        if any(getattr(torch.nn.modules.module, hooks) for hooks in _GLOBAL_HOOKS) or not self._has_no_hooks(t):
            return False
        if self.source is not None:
            for hooks in _HOOKS:
                t.guards.on(Attr(self.source, hooks), IsEmpty(), "forward was inlined without hooks around it")
        owner = t.objects.known(torch.nn.modules.module)
        for hooks in () if t.objects.guards_global_hooks else _GLOBAL_HOOKS:
            t.guards.on(Attr(owner, hooks), IsEmpty(), "forward was inlined without hooks around it")
        t.objects.guards_global_hooks = True
        return True

    def _has_no_hooks(self, t: Tracer) -> bool:
        for hooks in _HOOKS:
            held = self.in_dict(hooks)
            table = t.objects.values.get(id(held.given)) if isinstance(held, Lazy) else held
            if table is not None and not (isinstance(table, DictValue) and not table.entries):
                return False
        return True

    def get_item(self, t: Tracer, key: Value) -> Value:
        is_number = isinstance(key, (SizeValue, TensorValue))
        if self.cls in (torch.nn.ModuleList, torch.nn.Sequential) and is_number:
            chosen = t.call_method(t.get_attr(self, "_modules"), "values", []).unpack(t)
            return t.from_python(chosen).get_item(t, key)
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


# ----------------------------------------------------------------------------------------------------- context managers


_C: Any = torch._C

WITHOUT_NODES = (_C.DisableTorchFunctionSubclass, _C.DisableTorchFunction)
"""Contexts that make no nodes: the tensors of a graph override nothing."""

CONTEXTS = (
    *WITHOUT_NODES, _C._InferenceMode, _C._DisableAutocast, _C._AutoDispatchBelowAutograd, _C._ExcludeDispatchKeyGuard,
    _C._IncludeDispatchKeyGuard, _C._ForceDispatchKeyGuard,
)  # fmt: skip


class ContextValue(ObjectValue):
    """A context made during capture: entered and left for real, and by nodes. `arguments` are its constructor's."""

    def __init__(self, cls: type, arguments: tuple[Any, ...]) -> None:
        super().__init__(cls)
        self.arguments = arguments

    def get_attr(self, t: Tracer, name: str) -> Value:
        return t.builtin_method(self, name) if name in ("__enter__", "__exit__") else super().get_attr(t, name)

    def special(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        return self.method(t, name, args, kwargs or {})

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name:
            case "__enter__":
                t.torch_state.enter_context(self, self.cls, self.arguments, self.cls not in WITHOUT_NODES)
                return self
            case "__exit__":
                if not t.torch_state.leave_context(self):
                    unsupported(reasons.OPERATION, f"leaving a {self.cls.__name__} that is not the innermost one")
                return Constant(None)
        return super().method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        """Push one made anew. Most are entered as they are made."""
        opened = next((each for each in r.t.torch_state.pending if each.manager is self), None)
        r.switch(opened.settings if opened is not None else ())
        r.call(self.cls, list(map(Constant, self.arguments)))
        if opened is None:
            name = r.temp()
            r.emit("STORE_FAST", name)
            r.discard_method(lambda: r.emit("LOAD_FAST", name), "__exit__", [Constant(None)] * 3)
            r.emit("LOAD_FAST", name)


AUTOCASTS = (torch.autocast, cpu.autocast, cuda.autocast)


class AutocastValue(ObjectValue):
    """torch.autocast: entering and leaving are nodes. `arguments` are device type, dtype, enabled, cache_enabled."""

    NAMES = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    BEFORE = ("device", "prev_fastdtype", "prev", "prev_cache_enabled")
    """The attributes that hold the arguments, and those that hold the state before it was entered."""

    def __init__(self, arguments: Autocast, source: Source | None = None, given: object = MISSING) -> None:
        super().__init__(torch.autocast, source, given)
        self.arguments = arguments
        if given is MISSING:
            self.overlay = dict(zip(self.NAMES, map(Constant, arguments), strict=True))

    @classmethod
    def given_by_frame(cls, t: Tracer, source: Source, given: torch.autocast) -> AutocastValue:
        """An autocast made outside; its settings are guarded."""
        return cls(_read(t, source, given, cls.NAMES), source, given)

    def enter(self, t: Tracer) -> Value:
        t.python(t.torch_state.enter_autocast, self.arguments, self)
        return self

    def leave(self, t: Tracer) -> Value:
        opened = t.torch_state.autocasts
        if opened and opened[-1].manager is self:
            t.torch_state.leave_autocast()
        elif self.source is None or opened:
            unsupported(reasons.OPERATION, "leaving a torch.autocast block that is not the innermost one")
        else:
            t.torch_state.leave_given_autocast(self, self.arguments, _read(t, self.source, self.given, self.BEFORE))
        return Constant(False)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(torch.autocast, list(map(Constant, self.arguments)))


def _read(t: Tracer, source: Source, given: object, names: tuple[str, ...]) -> Any:
    """Attributes of an autocast that was made outside, guarded."""
    if not all(hasattr(given, name) for name in names):
        unsupported(reasons.OPERATION, "leaving a torch.autocast block that was not entered")
    return tuple(t.wrap(Attr(source, name), getattr(given, name)).known(t) for name in names)
