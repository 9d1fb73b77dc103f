"""Instances of the program's classes that derive from int, float, str, bytes or complex: a plain one, with a class."""

from __future__ import annotations

import types
from collections.abc import Callable

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import same_value
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, attribute_in_c, look_up, type_attribute
from explorer.core.libraries import is_written_in_c
from explorer.core.reasons import unsupported
from explorer.ir.capture import Computed, Source

PLAIN_OF: dict[type, Callable[..., object]] = {
    int: int.__int__, float: float.__float__, str: str.__str__, bytes: bytes.__bytes__, complex: complex.__complex__,
}  # fmt: skip
"""What makes the plain object of an instance, whatever its class says."""


def base_of(cls: type) -> type | None:
    """The one of these classes that a class of the program derives from; None if there is none."""
    return next((base for base in PLAIN_OF if issubclass(cls, base)), None) if not is_written_in_c(cls) else None


class DerivedValue(ObjectValue):
    """An instance of such a class. `plain` is its value apart from its class and attributes, and is guarded."""

    def __init__(self, cls: type, plain: object, source: Source | None = None, given: object = MISSING) -> None:
        super().__init__(cls, source, given)
        self.plain: Constant = Constant(plain)

    @classmethod
    def given_by_frame(cls, t: Tracer, source: Source, given: object, base: type) -> DerivedValue:
        plain = PLAIN_OF[base](given)
        t.guards.on(Computed(PLAIN_OF[base], (source,)), same_value(plain), "a Python value is a constant in the graph")
        made = cls(type(given), plain, source, given)
        made.asked = t
        return made

    def known(self, t: Tracer) -> object:
        """The plain object, for code in C that asks the class for nothing."""
        for name in _ASKED_BY_C:
            if _is_in_python(look_up(t, self.cls, name)):
                unsupported(reasons.UNTRACEABLE_CALL, f"code in C that may call {self.cls.__name__}.{name}")
        return self.plain.value

    def is_taken_by_torch(self, first: bool, function: Callable[..., object]) -> bool:
        """Whether an operator of it and a tensor is the tensor's to answer: it is a number, not asked `first`."""
        asked = first and _is_in_python(type_attribute(self.cls, f"__{function.__name__.strip('_')}__"))
        return not asked and issubclass(self.cls, (int, float, complex))

    def number(self, t: Tracer) -> object:
        return self.known(t)

    def key(self) -> object:
        own = (type_attribute(self.cls, "__hash__"), type_attribute(self.cls, "__eq__"))
        return super().key() if any(map(_is_in_python, own)) else self.plain.value

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        own = attribute_in_c(self.cls, name)
        if getattr(own, "__objclass__", object) is object:
            return super().method(t, name, args, kwargs)
        if name == "__format__" and not args[0].known(t):
            return t.from_python(str).call(t, [self], {})
        args = [each.plain if isinstance(each, DerivedValue) else each for each in args]
        return self.plain.method(t, name, args, kwargs)

    def kept_in_c(self, t: Tracer, name: str) -> Value:
        return self.plain.get_attr(t, name)

    def iterate(self, t: Tracer) -> Value:
        own = look_up(t, self.cls, "__iter__")
        return super().iterate(t) if own is MISSING or _is_in_python(own) else self.plain.iterate(t)

    def reconstruct(self, r: Reconstructor) -> None:
        r.instance(self, [self.plain])


def _is_in_python(found: object) -> bool:
    return isinstance(found, types.FunctionType)


_ASKED_BY_C = "__index__ __int__ __float__ __complex__ __bytes__ __hash__ __eq__".split()
"""The methods that functions in C call of a number or text that they are given, and do not print."""
