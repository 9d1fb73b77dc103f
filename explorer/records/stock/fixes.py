"""What to do about a graph break, in words of our own. Where a setting of Dynamo does it, it can be tried."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch._dynamo import config

from explorer.records.stock.unsupported import Told

UNTRIED = "Fix (not tried): "
TRIED = "Fix (tried): "
KNOWN = "Known to help: "


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
_SETTING = re.compile(r"torch\._dynamo\.(?:config\.)?(?P<name>\w+)`?\s*(?:=|to)\s*`?(?P<value>True|False)\b")

FIXES: tuple[tuple[str, Fix], ...] = (
    ("Data-dependent branching on a size", Fix(
        "where one side is always taken, say so before the branch with torch._check; where either may be, torch.cond "
        "holds both"
    )),
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

_AFTER = "and it is called when the graph has run"
EFFECTS: Mapping[str, Fix] = {
    "print": Fix(
        "print after the compiled function; or put the function into "
        f"torch._dynamo.config.reorderable_logging_functions, {_AFTER}",
        {"reorderable_logging_functions": frozenset((print, warnings.warn))},
    ),
    "_warnings.warn": Fix(
        "warn before or after the call of the compiled function; or put warnings.warn into "
        f"torch._dynamo.config.reorderable_logging_functions, {_AFTER}",
        {"reorderable_logging_functions": frozenset((print, warnings.warn))},
    ),
}
CLOCK = Fix(
    "read the clock before and after the call of the compiled function: the lines of a graph do not run one by one, so "
    "that there is no time between two of them"
)
OTHERWISE = Fix("move the line out of the compiled function, before or after its call")
TORCHS_OWN = (
    "No change is needed: the line is torch's own, and breaks the graph on purpose. What stands before and after it is "
    "compiled."
)

AROUND: Mapping[str, str] = {
    "graph break in loop": "take the body of the loop out into a function of its own: Python then runs the loop, and "
    "Dynamo compiles what is before and after the break in the function at each turn",
    "Graph break under GenericContextWrappingVariable": "take the body of the with statement out into a function of "
    "its own, which Dynamo then compiles by itself",
}
"""What helps where a break takes its whole frame along, by the title of the break that it leads to."""


def fix_of(found: Told, statement: bool = False) -> Fix:
    """What to do about a break. `statement`: the line is a call whose result nothing uses, made for its effect."""
    own = _fix_of(found, statement)
    if own.settings or own.rewrites:
        return own
    named = (match for hint in found.hints for match in _SETTING.finditer(hint))
    settings = {match["name"]: match["value"] == "True" for match in named if hasattr(config, match["name"])}
    if not settings:
        return own
    set_to = " and ".join(f"torch._dynamo.config.{name} = {value}" for name, value in settings.items())
    words = f"set {set_to}" if own is OTHERWISE else f"{own.words}; or set {set_to}"
    return replace(own, words=words, settings=settings)


def _fix_of(found: Told, statement: bool) -> Fix:
    if (builtin := _BUILTIN.match(found.context)) is not None:
        name = builtin["name"]
        return EFFECTS.get(name) or _outside(f"{name}()")
    if (called := _CALLED.match(found.context)) is not None:
        name = f"{called['module']}.{called['name']}".removeprefix("<unknown module>.")
        if name in EFFECTS:
            return EFFECTS[name]
        if called["module"] == "time" and called["name"] != "sleep":
            return CLOCK
        if "C extension" in called["why"] and not statement:
            return Fix(
                f"call {name}() before the compiled function and pass the result in; where it takes tensors, register "
                "it with torch.library.custom_op, and the graph holds the call"
            )
        return _outside(f"{name}()")
    title = f"{found.title} on a size" if "SymNodeVariable" in found.context else found.title
    return next((fix for part, fix in FIXES if part in title), OTHERWISE)


def _outside(name: str) -> Fix:
    return Fix(f"call {name} before or after the call of the compiled function")
