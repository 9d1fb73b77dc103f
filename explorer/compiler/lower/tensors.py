"""A tensor during lowering: elements still to be computed, a view of another tensor, or a place in memory.

Inductor: ir.py (TensorBox, StorageBox, View), with one class for what those nest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy
import torch

from explorer.core.origin import Origins, origin, origins
from explorer.ir.index import Point
from explorer.ir.loops import Expr, Layout, Size, View

Element: TypeAlias = Callable[[Point], Expr]
Restride: TypeAlias = Callable[[Layout], Layout | None]


@dataclass(eq=False)
class Tensor:
    """`element` gives the expression of the element at a point: a load, where `place` says that it is in memory.

    A view has its `base` and `restride`, which gives the view's layout from the base's (None where no strides can).
    `reads` are the buffers that computing an element loads, `weight` bounds the operations that takes. `stride` are
    eager's strides.
    """

    dtype: torch.dtype
    device: torch.device
    size: Point
    element: Element
    reads: frozenset[str] = frozenset()
    weight: int = 1
    stride: Point | None = None
    base: Tensor | None = None
    restride: Restride | None = None
    place: View | None = None
    origins: Origins = field(default_factory=origins)
    memo: dict[Point, Expr] = field(default_factory=dict)

    @property
    def numel(self) -> Size:
        return sympy.Mul(*self.size)

    def at(self, point: Point) -> Expr:
        """The element at `point`: loaded where the tensor is in memory, computed otherwise (once for each point)."""
        if self.in_memory():
            return self.element(point)
        found = self.memo.get(point)
        if found is None:
            with origin(*self.origins):
                found = self.memo[point] = self.element(point)
        return found

    def in_memory(self) -> bool:
        """Whether the tensor has a place; a view finds one as soon as its base has one and strides can describe it."""
        if self.place is None and self.restride is not None and self.base is not None and self.base.in_memory():
            assert self.base.place is not None and self.base.load is not None
            layout = self.restride(self.base.place.layout)
            if layout is None:
                self.restride = None
            else:
                self.put(View(self.base.place.buffer, layout), self.base.load)
        return self.place is not None

    load: Callable[[View, Point], Expr] | None = None

    def put(self, place: View, load: Callable[[View, Point], Expr]) -> None:
        """The tensor is in memory from now on."""
        self.place, self.load = place, load
        self.element = lambda point: load(place, point)
        self.reads, self.weight = frozenset({place.buffer}), 1
        self.memo.clear()

    @property
    def root(self) -> Tensor:
        """The tensor that this is a view of, through all views."""
        return self if self.base is None else self.base.root
