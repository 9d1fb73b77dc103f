"""Which part of the compiler handles an ATen operator: exactly one does. The stock counterparts are
torch/_inductor/decomposition.py and lowering.py, where an operator may be in both and the order of the tables decides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

import torch

from explorer.compiler.autograd.decompositions import DECOMPOSITIONS, decompositions
from explorer.compiler.lower.extern import why_library
from explorer.compiler.lower.table import LOWERINGS, VIEWS
from explorer.core.reasons import CATALOGUE

Kind = Literal["composite", "torch decomposition", "decomposition", "lowering", "view", "library call"]
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd

MEANINGS: dict[Kind, str] = {
    "composite": "torch's dispatcher breaks it into other operators before TRACE sees it",
    "torch decomposition": "TRACE applies torch's decomposition",
    "decomposition": "TRACE applies a decomposition of this package",
    "lowering": "LOWER turns it into loops",
    "view": "LOWER reads its input with another shape or strides; nothing is copied",
    "library call": "a kernel of torch's library computes it",
}


@dataclass(frozen=True)
class OperatorHandler:
    """What handles `operator` (an overload, "aten.add.Tensor"), in which `function` of which `file`:`line`. `about` is
    what the function says of itself, or why a library call is made."""

    operator: str
    kind: Kind
    function: str = ""
    file: str = ""
    line: int = 0
    about: str = ""
    unless: str = ""
    """For which calls of it a library call is made all the same."""

    @property
    def by(self) -> str:
        return f"{self.kind}; library call for {self.unless}" if self.unless else self.kind

    @property
    def place(self) -> str:
        return f"{self.function}  {self.file}:{self.line}" if self.file else self.function


def handler(operator: torch._ops.OpOverload) -> OperatorHandler:
    """What handles one overload on tensors of real numbers. Of complex ones, torch's decompositions apply only where
    the operator has no kernel, and what would be a lowering is a library call."""
    for kind, table in _TABLES.items():
        if (rule := table().get(operator)) is not None:
            return OperatorHandler(str(operator), kind, *_defined(rule), _first_line(rule), getattr(rule, "unless", ""))
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), COMPOSITE):
        return OperatorHandler(str(operator), "composite")
    return OperatorHandler(str(operator), "library call", about=CATALOGUE[why_library(operator)].title)


def handlers() -> list[OperatorHandler]:
    """What handles each functional operator that some table of this package names, by name."""
    known = {each for table in _TABLES.values() for each in table() if not each._schema.is_mutable}
    return sorted(map(handler, known), key=lambda h: h.operator)


def library_calls() -> list[OperatorHandler]:
    """Each functional operator that nothing here handles: a library call."""
    found = map(handler, _functional())
    return sorted((each for each in found if each.kind == "library call"), key=lambda h: h.operator)


def named(name: str) -> list[OperatorHandler]:
    """What handles the overloads of the operators called `name` ("softmax", "aten.add", "_softmax.default"); the
    underscores before a name do not count. Where there is none, those whose names contain it."""
    wanted = name.replace("::", ".").removeprefix("torch.").removeprefix("ops.").removeprefix("aten.").strip("_")
    base, _, overload = wanted.partition(".")
    operators = list(_functional())
    found = [each for each in operators if _base(each) == base and overload in ("", each._overloadname)]
    found = found or [each for each in operators if base and base in _base(each)]
    return sorted((handler(each) for each in found), key=lambda h: h.operator)


_TABLES: dict[Kind, Callable[[], Mapping[torch._ops.OpOverload, Callable[..., Any]]]] = {
    "decomposition": lambda: DECOMPOSITIONS,
    "torch decomposition": decompositions,  # with ours, which are found above
    "view": lambda: VIEWS,
    "lowering": lambda: LOWERINGS,
}


def _functional() -> Iterator[torch._ops.OpOverload]:
    """ATen's functional overloads: TRACE turns the others (in place, `out=`) into these."""
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        packet, _, overload = name.partition(".")
        if namespace == "aten":
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if operator is not None and not operator._schema.is_mutable:
                yield operator


def _base(operator: torch._ops.OpOverload) -> str:
    return str(operator._overloadpacket.__name__).strip("_")


def _defined(rule: Callable[..., object]) -> tuple[str, str, int]:
    """The function, its file and its line; torch may decompose an operator by another operator."""
    rule = inspect.unwrap(rule)
    if not isinstance(rule, FunctionType):
        return str(rule), "", 0
    code = rule.__code__
    parts = Path(code.co_filename).parts
    start = max(n for n, part in enumerate(parts) if part in ("explorer", "torch"))
    return rule.__name__, "/".join(parts[start:]), code.co_firstlineno


def _first_line(rule: Callable[..., object]) -> str:
    return (rule.__doc__ or "").strip().split("\n")[0] if rule.__module__.startswith("explorer") else ""
