"""What a trace relies on: guards, all of which are made here, and which numbers of the program it leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic

from explorer.compiler.capture.guards import IsObject, TypeIs
from explorer.compiler.capture.tape import Place
from explorer.core.origin import origins
from explorer.ir import capture as ir


class Assumptions:
    """The guards of one capture, whose name theirs begin with. `place` says where the program is."""

    def __init__(self, name: str, place: Callable[[], Place] | None = None) -> None:
        self.name = name
        self.made: dict[tuple[ir.Source, object], ir.Guard] = {}
        """What the trace relies on, by source and the key of the condition."""
        self._place = place

    def on(self, source: ir.Source | None, condition: ir.Condition, why: str, seen: str = "") -> None:
        """Rely on something; `why` says what for, `seen` what it is now where the condition does not. What has no
        source was made while tracing."""
        if source is None:
            return
        base = ir.root(source)
        if isinstance(base, ir.Known):
            if base.fixed or base is source and isinstance(condition, (IsObject, TypeIs)):
                return
        key = source, condition.key
        if key not in self.made:
            assert self._place is not None
            place = self._place()
            cause = ir.cause_of(origins(), place.span, place.step)
            self.made[key] = self.of(f"guard{len(self.made)}", source, condition, cause, why, seen)

    def of(
        self, name: str, source: ir.Source | None, condition: ir.Condition, cause: ir.Cause, why: str, seen: str = ""
    ) -> ir.Guard:
        """The one place where a guard is made."""
        return ir.Guard(f"{self.name}.{name}", source, condition, cause, why, seen)


class Numbers:
    """Decides from earlier compiles which numbers of the program may change without another compile."""

    def __init__(self, history: ir.FrameHistory, dynamic: bool | None, place: Callable[[], Place]) -> None:
        self.specialized: list[ir.Specialized] = []
        self._history = history
        self._dynamic = dynamic
        self._place = place

    def is_dynamic(self, source: ir.Source, value: int | float) -> bool:
        """Whether a number of the program may change without another compile: an integer then gets a symbol, and a
        float is computed with whatever its value. One that was seen to change is, and with dynamic=True any finite one.
        """
        if self._dynamic is False or isinstance(ir.root(source), ir.Known):
            return False
        all_are = bool(self._dynamic) and source.name not in self._history.sizes and math.isfinite(value)
        return all_are or self._history.changes(source.name, 0, value)

    def of_sizes(self, source: ir.Source, tensor: torch.Tensor) -> Sequence[DimDynamic]:
        """The sizes of an input that get a symbol: those that changed or that the program marked, with a symbol each;
        with dynamic=True all, and equal sizes share one. A parameter's sizes and sizes marked static get none."""
        sizes = tuple(tensor.shape)
        asked = self._dynamic is not False and not isinstance(tensor, torch.nn.Parameter)
        marked = _marks(tensor, "dynamic") | _marks(tensor, "weak_dynamic") | _marks(tensor, "unbacked")
        static = _marks(tensor, "static")
        wanted = []
        for dim, size in enumerate(sizes):
            changed = asked and self._history.changes(source.name, dim, *sizes)
            kind = DimDynamic.STATIC
            if dim in marked or changed and dim not in static:
                kind = DimDynamic.DYNAMIC
            elif asked and self._dynamic and dim not in static:
                kind = DimDynamic.DUCK
            if kind is not DimDynamic.STATIC and size in (0, 1):
                why = "0 and 1 are always constants: they broadcast"
                self.specialized.append(ir.Specialized(ir.Size(source, dim), size, why, self._place().step))
                kind = DimDynamic.STATIC
            wanted.append(kind)
        return wanted


def _marks(tensor: torch.Tensor, kind: str) -> frozenset[int]:
    """The dimensions that torch._dynamo.mark_dynamic and its like have marked."""
    return frozenset(getattr(tensor, f"_dynamo_{kind}_indices", ()))
