"""Torch's reasons for compiling a frame again, read: which guard of which earlier compile did not hold, and how."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from explorer.ir.dynamo_guards import in_words
from explorer.ir.record import RecompileData

_ID = re.compile(r"(!?\d+(?:/\d+){0,2}): ")
_STACK = "\nUser stack trace:"
_TENSOR = re.compile(r"(?:tensor|expected type of) '(.+?)' [^']*(?:mismatch|to be a tensor)")
_LOCAL = re.compile(r"L\[['\"]([^'\"]*)['\"]\]")


class Guard(Protocol):
    """What a guard is known by: as data, or as torch has it. `property` is our word or torch's ("TENSOR_MATCH")."""

    @property
    def id(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def expression(self) -> str: ...

    @property
    def property(self) -> str: ...


def recompiled(
    reason: str,
    earlier: Mapping[str, tuple[str, Sequence[Guard]]],
    value_of: Callable[[str], str] = lambda source: "",
) -> RecompileData:
    """A reason such as "3/0: len(xs) == 2  # for x in xs:". `earlier` gives, by what torch calls them, the id and the
    guards of the frame's compiles so far; `value_of` what a guard's source is at this call."""
    found = _ID.match(reason)
    torch_id, text = (found[1], reason[found.end() :]) if found else ("", reason)
    text = text.partition(_STACK)[0]
    id, guards = earlier.get(torch_id, (torch_id, ()))
    expression = text.partition("  # ")[0].strip()
    guard = failed(expression, guards)
    why = " ".join(text.split())
    if guard is None:
        return RecompileData(id, "", expression, why, words=in_words(expression))
    words = in_words(expression if "mismatch" in expression else guard.expression)
    return RecompileData(id, guard.id, guard.expression, why, value_of(guard.source), words)


def failed(expression: str, guards: Sequence[Guard]) -> Guard | None:
    """The guard that a reason speaks of: by its text, in which torch writes locals without L['...'], or for "tensor 'x'
    size mismatch ..." by the tensor."""
    plain = _without_locals(expression)
    same = next((guard for guard in guards if _without_locals(guard.expression) == plain), None)
    tensor = _TENSOR.match(expression)
    if same is not None or tensor is None:
        return same
    name = _without_locals(tensor[1])
    matches = (guard for guard in guards if guard.property in ("tensor", "TENSOR_MATCH"))
    return next((guard for guard in matches if _without_locals(guard.source) == name), None)


def _without_locals(expression: str) -> str:
    return _LOCAL.sub(r"\1", expression).strip()
