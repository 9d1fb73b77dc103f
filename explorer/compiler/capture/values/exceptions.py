"""Exceptions. Stock counterpart: variables/builder.py, ExceptionVariable."""

from __future__ import annotations

import types
from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import MISSING, ObjectValue
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
        if name == "with_traceback":
            return t.host(lambda args, kwargs: self)
        if name == "name" and issubclass(self.cls, AttributeError):
            return Constant(None)
        return super().find(t, name)

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
            self.args = list(args)
            return Constant(None)
        if name == "add_note":
            notes = self.overlay.get("__notes__") or t.new_list([])
            self.overlay["__notes__"] = notes
            notes.method(t, "append", args, kwargs)
            return Constant(None)
        if name == "__str__":
            plain = [t.constant_of(a) for a in self.args]
            base = next(b for b in self.cls.__mro__ if b.__module__ == "builtins")
            return Constant(str(base(*plain)))
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


class TracebackValue(ObjectValue):
    """The traceback of an exception, of which nothing is known: only a real frame has it."""

    def __init__(self, error: Value) -> None:
        super().__init__(types.TracebackType)
        self.error = error

    def find(self, t: Tracer, name: str) -> Value | None:
        return self.error.get_attr(t, "__traceback__")

    def reconstruct(self, r: Reconstructor) -> None:
        self.error.get_attr(r.t, "__traceback__")


_LINKS = frozenset({"__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__"})
