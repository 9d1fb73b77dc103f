"""Types, attributes and identity: type, isinstance, getattr, super ..."""

from __future__ import annotations

import threading
from typing import Any

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import IsObject
from explorer.compiler.capture.rules import breaks, positional, table
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, SuperValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import RuntimeNumber
from explorer.compiler.capture.values.objects import MISSING, ObjectValue
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.classes import name_in_messages
from explorer.core.reasons import unsupported

NONE = Constant(None)


@positional(type)
def _type(t: Tracer, value: Value, *rest: Value) -> Value:
    """type(value); making a class breaks."""
    if rest:
        unsupported(reasons.UNTRACEABLE_CALL, "making a class")
    return t.from_python(value.python_type())


def _classes(t: Tracer, value: Value) -> Any:
    return tuple(_classes(t, v) for v in t.items(value)) if isinstance(value, TupleValue) else t.real_of(value)


@positional(isinstance)
def _isinstance(t: Tracer, value: Value, classes: Value) -> Value:
    """Of the value's type."""
    wanted = _classes(t, classes)
    given = getattr(value, "given", None)
    if (
        isinstance(value, ObjectValue)
        and value.given is not MISSING
        or isinstance(value, TensorValue)
        and given is not None
    ):
        return Constant(t.python(isinstance, given, wanted))
    if isinstance(value, TensorValue):
        like = torch.empty(0, dtype=value.fake.dtype, device="cpu" if value.fake.device.type == "cpu" else "meta")
        if "_is_buffer" in value.overlay:
            like._is_buffer = True  # type: ignore[attr-defined]
        like = like if value.cls is torch.Tensor else like.as_subclass(value.cls)
        return Constant(t.python(isinstance, like, wanted))
    if isinstance(value, (Constant, ClassValue)):
        return Constant(t.python(isinstance, value.constant(), wanted))
    return Constant(t.python(issubclass, value.python_type(), wanted))


@positional(callable)
def _callable(t: Tracer, value: Value) -> Value:
    """Whether the type has __call__."""
    if isinstance(value, (Constant,)):
        return Constant(callable(value.value))
    return Constant(t.look_up(value.python_type(), "__call__") is not MISSING)


@positional(getattr)
def _getattr(t: Tracer, value: Value, name: Value, default: Value | None = None) -> Value:
    """The attribute, or the default where reading raises AttributeError."""
    if default is None:
        return t.get_attr(value, t.constant_of(name))
    found = t.attr_or_none(value, t.constant_of(name))
    return found if found is not None else default


@positional(hasattr)
def _hasattr(t: Tracer, value: Value, name: Value) -> Value:
    """Whether reading raises AttributeError."""
    wanted = t.constant_of(name)
    if not isinstance(wanted, str):
        t.raise_(TypeError, f"attribute name must be string, not '{name_in_messages(type(wanted))}'")
    return Constant(t.attr_or_none(value, wanted) is not None)


@positional(setattr)
def _setattr(t: Tracer, value: Value, name: Value, given: Value) -> Value:
    """value.name = given."""
    value.set_attr(t, t.constant_of(name), given)
    return NONE


@positional(delattr)
def _delattr(t: Tracer, value: Value, name: Value) -> Value:
    """del value.name."""
    value.set_attr(t, t.constant_of(name), None)
    return NONE


@positional(dir)
def _dir(t: Tracer, value: Value | None = None) -> Value:
    """Names of an object's attributes and its class's, or of the locals."""
    if value is None:
        return t.from_python(sorted(t.bound_locals()))
    if isinstance(value, ObjectValue) and not t.overrides(value.cls, "__dir__", "__getattribute__"):
        if value.given is not MISSING:
            t.get_attr(t.get_attr(value, "__dict__"), "keys").call(t, [], {}).length(t)
        return t.from_python(sorted({*dir(value.cls), *value.own_names(t)}))
    return t.from_python(t.python(dir, value.constant()))


@positional(id)
def _id(t: Tracer, value: Value) -> Value:
    """Of objects from outside, which are guarded; breaks for others."""
    given = getattr(value, "given", MISSING)
    if given is MISSING or given is None:
        return RuntimeNumber(id, [value])
    source = value.source
    if source is not None:
        t.guard(source, IsObject(given), "its id() was used")
    return Constant(id(given))


breaks(reasons.UNTRACEABLE_CALL, "making a descriptor", property, staticmethod, classmethod)


table({
    issubclass: lambda t, value, classes: Constant(t.python(issubclass, t.constant_of(value), _classes(t, classes))),
    # The instance's dictionary, or the locals.
    vars: lambda t, value=None: t.new_dict(t.bound_locals()) if value is None else t.get_attr(value, "__dict__"),
    threading.get_ident: lambda t: RuntimeNumber(threading.get_ident, []),  # the thread that runs the program
    super: lambda t, start, bound: SuperValue(t.constant_of(start), bound),
})  # fmt: skip
