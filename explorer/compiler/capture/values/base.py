"""The base of all symbolic values, and how the evaluator signals a Python exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from explorer.compiler.capture import reasons
from explorer.core.reasons import Unsupported, Why
from explorer.ir.capture import Source

if TYPE_CHECKING:
    from explorer.compiler.capture.rebuild import Rebuilder
    from explorer.compiler.capture.tracer import Tracer


_HEAP_TYPE = 1 << 9
"""A flag of a type that no C code declares: its name is without its module."""


class NotConstant(Exception):
    """The value has no Python object that is known while tracing."""


class Unhashable(Exception):
    """The program hashes a value whose type has no hash: Python raises TypeError."""

    def __init__(self, kind: type) -> None:
        is_plain = kind.__flags__ & _HEAP_TYPE or kind.__module__ == "builtins"
        super().__init__(kind.__name__ if is_plain else f"{kind.__module__}.{kind.__name__}")


class Raised(Exception):
    """Traced code raised: `value` is the symbolic exception. Python's own exceptions are not used for this."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value


def type_name(cls: type) -> str:
    """What Python's own errors call a type: one written in C by its module too, except for builtins."""
    written_in_c = not cls.__flags__ & 1 << 9
    return f"{cls.__module__}.{cls.__qualname__}" if written_in_c and cls.__module__ != "builtins" else cls.__name__


def unsupported(code: str, detail: str = "") -> NoReturn:
    raise Unsupported(Why(code, detail))


class Value:
    """A value of the traced program. `source` says where to find it at entry; None for values made while tracing.

    Each method is one operation of Python's data model with `t`, the tracer, beside it; the default is a refusal, which
    breaks the graph. Stock counterpart: VariableTracker.
    """

    source: Source | None = None
    compared = False
    """Whether the trace relies on which object it is: another input that was another object has to be one again."""

    def python_type(self) -> type:
        raise NotImplementedError(type(self).__name__)

    def constant(self) -> Any:
        """The Python object, where it is known and immutable (containers of such: rebuilt). Raises NotConstant."""
        raise NotConstant(self)

    def real(self) -> Any:
        """The live Python object behind the value, mutable or not. Raises NotConstant where there is none."""
        return self.constant()

    def number(self, t: Tracer) -> Any:
        """Python's number for a scalar of NumPy's, None for other values."""
        return None

    def as_tensor(self, t: Tracer) -> Value | None:
        """The tensor that indexing takes an array of NumPy's for, None for other values."""
        return None

    def key(self) -> Any:
        """A Python object that stands for the value as a dictionary key: equal where the values would be."""
        try:
            return self.constant()
        except NotConstant:
            unsupported(reasons.OPERATION, f"hash of {self.describe()}")

    def get_attr(self, t: Tracer, name: str) -> Value:
        unsupported(reasons.ATTRIBUTE, f"{self.describe()}.{name}")

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        """Set, or with None delete, an attribute."""
        unsupported(reasons.ATTRIBUTE, f"setting {self.describe()}.{name}")

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        unsupported(reasons.UNTRACEABLE_CALL, self.describe())

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call a method that the type implements in C (one written in Python is looked up and inlined instead)."""
        unsupported(reasons.OPERATION, f"{self.describe()}.{name}()")

    def truth(self, t: Tracer) -> bool:
        return True

    def iterate(self, t: Tracer) -> Value:
        """The iterator over the value: a value with `next`."""
        unsupported(reasons.OPERATION, f"iteration over {self.describe()}")

    def next(self, t: Tracer) -> Value | None:
        """The next item of an iterator, None when it is exhausted."""
        unsupported(reasons.OPERATION, f"next() of {self.describe()}")

    def get_item(self, t: Tracer, key: Value) -> Value:
        unsupported(reasons.OPERATION, f"{self.describe()}[...]")

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        """Set, or with None delete, an item."""
        unsupported(reasons.OPERATION, f"setting an item of {self.describe()}")

    def contains(self, t: Tracer, item: Value) -> bool:
        iterator = t.iterate(self)
        while (other := iterator.next(t)) is not None:
            if t.same_or_equal(other, item):
                return True
        return False

    def length(self, t: Tracer) -> Value:
        unsupported(reasons.OPERATION, f"len of {self.describe()}")

    def rebuild(self, r: Rebuilder) -> None:
        """Emit instructions that push the Python object this value stands for. `source` has been tried already."""
        unsupported(reasons.NOT_REBUILT, self.describe())

    def shown(self) -> Value | str:
        """What a recorded step keeps of the value: itself, or its description now, where that may change."""
        return self

    def describe(self) -> str:
        """The value in a message or a step's stack: short."""
        name = self.source.name if self.source is not None else ""
        return f"{self.python_type().__name__} {name}".rstrip()
