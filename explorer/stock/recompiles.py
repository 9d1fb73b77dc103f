"""Why a frame is compiled again: the guard of each earlier compile that this call failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from explorer.ir import record as data
from explorer.stock.hook import Call, Hook, Watch
from explorer.stock.observation import Compile, Observation

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
                " ".join(text.split()),
            )
        )


def _guard(earlier: Compile, expression: str) -> data.GuardData | None:
    """The guard that a reason speaks of: by its text, or for "tensor 'x' size mismatch ..." by the tensor."""
    same = next((guard for guard in earlier.guards if guard.expression == expression), None)
    if same is not None:
        return same
    tensor = re.match(r"tensor '(?P<name>[^']+(?:'[^']*'[^']*)*)' ", expression)
    if tensor is None:
        return None
    names = {tensor["name"], f"L['{tensor['name']}']"}
    return next((guard for guard in earlier.guards if guard.property == "tensor" and guard.source in names), None)


HOOK = Hook(
    "recompiles",
    shows="for each recompile the guard of each earlier compile that failed, with the values",
    missing="recompiles without their reasons",
    checked=("2.11 CPU", "2.13 CPU"),
    watches=(Watch("torch._dynamo.convert_frame:get_and_maybe_log_recompilation_reasons", around_reasons),),
)
