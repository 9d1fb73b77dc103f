"""Symbolic sizes: where each comes from, what it may be, and what fixed it to a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explorer.ir import record as data
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation


def around_guards(seen: Observation, call: Call) -> Iterator[None]:
    output_graph = call.args[2] if len(call.args) > 2 else call.kwargs["output_graph"]
    yield
    environment = output_graph.shape_env
    if environment is None or call.error is not None:
        return
    compile = seen.compile()
    compile.symbols.clear()
    for symbol, value in environment.backed_var_to_val.items():
        sources = environment.var_to_sources.get(symbol, ())
        source = " and ".join(dict.fromkeys(_name(each) for each in sources))
        bounds = environment.var_to_range.get(symbol)
        allowed = f"{bounds.lower} to {bounds.upper}" if bounds is not None else ""
        fixed = environment.replacements.get(symbol)
        place = environment.replacements_slocs.get(symbol)
        why = _place(place) if fixed is not None else "not specialized by the program"
        status = "dynamic" if fixed is None else "specialised" if fixed.is_number else f"equal to {fixed}"
        hint = int(value) if value.is_number and value == int(value) else None
        compile.symbols.append(data.SymbolData(str(symbol), hint, source, allowed, status, why))


def _name(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)


def _place(place: Any) -> str:
    """The user's line where a size was fixed, and torch's where the user has none."""
    if place is None:
        return "torch records no source line"
    told = getattr(place, "maybe_user_loc", None)
    framework = getattr(place, "framework_loc", None)
    return str(told or framework or "torch records no source line")


HOOK = Hook(
    "symbols",
    shows="symbolic sizes with source, range, and the line that specialised one",
    missing="no symbolic sizes",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch("torch._dynamo.guards:CheckFunctionManager.__init__", around_guards),),
)
