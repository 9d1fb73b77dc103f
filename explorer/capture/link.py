"""LINK: fills the hole of the residual code with the compiled graph, and makes the guards' C++ checks."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

from explorer.bytecode.encode import encode
from explorer.capture import guards, hook
from explorer.capture.residual import COMPILED
from explorer.ir.bytecode import Code
from explorer.ir.capture import Capture, GuardedCode, Hole, Linking


def link(given: Linking) -> GuardedCode:
    """The code to run while the guards hold. A capture without residual code links to the frame as it is."""
    capture = given.capture
    assert capture.frame is not None
    if capture.fallback is not None:
        return GuardedCode(capture.name, None, (), breaks=capture.breaks, fallback=capture.fallback)
    manager = guards.build(capture.guards, capture.frame)
    capture.frame.history.note_sizes(capture)
    if capture.residual is None:
        return GuardedCode(capture.name, capture.frame.code, capture.guards, manager)
    filling: dict[str, Any] = {name: code for name, code in _continuations(capture).items()}
    if given.compiled is not None:
        filling[COMPILED] = hook.unwatched(given.compiled.call)
    code = encode(fill(capture.residual, filling))
    return GuardedCode(capture.name, code, capture.guards, manager, capture.breaks)


def _continuations(capture: Capture) -> dict[str, types.CodeType]:
    """Code objects of the continuations; one that an earlier compile made is used again, compiled as it is."""
    assert capture.frame is not None
    history = capture.frame.history
    history.base = history.base or capture.code
    kept = history.continuations
    for code in capture.continuations:
        if code.name not in kept:
            kept[code.name] = (encode(code), code)
    return {code.name: kept[code.name][0] for code in capture.continuations}


def fill(code: Code, filling: dict[str, Any]) -> Code:
    """`code` with each hole replaced by what `filling` has under its name. Raises KeyError for a name it lacks."""
    made = tuple(
        replace(i, arg=filling[i.arg.name]) if i.op == "LOAD_CONST" and isinstance(i.arg, Hole) else i
        for i in code.instructions
    )
    return replace(code, instructions=made)
