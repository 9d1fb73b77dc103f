"""What to do about a graph break, in words of our own. Where a setting of Dynamo does it, it can be tried."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.stock.unsupported import Told

UNTRIED = "Fix, untried: "
TRIED = "Fix, tried: "


@dataclass(frozen=True)
class Fix:
    """`settings` of `torch._dynamo.config` make it; a set is added to. `rewrites`: a change of the source makes it,
    where the branch is simple enough. Where neither is, only a person can."""

    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rewrites: bool = False


LOGGING = frozenset(
    getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error", "critical", "exception", "log")
)

_CALLED = re.compile(r"module: (?P<module>[^,]*), qualname: (?P<name>[^,]*), skip reason: (?P<why>.*)", re.DOTALL)
_BUILTIN = re.compile(r"builtin (?P<name>\w+) ")

FIXES: tuple[tuple[str, Fix], ...] = (
    ("Data-dependent branching", Fix(
        "compute both sides and choose with torch.where; or give both to torch.cond, where only one may run",
        rewrites=True,
    )),
    ("Unsupported Tensor.item()", Fix(
        "leave the value a tensor; or set torch._dynamo.config.capture_scalar_outputs, and the graph holds the number",
        {"capture_scalar_outputs": True},
    )),
    ("Dynamic shape operator", Fix(
        "use a form whose result has a fixed size (torch.where with a mask, say); or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops, and the graph holds the size as a symbol",
        {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True},
    )),
    ("logging.Logger method", Fix(
        "log outside of the compiled function; or put the method into torch._dynamo.config.ignore_logging_functions, "
        "and the compiled code logs nothing there",
        {"ignore_logging_functions": LOGGING},
    )),
    ("numpy function", Fix(
        "use the torch function of the same meaning; or call NumPy before the compiled function and pass the result in"
    )),
    ("Unsupported context manager", Fix("enter it outside, around the call of the compiled function")),
    ("copy.deepcopy", Fix("copy a tensor with its clone(), and other objects before the compiled function")),
    ("tp_iter", Fix("take the values before the compiled function, or make it a list, and pass that in")),
    ("torch.jit.script", Fix("compile the module as it was before torch.jit.script")),
    ("Data-dependent assertion", Fix("check with torch._assert or torch._check, which the graph can hold")),
)  # fmt: skip
"""By a part of the break's title."""

PRINT = Fix(
    "print after the compiled function; or put the function into torch._dynamo.config.reorderable_logging_functions, "
    "and it is called when the graph has run",
    {"reorderable_logging_functions": frozenset((print, warnings.warn))},
)
OTHERWISE = Fix(
    "move the line out of the compiled function; or put it into a function of its own under torch.compiler.disable, "
    "where the break costs least"
)


def fix_of(found: Told) -> Fix:
    """What to do about a break."""
    if (builtin := _BUILTIN.match(found.context)) is not None:
        name = builtin["name"]
        return PRINT if name == "print" else _outside(f"{name}()")
    if (called := _CALLED.match(found.context)) is not None:
        name = f"{called['module']}.{called['name']}()"
        if "C extension" in called["why"]:
            return Fix(
                f"call {name} before the compiled function and pass the result in; or register it with "
                "torch.library.custom_op, and the graph holds the call"
            )
        return _outside(name)
    return next((fix for part, fix in FIXES if part in found.title), OTHERWISE)


def _outside(name: str) -> Fix:
    return Fix(f"call {name} outside of the compiled function, or write what it does in operators of torch")
