"""Exceptions. Stock counterpart: variables/builder.py, ExceptionVariable."""

from __future__ import annotations

import sys
import types
from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, maker_of
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Source


class ExceptionValue(ObjectValue):
    """An exception instance."""

    def __init__(self, cls: type, args: list[Value], source: Source | None = None, given: Any = MISSING) -> None:
        super().__init__(cls, source, given)
        self.args = args
        self.cause: Value | None = None
        self.left_inlined = False
        """Whether it was raised in an inlined function, which is a frame of its own in eager's traceback."""

    def find(self, t: Tracer, name: str) -> Value | None:
        if name == "args":
            return t.new_tuple(self.args)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else Constant(None)
        if name == "__traceback__" and name not in self.overlay:
            self.tell_traceback_is_read(t)
            unsupported(reasons.ATTRIBUTE, "the traceback of an exception, which only a real frame has")
        if name in _LINKS:
            return self.overlay.get(name) or self._link(t, name)
        if name == "with_traceback" and not t.overrides(self.cls, name):
            return t.host(lambda args, kwargs: self)
        return super().find(t, name)

    def kept_in_c(self, t: Tracer, name: str) -> Value:
        """What the class's constructor made of the arguments."""
        if issubclass(self.cls, BaseExceptionGroup):
            return self.args[0] if name == "message" else t.new_tuple(t.items(self.args[1]))
        if name in ("name", "obj"):
            if issubclass(self.cls, AttributeError) and sys.version_info >= (3, 12):
                return super().kept_in_c(t, name)  # Python tells it of a failed assignment too
            return Constant(None)
        return t.from_python(getattr(self._base(t), name))

    def _base(self, t: Tracer) -> BaseException:
        """An exception of Python's own class that this one derives from, with the same arguments."""
        base = next(b for b in self.cls.__mro__ if b.__module__ == "builtins")
        made: BaseException = base(*map(t.constant_of, self.args))
        return made

    def tell_traceback_is_read(self, t: Tracer) -> None:
        if self.left_inlined:
            t.tape.whole = "the program reads a traceback that leads into an inlined function"

    def _link(self, t: Tracer, name: str) -> Value:
        """What links the exception to others, where the program has not set it."""
        if self.source is not None and hasattr(self.given, name):
            return t.wrap(Attr(self.source, name), getattr(self.given, name))
        return Constant("__cause__" in self.overlay) if name == "__suppress_context__" else Constant(None)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if name in _LINKS and value is not None:
            self.overlay[name] = value
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
            notes = self.overlay.get("__notes__") or t.new_list([])
            self.overlay["__notes__"] = notes
            notes.method(t, "append", args, kwargs)
            return Constant(None)
        if name == "__str__":
            return Constant(str(self._base(t)))
        if name == "__repr__":
            return Constant(f"{self.cls.__name__}({', '.join(repr(t.constant_of(a)) for a in self.args)})")
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


def tell_attribute(error: Value, value: Value, name: str) -> None:
    """Tell an AttributeError of a failed read, as Python does, what was read of what."""
    if isinstance(error, ExceptionValue) and issubclass(error.cls, AttributeError) and error.source is None:
        if not error.overlay.keys() & {"name", "obj"}:
            error.overlay |= {"name": Constant(name), "obj": value}


def class_made(t: Tracer, cls: Any, args: list[Value]) -> type:
    """The class of what `cls.__new__(cls, *args)` makes, where that depends on the arguments; raises what it raises."""

    def stand_in(value: Value) -> Any:
        if isinstance(value, ExceptionValue):
            held: Any = value.cls
            return held.__new__(held)
        is_sequence = issubclass(cls, BaseExceptionGroup) and issubclass(value.python_type(), (list, tuple))
        return [stand_in(item) for item in t.items(value)] if is_sequence else t.constant_of(value)

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


_ADDED = frozenset({"name", "obj", "path", "name_from"})
_LINKS = frozenset({"__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__"})
