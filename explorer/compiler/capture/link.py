"""LINK: fills the hole of the compiled bytecode with the compiled graph, and makes the guards' C++ checks."""

from __future__ import annotations

import inspect
import types
from dataclasses import replace
from typing import Any

from explorer.compiler.bytecode import build
from explorer.compiler.bytecode.encode import encode
from explorer.compiler.capture import guards, hook
from explorer.compiler.capture.called_by_bytecode import run_continuations
from explorer.compiler.capture.compiled_bytecode import COMPILED, FRAME, eagerly
from explorer.compiler.capture.resume import as_its_own_cells
from explorer.compiler.capture.shapes import of_compile
from explorer.core.recorder import recorder
from explorer.ir.bytecode import Code, Span
from explorer.ir.capture import Capture, Continued, FrameHistory, GuardedCode, Hole, Linking
from explorer.ir.settings import as_they_are

hook.unseen_by_stock(run_continuations)
hook.unseen_by_stock(eagerly)  # nor by us: only what it calls is to be looked at


def link(given: Linking) -> GuardedCode:
    """The code to run while the guards hold. A capture without compiled bytecode links to the frame as it is."""
    capture = given.capture
    assert capture.frame is not None
    if capture.fallback is not None:
        return GuardedCode(capture.name, None, (), breaks=capture.breaks, fallback=capture.fallback)
    relied = capture.guards
    if given.compiled is not None:
        relied = (*relied, *of_compile(capture, given.compiled.assumed))
    manager = guards.build(relied, capture.frame)
    history = continued(capture.frame.history.after(capture), capture)
    if capture.compiled_bytecode is None:
        return GuardedCode(capture.name, capture.frame.code, relied, manager, is_idle=True, history=history)
    filling: dict[str, Any] = {code.name: history.continuations[code.name].code for code in capture.continuations}
    if given.compiled is not None:
        current = recorder()
        call = given.compiled.call if current is None else current.timed(given.compiled.call)
        filling[COMPILED] = hook.unwatched(call, as_they_are())
        filling[FRAME] = positional(capture.frame.code)
    code = encode(as_its_own_cells(placed(fill(capture.compiled_bytecode, filling))))
    is_idle = capture.graph is None and not capture.breaks
    return GuardedCode(capture.name, code, relied, manager, capture.breaks, is_idle=is_idle, history=history)


def continued(history: FrameHistory, capture: Capture) -> FrameHistory:
    """`history` with the continuations of a capture; one that an earlier compile made stays, compiled as it is."""
    if not capture.continuations:
        return history
    new = (code for code in capture.continuations if code.name not in history.continuations)
    made = {code.name: Continued(encode(as_its_own_cells(code)), code, capture.name) for code in new}
    return replace(history, base=history.base or capture.code, continuations={**history.continuations, **made})


def positional(code: types.CodeType) -> types.CodeType:
    """A copy that takes each argument by position, that of * as a tuple and that of ** as a dict."""
    starred = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    count = code.co_argcount + code.co_kwonlyargcount + bin(code.co_flags & starred).count("1")
    return code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~starred
    )


def placed(code: Code) -> Code:
    """`code` with what has no source at the function's first line: a traceback through it has to name some line."""
    first = Span(code.filename, code.first_line, code.first_line)
    return replace(code, instructions=tuple(build.at(first, code.instructions)))


def fill(code: Code, filling: dict[str, Any]) -> Code:
    """`code` with each hole replaced by what `filling` has under its name. Raises KeyError for a name it lacks."""
    made = tuple(
        replace(i, arg=filling[i.arg.name]) if i.op == "LOAD_CONST" and isinstance(i.arg, Hole) else i
        for i in code.instructions
    )
    return replace(code, instructions=made)
