"""Why a frame is compiled again: the guard of each earlier compile that this call failed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Any

from explorer.ir import record as data
from explorer.stock.hook import Call, Hook, Watch
from explorer.stock.inputs import describe
from explorer.stock.observation import Compile, Observation

LONGEST = 80
"""Characters of a value."""
MODULE_GROUPS = ("_parameters", "_buffers", "_modules")

_REASON = re.compile(r"^(?P<id>\S+/\d+): (?P<text>.*)$", re.DOTALL)


def around_reasons(seen: Observation, call: Call) -> Iterator[None]:
    yield
    compile = seen.compile()
    for reason in call.result or ():
        found = _REASON.match(str(reason))
        text = found["text"] if found else str(reason)
        earlier = next((each for each in seen.earlier(compile) if found and each.torch_id == found["id"]), None)
        expression = text.partition("  # ")[0].strip()
        guard = _guard(earlier, expression) if earlier is not None else None
        compile.recompiles.append(
            data.RecompileData(
                earlier.id if earlier is not None else found["id"] if found else "",
                guard.id if guard is not None else "",
                guard.expression if guard is not None else expression,
                " ".join(text.partition("User stack trace:")[0].split()),
                value_of(guard.source, call.args[1]) if guard is not None else "",
            )
        )


def value_of(source: str, frame: Any) -> str:
    """What `source`, such as L['self'].step, is in a frame; "" where finding that out could run the program's code."""
    try:
        found = _look(ast.parse(source, mode="eval").body, {"L": frame.f_locals, "G": frame.f_globals})
    except (SyntaxError, LookupError, TypeError):
        return ""
    given = describe(source, found, "reached")
    if given.constant is not None:
        return shorten(given.constant.text, LONGEST, placeholder="...")
    if given.tensor is not None:
        return f"{given.tensor.dtype}{list(given.tensor.sizes)}"
    return f"{given.type.rpartition('.')[2]} of length {given.length}" if given.length is not None else given.type


def _look(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Follows names, items of plain containers and what objects hold themselves. Raises LookupError."""
    match node:
        case ast.Name(id=name):
            return names[name]
        case ast.Subscript(value=base, slice=ast.Constant(value=key)):
            held = _look(base, names)
            if isinstance(base, ast.Name) or type(held) in (dict, list, tuple):
                return held[key]
        case ast.Attribute(value=base, attr=name):
            owner = _look(base, names)
            for held in (vars(owner), *(vars(owner).get(group) for group in MODULE_GROUPS)):
                if isinstance(held, dict) and name in held:
                    return held[name]
    raise LookupError


def _guard(earlier: Compile, expression: str) -> data.GuardData | None:
    """The guard that a reason speaks of: by its text, or for "tensor 'x' size mismatch ..." by the tensor."""
    same = next((guard for guard in earlier.guards if expression in (guard.expression, _plain(guard.expression))), None)
    if same is not None:
        return same
    tensor = re.match(r"tensor '(?P<name>[^']+(?:'[^']*'[^']*)*)' ", expression)
    if tensor is None:
        return None
    names = {tensor["name"], f"L['{tensor['name']}']"}
    return next((guard for guard in earlier.guards if guard.property == "tensor" and guard.source in names), None)


def _plain(expression: str) -> str:
    """As torch shortens a check of a local's value: n == 2 for L['n'] == 2."""
    return re.sub(r"L\['(\w+)'\]", r"\1", expression)


HOOK = Hook(
    "recompiles",
    shows="for each recompile the guard of each earlier compile that failed, with the values",
    missing="recompiles without their reasons",
    checked=("2.11 CPU", "2.13 CPU"),
    watches=(Watch("torch._dynamo.convert_frame:get_and_maybe_log_recompilation_reasons", around_reasons),),
)
