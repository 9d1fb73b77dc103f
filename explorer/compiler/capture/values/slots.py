"""What Python demands of the methods that it calls itself, and its words where one is missing or answers wrongly."""

from __future__ import annotations

import sys
from typing import NoReturn

from explorer.compiler.capture.values.base import Tracer, Value, type_name
from explorer.compiler.capture.values.constant import Constant
from explorer.core.classes import name_in_messages

LACKS: dict[str, str] = {
    "__iter__": "'{}' object is not iterable",
    "__next__": "'{}' object is not an iterator",
    "__call__": "'{}' object is not callable",
    "__getitem__": "'{}' object is not subscriptable",
    "__setitem__": "'{}' object does not support item assignment",
    "__delitem__": "'{}' object doesn't support item deletion"
    if sys.version_info < (3, 14)
    else "'{}' object does not support item deletion",
    "__len__": "object of type '{}' has no len()",
    "__contains__": "'{}' object is not a container",
    "__neg__": "bad operand type for unary -: '{}'",
    "__pos__": "bad operand type for unary +: '{}'",
    "__invert__": "bad operand type for unary ~: '{}'",
    "__abs__": "bad operand type for abs(): '{}'",
    "__index__": "'{}' object cannot be interpreted as an integer",
    "__hash__": "unhashable type: '{}'",
    "__reversed__": "'{}' object is not reversible",
    "__round__": "type {} doesn't define __round__ method",
    "__trunc__": "type {} doesn't define __trunc__ method",
    "__enter__": "'{}' object does not support the context manager protocol",
    "__exit__": "'{}' object does not support the context manager protocol (missed __exit__ method)",
}
"""TypeError's message where a type has no such method, or has None in its place."""

RETURNS: dict[str, tuple[type, str]] = {
    "__bool__": (bool, "__bool__ should return bool, returned {got}"),
    "__index__": (int, "__index__ returned non-int (type {got})"),
    "__hash__": (int, "__hash__ method should return an integer"),
    "__str__": (str, "__str__ returned non-string (type {got})"),
    "__repr__": (str, "__repr__ returned non-string (type {got})"),
    "__format__": (str, "__format__ must return a str, not {got}"),
    "__int__": (int, "__int__ returned non-int (type {got})"),
    "__float__": (float, "{owner}.__float__ returned non-float (type {got})"),
    "__complex__": (complex, "__complex__ returned non-complex (type {got})"),
    "__bytes__": (bytes, "__bytes__ returned non-bytes (type {got})"),
    "__init__": (type(None), "__init__() should return None, not '{got}'"),
}
"""The type that Python requires of a method's result, and TypeError's message for another."""


def lacks(t: Tracer, owner: type, name: str) -> NoReturn:
    """Raise what Python does where it needs a method that the type has not."""
    message = LACKS.get(name)
    if message is None:
        t.raise_(AttributeError, f"'{type_name(owner)}' object has no attribute '{name}'")
    t.raise_(TypeError, message.format(type_name(owner)))


def checked(t: Tracer, owner: type, name: str, found: Value) -> Value:
    """The result of a method that Python called itself; raises what Python does for one of the wrong kind."""
    kind = found.python_type()
    if name in RETURNS:
        wanted, message = RETURNS[name]
        if not issubclass(kind, wanted):
            t.raise_(TypeError, message.format(owner=owner.__name__, got=kind.__name__))
        if name == "__hash__" and isinstance(found, Constant):
            number = int(found.value)
            in_range = number if -(1 << 63) <= number < 1 << 63 else hash(number)
            return Constant(-2 if in_range == -1 else in_range)
    elif name == "__iter__" and not t.is_iterator(found):
        t.raise_(TypeError, f"iter() returned non-iterator of type '{name_in_messages(kind)}'")
    elif name == "__len__":
        return _length(t, found)
    return found


def _length(t: Tracer, found: Value) -> Value:
    if not isinstance(found, Constant):
        if not issubclass(found.python_type(), int):
            found = Constant(t.index(found))
        elif t.truth(t.compare("<", found, Constant(0))):
            t.raise_(ValueError, "__len__() should return >= 0")
    if isinstance(found, Constant):
        number = t.index(found)
        if number < 0:
            t.raise_(ValueError, "__len__() should return >= 0")
        if number > sys.maxsize:
            t.raise_(OverflowError, "cannot fit 'int' into an index-sized integer")
        return Constant(number)
    return found
