"""What reads or changes the world outside of the function: output, context variables, exec, tracebacks."""

from __future__ import annotations

import builtins
import contextvars
from typing import TYPE_CHECKING

from explorer.capture import reasons
from explorer.capture.onward import as_it_was, traceback_of
from explorer.capture.rules import positional
from explorer.capture.values.base import Value, unsupported
from explorer.capture.values.constant import Constant

if TYPE_CHECKING:
    from explorer.capture.tracer import Tracer

NONE = Constant(None)


@positional(print)
def _print(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Breaks: output shows real values, in order."""
    unsupported(reasons.PRINT)


@positional(contextvars.ContextVar.get)
def _context_get(t: Tracer, variable: Value, *default: Value) -> Value:
    """A context variable's value, guarded."""
    given = t.real_of(variable)
    try:
        found = given.get(*(t.constant_of(d) for d in default))
    except LookupError:
        t.raise_value(LookupError, [])
    if variable.source is not None:
        from_variable = t.returned(variable.source, "get")
        if not default:
            return t.wrap(from_variable, found)
    return t.from_python(found)


@positional(builtins.globals)
def _globals(t: Tracer) -> Value:
    """Of the function that asks."""
    return t.namespace(t.frames[-1].globals)


@positional(builtins.locals, builtins.input, builtins.open, builtins.exec, builtins.eval,
            builtins.compile,
            builtins.breakpoint)  # fmt: skip
def _never(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Breaks."""
    unsupported(reasons.UNTRACEABLE_CALL, "a builtin that reads or changes the world")


@positional(traceback_of, as_it_was)
def _traceback(t: Tracer, *args: Value) -> Value:
    """Tracebacks are real frames' alone."""
    return NONE
