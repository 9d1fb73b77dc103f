"""What the methods of a torch.autograd.Function read of the program. They run inside one node of the graph, unseen by
the evaluator, so what they read is guarded here; what cannot be guarded, or would be changed, breaks the graph."""

from __future__ import annotations

import builtins
import dis
import types
from collections.abc import Iterator
from typing import NoReturn

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue
from explorer.compiler.capture.values.constant import is_plain
from explorer.compiler.capture.values.functions import BuiltinValue, FunctionValue
from explorer.compiler.capture.values.objects import is_library
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.size import FloatValue, SizeValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import unsupported

_PACKAGES = ("torch", "math", "operator", "functools", "itertools", "numpy", "builtins", "_operator")
_UNREAD = ("_backward_cls", "_autograd_function_id", "symbolic")
"""What no run of the function reads: `symbolic` is for the ONNX exporter."""
_EFFECTS = {"print", "input", "open", "exec", "eval", "compile", "globals", "locals", "vars", "setattr", "delattr",
            "getattr", "next", "id", "breakpoint", "__import__"}  # fmt: skip


def guard_reads(t: Tracer, cls: type, args: list[Value]) -> None:
    """Guard all that the methods of `cls` read. Breaks the graph where they read or change anything mutable."""
    for arg in args:
        if not isinstance(arg, TensorValue):
            _check(t, arg, "an argument", set())
    _class(t, cls, set())


def _class(t: Tracer, cls: type, seen: set[int]) -> None:
    if id(cls) in seen or issubclass(cls, BaseException):
        return
    seen.add(id(cls))
    if not issubclass(cls, torch.autograd.Function):
        _refuse(cls, "uses a class", cls.__name__)
    own = (base for base in cls.__mro__ if not is_library(base.__module__))
    for name in dict.fromkeys(name for base in own for name in vars(base)):
        if name.startswith("__") or name in _UNREAD:
            continue
        if any((id(base), name) in t.effects.classes for base in cls.__mro__):
            _refuse(cls, "reads an attribute that was just set", name)
        found = t.look_up(cls, name)
        method = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
        value = t.from_python(method) if isinstance(method, types.FunctionType) else t.get_attr(ClassValue(cls), name)
        _check(t, value, f"{cls.__name__}.{name}", seen)


def _check(t: Tracer, value: Value, name: str, seen: set[int]) -> None:
    if isinstance(value, FunctionValue):
        if value.given is None:
            _refuse(value, "uses a function made in the graph", name)
        _function(t, value, seen)
    elif isinstance(value, ClassValue):
        if not _is_trusted(value.cls):
            _class(t, value.cls, seen)
    elif isinstance(value, (PyModuleValue, BuiltinValue)):
        if not _is_trusted(t.real_of(value)):
            _refuse(value, "reads", name)
    elif isinstance(value, TupleValue):
        for item in t.items(value):
            if not isinstance(item, TensorValue) or name != "an argument":
                _check(t, item, name, seen)
    elif name != "an argument" or not isinstance(value, (SizeValue, FloatValue)):
        if isinstance(value, TensorValue):
            _refuse(value, "reads", name)
        held = t.constant_of(value)
        if not is_plain(held) and not (callable(held) and _is_trusted(held)):
            _refuse(value, "reads", name)


def _function(t: Tracer, function: FunctionValue, seen: set[int]) -> None:
    if id(function.given) in seen:
        return
    seen.add(id(function.given))
    for name, cell in zip(function.code.co_freevars, function.cells(t), strict=True):
        held = cell.load(t)
        if held is None or cell.changed or cell.given is None:
            _refuse(function, "reads a variable that was just set", name)
        if not (isinstance(held, ClassValue) and id(held.cls) in seen):
            _check(t, held, name, seen)
    if str(function.globals.get("__name__")).partition(".")[0] in _PACKAGES:
        return
    for default in (*function.defaults(t), *function.kwdefaults(t).values()):
        _check(t, default, "a default", seen)
    space = t.namespace(function.globals)
    for code in _bodies(function.code):
        before: dis.Instruction | None = None
        for step in dis.get_instructions(code):
            name = str(step.argval)
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "DELETE_ATTR"):
                _refuse(function, "changes or imports", name)
            if step.opname == "STORE_DEREF" and name in function.code.co_freevars:
                _refuse(function, "changes", name)
            if step.opname == "STORE_ATTR":
                is_context = before is not None and before.opname.startswith("LOAD_FAST")
                if not is_context or before is None or before.argval != next(iter(code.co_varnames), None):
                    _refuse(function, "sets the attribute", name)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                if (id(function.globals), name) in t.effects.globals:
                    _refuse(function, "reads a global that was just set", name)
                value = space.read(t, name)
                if value is not None:
                    _check(t, value, name, seen)
                elif not hasattr(builtins, name) or name in _EFFECTS:
                    _refuse(function, "calls", name)
            before = step


def _bodies(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bodies(constant)


def _is_trusted(held: object) -> bool:
    if isinstance(held, types.ModuleType):
        return held.__name__.partition(".")[0] in _PACKAGES
    if getattr(held, "__name__", None) in _EFFECTS:
        return False
    module = getattr(held, "__module__", None) or getattr(type(held), "__module__", None)
    return isinstance(module, str) and (is_library(module) or module.partition(".")[0] in _PACKAGES)


def _refuse(where: object, does: str, name: str) -> NoReturn:
    owner = getattr(where, "name", None) or getattr(where, "__name__", "a torch.autograd.Function")
    unsupported(reasons.CUSTOM_FUNCTION, f"{owner} {does} {name}")
