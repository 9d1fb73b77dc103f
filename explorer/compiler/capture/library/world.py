"""What reads or changes the world outside of the function: output, context variables, exec, tracebacks."""

from __future__ import annotations

import builtins
import contextvars
import sys

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import UNSET, is_unset
from explorer.compiler.capture.rules import existing, positional
from explorer.compiler.capture.trampoline import as_it_was, traceback_of
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.core.reasons import unsupported

NONE = Constant(None)


@positional(print)
def _print(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Breaks: output shows real values, in order."""
    unsupported(reasons.PRINT)


@positional(contextvars.ContextVar.get)
def _context_get(t: Tracer, variable: Value, *default: Value) -> Value:
    """A context variable's value, guarded."""
    given = t.real_of(variable)
    source = variable.source or t.known_source(given)
    found = given.get(UNSET)
    if found is not UNSET:
        return t.wrap(t.returned(source, "get"), found)
    t.guard(source, is_unset(), "the context variable has no value")
    if not default:
        t.raise_value(LookupError, [variable])
    return default[0]


@positional(sys.exc_info)
def _exc_info(t: Tracer) -> Value:
    """The exception being handled, without its traceback, which only a real frame has."""
    error = t.handled()
    kind = NONE if error is None else t.from_python(error.python_type())
    return t.new_tuple([kind, error or NONE, NONE])


@positional(*existing(sys, "exception"))
def _exception(t: Tracer) -> Value:
    """The exception being handled."""
    return t.handled() or NONE


@positional(builtins.globals)
def _globals(t: Tracer) -> Value:
    """Of the function that asks."""
    return t.namespace(t.frames[-1].globals)


@positional(builtins.locals)
def _locals(t: Tracer) -> Value:
    """Of the function that asks."""
    return t.new_dict(t.bound_locals())


@positional(builtins.input, builtins.open, builtins.exec, builtins.eval,
            builtins.compile,
            builtins.breakpoint)  # fmt: skip
def _never(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Breaks."""
    unsupported(reasons.UNTRACEABLE_CALL, "a builtin that reads or changes the world")


@positional(traceback_of, as_it_was)
def _traceback(t: Tracer, *args: Value) -> Value:
    """Tracebacks are real frames' alone."""
    return NONE
