"""Symbolic sizes and what is computed from them. Stock counterpart: variables/tensor.py, SymNodeVariable."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Equals
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.core.reasons import unsupported
from explorer.ir.capture import Source

_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def is_unbacked(number: Any) -> bool:
    """Whether no input determines the symbolic number."""
    return isinstance(number, tuple(_TYPES)) and bool(free_unbacked_symbols(number))


class SizeValue(Value):
    """A number, known for the traced inputs, that the graph keeps symbolic. Asking for its value adds a shape guard."""

    def __init__(self, sym: torch.SymInt | torch.SymFloat | torch.SymBool, source: Source | None = None) -> None:
        self.sym = sym
        self.source = source

    def python_type(self) -> type:
        return _TYPES[type(self.sym)]

    def truth(self, t: Tracer) -> bool:
        return bool(t.specialise(self, bool))

    def key(self) -> Any:
        return self.python_type()(self.sym)  # a number from here on: ShapeEnv guards on it

    def get_attr(self, t: Tracer, name: str) -> Value:
        if not callable(getattr(self.python_type(), name, None)):
            return t.get_attr(t.from_python(t.specialise(self, self.python_type())), name)
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.from_python(t.specialise(self, self.python_type())).method(t, name, args, kwargs)

    def reconstruct(self, r: Reconstructor) -> None:
        r.size(self.sym)

    def shown(self, depth: int = 2) -> str:
        return self.describe()  # ShapeEnv may come to know the number

    def describe(self) -> str:
        return f"size {self.sym}"


class NumberValue(SizeValue):
    """A number that only the graph knows: the node that yields it."""

    def __init__(self, sym: torch.SymInt | torch.SymFloat | torch.SymBool, node: fx.Node) -> None:
        super().__init__(sym)
        self.node = node

    def key(self) -> Any:
        unsupported(reasons.ITEM, f"hash of {self.describe()}")

    def reconstruct(self, r: Reconstructor) -> None:
        r.output(self.node)

    def describe(self) -> str:
        return f"number {self.node.name}"


class FloatValue(Value):
    """A float that the frame was given, or that Python makes of such: any number will do until Python needs this one.

    The graph takes it as a tensor of no dimension, float64. Stock: specialize_float=False.
    """

    def __init__(self, value: float, source: Source, asked: Tracer) -> None:
        self.value = value
        self.source: Source = source
        self.asked = asked

    def python_type(self) -> type:
        return float

    def known(self, t: Tracer) -> float:
        t.guard(self.source, Equals(self.value), "Python computed with the number, or branched on it")
        return self.value

    def number(self, t: Tracer) -> Any:
        return self.known(t)

    def truth(self, t: Tracer) -> bool:
        return t.truth(t.computed(bool, self))

    def key(self) -> Any:
        return self.known(self.asked)

    def get_attr(self, t: Tracer, name: str) -> Value:
        if not callable(getattr(float, name, None)):
            return t.get_attr(t.from_python(self.known(t)), name)
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return t.from_python(self.known(t)).method(t, name, args, kwargs)

    def describe(self) -> str:
        return f"float {self.source.name}"
